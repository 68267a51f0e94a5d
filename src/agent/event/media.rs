//! What came with a message besides its text: what the channel says of it, and what became of it.

use serde::{Deserialize, Serialize};

/// Something that lies at the channel and is to be fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// The channel's own.
    pub id: String,
    pub kind: MediaKind,
    /// As declared: `application/pdf`, `audio/ogg; codecs=opus`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mime: String,
    /// As declared, in hex or base64.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sha256: String,
    /// As the person's file is called.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// What is done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaKind {
    /// Saved in the workspace's inbox.
    Document,
    /// Heard; the words are the message.
    Audio,
    /// Saved as a document is, and shown to the model.
    Image,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum Got {
    /// It is in the workspace that is named so, at this path.
    File {
        path: String,
        bytes: u64,
        mime: String,
        workspace: String,
        /// The model can be shown it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        image: Option<Image>,
    },
    Words {
        text: String,
        /// What hearing it cost, in micro-dollars; `None` where nobody knows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_micros: Option<u64>,
    },
    Failed {
        why: String,
    },
}

/// A spoken message in two sessions: the one that the person used last, and the one whose question a yes or no in it would
/// answer. Nobody knows what is in it before it is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spoken {
    /// Here for its yes or no, and for nothing else.
    ForAnswer,
    /// A yes or no in it counts in the other session.
    ForAllElse,
}

/// A picture, by its content. The bytes lie with the session's outputs; a model is shown them from there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// With whose outputs: a fork shows pictures of its parent.
    pub session: String,
    /// In hex.
    pub sha256: String,
    /// `image/jpeg`, `image/png` or `image/webp`, as the bytes say.
    pub mime: String,
}
