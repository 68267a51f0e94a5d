//! Outputs of calls, one folder a session in the data folder, named by session and call, never by a path that somebody
//! gives.
//!
//! `CALL`: a whole output that was too long for the model, secrets masked; the journal holds the digest. `CALL.spool`:
//! what a command prints and how it ends, raw, until the journal has its result; `CALL.after`: what is to be done then.
//! `SHA256.picture`: what a model is shown.
//! What the model read stands in the journal, so a result that is left out of the conversation needs no copy: it is read
//! back from there.

use crate::agent::event::{CallId, Event, Printed, Whole};
use crate::agent::graphs::WHOLE_BYTES_MAX;
use crate::world::journal;
use crate::world::spool::{About, Found, Spool};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SPOOL: &str = ".spool";
const AFTERMATH: &str = ".after";
/// How long the end of a background process can still be asked for.
const ENDED_KEPT: Duration = Duration::from_secs(30 * 60);

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

    /// Those of every session.
    pub fn all(data_dir: &Path) -> Vec<Self> {
        let folders = fs::read_dir(data_dir.join("outputs")).into_iter().flatten();
        let sessions = folders.flatten().map(|entry| entry.file_name());
        sessions
            .filter_map(|session| Some(Self::of(data_dir, session.to_str()?)))
            .collect()
    }

    /// Keeps the output of a call.
    ///
    /// # Errors
    /// Where the data folder cannot be written.
    pub fn keep(&self, call: &CallId, text: &str) -> io::Result<()> {
        self.make()?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(self.folder.join(&call.0))?;
        file.write_all(text.as_bytes())
    }

    /// Keeps something under a name that belongs to its content: once.
    ///
    /// # Errors
    /// Where the data folder cannot be written.
    pub fn keep_as(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.folder.join(name);
        if fs::read(&path).is_ok_and(|there| there == bytes) {
            return Ok(());
        }
        self.make()?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    /// What was kept so.
    ///
    /// # Errors
    /// Where it is not there, or cannot be read.
    pub fn kept(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.folder.join(name))
    }

    /// The output of a call, as it was kept, else as the model read it.
    ///
    /// # Errors
    /// A sentence for the model.
    pub fn read(&self, call: &str) -> Result<String, String> {
        let kept = || fs::read_to_string(self.folder.join(call)).ok();
        let found = is_call(call).then(|| kept().or_else(|| self.recorded(call)));
        found.flatten().ok_or_else(|| {
            format!(
                "there is no output of a call {call:?} in this session; the marks in results name those there are"
            )
        })
    }

    /// The whole output of a call, of a command what it printed on stdout, for a reference to it.
    pub fn whole(&self, call: &CallId, printed: Option<Printed>) -> Whole {
        if let Some(Printed { omitted_bytes, .. }) = printed.filter(|one| one.omitted_bytes > 0) {
            return Whole::NotKept {
                bytes: omitted_bytes,
            };
        }
        let path = self.folder.join(&call.0);
        let read = || {
            let bytes = printed.map_or_else(
                || fs::metadata(&path).map(|meta| meta.len()),
                |one| Ok(one.bytes as u64),
            )?;
            if bytes > WHOLE_BYTES_MAX as u64 {
                return Ok(Whole::TooLong { bytes });
            }
            let mut text = fs::read_to_string(&path)?;
            if let Some(printed) = printed {
                if !text.is_char_boundary(printed.bytes) {
                    return Err(io::Error::other("it was altered"));
                }
                text.truncate(printed.bytes);
            }
            Ok(Whole::Text { text })
        };
        read().unwrap_or_else(|error: io::Error| Whole::Gone {
            why: error.to_string(),
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

    /// Makes the folder. It is there before a command's intent is written: where it is not, somebody removed it, and
    /// that a spool is missing proves nothing.
    ///
    /// # Errors
    /// Where the data folder cannot be written.
    pub fn make(&self) -> io::Result<()> {
        let mut private = DirBuilder::new();
        private.recursive(true).mode(0o700).create(&self.folder)
    }

    pub fn exists(&self) -> bool {
        self.folder.is_dir()
    }

    /// A spool for a command that is about to start.
    ///
    /// # Errors
    /// Where it cannot be made; nothing must start then.
    pub fn new_spool(&self, call: &CallId, about: &About) -> io::Result<Spool> {
        self.make()?;
        Spool::create(&self.named(call, SPOOL), about)
    }

    /// # Errors
    /// Where there is none, or it cannot be read.
    pub fn spool(&self, call: &CallId) -> io::Result<Spool> {
        Spool::open(&self.named(call, SPOOL))
    }

    /// Where it is written down what is to be done after a command.
    pub fn aftermath(&self, call: &CallId) -> PathBuf {
        self.named(call, AFTERMATH)
    }

    /// The journal has the result of a call. What goes on in the background stays.
    pub fn forget(&self, call: &CallId) {
        if self
            .spool(call)
            .is_ok_and(|spool| !spool.about().background)
        {
            let _ = fs::remove_file(self.named(call, SPOOL)); // or with the next start of the session
        }
    }

    /// Nothing of it ever ran.
    pub fn remove(&self, call: &CallId) {
        let _ = fs::remove_file(self.named(call, SPOOL)); // it says so itself, where it stays
    }

    /// Calls whose spool is there, the oldest first.
    pub fn spooled(&self) -> Vec<(CallId, Spool)> {
        let mut calls: Vec<CallId> = self.calls_with(SPOOL);
        let number = |part: &str| part.parse::<u64>().unwrap_or_default();
        calls.sort_by_key(|call| {
            let (round, position) = call.0.split_once('.').unwrap_or_default();
            (number(round), number(position))
        });
        let open = |call: CallId| Some((call.clone(), self.spool(&call).ok()?));
        calls.into_iter().filter_map(open).collect()
    }

    /// The session's processes in the background, also those that ended.
    pub fn background(&self) -> Vec<(CallId, Spool)> {
        let mut all = self.spooled();
        all.retain(|(_, spool)| spool.about().background);
        all
    }

    /// Calls after which something is to be done.
    pub fn unsettled(&self) -> Vec<CallId> {
        self.calls_with(AFTERMATH)
    }

    /// Removes what nobody will ask for any more: ends of background processes after a while.
    pub fn sweep(&self) {
        for (call, spool) in self.background() {
            let path = self.named(&call, SPOOL);
            let age = fs::metadata(&path).and_then(|meta| meta.modified());
            let age = age.ok().and_then(|then| then.elapsed().ok());
            if spool.look() != Found::Running && age.is_some_and(|age| age > ENDED_KEPT) {
                let _ = fs::remove_file(path); // or the next time
            }
        }
    }

    fn calls_with(&self, suffix: &str) -> Vec<CallId> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let call = |entry: fs::DirEntry| {
            let name = entry.file_name();
            let call = name.to_str()?.strip_suffix(suffix)?;
            is_call(call).then(|| CallId(call.to_owned()))
        };
        entries.filter_map(call).collect()
    }

    fn named(&self, call: &CallId, suffix: &str) -> PathBuf {
        self.folder.join(format!("{call}{suffix}"))
    }
}

/// `ROUND.POSITION`, and nothing that leads anywhere else.
fn is_call(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    text.split_once('.')
        .is_some_and(|(round, position)| is_number(round) && is_number(position))
}
