//! Scheduled prompts and their runs: *owned* tables, which exist nowhere else.
//!
//! What is written here is on disk when a method returns. A slot of a job is claimed once, whoever asks.

/// Changes that happen once.
mod changes;
/// Slots that were claimed, and what is said about them.
mod runs;

pub use changes::Change;
pub use runs::{Claim, Ending, Notice, Run, SessionNow};

use super::{Store, StoreError, damage};
use crate::agent::event::Timestamp;
use crate::schedule::misfire::Misfire;
use crate::schedule::wish::{Interrupted, Terms};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;

/// Made where they are missing, never dropped.
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS user_cron_jobs (
        id INTEGER PRIMARY KEY, chat TEXT NOT NULL, owner TEXT NOT NULL, schedule TEXT NOT NULL, message TEXT NOT NULL,
        timezone TEXT NOT NULL, misfire TEXT NOT NULL, late_minutes INTEGER NOT NULL, state TEXT NOT NULL, why TEXT NOT NULL,
        failures INTEGER NOT NULL, created_at INTEGER NOT NULL, decided_until INTEGER NOT NULL, interrupted TEXT, rounds INTEGER,
        minutes INTEGER, cents INTEGER, jitter INTEGER);
    CREATE TABLE IF NOT EXISTS cron_runs (
        job INTEGER NOT NULL, slot INTEGER NOT NULL, claimed_at INTEGER NOT NULL, started_at INTEGER, ended_at INTEGER,
        outcome TEXT NOT NULL, session TEXT, duration_ms INTEGER, interruptions INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (job, slot));
    CREATE TABLE IF NOT EXISTS cron_notices (
        job INTEGER NOT NULL, slot INTEGER NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, told INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (job, slot, kind)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS cron_changes (key TEXT PRIMARY KEY, at INTEGER NOT NULL, answer TEXT NOT NULL) WITHOUT ROWID;";

/// Columns that tables of before lack.
const ADDED: [(&str, &str, &str); 6] = [
    ("user_cron_jobs", "interrupted", "TEXT"),
    ("user_cron_jobs", "rounds", "INTEGER"),
    ("user_cron_jobs", "minutes", "INTEGER"),
    ("user_cron_jobs", "cents", "INTEGER"),
    ("user_cron_jobs", "jitter", "INTEGER"),
    ("cron_runs", "interruptions", "INTEGER NOT NULL DEFAULT 0"),
];

/// Makes the tables, or makes them what they are today.
pub(super) fn prepare(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(SCHEMA)?;
    for (table, column, kind) in ADDED {
        let there = db
            .prepare("SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2")?
            .exists([table, column])?;
        if !there {
            db.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {column} {kind}"))?;
        }
    }
    Ok(())
}

const JOB: &str = "SELECT id, chat, owner, schedule, message, timezone, misfire, late_minutes, state, why, failures, created_at,
    decided_until, interrupted, rounds, minutes, cents, jitter FROM user_cron_jobs";

/// What is to be done on a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewJob {
    pub chat: String,
    pub owner: String,
    pub schedule: String,
    pub message: String,
    /// IANA name.
    pub timezone: String,
    #[serde(flatten)]
    pub terms: Terms,
}

/// A job as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Job {
    pub id: i64,
    #[serde(flatten)]
    pub what: NewJob,
    /// `active`, `paused`, `finished` (its only time came), `deleted`.
    pub state: String,
    /// Why it is paused.
    pub why: String,
    /// Runs that failed in a row.
    pub failures: u32,
    pub created_at: Timestamp,
    /// Every slot up to here was claimed or passed over.
    pub decided_until: Timestamp,
}

