//! Which workspaces are trusted: an *owned* table, which exists nowhere else.

use super::{Store, StoreError};
use crate::agent::event::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;

/// Made where it is missing, never dropped.
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS trusted_workspaces (
        path TEXT PRIMARY KEY, made_at INTEGER, hooks TEXT NOT NULL, by TEXT NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;";
/// What came later.
const COLUMNS: [&str; 2] = ["mcp", "inline"];

/// Makes the table, or makes it what it is today.
pub(super) fn prepare(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(SCHEMA)?;
    for column in COLUMNS {
        let sql = "SELECT 1 FROM pragma_table_info('trusted_workspaces') WHERE name = ?1";
        if !db.prepare(sql)?.exists([column])? {
            db.execute_batch(&format!(
                "ALTER TABLE trusted_workspaces ADD COLUMN {column} TEXT NOT NULL DEFAULT ''"
            ))?;
        }
    }
    Ok(())
}

/// Trust in one workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trusted {
    /// Absolute and canonical.
    pub path: String,
    /// When the folder was made, in nanoseconds since 1970, where the file system knows: another one in its place is
    /// not trusted.
    pub made_at: Option<i64>,
    /// Digest of the hooks that were shown; empty for none.
    pub hooks: String,
    /// Digest of the workspace's own file of MCP servers; empty for none.
    pub mcp: String,
    /// Digest of what its commands run by themselves, as it was shown; empty for nothing.
    pub inline: String,
    /// Who said so, and where.
    pub by: String,
    pub at: Timestamp,
}

impl Store {
    /// The trust in the workspace at this path, if it was given.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn trusted(&self, path: &str) -> Result<Option<Trusted>, StoreError> {
        if self.is_absent() {
            return Ok(None);
        }
        self.owned("look up trust in", |db| {
            let sql = "SELECT path, made_at, hooks, by, at, mcp, inline FROM trusted_workspaces WHERE path = ?1";
            db.prepare_cached(sql)?.query_row([path], read).optional()
        })
    }

    /// Every workspace that is trusted.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn all_trusted(&self) -> Result<Vec<Trusted>, StoreError> {
        if self.is_absent() {
            return Ok(Vec::new());
        }
        self.owned("list the trusted workspaces in", |db| {
            let sql =
                "SELECT path, made_at, hooks, by, at, mcp, inline FROM trusted_workspaces ORDER BY path";
            db.prepare(sql)?.query_map([], read)?.collect()
        })
    }

    /// Keeps trust, in the place of what was kept for the path.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn trust(&self, trusted: &Trusted) -> Result<(), StoreError> {
        self.mark_owned()?;
        self.durably("keep trust in", |db| {
            let sql = "INSERT OR REPLACE INTO trusted_workspaces (path, made_at, hooks, by, at, mcp, inline) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
            let Trusted { path, made_at, hooks, mcp, inline, by, at } = trusted;
            db.execute(sql, params![path, made_at, hooks, by, at.0, mcp, inline]).map(drop)
        })
    }

    /// Takes trust back; `false` where there was none.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn distrust(&self, path: &str) -> Result<bool, StoreError> {
        if self.is_absent() {
            return Ok(false);
        }
        self.durably("take back trust in", |db| {
            let gone = db.execute("DELETE FROM trusted_workspaces WHERE path = ?1", [path])?;
            Ok(gone > 0)
        })
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Trusted> {
    Ok(Trusted {
        path: row.get(0)?,
        made_at: row.get(1)?,
        hooks: row.get(2)?,
        by: row.get(3)?,
        at: Timestamp(row.get(4)?),
        mcp: row.get(5)?,
        inline: row.get(6)?,
    })
}
