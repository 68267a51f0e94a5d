//! What is done from time to time while a server runs: sessions that have something to do by the clock are woken, and what
//! nobody will ask for any more is taken away.

use super::Hub;
use crate::world::clock;
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked for sleeping sessions whose question expired or whose message is to be tried again.
const SWEEP: Duration = Duration::from_secs(30);
/// Every how many times ends of background processes are swept as well: 5 minutes.
const OUTPUTS_SWEEP: u64 = 10;
/// Every how many times old checkpoints are: an hour, and soon after the start.
const CHECKPOINTS_SWEEP: u64 = 120;

impl Hub {
    /// Wakes sessions that have something to do by the clock, or that a failing disk stopped. Runs until shutdown.
    pub async fn sweep(self: Arc<Self>) {
        for times in 1_u64.. {
            tokio::select! {
                () = self.surface.shutdown.cancelled() => return,
                () = tokio::time::sleep(SWEEP) => {}
            }
            if times.is_multiple_of(OUTPUTS_SWEEP) {
                self.surface.world.sweep();
            }
            if times % CHECKPOINTS_SWEEP == 1 {
                self.forget_checkpoints().await;
            }
            self.revive().await;
            let due = self.surface.store.due(clock::now().0);
            for (session, chat) in due.unwrap_or_default() {
                let _lane = self.lane(&chat).lock().await;
                if let Err(error) = self.wake(&session) {
                    tracing::error!(%session, %error, "due session left asleep");
                }
            }
        }
    }

    /// Takes away checkpoints that are over their limits. Without an answer of the database, all are needed.
    pub async fn forget_checkpoints(&self) {
        let Ok(over) = self.surface.store.over() else {
            return;
        };
        let is_over = |session: &str| over.contains(session) && !self.awake().contains_key(session);
        self.surface.world.forget_checkpoints(is_over).await;
    }
}
