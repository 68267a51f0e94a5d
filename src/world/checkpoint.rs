//! Performs what a session wants done with trees: keeps one, puts one back, shows what changed.
//!
//! A failure is data: the round goes on without a checkpoint, and the chat is told so.

use super::snapshot::cleaning::{self, Kept, expired};
use super::snapshot::{Order, SnapshotError, Snapshots};
use super::workspace::Workspace;
use super::{Scene, World, open_workspace};
use crate::agent::event::{CheckpointTaken, Event, Moment, Restored, TreeId};
use std::iter;
use std::time::SystemTime;
use tokio_util::sync::CancellationToken;

const NO_WORKSPACE: &str = "the workspace cannot be opened";
const NOT_KEPT: &str = "its checkpoint is not kept any more";

impl World {
    /// `/cancel` does not stop it: half an undo is worse than one that takes a second longer.
    pub(super) fn snapshots(&self, session: &str, workspace: &Workspace) -> Snapshots {
        let processes = self.processes(workspace, CancellationToken::new());
        let (root, policy) = (workspace.root(), self.policy.clone());
        Snapshots::of(&self.data_dir, session, root, &processes, policy)
    }

    fn snapshots_in(&self, scene: &Scene) -> Option<Snapshots> {
        let workspace = scene.workspace.as_ref()?;
        Some(self.snapshots(&scene.session, workspace))
    }

    /// The state of the workspace in one id, equal where nothing changed: what tells work from a loop.
    pub(super) async fn tree(&self, session: &str, workspace: &Workspace) -> Option<String> {
        let tree = self.snapshots(session, workspace).tree().await;
        tree.map(|tree| tree.0)
    }

    /// A tree that is the last one again needs no name of its own.
    pub(super) async fn checkpoint(
        &self,
        number: u64,
        moment: Moment,
        last: Option<TreeId>,
        drop: Vec<u64>,
        scene: &Scene,
    ) -> Event {
        let mut taken = CheckpointTaken {
            number,
            moment,
            tree: None,
            left_out: Default::default(),
            dropped: Vec::new(),
            error: None,
        };
        let Some(snapshots) = self.snapshots_in(scene) else {
            taken.error = Some(NO_WORKSPACE.into());
            return Event::Checkpoint(taken);
        };
        let made = match snapshots.take().await {
            Ok(snapshot) if last.as_ref() == Some(&snapshot.tree) => {
                taken.number = number - 1;
                Ok(snapshot)
            }
            Ok(snapshot) => {
                let kept = snapshots.keep(number, &snapshot.tree, &drop).await;
                taken.dropped = drop;
                kept.map(|()| snapshot)
            }
            Err(error) => Err(error),
        };
        match made {
            Ok(snapshot) => {
                taken.tree = Some(snapshot.tree);
                taken.left_out = snapshot.left_out;
            }
            Err(error) => {
                taken.dropped.clear();
                taken.error = Some(error.to_string());
            }
        }
        Event::Checkpoint(taken)
    }

    pub(super) async fn put_back(&self, order: Order, scene: &Scene) -> Event {
        let failed = |why: String| Restored::Failed { why };
        let restored = match self.snapshots_in(scene) {
            _ if order.swaps.is_empty() => failed(NOT_KEPT.into()),
            None => failed(NO_WORKSPACE.into()),
            Some(snapshots) if !kept(&snapshots, order.trees()).await => failed(NOT_KEPT.into()),
            Some(snapshots) => match snapshots.put_back(&order).await {
                Ok(restored) => restored,
                Err(error) => failed(error.to_string()),
            },
        };
        Event::PutBack { restored }
    }

    pub(super) async fn diff(&self, start: Option<TreeId>, scene: &Scene) -> Event {
        let text = match (self.snapshots_in(scene), start) {
            (_, None) => String::new(),
            (None, _) => NO_WORKSPACE.to_owned(),
            (Some(snapshots), Some(start)) if !kept(&snapshots, iter::once(&start)).await => {
                NOT_KEPT.to_owned()
            }
            (Some(snapshots), Some(start)) => match snapshots.diff(&start).await {
                Ok(text) => text,
                Err(error) => error.to_string(),
            },
        };
        Event::DiffShown {
            text: self.masks.apply(text),
        }
    }

    /// Takes checkpoints away that are over their limits, of sessions that have nothing left to do.
    pub async fn forget_checkpoints(&self, is_over: impl Fn(&str) -> bool) {
        let limits = &self.policy.limits;
        for kept in expired(&self.data_dir, limits, SystemTime::now(), is_over) {
            match self.forget_kept(&kept).await {
                Ok(()) => tracing::info!(session = kept.session, "its checkpoints are taken away"),
                Err(error) => tracing::warn!(session = kept.session, %error, "checkpoints left"),
            }
        }
    }

    async fn forget_kept(&self, kept: &Kept) -> Result<(), SnapshotError> {
        let workspace = kept
            .root
            .as_deref()
            .and_then(|root| open_workspace(root).ok());
        match workspace {
            Some(workspace) => self.snapshots(&kept.session, &workspace).forget_all().await,
            // With the workspace its repository is gone, and the names in it.
            None => cleaning::remove(&kept.folder),
        }
    }
}

/// In doubt they are: what is wrong is said by what comes next.
async fn kept(snapshots: &Snapshots, trees: impl Iterator<Item = &TreeId>) -> bool {
    snapshots.are_kept(trees).await.unwrap_or(true)
}
