//! Between fork and exec: the keeper of a command's processes, and the step into confinement.
//!
//! The forked process forks once more. Its child steps into the [`Enclosure`] and becomes the command; it itself stays
//! as the *keeper*, the subreaper of everything that the command starts. A process that leaves the group, the session
//! or its parents is still below the keeper, and ends with it: when the command ends, when the time is up, when it is
//! told. The keeper also writes the command's [spool](super::spool). It outlives a killed server: the time limit holds,
//! and what the command prints and how it ends is not lost. A command whose words only that server could hear ends with it.
//!
//! Everything here runs in a fork of a program with many threads: system calls on memory that is there already, no
//! allocation, no lock, no panic.

/// From the start of the command to its last word.
mod keeping;
/// Output into the spool.
mod pump;

use crate::world::spool::layout::{self, Room};
use keeping::Keeping;
use nix::libc;
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::unistd::setsid;
use seccompiler::BpfProgram;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Ends the command: TERM to its group, and KILL to what is left a moment later.
pub const END: Signal = Signal::SIGTERM;
/// Kills every process of the command, wherever it went.
pub const KILL_ALL: Signal = Signal::SIGUSR1;
/// From TERM to KILL.
pub const KILL_GRACE: Duration = Duration::from_millis(500);
/// How long the keeper goes on killing. Only a process stuck in the kernel survives a KILL.
pub const KILLING_MAX: Duration = Duration::from_secs(5);
/// What the keeper is called; the kernel shows it.
pub const NAME: &std::ffi::CStr = c"journeyman-keep";

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
    /// From the start until the keeper ends it.
    pub limit: Duration,
}

/// What the keeper is given besides: ready before the fork as well.
pub struct Keep {
    /// Where it writes; where the file has a name, it is locked by this descriptor.
    pub spool: OwnedFd,
    /// How much of each stream it keeps.
    pub room: Room,
    /// Who reads it, as long as that process lives.
    pub server: u32,
    /// Whether the command ends when that process is gone.
    pub goes_with_server: bool,
    /// What the command prints goes to the server itself, but for its complaints.
    pub talks: bool,
}

impl Enclosure {
    /// Called in the forked process: returns in the one that becomes the command, and never in the keeper. Without what a
    /// keeper needs there is none: the forked process is the command, in the terminal that it was started from.
    pub fn enter(&self, keep: Option<&Keep>) -> io::Result<()> {
        match keep {
            Some(keep) => self.enter_below(keep),
            None => {
                setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
                close_others_on_exec();
                self.lock()
            }
        }
    }

    fn enter_below(&self, keep: &Keep) -> io::Result<()> {
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
        let spool = keep.spool.as_raw_fd();
        let (stdout, stderr) = (pipe()?, pipe()?);
        let began = Instant::now();
        // From here on it counts as started: without this mark no process of the command ever was.
        pump::put(
            spool,
            layout::MARK_AT,
            &[layout::STARTED, u64::from(keeper)],
        )?;
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
                if !keep.talks {
                    print_into(stdout.1, 1)?;
                }
                print_into(stderr.1, 2)?;
                close_others_on_exec();
                sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
                self.lock()
            }
            command => keeping::keep(&Keeping {
                command,
                server: keep.server,
                goes_with_server: keep.goes_with_server,
                spool,
                room: keep.room,
                pipes: [stdout.0, stderr.0],
                began,
                limit: self.limit,
            }),
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

/// Its end to read, which never blocks, and its end to write.
fn pipe() -> io::Result<(RawFd, RawFd)> {
    let mut ends: [RawFd; 2] = [-1; 2];
    // SAFETY: `ends` is of this frame; the numbers are those that were just made.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0
            || libc::fcntl(ends[0], libc::F_SETFL, libc::O_NONBLOCK) != 0
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok((ends[0], ends[1]))
}

fn print_into(pipe: RawFd, stream: RawFd) -> io::Result<()> {
    // SAFETY: plain numbers; both are this process's own.
    match unsafe { libc::dup2(pipe, stream) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// What this program was started with, by a shell or a service manager, is not for commands. Before Linux 5.11, which has
/// no Landlock either, they get it.
fn close_others_on_exec() {
    // SAFETY: plain numbers.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
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
