//! What wakes a session, and where its words go.
//!
//! A door hands facts to the [`hub`](crate::hub) and shows what comes back. It decides nothing about the work.

/// Who follows a journal as it grows.
pub mod followers;
/// Connections and requests, each within limits.
pub mod front;
/// Who may write.
pub mod guests;
/// Programs that speak over HTTP.
pub mod http;
/// Who has several chats.
pub mod people;
/// The clock.
pub mod schedule;
/// The HTTP routes.
pub mod server;
/// What `chat` and `run` show.
pub mod terminal;
/// Webhooks in, Graph API out.
pub mod whatsapp;

use crate::agent::event::{Opening, Record};
use crate::agent::state::Outgoing;
use crate::world::model::Delta;
use followers::Followers;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use whatsapp::graph::Graph;
use whatsapp::sending::{Sending, Template};

/// Whether a chat is still there when a session has something to say by itself. A terminal's sessions wait for somebody to
/// be there again.
pub fn is_served(chat: &str) -> bool {
    !chat.starts_with("run:") && !chat.starts_with("terminal:")
}

const WHATSAPP: &str = "whatsapp:";

/// Whether people there send in several messages what they write in one elsewhere.
pub fn comes_in_pieces(chat: &str) -> bool {
    chat.starts_with(WHATSAPP)
}

/// Whether there is a person who may not know what this is.
pub fn greets(chat: &str) -> bool {
    chat.starts_with(WHATSAPP)
}

/// WhatsApp's window, less a minute for the way.
const WINDOW_MS: u64 = (24 * 60 - 1) * 60_000;
/// How soon it is looked again whether the person wrote.
pub const WINDOW_AGAIN_MS: u64 = 15 * 60_000;

/// Whether a channel takes no message now, since the person last wrote so long ago (`None`: never): how long to wait.
pub fn closed_until_heard(chat: &str, heard_ms_ago: Option<u64>) -> Option<u64> {
    let closed = heard_ms_ago.is_none_or(|ago| ago > WINDOW_MS);
    (chat.starts_with(WHATSAPP) && closed).then_some(WINDOW_AGAIN_MS)
}

/// Where messages go, by the chat's prefix.
pub struct Channels {
    pub whatsapp: Option<Graph>,
    pub sending: Sending,
}

impl Channels {
    /// Sends one message; the channel's ids of what it became.
    ///
    /// # Errors
    /// What the channel said, after its retries.
    pub async fn send(&self, chat: &str, outgoing: &Outgoing) -> Result<Vec<String>, Undelivered> {
        match chat.strip_prefix(WHATSAPP) {
            Some(number) => self.sending.send(self.graph()?, number, outgoing).await,
            // A terminal shows messages as they are recorded.
            None => Ok(Vec::new()),
        }
    }

    /// Marks a message as being worked on, until what answers it is sent. A courtesy that nobody waits for.
    pub fn show_work(&self, chat: &str, message: &str) {
        if let (Some(graph), Some(number)) = (&self.whatsapp, chat.strip_prefix(WHATSAPP)) {
            self.sending.marks.put(graph, number, message);
        }
    }

    /// What asks the person of a chat to write, where something may be sent that does.
    pub fn template(&self, chat: &str) -> Option<&Template> {
        let template = self.sending.template.as_ref();
        template.filter(|_| chat.starts_with(WHATSAPP))
    }

    /// Sends that; the channel's id of it. `about` is the workspace that there is news of.
    ///
    /// # Errors
    /// As [`Channels::send`].
    pub async fn invite(
        &self,
        chat: &str,
        template: &Template,
        about: &str,
    ) -> Result<String, Undelivered> {
        let number = chat.strip_prefix(WHATSAPP).unwrap_or(chat);
        let graph = self.graph()?;
        self.sending.invite(graph, number, template, about).await
    }

    fn graph(&self) -> Result<&Graph, Undelivered> {
        self.whatsapp.as_ref().ok_or_else(|| Undelivered {
            why: "WhatsApp is not configured".into(),
            transient: true,
            closed: false,
            wait_ms: None,
            ids: Vec::new(),
            parts: 0,
        })
    }
}

/// Why a message did not arrive, and whether it may later.
#[derive(Debug)]
pub struct Undelivered {
    pub why: String,
    pub transient: bool,
    /// Only once the person wrote again.
    pub closed: bool,
    /// The channel asked to wait so long.
    pub wait_ms: Option<u64>,
    /// How many of its parts have arrived.
    pub parts: usize,
    /// The channel's ids of those that arrived in this attempt.
    pub ids: Vec<String>,
}

/// What can be watched: every line of a journal, and an answer while it is being written.
#[derive(Debug, Clone)]
pub enum Seen {
    Recorded {
        session: String,
        chat: String,
        record: Arc<Record>,
    },
    Shown {
        session: String,
        delta: Delta,
    },
    /// The session cannot go on in this process.
    Stopped {
        session: String,
        why: String,
    },
}

/// Who watches. Costs nothing while nobody does.
#[derive(Clone, Default)]
pub struct Observers {
    watchers: Arc<Mutex<Vec<UnboundedSender<Seen>>>>,
    pub followers: Followers,
}

impl Observers {
    /// Everything from now on.
    pub fn watch(&self) -> UnboundedReceiver<Seen> {
        let (sender, receiver) = unbounded_channel();
        self.watchers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(sender);
        receiver
    }

    pub fn recorded(&self, opening: &Opening, record: &Record) {
        self.followers.tell(&opening.session, record.seq);
        self.tell(|| Seen::Recorded {
            session: opening.session.clone(),
            chat: opening.chat.clone(),
            record: Arc::new(record.clone()),
        });
    }

    pub fn shown(&self, opening: &Opening, delta: Delta) {
        self.tell(|| Seen::Shown {
            session: opening.session.clone(),
            delta: delta.clone(),
        });
    }

    pub fn stopped(&self, session: &str, why: &str) {
        self.tell(|| Seen::Stopped {
            session: session.to_owned(),
            why: why.to_owned(),
        });
    }

    fn tell(&self, seen: impl Fn() -> Seen) {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|watcher| watcher.send(seen()).is_ok());
    }
}