impl Store {
    /// Keeps a new job; `None` where the owner has `jobs_max` already.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn add_job(
        &self,
        job: &NewJob,
        jobs_max: u32,
        now: Timestamp,
    ) -> Result<Option<i64>, StoreError> {
        self.mark_owned()?;
        self.durably("add a job to", |db| insert_job(db, job, jobs_max, now))
    }

    /// Jobs that are not deleted nor finished, of one owner or of all.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn jobs(&self, owner: Option<&str>) -> Result<Vec<Job>, StoreError> {
        self.owned("list the jobs in", |db| {
            let sql = format!("{JOB} WHERE state IN ('active', 'paused') AND owner = coalesce(?1, owner) ORDER BY id");
            let mut rows = db.prepare_cached(&sql)?;
            rows.query_map([owner], read_job)?.collect()
        })
    }

    /// One job, whatever its state.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn job(&self, id: i64) -> Result<Option<Job>, StoreError> {
        self.owned("look up a job in", |db| {
            let sql = format!("{JOB} WHERE id = ?1");
            db.prepare_cached(&sql)?
                .query_row([id], read_job)
                .optional()
        })
    }

    /// Moves a job of `owner` (of anybody where there is none) from one of the states `from` to another. `false`: there is
    /// no such job.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn set_job_state(
        &self,
        id: i64,
        owner: Option<&str>,
        state: JobState,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.durably("change a job in", |db| move_job(db, id, owner, &state, now))
    }

    /// Whether a job was ever added; where none was, there is no need to open the database for one.
    pub fn may_hold_jobs(&self) -> bool {
        damage::owned_mark(&self.path).exists()
    }

    pub(super) fn mark_owned(&self) -> Result<(), StoreError> {
        damage::mark_owned(&self.path).map_err(|source| StoreError::Mark {
            path: self.path.clone(),
            source,
        })
    }

    pub(super) fn owned<T>(
        &self,
        verb: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.with(verb, work).map_err(|error| match error {
            StoreError::Sqlite { verb, path, source } => StoreError::Jobs { verb, path, source },
            other => other,
        })
    }

    /// One transaction, on disk when this returns: the rest of the database may lose its last ones to a power cut.
    pub(super) fn durably<T>(
        &self,
        verb: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.owned(verb, |db| {
            db.execute_batch("PRAGMA synchronous = FULL; BEGIN IMMEDIATE")?;
            let worked = work(db).and_then(|value| {
                db.execute_batch("COMMIT")?;
                Ok(value)
            });
            if worked.is_err() && !db.is_autocommit() {
                db.execute_batch("ROLLBACK")?;
            }
            db.execute_batch("PRAGMA synchronous = NORMAL")?;
            worked
        })
    }
}

/// What a job can become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    Active,
    Paused(String),
    Finished,
    Deleted,
}

fn insert_job(
    db: &Connection,
    job: &NewJob,
    jobs_max: u32,
    now: Timestamp,
) -> rusqlite::Result<Option<i64>> {
    let sql =
        "SELECT count(*) FROM user_cron_jobs WHERE owner = ?1 AND state IN ('active', 'paused')";
    let count: u32 = db.query_row(sql, [&job.owner], |row| row.get(0))?;
    if count >= jobs_max {
        return Ok(None);
    }
    let sql = "INSERT INTO user_cron_jobs (chat, owner, schedule, message, timezone, misfire, late_minutes, state, why, failures,
         created_at, decided_until, interrupted, rounds, minutes, cents, jitter)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'active', '', 0, ?8, ?8, ?9, ?10, ?11, ?12, ?13)";
    let terms = job.terms;
    let interrupted = terms.interrupted.map(Interrupted::word);
    db.execute(
        sql,
        params![
            job.chat,
            job.owner,
            job.schedule,
            job.message,
            job.timezone,
            terms.misfire.word(),
            terms.late_minutes.unwrap_or_default(),
            now.0,
            interrupted,
            terms.rounds,
            terms.minutes,
            terms.cents,
            terms.jitter
        ],
    )?;
    Ok(Some(db.last_insert_rowid()))
}

fn move_job(
    db: &Connection,
    id: i64,
    owner: Option<&str>,
    state: &JobState,
    now: Timestamp,
) -> rusqlite::Result<bool> {
    let (word, why, from) = match state {
        JobState::Active => ("active", "", "paused"),
        JobState::Paused(why) => ("paused", why.as_str(), "active"),
        JobState::Finished => ("finished", "", "active"),
        JobState::Deleted => ("deleted", "", ""),
    };
    // What fell into the pause is not made up for.
    let until = matches!(state, JobState::Active).then_some(now.0);
    let sql = "UPDATE user_cron_jobs SET state = ?3, why = ?4, failures = 0, decided_until = coalesce(?6, decided_until)
         WHERE id = ?1 AND owner = coalesce(?2, owner) AND state IN ('active', 'paused') AND (?5 = '' OR state = ?5)";
    Ok(db.execute(sql, params![id, owner, word, why, from, until])? == 1)
}

fn read_job(row: &Row<'_>) -> rusqlite::Result<Job> {
    let (misfire, interrupted): (String, Option<String>) = (row.get(6)?, row.get(13)?);
    Ok(Job {
        id: row.get(0)?,
        what: NewJob {
            chat: row.get(1)?,
            owner: row.get(2)?,
            schedule: row.get(3)?,
            message: row.get(4)?,
            timezone: row.get(5)?,
            terms: Terms {
                misfire: Misfire::read(&misfire).unwrap_or_default(),
                late_minutes: row.get(7)?,
                interrupted: interrupted.as_deref().and_then(Interrupted::read),
                rounds: row.get(14)?,
                minutes: row.get(15)?,
                cents: row.get(16)?,
                jitter: row.get(17)?,
            },
        },
        state: row.get(8)?,
        why: row.get(9)?,
        failures: row.get(10)?,
        created_at: Timestamp(row.get(11)?),
        decided_until: Timestamp(row.get(12)?),
    })
}
