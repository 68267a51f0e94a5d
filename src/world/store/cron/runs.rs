//! Runs: a slot is claimed once, begun, ended; and what the chat is to be told of it, until it was.
//!
//! What is to be said is kept in the transaction that makes it so. Each kind of notice is there once for a slot.

use super::{JobState, move_job};
use crate::agent::event::Timestamp;
use crate::world::store::projection::TO_DO;
use crate::world::store::{Store, StoreError};
use chrono::DateTime;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;

/// Runs that are kept of a job.
const RUNS_KEPT_MAX: i64 = 1_000;
/// How long an interrupted run is looked at, for somebody may go on with it.
const WATCHED_MS: i64 = 30 * 24 * 60 * 60 * 1_000;

const RUN: &str = "SELECT job, slot, claimed_at, started_at, ended_at, outcome, session, duration_ms, interruptions FROM cron_runs";

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
    /// How often its process died.
    pub interruptions: u32,
}

impl Run {
    /// Whether somebody said "now": its slot is the moment of that.
    pub fn is_by_hand(&self) -> bool {
        self.slot == self.claimed_at
    }
}

/// What is decided about a job's slots at one time.
#[derive(Debug)]
pub struct Claim<'a> {
    pub job: i64,
    pub slots: &'a [Timestamp],
    /// `claimed`, or `overlap`: they do not run.
    pub outcome: &'a str,
    /// Slots that were missed and are left.
    pub left: &'a [Timestamp],
    /// Every slot up to here is decided.
    pub until: Timestamp,
    /// It fires no more.
    pub finished: bool,
    pub notices: &'a [Notice],
}

/// Something that the chat is to be told, by the session of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub job: i64,
    pub slot: Timestamp,
    pub kind: String,
    pub text: String,
}

/// How a run ended, and what follows where it was one failure too many.
#[derive(Debug)]
pub struct Ending<'a> {
    pub outcome: &'a str,
    pub interruptions: u32,
    pub failures_max: u32,
    /// Why the job is paused then, and what is said.
    pub why: &'a str,
    pub paused: Notice,
    /// What is said in any case.
    pub notice: Option<Notice>,
}

/// What the tables know of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionNow {
    pub status: String,
    /// Something is left to do in it, besides saying what came of it.
    pub works: bool,
    pub interruptions: u32,
    /// When it last did something.
    pub updated_at: Option<Timestamp>,
}

impl Store {
    /// Claims slots of an active job that nobody claimed before; those are returned.
    ///
    /// # Errors
    /// [`StoreError`]: nothing is decided then.
    pub fn claim(&self, claim: &Claim<'_>, now: Timestamp) -> Result<Vec<Timestamp>, StoreError> {
        self.durably("claim a slot in", |db| {
            let sql =
                "UPDATE user_cron_jobs SET decided_until = ?2 WHERE id = ?1 AND state = 'active'";
            if db.execute(sql, params![claim.job, claim.until.0])? == 0 {
                return Ok(Vec::new()); // somebody paused it a moment ago
            }
            claim_slots(db, claim.job, claim.left, "missed", now)?;
            let fresh = claim_slots(db, claim.job, claim.slots, claim.outcome, now)?;
            claim
                .notices
                .iter()
                .try_for_each(|notice| put_notice(db, notice))?;
            if claim.finished {
                move_job(db, claim.job, None, &JobState::Finished, now)?;
            }
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

    /// A run that its dead process had hardly begun begins again.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn run_cut_short(&self, run: &Run) -> Result<(), StoreError> {
        self.durably("start a run in", |db| {
            let sql = "UPDATE cron_runs SET interruptions = interruptions + 1 WHERE job = ?1 AND slot = ?2";
            db.execute(sql, params![run.job, run.slot.0]).map(drop)
        })
    }

    /// Somebody went on with an interrupted run.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn run_resumed(&self, run: &Run) -> Result<(), StoreError> {
        self.durably("start a run in", |db| {
            let sql = "UPDATE cron_runs SET outcome = 'running', ended_at = NULL, duration_ms = NULL WHERE job = ?1 AND slot = ?2";
            db.execute(sql, params![run.job, run.slot.0]).map(drop)
        })
    }

    /// A run ended; too many failures in a row pause the job.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn run_ended(
        &self,
        run: &Run,
        ending: &Ending<'_>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let duration = run.started_at.map(|started| now.since(started) as i64);
        self.durably("end a run in", |db| {
            let sql = "UPDATE cron_runs SET outcome = ?3, ended_at = ?4, duration_ms = ?5, interruptions = max(interruptions, ?6)
                 WHERE job = ?1 AND slot = ?2";
            let (slot, outcome) = (run.slot.0, ending.outcome);
            db.execute(
                sql,
                params![run.job, slot, outcome, now.0, duration, ending.interruptions],
            )?;
            if let Some(notice) = &ending.notice {
                put_notice(db, notice)?;
            }
            let failures = match outcome {
                "failed" | "limit" => "failures + 1",
                "done" => "0",
                _ => "failures",
            };
            let sql = format!(
                "UPDATE user_cron_jobs SET failures = {failures} WHERE id = ?1 RETURNING failures"
            );
            let failures: u32 = db.query_row(&sql, [run.job], |row| row.get(0))?;
            let paused = JobState::Paused(ending.why.to_owned());
            if failures >= ending.failures_max && move_job(db, run.job, None, &paused, now)? {
                put_notice(db, &ending.paused)?;
            }
            Ok(())
        })
    }

