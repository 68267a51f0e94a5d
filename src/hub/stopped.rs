//! A session whose journal could not be written or read ends in this process, and is woken again once the disk works: its
//! chat is told then, as after any interruption, and nobody has to write first.

use super::{DeliverError, Hub};
use crate::world::journal::JournalError;
use std::collections::HashSet;
use std::sync::{Arc, MutexGuard, PoisonError};

impl Hub {
    /// Wakes the sessions that a failing disk stopped. One that cannot be opened yet is left for the next time; how many
    /// could.
    pub async fn revive(self: &Arc<Self>) -> usize {
        let mut woken = 0;
        let stopped = std::mem::take(&mut *self.stopped());
        for session in stopped {
            match self.rouse(&session).await {
                Ok(()) => woken += 1,
                Err(DeliverError::Journal(damage @ JournalError::Damaged { .. })) => {
                    self.tell_damage(&session, &damage);
                }
                Err(error) => {
                    tracing::warn!(%session, %error, "still stopped; it is tried again");
                    self.note_stopped(&session);
                }
            }
        }
        woken
    }

    pub(super) fn note_stopped(&self, session: &str) {
        self.stopped().insert(session.to_owned());
    }

    fn stopped(&self) -> MutexGuard<'_, HashSet<String>> {
        // Nothing that can panic happens under this lock.
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
