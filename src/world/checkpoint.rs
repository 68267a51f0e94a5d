//! Performs what a session wants done with trees: keeps one, puts one back, shows what changed.
//!
//! A failure is data: the round goes on without a checkpoint, and the chat is told so.

use super::snapshot::{Order, Snapshots};
use super::workspace::Workspace;
use super::{Scene, World};
use crate::agent::event::{CheckpointTaken, Event, Moment, Restored, TreeId};
use tokio_util::sync::CancellationToken;

const NO_WORKSPACE: &str = "the workspace cannot be opened";

impl World {
    /// `/cancel` does not stop it: half an undo is worse than one that takes a second longer.
    fn snapshots(&self, session: &str, workspace: &Workspace) -> Snapshots {
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
            _ if order.swaps.is_empty() => failed("its checkpoint is not kept any more".into()),
            None => failed(NO_WORKSPACE.into()),
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
            (Some(snapshots), Some(start)) => match snapshots.diff(&start).await {
                Ok(text) => text,
                Err(error) => error.to_string(),
            },
        };
        Event::DiffShown {
            text: self.masks.apply(text),
        }
    }
}
