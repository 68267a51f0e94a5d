//! Open questions of a chat: which session has one, by its code or by the message that it stands in.

use super::{Store, StoreError};
use rusqlite::OptionalExtension;

impl Store {
    /// The session of a chat whose open question has this code.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn session_asking(&self, chat: &str, code: &str) -> Result<Option<String>, StoreError> {
        let sql = "SELECT id FROM sessions WHERE chat = ?1 AND question = ?2 COLLATE NOCASE";
        self.with("look up a question in", |db| {
            db.prepare_cached(sql)?
                .query_row([chat, code], |row| row.get(0))
                .optional()
        })
    }

    /// The sessions of a chat that have a question open.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn asking(&self, chat: &str) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT id FROM sessions WHERE chat = ?1 AND question IS NOT NULL ORDER BY id";
        self.with("look up the questions in", |db| {
            let mut rows = db.prepare_cached(sql)?;
            rows.query_map([chat], |row| row.get(0))?.collect()
        })
    }

    /// The session of a chat whose open question stands in this message of ours.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn session_asked_in(
        &self,
        chat: &str,
        message: &str,
    ) -> Result<Option<String>, StoreError> {
        let sql = "SELECT id FROM sessions WHERE chat = ?1 AND EXISTS (SELECT 1 FROM json_each(asked_in) WHERE value = ?2)";
        self.with("look up a question in", |db| {
            db.prepare_cached(sql)?
                .query_row([chat, message], |row| row.get(0))
                .optional()
        })
    }
}
