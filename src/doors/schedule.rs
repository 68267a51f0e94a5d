//! The door of the clock: claims slots that came due, and brings each job's message to the hub as a session of its own.
//!
//! A slot is claimed on disk before anything is done about it, and its session and message are called after job and slot:
//! whatever dies in between, it runs once. The time arrives as an argument; how work goes is read from the sessions.

use crate::agent::event::{Inbound, OutgoingKind, Timestamp};
use crate::agent::limits::Limits;
use crate::agent::state::Outgoing;
use crate::agent::texts::Texts;
use crate::hub::{DeliverError, Hub};
use crate::schedule::Schedule;
use crate::schedule::misfire::{Catching, due};
use crate::world::clock;
use crate::world::journal::JournalError;
use crate::world::store::cron::{Job, JobState, Run};
use crate::world::store::{Store, StoreError};
use chrono::{DateTime, TimeDelta, Utc};
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked for slots.
const TICK: Duration = Duration::from_secs(5);

/// Looks at the schedules.
pub struct Ticker {
    hub: Arc<Hub>,
    texts: Texts,
    limits: Limits,
    /// What an earlier process or tick left was looked at.
    taken_over: bool,
}

impl Ticker {
    pub fn new(hub: Arc<Hub>, texts: Texts) -> Self {
        let limits = hub.surface().policy.limits.clone();
        Self {
            hub,
            texts,
            limits,
            taken_over: false,
        }
    }

