//! Whole outputs of commands that were too long for the model: one file a call, in the data folder, secrets masked.
//!
//! The journal holds what the model read and the digest; this holds the rest. It is named by session and call, never by
//! a path that somebody gives.

use crate::agent::event::CallId;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The outputs of one session.
#[derive(Debug, Clone)]
pub struct Outputs {
    folder: PathBuf,
}

impl Outputs {
    pub fn of(data_dir: &Path, session: &str) -> Self {
        Self {
            folder: data_dir.join("outputs").join(session),
        }
    }

    /// Keeps the output of a call.
    ///
    /// # Errors
    /// Where the data folder cannot be written.
    pub fn keep(&self, call: &CallId, text: &str) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(self.folder.join(&call.0))?;
        file.write_all(text.as_bytes())
    }

    /// The output of a call, as it was kept.
    ///
    /// # Errors
    /// A sentence for the model.
    pub fn read(&self, call: &str) -> Result<String, String> {
        let is_call = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let named = call
            .split_once('.')
            .is_some_and(|(round, position)| is_call(round) && is_call(position));
        let kept = named.then(|| fs::read_to_string(self.folder.join(call)));
        match kept {
            Some(Ok(text)) => Ok(text),
            Some(Err(_)) | None => Err(format!(
                "there is no longer output of a call {call:?} in this session; the marks in results name those there are"
            )),
        }
    }
}
