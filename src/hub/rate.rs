//! How many messages of a chat start or steer work in a while. One beyond the limit is marked, and its session refuses it in
//! words: what answers or commands passes, and only the session knows what it is.
//!
//! Counted in memory: a restart begins afresh, which lets a person write sooner, and loses nothing.

use crate::agent::command::{self, ChatCommand, Said};
use crate::agent::event::{Inbound, Timestamp, TooMany, Via};
use crate::agent::limits::Limits;
use crate::doors;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Chats that are kept before those that have been silent for long enough are let go.
const CHATS_MAX: usize = 1024;
const MINUTE_MS: u64 = 60_000;

/// What came lately.
#[derive(Debug, Default)]
pub(super) struct Rates(Mutex<HashMap<String, Lately>>);

#[derive(Debug, Default)]
struct Lately {
    /// When those came that were not refused.
    came: VecDeque<Timestamp>,
    /// The person heard of the limit since.
    told: bool,
}

impl Rates {
    /// Whether a message is beyond the limit.
    pub fn judge(
        &self,
        chat: &str,
        message: &Inbound,
        limits: &Limits,
        now: Timestamp,
    ) -> Option<TooMany> {
        let (messages, minutes) = (limits.messages_max, limits.messages_minutes);
        if messages == 0 || !counts(chat, message) {
            return None;
        }
        let mut chats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lately = chats.get_mut(chat)?;
        lately.forget(now, minutes);
        let oldest = *lately
            .came
            .front()
            .filter(|_| lately.came.len() >= messages)?;
        let wait_ms = (minutes * MINUTE_MS).saturating_sub(now.since(oldest));
        Some(TooMany {
            messages,
            minutes,
            again_minutes: wait_ms.div_ceil(MINUTE_MS),
            told: lately.told,
        })
    }

    /// It is on disk.
    pub fn note(&self, chat: &str, message: &Inbound, limits: &Limits, now: Timestamp) {
        if limits.messages_max == 0 || !counts(chat, message) {
            return;
        }
        let mut chats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if chats.len() >= CHATS_MAX {
            chats.retain(|_, lately| {
                lately.forget(now, limits.messages_minutes);
                !lately.came.is_empty()
            });
        }
        let lately = chats.entry(chat.to_owned()).or_default();
        match &message.too_many {
            Some(_) => lately.told = true,
            None => {
                lately.told = false;
                lately.came.push_back(now);
            }
        }
    }
}

impl Lately {
    fn forget(&mut self, now: Timestamp, minutes: u64) {
        let is_old = |at: &Timestamp| now.since(*at) >= minutes * MINUTE_MS;
        while self.came.front().is_some_and(is_old) {
            self.came.pop_front();
        }
    }
}

/// Whether it looks like work: whose terminal it is has no limit, and neither have commands, buttons and a yes or no.
fn counts(chat: &str, message: &Inbound) -> bool {
    let is_work = match command::read(&message.text) {
        Said::Plain(_) => !command::answers_unnamed(message),
        Said::Command(ChatCommand::Start(_) | ChatCommand::Plan(_) | ChatCommand::Ask(_)) => true,
        Said::Empty => message.media.is_some(),
        Said::Command(_) | Said::Unknown(_) => false,
    };
    doors::is_served(chat) && message.via == Via::Text && message.unreadable.is_none() && is_work
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::limits::built_in;

    #[test]
    fn the_window_slides_and_the_refused_do_not_count() {
        let limits = Limits {
            messages_max: 2,
            messages_minutes: 10,
            ..built_in()
        };
        let rates = Rates::default();
        let says = |minute: i64, text: &str| {
            let now = Timestamp(minute * 60_000);
            let mut message = Inbound::text(minute.to_string(), "ana", text);
            message.too_many = rates.judge("whatsapp:1", &message, &limits, now);
            rates.note("whatsapp:1", &message, &limits, now);
            message.too_many.map(|many| (many.again_minutes, many.told))
        };
        assert_eq!(says(0, "one"), None);
        assert_eq!(says(1, "yes"), None);
        assert_eq!(says(1, "/cancel"), None);
        assert_eq!(says(4, "/agent two"), None);
        assert_eq!(says(5, "three"), Some((5, false)));
        assert_eq!(says(5, "/agent three"), Some((5, true)));
        assert_eq!(says(6, "yes"), None);
        assert_eq!(says(10, "four"), None);
        assert_eq!(says(11, "five"), Some((3, false)));
    }
}
