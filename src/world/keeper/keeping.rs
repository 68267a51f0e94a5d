//! The keeper's life: takes in what the command prints, ends it when it must, leaves nothing alive, and writes down how
//! it ended.

use super::pump::{Pump, put};
use super::{END, KILL_ALL, KILL_GRACE, KILLING_MAX, NAME};
use crate::world::spool::layout::{self, Room};
use nix::libc;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use std::os::fd::RawFd;
use std::ptr;
use std::time::{Duration, Instant};

const KILL_PAUSE_NS: i64 = 1_000_000;
/// What `/proc/PID/stat` says of a process that was forked and never executed anything.
const FORKED_ONLY: u64 = 0x40;

/// What the keeper knows.
pub struct Keeping {
    pub command: libc::pid_t,
    pub server: u32,
    pub goes_with_server: bool,
    pub spool: RawFd,
    pub room: Room,
    /// The ends to read.
    pub pipes: [RawFd; 2],
    pub began: Instant,
    pub limit: Duration,
}

/// Never returns: the process ends with the command.
pub fn keep(keeping: &Keeping) -> ! {
    let command = keeping.command;
    // Nothing of this copy of the server may be read by anyone, and its name should not mislead.
    let _ = prctl::set_dumpable(false);
    let _ = prctl::set_name(NAME);
    close_all_but([keeping.spool, keeping.pipes[0], keeping.pipes[1]]);
    let signals = listen();
    let mut server = match keeping.goes_with_server {
        true => end_of(keeping.server),
        false => -1,
    };
    let mut pump = Pump::new(keeping.spool, keeping.room, keeping.pipes);
    let mut status = None;
    let mut cause = layout::ITSELF;
    // The time limit; then the moment between TERM and KILL.
    let mut until = keeping.began.checked_add(keeping.limit);
    // The server is the parent of this process, and once it is gone, another one is.
    let in_vain =
        || keeping.goes_with_server && std::os::unix::process::parent_id() != keeping.server;
    if in_vain() {
        until = Some(keeping.began); // gone before it could be watched
    }
    loop {
        wait([signals, server, pump.pipes[0], pump.pipes[1]], until);
        for stream in 0..pump.pipes.len() {
            pump.take(stream);
        }
        let told = match next_signal(signals) {
            Some(libc::SIGCHLD) if has_ended(command) => break,
            Some(libc::SIGUSR1) if cause == layout::ITSELF => {
                cause = layout::TOLD;
                break;
            }
            Some(libc::SIGUSR1) => break,
            Some(libc::SIGTERM) => Some(layout::TOLD),
            Some(_) | None => None,
        };
        let told = told.or(in_vain().then_some(layout::TOLD));
        if told.is_some() {
            server = -1; // it has said what it can say
        }
        let late = until.is_some_and(|until| until <= Instant::now());
        match told.or(late.then_some(layout::TIMED_OUT)) {
            None => {}
            Some(why) if cause == layout::ITSELF => {
                cause = why;
                until = Instant::now().checked_add(KILL_GRACE);
                // SAFETY: the group of the command, which is not reaped yet: the number is still its own.
                unsafe { libc::kill(-command, libc::SIGTERM) };
            }
            Some(_) if late => break,
            Some(_) => {}
        }
    }
    let duration = keeping.began.elapsed();
    if cause == layout::ITSELF && never_executed(command) {
        cause = layout::NOT_EXECUTED;
    }
    end_all(command, &mut status);
    pump.drain();
    write_down(keeping, cause, status.unwrap_or(libc::SIGKILL), duration);
    // SAFETY: this process ends here.
    unsafe { libc::_exit(0) }
}

/// The server's sockets and locks are not ours.
fn close_all_but(mut kept: [RawFd; 3]) {
    kept.sort_unstable();
    let mut from: libc::c_uint = 0;
    for one in kept {
        let one = one.unsigned_abs();
        if one > from {
            // SAFETY: no file is used from here on that is not kept or opened here.
            unsafe { libc::syscall(libc::SYS_close_range, from, one - 1, 0) };
        }
        from = one + 1;
    }
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_close_range, from, u32::MAX, 0) };
}

/// The signals that the keeper listens to, as a file to wait for. All are blocked already.
fn listen() -> RawFd {
    let mut listened = SigSet::empty();
    for signal in [Signal::SIGCHLD, END, KILL_ALL] {
        listened.add(signal);
    }
    // SAFETY: the set is of this frame. Where it fails, -1 is waited for in vain, and the limit still holds.
    unsafe { libc::signalfd(-1, listened.as_ref(), libc::SFD_NONBLOCK) }
}

