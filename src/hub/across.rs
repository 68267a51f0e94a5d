//! An answer that somebody gives in another of their chats than the one where the question stands (`[people]` in the
//! settings). It names the question by its code: a bare yes is about the chat that it is said in.

use super::{DeliverError, Hub};
use crate::agent::command::{self, ChatCommand, Said};
use crate::agent::event::{Inbound, Via};
use crate::doors;
use std::sync::Arc;

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

    /// Tells who answered where they answered: what becomes of it is told in the chat of the question. A courtesy, said once
    /// the answer is on disk. Called with the chat's lane held.
    pub(super) fn confirm(self: &Arc<Self>, chat: &str, answer: &Inbound) {
        let said = command::read(&answer.text);
        let Said::Command(ChatCommand::Approve { code, .. } | ChatCommand::Deny { code, .. }) =
            said
        else {
            return;
        };
        // A program reads it in the answer to its request.
        if !doors::greets(chat) {
            return;
        }
        let code = code.to_ascii_uppercase();
        let text = self.texts_for(chat).say("passed_on", &[("code", &code)]);
        let told = || -> Result<(), DeliverError> {
            let session = match self.surface.store.active_session(chat)? {
                Some(session) => session,
                None => self.open_known(chat, &answer.from, None)?,
            };
            let notice = Inbound {
                via: Via::Notice,
                order: self.surface.store.next_order(chat)?,
                ..Inbound::text(format!("{} passed on", answer.id), &answer.from, text)
            };
            self.hand_over(&session, notice).map(drop)
        };
        if let Err(error) = told() {
            tracing::warn!(%error, "who answered from another chat is not told there");
        }
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
pub(super) fn id_across(chat: &str, message: &str) -> String {
    format!("{chat} {message}")
}
