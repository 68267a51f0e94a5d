//! Which sessions are awake: one actor a session, its inbox, and how it goes to sleep.
//!
//! This is all that the hub knows by itself, and losing it loses nothing: every journal can be woken again.

use super::{DeliverError, Delivered, Hub};
use crate::agent::event::{Inbound, Record};
use crate::agent::state::State;
use crate::session::{Delivery, Session};
use crate::world::journal::Journal;
use futures_util::FutureExt;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, MutexGuard, PoisonError};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

/// Facts that may wait for one session; a sender beyond that is told that it is busy.
pub(super) const INBOX_MAX: usize = 256;

impl Hub {
    pub(super) fn hand_over(
        self: &Arc<Self>,
        session: &str,
        message: Inbound,
    ) -> Result<oneshot::Receiver<Result<Option<u64>, String>>, DeliverError> {
        if self.surface.shutdown.is_cancelled() {
            return Err(DeliverError::ShuttingDown);
        }
        let (ack, answer) = oneshot::channel();
        let delivery = Delivery {
            message,
            ack,
            index_first: true,
        };
        {
            // Under the same lock that a session parks under, so that no message is left with a sleeper.
            let awake = self.awake();
            if let Some(inbox) = awake.get(session) {
                inbox.try_send(delivery).map_err(|refused| match refused {
                    TrySendError::Full(_) => DeliverError::Busy,
                    TrySendError::Closed(_) => DeliverError::ShuttingDown,
                })?;
                return Ok(answer);
            }
        }
        let (state, journal) = self.load(session)?;
        self.spawn(state, journal, Vec::new(), Some(delivery))?;
        Ok(answer)
    }

    /// Makes sure that a session runs. Called with its chat's lane held, or before anything else runs.
    pub(super) fn wake(self: &Arc<Self>, session: &str) -> Result<(), DeliverError> {
        if self.surface.shutdown.is_cancelled() {
            return Err(DeliverError::ShuttingDown);
        }
        if self.awake().contains_key(session) {
            return Ok(());
        }
        let (state, journal) = self.load(session)?;
        self.spawn(state, journal, Vec::new(), None)
    }

    /// Starts the actor, its first message already in the inbox. Called with the chat's lane held: one actor a session.
    pub(super) fn spawn(
        self: &Arc<Self>,
        state: State,
        journal: Journal,
        unprojected: Vec<Record>,
        first: Option<Delivery>,
    ) -> Result<(), DeliverError> {
        let id = state.opening.session.clone();
        let surface = self.surface.clone();
        let mut session = Session::new(state, journal, unprojected, surface);
        let (sender, mut inbox) = mpsc::channel(INBOX_MAX);
        if let Some(first) = first {
            sender.try_send(first).map_err(|_| DeliverError::Busy)?;
        }
        self.awake().insert(id.clone(), sender);
        let hub = self.clone();
        self.tasks.spawn(async move {
            let run = session.run(&mut inbox, |inbox| hub.park(&id, inbox));
            let why = match AssertUnwindSafe(run).catch_unwind().await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => hub.note_end(&id, Some(&error)),
                Err(_) => hub.note_end(&id, None),
            };
            // What it ran ends with it, before another takes its place.
            drop(session);
            // One that parked took itself out, and another may be awake in its place by now.
            hub.awake().remove(&id);
            // Everything up to the last complete line stands; the next message tries again from there.
            tracing::error!(session = %id, error = why, "session stopped");
            hub.surface.observers.stopped(&id, &why);
        });
        Ok(())
    }

    /// Lets a session go to sleep, unless a message is on its way to it.
    fn park(&self, session: &str, inbox: &mpsc::Receiver<Delivery>) -> bool {
        let mut awake = self.awake();
        let idle = inbox.is_empty();
        if idle {
            awake.remove(session);
        }
        idle
    }

    pub(super) fn awake(&self) -> MutexGuard<'_, HashMap<String, mpsc::Sender<Delivery>>> {
        // Nothing that can panic happens under this lock.
        self.awake.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) async fn acknowledged(
    answer: oneshot::Receiver<Result<Option<u64>, String>>,
    session: String,
) -> Result<Delivered, DeliverError> {
    match answer.await {
        Ok(Ok(seq)) => Ok(Delivered {
            session,
            fresh: seq.is_some(),
            seq,
        }),
        Ok(Err(text)) => Err(DeliverError::Session(text)),
        Err(_) => Err(DeliverError::Session(
            "the session stopped before it took the message; see the log".into(),
        )),
    }
}
