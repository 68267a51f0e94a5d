//! The journal: one append-only JSONL file a session, each line chained to the one before by SHA-256.
//!
//! It writes bytes and checks the chain; what a line means is none of its business. A torn last line is set aside into a
//! file of its own beside the journal, never deleted. Damage in the middle is an error with its line number; the lines
//! before it are used only when a person says so ([`salvage`]).

/// A journal, line by line, as far as it is good.
mod reading;
/// Going on from the good part of a damaged one.
pub mod salvage;

pub use reading::{End, Scan, read, scan};

use crate::agent::event::{Event, Record, Timestamp};
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Version of the line format.
pub const FORMAT: u32 = 1;

const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Torn ends kept of one journal at one place.
const TORN_FILES_MAX: u32 = 1_000;
/// `,"hash":"` + 64 digits + `"}`
const HASH_FIELD_BYTES: usize = 9 + 64 + 2;

/// What can go wrong with a journal.
#[derive(Debug, Error)]
pub enum JournalError {
    #[error(
        "{verb} {path}: {source}. Nothing after the last complete line counts as done; free the disk or make it writable, then start again"
    )]
    Io {
        verb: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{path} is damaged at line {line}: {what}. The lines before it are intact")]
    Damaged {
        path: PathBuf,
        line: u64,
        what: String,
    },
    #[error("{path} has no complete line: it is no journal")]
    Empty { path: PathBuf },
    #[error(
        "sync {path}: {source}. What it holds may not be on disk: free the disk or make it writable, then it is written anew before anything of it counts"
    )]
    Unsure { path: PathBuf, source: io::Error },
    #[error("an earlier write to {path} failed; this process must not append to it any more")]
    Poisoned { path: PathBuf },
}

/// An open journal, at its end.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    seq: u64,
    head: String,
    bytes: u64,
    /// Lines written since the last fsync.
    unsynced: bool,
    poisoned: bool,
}

/// A line that is not yet written.
#[derive(Debug)]
pub struct Line {
    pub record: Record,
    bytes: Vec<u8>,
}

impl Journal {
    /// Makes a new journal with its first line, both durable when this returns.
    ///
    /// # Errors
    /// [`JournalError::Io`], also where the file exists already.
    pub fn create(
        path: &Path,
        at: Timestamp,
        first: Event,
    ) -> Result<(Self, Record), JournalError> {
        // A journal without a first line would be one that never verifies: it gets its name once the line is there.
        let unborn = path.with_extension("unborn");
        let begun = Self::begin(path, &unborn, at, first);
        if begun.is_err() {
            // Nobody was told of it. On a disk that fails, removing it may fail as well.
            let _ = std::fs::remove_file(&unborn);
        }
        begun
    }

    fn begin(
        path: &Path,
        unborn: &Path,
        at: Timestamp,
        first: Event,
    ) -> Result<(Self, Record), JournalError> {
        let fail = |verb| {
            move |source| JournalError::Io {
                verb,
                path: path.to_owned(),
                source,
            }
        };
        if path.exists() {
            return Err(fail("create")(io::ErrorKind::AlreadyExists.into()));
        }
        let file = OpenOptions::new()
            .create_new(true)
            .mode(0o600)
            .append(true)
            .open(unborn)
            .map_err(fail("create"))?;
        let mut journal = Self {
            path: path.to_owned(),
            file,
            seq: 0,
            head: GENESIS.into(),
            bytes: 0,
            unsynced: false,
            poisoned: false,
        };
        let record = journal.append(journal.next(at, first))?;
        journal.sync()?;
        std::fs::rename(unborn, path).map_err(fail("name"))?;
        if let Err(source) = sync_folder_of(path) {
            let _ = std::fs::remove_file(path);
            return Err(fail("sync the folder of")(source));
        }
        Ok((journal, record))
    }

    /// Opens a journal for appending, handing every line to `each`. A torn tail is set aside first.
    ///
    /// # Errors
    /// What [`read`] says, or the first error of `each`.
    pub fn open(
        path: &Path,
        mut each: impl FnMut(Record) -> Result<(), String>,
    ) -> Result<Self, JournalError> {
        let fail = |verb| {
            move |source| JournalError::Io {
                verb,
                path: path.to_owned(),
                source,
            }
        };
        let scan = scan(path, &mut each)?;
        if let Some(error) = scan.error(path) {
            return Err(error);
        }
        let end = scan.end;
        let file = OpenOptions::new()
            .append(true)
            .open(path)
            .map_err(fail("open"))?;
        if end.torn > 0 {
            set_aside(path, end.bytes, end.torn).map_err(fail("set aside the torn end of"))?;
            file.set_len(end.bytes)
                .map_err(fail("cut the torn end of"))?;
        }
        // What the process before wrote may not be on disk yet, and from here on it counts.
        file.sync_all().map_err(|source| JournalError::Unsure {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            file,
            seq: end.seq,
            head: end.head,
            bytes: end.bytes,
            unsynced: false,
            poisoned: false,
        })
    }

