//! Commands that an earlier server left, and what commands leave behind in the data folder.

use super::outputs::Outputs;
use super::{Scene, World, process};
use crate::agent::event::{Call, CallId, Event, Outcome, Status};
use crate::tools;

impl World {
    /// Takes the result of a tool that an earlier process started, once its keeper has it; ends the session that one began.
    pub(super) async fn await_tool(&self, call: &Call, scene: &Scene) -> Event {
        let outcome = match self.reach(scene, None) {
            Some(reach) if tools::delegates(call) => tools::end_delegated(call, &reach).await,
            Some(reach) => tools::await_kept(call, &reach).await,
            None => Outcome::new(Status::Unknown, "The workspace cannot be opened."),
        };
        self.finished(call.id.clone(), outcome, scene)
    }

    /// Does what commands of an earlier server left to do after them, now or when they end. For the start, within the
    /// runtime.
    pub fn settle_left(&self) {
        if let Some(projects) = self.projects.clone() {
            tokio::task::spawn_blocking(move || projects.sweep());
        }
        for outputs in Outputs::all(&self.data_dir) {
            for call in outputs.unsettled() {
                let outputs = outputs.clone();
                tokio::spawn(async move {
                    if let Ok(spool) = outputs.spool(&call) {
                        process::ended(&spool).await;
                    }
                    let settle = move || process::settle_left(&outputs, &call);
                    if let Ok(Some(remark)) = tokio::task::spawn_blocking(settle).await {
                        tracing::warn!(remark, "a command of an earlier server ended");
                    }
                });
            }
        }
    }

    /// Removes outputs that nobody will ask for any more.
    pub fn sweep(&self) {
        for outputs in Outputs::all(&self.data_dir) {
            outputs.sweep();
        }
    }

    /// The journal has the result of a call: its raw output is needed no more.
    pub fn forget(&self, session: &str, call: &CallId) {
        Outputs::of(&self.data_dir, session).forget(call);
    }

    /// What a crash left behind of calls that have their result.
    pub fn forget_others(&self, session: &str, pending: impl Fn(&CallId) -> bool) {
        let outputs = Outputs::of(&self.data_dir, session);
        for (call, _) in outputs.spooled() {
            if !pending(&call) {
                outputs.forget(&call);
            }
        }
    }
}
