//! Who follows a session's journal as it grows: told a line's number once the line counts, and nothing else. Whoever is
//! told reads the journal; so a slow reader costs no memory here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// By session. Costs nothing while nobody follows.
#[derive(Clone, Default)]
pub struct Followers(Arc<Mutex<HashMap<String, watch::Sender<u64>>>>);

impl Followers {
    /// The last line that counts, from the next one on; 0 until then.
    pub fn follow(&self, session: &str) -> watch::Receiver<u64> {
        let mut followed = self.lock();
        followed.retain(|_, lines| !lines.is_closed());
        let lines = followed.entry(session.to_owned());
        lines.or_insert_with(|| watch::channel(0).0).subscribe()
    }

    /// This line is written down, and on disk if it must be.
    pub fn tell(&self, session: &str, seq: u64) {
        let mut followed = self.lock();
        let Some(lines) = followed.get(session) else {
            return;
        };
        if lines.send(seq).is_err() {
            followed.remove(session);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<u64>>> {
        // Nothing that can panic happens under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
