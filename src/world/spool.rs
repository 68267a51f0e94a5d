//! The spool of a command: one file in which its keeper puts what it prints, and how it ended.
//!
//! The keeper writes, the server reads, also another server than the one that started it. Of each stream the first
//! bytes and the last ones are kept, so a spool has a largest size. Whether the keeper lives is told by the lock on the
//! file, which the kernel drops with it: a process id may belong to somebody else by now, a lock cannot.
//!
//! The end is a block within one sector, with a sum over it: it is there whole or not at all, like a file that was
//! renamed into place, at the cost of one write. What is in here is raw, secrets too: mode 0600, in the data folder,
//! which commands cannot read, and gone when the journal has the result.

/// Where things are in the file. The keeper knows nothing else of it.
pub mod layout;

use crate::agent::event::CallId;
use crate::world::process::Capture;
use layout::{
    ABOUT_AT, BOOT_AT, COUNTS_AT, ENDED, HEADER_BYTES, MARK_AT, POLL_AT, REMARK_AT, Room, STARTED,
    STATUS_AT, STATUS_WORDS, sum,
};
use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// A text in the header, in bytes with its length before it.
const TEXT_BYTES_MAX: usize = 1_000;

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

pub const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

/// What stands in a spool before anything runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Nobody waits for its end.
    pub background: bool,
    /// Milliseconds since 1970.
    pub started_at: i64,
    /// Seconds until the keeper ends it.
    pub limit_s: u64,
    /// What runs, for lists; cut if long.
    pub title: String,
}

/// What became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// No process of it ever ran, and none will.
    NotStarted,
    /// Its keeper is alive.
    Running,
    Ended(Status),
    /// It was started, and its keeper is gone without a word.
    Lost,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    pub cause: Cause,
    /// As `wait` gives it.
    pub raw: i32,
    pub duration_ms: u64,
    /// It was brought to the disk, with all output, before anything else happened.
    pub durable: bool,
}

/// Why a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    Itself,
    TimedOut,
    /// Somebody told the keeper.
    Told,
    /// The program could not be executed.
    NotExecuted,
}

/// How far somebody has read, in bytes of each stream.
pub type Position = [u64; 2];

/// A spool, open.
#[derive(Debug)]
pub struct Spool {
    file: File,
    room: Room,
}

impl Spool {
    /// A new one that nobody will look for later: it has no name and is gone with those who hold it.
    ///
    /// # Errors
    /// Where memory is short.
    pub fn unnamed(room: Room) -> io::Result<Self> {
        let file = File::from(memfd_create(c"spool", MFdFlags::MFD_CLOEXEC)?);
        file.set_len(HEADER_BYTES)?;
        Ok(Self { file, room })
    }

