//! A turn that is about a question of the person's: its one call, and what becomes of the answer.

use super::graphs::{begin, call as begin_round, hear_steering};
use super::{Illegal, fresh, illegal, turn};
use crate::agent::asking::{self, Asked, TOOL};
use crate::agent::event::{By, Call, EndReason, Status};
use crate::agent::state::{Pending, Phase, Stage, State, Stop};
use crate::subagent::answer;

pub(super) fn ask(
    state: &mut State,
    by: &By,
    sources: &[String],
    question: &str,
) -> Result<(), Illegal> {
    begin(state, by)?;
    state.unanswered = None;
    turn(state)?.asks = Some(Asked {
        sources: sources.to_vec(),
        question: question.to_owned(),
        heard: None,
    });
    Ok(())
}

pub(super) fn call(state: &mut State, call: &Call) -> Result<(), Illegal> {
    let turn = turn(state)?;
    match turn.phase {
        Phase::Ready if turn.asks.is_some() && call.tool == TOOL => {
            begin_round(state, vec![fresh(call)])
        }
        _ => illegal("sources are asked about out of turn"),
    }
}

/// What the call says is the end of the turn. One that was stopped ends as such.
pub(super) fn close_round(state: &mut State, calls: Vec<Pending>) {
    let Some(turn) = &mut state.turn else { return };
    let outcome = calls.into_iter().find_map(|pending| match pending.stage {
        Stage::Finished(outcome) => Some(outcome),
        _ => None,
    });
    let (Some(outcome), Some(asked)) = (outcome, &mut turn.asks) else {
        return;
    };
    let is_answer = outcome.status == Status::Done;
    turn.phase = match answer::inner(&outcome.output).filter(|_| is_answer) {
        _ if turn.stop != Stop::No => Phase::Ready,
        Some(text) => Phase::Answered(text.to_owned()),
        None => Phase::Failed(outcome.output.clone()),
    };
    asked.heard = Some(outcome.output);
}

/// The model reads what was asked and answered before anything else is said. What has no answer can be asked again.
pub(super) fn end_turn(state: &mut State, asks: Option<Asked>, reason: EndReason) {
    state.unanswered = None;
    let Some(asked) = asks else { return };
    state.conversation.user(&asking::for_model(&asked));
    let again = Asked {
        heard: None,
        ..asked
    };
    state.unanswered = (reason != EndReason::Done).then_some(again);
    hear_steering(state, reason);
}

/// Goes on with what the last turn got no answer to.
pub(super) fn take_up(state: &mut State) {
    let asked = state.unanswered.take();
    if let Some(turn) = &mut state.turn {
        turn.asks = asked;
    }
}
