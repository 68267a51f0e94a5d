//! Sessions that a session begins: made once, followed to the end of their turn, stopped with the call that wants them.
//!
//! A child is a session like any other: what it does is in its own journal, and a child that is there already is gone on
//! with, so that nothing of it happens twice.

use super::{BegunBy, DeliverError, Hub, Site};
use crate::agent::children::Child;
use crate::agent::event::{EndReason, Event, Inbound, Via};
use crate::agent::money::Spend;
use crate::doors::Seen;
use crate::world::children::{Ended, Place, Wanted, Working};
use crate::world::clock;
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

/// How long a child that was told to stop may take for it.
const STOP_WITHIN: Duration = Duration::from_secs(20);

/// How a turn ended, and what was said.
type End = (EndReason, String);

impl Hub {
    /// Lets calls begin sessions here.
    pub(super) fn begin_children(self: &Arc<Self>) {
        let hub = Arc::downgrade(self);
        let begin = move |wanted: Wanted| -> Working {
            let hub = hub.clone();
            Box::pin(async move {
                match hub.upgrade() {
                    Some(hub) => hub.child(wanted).await,
                    None => std::future::pending().await, // the program ends
                }
            })
        };
        let children = &self.surface.world.inquiries.children;
        children.are_begun_by(Box::new(begin));
    }

    async fn child(self: Arc<Self>, wanted: Wanted) -> Ended {
        let session = wanted.session.clone();
        let cancel = wanted.cancel.clone();
        let owner = wanted.parent.owner.clone();
        let mut seen = self.surface.observers.watch();
        if let Err(error) = self.begin_child(wanted).await {
            return Ended {
                session,
                reason: None,
                text: error.to_string(),
                spend: Spend::default(),
            };
        }
        let end = tokio::select! {
            end = turn_end(&session, &mut seen) => end,
            () = cancel.cancelled() => self.stop_child(&session, &owner, &mut seen).await,
        };
        let spend = self.peek(&session).map(|state| state.spend);
        let (reason, text) = match end {
            Ok((reason, text)) => (Some(reason), text),
            Err(why) => (None, why),
        };
        Ended {
            session,
            reason,
            text,
            spend: spend.unwrap_or_default(),
        }
    }

    async fn begin_child(self: &Arc<Self>, wanted: Wanted) -> Result<(), DeliverError> {
        let parent = wanted.parent;
        let chat = parent.chat.clone();
        let _lane = self.lane(&chat).lock().await;
        let path = self.path(&wanted.session);
        let message = Inbound {
            via: Via::Flag,
            ..Inbound::text(
                format!("{}:objective", wanted.session),
                parent.owner.clone(),
                wanted.objective,
            )
        };
        if !path.is_file() {
            // Its name is foreseeable: one that died while it was born must not stand in the way.
            let _ = fs::remove_file(path.with_extension("unborn"));
            let Place::Sources { room, sources } = wanted.place;
            let site = Site {
                workspace: room,
                sources,
            };
            let child = Child {
                parent: parent.session.clone(),
                about: wanted.about,
                name: wanted.name,
                share: wanted.share,
                role: Box::new(wanted.role),
            };
            let begun = BegunBy::Session {
                child: Box::new(child),
                language: parent.language,
            };
            let session = wanted.session.clone();
            let opened = self.open_session_as(session, &chat, &parent.owner, None, site, begun);
            self.known(opened?)?;
        }
        let answer = self.hand_over(&wanted.session, message)?;
        super::acknowledged(answer, wanted.session).await.map(drop)
    }

    /// Tells it to stop, and waits until it has: what runs in it ends before the call that wanted it.
    async fn stop_child(
        self: &Arc<Self>,
        session: &str,
        owner: &str,
        seen: &mut UnboundedReceiver<Seen>,
    ) -> Result<End, String> {
        let message = Inbound {
            via: Via::Flag,
            ..Inbound::text(clock::message_id(), owner, "/cancel")
        };
        let told = self.deliver_to_child(session, message).await;
        told.map_err(|error| error.to_string())?;
        let ended = tokio::time::timeout(STOP_WITHIN, turn_end(session, seen)).await;
        ended.unwrap_or_else(|_| Err("it was told to stop, and has not yet".into()))
    }

    /// Its place among the messages of the chat stays none: it is never the active session.
    async fn deliver_to_child(
        self: &Arc<Self>,
        session: &str,
        message: Inbound,
    ) -> Result<(), DeliverError> {
        let chat = self.chat_of(session)?;
        let _lane = self.lane(&chat).lock().await;
        let answer = self.hand_over(session, message)?;
        super::acknowledged(answer, session.to_owned())
            .await
            .map(drop)
    }
}

/// Waits for the end of a session's turn.
async fn turn_end(session: &str, seen: &mut UnboundedReceiver<Seen>) -> Result<End, String> {
    loop {
        match seen.recv().await {
            Some(Seen::Recorded {
                session: of,
                record,
                ..
            }) if of == session => {
                if let Event::TurnEnded { reason, text } = &record.event {
                    return Ok((*reason, text.clone()));
                }
            }
            Some(Seen::Stopped { session: of, why }) if of == session => return Err(why),
            Some(_) => {}
            None => return Err("the session went away".into()),
        }
    }
}
