//! Between fork and exec: the keeper of a command's processes, and the step into confinement.
//!
//! The forked process forks once more. Its child steps into the [`Enclosure`] and becomes the command; it itself stays
//! as the *keeper*, the subreaper of everything that the command starts. A process that leaves the group, the session
//! or its parents is still below the keeper, and ends with it: when the command ends, when the time is up, when it is
//! told. The keeper outlives a killed server, so a time limit holds without one.
//!
//! Everything here runs in a fork of a program with many threads: system calls on memory that is there already, no
//! allocation, no lock, no panic.

use nix::libc;
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::unistd::setsid;
use seccompiler::BpfProgram;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Ends the command politely: TERM to its group.
pub const END: Signal = Signal::SIGTERM;
/// Kills every process of the command, wherever it went.
pub const KILL_ALL: Signal = Signal::SIGUSR1;

/// How long the keeper goes on killing. Only a process stuck in the kernel survives a KILL.
const KILLING_MAX: Duration = Duration::from_secs(5);
const KILL_PAUSE_NS: i64 = 1_000_000;

/// Capabilities that root keeps: its files, its ports, changing to a lesser user. None reaches the kernel or other
/// processes. Numbers as in `linux/capability.h`.
const CAPABILITIES_KEPT: &[u64] = &[
    0,  // CHOWN
    1,  // DAC_OVERRIDE
    3,  // FOWNER
    4,  // FSETID
    5,  // KILL
    6,  // SETGID
    7,  // SETUID
    10, // NET_BIND_SERVICE
];
const CAPABILITY_MAX: u64 = 63;

/// What a command is locked into, ready before the fork.
pub struct Enclosure {
    /// The Landlock rules; `None` where there are none to apply.
    pub ruleset: Option<OwnedFd>,
    pub filters: Arc<Vec<BpfProgram>>,
    pub rlimits: Vec<(Resource, u64)>,
    /// No new privileges, and for root a short list of capabilities.
    pub unprivileged: bool,
    /// The keeper's own limit, a little after the one that the server watches.
    pub limit: Duration,
}

impl Enclosure {
    /// Called in the forked process: returns in the one that becomes the command, and never in the keeper.
    pub fn enter(&self) -> io::Result<()> {
        setsid()?;
        setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
        prctl::set_child_subreaper(true)?;
        let mut before = SigSet::empty();
        sigprocmask(
            SigmaskHow::SIG_SETMASK,
            Some(&SigSet::all()),
            Some(&mut before),
        )?;
        let keeper = std::process::id();
        // SAFETY: there is one thread in this process, and both sides go on with system calls only.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // A group and session of its own, so that the keeper can end it without ending itself.
                setsid()?;
                // Without its keeper nobody would end it.
                prctl::set_pdeathsig(Signal::SIGKILL)?;
                if std::os::unix::process::parent_id() != keeper {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
                sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
                self.lock()
            }
            command => keep(command, self.limit),
        }
    }

    fn lock(&self) -> io::Result<()> {
        for (resource, max) in &self.rlimits {
            setrlimit(*resource, *max, *max)?;
        }
        if self.unprivileged {
            drop_capabilities()?;
            prctl::set_no_new_privs()?;
        }
        if let Some(ruleset) = &self.ruleset {
            restrict_self(ruleset)?;
        }
        for filter in self.filters.iter() {
            seccompiler::apply_filter(filter).map_err(|_| io::Error::last_os_error())?;
        }
        Ok(())
    }
}

fn restrict_self(ruleset: &OwnedFd) -> io::Result<()> {
    // SAFETY: plain numbers; the crate's own call would allocate where it fails.
    match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn drop_capabilities() -> io::Result<()> {
    // SAFETY: plain numbers in, plain numbers out, here and below.
    if unsafe { libc::geteuid() } != 0 {
        return Ok(());
    }
    for capability in (0..=CAPABILITY_MAX).filter(|one| !CAPABILITIES_KEPT.contains(one)) {
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } == 0 {
            continue;
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // Past the last one that this kernel knows; or root of a container, which may not even drop.
            Some(libc::EINVAL | libc::EPERM) => return Ok(()),
            _ => return Err(error),
        }
    }
    Ok(())
}

/// The keeper's life: waits for the command, passes on END, and leaves nothing alive.
fn keep(command: libc::pid_t, limit: Duration) -> ! {
    let until = Instant::now().checked_add(limit);
    // Nothing of this copy of the server may be read by anyone, and its name should not mislead.
    let _ = prctl::set_dumpable(false);
    let _ = prctl::set_name(c"journeyman-keep");
    // The pipes must end with the command, and the server's sockets and locks are not ours.
    // SAFETY: no file is used from here on that is not opened here.
    unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) };
    let mut status = None;
    while status.is_none() {
        match next_signal(until) {
            Some(libc::SIGCHLD) if has_ended(command) => break,
            Some(libc::SIGCHLD) => while reap(command, &mut status) == Reaped::One {},
            // SAFETY: the group of the command, which is not reaped yet: the number is still its own.
            Some(libc::SIGTERM) => drop(unsafe { libc::kill(-command, libc::SIGTERM) }),
            Some(_) => {}
            None => break,
        }
    }
    end_all(command, &mut status);
    leave(status)
}

