//! Changes that a chat or a model asked for: each once, by its key, whatever died while it was made.
//!
//! Change and answer are one transaction: who asks again with the same key gets the answer of then.

use super::runs::claim_slots;
use super::{JobState, NewJob, insert_job, move_job};
use crate::agent::event::Timestamp;
use crate::schedule::wish::Answer;
use crate::world::store::{Store, StoreError};
use rusqlite::{Connection, OptionalExtension, params};

/// How long answers are kept: nothing asks again after so long.
const KEPT_MS: i64 = 90 * 24 * 60 * 60 * 1_000;

/// What is to be changed.
#[derive(Debug)]
pub enum Change<'a> {
    /// `added` stands for what came of it, with the number 0.
    Add {
        job: &'a NewJob,
        jobs_max: u32,
        added: Answer,
    },
    Move {
        id: i64,
        owner: Option<&'a str>,
        to: JobState,
    },
    /// One slot more, now.
    Run { id: i64, owner: Option<&'a str> },
}

impl Store {
    /// Makes a change, unless one with this key was made: the answer of the first time.
    ///
    /// # Errors
    /// [`StoreError`]: nothing is changed then.
    pub fn change_once(
        &self,
        key: &str,
        change: &Change<'_>,
        now: Timestamp,
    ) -> Result<Answer, StoreError> {
        if let Change::Add { .. } = change {
            self.mark_owned()?;
        }
        self.durably("change a job in", |db| {
            let sql = "SELECT answer FROM cron_changes WHERE key = ?1";
            let before: Option<String> = db.query_row(sql, [key], |row| row.get(0)).optional()?;
            if let Some(before) = before {
                return serde_json::from_str(&before).map_err(unreadable);
            }
            let answer = make(db, change, now)?;
            let sql = "INSERT INTO cron_changes (key, at, answer) VALUES (?1, ?2, ?3)";
            let text = serde_json::to_string(&answer).map_err(unreadable)?;
            db.execute(sql, params![key, now.0, text])?;
            let sql = "DELETE FROM cron_changes WHERE at < ?1";
            db.execute(sql, [now.0 - KEPT_MS])?;
            Ok(answer)
        })
    }
}

fn make(db: &Connection, change: &Change<'_>, now: Timestamp) -> rusqlite::Result<Answer> {
    match change {
        Change::Add {
            job,
            jobs_max,
            added,
        } => Ok(match insert_job(db, job, *jobs_max, now)? {
            Some(number) => numbered(added, number),
            None => Answer::Refused {
                why: full(&job.owner, *jobs_max),
            },
        }),
        Change::Move { id, owner, to } => {
            let moved = move_job(db, *id, *owner, to, now)?;
            Ok(answer(*id, moved))
        }
        Change::Run { id, owner } => {
            let sql = "SELECT 1 FROM user_cron_jobs WHERE id = ?1 AND owner = coalesce(?2, owner) AND state IN ('active', 'paused')";
            if !db.prepare(sql)?.exists(params![id, owner])? {
                return Ok(answer(*id, false));
            }
            claim_slots(db, *id, &[now], "claimed", now)?;
            Ok(answer(*id, true))
        }
    }
}

fn numbered(added: &Answer, number: i64) -> Answer {
    let mut added = added.clone();
    if let Answer::Added { id, .. } = &mut added {
        *id = number;
    }
    added
}

fn answer(id: i64, done: bool) -> Answer {
    match done {
        true => Answer::Done { id },
        false => Answer::Missing { id },
    }
}

/// Why there is no room for another schedule.
fn full(owner: &str, jobs_max: u32) -> String {
    format!("{owner} has {jobs_max} schedules already (cron_jobs_max); deleting one makes room")
}

fn unreadable(error: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}
