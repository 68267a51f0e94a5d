//! Which session of a chat a message goes to.
//!
//! Only a message that names no session may open one. What is said in the message is read, never changed, but for the command
//! that opens a session: what remains of it is the objective.

use super::{DeliverError, Hub, spoken};
use crate::agent::command::{self, ChatCommand, Said};
use crate::agent::event::{Inbound, OpenQuestion};
use crate::agent::state::State;
use crate::agent::wording;
use std::sync::Arc;

impl Hub {
    /// `/agent OBJECTIVE` opens a session, `/agent-resume ID` goes back to one; all else goes to the active one.
    pub(super) fn route(
        self: &Arc<Self>,
        chat: &str,
        mut message: Inbound,
    ) -> Result<(String, Inbound), DeliverError> {
        match command::read(&message.text) {
            Said::Command(ChatCommand::Start(objective)) if message.too_many.is_none() => {
                message.text = objective.to_owned();
                let session = self.open_known(chat, &message.from, Some(&message))?;
                return Ok((session, message));
            }
            // Somebody else's session is none at all.
            Said::Command(ChatCommand::Resume {
                id: Some(id),
                good_prefix,
            }) if self.surface.store.chat_of(id)?.as_deref() == Some(chat) => {
                if good_prefix {
                    self.agree_to_good_part(id, &message.from)?;
                }
                return Ok((id.to_owned(), message));
            }
            Said::Command(ChatCommand::Resume { id: None, .. }) => {
                if let Some(session) = self.surface.store.resumable(chat)? {
                    return Ok((session, message));
                }
            }
            // A button of an older question reaches the session that asked it.
            Said::Command(ChatCommand::Approve { code, .. } | ChatCommand::Deny { code, .. })
                if !code.is_empty() =>
            {
                if let Some(session) = self.asking_for(chat, code)? {
                    return Ok((session, message));
                }
                if let Some(elsewhere) = self.across(chat, code, &message)? {
                    return Ok(elsewhere);
                }
            }
            // So does a reaction to it, or a reply that quotes it.
            _ => {
                let about = message.about.as_deref();
                let asked = about.map(|id| self.surface.store.session_asked_in(chat, id));
                if let Some(session) = asked.transpose()?.flatten() {
                    return Ok((session, message));
                }
            }
        }
        let store = &self.surface.store;
        let asking = match command::answers_unnamed(&message) || spoken::may_answer(&message) {
            true => self.asking(chat)?,
            false => Vec::new(),
        };
        let session = match (store.active_session(chat)?, asking.first()) {
            // The one question of the chat, and the last that it heard: a schedule's, most of the time.
            (Some(active), Some(asking_one))
                if asking.len() == 1
                    && !spoken::may_answer(&message)
                    && store.is_later(asking_one, &active)? =>
            {
                asking_one.clone()
            }
            (Some(session), _) => session,
            (None, Some(session)) => session.clone(),
            (None, None) => self.open_known(chat, &message.from, Some(&message))?,
        };
        message.elsewhere = self.questions_of(asking.iter().filter(|other| **other != session));
        Ok((session, message))
    }

    /// What sessions wait for, from their journals. One that cannot be read waits for nobody's yes.
    fn questions_of<'a>(&self, sessions: impl Iterator<Item = &'a String>) -> Vec<OpenQuestion> {
        let states = sessions.filter_map(|session| self.peek(session).ok());
        let question = |state: State| {
            let (call, question) = state.question()?;
            Some(OpenQuestion {
                code: question.approval.clone(),
                what: wording::in_a_line(call),
            })
        };
        states.filter_map(question).collect()
    }
}
