//! Scheduled prompts and their runs: *owned* tables, which exist nowhere else.
//!
//! What is written here is on disk when a method returns. A slot of a job is claimed once, whoever asks.

use super::{Store, StoreError, damage};
use crate::agent::event::Timestamp;
use crate::schedule::misfire::Misfire;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;

/// Runs that are kept of a job.
const RUNS_KEPT_MAX: i64 = 1_000;

/// Made where they are missing, never dropped.
pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS user_cron_jobs (
        id INTEGER PRIMARY KEY, chat TEXT NOT NULL, owner TEXT NOT NULL, schedule TEXT NOT NULL, message TEXT NOT NULL,
        timezone TEXT NOT NULL, misfire TEXT NOT NULL, late_minutes INTEGER NOT NULL, state TEXT NOT NULL, why TEXT NOT NULL,
        failures INTEGER NOT NULL, created_at INTEGER NOT NULL, decided_until INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS cron_runs (
        job INTEGER NOT NULL, slot INTEGER NOT NULL, claimed_at INTEGER NOT NULL, started_at INTEGER, ended_at INTEGER,
        outcome TEXT NOT NULL, session TEXT, duration_ms INTEGER, PRIMARY KEY (job, slot));";

const JOB: &str = "SELECT id, chat, owner, schedule, message, timezone, misfire, late_minutes, state, why, failures, created_at,
    decided_until FROM user_cron_jobs";
const RUN: &str = "SELECT job, slot, claimed_at, started_at, ended_at, outcome, session, duration_ms FROM cron_runs";

/// What is to be done on a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewJob {
    pub chat: String,
    pub owner: String,
    pub schedule: String,
    pub message: String,
    /// IANA name.
    pub timezone: String,
    pub misfire: Misfire,
    /// A slot that is later than this is not made up for.
    pub late_minutes: u32,
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

/// One slot of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Run {
    pub job: i64,
    pub slot: Timestamp,
    pub claimed_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// `claimed`, `running`, then how it ended: `done`, `failed`, `limit`, `cancelled`, `interrupted`, `overlap`, `missed`.
    pub outcome: String,
    pub session: Option<String>,
    pub duration_ms: Option<u64>,
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
        damage::mark_owned(&self.path).map_err(|source| StoreError::Mark {
            path: self.path.clone(),
            source,
        })?;
        self.durably("add a job to", |db| {
            let sql = "SELECT count(*) FROM user_cron_jobs WHERE owner = ?1 AND state IN ('active', 'paused')";
            let count: u32 = db.query_row(sql, [&job.owner], |row| row.get(0))?;
            if count >= jobs_max {
                return Ok(None);
            }
            let sql = "INSERT INTO user_cron_jobs (chat, owner, schedule, message, timezone, misfire, late_minutes, state, why, failures,
                 created_at, decided_until) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'active', '', 0, ?8, ?8)";
            db.execute(
                sql,
                params![
                    job.chat,
                    job.owner,
                    job.schedule,
                    job.message,
                    job.timezone,
                    job.misfire.word(),
                    job.late_minutes,
                    now.0
                ],
            )?;
            Ok(Some(db.last_insert_rowid()))
        })
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
        let (word, why, from) = match &state {
            JobState::Active => ("active", "", "paused"),
            JobState::Paused(why) => ("paused", why.as_str(), "active"),
            JobState::Finished => ("finished", "", "active"),
            JobState::Deleted => ("deleted", "", ""),
        };
        // What fell into the pause is not made up for.
        let until = matches!(state, JobState::Active).then_some(now.0);
        self.durably("change a job in", |db| {
            let sql = "UPDATE user_cron_jobs SET state = ?3, why = ?4, failures = 0, decided_until = coalesce(?6, decided_until)
                 WHERE id = ?1 AND owner = coalesce(?2, owner) AND state IN ('active', 'paused') AND (?5 = '' OR state = ?5)";
            Ok(db.execute(sql, params![id, owner, word, why, from, until])? == 1)
        })
    }

    /// Claims slots of a job, and notes that all up to `until` are decided: those that nobody claimed before.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn claim(
        &self,
        job: i64,
        slots: &[Timestamp],
        outcome: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<Timestamp>, StoreError> {
        self.durably("claim a slot in", |db| {
            let mut fresh = Vec::new();
            for slot in slots {
                let sql = "INSERT OR IGNORE INTO cron_runs (job, slot, claimed_at, outcome, ended_at)
                     VALUES (?1, ?2, ?3, ?4, CASE ?4 WHEN 'claimed' THEN NULL ELSE ?3 END)";
                if db.execute(sql, params![job, slot.0, now.0, outcome])? == 1 {
                    fresh.push(*slot);
                }
            }
            let sql = "UPDATE user_cron_jobs SET decided_until = ?2 WHERE id = ?1";
            db.execute(sql, params![job, until.0])?;
            let sql = "DELETE FROM cron_runs WHERE job = ?1 AND ended_at IS NOT NULL AND slot < (SELECT slot FROM cron_runs
                 WHERE job = ?1 ORDER BY slot DESC LIMIT 1 OFFSET ?2)";
            db.execute(sql, params![job, RUNS_KEPT_MAX])?;
            Ok(fresh)
        })
    }

    /// A run is about to be delivered to this session.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn run_started(&self, run: &Run, session: &str, now: Timestamp) -> Result<(), StoreError> {
        self.durably("start a run in", |db| {
            let sql = "UPDATE cron_runs SET outcome = 'running', session = ?3, started_at = ?4 WHERE job = ?1 AND slot = ?2";
            db.execute(sql, params![run.job, run.slot.0, session, now.0])
                .map(drop)
        })
    }

    /// A run ended; the job's failures in a row after it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn run_ended(&self, run: &Run, outcome: &str, now: Timestamp) -> Result<u32, StoreError> {
        let duration = run.started_at.map(|started| now.since(started) as i64);
        self.durably("end a run in", |db| {
            let sql = "UPDATE cron_runs SET outcome = ?3, ended_at = ?4, duration_ms = ?5 WHERE job = ?1 AND slot = ?2";
            db.execute(
                sql,
                params![run.job, run.slot.0, outcome, now.0, duration],
            )?;
            let failures = match outcome {
                "failed" | "limit" => "failures + 1",
                "done" => "0",
                _ => "failures",
            };
            let sql = format!(
                "UPDATE user_cron_jobs SET failures = {failures} WHERE id = ?1 RETURNING failures"
            );
            db.query_row(&sql, [run.job], |row| row.get(0))
        })
    }

    /// Whether a job was ever added; where none was, there is no need to open the database for one.
    pub fn may_hold_jobs(&self) -> bool {
        damage::owned_mark(&self.path).exists()
    }

    /// Runs that are claimed or under way, the earliest slot first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open_runs(&self) -> Result<Vec<Run>, StoreError> {
        self.owned("list the runs in", |db| {
            let sql = format!("{RUN} WHERE outcome IN ('claimed', 'running') ORDER BY slot, job");
            let mut rows = db.prepare_cached(&sql)?;
            rows.query_map([], read_run)?.collect()
        })
    }

    /// The last runs, the latest first: of one job or of all.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn runs(&self, job: Option<i64>, count: u32) -> Result<Vec<Run>, StoreError> {
        self.owned("list the runs in", |db| {
            let sql =
                format!("{RUN} WHERE job = coalesce(?1, job) ORDER BY slot DESC, job LIMIT ?2");
            let mut rows = db.prepare_cached(&sql)?;
            rows.query_map(params![job, count], read_run)?.collect()
        })
    }

    /// The status of a session, and whether anything is left to do in it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn session_status(&self, session: &str) -> Result<Option<(String, bool)>, StoreError> {
        self.with("look up a session in", |db| {
            db.prepare_cached("SELECT status, unfinished FROM sessions WHERE id = ?1")?
                .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
        })
    }

    fn owned<T>(
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
    fn durably<T>(
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

fn read_job(row: &Row<'_>) -> rusqlite::Result<Job> {
    let misfire: String = row.get(6)?;
    Ok(Job {
        id: row.get(0)?,
        what: NewJob {
            chat: row.get(1)?,
            owner: row.get(2)?,
            schedule: row.get(3)?,
            message: row.get(4)?,
            timezone: row.get(5)?,
            misfire: Misfire::read(&misfire).unwrap_or_default(),
            late_minutes: row.get(7)?,
        },
        state: row.get(8)?,
        why: row.get(9)?,
        failures: row.get(10)?,
        created_at: Timestamp(row.get(11)?),
        decided_until: Timestamp(row.get(12)?),
    })
}

fn read_run(row: &Row<'_>) -> rusqlite::Result<Run> {
    let time = |at| row.get::<_, Option<i64>>(at).map(|ms| ms.map(Timestamp));
    Ok(Run {
        job: row.get(0)?,
        slot: Timestamp(row.get(1)?),
        claimed_at: Timestamp(row.get(2)?),
        started_at: time(3)?,
        ended_at: time(4)?,
        outcome: row.get(5)?,
        session: row.get(6)?,
        duration_ms: row.get::<_, Option<i64>>(7)?.map(i64::unsigned_abs),
    })
}
