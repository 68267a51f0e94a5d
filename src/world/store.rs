//! SQLite: what must be found without reading every journal.
//!
//! The tables here are *derived* (invariant 8): they are made again from the journals, and never decide what happened.
//! Those in [`cron`], [`pairing`] and [`trust`] are *owned*: they exist nowhere else.
//! The database is opened with the first use; one that is damaged is set aside ([`damage`]).

/// Scheduled prompts and their runs.
pub mod cron;
/// A database that cannot be read.
mod damage;
/// The sessions of one client.
mod of_client;
/// Numbers that were paired.
pub mod pairing;
/// Trusted workspaces.
pub mod trust;

use crate::agent::command::{self, ChatCommand, Said};
use crate::agent::event::{EndReason, Event, Got, Inbound, Record, Status, Timestamp, Usage, Via};
use crate::agent::language::Language;
use crate::agent::money::Spend;
use crate::agent::state::{Phase, State};
use damage::{OWNED, open_sound};
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use std::collections::{HashMap, HashSet};
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

const LAST_ORDER: &str = "SELECT coalesce(max(last_order), 0) FROM sessions WHERE chat = ?1";

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

    /// Every session, the last used first.
    pub fn sessions(&self) -> Result<Vec<SessionRow>, StoreError> {
        let sql = "SELECT id, chat, workspace, objective, status, rounds, started_at, updated_at FROM sessions ORDER BY updated_at DESC";
        self.with("list the sessions in", |db| {
            let mut statement = db.prepare(sql)?;
            statement.query_map([], session_row)?.collect()
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

    /// What all sessions but this one have spent in a month.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn spent_elsewhere(&self, month: &str, session: &str) -> Result<Spend, StoreError> {
        let sql = "SELECT COALESCE(SUM(input_tokens), 0), COALESCE(SUM(cached_tokens), 0), COALESCE(SUM(output_tokens), 0),
             COALESCE(SUM(micros), 0), COUNT(*) - COUNT(micros) FROM spend WHERE month = ?1 AND session <> ?2";
        self.with("add up the spending in", |db| {
            db.prepare_cached(sql)?.query_row([month, session], |row| {
                let number = |at| row.get::<_, i64>(at).map(i64::unsigned_abs);
                let usage = Usage {
                    input_tokens: number(0)?,
                    cached_tokens: number(1)?,
                    output_tokens: number(2)?,
                };
                Ok(Spend {
                    usage,
                    micros: number(3)?,
                    unpriced: row.get(4)?,
                })
            })
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

    /// The chat of a session.
    pub fn chat_of(&self, session: &str) -> Result<Option<String>, StoreError> {
        self.with("look up a session in", |db| {
            db.prepare_cached("SELECT chat FROM sessions WHERE id = ?1")?
                .query_row([session], |row| row.get(0))
                .optional()
        })
    }

    /// Takes lines of a journal, the state after them, and the journal's length.
    pub fn project(&self, records: &[Record], state: &State, bytes: u64) -> Result<(), StoreError> {
        self.with("write to", |db| {
            db.execute_batch("BEGIN")?;
            let written = project_session(db, state, bytes).and_then(|()| {
                records
                    .iter()
                    .try_for_each(|record| project_record(db, record, state))
            });
            db.execute_batch(if written.is_ok() {
                "COMMIT"
            } else {
                "ROLLBACK"
            })?;
            written
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

fn spent(
    db: &Connection,
    session: &str,
    round: i64,
    record: &Record,
    usage: Usage,
    cost_micros: Option<u64>,
) -> rusqlite::Result<()> {
    let sql = "INSERT OR IGNORE INTO spend (session, round, month, input_tokens, cached_tokens, output_tokens, micros) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    db.prepare_cached(sql)?.execute(params![
        session,
        round,
        record.at.month(),
        usage.input_tokens as i64,
        usage.cached_tokens as i64,
        usage.output_tokens as i64,
        cost_micros.map(|micros| micros as i64)
    ])?;
    Ok(())
}

fn project_record(db: &Connection, record: &Record, state: &State) -> rusqlite::Result<()> {
    let session = &state.opening.session;
    match &record.event {
        Event::MessageReceived { message } => {
            let sql = "INSERT OR IGNORE INTO seen (chat, message, session) VALUES (?1, ?2, ?3)";
            db.prepare_cached(sql)?
                .execute([&state.opening.chat, &message.id, session])?;
            let sql = "UPDATE sessions SET last_order = max(last_order, ?2) WHERE id = ?1";
            db.prepare_cached(sql)?
                .execute(params![session, message.order as i64])?;
            // Written in another chat, it opens no window in this one.
            let is_here = message.stands_for.is_none();
            if is_here && !matches!(message.via, Via::Schedule | Via::Notice) {
                let sql =
                    "UPDATE sessions SET heard_at = max(coalesce(heard_at, 0), ?2) WHERE id = ?1";
                db.prepare_cached(sql)?
                    .execute(params![session, record.at.0])?;
            }
            if !message.text.trim_start().starts_with('/') {
                let sql = "UPDATE sessions SET objective = ?2 WHERE id = ?1 AND objective = ''";
                db.prepare_cached(sql)?.execute([session, &message.text])?;
            }
        }
        Event::MediaFetched {
            got: Got::Words { text, cost_micros },
            ..
        } => {
            let sql = "UPDATE sessions SET objective = ?2 WHERE id = ?1 AND objective = ''";
            db.prepare_cached(sql)?.execute([session, text])?;
            // By its line, as a summary.
            if cost_micros.is_some() {
                let (line, usage) = (-(record.seq as i64), Usage::default());
                spent(db, session, line, record, usage, *cost_micros)?;
            }
        }
        Event::SendFinished { ids, closed, .. } => {
            let sql = "INSERT OR IGNORE INTO seen (chat, message, session) VALUES (?1, ?2, ?3)";
            for id in ids {
                db.prepare_cached(sql)?
                    .execute([&state.opening.chat, id, session])?;
            }
            if closed
                .as_ref()
                .is_some_and(|closed| closed.invited.is_some())
            {
                let sql = "UPDATE sessions SET invited_at = ?2 WHERE id = ?1";
                db.prepare_cached(sql)?
                    .execute(params![session, record.at.0])?;
            }
        }
        Event::ModelAnswered { round, answer } => {
            let round = i64::from(*round);
            spent(db, session, round, record, answer.usage, answer.cost_micros)?;
        }
        // No round: by its line, so that it stands beside the rounds.
        Event::SummaryGiven {
            usage, cost_micros, ..
        } => spent(
            db,
            session,
            -(record.seq as i64),
            record,
            *usage,
            *cost_micros,
        )?,
        Event::GateDecided { call, verdict, .. } if !verdict.commands.is_empty() => {
            let argvs = verdict.commands.iter().map(|command| {
                shlex::try_join(command.argv.iter().map(String::as_str)).unwrap_or_default()
            });
            let command = argvs.collect::<Vec<_>>().join(" ; ");
            let decision = serde_json::to_value(verdict.decision)
                .ok()
                .and_then(|d| Some(d.as_str()?.to_owned()))
                .unwrap_or_default();
            let sql = "INSERT OR IGNORE INTO agent_command_log (session, call, at, command, decision) VALUES (?1, ?2, ?3, ?4, ?5)";
            db.prepare_cached(sql)?.execute([
                session,
                &call.0,
                &record.at.to_string(),
                &command,
                &decision,
            ])?;
        }
        Event::ToolFinished { call, outcome } if outcome.status != Status::Denied => {
            let sql = "UPDATE agent_command_log SET exit_code = ?3, duration_ms = ?4 WHERE session = ?1 AND call = ?2";
            db.prepare_cached(sql)?.execute(params![
                session,
                call.0,
                outcome.exit_code,
                outcome.duration_ms as i64
            ])?;
        }
        _ => {}
    }
    Ok(())
}

fn project_session(db: &Connection, state: &State, bytes: u64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO sessions (id, chat, workspace, objective, status, rounds, started_at, updated_at, last_order, closed, due_at, bytes, unfinished, question, asked_in, interruptions, held, language)
         VALUES (?1, ?2, ?3, '', ?4, ?5, ?6, ?6, CASE WHEN ?1 LIKE 'cron-%' OR ?1 LIKE 'child-%' THEN 0 ELSE 1 + (SELECT coalesce(max(last_order), 0) FROM sessions WHERE chat = ?2) END, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
         ON CONFLICT (id) DO UPDATE SET workspace = ?3, status = ?4, rounds = ?5, updated_at = ?6, closed = ?7, due_at = ?8, bytes = ?9, unfinished = ?10, question = ?11, asked_in = ?12, interruptions = ?13, held = ?14";
    let opening = &state.opening;
    let asked = state.question().map(|(_, question)| question);
    let question = asked.map(|question| &question.approval);
    let ids = asked.map(|question| question.asked_in.as_slice());
    let asked_in = serde_json::json!(ids.unwrap_or_default()).to_string();
    let due_at = state.next_alarm().map(|(at, _)| at.0);
    db.prepare_cached(sql)?.execute(params![
        opening.session,
        opening.chat,
        state.checkout.path,
        status(state),
        state.rounds,
        state.now.to_string(),
        is_closed(state),
        due_at,
        bytes as i64,
        left_to_do(state),
        question,
        asked_in,
        state.interruptions,
        state
            .outbox
            .front()
            .is_some_and(|front| front.held.is_some()),
        opening.language.code()
    ])?;
    Ok(())
}

/// `/new` counts from the moment it is on disk: the next message may come before it is taken.
fn is_closed(state: &State) -> bool {
    let says_new = |message: &Inbound| {
        message.from == state.opening.owner
            && matches!(
                command::read(&message.text),
                Said::Command(ChatCommand::New)
            )
    };
    let ends = |message: &Inbound| says_new(message) || message.via == Via::Pairing;
    state.closed || state.unread.iter().any(ends)
}

/// What a process that finds a session must wake it for; 0: nothing.
const TO_SAY: u8 = 1;
const TO_DO: u8 = 2;

fn left_to_do(state: &State) -> u8 {
    let working = state
        .turn
        .as_ref()
        .is_some_and(|turn| !turn.interrupted && !state.waits_for_person());
    let checkpoints = &state.checkpoints;
    let trees = checkpoints.running || checkpoints.wish.is_some();
    let errands = state.errand.is_some() || state.moving.is_some() || state.carrying.is_some();
    match working || trees || errands || !state.unread.is_empty() {
        true => TO_DO,
        false if !state.outbox.is_empty() => TO_SAY,
        false => 0,
    }
}

/// One word for the list of sessions.
pub fn status(state: &State) -> &'static str {
    match &state.turn {
        None if state.closed => "closed",
        None => state.last_end.map_or("new", |reason| reason.word()),
        Some(turn) if turn.interrupted => "interrupted",
        Some(_) if state.waits_for_person() => "waiting",
        Some(turn) => match turn.phase {
            Phase::Ready
            | Phase::Asking
            | Phase::Drafting
            | Phase::Calls(_)
            | Phase::TooLong(_)
            | Phase::Summarising(_)
            | Phase::Summarised(..) => "running",
            Phase::Answered(_) | Phase::Failed(_) | Phase::Limited(_) => "ending",
        },
    }
}
