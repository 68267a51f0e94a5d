//! A spoken message that may be a yes or no. What is in it is known only once it was heard, and that takes longer than a
//! webhook may wait; so where the chat's question is not in the session that the person used last, it comes to both: here for
//! its yes or no, there for all else.

use super::{DeliverError, Hub, acknowledged};
use crate::agent::event::{Inbound, MediaKind, Spoken};
use std::sync::Arc;

/// Whether only hearing it tells, and it names no question.
pub(super) fn may_answer(message: &Inbound) -> bool {
    let kind = message.media.as_ref().map(|media| media.kind);
    kind == Some(MediaKind::Audio) && message.about.is_none()
}

impl Hub {
    /// The session that a typed yes would go to, where that is not the one that the message goes to.
    pub(super) fn spoken_answer_for(
        &self,
        chat: &str,
        session: &str,
        message: &Inbound,
    ) -> Result<Option<String>, DeliverError> {
        if !may_answer(message) {
            return Ok(None);
        }
        let asking = self.asking(chat)?;
        match &asking[..] {
            [one] if one != session && self.surface.store.is_later(one, session)? => {
                Ok(Some(one.clone()))
            }
            _ => Ok(None),
        }
    }

    /// Brings it there for its yes or no; `false` where that cannot be. However often: it is known by its id. It has no
    /// place in the chat's order: what the person used last stays that.
    pub(super) async fn hear_there(self: &Arc<Self>, asking: &str, message: &Inbound) -> bool {
        let copy = Inbound {
            id: format!("{} spoken", message.id),
            order: 0,
            elsewhere: Vec::new(),
            spoken: Some(Spoken::ForAnswer),
            ..message.clone()
        };
        let there = match self.hand_over(asking, copy) {
            Ok(answer) => acknowledged(answer, asking.to_owned()).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &there {
            tracing::warn!(session = asking, %error, "a spoken message is heard in the last session only");
        }
        there.is_ok()
    }
}