    /// A new one in the place of an older one. It is locked: the lock goes to the keeper, and with it.
    ///
    /// # Errors
    /// Where the file cannot be made.
    pub fn create(path: &Path, about: &About) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(path)?;
        file.try_lock()?;
        let mut header = vec![0; usize::try_from(HEADER_BYTES).unwrap_or_default()];
        let boot = boot_id();
        let at = |offset: u64| usize::try_from(offset).unwrap_or_default();
        header[at(BOOT_AT)..][..boot.len()].copy_from_slice(boot.as_bytes());
        put_text(&mut header[at(ABOUT_AT)..], &described(about));
        // Written whole, so that what the keeper writes into it later needs no new room on the disk.
        file.write_all_at(&header, 0)?;
        Ok(Self::named(file))
    }

    /// One that may be there.
    ///
    /// # Errors
    /// Where there is none, or it cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        options.custom_flags(libc::O_NOFOLLOW);
        options.open(path).map(Self::named)
    }

    const fn named(file: File) -> Self {
        Self {
            file,
            room: Room::USUAL,
        }
    }

    /// The same file again; with its lock, if it is the one that was created.
    ///
    /// # Errors
    /// Where there are too many open files.
    pub fn try_clone(&self) -> io::Result<Self> {
        let (file, room) = (self.file.try_clone()?, self.room);
        Ok(Self { file, room })
    }

    pub fn into_file(self) -> File {
        self.file
    }

    pub const fn room(&self) -> Room {
        self.room
    }

    /// What became of the command, now.
    pub fn look(&self) -> Found {
        // First the lock: once it is free, nobody writes any more.
        match self.file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => return Found::Running,
            // Where the lock cannot be asked nothing is known, and that is what is said.
            Err(TryLockError::Error(_)) => return Found::Lost,
            Ok(()) => drop(self.file.unlock()),
        }
        match (self.status(), self.keeper()) {
            (Some(status), _) => Found::Ended(status),
            (None, Some(_)) => Found::Lost,
            (None, None) => Found::NotStarted,
        }
    }

    /// How it ended, if that is written down. A torn block counts as none.
    pub fn status(&self) -> Option<Status> {
        let [tag, raw, cause, duration_ms, durable, written] =
            self.words::<STATUS_WORDS>(STATUS_AT);
        let block = [tag, raw, cause, duration_ms, durable];
        if tag != ENDED || written != sum(&block) {
            return None;
        }
        let cause = match cause {
            layout::ITSELF => Cause::Itself,
            layout::TIMED_OUT => Cause::TimedOut,
            layout::TOLD => Cause::Told,
            layout::NOT_EXECUTED => Cause::NotExecuted,
            _ => return None,
        };
        Some(Status {
            cause,
            raw: i32::try_from(raw).ok()?,
            duration_ms,
            durable: durable == 1,
        })
    }

    /// The keeper's process id; meaningful only while its lock is held.
    pub fn keeper(&self) -> Option<i32> {
        let [tag, pid] = self.words::<2>(MARK_AT);
        (tag == STARTED).then(|| i32::try_from(pid).ok()).flatten()
    }

    /// Whether it was made since this machine started.
    pub fn is_of_this_boot(&self) -> bool {
        let boot = boot_id();
        let mut found = vec![0; boot.len()];
        self.read(BOOT_AT, &mut found);
        !boot.is_empty() && found == boot.as_bytes()
    }

    pub fn about(&self) -> About {
        serde_json::from_str(&self.text(ABOUT_AT)).unwrap_or_default()
    }

    /// What the confinement had to say afterwards.
    pub fn remark(&self) -> Option<String> {
        Some(self.text(REMARK_AT)).filter(|text| !text.is_empty())
    }

    /// # Errors
    /// Where it cannot be written.
    pub fn set_remark(&self, text: &str) -> io::Result<()> {
        let mut bytes = vec![0; TEXT_BYTES_MAX];
        put_text(&mut bytes, text);
        self.file.write_all_at(&bytes, REMARK_AT)
    }

    /// What there is of a stream: its head and its tail.
    pub fn capture(&self, stream: Stream) -> Capture {
        let end = self.position()[stream as usize];
        let tail = end
            .saturating_sub(self.room.end_bytes)
            .max(self.room.end_bytes);
        self.parts(stream, 0, tail, end)
    }

    /// What was printed between two positions, as far as it is kept.
    pub fn between(&self, stream: Stream, from: u64, to: u64) -> Capture {
        let kept = to.saturating_sub(self.room.safe_bytes());
        self.parts(stream, from, from.max(kept).max(self.room.end_bytes), to)
    }

    /// How much was printed.
    pub fn position(&self) -> Position {
        STREAMS.map(|stream| self.counts(stream)[0])
    }

    /// Head from `from`, tail from `tail`, both up to `to`.
    fn parts(&self, stream: Stream, from: u64, tail: u64, to: u64) -> Capture {
        let head = self.range(stream, from, to.min(self.room.end_bytes));
        let mut kept = self.range(stream, tail, to);
        let [written, dropped] = self.counts(stream);
        // What the keeper may have written over while this was read is none of the stream's any more.
        let safe = written
            .saturating_sub(self.room.safe_bytes())
            .clamp(tail, to.max(tail));
        kept.drain(..usize::try_from(safe - tail).map_or(kept.len(), |n| n.min(kept.len())));
        let begins = to.saturating_sub(kept.len() as u64);
        Capture {
            omitted_bytes: begins.saturating_sub(from.max(self.room.end_bytes)) + dropped,
            head,
            tail: kept,
        }
    }

    fn range(&self, stream: Stream, from: u64, to: u64) -> Vec<u8> {
        let (mut bytes, mut from) = (Vec::new(), from);
        while from < to {
            let (offset, room) = self.room.place(stream as usize, from);
            let mut part = vec![0; usize::try_from(room.min(to - from)).unwrap_or_default()];
            self.read(offset, &mut part);
            from += part.len() as u64;
            bytes.append(&mut part);
        }
        bytes
    }

    fn counts(&self, stream: Stream) -> [u64; 2] {
        self.words::<2>(COUNTS_AT[stream as usize])
    }

    /// From where the call `call` polls. The same call again, after an interruption, polls from the same place.
    pub fn polls_from(&self, call: &CallId) -> Position {
        let last: Polled = serde_json::from_str(&self.text(POLL_AT)).unwrap_or_default();
        match last.call == call.0 {
            true => last.from,
            false => last.to,
        }
    }

    /// Writes down how far a call polled.
    ///
    /// # Errors
    /// Where it cannot be: the next call would show the same again.
    pub fn polled(&self, call: &CallId, from: Position, to: Position) -> io::Result<()> {
        let call = call.0.clone();
        let text = serde_json::to_string(&Polled { call, from, to }).map_err(io::Error::other)?;
        let mut bytes = vec![0; 2 + text.len()];
        put_text(&mut bytes, &text);
        self.file.write_all_at(&bytes, POLL_AT)
    }

    fn text(&self, at: u64) -> String {
        let mut bytes = vec![0; TEXT_BYTES_MAX];
        self.read(at, &mut bytes);
        let length = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
        let text = bytes.get(2..2 + length).unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }

    fn words<const N: usize>(&self, at: u64) -> [u64; N] {
        std::array::from_fn(|i| {
            let mut word = [0; 8];
            self.read(at + 8 * i as u64, &mut word);
            u64::from_le_bytes(word)
        })
    }

    /// What is not there reads as zeros, which mean nothing.
    fn read(&self, at: u64, into: &mut [u8]) {
        let mut done = 0;
        while done < into.len() {
            match self.file.read_at(&mut into[done..], at + done as u64) {
                Ok(0) => return,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }
}

/// How far a background process was polled, and by whom.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Polled {
    call: String,
    from: Position,
    to: Position,
}

fn described(about: &About) -> String {
    const TITLE_CHARS_MAX: usize = 150; // at most six bytes each, as JSON writes them
    let title = about.title.chars().take(TITLE_CHARS_MAX).collect();
    let about = About {
        title,
        ..about.clone()
    };
    serde_json::to_string(&about).unwrap_or_default()
}

/// A text with its length before it, as much as fits.
fn put_text(into: &mut [u8], text: &str) {
    let room = into.len().min(TEXT_BYTES_MAX) - 2;
    let end = (0..=room.min(text.len())).rfind(|end| text.is_char_boundary(*end));
    let text = &text[..end.unwrap_or_default()];
    let length = u16::try_from(text.len()).unwrap_or_default();
    into[..2].copy_from_slice(&length.to_le_bytes());
    into[2..2 + text.len()].copy_from_slice(text.as_bytes());
}

/// What tells one start of this machine from another; empty where that is not known.
pub fn boot_id() -> &'static str {
    static BOOT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    BOOT.get_or_init(|| {
        let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let id = read.unwrap_or_default().trim().to_owned();
        if id.len() == layout::BOOT_ID_BYTES {
            id
        } else {
            String::new()
        }
    })
}
