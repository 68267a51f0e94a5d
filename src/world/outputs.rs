//! Whole outputs of calls: of commands that were too long for the model, and of anything that it was shown before.
//!
//! What was too long is one file a call, in the data folder, secrets masked; the journal holds the digest. What the model
//! read stands in the journal, so a result that is left out of the conversation needs no copy: it is read back from there.
//! It is named by session and call, never by a path that somebody gives.

use crate::agent::event::{CallId, Event};
use crate::world::journal;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The outputs of one session.
#[derive(Debug, Clone)]
pub struct Outputs {
    folder: PathBuf,
    journal: PathBuf,
}

impl Outputs {
    pub fn of(data_dir: &Path, session: &str) -> Self {
        Self {
            folder: data_dir.join("outputs").join(session),
            journal: data_dir
                .join("agent_sessions")
                .join(format!("{session}.jsonl")),
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

    /// The output of a call, as it was kept, else as the model read it.
    ///
    /// # Errors
    /// A sentence for the model.
    pub fn read(&self, call: &str) -> Result<String, String> {
        let is_call = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let named = call
            .split_once('.')
            .is_some_and(|(round, position)| is_call(round) && is_call(position));
        let kept = || fs::read_to_string(self.folder.join(call)).ok();
        let found = named.then(|| kept().or_else(|| self.recorded(call)));
        found.flatten().ok_or_else(|| {
            format!(
                "there is no output of a call {call:?} in this session; the marks in results name those there are"
            )
        })
    }

    /// What the model read, from the journal.
    fn recorded(&self, wanted: &str) -> Option<String> {
        let mut output = None;
        let read = journal::read(&self.journal, |record| match record.event {
            Event::ToolFinished { call, outcome } if call.0 == wanted => {
                output = Some(outcome.output);
            }
            Event::PlanChanged {
                call, output: told, ..
            } if call.0 == wanted => output = Some(told),
            _ => {}
        });
        read.ok().and(output)
    }
}
