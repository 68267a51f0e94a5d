//! Damage: what a session makes of lines of its own that were lost, of another journal's, and of `/audit`.

use super::messages::{pass_on_steering, unread};
use super::outbox::{notice, say};
use super::{Illegal, carry, checkpoints, errands, graphs};
use crate::agent::conversation::Words;
use crate::agent::event::OutgoingKind;
use crate::agent::state::{Pending, Phase, Stage, State, Stop};
use crate::agent::wording;

/// Lines that are gone from a journal.
pub(super) struct Lost<'a> {
    pub lines: u64,
    pub bytes: u64,
    /// Where they are kept.
    pub file: &'a str,
}

/// Goes on from the good part. Whatever could have happened in the lines that are gone may have happened: every call
/// that had not ended is in doubt, every message may have been sent, and the model is told.
pub(super) fn lose_tail(state: &mut State, lost: Lost<'_>) {
    // Names of calls stay unique: rounds of the lost lines, at most one each, used the next ones.
    let skipped = u32::try_from(lost.lines).unwrap_or(u32::MAX);
    state.rounds = state.rounds.saturating_add(skipped);
    checkpoints::interrupt(state);
    errands::interrupt(state);
    state.worktrees.begin_anew();
    // What the person meant then may be something else now.
    if state.checkpoints.puts_back() {
        state.checkpoints.wish = None;
        let why = state.texts.say("undo_lost", &[]);
        notice(state, "undo_failed", &[("why", &why)]);
    }
    carry::forget(state);
    graphs::lose(state);
    let repeated = state.texts.say("repeated", &[]);
    for message in &mut state.outbox {
        message.due = None;
        message.repeat(&repeated);
    }
    if let Some(turn) = &mut state.turn {
        match &mut turn.phase {
            Phase::Calls(calls) => calls.iter_mut().for_each(doubt),
            Phase::Asking => {
                turn.phase = Phase::Ready;
                turn.round = turn.round.saturating_sub(1);
            }
            // Notes are asked for again, and that something is too long is known.
            Phase::TooLong(_) | Phase::Drafting | Phase::Summarising(_) | Phase::Summarised(..) => {
                turn.phase = Phase::Ready;
            }
            Phase::Ready | Phase::Answered(_) | Phase::Failed(_) | Phase::Limited(_) => {}
        }
        let ends = matches!(
            turn.phase,
            Phase::Answered(_) | Phase::Failed(_) | Phase::Limited(_)
        );
        turn.interrupted = turn.stop == Stop::No && !ends;
    }
    let (lines, bytes) = (lost.lines.to_string(), lost.bytes.to_string());
    let values = [
        ("lines", lines.as_str()),
        ("bytes", &bytes),
        ("file", lost.file),
    ];
    notice(state, "good_prefix", &values);
    let lost = Words::text(wording::lines_lost(lost.lines));
    state.steering.push(lost);
    let between = |phase: &Phase| matches!(phase, Phase::Ready);
    if state.turn.as_ref().is_none_or(|turn| between(&turn.phase)) {
        pass_on_steering(state);
    }
}

fn doubt(pending: &mut Pending) {
    let facts = match &pending.stage {
        // Words reach nobody but the model: asked again, or there already.
        Stage::Finished(_) | Stage::Listening | Stage::Heard(_) => return,
        Stage::Examined(facts)
        | Stage::Judged(facts, _)
        | Stage::Running(facts)
        | Stage::InDoubt(facts, _) => facts.clone(),
        Stage::Proposed | Stage::Waiting(_) => Default::default(),
    };
    pending.stage = Stage::InDoubt(facts, None);
    if let Some(expect) = &mut pending.expect
        && let Some(boot) = &mut expect.spool
    {
        // It may have ended in the lost lines, and its spool was removed then: that none is there proves nothing.
        boot.clear();
    }
    pending.ticket = None;
    pending.may_have_run = true;
}

/// The answer to `/audit`.
pub(super) fn tell_chain(
    state: &mut State,
    message: &str,
    lines: u64,
    head: &str,
    damage: Option<&str>,
) -> Result<(), Illegal> {
    unread(state, message)?;
    let lines = lines.to_string();
    let values = [
        ("lines", lines.as_str()),
        ("head", head),
        ("what", damage.unwrap_or_default()),
        ("session", &state.opening.session),
    ];
    let text = match damage {
        None => state.texts.say("audit", &values),
        Some(_) => state.texts.say("audit_damaged", &values),
    };
    say(state, OutgoingKind::Notice, text);
    Ok(())
}
