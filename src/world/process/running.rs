//! A command from its start to its end, and what is said of that. It starts nothing.

use super::aftermath::Aftermath;
use super::live::{self, Live};
use super::{Capture, Exit, Finished};
use crate::world::keeper::{END, KILL_ALL, KILL_GRACE, KILLING_MAX};
use crate::world::spool::{Cause, Spool, Stream};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use tokio::process::Child;
use tokio_util::sync::CancellationToken;

/// From when the keeper should have ended a command until the server takes it for stuck.
const KEEPER_SLACK: Duration = Duration::from_secs(10);
/// How long the keeper has to end everything once it is told; then it is told more plainly.
pub const END_MAX: Duration = Duration::from_secs(KILL_GRACE.as_secs() + KILLING_MAX.as_secs() + 2);

/// A command that runs.
pub struct Begun {
    pub kept: Kept,
    pub spool: Spool,
    pub aftermath: Aftermath,
    pub started: Instant,
    pub limit: Duration,
    /// How long it may print nothing.
    pub silence: Option<Duration>,
}

impl Begun {
    pub async fn finish(mut self, cancel: &CancellationToken, live: Option<&Live>) -> Finished {
        let overdue = self.limit.saturating_add(KEEPER_SLACK);
        let mut silent = false;
        let has_ended = tokio::select! {
            _ = self.kept.child.wait() => true,
            () = live::show(&self.spool, live) => false,
            () = live::silence(&self.spool, self.silence) => {
                silent = true;
                false
            }
            () = tokio::time::sleep(overdue) => false,
            () = cancel.cancelled() => false,
        };
        if !has_ended {
            self.kept.signal(END);
            if tokio::time::timeout(END_MAX, self.kept.child.wait())
                .await
                .is_err()
            {
                self.kept.signal(KILL_ALL);
                let _ = tokio::time::timeout(END_MAX, self.kept.child.wait()).await;
            }
        }
        let remark = self.aftermath.settle().await;
        Finished {
            silent,
            ..told(&self.spool, elapsed_ms(self.started), remark)
        }
    }
}

/// A command's keeper. One that is bound is told to kill everything when this is dropped, so that an abandoned effect
/// leaves nothing behind.
pub struct Kept {
    pub child: Child,
    pub is_bound: bool,
}

impl Kept {
    fn signal(&self, signal: Signal) {
        // Once it is reaped there is no id, and nothing left to signal.
        if let Some(id) = self.child.id().and_then(|id| i32::try_from(id).ok()) {
            let _ = kill(Pid::from_raw(id), signal);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.is_bound || std::thread::panicking() {
            self.signal(KILL_ALL);
        }
    }
}

/// What the spool of a command says that is over, whoever started it.
pub fn told(spool: &Spool, duration_ms: u64, remark: Option<String>) -> Finished {
    let status = spool.status();
    let exit = status.map_or(Exit::Lost, |status| match status.cause {
        Cause::Itself => exit_of(status.raw),
        Cause::TimedOut => Exit::TimedOut,
        Cause::Told => Exit::Cancelled,
        Cause::NotExecuted => Exit::NotStarted("the program could not be executed".into()),
    });
    Finished {
        exit,
        stdout: spool.capture(Stream::Stdout),
        stderr: spool.capture(Stream::Stderr),
        duration_ms: status.map_or(duration_ms, |status| status.duration_ms),
        silent: false,
        remark,
    }
}

/// A status of `wait`.
pub fn exit_of(raw: i32) -> Exit {
    let status = ExitStatus::from_raw(raw);
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Lost,
    }
}

pub fn refused(why: String, started: Instant) -> Finished {
    Finished {
        exit: Exit::NotStarted(why),
        stdout: Capture::default(),
        stderr: Capture::default(),
        duration_ms: elapsed_ms(started),
        silent: false,
        remark: None,
    }
}

pub fn elapsed_ms(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}
