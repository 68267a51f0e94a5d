//! What stands in a message: a text, or a text and pictures that came with it. Pure.
//!
//! A picture stands here by its content, so that a conversation is small and grows at its end only. The bytes are filled in
//! when the model is asked (`world/pictures.rs`).

use crate::agent::event::Image;
use serde::{Deserialize, Deserializer, Serialize};

/// With what the part of a picture begins in a serialised message. In no text: quotes are escaped there.
pub const PICTURE: &str = "{\"type\":\"stored_image\",";

/// Whether a serialised message shows pictures. Only a person's does, and those are few among many.
pub fn has_pictures(wire: &str) -> bool {
    wire.starts_with(OF_PERSON) && wire.contains(PICTURE)
}

/// With what a serialised message of a person begins.
const OF_PERSON: &str = "{\"role\":\"user\",";

/// What a person said, and showed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    pub text: String,
    pub images: Vec<Image>,
}

impl Words {
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            images: Vec::new(),
        }
    }
}

/// The `content` of a message of a person.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Text(&'a str),
    Parts(Vec<Part>),
}

/// One of several.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    Text { text: String },
    StoredImage(Image),
}

impl<'a> Content<'a> {
    pub fn of(words: &'a Words) -> Self {
        if words.images.is_empty() {
            return Content::Text(&words.text);
        }
        let text = words.text.clone();
        let images = words.images.iter().cloned().map(Part::StoredImage);
        Content::Parts([Part::Text { text }].into_iter().chain(images).collect())
    }
}

/// The text of a message that is read back.
pub(super) fn text_of<'de, D: Deserializer<'de>>(content: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Read {
        Text(String),
        Parts(Vec<Part>),
    }
    let texts = |part| match part {
        Part::Text { text } => Some(text),
        Part::StoredImage(_) => None,
    };
    let read = Option::<Read>::deserialize(content)?;
    Ok(read.map(|read| match read {
        Read::Text(text) => text,
        Read::Parts(parts) => parts.into_iter().filter_map(texts).collect(),
    }))
}
