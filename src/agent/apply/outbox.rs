//! What is on its way to the chat.

use super::{Illegal, illegal};
use crate::agent::event::{OutgoingKind, Timestamp};
use crate::agent::state::{Outgoing, Phase, Stage, State, Turn};

pub(super) fn say(state: &mut State, kind: OutgoingKind, text: String, approval: Option<String>) {
    state.sends += 1;
    state.outbox.push_back(Outgoing {
        send: state.sends,
        kind,
        text,
        approval,
        always: false,
        sending: false,
        attempts: 0,
        due: None,
        repeated: false,
        again: false,
    });
}

/// Behind what waits already: it did not arrive.
pub(super) fn send_again(state: &mut State, outgoing: Outgoing) {
    state.sends += 1;
    state.outbox.push_back(Outgoing {
        send: state.sends,
        ..outgoing
    });
}

pub(super) fn notice(state: &mut State, name: &str, values: &[(&str, &str)]) {
    let text = state.texts.say(name, values);
    say(state, OutgoingKind::Notice, text, None);
}

pub(super) fn finish_send(
    state: &mut State,
    send: u64,
    retry_at: Option<Timestamp>,
    ids: &[String],
) -> Result<(), Illegal> {
    let front = state.outbox.front_mut();
    let Some(front) = front.filter(|front| front.send == send && front.sending) else {
        return illegal(format!("send {send} ends without having started"));
    };
    if retry_at.is_some() {
        front.sending = false;
        front.attempts += 1;
        front.due = retry_at;
        return Ok(());
    }
    state.deliveries.taken(front, ids);
    let asked = front.approval.take();
    state.said.by_us(front, ids);
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
            question.asked_in.extend_from_slice(ids);
        }
    }
    Ok(())
}
