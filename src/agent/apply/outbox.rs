//! What is on its way to the chat.

use super::{Illegal, illegal};
use crate::agent::children;
use crate::agent::event::{Closed, OutgoingKind, Timestamp};
use crate::agent::state::{Button, Held, Outgoing, Phase, Stage, State, Turn};

/// Between two messages about where the plan stands.
const PROGRESS_MS_MIN: u64 = 20_000;

/// A question that a yes or no answers, and *always this session* where that can be granted.
pub(super) fn ask(state: &mut State, text: String, code: &str, always: bool) {
    let button = |name, command: String| Button {
        command,
        title: state.texts.say(name, &[]),
    };
    let always = always.then(|| button("button_always", format!("/approve {code} always")));
    let approve = button("button_approve", format!("/approve {code}"));
    let deny = button("button_deny", format!("/deny {code}"));
    let buttons = [Some(approve), always, Some(deny)].into_iter().flatten();
    let buttons = buttons.collect();
    say(state, OutgoingKind::Question, text);
    if let Some(question) = state.outbox.back_mut() {
        question.approval = Some(code.to_owned());
        question.buttons = buttons;
    }
}

pub(super) fn say(state: &mut State, kind: OutgoingKind, text: String) {
    if let Some(text) = children::said(state, kind, text) {
        put(state, kind, text);
    }
}

/// That a person's word was taken, or came too late: whoever asked says it.
pub(super) fn confirm(state: &mut State, name: &str, values: &[(&str, &str)]) {
    let text = state.texts.say(name, values);
    let text = children::confirmed(state, text);
    put(state, OutgoingKind::Notice, text);
}

fn put(state: &mut State, kind: OutgoingKind, text: String) {
    state.sends += 1;
    state.outbox.push_back(Outgoing {
        send: state.sends,
        kind,
        text,
        approval: None,
        buttons: Vec::new(),
        sending: false,
        attempts: 0,
        due: None,
        repeated: false,
        again: false,
        parts: 0,
        ids: Vec::new(),
        fleeting: false,
        held: None,
        closed_at: None,
        answers: None,
    });
}

/// Behind what waits already: it did not arrive.
pub(super) fn send_again(state: &mut State, outgoing: Outgoing) {
    state.sends += 1;
    state.outbox.push_back(Outgoing {
        send: state.sends,
        parts: 0,
        ids: Vec::new(),
        ..outgoing
    });
}

pub(super) fn notice(state: &mut State, name: &str, values: &[(&str, &str)]) {
    let text = state.texts.say(name, values);
    say(state, OutgoingKind::Notice, text);
}

/// Where the plan stands: at most once in a while, and then as it stands last.
pub(super) fn say_progress(state: &mut State, text: String) {
    let again = state.progress_at.map(|at| at.plus_ms(PROGRESS_MS_MIN));
    let (now, sends) = (state.now, state.sends);
    say(state, OutgoingKind::Progress, text);
    if let Some(progress) = state.outbox.back_mut().filter(|last| last.send > sends) {
        progress.fleeting = true;
        progress.due = again.filter(|again| *again > now);
    }
}

/// A later message says it all.
pub(super) fn supersede(state: &mut State, send: u64) -> Result<(), Illegal> {
    let is_it = |front: &Outgoing| front.send == send && front.fleeting && !front.sending;
    match state.outbox.front().is_some_and(is_it) {
        true => {
            state.outbox.pop_front();
            Ok(())
        }
        false => illegal(format!(
            "send {send} is not one that a later one makes up for"
        )),
    }
}

/// How an attempt to send ended.
pub(super) struct Attempt<'a> {
    pub failed: bool,
    pub retry_at: Option<Timestamp>,
    pub ids: &'a [String],
    pub parts: usize,
    pub closed: Option<&'a Closed>,
}

pub(super) fn finish_send(state: &mut State, send: u64, attempt: &Attempt) -> Result<(), Illegal> {
    let now = state.now;
    let front = state.outbox.front_mut();
    let Some(front) = front.filter(|front| front.send == send && front.sending) else {
        return illegal(format!("send {send} ends without having started"));
    };
    // A reply to a part that arrived is one to this message, also while the rest is still to come.
    front.ids.extend_from_slice(attempt.ids);
    if attempt.retry_at.is_some() {
        front.sending = false;
        front.due = attempt.retry_at;
        front.parts = attempt.parts;
        front.held = attempt.closed.map(|closed| Held {
            since: front.held.map_or(now, |held| held.since),
            heard: closed.heard,
        });
        // One that was held back did not fail.
        front.attempts += u32::from(attempt.closed.is_none());
        return Ok(());
    }
    let ids = std::mem::take(&mut front.ids);
    if !attempt.failed {
        state.deliveries.taken(front, &ids, now);
    }
    let asked = front.approval.take();
    state.said.by_us(front, &ids);
    state.outbox.pop_front();
    let Some(Turn {
        phase: Phase::Calls(calls),
        ..
    }) = &mut state.turn
    else {
        return Ok(());
    };
    for pending in calls {
        if let Stage::Waiting(question) = &mut pending.stage
            && asked.as_ref() == Some(&question.approval)
        {
            question.asked_in.extend(ids.iter().cloned());
        }
    }
    Ok(())
}
