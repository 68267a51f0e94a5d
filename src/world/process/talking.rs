//! A process that is spoken with over its standard streams, such as an MCP server. It starts nothing.

use super::running::Begun;
use crate::world::spool::Stream;
use std::time::Duration;
use tokio::process::{ChildStdin, ChildStdout};
use tokio_util::sync::CancellationToken;

/// From the end of its input until it is told to end.
const LEAVE_GRACE: Duration = Duration::from_secs(2);

/// Ended when this is dropped, with all that it started.
pub struct Talk {
    /// Ours until they are taken.
    pub streams: Option<(ChildStdout, ChildStdin)>,
    begun: Begun,
}

impl Talk {
    pub(super) fn of(mut begun: Begun) -> Result<Self, String> {
        let child = &mut begun.kept.child;
        let streams = child.stdout.take().zip(child.stdin.take());
        match streams {
            Some(streams) => Ok(Self {
                streams: Some(streams),
                begun,
            }),
            None => Err("it has no standard streams".into()),
        }
    }

    /// What it complained about, the last of it.
    pub fn complaints(&self) -> String {
        self.begun.spool.capture(Stream::Stderr).text()
    }

    /// Lets it leave by itself, its input having ended, and ends it soon after.
    pub async fn leave(mut self) {
        drop(self.streams.take());
        let told = CancellationToken::new();
        let late = told.clone();
        let finish = self.begun.finish(&told, None);
        tokio::pin!(finish);
        tokio::select! {
            _ = &mut finish => return,
            () = tokio::time::sleep(LEAVE_GRACE) => late.cancel(),
        }
        finish.await;
    }
}
