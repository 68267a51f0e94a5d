//! Ctrl-C and SIGTERM, for whoever stays with a session: one that comes while nobody waits for it is there at the next look.

use super::CliError;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Mutex;

/// What this program is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Ctrl-C: the turn is to stop.
    Stop,
    /// SIGTERM: the session is left at its next safe point, and can be resumed.
    Leave,
}

/// Both, from the moment on in which it was made.
pub struct Signals(Mutex<Streams>);

struct Streams {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// For within the runtime.
    ///
    /// # Errors
    /// The kernel refuses to tell of signals.
    pub fn listen() -> Result<Self, CliError> {
        let listen = |kind| {
            signal(kind).map_err(|error| CliError::Failed(format!("listen for signals: {error}")))
        };
        let streams = Streams {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        };
        Ok(Self(Mutex::new(streams)))
    }

    /// The next one. Dropped before it is done, it takes none away.
    pub async fn next(&self) -> Wish {
        let mut streams = self.0.lock().await;
        let Streams {
            interrupt,
            terminate,
        } = &mut *streams;
        tokio::select! {
            biased;
            _ = terminate.recv() => Wish::Leave,
            _ = interrupt.recv() => Wish::Stop,
        }
    }

    /// The next Ctrl-C; a SIGTERM meanwhile waits for whoever looks for both.
    pub async fn stop(&self) {
        let mut streams = self.0.lock().await;
        streams.interrupt.recv().await;
    }
}
