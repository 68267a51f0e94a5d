//! What a call wants of a session that it begins, and what comes of it. The hub begins it: this is how a call reaches the hub.

use super::Waits;
use crate::agent::children::Share;
use crate::agent::event::{CallId, EndReason, Opening, WorkspaceRef};
use crate::agent::money::Spend;
use crate::agent::roles::Role;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;

/// A child session, as it is wanted.
pub struct Wanted {
    pub parent: Arc<Opening>,
    /// The call that it is for.
    pub about: String,
    /// Its id.
    pub session: String,
    pub name: String,
    pub objective: String,
    pub place: Place,
    pub role: Role,
    pub share: Share,
    pub cancel: CancellationToken,
    /// Is told whether it waits for a person.
    pub waits: Box<dyn Fn(bool) + Send + Sync>,
}

/// What is said of the session that a call begins.
pub fn waits_of(waits: &Waits, call: &CallId) -> Box<dyn Fn(bool) + Send + Sync> {
    let (waits, call) = (waits.clone(), call.clone());
    Box::new(move |does| waits(&call, does))
}

/// Where it works.
pub enum Place {
    /// In a room with nothing but these to read.
    Sources {
        room: WorkspaceRef,
        sources: Vec<WorkspaceRef>,
    },
    /// In this folder as it is: it only reads.
    Shared(WorkspaceRef),
    /// In a worktree of its own of this folder of the person's.
    Worktree(WorkspaceRef),
}

/// What became of it.
#[derive(Debug, Clone)]
pub struct Ended {
    pub session: String,
    /// `None`: its turn has not ended.
    pub reason: Option<EndReason>,
    /// Its answer, or why there is none.
    pub text: String,
    pub spend: Spend,
}

/// A child at work.
pub type Working = Pin<Box<dyn Future<Output = Ended> + Send>>;
/// The end of a child; `None` where there is none.
pub type Ending = Pin<Box<dyn Future<Output = Option<Ended>> + Send>>;

/// How the hub is reached.
pub struct Reached {
    pub begin: Box<dyn Fn(Wanted) -> Working + Send + Sync>,
    pub end: Box<dyn Fn(String) -> Ending + Send + Sync>,
}

/// Begins and ends child sessions, once there is a hub.
#[derive(Default)]
pub struct Children(OnceLock<Reached>);

impl Children {
    /// Says who begins and ends them; the first one counts.
    pub fn are_kept_by(&self, hub: Reached) {
        let _ = self.0.set(hub);
    }

    /// Begins one, or goes on with it; ready when its turn has ended.
    pub async fn begin(&self, wanted: Wanted) -> Ended {
        match self.0.get() {
            Some(hub) => (hub.begin)(wanted).await,
            None => Ended {
                session: wanted.session,
                reason: None,
                text: "sessions cannot be begun here".into(),
                spend: Spend::default(),
            },
        }
    }

    /// Ends one that an earlier process began; `None` where it never did.
    pub async fn end(&self, session: String) -> Option<Ended> {
        (self.0.get()?.end)(session).await
    }
}
