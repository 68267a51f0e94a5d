//! SQLite: what must be found without reading every journal.
//!
//! The tables here are *derived* (invariant 8): they are made again from the journals, and never decide what happened.
//! Those in [`cron`], [`pairing`] and [`trust`] are *owned*: they exist nowhere else.
//! The database is opened with the first use; one that is damaged is set aside ([`damage`]).

/// What is asked for one chat.
mod chats;
/// Scheduled prompts and their runs.
pub mod cron;
/// A database that cannot be read.
mod damage;
/// Numbers that were paired.
pub mod pairing;
/// Journals into the derived tables.
pub mod projection;
/// Open questions of a chat.
mod questions;
/// The sessions of all chats.
pub mod sessions;
/// What every answer of a model took.
mod spend;
/// Trusted workspaces.
pub mod trust;

use damage::{OWNED, open_sound};
use rusqlite::{Connection, ErrorCode};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use thiserror::Error;

const SCHEMA_VERSION: i64 = 10;
const SCHEMA: &str = "
    DROP TABLE IF EXISTS sessions; DROP TABLE IF EXISTS seen; DROP TABLE IF EXISTS agent_command_log;
    DROP TABLE IF EXISTS spend;
    -- derived: one row a journal
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY, chat TEXT NOT NULL, workspace TEXT NOT NULL, objective TEXT NOT NULL, status TEXT NOT NULL,
        rounds INTEGER NOT NULL, started_at TEXT NOT NULL, updated_at TEXT NOT NULL, last_order INTEGER NOT NULL,
        closed INTEGER NOT NULL, unfinished INTEGER NOT NULL, question TEXT, asked_in TEXT NOT NULL, due_at INTEGER, bytes INTEGER NOT NULL,
        interruptions INTEGER NOT NULL, language TEXT NOT NULL, heard_at INTEGER,
        invited_at INTEGER, held INTEGER NOT NULL);
    CREATE INDEX sessions_by_chat ON sessions (chat, last_order);
    -- derived: every message id of every channel, against duplicates; of ours too, for what is said about them
    CREATE TABLE seen (chat TEXT NOT NULL, message TEXT NOT NULL, session TEXT NOT NULL, PRIMARY KEY (chat, message)) WITHOUT ROWID;
    -- derived: every command and what became of it
    CREATE TABLE agent_command_log (
        id INTEGER PRIMARY KEY, session TEXT NOT NULL, call TEXT NOT NULL, at TEXT NOT NULL, command TEXT NOT NULL,
        decision TEXT NOT NULL, exit_code INTEGER, duration_ms INTEGER, UNIQUE (session, call));
    -- derived: what every answer of a model took; micros is NULL where nobody knows
    CREATE TABLE spend (
        session TEXT NOT NULL, round INTEGER NOT NULL, month TEXT NOT NULL, input_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL, micros INTEGER, PRIMARY KEY (session, round)) WITHOUT ROWID;
    CREATE INDEX spend_by_month ON spend (month);";

/// How often it is tried to open a database that another process is opening, and how soon again.
const OPEN_TRIES_MAX: u32 = 100;
const OPEN_AGAIN: Duration = Duration::from_millis(50);

/// SQLite's word, with what was being done.
#[derive(Debug, Error)]
pub enum StoreError {
    #[error(
        "{verb} {path}: {source}. The tables are derived: `journeyman index rebuild` makes them again from the journals"
    )]
    Sqlite {
        verb: &'static str,
        path: PathBuf,
        source: rusqlite::Error,
    },
    #[error("{verb} {path}: {source}")]
    Jobs {
        verb: &'static str,
        path: PathBuf,
        source: rusqlite::Error,
    },
    #[error("note beside {path} that it holds what nothing can make again: {source}")]
    Mark { path: PathBuf, source: io::Error },
    #[error("set aside the damaged database {path}: {source}")]
    SetAside { path: PathBuf, source: io::Error },
    #[error(
        "the database {path} is damaged, and its tables {tables}, which nothing can make again, cannot be read: {why}. \
         Put a backup in its place, or recover it with the `sqlite3` tool's `.recover`; to start without them, move the file away yourself"
    )]
    Owned {
        path: PathBuf,
        tables: String,
        why: String,
    },
}

/// The database, opened with the first use.
pub struct Store {
    path: PathBuf,
    connection: Mutex<Option<Connection>>,
}

impl Store {
    pub fn new(data_dir: &Path) -> Self {
        Self {
            path: data_dir.join("journeyman.db"),
            connection: Mutex::new(None),
        }
    }

    fn with<T>(
        &self,
        verb: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let fail = |source| StoreError::Sqlite {
            verb,
            path: self.path.clone(),
            source,
        };
        let mut guard = self.lock();
        let connection = match guard.take() {
            Some(connection) => connection,
            None => open_sound(&self.path, OWNED, false)?,
        };
        let result = work(&connection).map_err(fail);
        *guard = Some(connection);
        result
    }

    /// Nothing was ever stored: there is no file, and asking makes none.
    pub fn is_absent(&self) -> bool {
        self.lock().is_none() && !self.path.exists()
    }

    /// Empties what can be made again; owned tables stay.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn forget_derived(&self) -> Result<(), StoreError> {
        self.check()?;
        self.with("empty", |db| {
            db.execute_batch(&format!("BEGIN IMMEDIATE; {SCHEMA} COMMIT"))
        })
    }

    /// Looks at every page, and makes a damaged database anew: empty, so that every journal is projected again.
    ///
    /// # Errors
    /// [`StoreError`], also where owned tables would be lost.
    pub fn check(&self) -> Result<(), StoreError> {
        let mut guard = self.lock();
        drop(guard.take());
        *guard = Some(open_sound(&self.path, OWNED, true)?);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Connection>> {
        // A panic while the lock was held can only have lost a derived row.
        self.connection
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Another process may be opening it at the same moment: SQLite does not wait for that by itself.
fn open(path: &Path) -> rusqlite::Result<Connection> {
    let mut tries = 0;
    loop {
        match try_open(path) {
            Err(error)
                if tries < OPEN_TRIES_MAX
                    && error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) =>
            {
                tries += 1;
                std::thread::sleep(OPEN_AGAIN);
            }
            opened => return opened,
        }
    }
}

fn try_open(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open(path)?;
    db.busy_timeout(Duration::from_secs(5))?;
    // Derived data: a lost transaction is projected again, so no fsync for each.
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -512;",
    )?;
    if version(&db)? != SCHEMA_VERSION {
        db.execute_batch("BEGIN IMMEDIATE")?;
        if version(&db)? != SCHEMA_VERSION {
            db.execute_batch(SCHEMA)?;
            cron::prepare(&db)?;
            trust::prepare(&db)?;
            pairing::prepare(&db)?;
            db.pragma_update(None, "user_version", SCHEMA_VERSION)?;
        }
        db.execute_batch("COMMIT")?;
    }
    Ok(db)
}

fn version(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("PRAGMA user_version", [], |row| row.get(0))
}
