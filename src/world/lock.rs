//! One writer a data folder: a lock that the kernel drops with the process, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long a lock is waited for. A server that was killed while it started a command leaves a copy of itself that has
/// the lock too, until it becomes that command or its keeper.
const PATIENCE: Duration = Duration::from_millis(500);
const AGAIN: Duration = Duration::from_millis(20);

/// Why the folder cannot be taken.
#[derive(Debug, Error)]
pub enum LockError {
    #[error(
        "the data folder {folder} is in use by process {pid}. Stop it first, or set another DATA_DIR"
    )]
    Held { folder: PathBuf, pid: String },
    #[error(
        "the data folder {folder} cannot be written: {source}. Make it writable, or set another DATA_DIR"
    )]
    Io { folder: PathBuf, source: io::Error },
}

/// Held as long as this lives.
#[derive(Debug)]
pub struct DataLock {
    _file: File,
}

impl DataLock {
    /// # Errors
    /// [`LockError::Held`] with the other process's id; [`LockError::Io`].
    pub fn take(folder: &Path) -> Result<Self, LockError> {
        let fail = |source| LockError::Io {
            folder: folder.to_owned(),
            source,
        };
        let path = folder.join("lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(fail)?;
        let until = Instant::now() + PATIENCE;
        let mut locked = file.try_lock();
        while matches!(locked, Err(TryLockError::WouldBlock)) && Instant::now() < until {
            thread::sleep(AGAIN);
            locked = file.try_lock();
        }
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // Only for the message: without it the lock is held all the same.
                let _ = file.read_to_string(&mut pid);
                return Err(LockError::Held {
                    folder: folder.to_owned(),
                    pid: pid.trim().to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(fail(source)),
        }
        file.set_len(0).and_then(|()| file.rewind()).map_err(fail)?;
        write!(file, "{}", std::process::id()).map_err(fail)?;
        Ok(Self { _file: file })
    }
}
