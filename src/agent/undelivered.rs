//! Messages of ours that a channel took and did not deliver: sent again once where that may help, held where the
//! channel is closed until the person writes, told otherwise. Pure.
//!
//! What is known of a message is the last ones' only; of an older one only its failure is told.

use crate::agent::event::{Event, Inbound, NotDelivered, Reading, Timestamp};
use crate::agent::state::{Outgoing, State};
use std::collections::VecDeque;

/// Channels tell of failures within seconds, sometimes minutes.
const KNOWN_MAX: usize = 16;
/// WhatsApp takes one message to the same person every six seconds, in the long run.
const AGAIN_AFTER_MS: u64 = 6_000;

/// What became of messages after the channel took them.
#[derive(Debug, Clone, Default)]
pub struct Deliveries {
    taken: VecDeque<Taken>,
    /// Those that failed for good, and the last reason.
    pub lost: u32,
    pub why: String,
}

#[derive(Debug, Clone)]
struct Taken {
    ids: Vec<String>,
    outgoing: Outgoing,
    /// It is sent again, or was itself.
    again: bool,
    at: Timestamp,
}

impl Deliveries {
    pub fn taken(&mut self, outgoing: &Outgoing, ids: &[String], at: Timestamp) {
        if ids.is_empty() {
            return;
        }
        if self.taken.len() == KNOWN_MAX {
            self.taken.pop_front();
        }
        self.taken.push_back(Taken {
            ids: ids.to_vec(),
            outgoing: outgoing.clone(),
            again: outgoing.again,
            at,
        });
    }

    /// One did not arrive; what is to be sent again, marked where only a part of it is missing.
    pub fn failed(
        &mut self,
        message: &Inbound,
        again: bool,
        now: Timestamp,
        mark: &str,
    ) -> Option<Outgoing> {
        let id = message.about.clone().unwrap_or_default();
        let taken = match self.taken.iter_mut().find(|taken| taken.ids.contains(&id)) {
            Some(taken) if again => taken,
            // Another part of a message that is sent again anyway.
            Some(taken) if taken.again && !taken.outgoing.again => return None,
            Some(_) | None => {
                let failure = message.undelivered.as_ref();
                self.lost += 1;
                self.why = failure.map(NotDelivered::to_string).unwrap_or_default();
                return None;
            }
        };
        taken.again = true;
        let mut outgoing = taken.outgoing.clone();
        if taken.ids.len() > 1 {
            outgoing.repeat(mark);
        }
        let closed = message.undelivered.as_ref().is_some_and(|why| why.closed);
        let wait_ms = if closed { 0 } else { AGAIN_AFTER_MS };
        Some(Outgoing {
            again: true,
            sending: false,
            attempts: 0,
            due: Some(now.plus_ms(wait_ms)),
            closed_at: closed.then_some(taken.at),
            held: None,
            ..outgoing
        })
    }

    fn of(&self, message: &Inbound) -> Option<&Taken> {
        let id = message.about.as_ref()?;
        self.taken.iter().find(|taken| taken.ids.contains(id))
    }
}

/// Whether a failure came before it is known here what was sent: its message may be just on its way.
pub fn is_early(state: &State, message: &Inbound) -> bool {
    let sending = state.outbox.front().is_some_and(|front| front.sending);
    message.undelivered.is_some() && sending && state.deliveries.of(message).is_none()
}

/// What is decided about a failure.
pub fn reading(state: &State, message: &Inbound, failure: &NotDelivered) -> Event {
    let again = (failure.may_pass || failure.closed)
        && state.deliveries.of(message).is_some_and(|taken| {
            // A question that was answered meanwhile needs no answer.
            let asks = taken.outgoing.approval.as_ref();
            let open = state.question().map(|(_, question)| &question.approval);
            !taken.again && (asks.is_none() || asks == open)
        });
    Event::MessageTaken {
        message: message.id.clone(),
        reading: Reading::NotDelivered { again },
        reply: None,
        quote: None,
        attached: None,
        image: None,
        with: Vec::new(),
    }
}

/// What `/agent` says about it; empty where everything arrived.
pub fn line(state: &State) -> String {
    let Deliveries { lost, why, .. } = &state.deliveries;
    match lost {
        0 => String::new(),
        count => {
            let values = [("count", &*count.to_string()), ("why", why)];
            state.texts.say("status_undelivered", &values)
        }
    }
}
