//! One server of one workspace: connected when it is needed, tried again with growing pauses, ended when nobody needs it.

use super::client::Client;
use super::config::Config;
use crate::agent::limits::Limits;
use crate::world::process::Processes;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The first pause after a failure; it doubles with each one.
const BACKOFF_MIN: Duration = Duration::from_millis(500);
const DOUBLINGS_MAX: u32 = 10;

pub struct Slot {
    pub config: Config,
    processes: Processes,
    root: PathBuf,
    limits: Limits,
    live: Mutex<Live>,
}

#[derive(Default)]
struct Live {
    client: Option<Arc<Client>>,
    /// In a row.
    failures: u32,
    last_error: String,
    not_before: Option<Instant>,
    used: Option<Instant>,
}

impl Slot {
    pub fn new(config: Config, processes: Processes, root: PathBuf, limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            config,
            processes,
            root,
            limits,
            live: Mutex::default(),
        })
    }

    /// A connection, made if there is none.
    ///
    /// # Errors
    /// Why there is none now. After a failure that is not long ago nothing is tried.
    pub async fn client(self: &Arc<Self>) -> Result<Arc<Client>, String> {
        let mut live = self.live.lock().await;
        if let Some(client) = live.client.take() {
            if !client.is_closed() {
                live.client = Some(client.clone());
                live.used = Some(Instant::now());
                return Ok(client);
            }
            let why = format!("it ended{}", client.complaint());
            self.failed(&mut live, why);
        }
        let now = Instant::now();
        if let Some(wait) = live
            .not_before
            .and_then(|at| at.checked_duration_since(now))
        {
            // Short enough for whoever waits for an offer.
            if wait > Duration::from_secs(self.limits.mcp_offer_seconds) {
                return Err(format!(
                    "{} (failed {} times, tried again in {} s)",
                    live.last_error,
                    live.failures,
                    wait.as_secs()
                ));
            }
            tokio::time::sleep(wait).await;
        }
        let limit = Duration::from_secs(self.limits.mcp_connect_seconds);
        let bytes_max = self.limits.mcp_message_bytes_max;
        let connecting = Client::connect(&self.config, &self.processes, &self.root, bytes_max);
        let connected = tokio::time::timeout(limit, connecting).await;
        let late = |_| Err(format!("it did not connect within {} s", limit.as_secs()));
        match connected.unwrap_or_else(late) {
            Ok(client) => {
                let client = Arc::new(client);
                live.client = Some(client.clone());
                live.used = Some(Instant::now());
                tokio::spawn(end_when_idle(
                    Arc::downgrade(self),
                    Duration::from_secs(self.limits.mcp_idle_seconds),
                ));
                Ok(client)
            }
            Err(why) => {
                self.failed(&mut live, why.clone());
                Err(why)
            }
        }
    }

    /// The connection that there is, where nobody is making one.
    pub fn connected(&self) -> Option<Arc<Client>> {
        let live = self.live.try_lock().ok()?;
        live.client.clone().filter(|client| !client.is_closed())
    }

    /// Nobody uses it, it is not connected, and nothing speaks against trying that.
    pub fn is_forgettable(self: &Arc<Self>) -> bool {
        let is_unused = Arc::strong_count(self) == 1;
        let may_try = |live: &Live| live.not_before.is_none_or(|at| at <= Instant::now());
        let rests = |live: &Live| live.client.is_none() && may_try(live);
        is_unused && self.live.try_lock().is_ok_and(|live| rests(&live))
    }

    /// It did what it was asked to.
    pub async fn worked(&self) {
        let mut live = self.live.lock().await;
        live.failures = 0;
        live.used = Some(Instant::now());
    }

    /// Ends the connection: nobody knows what it still does. That is no failure of its own.
    pub async fn end(&self) {
        let client = self.live.lock().await.client.take();
        if let Some(client) = client.and_then(Arc::into_inner) {
            client.close().await;
        }
    }

    fn failed(&self, live: &mut Live, why: String) {
        let most = Duration::from_secs(self.limits.mcp_backoff_seconds_max);
        let pause = BACKOFF_MIN * 2_u32.pow(live.failures.min(DOUBLINGS_MAX));
        live.failures = live.failures.saturating_add(1);
        live.not_before = Instant::now().checked_add(pause.min(most));
        live.last_error = why;
    }
}

/// Whoever uses the connection at the end of the time keeps it.
async fn end_when_idle(slot: Weak<Slot>, idle: Duration) {
    loop {
        tokio::time::sleep(idle).await;
        let Some(slot) = slot.upgrade() else { return };
        let mut live = slot.live.lock().await;
        let is_idle = live.used.is_none_or(|used| used.elapsed() >= idle);
        let Some(client) = live.client.take() else {
            return;
        };
        if !is_idle {
            live.client = Some(client);
            continue;
        }
        match Arc::try_unwrap(client) {
            Ok(client) => {
                drop(live);
                client.close().await;
                return;
            }
            Err(in_use) => live.client = Some(in_use),
        }
    }
}
