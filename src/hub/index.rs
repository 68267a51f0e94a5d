//! Brings the database up to what the journals say. Streams them: what is held is bounded by the state, not by the file.

use super::{DeliverError, Hub};
use crate::agent::texts::Catalogues;
use crate::history::walk;
use crate::world::journal::JournalError;
use crate::world::store::Store;
use std::fs::{self, File};
use std::path::Path;

/// Lines that are projected in one transaction.
const LINES_A_TIME: usize = 1_000;

impl Hub {
    /// Projects journals that the database does not know whole, and names those that are damaged.
    ///
    /// # Errors
    /// As [`Hub::recover`].
    pub fn index(&self) -> Result<Vec<(String, JournalError)>, DeliverError> {
        let fail = |source| DeliverError::Read {
            path: self.sessions_dir.clone(),
            source,
        };
        let mut entries = fs::read_dir(&self.sessions_dir).map_err(fail)?.peekable();
        if entries.peek().is_none() && self.surface.store.is_absent() {
            return Ok(Vec::new());
        }
        self.surface.store.check()?;
        let known = self.surface.store.known()?;
        // A name that a dead process gave may not be on disk yet: a loss of power would leave a session without a journal.
        File::open(&self.sessions_dir)
            .and_then(|folder| folder.sync_all())
            .map_err(fail)?;
        let mut damaged = Vec::new();
        for entry in entries {
            let path = entry.map_err(fail)?.path();
            let Some(session) = path
                .file_name()
                .and_then(|name| name.to_str()?.strip_suffix(".jsonl"))
            else {
                continue;
            };
            let bytes = fs::metadata(&path).map_err(fail)?.len();
            if known.get(session) == Some(&bytes) {
                continue;
            }
            match project(&self.surface.store, &path, &self.texts, bytes) {
                Ok(None) => {}
                Ok(Some(damage)) => {
                    tracing::error!(session, %damage, "journal damaged");
                    damaged.push((session.to_owned(), damage));
                }
                Err(error) => {
                    if let DeliverError::Journal(error) = &error {
                        self.note_doubt(session, Some(error));
                    }
                    tracing::error!(session, %error, "journal not indexed");
                }
            }
        }
        Ok(damaged)
    }
}

/// Projects a journal of this length as far as it is good; what is wrong with it, if anything is.
///
/// # Errors
/// [`DeliverError`] where its first line is damaged, it cannot be read, or the database cannot be written.
pub fn project(
    store: &Store,
    path: &Path,
    texts: &Catalogues,
    bytes: u64,
) -> Result<Option<JournalError>, DeliverError> {
    // Who asks the database whether a message came before is told yes: it must be on disk by then.
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|source| JournalError::Unsure {
            path: path.to_owned(),
            source,
        })?;
    let (mut lines, mut failed) = (Vec::with_capacity(LINES_A_TIME), None);
    let past = walk(path, texts, |state, record| {
        lines.push(record.clone());
        if let (Some(state), LINES_A_TIME) = (state, lines.len()) {
            // Length 0: should this process die here, the journal is projected again.
            let projected = store.project(&lines, state, 0);
            failed = failed.take().or(projected.err());
            lines.clear();
        }
    })?;
    // A line that does not fit the state was handed out, but never happened.
    lines.retain(|record| record.seq <= past.end.seq);
    if let Some(error) = failed {
        return Err(error.into());
    }
    store.project(&lines, &past.state, bytes)?;
    let damage = past.error(path);
    if damage.is_some() {
        store.mark_damaged(&past.state.opening.session)?;
    }
    Ok(damage)
}
