//! The door of the clock: claims slots that came due, and brings each job's message to the hub as a session of its own.
//!
//! A slot is claimed on disk before anything is done about it, and its session and message are called after job and slot:
//! whatever dies in between, it runs once. The time arrives as an argument; how work goes is read from the sessions.

use crate::agent::event::{Inbound, Scheduled, Timestamp, Via};
use crate::agent::limits::Limits;
use crate::agent::texts::Texts;
use crate::hub::{DeliverError, Delivered, Hub};
use crate::schedule::Schedule;
use crate::schedule::jitter;
use crate::schedule::misfire::{Catching, Misfire, ON_TIME, due};
use crate::schedule::wish::shown_in;
use crate::world::clock;
use crate::world::journal::JournalError;
use crate::world::store::cron::{Claim, Ending, Job, Notice, Run};
use crate::world::store::{Store, StoreError};
use chrono::{DateTime, TimeDelta, Utc};
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked for slots.
const TICK: Duration = Duration::from_secs(5);

/// Looks at the schedules.
pub struct Ticker {
    hub: Arc<Hub>,
    limits: Limits,
    /// What an earlier process or tick left was looked at.
    taken_over: bool,
    /// Only an earlier process can have cut a run short.
    fresh: bool,
}

impl Ticker {
    pub fn new(hub: Arc<Hub>) -> Self {
        let limits = hub.surface().policy.limits.clone();
        Self {
            hub,
            limits,
            taken_over: false,
            fresh: true,
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
            self.fresh = false;
        }
        self.look_for_ends(now)?;
        for job in self.store().jobs(None)? {
            if job.state == "active" {
                self.decide(&job, now)?;
            }
        }
        self.start(now).await?;
        self.tell().await
    }

    fn texts(&self, job: &Job) -> &Texts {
        self.hub.texts_for(&job.what.chat)
    }

    fn store(&self) -> &Store {
        &self.hub.surface().store
    }

    /// Runs of a dead process: delivered again, which does nothing where the message is in the journal already.
    async fn take_over(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let mut begun: Vec<i64> = Vec::new();
        for run in self.store().open_runs()? {
            let Some(job) = self.store().job(run.job)? else {
                continue;
            };
            let first = !begun.contains(&run.job);
            begun.push(run.job);
            let lost = match run.outcome.as_str() {
                "running" => !self.store().has_seen(&job.what.chat, &message_id(&run))?,
                // It would have begun at once; one that somebody asked for while nothing ran, that waits for another or for
                // its own moment, not.
                _ => first && !run.is_by_hand() && begins(&job, &run) <= instant(now),
            };
            if lost && self.fresh {
                self.store().run_cut_short(&run)?;
            }
            if lost && run.outcome == "running" {
                self.deliver(&job, &run, now).await?;
            }
        }
        Ok(())
    }

    fn look_for_ends(&self, now: Timestamp) -> Result<(), StoreError> {
        for run in self.store().watched_runs(now)? {
            let Some(session) = &run.session else {
                continue;
            };
            let Some(found) = self.store().session_now(session)? else {
                continue;
            };
            let outcome = match found.status.as_str() {
                "done" | "failed" | "cancelled" if !found.works => found.status.as_str(),
                "stopped at a limit" if !found.works => "limit",
                // A command, answered without a turn.
                "new" | "closed" if !found.works => "done",
                "interrupted" | "damaged" => "interrupted",
                _ if run.outcome == "interrupted" => {
                    self.store().run_resumed(&run)?;
                    continue;
                }
                _ => continue,
            };
            if outcome != run.outcome {
                // Not when it was looked, but when it ended.
                let begun = run.started_at.unwrap_or(now);
                let ended = found.updated_at.unwrap_or(now).max(begun).min(now);
                self.end(&run, outcome, found.interruptions, None, ended)?;
            }
        }
        Ok(())
    }

