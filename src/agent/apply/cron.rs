//! What came of wishes about schedules. And what a session that a schedule started says once more.

use super::errands::met;
use super::outbox::{ask, say};
use super::{Illegal, illegal};
use crate::agent::event::{OutgoingKind, Timestamp};
use crate::agent::state::{ErrandWish, State};
use crate::agent::wording;
use crate::schedule::wish::Answer;

pub(super) fn answer(state: &mut State, answer: &Answer) -> Result<(), Illegal> {
    let ErrandWish::Cron(wish) = met(state)? else {
        return illegal("an answer about schedules that nobody asked for");
    };
    let text = wording::cron_answer(&state.texts, &wish, answer);
    say(state, OutgoingKind::Notice, text);
    Ok(())
}

/// How long after a question that never expires, in milliseconds.
const REMIND_AFTER_MS: u64 = 30 * 60_000;

/// Nobody sits there when a schedule asks: it is said once more, in the middle of the time that there is.
pub(super) fn remind_later(state: &mut State, expires_at: Option<Timestamp>) {
    let wait = expires_at.map_or(REMIND_AFTER_MS, |at| at.since(state.now) / 2);
    let scheduled = state.opening.scheduled.is_some();
    state.remind_at = scheduled.then(|| state.now.plus_ms(wait));
}

pub(super) fn remind(state: &mut State) -> Result<(), Illegal> {
    if state.remind_at.take().is_none() {
        return illegal("a reminder that was not due");
    }
    let question = state.question().map(|(_, question)| question);
    let asked = question.map(|question| (question.approval.clone(), question.pattern.is_some()));
    let Some(text) = wording::reminder(state) else {
        return illegal("a reminder of nothing");
    };
    match asked {
        Some((code, always)) => ask(state, text, &code, always),
        None => say(state, OutgoingKind::Question, text),
    }
    Ok(())
}
