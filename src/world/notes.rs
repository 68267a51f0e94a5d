//! What a session has read and written in its workspace: the only memory that tools have.
//!
//! It guards against writing over a file that somebody changed since it was read, and tells a commit which new files
//! are the session's own. Nothing depends on it being complete: after a restart the written files come back from the
//! journal's changes ([`Notes::wrote_before`]), and the digests start empty.

use crate::tools::Kit;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard};
use tokio::sync::OnceCell;

/// Shared by the calls of one session.
#[derive(Debug, Default)]
pub struct Notes {
    inner: Mutex<Inner>,
    /// Which tools a session that starts here may need, besides those that all have, once somebody asked.
    pub kit: OnceCell<Kit>,
    /// Whether commands were ever seen that a model may load. What was offered once, stays.
    pub commands: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    seen: BTreeMap<String, String>,
    written: BTreeSet<String>,
}

impl Notes {
    /// Files that the session changed before this process started.
    pub fn wrote_before(&self, paths: impl IntoIterator<Item = String>) {
        self.lock().written.extend(paths);
    }

    /// The model was shown this state of the file.
    pub fn saw(&self, path: &str, digest: String) {
        self.lock().seen.insert(path.to_owned(), digest);
    }

    /// The session put this state of the file in place.
    pub fn wrote(&self, path: &str, digest: String) {
        let mut inner = self.lock();
        inner.seen.insert(path.to_owned(), digest);
        inner.written.insert(path.to_owned());
    }

    /// The state that the model knows, if it knows one.
    pub fn last_seen(&self, path: &str) -> Option<String> {
        self.lock().seen.get(path).cloned()
    }

    pub fn has_written(&self, path: &str) -> bool {
        self.lock().written.contains(path)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Each change is one insertion: a panic elsewhere cannot have left it half done.
        self.inner
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