/// The next of the signals that the keeper listens to; `None` to end everything: told so, or the time is up.
fn next_signal(until: Option<Instant>) -> Option<libc::c_int> {
    let mut listened = SigSet::empty();
    for signal in [Signal::SIGCHLD, END, KILL_ALL] {
        listened.add(signal);
    }
    let left = until.map_or(Duration::MAX, |until| {
        until.saturating_duration_since(Instant::now())
    });
    if left.is_zero() {
        return None;
    }
    let wait = libc::timespec {
        tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: left.subsec_nanos().into(),
    };
    // SAFETY: both point to values of this frame; nothing is asked about the signal but its number.
    match unsafe { libc::sigtimedwait(listened.as_ref(), ptr::null_mut(), &wait) } {
        libc::SIGUSR1 => None,
        signal => Some(signal),
    }
}

/// Whether the command itself is over. It is not reaped by this, so its number stays its own.
fn has_ended(command: libc::pid_t) -> bool {
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: all zeros is a valid value of this plain struct, which is of this frame.
    unsafe {
        let mut found: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_PID, command.unsigned_abs(), &mut found, options) == 0
            && found.si_pid() == command
    }
}

#[derive(PartialEq, Eq)]
enum Reaped {
    One,
    NoneYet,
    /// Nobody is left.
    Last,
}

fn reap(command: libc::pid_t, status: &mut Option<libc::c_int>) -> Reaped {
    let mut raw = 0;
    // SAFETY: `raw` is of this frame.
    match unsafe { libc::waitpid(-1, &mut raw, libc::WNOHANG) } {
        0 => Reaped::NoneYet,
        -1 => Reaped::Last,
        pid => {
            if pid == command {
                *status = Some(raw);
            }
            Reaped::One
        }
    }
}

/// Kills what is below. Children of the killed become children of the keeper: round by round nobody is left.
fn end_all(command: libc::pid_t, status: &mut Option<libc::c_int>) {
    let started = Instant::now();
    if status.is_none() {
        // SAFETY: the whole group at once, so that none of it forks away; not reaped, so the number is still its own.
        unsafe { libc::kill(-command, libc::SIGKILL) };
    }
    while started.elapsed() < KILLING_MAX {
        let found = kill_children();
        loop {
            match reap(command, status) {
                Reaped::One => {}
                Reaped::NoneYet => break,
                Reaped::Last => return,
            }
        }
        if !found {
            let pause = libc::timespec {
                tv_sec: 0,
                tv_nsec: KILL_PAUSE_NS,
            };
            // SAFETY: `pause` is of this frame.
            unsafe { libc::nanosleep(&pause, ptr::null_mut()) };
        }
    }
}

/// Kills every child that the kernel lists; `true` where there was one.
fn kill_children() -> bool {
    // SAFETY: a constant path; the number is closed below; reads go into a buffer of this frame.
    let list = unsafe { libc::open(c"/proc/thread-self/children".as_ptr(), libc::O_RDONLY) };
    if list < 0 {
        return false;
    }
    let (mut pid, mut any) = (0, false);
    let mut buffer = [0_u8; 1024];
    loop {
        let read = unsafe { libc::read(list, buffer.as_mut_ptr().cast(), buffer.len()) };
        let Some(bytes) = usize::try_from(read)
            .ok()
            .and_then(|read| buffer.get(..read))
        else {
            break;
        };
        if bytes.is_empty() {
            break;
        }
        for byte in bytes {
            match byte {
                b'0'..=b'9' => pid = pid * 10 + libc::pid_t::from(byte - b'0'),
                _ if pid > 1 => {
                    // A child that is not reaped keeps its number, so this hits nobody else.
                    unsafe { libc::kill(pid, libc::SIGKILL) };
                    (pid, any) = (0, true);
                }
                _ => pid = 0,
            }
        }
    }
    unsafe { libc::close(list) };
    any
}

/// Ends as the command did.
fn leave(status: Option<libc::c_int>) -> ! {
    let status = status.unwrap_or(libc::SIGKILL);
    // SAFETY: this process ends here, by the same signal or with the same code; no core is written of it.
    unsafe {
        if libc::WIFSIGNALED(status) {
            let signal = libc::WTERMSIG(status);
            libc::signal(signal, libc::SIG_DFL);
            let mut only: libc::sigset_t = std::mem::zeroed();
            libc::sigaddset(&mut only, signal);
            libc::sigprocmask(libc::SIG_UNBLOCK, &only, ptr::null_mut());
            libc::kill(libc::getpid(), signal);
            libc::_exit(128 + signal);
        }
        libc::_exit(libc::WEXITSTATUS(status))
    }
}
