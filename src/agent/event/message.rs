//! A message from a person, as the channel gave it, and what it was understood as.

use super::is_zero;
use super::{CallId, Image, Media, Spoken};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A message from a person, as the channel gave it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inbound {
    /// The channel's own id: unique, the key against duplicates.
    pub id: String,
    pub from: String,
    pub text: String,
    #[serde(default)]
    pub via: Via,
    /// The message of ours that this one reacts to or quotes, by the channel's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The channel's name for a kind of message that cannot be read yet (`image`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// What came with it, and lies at the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<Box<Media>>,
    /// The channel says that the message `about` did not arrive; this is no person's word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undelivered: Option<NotDelivered>,
    /// Its place in its chat: more than that of every message before it, whatever the clock says; 0 where nobody counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub order: u64,
    /// Questions that other sessions of the chat have open, where the message says yes or no and not to which.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<OpenQuestion>,
    /// The session's owner, who answers from another chat of theirs: the settings said so when it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_for: Option<String>,
    /// The sender's messages that start work have reached their limit: this one starts none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub too_many: Option<TooMany>,
    /// It is in two sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spoken: Option<Spoken>,
}

/// The limit of messages that start work, where one is beyond it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TooMany {
    pub messages: usize,
    pub minutes: u64,
    /// So soon the next one is taken.
    pub again_minutes: u64,
    /// The person has heard it since the last one that was taken.
    #[serde(default)]
    pub told: bool,
}

/// A message that is taken with the one before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Along {
    pub message: String,
    /// What the model reads about the message that it quotes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    /// What it reads about the file that came with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached: Option<String>,
    /// What it sees of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
}

/// A question that waits in another session of the same chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenQuestion {
    pub code: String,
    /// What would run, on one line.
    pub what: String,
}

impl Inbound {
    /// Plain text.
    pub fn text(id: impl Into<String>, from: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            from: from.into(),
            text: text.into(),
            via: Via::Text,
            about: None,
            unreadable: None,
            media: None,
            undelivered: None,
            order: 0,
            elsewhere: Vec::new(),
            stands_for: None,
            too_many: None,
            spoken: None,
        }
    }
}

/// Why a channel did not deliver what it had taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotDelivered {
    /// The channel's own.
    pub code: i64,
    pub title: String,
    /// Another try may arrive.
    #[serde(default)]
    pub may_pass: bool,
    /// It takes nothing before the person writes again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
}

impl fmt::Display for NotDelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.title, self.code)
    }
}

/// Whose word a fact is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct By {
    pub who: String,
    #[serde(default)]
    pub via: Via,
    /// The message that said so, taken by this event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How a person spoke.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    #[default]
    Text,
    Button,
    Reaction,
    /// `--yes` or `--no-approvals` on the command line.
    Flag,
    /// The message of a schedule, in the name of its owner.
    Schedule,
    /// The code of `journeyman pair`: it lets the person in, and nothing else is read into it.
    Pairing,
    /// What there is to say about a schedule: nothing is read into it, the chat is told.
    Notice,
}

/// What a message was understood as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "as")]
pub enum Reading {
    /// Starts a turn.
    Objective,
    /// Waits for the next round boundary.
    Steering,
    /// The answer to `request_user_approval`, word for word.
    Answer { call: CallId },
    /// A chat command.
    Command { name: String },
    /// Not from the owner of the chat.
    Refused,
    /// It would have started or steered work, beyond the limit.
    TooMany,
    /// Of the channel: a message did not arrive, and is sent again or given up.
    NotDelivered { again: bool },
    /// It answers nothing that is open: a reaction to something else, a yes to an older question.
    Ignored,
}
