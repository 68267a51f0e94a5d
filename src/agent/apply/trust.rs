//! Trust in the workspace, and what the model is told of its own files.

use super::errands::met;
use super::outbox::{notice, say};
use super::{Illegal, illegal};
use crate::agent::brief::{Brief, Briefing};
use crate::agent::event::OutgoingKind;
use crate::agent::state::{ErrandWish, State};
use crate::agent::trust::TrustAnswer;
use crate::agent::wording;

pub(super) fn answer(state: &mut State, answer: &TrustAnswer) -> Result<(), Illegal> {
    let ErrandWish::Trust(_) = met(state)? else {
        return illegal("an answer about trust that nobody asked for");
    };
    let text = wording::trust_answer(&state.texts, answer);
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
    *briefing = Briefing {
        brief: brief.clone(),
        due: false,
    };
    if !text.is_empty() {
        state.conversation.brief(text);
    }
    Ok(())
}

/// A turn begins, in a session that may be old: the files may say something else by now.
pub(super) fn begin_turn(state: &mut State) {
    let (is_first, scheduled) = (state.rounds == 0, state.opening.scheduled.is_some());
    let Some(briefing) = &mut state.briefing else {
        return;
    };
    briefing.due |= briefing.brief.trusted && !is_first;
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
    }
}
