//! The desk at which schedules are kept: what a wish needs, whether it can be had, and the change itself.
//!
//! Chats, models and the command line come here. Nothing is judged here, and nothing runs.

use crate::agent::event::{Opening, Timestamp};
use crate::doors;
use crate::gate::ScheduleFact;
use crate::schedule::Schedule;
use crate::schedule::wish::{Answer, Listed, Order, Wish};
use crate::world::store::cron::{Change, Job, JobState, NewJob};
use crate::world::store::{Store, StoreError};
use chrono::{DateTime, Utc};

/// Bytes of a job's message: what fits into one message of WhatsApp.
const MESSAGE_BYTES_MAX: usize = 4_096;
/// Firings that are shown of a new schedule.
const SHOWN: usize = 3;

/// What holds for every schedule.
#[derive(Debug, Clone, Default)]
pub struct Desk {
    /// Of schedules that name none; may be empty.
    pub timezone: String,
    pub jobs_max: u32,
    pub late_minutes: u32,
    /// The only number that is served: whom a terminal's schedules are for.
    pub only_number: Option<String>,
}

/// Whose schedules, and where their answers go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Customer {
    pub chat: String,
    pub owner: String,
}

impl Customer {
    pub fn of(opening: &Opening) -> Self {
        Self {
            chat: opening.chat.clone(),
            owner: opening.owner.clone(),
        }
    }

    pub fn number(number: &str) -> Self {
        Self {
            chat: format!("whatsapp:{number}"),
            owner: number.to_owned(),
        }
    }
}

impl Desk {
    /// The zone of a schedule that may name one. Never UTC by itself: it would be hours off without a word.
    ///
    /// # Errors
    /// What is missing.
    pub fn zone(&self, named: Option<&str>) -> Result<String, String> {
        match named.unwrap_or(&self.timezone) {
            "" => Err("zone: none is given; accepted: an IANA name such as Europe/Madrid, with the schedule (--tz, tz=, timezone) or as `timezone` in config/settings.toml".into()),
            zone => Ok(zone.to_owned()),
        }
    }

    /// Does what is wanted, once for each key.
    pub fn act(
        &self,
        store: &Store,
        key: &str,
        wish: &Wish,
        customer: &Customer,
        now: Timestamp,
    ) -> Answer {
        let done = self
            .customer(customer)
            .and_then(|customer| self.try_act(store, key, wish, &customer, now));
        done.unwrap_or_else(|why| Answer::Refused { why })
    }

    fn try_act(
        &self,
        store: &Store,
        key: &str,
        wish: &Wish,
        customer: &Customer,
        now: Timestamp,
    ) -> Result<Answer, String> {
        let owner = customer.owner.as_str();
        let moved = |id: &i64, to| Change::Move {
            id: *id,
            owner: Some(owner),
            to,
        };
        let (job, added);
        let change = match wish {
            Wish::List => return listed(store, owner, now).map_err(|error| error.to_string()),
            Wish::Add(order) => {
                (job, added) = self.draft(order, customer, now)?;
                Change::Add {
                    job: &job,
                    jobs_max: self.jobs_max,
                    added,
                }
            }
            Wish::Run { id } => Change::Run {
                id: *id,
                owner: Some(owner),
            },
            Wish::Delete { id } => moved(id, JobState::Deleted),
            Wish::Pause { id } => moved(id, JobState::Paused("by hand".into())),
            Wish::Resume { id } => moved(id, JobState::Active),
        };
        let changed = store.change_once(key, &change, now);
        changed.map_err(|error| error.to_string())
    }

    /// What the gate must know of a wish before it judges.
    pub fn fact(
        &self,
        store: &Store,
        wish: &Wish,
        opening: &Opening,
        now: Timestamp,
    ) -> ScheduleFact {
        if opening.scheduled.is_some() {
            return ScheduleFact::Forbidden;
        }
        let found = self.customer(&Customer::of(opening)).and_then(|customer| {
            if let Wish::Add(order) = wish {
                let (job, added) = self.draft(order, &customer, now)?;
                let next = match added {
                    Answer::Added { next, .. } => next,
                    _ => Vec::new(),
                };
                return Ok(ScheduleFact::New {
                    schedule: job.schedule,
                    timezone: job.timezone,
                    next,
                });
            }
            let id = wish.id().unwrap_or_default();
            let job = store.job(id).map_err(|error| error.to_string())?;
            job.filter(|job| job.what.owner == customer.owner && job.state != "deleted")
                .map(|job| ScheduleFact::Kept {
                    schedule: job.what.schedule,
                    message: job.what.message,
                })
                .ok_or_else(|| format!("there is no schedule {id}"))
        });
        found.unwrap_or_else(|why| ScheduleFact::Impossible { why })
    }

    /// A new job, and what is answered once it is kept, with the number 0.
    fn draft(
        &self,
        order: &Order,
        customer: &Customer,
        now: Timestamp,
    ) -> Result<(NewJob, Answer), String> {
        let message = order.message.trim().to_owned();
        if message.is_empty() || message.len() > MESSAGE_BYTES_MAX {
            let bytes = message.len();
            return Err(format!(
                "message: it has {bytes} bytes; accepted: 1 to {MESSAGE_BYTES_MAX}"
            ));
        }
        let timezone = self.zone(order.timezone.as_deref())?;
        let schedule =
            Schedule::parse(&order.schedule, &timezone).map_err(|error| error.to_string())?;
        let times = schedule
            .upcoming(instant(now), SHOWN)
            .map_err(|error| error.to_string())?;
        let next = times.iter().map(DateTime::to_rfc3339).collect();
        let mut terms = order.terms;
        terms.late_minutes = terms.late_minutes.or(Some(self.late_minutes));
        let job = NewJob {
            chat: customer.chat.clone(),
            owner: customer.owner.clone(),
            schedule: schedule.to_string(),
            message,
            timezone,
            terms,
        };
        let added = Answer::Added {
            id: 0,
            schedule: job.schedule.clone(),
            message: job.message.clone(),
            timezone: job.timezone.clone(),
            next,
        };
        Ok((job, added))
    }

    /// A terminal is gone when the time comes: its schedules are those of the only number that is served.
    fn customer(&self, customer: &Customer) -> Result<Customer, String> {
        match (&self.only_number, doors::is_served(&customer.chat)) {
            (_, true) => Ok(customer.clone()),
            (Some(number), false) => Ok(Customer::number(number)),
            (None, false) => Err("a terminal is gone when the time comes, and it is not clear whom else to answer: ALLOWED_PHONE_NUMBERS must hold one number; else use `journeyman cron --to NUMBER`, or the chat itself".into()),
        }
    }
}

fn listed(store: &Store, owner: &str, now: Timestamp) -> Result<Answer, StoreError> {
    let mut jobs = Vec::new();
    for job in store.jobs(Some(owner))? {
        let last = store.runs(Some(job.id), 1)?.into_iter().next();
        jobs.push(Listed {
            id: job.id,
            next: next(&job, now),
            last: last.map(|run| run.outcome),
            paused: job.why,
            schedule: job.what.schedule,
            timezone: job.what.timezone,
            message: job.what.message,
        });
    }
    Ok(Answer::Listed { jobs })
}

fn next(job: &Job, now: Timestamp) -> Option<String> {
    if job.state != "active" {
        return None;
    }
    let schedule = Schedule::parse(&job.what.schedule, &job.what.timezone).ok()?;
    schedule
        .shown(instant(now), instant(job.created_at), 1)
        .pop()
}

fn instant(at: Timestamp) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(at.0).unwrap_or_default()
}
