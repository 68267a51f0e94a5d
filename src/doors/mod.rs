//! What wakes a session, and where its words go.
//!
//! A door hands facts to the [`hub`](crate::hub) and shows what comes back. It decides nothing about the work.

/// The clock.
pub mod schedule;
/// The HTTP routes.
pub mod server;
/// What `chat` and `run` show.
pub mod terminal;
/// Webhooks in, Graph API out.
pub mod whatsapp;

use crate::agent::event::{Opening, OutgoingKind, Record};
use crate::agent::state::Outgoing;
use crate::world::model::Delta;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use whatsapp::graph::{Graph, GraphError};
use whatsapp::text;

/// Whether a chat is still there when a session has something to say by itself. A terminal's sessions wait for somebody to
/// be there again.
pub fn is_served(chat: &str) -> bool {
    !chat.starts_with("run:") && !chat.starts_with("terminal:")
}

/// WhatsApp's window, less a minute for the way.
const WINDOW_MS: u64 = (24 * 60 - 1) * 60_000;
/// How soon it is looked again whether the person wrote.
const WINDOW_AGAIN_MS: u64 = 15 * 60_000;

/// Whether a channel takes no message now, since the person last wrote so long ago (`None`: never): how long to wait.
pub fn closed_until_heard(chat: &str, heard_ms_ago: Option<u64>) -> Option<u64> {
    let closed = heard_ms_ago.is_none_or(|ago| ago > WINDOW_MS);
    (chat.starts_with("whatsapp:") && closed).then_some(WINDOW_AGAIN_MS)
}

/// Where messages go, by the chat's prefix.
#[derive(Default)]
pub struct Channels {
    pub whatsapp: Option<Graph>,
}

impl Channels {
    /// Sends one message; the channel's ids of what it became.
    ///
    /// # Errors
    /// What the channel said, after its retries.
    pub async fn send(&self, chat: &str, outgoing: &Outgoing) -> Result<Vec<String>, Undelivered> {
        let Some(number) = chat.strip_prefix("whatsapp:") else {
            // A terminal shows messages as they are recorded.
            return Ok(Vec::new());
        };
        let Some(graph) = &self.whatsapp else {
            let why = "WhatsApp is not configured".into();
            return Err(Undelivered {
                why,
                transient: true,
            });
        };
        let sent = match (outgoing.kind, &outgoing.approval) {
            (OutgoingKind::Question, Some(code)) => {
                send_question(graph, number, outgoing, code).await
            }
            _ => send_texts(graph, number, &text::messages(&outgoing.text)).await,
        };
        sent.map_err(|error| Undelivered {
            transient: is_transient(&error),
            why: error.to_string(),
        })
    }
}

/// Why a message did not arrive, and whether it may later.
#[derive(Debug)]
pub struct Undelivered {
    pub why: String,
    pub transient: bool,
}

/// A message in doubt counts too: one that arrives twice is better than one that never does.
fn is_transient(error: &GraphError) -> bool {
    match error {
        GraphError::GaveUp { .. } | GraphError::Unreachable { .. } | GraphError::InDoubt { .. } => {
            true
        }
        GraphError::Invalid(_) | GraphError::Refused { .. } => false,
    }
}

async fn send_texts(
    graph: &Graph,
    number: &str,
    texts: &[String],
) -> Result<Vec<String>, GraphError> {
    let mut ids = Vec::with_capacity(texts.len());
    for text in texts {
        ids.push(graph.send_text(number, text, None).await?);
    }
    Ok(ids)
}

/// The buttons' ids are the commands that they stand for.
async fn send_question(
    graph: &Graph,
    number: &str,
    question: &Outgoing,
    code: &str,
) -> Result<Vec<String>, GraphError> {
    let Some((before, last)) = text::question(&question.text) else {
        return send_texts(graph, number, &text::messages(&question.text)).await;
    };
    let mut ids = send_texts(graph, number, &before).await?;
    let approve = (format!("/approve {code}"), "Approve");
    let always = question
        .always
        .then(|| (format!("/approve {code} always"), "Always this session"));
    let deny = (format!("/deny {code}"), "Deny");
    let buttons: Vec<_> = [Some(approve), always, Some(deny)]
        .into_iter()
        .flatten()
        .collect();
    let buttons: Vec<(&str, &str)> = buttons
        .iter()
        .map(|(id, title)| (id.as_str(), *title))
        .collect();
    ids.push(graph.send_buttons(number, &last, &buttons).await?);
    Ok(ids)
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
pub struct Observers(Arc<Mutex<Vec<UnboundedSender<Seen>>>>);

impl Observers {
    /// Everything from now on.
    pub fn watch(&self) -> UnboundedReceiver<Seen> {
        let (sender, receiver) = unbounded_channel();
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(sender);
        receiver
    }

    pub fn recorded(&self, opening: &Opening, record: &Record) {
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
        let mut watchers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|watcher| watcher.send(seen()).is_ok());
    }
}
