//! Goes on from the good part of a damaged journal: the damaged file is kept whole, the good lines become the journal.
//!
//! Never by itself: a person has agreed before. Killed at any point, the journal is either still the damaged one or
//! already the new one, and the damaged file is there under one name at least.

use super::{End, Journal, JournalError, TORN_FILES_MAX, sync_folder_of};
use crate::agent::event::{Event, Timestamp};
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What comes after the good part of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// Lines, the last one counted also where it is torn.
    pub lines: u64,
    pub bytes: u64,
    /// SHA-256, in hex.
    pub digest: String,
    /// The name under which the damaged file is kept, beside the journal.
    pub kept_as: String,
}

/// Measures what comes after the good part.
///
/// # Errors
/// [`JournalError::Io`].
pub fn tail(path: &Path, end: &End) -> Result<Tail, JournalError> {
    let measured = measure(path, end.bytes).and_then(|(lines, bytes, digest)| {
        let kept_as = unused_name(path, end.bytes)?;
        let kept_as = kept_as.file_name().unwrap_or_default();
        Ok(Tail {
            lines,
            bytes,
            digest,
            kept_as: kept_as.to_string_lossy().into_owned(),
        })
    });
    measured.map_err(|source| failed("read the damaged end of", path, source))
}

/// Keeps the damaged file whole under the name that [`tail`] gave, and makes the good part the journal, with `event` as
/// its next line. All of it is on disk when this returns.
///
/// # Errors
/// [`JournalError::Io`]; the damaged journal is where it was then.
pub fn go_on(
    path: &Path,
    end: &End,
    tail: &Tail,
    at: Timestamp,
    event: Event,
) -> Result<(), JournalError> {
    let fresh = path.with_extension("jsonl.new");
    let file = copy_good_part(path, &fresh, end.bytes)
        .map_err(|source| failed("copy the good part of", path, source))?;
    let mut journal = Journal {
        path: fresh.clone(),
        file,
        seq: end.seq,
        head: end.head.clone(),
        bytes: end.bytes,
        unsynced: true,
        poisoned: false,
    };
    journal.append(journal.next(at, event))?;
    journal.sync()?;
    // One moment changes the journal: until then it is the damaged one, under both names.
    fs::hard_link(path, path.with_file_name(&tail.kept_as))
        .and_then(|()| sync_folder_of(path))
        .map_err(|source| failed("keep the damaged", path, source))?;
    fs::rename(&fresh, path)
        .and_then(|()| sync_folder_of(path))
        .map_err(|source| failed("replace the damaged", path, source))
}

fn failed(verb: &'static str, path: &Path, source: io::Error) -> JournalError {
    JournalError::Io {
        verb,
        path: path.to_owned(),
        source,
    }
}

fn measure(path: &Path, from: u64) -> io::Result<(u64, u64, String)> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let (mut lines, mut bytes, mut hasher) = (0, 0, Sha256::new());
    let mut block = vec![0; 1 << 16];
    let mut last = b'\n';
    loop {
        let read = reader.read(&mut block)?;
        let Some(end) = block[..read].last() else {
            break;
        };
        last = *end;
        lines += block[..read].iter().filter(|byte| **byte == b'\n').count() as u64;
        bytes += read as u64;
        hasher.update(&block[..read]);
    }
    lines += u64::from(last != b'\n');
    Ok((lines, bytes, hex::encode(hasher.finalize())))
}

fn copy_good_part(path: &Path, fresh: &Path, bytes: u64) -> io::Result<File> {
    // What a process before this one left half done.
    match fs::remove_file(fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .create_new(true)
        .append(true)
        .mode(0o600)
        .open(fresh)?;
    io::copy(&mut File::open(path)?.take(bytes), &mut file)?;
    file.flush()?;
    Ok(file)
}

/// The same journal can be damaged twice: what was kept before stays.
fn unused_name(path: &Path, from: u64) -> io::Result<PathBuf> {
    let name = |again| match again {
        0 => path.with_extension(format!("damaged-{from}")),
        again => path.with_extension(format!("damaged-{from}-{again}")),
    };
    let unused = (0..TORN_FILES_MAX).map(name).find(|name| !name.exists());
    unused.ok_or_else(|| io::Error::other("too many damaged files of this journal are kept"))
}
