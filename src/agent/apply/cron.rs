//! Wishes about schedules: asked for, under way, met. And what a session that a schedule started says once more.

use super::messages::take_word;
use super::outbox::say;
use super::{Illegal, illegal};
use crate::agent::event::{By, OutgoingKind, Timestamp};
use crate::agent::state::{Errand, State};
use crate::agent::wording;
use crate::schedule::wish::{Answer, Wish};

pub(super) fn ask(state: &mut State, by: &By, wish: &Wish) -> Result<(), Illegal> {
    let Some(message) = by.message.clone() else {
        return illegal("a wish about schedules without a message");
    };
    if state.errand.is_some() {
        return illegal("two wishes about schedules at once");
    }
    take_word(state, by)?;
    state.errand = Some(Errand {
        message,
        wish: wish.clone(),
        at: state.now,
        running: false,
    });
    Ok(())
}

pub(super) fn start(state: &mut State, message: &str) -> Result<(), Illegal> {
    match &mut state.errand {
        Some(errand) if errand.message == message && !errand.running => {
            errand.running = true;
            Ok(())
        }
        _ => illegal(format!(
            "nothing about schedules is to be done for {message}"
        )),
    }
}

pub(super) fn answer(state: &mut State, answer: &Answer) -> Result<(), Illegal> {
    match state.errand.take() {
        Some(errand) if errand.running => {
            let text = wording::cron_answer(&state.texts, &errand.wish, answer);
            say(state, OutgoingKind::Notice, text, None);
            Ok(())
        }
        _ => illegal("an answer about schedules that nobody asked for"),
    }
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
    let (code, always) = match question {
        Some(question) => (Some(question.approval.clone()), question.pattern.is_some()),
        None => (None, false),
    };
    let Some(text) = wording::reminder(state) else {
        return illegal("a reminder of nothing");
    };
    say(state, OutgoingKind::Question, text, code);
    if let Some(reminder) = state.outbox.back_mut() {
        reminder.always = always;
    }
    Ok(())
}

/// The process died: it is done again, which does nothing where it was done.
pub(super) fn interrupt(state: &mut State) {
    if let Some(errand) = &mut state.errand {
        errand.running = false;
    }
}
