//! How the conversation gets shorter: notes asked for and given, messages and results left out.

use super::messages::pass_on_steering;
use super::{Illegal, illegal, spend, trust, turn};
use crate::agent::compaction::OVERFLOWS_MAX;
use crate::agent::conversation::{Kind, Worth};
use crate::agent::event::{CallId, Usage};
use crate::agent::skills::is_kept;
use crate::agent::state::{Phase, State};

/// What follows from a request that was refused as too long: something goes, and it is tried again, a few times.
pub(super) fn too_long(state: &mut State, message: &str) -> Result<Phase, Illegal> {
    state.conversation.overflowed();
    let turn = turn(state)?;
    turn.overflows += 1;
    if turn.overflows > OVERFLOWS_MAX {
        return Ok(Phase::Failed(message.to_owned()));
    }
    turn.round -= 1; // the same round again
    Ok(Phase::TooLong(message.to_owned()))
}

pub(super) fn ask_summary(state: &mut State, messages: usize) -> Result<(), Illegal> {
    let turn = turn(state)?;
    let (Phase::Ready | Phase::TooLong(_)) = turn.phase else {
        return illegal("notes are asked for within a round");
    };
    turn.phase = Phase::Summarising(messages);
    Ok(())
}

pub(super) fn give_summary(
    state: &mut State,
    text: &str,
    usage: Usage,
    cost_micros: Option<u64>,
) -> Result<(), Illegal> {
    let turn = turn(state)?;
    let Phase::Summarising(messages) = turn.phase else {
        return illegal("notes that nobody asked for");
    };
    let notes = Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    turn.phase = Phase::Summarised(messages, notes);
    spend(state, usage, cost_micros)
}

pub(super) fn compact(
    state: &mut State,
    messages: usize,
    digest: &str,
    results: &[CallId],
) -> Result<(), Illegal> {
    let turn = turn(state)?;
    let notes = match (&mut turn.phase, messages) {
        (Phase::Ready | Phase::TooLong(_), 0) => None,
        (Phase::Summarised(asked, notes), messages) if *asked == messages => notes.take(),
        _ => return illegal("messages are left out that nobody asked notes for"),
    };
    turn.phase = Phase::Ready;
    for call in results {
        if !state.conversation.refer(call) {
            return illegal(format!("call {call} has no result to leave out"));
        }
    }
    let gone = state.conversation.kinds().get(..messages);
    if gone.is_some_and(|kinds| kinds.contains(&Kind::Brief)) {
        trust::forget(state);
    }
    if messages > 0
        && !state
            .conversation
            .digest(messages, digest, notes.as_deref())
    {
        return illegal(format!("no {messages} messages can be left out"));
    }
    keep_skills(state, digest);
    pass_on_steering(state);
    Ok(())
}

/// A skill that is not before the model any more can be loaded again.
fn keep_skills(state: &mut State, digest: &str) {
    let State {
        skills,
        conversation,
        ..
    } = state;
    let is_there = |call: &CallId| {
        let result = Kind::Result {
            call: call.clone(),
            worth: Worth::Skill,
        };
        conversation.kinds().contains(&result)
    };
    skills.retain(|name, call| is_there(call) || is_kept(digest, name));
}