    /// Until shutdown. The interval is only when it is looked: what is due follows from what is on disk.
    pub async fn run(mut self) {
        let shutdown = self.hub.surface().shutdown.clone();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(TICK) => {}
            }
            if let Err(error) = self.tick(clock::now()).await {
                tracing::error!(%error, "schedules are looked at again in a moment");
            }
        }
    }

    /// Does all that there is to do at a time.
    ///
    /// # Errors
    /// [`StoreError`]: the rest is done at the next tick.
    pub async fn tick(&mut self, now: Timestamp) -> Result<(), StoreError> {
        if !self.store().may_hold_jobs() {
            return Ok(());
        }
        if !std::mem::replace(&mut self.taken_over, true) {
            let taken = self.take_over(now).await;
            self.taken_over &= taken.is_ok();
            taken?;
        }
        self.look_for_ends(now)?;
        for job in self.store().jobs(None)? {
            if job.state == "active" {
                self.decide(&job, now)?;
            }
        }
        self.start(now).await
    }

    fn store(&self) -> &Store {
        &self.hub.surface().store
    }

    /// Runs of a dead process: delivered again, which does nothing where the message is in the journal already.
    async fn take_over(&mut self, now: Timestamp) -> Result<(), StoreError> {
        for run in self.store().open_runs()? {
            if run.outcome == "running"
                && let Some(job) = self.store().job(run.job)?
                && !self.store().has_seen(&job.what.chat, &message_id(&run))?
            {
                self.deliver(&job, &run, now).await?;
            }
        }
        Ok(())
    }

    fn look_for_ends(&self, now: Timestamp) -> Result<(), StoreError> {
        for run in self.store().open_runs()? {
            let Some(session) = &run.session else {
                continue;
            };
            let Some((status, unfinished)) = self.store().session_status(session)? else {
                continue;
            };
            let outcome = match status.as_str() {
                "done" | "failed" | "cancelled" if !unfinished => status.as_str(),
                "stopped at a limit" if !unfinished => "limit",
                // A command, answered without a turn.
                "new" | "closed" if !unfinished => "done",
                "interrupted" | "damaged" => "interrupted",
                _ => continue,
            };
            self.end(&run, outcome, now)?;
        }
        Ok(())
    }

    fn end(&self, run: &Run, outcome: &str, now: Timestamp) -> Result<(), StoreError> {
        let failures = self.store().run_ended(run, outcome, now)?;
        if failures < self.limits.cron_failures_max {
            return Ok(());
        }
        let count = failures.to_string();
        let id = run.job.to_string();
        let why = self.texts.say("cron_failing", &[("count", &count)]);
        let paused = self
            .store()
            .set_job_state(run.job, None, JobState::Paused(why), now)?;
        if paused && let Some(job) = self.store().job(run.job)? {
            let words = [("job", id.as_str()), ("count", count.as_str())];
            self.tell(&job, self.texts.say("cron_paused", &words));
        }
        Ok(())
    }

    /// Claims what is due of one job.
    fn decide(&self, job: &Job, now: Timestamp) -> Result<(), StoreError> {
        let schedule = match Schedule::parse(&job.what.schedule, &job.what.timezone) {
            Ok(schedule) => schedule,
            Err(error) => {
                let paused = JobState::Paused(error.to_string());
                return self
                    .store()
                    .set_job_state(job.id, None, paused, now)
                    .map(drop);
            }
        };
        let catching = Catching {
            misfire: job.what.misfire,
            late_max: late_max(job),
            all_max: self.limits.cron_catch_up_max,
        };
        let anchor = instant(job.created_at);
        let decided = instant(job.decided_until);
        let Some(due) = due(&schedule, anchor, decided, instant(now), catching) else {
            return Ok(());
        };
        let slots: Vec<_> = due
            .fire
            .iter()
            .map(|slot| Timestamp(slot.timestamp_millis()))
            .collect();
        let busy = self.store().open_runs()?;
        let busy = busy.iter().find(|run| run.job == job.id);
        let outcome = match busy {
            Some(_) => "overlap",
            None => "claimed",
        };
        let until = Timestamp(due.until.timestamp_millis());
        let fresh = self.store().claim(job.id, &slots, outcome, until, now)?;
        if busy.is_some() && !fresh.is_empty() {
            let id = job.id.to_string();
            self.tell(job, self.texts.say("cron_overlap", &[("job", &id)]));
        }
        if schedule.is_once() && schedule.next(due.until, anchor).is_none() {
            self.store()
                .set_job_state(job.id, None, JobState::Finished, now)?;
        }
        Ok(())
    }

    /// Starts what is claimed, one run of a job at a time.
    async fn start(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let open = self.store().open_runs()?;
        let mut busy: Vec<i64> = open
            .iter()
            .filter(|run| run.outcome == "running")
            .map(|run| run.job)
            .collect();
        for run in open.iter().filter(|run| run.outcome == "claimed") {
            if busy.contains(&run.job) {
                continue;
            }
            if let Some(job) = self.store().job(run.job)? {
                busy.push(job.id);
                self.deliver(&job, run, now).await?;
            }
        }
        Ok(())
    }

    async fn deliver(&mut self, job: &Job, run: &Run, now: Timestamp) -> Result<(), StoreError> {
        let too_late = instant(now) - instant(run.slot) > late_max(job);
        if too_late || job.state == "deleted" {
            return self.store().run_ended(run, "missed", now).map(drop);
        }
        let session = session_id(run);
        self.store().run_started(run, &session, now)?;
        let what = &job.what;
        let message = Inbound::text(message_id(run), what.owner.clone(), what.message.clone());
        match self
            .hub
            .start_scheduled(&session, &what.chat, message)
            .await
        {
            Ok(_) => Ok(()),
            // The next process finds it, and delivers it.
            Err(DeliverError::ShuttingDown) => Ok(()),
            // A disk that is full or fails; too late is only what the job calls so.
            Err(error) if may_pass(&error) => {
                tracing::warn!(job = job.id, %error, "a scheduled prompt is delivered again in a moment");
                self.taken_over = false;
                Ok(())
            }
            Err(error) => {
                tracing::error!(job = job.id, %error, "a scheduled prompt could not be delivered");
                let run = Run {
                    started_at: Some(now),
                    ..run.clone()
                };
                self.end(&run, "failed", now)
            }
        }
    }

    /// A courtesy, sent and forgotten: the history says it too, and lasts.
    fn tell(&self, job: &Job, text: String) {
        tracing::warn!(job = job.id, "{text}");
        let world = self.hub.surface().world.clone();
        let chat = job.what.chat.clone();
        let outgoing = Outgoing {
            send: 0,
            kind: OutgoingKind::Notice,
            text,
            approval: None,
            always: false,
            sending: true,
            attempts: 0,
            due: None,
        };
        tokio::spawn(async move {
            if let Err(error) = world.channels.send(&chat, &outgoing).await {
                tracing::warn!(why = error.why, "a notice about a schedule was not sent");
            }
        });
    }
}

/// Whether it may work the next time.
fn may_pass(error: &DeliverError) -> bool {
    match error {
        DeliverError::Journal(JournalError::Damaged { .. })
        | DeliverError::NoSession(_)
        | DeliverError::Workspace(_) => false,
        DeliverError::Busy
        | DeliverError::Session(_)
        | DeliverError::Journal(_)
        | DeliverError::Store(_)
        | DeliverError::Read { .. }
        | DeliverError::ShuttingDown => true,
    }
}

fn late_max(job: &Job) -> TimeDelta {
    TimeDelta::minutes(i64::from(job.what.late_minutes).max(2))
}

/// One a slot, so that a slot that is delivered twice is one.
fn message_id(run: &Run) -> String {
    format!("cron:{}:{}", run.job, run.slot.0)
}

fn session_id(run: &Run) -> String {
    let slot = instant(run.slot).format("%Y%m%d-%H%M%S%.3f");
    format!("cron-{}-{}", run.job, slot.to_string().replace('.', "-"))
}

fn instant(at: Timestamp) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(at.0).unwrap_or_default()
}