/// The end of a process, as a file to wait for. Where the kernel has none, -1 is waited for in vain, and the limit still holds.
fn end_of(process: u32) -> RawFd {
    // SAFETY: plain numbers.
    let file = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    RawFd::try_from(file).unwrap_or(-1)
}

/// Until one of these files has something, or the time is up. One of a negative number has nothing.
fn wait(files: [RawFd; 4], until: Option<Instant>) {
    let watched = |fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut files = files.map(watched);
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let timeout = left.map(|left| libc::timespec {
        tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: all of it is of this frame.
    unsafe { libc::ppoll(files.as_mut_ptr(), 4, timeout, ptr::null()) };
}

fn next_signal(signals: RawFd) -> Option<libc::c_int> {
    let size = size_of::<libc::signalfd_siginfo>();
    // SAFETY: all zeros is a valid value of this plain struct, which is of this frame.
    let (read, info) = unsafe {
        let mut info: libc::signalfd_siginfo = std::mem::zeroed();
        let read = libc::read(signals, ptr::from_mut(&mut info).cast(), size);
        (read, info)
    };
    (usize::try_from(read) == Ok(size))
        .then(|| libc::c_int::try_from(info.ssi_signo).ok())
        .flatten()
}

/// Whether the command itself is over. It is not reaped by this, so its number stays its own; others are.
fn has_ended(command: libc::pid_t) -> bool {
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    loop {
        // SAFETY: all zeros is a valid value of this plain struct, which is of this frame.
        let over = unsafe {
            let mut found: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_ALL, 0, &mut found, options);
            found.si_pid()
        };
        match over {
            0 => return false,
            over if over == command => return true,
            // SAFETY: nothing is asked but its end.
            over => drop(unsafe { libc::waitpid(over, ptr::null_mut(), libc::WNOHANG) }),
        }
    }
}

/// Whether it ended as it was forked: the program was not found, or could not be confined. The kernel knows, also of a
/// process that is over and not reaped yet.
fn never_executed(command: libc::pid_t) -> bool {
    let mut path = *b"/proc/0000000000/stat\0";
    let (mut rest, mut at) = (command.unsigned_abs(), 15);
    // From the last digit to the first; leading zeros are not understood, slashes are.
    while at >= 6 {
        path[at] = match rest {
            0 => b'/',
            rest => b'0' + u8::try_from(rest % 10).unwrap_or_default(),
        };
        (rest, at) = (rest / 10, at - 1);
    }
    let mut text = [0_u8; 512];
    // SAFETY: the path ends with a zero; reads go into a buffer of this frame; the number is closed.
    let read = unsafe {
        let file = libc::open(path.as_ptr().cast(), libc::O_RDONLY);
        let read = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        read
    };
    let Some(text) = usize::try_from(read).ok().and_then(|read| text.get(..read)) else {
        return false;
    };
    // `pid (name) state ppid pgrp session tty tpgid flags …`; a name may have anything in it, also brackets.
    let after_name = text.rsplit(|byte| *byte == b')').next().unwrap_or_default();
    let flags = after_name
        .split(|byte| *byte == b' ')
        .nth(7)
        .unwrap_or_default();
    let digit = |number: u64, byte: &u8| number * 10 + u64::from(byte.wrapping_sub(b'0'));
    flags.iter().fold(0, digit) & FORKED_ONLY != 0
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

/// The last word. Where the server is gone, what it will need is brought to the disk first: nobody else will.
///
/// While the server lives it takes the result at once and syncs its own journal, so nothing is synced here.
fn write_down(keeping: &Keeping, cause: u64, raw: libc::c_int, duration: Duration) {
    let alone = std::os::unix::process::parent_id() != keeping.server;
    // SAFETY: a plain number, here and below.
    let durable = alone && unsafe { libc::fdatasync(keeping.spool) } == 0;
    let block = [
        layout::ENDED,
        u64::from(raw.unsigned_abs()),
        cause,
        u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        u64::from(durable),
    ];
    let [tag, raw, cause, duration_ms, synced] = block;
    let words = [tag, raw, cause, duration_ms, synced, layout::sum(&block)];
    let written = put(keeping.spool, layout::STATUS_AT, &words);
    if alone && written.is_ok() {
        unsafe { libc::fdatasync(keeping.spool) };
    }
}