    fn end(
        &self,
        run: &Run,
        outcome: &str,
        interruptions: u32,
        notice: Option<Notice>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let failures_max = self.limits.cron_failures_max;
        let chat = self.store().job(run.job)?.map(|job| job.what.chat);
        let texts = self.hub.texts_for(&chat.unwrap_or_default());
        let (id, count) = (run.job.to_string(), failures_max.to_string());
        let values = [("id", id.as_str()), ("count", count.as_str())];
        let ending = Ending {
            outcome,
            interruptions,
            failures_max,
            why: &texts.say("cron_failing", &values),
            paused: notice_of(run, "paused", texts.say("cron_paused", &values)),
            notice,
        };
        self.store().run_ended(run, &ending, now)
    }

    /// Claims what is due of one job.
    fn decide(&self, job: &Job, now: Timestamp) -> Result<(), StoreError> {
        let schedule = match Schedule::parse(&job.what.schedule, &job.what.timezone) {
            Ok(schedule) => schedule,
            Err(error) => return self.pause(job, &error.to_string(), now),
        };
        let catching = Catching {
            misfire: job.what.terms.misfire,
            late_max: late_max(job),
            all_max: self.limits.cron_catch_up_max,
        };
        let anchor = instant(job.created_at);
        let decided = instant(job.decided_until);
        let Some(due) = due(&schedule, anchor, decided, instant(now), catching) else {
            return Ok(());
        };
        let slots: Vec<_> = due.fire.iter().map(stamp).collect();
        let kept = due.left.len().saturating_sub(self.limits.cron_catch_up_max);
        let left: Vec<_> = due.left[kept..].iter().map(stamp).collect();
        let open = self.store().open_runs()?;
        let busy = open.iter().find(|run| run.job == job.id);
        let claim = Claim {
            job: job.id,
            slots: &slots,
            outcome: match busy {
                Some(_) => "overlap",
                None => "claimed",
            },
            left: &left,
            until: stamp(&due.until),
            finished: schedule.is_once() && schedule.next(due.until, anchor).is_none(),
            notices: &self.notices(job, busy, &slots, &due.left),
        };
        self.store().claim(&claim, now).map(drop)
    }

    /// What is said about slots that do not run: once for each run that is in the way, once for each time without a server.
    fn notices(
        &self,
        job: &Job,
        busy: Option<&Run>,
        slots: &[Timestamp],
        left: &[DateTime<Utc>],
    ) -> Vec<Notice> {
        let (id, texts) = (job.id.to_string(), self.texts(job));
        let overlap = busy.filter(|_| !slots.is_empty()).map(|run| {
            let text = texts.say("cron_overlap", &[("id", &id)]);
            notice_of(run, "overlap", text)
        });
        let missed = left.last().map(|last| {
            let shown = shown_in(&job.what.timezone, last.timestamp_millis());
            let count = left.len().to_string();
            let values = [("id", &*id), ("count", &count), ("last", &shown)];
            Notice {
                job: job.id,
                // The run that is about to be says it, where there is one.
                slot: busy.map_or(*slots.first().unwrap_or(&stamp(last)), |run| run.slot),
                kind: format!("missed {}", last.timestamp_millis()),
                text: texts.say("cron_missed", &values),
            }
        });
        overlap.into_iter().chain(missed).collect()
    }

