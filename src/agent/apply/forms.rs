//! What an MCP server asks the person while a call runs, and what it is told.

use super::calls::pending;
use super::messages::take_word;
use super::outbox::{notice, say};
use super::{Illegal, illegal};
use crate::agent::event::{By, CallId, OutgoingKind, Timestamp};
use crate::agent::forms::{ServerAnswer, ServerQuestion};
use crate::agent::state::{Stage, State};
use crate::agent::wording;

pub(super) fn ask(
    state: &mut State,
    id: &CallId,
    question: &ServerQuestion,
    expires_at: Timestamp,
) -> Result<(), Illegal> {
    if state.waits_for_person() {
        return illegal(format!("call {id} asks while something else is asked"));
    }
    let now = state.now;
    let pending = pending(state, id)?;
    let Stage::Running(_) = pending.stage else {
        return illegal(format!(
            "call {id} does not run, so its server asks nothing"
        ));
    };
    pending.asked = Some((question.clone(), expires_at));
    let minutes = expires_at.since(now) / 60_000;
    let text = wording::server_question(&state.texts, question, minutes);
    say(state, OutgoingKind::Question, text);
    Ok(())
}

pub(super) fn answer(
    state: &mut State,
    id: &CallId,
    by: Option<&By>,
    answer: &ServerAnswer,
) -> Result<(), Illegal> {
    if let Some(by) = by {
        take_word(state, by)?;
    }
    let pending = pending(state, id)?;
    let Some((question, _)) = pending.asked.take() else {
        return illegal(format!("call {id} has no server that asked"));
    };
    let server = question.server.as_str();
    match (by, answer) {
        (None, _) => notice(state, "server_expired", &[("server", server)]),
        (Some(_), ServerAnswer::Declined) => {
            notice(state, "server_declined", &[("server", server)]);
        }
        (Some(_), ServerAnswer::Given { .. }) => {
            notice(state, "server_answered", &[("server", server)]);
        }
    }
    Ok(())
}
