//! What is asked for one chat: which of its sessions a message belongs to, and when its person was heard.
//!
//! Nothing here decides: answers come from the tables `sessions` and `seen` as they were projected.

use super::{Store, StoreError};
use crate::agent::event::{EndReason, Timestamp};
use crate::agent::language::Language;
use rusqlite::{OptionalExtension, params};

const LAST_ORDER: &str = "SELECT coalesce(max(last_order), 0) FROM sessions WHERE chat = ?1";

impl Store {
    /// The session that a chat's next message belongs to: the one that was written to last, by count and not by clock.
    pub fn active_session(&self, chat: &str) -> Result<Option<String>, StoreError> {
        let sql = "SELECT id, closed FROM sessions WHERE chat = ?1 AND NOT (id LIKE 'cron-%' AND last_order = 0) AND id NOT LIKE 'child-%' ORDER BY last_order DESC, updated_at DESC, id DESC LIMIT 1";
        // One that the clock started takes no messages before the person wrote to it (order 0); a child never does.
        // The last one only: after /new no older session comes back by itself.
        let last: Option<(String, bool)> = self.with("look up the active session in", |db| {
            db.prepare_cached(sql)?
                .query_row([chat], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
        })?;
        Ok(last.filter(|(_, closed)| !closed).map(|(id, _)| id))
    }

    /// What `/agent-resume` without an id goes back to: the active session, where it can be resumed, else the last one
    /// that the clock started, which takes no other message. `None`: neither.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn resumable(&self, chat: &str) -> Result<Option<String>, StoreError> {
        let active = self.active_session(chat)?.unwrap_or_default();
        let [failed, limit, cancelled] =
            [EndReason::Failed, EndReason::Limit, EndReason::Cancelled].map(EndReason::word);
        let sql = "SELECT id FROM sessions WHERE chat = ?1 AND status IN ('interrupted', ?3, ?4, ?5)
             AND (id = ?2 OR id LIKE 'cron-%' AND last_order = 0) ORDER BY id = ?2 DESC, updated_at DESC, id DESC LIMIT 1";
        self.with("look up what to resume in", |db| {
            db.prepare_cached(sql)?
                .query_row(params![chat, active, failed, limit, cancelled], |row| {
                    row.get(0)
                })
                .optional()
        })
    }

    /// The place of a chat's next message among all of them.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn next_order(&self, chat: &str) -> Result<u64, StoreError> {
        self.with("count the messages in", |db| {
            let last: i64 = db
                .prepare_cached(LAST_ORDER)?
                .query_row([chat], |row| row.get(0))?;
            Ok(last.unsigned_abs() + 1)
        })
    }

    /// Whether this message came before.
    pub fn has_seen(&self, chat: &str, message: &str) -> Result<bool, StoreError> {
        Ok(self.seen_by(chat, message)?.is_some())
    }

    /// The session that a message belongs to, a person's or ours; `None` where it is new.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn seen_by(&self, chat: &str, message: &str) -> Result<Option<String>, StoreError> {
        self.with("look up a message in", |db| {
            db.prepare_cached("SELECT session FROM seen WHERE chat = ?1 AND message = ?2")?
                .query_row([chat, message], |row| row.get(0))
                .optional()
        })
    }

    /// Where the chat's last session worked last.
    pub fn last_workspace(&self, chat: &str) -> Result<Option<String>, StoreError> {
        self.with("look up a workspace in", |db| {
            let sql = "SELECT workspace FROM sessions WHERE chat = ?1 AND last_order > 0 AND id NOT LIKE 'child-%' ORDER BY last_order DESC LIMIT 1";
            db.prepare_cached(sql)?
                .query_row([chat], |row| row.get(0))
                .optional()
        })
    }

    /// Whether a person of the chat ever began a session.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn knows(&self, chat: &str) -> Result<bool, StoreError> {
        self.with("look up a chat in", |db| {
            db.prepare_cached("SELECT 1 FROM sessions WHERE chat = ?1 AND id NOT LIKE 'cron-%' AND id NOT LIKE 'child-%'")?
                .exists([chat])
        })
    }

    /// What the chat's last session spoke.
    pub fn last_language(&self, chat: &str) -> Result<Option<Language>, StoreError> {
        if self.is_absent() {
            return Ok(None);
        }
        let sql = "SELECT language FROM sessions WHERE chat = ?1 ORDER BY last_order DESC, updated_at DESC LIMIT 1";
        let code: Option<String> = self.with("look up a language in", |db| {
            db.prepare_cached(sql)?
                .query_row([chat], |row| row.get(0))
                .optional()
        })?;
        Ok(code.and_then(|code| Language::named(&code)))
    }

    /// When a person last wrote in a chat.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn heard_at(&self, chat: &str) -> Result<Option<Timestamp>, StoreError> {
        self.with("look up a chat in", |db| {
            let heard: Option<i64> = db
                .prepare_cached("SELECT max(heard_at) FROM sessions WHERE chat = ?1")?
                .query_row([chat], |row| row.get(0))?;
            Ok(heard.map(Timestamp))
        })
    }

    /// When a chat was last sent what asks its person to write, or Meta refused that.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn invited_at(&self, chat: &str) -> Result<Option<Timestamp>, StoreError> {
        self.with("look up a chat in", |db| {
            let invited: Option<i64> = db
                .prepare_cached("SELECT max(invited_at) FROM sessions WHERE chat = ?1")?
                .query_row([chat], |row| row.get(0))?;
            Ok(invited.map(Timestamp))
        })
    }

    /// Sessions of a chat with a message that waits until the person writes.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn holding(&self, chat: &str) -> Result<Vec<String>, StoreError> {
        self.with("look for held messages in", |db| {
            let sql = "SELECT id FROM sessions WHERE chat = ?1 AND held = 1";
            let mut statement = db.prepare_cached(sql)?;
            statement.query_map([chat], |row| row.get(0))?.collect()
        })
    }
}
