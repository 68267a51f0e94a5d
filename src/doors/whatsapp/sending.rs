//! A message of a session, as the messages that WhatsApp takes.
//!
//! It cuts, chooses the form and keeps the order; it decides nothing about when to try again.

use super::document::Document;
use super::graph::{Graph, GraphError};
use super::marks::Marks;
use super::text;
use crate::agent::state::{Button, Outgoing};
use crate::doors::Undelivered;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OwnedMutexGuard;

/// Graph's code for a message outside of the 24 hours.
pub const CODE_CLOSED: i64 = 131_047;
/// Lanes of chats that are kept before those that nobody is in are let go.
const LANES_MAX: usize = 256;

/// A template that Meta approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pub name: String,
    pub language: String,
}

/// How messages go out.
#[derive(Debug)]
pub struct Sending {
    /// What opens a conversation again.
    pub template: Option<Template>,
    /// Messages that a long text may become.
    parts_max: usize,
    pub marks: Marks,
    lanes: Lanes,
}

impl Sending {
    /// What may be sent, and how.
    pub fn new(template: Option<Template>, parts_max: usize) -> Self {
        let (marks, lanes) = (Marks::default(), Lanes::default());
        Self {
            template,
            parts_max,
            marks,
            lanes,
        }
    }

    /// Sends one message, from the first part that has not arrived; Graph's ids of what it became.
    ///
    /// # Errors
    /// What Graph said, after its retries, and how many parts have arrived.
    pub async fn send(
        &self,
        graph: &Graph,
        number: &str,
        outgoing: &Outgoing,
    ) -> Result<Vec<String>, Undelivered> {
        let ids = self.send_parts(graph, number, outgoing).await?;
        if let Some(message) = &outgoing.answers {
            self.marks.take(graph, number, message).await;
        }
        Ok(ids)
    }

    async fn send_parts(
        &self,
        graph: &Graph,
        number: &str,
        outgoing: &Outgoing,
    ) -> Result<Vec<String>, Undelivered> {
        let _lane = self.lanes.turn_of(number).await;
        let parts = parts(outgoing);
        let (kind, text) = (outgoing.kind, &outgoing.text);
        if outgoing.parts == 0
            && let Some(document) = Document::of(kind, text, parts.len(), self.parts_max)
            && let Some(media) = uploaded(graph, &document).await
        {
            let (name, caption) = (document.name, &document.caption);
            let sent = graph.send_document(number, &media, name, caption).await;
            return Ok(vec![
                sent.map_err(|error| undelivered(&error, 0, Vec::new()))?,
            ]);
        }
        let mut ids = Vec::with_capacity(parts.len());
        for (number_of, part) in parts.iter().enumerate().skip(outgoing.parts) {
            let sent = match part {
                Part::Text(text) => graph.send_text(number, text, None).await,
                Part::Question { text, buttons } => {
                    let buttons = buttons.iter();
                    let buttons: Vec<(&str, &str)> = buttons
                        .map(|button| (button.command.as_str(), button.title.as_str()))
                        .collect();
                    graph.send_buttons(number, text, &buttons).await
                }
            };
            match sent {
                Ok(id) => ids.push(id),
                Err(error) => return Err(undelivered(&error, number_of, ids)),
            }
        }
        Ok(ids)
    }

    /// Sends the template that asks the person to write; its id.
    ///
    /// # Errors
    /// What Graph said, after its retries.
    pub async fn invite(
        &self,
        graph: &Graph,
        number: &str,
        template: &Template,
        about: &str,
    ) -> Result<String, Undelivered> {
        let sent = graph.send_template(number, &template.name, &template.language, about);
        sent.await
            .map_err(|error| undelivered(&error, 0, Vec::new()))
    }
}

/// The media id of a document; `None` where it cannot be uploaded: then it goes as messages.
async fn uploaded(graph: &Graph, document: &Document) -> Option<String> {
    let content = document.content.as_bytes();
    match graph.upload_text(document.name, content).await {
        Ok(media) => Some(media),
        Err(error) => {
            tracing::warn!(%error, "a long message goes in parts, for it cannot be uploaded");
            None
        }
    }
}

/// One message of WhatsApp.
enum Part {
    Text(String),
    /// The buttons' ids are the commands that they stand for.
    Question {
        text: String,
        buttons: Vec<Button>,
    },
}

fn parts(outgoing: &Outgoing) -> Vec<Part> {
    let texts = |texts: Vec<String>| texts.into_iter().map(Part::Text);
    let question = match outgoing.buttons.is_empty() {
        true => None,
        false => text::question(&outgoing.text),
    };
    match question {
        None => texts(text::messages(&outgoing.text)).collect(),
        Some((before, text)) => {
            let buttons = outgoing.buttons.clone();
            texts(before)
                .chain([Part::Question { text, buttons }])
                .collect()
        }
    }
}

fn undelivered(error: &GraphError, parts: usize, ids: Vec<String>) -> Undelivered {
    let (code, wait_ms) = match error {
        GraphError::Refused { code, .. } => (*code, None),
        GraphError::GaveUp { code, wait_ms, .. } => (*code, *wait_ms),
        GraphError::Invalid(_) | GraphError::Unreachable { .. } | GraphError::InDoubt { .. } => {
            (None, None)
        }
    };
    Undelivered {
        transient: is_transient(error),
        closed: code == Some(CODE_CLOSED),
        why: error.to_string(),
        wait_ms,
        parts,
        ids,
    }
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

/// One message at a time to each person: the parts of two sessions' messages do not mix.
#[derive(Debug, Default)]
struct Lanes(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl Lanes {
    async fn turn_of(&self, number: &str) -> OwnedMutexGuard<()> {
        let lane = {
            let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if lanes.len() >= LANES_MAX {
                lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
            }
            lanes.entry(number.to_owned()).or_default().clone()
        };
        lane.lock_owned().await
    }
}
