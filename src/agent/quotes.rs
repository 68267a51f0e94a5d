//! What was said in the chat lately, by the channel's ids: a reply that quotes one of these messages is understood. Pure,
//! folded from the journal. It knows no other session's messages, and none of long ago: those are quoted by no words.

use crate::agent::event::Inbound;
use crate::agent::state::{Outgoing, State};
use std::collections::VecDeque;

const KNOWN_MAX: usize = 100;
/// What is kept of a message: enough to tell which one it was.
const EXCERPT_CHARS_MAX: usize = 300;

/// The last messages of both sides.
#[derive(Debug, Clone, Default)]
pub struct Said {
    known: VecDeque<Known>,
}

#[derive(Debug, Clone)]
struct Known {
    /// Several where a channel takes a long text in parts.
    ids: Vec<String>,
    ours: bool,
    excerpt: String,
}

impl Said {
    pub fn by_us(&mut self, outgoing: &Outgoing, ids: &[String]) {
        self.keep(ids.to_vec(), true, &outgoing.text);
    }

    pub fn by_person(&mut self, message: &Inbound) {
        self.keep(vec![message.id.clone()], false, &message.text);
    }

    fn keep(&mut self, ids: Vec<String>, ours: bool, text: &str) {
        if ids.is_empty() || text.trim().is_empty() {
            return;
        }
        if self.known.len() == KNOWN_MAX {
            self.known.pop_front();
        }
        let excerpt = excerpt(text);
        self.known.push_back(Known { ids, ours, excerpt });
    }
}

/// What the model reads about the message that this one quotes; `None`: it quotes none, or one that is not known here.
pub fn context(state: &State, message: &Inbound) -> Option<String> {
    let about = message.about.as_ref()?;
    let quoted = |known: &&Known| known.ids.contains(about);
    let known = state.said.known.iter().rev().find(quoted)?;
    let values = [("text", known.excerpt.as_str())];
    Some(match known.ours {
        true => state.texts.say("quoted_ours_model", &values),
        false => state.texts.say("quoted_theirs_model", &values),
    })
}

fn excerpt(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(EXCERPT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
