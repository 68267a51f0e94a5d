//! Who may write: the numbers of the settings, and those that were paired.
//!
//! What a stranger writes is dropped, and costs a look-up and nothing on disk; only what looks like a code is tried, so often
//! a minute and no more.

use crate::agent::event::{Inbound, Timestamp};
use crate::world::store::pairing::Code;
use crate::world::store::{Store, StoreError};
use std::sync::{Mutex, PoisonError};

/// Codes that are tried in a minute, from all strangers together.
const TRIES_A_MINUTE_MAX: u32 = 10;

/// How a message is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    Served,
    /// By this very message, which is a code and nothing else.
    Paired,
    /// Not at all.
    Stranger,
}

/// The numbers of the settings, and how often strangers tried.
pub struct Guests {
    allowed: Vec<String>,
    /// The minute, and the tries in it.
    tries: Mutex<(i64, u32)>,
}

impl Guests {
    pub fn new(allowed: Vec<String>) -> Self {
        Self {
            allowed,
            tries: Mutex::default(),
        }
    }

    /// Whether this number is one of them.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn serves(&self, store: &Store, number: &str) -> Result<bool, StoreError> {
        let allowed = self.allowed.iter().any(|allowed| allowed == number);
        Ok(allowed || store.paired(number)?.is_some())
    }

    /// Whether the message is taken.
    ///
    /// # Errors
    /// [`StoreError`]: it is not known; the sender may try again.
    pub fn entry(
        &self,
        store: &Store,
        message: &Inbound,
        now: Timestamp,
    ) -> Result<Entry, StoreError> {
        let number = &message.from;
        if self.allowed.contains(number) {
            return Ok(Entry::Served);
        }
        match store.paired(number)? {
            // The channel brings it again where the process died over it.
            Some(paired) if paired.message == message.id => return Ok(Entry::Paired),
            Some(_) => return Ok(Entry::Served),
            None => {}
        }
        let code = Code::read(&message.text).filter(|_| self.may_try(now));
        let redeemed = code.map(|code| store.redeem_code(&code, number, &message.id, now));
        match redeemed.transpose()? {
            Some(true) => Ok(Entry::Paired),
            Some(false) | None => Ok(Entry::Stranger),
        }
    }

    fn may_try(&self, now: Timestamp) -> bool {
        let minute = now.0 / 60_000;
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        if tries.0 != minute {
            *tries = (minute, 0);
        }
        tries.1 += 1;
        tries.1 <= TRIES_A_MINUTE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_try_so_many_codes_a_minute_and_no_more() {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, guests) = (Store::new(folder.path()), Guests::new(Vec::new()));
        let (right, now) = (Code::of([1; 8]), Timestamp(1_790_000_000_000));
        store.offer_code(&right, [0; 16], now).expect("kept");
        let entry = |text: &str, at| {
            let message = Inbound::text("m1", "111111", text);
            guests.entry(&store, &message, at).expect("known")
        };
        for _ in 0..TRIES_A_MINUTE_MAX {
            assert_eq!(entry("ZZZZ-ZZZZ", now), Entry::Stranger);
        }
        assert_eq!(entry(&right.shown(), now), Entry::Stranger);
        assert_eq!(
            entry("any other words", now.plus_ms(60_000)),
            Entry::Stranger
        );
        assert_eq!(entry(&right.shown(), now.plus_ms(60_000)), Entry::Paired);
        // Brought again it is the same; what comes next is a message.
        assert_eq!(entry(&right.shown(), now.plus_ms(60_000)), Entry::Paired);
        let next = Inbound::text("m2", "111111", "hello");
        assert_eq!(
            guests.entry(&store, &next, now).expect("known"),
            Entry::Served
        );
    }

    #[test]
    fn a_stranger_leaves_nothing_on_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, guests) = (
            Store::new(folder.path()),
            Guests::new(vec!["222222".into()]),
        );
        let now = Timestamp(1_790_000_000_000);
        let entry = |number: &str, text: &str| {
            let message = Inbound::text("m1", number, text);
            guests.entry(&store, &message, now).expect("known")
        };
        assert_eq!(entry("111111", "hello"), Entry::Stranger);
        assert_eq!(entry("111111", "ABCD-EFGH"), Entry::Stranger);
        assert_eq!(entry("222222", "hello"), Entry::Served);
        assert_eq!(
            std::fs::read_dir(folder.path())
                .expect("the folder")
                .count(),
            0
        );
    }
}
