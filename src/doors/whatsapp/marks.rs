//! The ⏳ on a message that is being worked on.
//!
//! A courtesy: no failure of it stops or delays the work, and none is tried again. It is put on with the first request to
//! the model, and taken away by whatever process sends the answer: the journal says which message that was.

use super::graph::Graph;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tokio::task::JoinHandle;

const WORKING: &str = "⏳";

/// Marks that are on their way, by the message that they are put on.
#[derive(Debug, Default)]
pub struct Marks(Mutex<HashMap<String, JoinHandle<()>>>);

impl Marks {
    /// Puts the mark on a message of this number, and waits for nothing.
    pub fn put(&self, graph: &Graph, number: &str, message: &str) {
        let (graph, to, of) = (graph.clone(), number.to_owned(), message.to_owned());
        let on_its_way = tokio::spawn(async move {
            if let Err(error) = graph.react(&to, &of, WORKING).await {
                tracing::debug!(%error, "a message has no mark that it is worked on");
            }
        });
        let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        marks.retain(|_, mark| !mark.is_finished());
        marks.insert(message.to_owned(), on_its_way);
    }

    /// Takes it away, after it was put on.
    pub async fn take(&self, graph: &Graph, number: &str, message: &str) {
        let on_its_way = {
            let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            marks.remove(message)
        };
        if let Some(on_its_way) = on_its_way {
            let _ = on_its_way.await; // whatever became of it
        }
        if let Err(error) = graph.react(number, message, "").await {
            tracing::debug!(%error, "the mark on a message stays");
        }
    }
}
