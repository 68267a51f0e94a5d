//! Commands that are not this process's children: of a server that died, and of the background.
//!
//! All that is known of them stands in their spool. A keeper is told to end its command by its process id, and only
//! while the lock on the spool shows that the id is still its own.

use super::aftermath::settle_left;
use super::running::{END_MAX, elapsed_ms, told};
use super::{Finished, Processes, live};
use crate::agent::event::CallId;
use crate::world::keeper::{END, KILL_ALL, NAME};
use crate::world::spool::{Found, Spool};
use nix::libc;
use nix::sys::signal::Signal;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Between two looks at the lock: the keeper is nobody's child here, so nothing tells when it ends.
const LOOK_PAUSE: Duration = Duration::from_millis(30);

impl Processes {
    /// Waits for a command that an earlier server started, as [`Processes::run`] does for one of its own.
    ///
    /// # Errors
    /// Where its spool is not there.
    pub async fn attend(&self, call: &CallId) -> io::Result<Finished> {
        let outputs = self.outputs.clone();
        let outputs = outputs.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let spool = outputs.spool(call)?;
        let started = Instant::now();
        tokio::select! {
            () = ended(&spool) => {}
            () = live::show(&spool, self.live.as_ref()) => {}
            () = self.cancel.cancelled() => end(&spool).await,
        }
        let call = call.clone();
        let settled = tokio::task::spawn_blocking(move || settle_left(&outputs, &call)).await;
        let mut remarks: Vec<String> = settled.ok().flatten().into_iter().collect();
        if !spool.is_of_this_boot() && !spool.status().is_some_and(|status| status.durable) {
            remarks.push(
                "The machine was started again since: parts of the output may be missing.".into(),
            );
        }
        let remark = Some(remarks.join("\n")).filter(|remark| !remark.is_empty());
        Ok(told(&spool, elapsed_ms(started), remark))
    }
}

/// Until nothing of the command runs any more. Its keeper sees to the time limit.
pub async fn ended(spool: &Spool) {
    while spool.look() == Found::Running {
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// Ends a command with all its processes: TERM, then KILL.
pub async fn end(spool: &Spool) {
    for signal in [END, KILL_ALL] {
        let until = Instant::now() + END_MAX;
        let mut told = false;
        while spool.look() == Found::Running {
            // A keeper that was just forked may not have put its number down yet.
            told = told || tell(spool, signal);
            if Instant::now() >= until {
                break;
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }
}

/// `false` where it could not be told.
fn tell(spool: &Spool, signal: Signal) -> bool {
    let Some(pid) = spool.keeper() else {
        return false;
    };
    // SAFETY: plain numbers; the descriptor is new and ours.
    let process = unsafe {
        match libc::syscall(libc::SYS_pidfd_open, pid, 0) {
            -1 => return false,
            raw => OwnedFd::from_raw_fd(i32::try_from(raw).unwrap_or(-1)),
        }
    };
    // The keeper that put it down still holds the lock, so this was its number when it was opened. And it is one of
    // ours: in a container of its own, its number would be somebody else's here.
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    if spool.look() != Found::Running || name.trim_end().as_bytes() != NAME.to_bytes() {
        return false;
    }
    // SAFETY: plain numbers; nothing is passed with the signal.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal as libc::c_int,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    sent == 0
}
