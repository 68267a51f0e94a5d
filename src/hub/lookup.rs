//! What a door may ask about sessions without waking them.

use super::across::id_across;
use super::{DeliverError, Hub};
use crate::agent::event::Event;
use crate::world::journal;
use std::iter;
use std::path::PathBuf;

impl Hub {
    /// Whether a session of this chat, or of another one of the same person, has a question with this code open.
    ///
    /// # Errors
    /// [`DeliverError`] where the database cannot be read.
    pub fn is_asking(&self, chat: &str, code: &str) -> Result<bool, DeliverError> {
        let others = self.surface.people.others(chat);
        for chat in iter::once(chat).chain(others) {
            if self.asking_for(chat, code)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The line of a session's journal on which a message of this chat came. Reads all of it.
    ///
    /// # Errors
    /// [`DeliverError`] where the journal cannot be read.
    pub fn line_of(
        &self,
        chat: &str,
        session: &str,
        message: &str,
    ) -> Result<Option<u64>, DeliverError> {
        // A message of another chat may bear the same id.
        let id = match self.chat_of(session)? == chat {
            true => message.to_owned(),
            false => id_across(chat, message),
        };
        let mut line = None;
        journal::read(&self.path(session), |record| match &record.event {
            Event::MessageReceived { message: came } if came.id == id => {
                line = line.or(Some(record.seq));
            }
            _ => {}
        })?;
        Ok(line)
    }

    /// Whose a session is, and its journal.
    ///
    /// # Errors
    /// [`DeliverError::NoSession`].
    pub fn journal_of(&self, session: &str) -> Result<(String, PathBuf), DeliverError> {
        Ok((self.chat_of(session)?, self.path(session)))
    }
}
