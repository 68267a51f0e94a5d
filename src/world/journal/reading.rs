//! Reads a journal line by line and checks the chain. It never writes, and holds no more than one line.

use super::{GENESIS, HASH_FIELD_BYTES, JournalError, chain};
use crate::agent::event::Record;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

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

/// Reads a journal line by line, checking the chain, up to its first damage. Never holds more than one line. What `each`
/// refuses is damage, too.
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
    let mut reader = BufReader::with_capacity(1 << 16, File::open(path).map_err(fail)?);
    let mut damage = None;
    let mut end = End {
        seq: 0,
        head: GENESIS.into(),
        bytes: 0,
        torn: 0,
    };
    let mut line = Vec::new();
    loop {
        line.clear();
        let bytes = reader.read_until(b'\n', &mut line).map_err(fail)? as u64;
        if bytes == 0 {
            break;
        }
        if line.last() != Some(&b'\n') {
            end.torn = bytes;
            break;
        }
        line.pop();
        let taken = check(&line, &end).and_then(|record| {
            let (seq, head) = (record.seq, record.hash.clone());
            each(record).map(|()| (seq, head))
        });
        match taken {
            Ok((seq, head)) => (end.seq, end.head, end.bytes) = (seq, head, end.bytes + bytes),
            Err(what) => {
                damage = Some(what);
                break;
            }
        }
    }
    match (end.seq, &damage) {
        (0, None) => Err(JournalError::Empty {
            path: path.to_owned(),
        }),
        _ => Ok(Scan { end, damage }),
    }
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

fn check(line: &[u8], before: &End) -> Result<Record, String> {
    let record: Record =
        serde_json::from_slice(line).map_err(|error| format!("not a journal line ({error})"))?;
    let body = line
        .len()
        .checked_sub(HASH_FIELD_BYTES)
        .map(|end| &line[..end])
        .ok_or("too short")?;
    if chain(&before.head, body) != record.hash || record.prev != before.head {
        return Err("its hash does not fit".into());
    }
    if record.seq != before.seq + 1 {
        return Err(format!(
            "its number is {}, not {}",
            record.seq,
            before.seq + 1
        ));
    }
    Ok(record)
}