    /// Pauses a job, and says why.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn pause_job(&self, why: &str, notice: &Notice, now: Timestamp) -> Result<(), StoreError> {
        self.durably("change a job in", |db| {
            let paused = JobState::Paused(why.to_owned());
            match move_job(db, notice.job, None, &paused, now)? {
                true => put_notice(db, notice),
                false => Ok(()),
            }
        })
    }

    /// What the chats were not told yet.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn untold(&self) -> Result<Vec<Notice>, StoreError> {
        self.owned("list the notices in", |db| {
            let sql =
                "SELECT job, slot, kind, text FROM cron_notices WHERE told = 0 ORDER BY slot, job";
            let mut rows = db.prepare_cached(sql)?;
            let notice = |row: &Row<'_>| {
                Ok(Notice {
                    job: row.get(0)?,
                    slot: Timestamp(row.get(1)?),
                    kind: row.get(2)?,
                    text: row.get(3)?,
                })
            };
            rows.query_map([], notice)?.collect()
        })
    }

    /// A notice is in the journal of its session.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn notice_told(&self, notice: &Notice) -> Result<(), StoreError> {
        self.durably("note a notice in", |db| {
            let sql = "UPDATE cron_notices SET told = 1 WHERE job = ?1 AND slot = ?2 AND kind = ?3";
            db.execute(sql, params![notice.job, notice.slot.0, notice.kind])
                .map(drop)
        })
    }

    /// Runs that are claimed or under way, the earliest slot first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open_runs(&self) -> Result<Vec<Run>, StoreError> {
        self.some_runs("outcome IN ('claimed', 'running') ORDER BY slot, job", [])
    }

    /// Runs whose session may have come to something.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn watched_runs(&self, now: Timestamp) -> Result<Vec<Run>, StoreError> {
        let sql =
            "outcome = 'running' OR (outcome = 'interrupted' AND ended_at > ?1) ORDER BY slot, job";
        self.some_runs(sql, [now.0 - WATCHED_MS])
    }

    /// The last runs, the latest first: of one job or of all.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn runs(&self, job: Option<i64>, count: u32) -> Result<Vec<Run>, StoreError> {
        let sql = "job = coalesce(?1, job) ORDER BY slot DESC, job LIMIT ?2";
        self.some_runs(sql, params![job, count])
    }

    fn some_runs(
        &self,
        which: &str,
        values: impl rusqlite::Params,
    ) -> Result<Vec<Run>, StoreError> {
        self.owned("list the runs in", |db| {
            let mut rows = db.prepare_cached(&format!("{RUN} WHERE {which}"))?;
            rows.query_map(values, read_run)?.collect()
        })
    }

    /// What is known of a session.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn session_now(&self, session: &str) -> Result<Option<SessionNow>, StoreError> {
        self.with("look up a session in", |db| {
            let sql =
                "SELECT status, unfinished, interruptions, updated_at FROM sessions WHERE id = ?1";
            let now = |row: &Row<'_>| {
                Ok(SessionNow {
                    status: row.get(0)?,
                    works: row.get::<_, u8>(1)? == TO_DO,
                    interruptions: row.get(2)?,
                    updated_at: instant(&row.get::<_, String>(3)?),
                })
            };
            db.prepare_cached(sql)?.query_row([session], now).optional()
        })
    }
}

fn instant(text: &str) -> Option<Timestamp> {
    let time = DateTime::parse_from_rfc3339(text).ok()?;
    Some(Timestamp(time.timestamp_millis()))
}

pub(super) fn claim_slots(
    db: &Connection,
    job: i64,
    slots: &[Timestamp],
    outcome: &str,
    now: Timestamp,
) -> rusqlite::Result<Vec<Timestamp>> {
    let mut fresh = Vec::new();
    for slot in slots {
        // One that was missed by a clock that was wrong comes again.
        let sql = "INSERT INTO cron_runs (job, slot, claimed_at, outcome, ended_at)
             VALUES (?1, ?2, ?3, ?4, CASE ?4 WHEN 'claimed' THEN NULL ELSE ?3 END)
             ON CONFLICT DO UPDATE SET claimed_at = excluded.claimed_at, outcome = excluded.outcome, ended_at = excluded.ended_at
             WHERE cron_runs.outcome = 'missed' AND excluded.outcome <> 'missed'";
        if db.execute(sql, params![job, slot.0, now.0, outcome])? == 1 {
            fresh.push(*slot);
        }
    }
    if !fresh.is_empty() {
        forget_oldest(db, job)?;
    }
    Ok(fresh)
}

fn forget_oldest(db: &Connection, job: i64) -> rusqlite::Result<()> {
    let sql = "SELECT slot FROM cron_runs WHERE job = ?1 ORDER BY slot DESC LIMIT 1 OFFSET ?2";
    let oldest: Option<i64> = db
        .query_row(sql, params![job, RUNS_KEPT_MAX], |row| row.get(0))
        .optional()?;
    let Some(oldest) = oldest else {
        return Ok(());
    };
    let sql = "DELETE FROM cron_runs WHERE job = ?1 AND ended_at IS NOT NULL AND slot < ?2";
    db.execute(sql, params![job, oldest])?;
    let sql = "DELETE FROM cron_notices WHERE job = ?1 AND told = 1 AND slot < ?2";
    db.execute(sql, params![job, oldest]).map(drop)
}

fn put_notice(db: &Connection, notice: &Notice) -> rusqlite::Result<()> {
    let sql = "INSERT OR IGNORE INTO cron_notices (job, slot, kind, text) VALUES (?1, ?2, ?3, ?4)";
    let Notice {
        job,
        slot,
        kind,
        text,
    } = notice;
    db.execute(sql, params![job, slot.0, kind, text]).map(drop)
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
        interruptions: row.get(8)?,
    })
}