    /// The next line, chained but not yet written: it can be judged before it becomes history.
    pub fn next(&self, at: Timestamp, event: Event) -> Line {
        let mut record = Record {
            seq: self.seq + 1,
            at,
            event,
            prev: self.head.clone(),
            hash: String::new(),
        };
        let mut bytes = serde_json::to_vec(&record).expect("BUG: every event serialises");
        // `…,"hash":""}` → the line without `hash`, its digest, and the field again.
        bytes.truncate(bytes.len() - br#","hash":""}"#.len());
        record.hash = chain(&self.head, &bytes);
        bytes.extend_from_slice(format!(",\"hash\":\"{}\"}}\n", record.hash).as_bytes());
        Line { record, bytes }
    }

    /// Appends a line made by [`Journal::next`]. It is in the file when this returns, on disk after [`Journal::sync`].
    ///
    /// # Errors
    /// [`JournalError::Io`]; the journal takes nothing more after that.
    pub fn append(&mut self, line: Line) -> Result<Record, JournalError> {
        let Line { record, bytes } = line;
        assert_eq!(
            record.seq,
            self.seq + 1,
            "BUG: a line is appended out of order"
        );
        if self.poisoned {
            return Err(JournalError::Poisoned {
                path: self.path.clone(),
            });
        }
        self.unsynced = true;
        self.file
            .write_all(&bytes)
            .map_err(|source| self.poison("append to", source))?;
        self.seq = record.seq;
        self.head.clone_from(&record.hash);
        self.bytes += bytes.len() as u64;
        Ok(record)
    }

    /// Waits until everything appended is on disk.
    ///
    /// # Errors
    /// [`JournalError::Unsure`]; the journal takes nothing more after that, and has to be written anew.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        if !self.unsynced {
            return Ok(());
        }
        if let Err(source) = self.file.sync_data() {
            self.poisoned = true;
            let path = self.path.clone();
            return Err(JournalError::Unsure { path, source });
        }
        self.unsynced = false;
        Ok(())
    }

    /// Number of the last line.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Length of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn poison(&mut self, verb: &'static str, source: io::Error) -> JournalError {
        self.poisoned = true;
        JournalError::Io {
            verb,
            path: self.path.clone(),
            source,
        }
    }
}

fn chain(prev: &str, line: &[u8]) -> String {
    hex::encode(digest(prev, line))
}

/// Whether `hash` is that of the line, without making a text of each.
fn fits(prev: &str, line: &[u8], hash: &str) -> bool {
    let mut expected = [0; 64];
    hex::encode_to_slice(digest(prev, line), &mut expected).is_ok() && expected == *hash.as_bytes()
}

fn digest(prev: &str, line: &[u8]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(prev.as_bytes());
    hasher.update(line);
    hasher.finalize().into()
}

/// Writes a journal into a file of its own and puts that in its place, after an fsync that failed: the kernel may go on
/// showing lines that it will never write, and call the next fsync a success.
///
/// # Errors
/// [`JournalError::Io`]; the journal is what it was then, and as doubtful.
pub fn write_anew(path: &Path) -> Result<(), JournalError> {
    let copy = path.with_extension("unborn");
    let written = std::fs::read(path).and_then(|bytes| {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&copy)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(&copy, path)?;
        sync_folder_of(path)
    });
    written.map_err(|source| JournalError::Io {
        verb: "write anew",
        path: path.to_owned(),
        source,
    })
}

fn set_aside(path: &Path, from: u64, bytes: u64) -> io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    let mut tail = Vec::new();
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    file.take(bytes).read_to_end(&mut tail)?;
    let mut kept = unused_name(path, from)?;
    kept.write_all(&tail)?;
    kept.sync_all()?;
    sync_folder_of(path)
}

/// A line can be torn at the same place twice: what was kept before stays.
fn unused_name(path: &Path, from: u64) -> io::Result<File> {
    let name = |again| match again {
        0 => path.with_extension(format!("torn-{from}")),
        again => path.with_extension(format!("torn-{from}-{again}")),
    };
    let unused = (0..TORN_FILES_MAX).find(|again| !name(*again).exists());
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(name(unused.unwrap_or(TORN_FILES_MAX)))
}

/// A new file is there after a power cut only once its folder is on disk.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// The folder of the journals, on disk with the folder that it is in.
///
/// # Errors
/// Where it cannot be made.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(folder)?;
    folder
        .ancestors()
        .take(2)
        .try_for_each(|made| sync_folder_of(made).or_else(unsupported))
}

/// Some file systems cannot sync a folder that is not ours; the journal's own folder is checked with every new journal.
fn unsupported(_: io::Error) -> io::Result<()> {
    Ok(())
}
