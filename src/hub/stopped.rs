//! A session whose journal could not be written or read ends in this process, and is woken again once the disk works: its
//! chat is told then, as after any interruption, and nobody has to write first.

use super::{DeliverError, Hub, index};
use crate::agent::state::State;
use crate::history::load;
use crate::session::SessionError;
use crate::world::journal::{self, Journal, JournalError};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sessions that ended in this process for another reason than that nothing was left to do.
#[derive(Default)]
pub(super) struct Stopped {
    /// With a journal that may not be on disk: it is written anew before it is read again.
    unsure: Names,
    /// With a journal that could not be written or read: they are woken again by and by.
    asleep: Names,
    /// With lines that the database may not know: it is brought up to them before the session goes on.
    behind: Names,
}

#[derive(Default)]
struct Names(Mutex<HashSet<String>>);

impl Names {
    fn get(&self) -> MutexGuard<'_, HashSet<String>> {
        // Nothing that can panic happens under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hub {
    /// Wakes the sessions that a failing disk stopped. One that cannot be opened yet is left for the next time; how many
    /// could.
    pub async fn revive(self: &Arc<Self>) -> usize {
        let mut woken = 0;
        let stopped = std::mem::take(&mut *self.stopped.asleep.get());
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

    /// Reads a session that sleeps, or that stopped: then what it wrote last is made sure of, in its journal and in the
    /// database.
    pub(super) fn load(&self, session: &str) -> Result<(State, Journal), DeliverError> {
        let path = self.path(session);
        if self.stopped.unsure.get().contains(session) {
            journal::write_anew(&path)?;
            self.stopped.unsure.get().remove(session);
        }
        let loaded = load(&path, &self.texts, |_| {});
        self.note_doubt(session, loaded.as_ref().err());
        let (state, journal) = loaded?;
        if self.stopped.behind.get().contains(session) {
            let bytes = journal.bytes();
            index::project(&self.surface.store, &path, &self.texts, bytes)?;
            self.stopped.behind.get().remove(session);
        }
        Ok((state, journal))
    }

    pub(super) fn note_doubt(&self, session: &str, error: Option<&JournalError>) {
        if let Some(JournalError::Unsure { .. }) = error {
            self.stopped.unsure.get().insert(session.to_owned());
        }
    }

    pub(super) fn note_stopped(&self, session: &str) {
        self.stopped.asleep.get().insert(session.to_owned());
    }

    /// It ended in the middle; `None`: it broke. The words for whoever watches.
    pub(super) fn note_end(&self, session: &str, error: Option<&SessionError>) -> String {
        self.stopped.behind.get().insert(session.to_owned());
        if let Some(SessionError::Journal(error)) = error {
            self.note_doubt(session, Some(error));
            self.note_stopped(session);
        }
        error.map_or_else(
            || "the session broke (a bug of Journeyman); see the log".to_owned(),
            ToString::to_string,
        )
    }
}
