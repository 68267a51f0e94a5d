//! Brings the news that a message of ours did not arrive to the session that sent it.

use super::{DeliverError, Hub, acknowledged};
use crate::agent::event::{Inbound, NotDelivered, Via};
use crate::world::journal::JournalError;
use std::sync::Arc;

impl Hub {
    /// A channel did not deliver the message `id`; returns when that is on disk. It may tell so any number of times.
    ///
    /// # Errors
    /// [`DeliverError`]: then nothing was taken.
    pub async fn not_delivered(
        self: &Arc<Self>,
        chat: &str,
        id: &str,
        failure: NotDelivered,
    ) -> Result<(), DeliverError> {
        let _lane = self.lane(chat).lock().await;
        let store = &self.surface.store;
        let key = format!("{id} not delivered");
        if store.has_seen(chat, &key)? {
            return Ok(());
        }
        // Not known by its id: sent before the database was made anew, or this very moment.
        let session = match store.seen_by(chat, id)? {
            Some(session) => Some(session),
            None => store.active_session(chat)?,
        };
        let Some(session) = session else {
            tracing::warn!(
                code = failure.code,
                "a message that no session sent was not delivered"
            );
            return Ok(());
        };
        tracing::warn!(%session, code = failure.code, title = failure.title, "a message was not delivered");
        let message = Inbound {
            via: Via::Notice,
            about: Some(id.to_owned()),
            undelivered: Some(failure),
            ..Inbound::text(key, "channel", "")
        };
        match self.hand_over(&session, message) {
            // Its chat is told of that, and nobody will read this.
            Err(DeliverError::Journal(JournalError::Damaged { .. })) => Ok(()),
            answer => acknowledged(answer?, session).await.map(drop),
        }
    }
}
