//! Reads a journal line by line and checks the chain. It never writes, and holds a bounded part of it.

use super::{GENESIS, HASH_FIELD_BYTES, JournalError, fits};
use crate::agent::event::Record;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread;

/// From this length on, lines are read ahead: for less, a thread costs more than it saves.
const LONG_BYTES: u64 = 256 * 1024;
/// Of lines that are handed over at once, and how many such batches may wait.
const BATCH_BYTES: u64 = 128 * 1024;
const BATCHES_AHEAD: usize = 4;
const READ_BYTES: usize = 128 * 1024;

/// Where the intact part of a journal ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub seq: u64,
    pub head: String,
    /// Bytes of complete, intact lines.
    pub bytes: u64,
    /// Bytes of a torn last line; 0 where there is none.
    pub torn: u64,
}

/// A journal, read as far as it is good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    pub end: End,
    /// What is wrong with the line after the end, where it is damaged.
    pub damage: Option<String>,
}

impl Scan {
    /// The damage as an error.
    pub fn error(&self, path: &Path) -> Option<JournalError> {
        self.damage.as_ref().map(|what| JournalError::Damaged {
            path: path.to_owned(),
            line: self.end.seq + 1,
            what: what.clone(),
        })
    }
}

/// Reads a journal line by line, checking the chain, up to its first damage. What `each` refuses is damage, too. Of a long
/// one, the next lines are read while `each` takes those before; never more than [`BATCHES_AHEAD`] batches of them.
///
/// # Errors
/// [`JournalError::Empty`]; [`JournalError::Io`].
pub fn scan(
    path: &Path,
    mut each: impl FnMut(Record) -> Result<(), String>,
) -> Result<Scan, JournalError> {
    let fail = |source| JournalError::Io {
        verb: "read",
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(fail)?;
    let is_long = file.metadata().map_err(fail)?.len() >= LONG_BYTES;
    let mut end = End {
        seq: 0,
        head: GENESIS.into(),
        bytes: 0,
        torn: 0,
    };
    let mut head = String::new();
    let mut take = |record: Record, bytes: u64| {
        let seq = record.seq;
        head.clone_from(&record.hash);
        each(record)?;
        std::mem::swap(&mut end.head, &mut head);
        (end.seq, end.bytes) = (seq, end.bytes + bytes);
        Ok(())
    };
    let stop = match is_long {
        true => read_ahead(file, &mut take),
        false => lines(file, take),
    };
    let Stop { torn, damage } = stop.map_err(fail)?;
    end.torn = torn;
    match (end.seq, &damage) {
        (0, None) => Err(JournalError::Empty {
            path: path.to_owned(),
        }),
        _ => Ok(Scan { end, damage }),
    }
}

/// Where no more lines come.
#[derive(Default)]
struct Stop {
    /// Bytes of a torn last line.
    torn: u64,
    damage: Option<String>,
}

/// Hands out every line whose place in the chain is right, with its length; never holds more than one.
fn lines(file: File, mut each: impl FnMut(Record, u64) -> Result<(), String>) -> io::Result<Stop> {
    let mut reader = BufReader::with_capacity(READ_BYTES, file);
    let (mut seq, mut head, mut line) = (0, GENESIS.to_owned(), Vec::new());
    loop {
        line.clear();
        let bytes = reader.read_until(b'\n', &mut line)? as u64;
        if bytes == 0 {
            return Ok(Stop::default());
        }
        if line.pop() != Some(b'\n') {
            return Ok(Stop {
                torn: bytes,
                damage: None,
            });
        }
        let taken = check(&line, seq, &head).and_then(|record| {
            seq = record.seq;
            head.clone_from(&record.hash);
            each(record, bytes)
        });
        if let Err(what) = taken {
            return Ok(Stop {
                torn: 0,
                damage: Some(what),
            });
        }
    }
}

/// The same, read and checked by a thread of its own, so that it costs no time while `each` is at work.
fn read_ahead(
    file: File,
    each: &mut impl FnMut(Record, u64) -> Result<(), String>,
) -> io::Result<Stop> {
    let (sender, batches) = sync_channel::<Vec<(Record, u64)>>(BATCHES_AHEAD);
    thread::scope(|scope| {
        let reader = thread::Builder::new().spawn_scoped(scope, move || {
            let (mut batch, mut length) = (Vec::new(), 0);
            let stop = lines(file, |record, bytes| {
                batch.push((record, bytes));
                length += bytes;
                if length < BATCH_BYTES {
                    return Ok(());
                }
                length = 0;
                let full = std::mem::take(&mut batch);
                sender.send(full).map_err(|_| "nobody reads on".to_owned())
            });
            let _ = sender.send(batch); // where nobody reads on, nobody misses it
            stop
        })?;
        let refused =
            (batches.into_iter().flatten()).find_map(|(record, bytes)| each(record, bytes).err());
        let stop = reader
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(match refused {
            Some(what) => Stop {
                torn: 0,
                damage: Some(what),
            },
            None => stop,
        })
    })
}

/// The same for a journal that must be good to its end.
///
/// # Errors
/// [`JournalError::Damaged`] with the line where the chain breaks; those of [`scan`].
pub fn read(path: &Path, mut each: impl FnMut(Record)) -> Result<End, JournalError> {
    let scan = scan(path, |record| {
        each(record);
        Ok(())
    })?;
    match scan.error(path) {
        Some(error) => Err(error),
        None => Ok(scan.end),
    }
}

fn check(line: &[u8], seq: u64, head: &str) -> Result<Record, String> {
    let record: Record =
        serde_json::from_slice(line).map_err(|error| format!("not a journal line ({error})"))?;
    let body = line
        .len()
        .checked_sub(HASH_FIELD_BYTES)
        .map(|end| &line[..end])
        .ok_or("too short")?;
    if !fits(head, body, &record.hash) || record.prev != head {
        return Err("its hash does not fit".into());
    }
    if record.seq != seq + 1 {
        return Err(format!("its number is {}, not {}", record.seq, seq + 1));
    }
    Ok(record)
}
