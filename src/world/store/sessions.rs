//! The table `sessions`, asked for all chats: what there is, what goes on, what is over.
//!
//! What is asked for one chat stands in [`super::chats`]; who writes it, in [`super::projection`].

use super::projection::TO_SAY;
use super::{Store, StoreError};
use rusqlite::{OptionalExtension, params};
use std::collections::{HashMap, HashSet};

/// One row of `sessions`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SessionRow {
    pub id: String,
    pub chat: String,
    pub workspace: String,
    pub objective: String,
    pub status: String,
    pub rounds: u32,
    pub started_at: String,
    pub updated_at: String,
}

impl Store {
    /// Every session, the last used first.
    pub fn sessions(&self) -> Result<Vec<SessionRow>, StoreError> {
        let sql = "SELECT id, chat, workspace, objective, status, rounds, started_at, updated_at FROM sessions ORDER BY updated_at DESC";
        self.with("list the sessions in", |db| {
            let mut statement = db.prepare(sql)?;
            statement.query_map([], session_row)?.collect()
        })
    }

    /// The sessions of one client, of its chat and of those below it (`http:NAME`, `http:NAME/…`): the last used first, not more than `sessions_max`.
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

    /// Whether the last that happened in one session is later than the last in another.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn is_later(&self, one: &str, other: &str) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM sessions one, sessions other WHERE one.id = ?1 AND other.id = ?2 AND one.updated_at > other.updated_at";
        self.with("compare sessions in", |db| {
            db.prepare_cached(sql)?.exists([one, other])
        })
    }

    /// Each journal's length when it was last projected, for finding those that have grown unnoticed.
    pub fn known(&self) -> Result<HashMap<String, u64>, StoreError> {
        self.with("list the journals known to", |db| {
            let mut statement = db.prepare("SELECT id, bytes FROM sessions")?;
            statement
                .query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))?
                .collect()
        })
    }

    /// Sessions that have something to do by the clock before `now_ms`: id and chat.
    pub fn due(&self, now_ms: i64) -> Result<Vec<(String, String)>, StoreError> {
        self.pairs(
            "look for due sessions in",
            "SELECT id, chat FROM sessions WHERE due_at <= ?1",
            now_ms,
        )
    }

    /// Sessions of a dead process that have something left to do or to say: id and chat.
    pub fn unfinished(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.pairs(
            "look for unfinished sessions in",
            "SELECT id, chat FROM sessions WHERE unfinished >= ?1",
            i64::from(TO_SAY),
        )
    }

    /// Sessions that have nothing left to do, as far as nobody writes to them.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn over(&self) -> Result<HashSet<String>, StoreError> {
        if self.is_absent() {
            return Ok(HashSet::new());
        }
        let sql = "SELECT id FROM sessions WHERE unfinished = 0 AND status NOT IN ('running', 'waiting', 'interrupted', 'ending', 'damaged')";
        self.with("look for ended sessions in", |db| {
            let mut statement = db.prepare_cached(sql)?;
            statement.query_map([], |row| row.get(0))?.collect()
        })
    }

    /// Sessions with a turn that has not ended: they go on, or wait for a person.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn in_turn(&self) -> Result<HashSet<String>, StoreError> {
        let sql = "SELECT id, chat FROM sessions WHERE unfinished >= ?1 OR status IN ('interrupted', 'waiting', 'running', 'ending')";
        let found = self.pairs("look for sessions at work in", sql, i64::from(TO_SAY))?;
        Ok(found.into_iter().map(|(id, _)| id).collect())
    }

    fn pairs(
        &self,
        verb: &'static str,
        sql: &str,
        parameter: i64,
    ) -> Result<Vec<(String, String)>, StoreError> {
        // The sweep of a server that nobody has written to yet opens no database.
        if self.is_absent() {
            return Ok(Vec::new());
        }
        self.with(verb, |db| {
            let mut statement = db.prepare_cached(sql)?;
            statement
                .query_map([parameter], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })
    }

    /// A session whose journal is damaged has nothing to do until a person agrees to its good part.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn mark_damaged(&self, session: &str) -> Result<(), StoreError> {
        let sql = "UPDATE sessions SET status = 'damaged', unfinished = 0, due_at = NULL, question = NULL, asked_in = '[]' WHERE id = ?1";
        self.with("write to", |db| db.execute(sql, [session]).map(drop))
    }

    /// The chat of a session.
    pub fn chat_of(&self, session: &str) -> Result<Option<String>, StoreError> {
        self.with("look up a session in", |db| {
            db.prepare_cached("SELECT chat FROM sessions WHERE id = ?1")?
                .query_row([session], |row| row.get(0))
                .optional()
        })
    }
}

fn session_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<SessionRow> {
    Ok(SessionRow {
        id: row.get(0)?,
        chat: row.get(1)?,
        workspace: row.get(2)?,
        objective: row.get(3)?,
        status: row.get(4)?,
        rounds: row.get(5)?,
        started_at: row.get(6)?,
        updated_at: row.get(7)?,
    })
}
