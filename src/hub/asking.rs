//! Which sessions of a chat wait for a yes or no. The database knows those that sleep. One that it could not be told of is
//! awake until it could: there the journal is asked, or a yes would become the objective of a new session.

use super::{DeliverError, Hub};

impl Hub {
    /// The sessions of a chat that have a question open.
    pub(super) fn asking(&self, chat: &str) -> Result<Vec<String>, DeliverError> {
        let mut asking = self.surface.store.asking(chat)?;
        for (session, _) in self.awake_asking(chat)? {
            if !asking.contains(&session) {
                asking.push(session);
            }
        }
        Ok(asking)
    }

    /// The session of a chat whose open question has this code.
    pub(super) fn asking_for(
        &self,
        chat: &str,
        code: &str,
    ) -> Result<Option<String>, DeliverError> {
        if let Some(session) = self.surface.store.session_asking(chat, code)? {
            return Ok(Some(session));
        }
        let mut awake = self.awake_asking(chat)?.into_iter();
        let found = awake.find(|(_, open)| open.eq_ignore_ascii_case(code));
        Ok(found.map(|(session, _)| session))
    }

    /// Those of them that are awake, with the codes of their questions.
    fn awake_asking(&self, chat: &str) -> Result<Vec<(String, String)>, DeliverError> {
        let awake: Vec<String> = self.awake().keys().cloned().collect();
        let mut asking = Vec::new();
        for session in awake {
            if self.surface.store.chat_of(&session)?.as_deref() != Some(chat) {
                continue;
            }
            let Ok(state) = self.peek(&session) else {
                continue;
            };
            if let Some((_, question)) = state.question() {
                asking.push((session, question.approval.clone()));
            }
        }
        Ok(asking)
    }
}
