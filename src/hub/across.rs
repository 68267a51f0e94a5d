//! An answer that somebody gives in another of their chats than the one where the question stands (`[people]` in the
//! settings). It names the question by its code: a bare yes is about the chat that it is said in.

use super::{DeliverError, Hub};
use crate::agent::event::Inbound;

impl Hub {
    /// The session in another chat of the same person whose open question has this code, and the message as it goes there.
    pub(super) fn across(
        &self,
        chat: &str,
        code: &str,
        message: &Inbound,
    ) -> Result<Option<(String, Inbound)>, DeliverError> {
        for other in self.surface.people.others(chat) {
            let Some(session) = self.asking_for(other, code)? else {
                continue;
            };
            // One that cannot be read waits for nobody's yes.
            let Ok(state) = self.peek(&session) else {
                continue;
            };
            let answer = Inbound {
                id: id_across(chat, &message.id),
                stands_for: Some(state.opening.owner.clone()),
                ..message.clone()
            };
            return Ok(Some((session, answer)));
        }
        Ok(None)
    }

    /// The session that a message of this chat came to, if it came before; maybe one of another chat, which it answered.
    ///
    /// # Errors
    /// [`DeliverError`] where the database cannot be read.
    pub fn seen_by(&self, chat: &str, message: &str) -> Result<Option<String>, DeliverError> {
        let store = &self.surface.store;
        if let Some(session) = store.seen_by(chat, message)? {
            return Ok(Some(session));
        }
        let id = id_across(chat, message);
        for other in self.surface.people.others(chat) {
            if let Some(session) = store.seen_by(other, &id)? {
                return Ok(Some(session));
            }
        }
        Ok(None)
    }
}

/// Ids are unique in their chat only. None has a blank in it.
fn id_across(chat: &str, message: &str) -> String {
    format!("{chat} {message}")
}