    fn pause(&self, job: &Job, why: &str, now: Timestamp) -> Result<(), StoreError> {
        let id = job.id.to_string();
        let notice = Notice {
            job: job.id,
            slot: now,
            kind: "paused".into(),
            text: self
                .texts(job)
                .say("cron_broken", &[("id", &id), ("why", why)]),
        };
        self.store().pause_job(why, &notice, now)
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
            let Some(job) = self.store().job(run.job)? else {
                continue;
            };
            busy.push(job.id);
            if begins(&job, run) <= instant(now) {
                self.deliver(&job, run, now).await?;
            }
        }
        Ok(())
    }

    async fn deliver(&mut self, job: &Job, run: &Run, now: Timestamp) -> Result<(), StoreError> {
        if job.state == "deleted" {
            return self.end(run, "missed", 0, None, now);
        }
        if instant(now) - begins(job, run) > latest(job, run) {
            let slot = shown_in(&job.what.timezone, run.slot.0);
            let values = [("id", &*job.id.to_string()), ("slot", &slot)];
            let notice = notice_of(run, "late", self.texts(job).say("cron_late", &values));
            return self.end(run, "missed", 0, Some(notice), now);
        }
        let session = session_id(run.job, run.slot);
        self.store().run_started(run, &session, now)?;
        let what = &job.what;
        let message = Inbound {
            via: Via::Schedule,
            ..Inbound::text(message_id(run), what.owner.clone(), what.message.clone())
        };
        match self.bring(job, run.slot, message).await {
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
                let values = [("id", &*job.id.to_string()), ("why", &error.to_string())];
                let notice = notice_of(
                    &run,
                    "not started",
                    self.texts(job).say("cron_not_started", &values),
                );
                self.end(&run, "failed", 0, Some(notice), now)
            }
        }
    }

    /// Has sessions say what is to be said. Brought again, it is known by its name; what cannot be brought waits.
    async fn tell(&self) -> Result<(), StoreError> {
        for notice in self.store().untold()? {
            let Some(job) = self.store().job(notice.job)? else {
                continue;
            };
            let id = format!("cron:{}:{}:{}", notice.job, notice.slot.0, notice.kind);
            let message = Inbound {
                via: Via::Notice,
                ..Inbound::text(id, job.what.owner.clone(), notice.text.clone())
            };
            match self.bring(&job, notice.slot, message).await {
                Ok(_) => self.store().notice_told(&notice)?,
                Err(error) => {
                    tracing::debug!(job = job.id, %error, "a notice about a schedule waits");
                }
            }
        }
        Ok(())
    }

    async fn bring(
        &self,
        job: &Job,
        slot: Timestamp,
        message: Inbound,
    ) -> Result<Delivered, DeliverError> {
        let scheduled = Scheduled {
            job: job.id,
            slot,
            timezone: job.what.timezone.clone(),
            terms: job.what.terms,
        };
        let session = session_id(job.id, slot);
        self.hub
            .start_scheduled(&session, &job.what.chat, &scheduled, message)
            .await
    }
}

fn notice_of(run: &Run, kind: &str, text: String) -> Notice {
    Notice {
        job: run.job,
        slot: run.slot,
        kind: kind.to_owned(),
        text,
    }
}

/// When a claimed run begins.
fn begins(job: &Job, run: &Run) -> DateTime<Utc> {
    let minutes = job.what.terms.jitter.filter(|_| !run.is_by_hand());
    instant(run.slot) + jitter::delay(job.id, run.slot.0, minutes.unwrap_or_default())
}

/// How late a claimed run may begin: one that skips what it misses does so here, too.
fn latest(job: &Job, run: &Run) -> TimeDelta {
    match job.what.terms.misfire {
        Misfire::Skip if !run.is_by_hand() => ON_TIME,
        Misfire::Skip | Misfire::Once | Misfire::All => late_max(job),
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
    let minutes = job.what.terms.late_minutes.unwrap_or_default();
    TimeDelta::minutes(i64::from(minutes).max(2))
}

/// One a slot, so that a slot that is delivered twice is one.
fn message_id(run: &Run) -> String {
    format!("cron:{}:{}", run.job, run.slot.0)
}

fn session_id(job: i64, slot: Timestamp) -> String {
    let slot = instant(slot).format("%Y%m%d-%H%M%S%.3f");
    format!("cron-{job}-{}", slot.to_string().replace('.', "-"))
}

fn stamp(instant: &DateTime<Utc>) -> Timestamp {
    Timestamp(instant.timestamp_millis())
}

fn instant(at: Timestamp) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(at.0).unwrap_or_default()
}
