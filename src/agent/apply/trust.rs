//! Trust in the workspace, and what the model is told of its own files.

use super::errands::met;
use super::outbox::{notice, say};
use super::{Illegal, illegal, roles};
use crate::agent::brief::{Brief, Briefing, TOUCHED_MAX};
use crate::agent::event::{Call, Outcome, OutgoingKind};
use crate::agent::state::{ErrandWish, State};
use crate::agent::trust::TrustAnswer;
use crate::agent::wording;
use crate::gate::Touch;
use crate::tools;

pub(super) fn answer(state: &mut State, answer: &TrustAnswer) -> Result<(), Illegal> {
    let ErrandWish::Trust(_) = met(state)? else {
        return illegal("an answer about trust that nobody asked for");
    };
    let mut text = wording::trust_answer(&state.texts, answer);
    if let TrustAnswer::Revoked { .. } = answer
        && let Some(agent) = roles::distrust(state)
    {
        let ended = state.texts.say("trust_agent_ended", &[("agent", &agent)]);
        text = format!("{text}\n{ended}");
    }
    say(state, OutgoingKind::Notice, text);
    match answer {
        TrustAnswer::Trusted { .. } | TrustAnswer::Revoked { .. } => {
            state.briefing.get_or_insert_with(Briefing::default).due = true;
            // A turn that is under way goes on with what it offers.
            state.mcp.get_or_insert_default();
        }
        TrustAnswer::Shown { .. }
        | TrustAnswer::Differs { .. }
        | TrustAnswer::NotTrusted { .. }
        | TrustAnswer::Refused { .. } => {}
    }
    Ok(())
}

/// Appended, so that the conversation only grows at its end; looked for only where no call waits for its result.
pub(super) fn see(state: &mut State, brief: &Brief, text: &str) -> Result<(), Illegal> {
    let Some(briefing) = state.briefing.as_mut().filter(|known| known.due) else {
        return illegal("nobody asked for the workspace's own files");
    };
    briefing.brief = brief.clone();
    briefing.due = false;
    briefing.fresh.clear();
    if !text.is_empty() {
        state.conversation.brief(text);
    }
    Ok(())
}

/// A turn begins, in a session that may be old: the files may say something else by now.
pub(super) fn begin_turn(state: &mut State) {
    roles::begin_turn(state);
    let (is_first, scheduled) = (state.rounds == 0, state.opening.scheduled.is_some());
    let Some(briefing) = &mut state.briefing else {
        return;
    };
    briefing.due |= briefing.brief.may_change() && !is_first;
    if is_first
        && !scheduled
        && let Some(names) = briefing.brief.withheld()
    {
        notice(state, "files_withheld", &[("names", &names)]);
    }
}

/// What the model was told of the files since the session began was left out: only the system prompt says something now.
pub(super) fn forget(state: &mut State) {
    if let Some(briefing) = &mut state.briefing {
        briefing.brief = state.opening.brief.clone().unwrap_or_default();
        briefing.due = true;
        // What applies to single files is told again when one of them is touched again.
        briefing.touched.clear();
        briefing.fresh.clear();
    }
}

/// A call read or changed files: what applies to these may have to be told.
pub(super) fn touch(state: &mut State, call: &Call, outcome: &Outcome) {
    let Some(briefing) = state
        .briefing
        .as_mut()
        .filter(|known| known.brief.is_scoped())
    else {
        return;
    };
    let declared = || (tools::find(&call.tool)?.touches)(&call.json().ok()?).ok();
    let declared = declared()
        .unwrap_or_default()
        .into_iter()
        .filter_map(Touch::into_path);
    let changed = outcome.changes.iter().map(|change| change.path.clone());
    for path in declared.chain(changed) {
        if briefing.touched.len() < TOUCHED_MAX && briefing.touched.insert(path.clone()) {
            briefing.fresh.push(path);
            briefing.due = true;
        }
    }
}
