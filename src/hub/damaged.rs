//! A damaged journal stops its session and nothing else: its chat is told in a fresh session, and goes on there.
//!
//! The good part is used only after the owner said so. Being told is remembered by the fresh session: it is the chat's
//! active one from then on.

use super::opening::Opened;
use super::{DeliverError, Hub};
use crate::agent::apply::apply;
use crate::agent::event::Event;
use crate::history::{good_part, keep_good_part};
use crate::world::clock;
use crate::world::journal::JournalError;
use std::sync::Arc;

impl Hub {
    /// Opens a session that takes the damaged one's place in the chat, and says so. It belongs to whom the damaged one
    /// belonged; `writer` is who writes now, where that cannot be read any more.
    pub(super) fn stand_in(
        &self,
        chat: &str,
        writer: &str,
        session: &str,
        damage: &JournalError,
    ) -> Result<String, DeliverError> {
        tracing::error!(session, %damage, "journal damaged; the chat goes on in a fresh session");
        self.surface.store.mark_damaged(session)?;
        let (line, what) = match damage {
            JournalError::Damaged { line, what, .. } => (*line, what.clone()),
            other => (0, other.to_string()),
        };
        let owner = self.owner(session).unwrap_or_else(|_| writer.to_owned());
        let mut opened = self.open_session(chat, &owner, None)?;
        let told = Event::JournalDamaged {
            session: session.to_owned(),
            line,
            what,
        };
        self.note(&mut opened, told)?;
        Ok(opened.session)
    }

    /// At the start: only where the damaged session is the chat's active one. Otherwise the chat was told, or has gone
    /// on elsewhere.
    pub(super) fn tell_damage(self: &Arc<Self>, session: &str, damage: &JournalError) {
        let told = self.try_tell_damage(session, damage);
        if let Err(error) = told {
            tracing::error!(%session, %error, "the chat could not be told that its journal is damaged");
        }
    }

    fn try_tell_damage(
        self: &Arc<Self>,
        session: &str,
        damage: &JournalError,
    ) -> Result<(), DeliverError> {
        let chat = self.chat_of(session)?;
        if self.surface.store.active_session(&chat)?.as_deref() != Some(session) {
            return Ok(());
        }
        let owner = self.owner(session)?;
        let fresh = self.stand_in(&chat, &owner, session, damage)?;
        self.wake(&fresh)
    }

    /// The owner said to go on from the good part. Called with the chat's lane held.
    pub(super) fn agree_to_good_part(&self, session: &str, who: &str) -> Result<(), DeliverError> {
        if self.awake().contains_key(session) {
            return Ok(());
        }
        if self.owner(session)? == who {
            keep_good_part(&self.path(session), &self.texts)?;
            self.index()?;
        }
        Ok(())
    }

    /// Whose session it is, from what is good of its journal.
    fn owner(&self, session: &str) -> Result<String, DeliverError> {
        let past = good_part(&self.path(session), &self.texts, |_| {})?;
        Ok(past.state.opening.owner.clone())
    }

    /// Writes one more line into a session that was just opened, on disk when this returns.
    fn note(&self, opened: &mut Opened, event: Event) -> Result<(), DeliverError> {
        let line = opened.journal.next(clock::now(), event);
        apply(&mut opened.state, &line.record)
            .map_err(|error| DeliverError::Session(error.to_string()))?;
        let record = opened.journal.append(line)?;
        opened.journal.sync()?;
        self.surface
            .observers
            .recorded(&opened.state.opening, &record);
        let lines = [opened.first.clone(), record];
        let bytes = opened.journal.bytes();
        Ok(self.surface.store.project(&lines, &opened.state, bytes)?)
    }
}
