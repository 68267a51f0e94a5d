//! The sessions of one client: of its chat, and of those below it (`http:NAME`, `http:NAME/…`).

use super::{SessionRow, Store, StoreError, session_row};
use rusqlite::params;

impl Store {
    /// The last used first, not more than `sessions_max`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn sessions_of(
        &self,
        chat: &str,
        sessions_max: usize,
    ) -> Result<Vec<SessionRow>, StoreError> {
        if self.is_absent() {
            return Ok(Vec::new());
        }
        // `0` is the character after `/`.
        let sql = "SELECT id, chat, workspace, objective, status, rounds, started_at, updated_at FROM sessions
             WHERE chat = ?1 OR (chat > ?1 || '/' AND chat < ?1 || '0') ORDER BY updated_at DESC, id DESC LIMIT ?2";
        self.with("list the sessions in", |db| {
            let mut statement = db.prepare_cached(sql)?;
            let most = i64::try_from(sessions_max).unwrap_or(i64::MAX);
            statement
                .query_map(params![chat, most], session_row)?
                .collect()
        })
    }
}
