//! What came of a message that a channel did not take: it waits until the person writes again.

use super::Timestamp;
use serde::{Deserialize, Serialize};

/// The channel takes nothing before the person writes again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// When the person had last written; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<Timestamp>,
    /// What asked the person to write, if that was sent now: once until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invited: Option<Invited>,
}

/// A template message, the one kind that a closed channel takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invited {
    pub template: String,
    pub language: String,
    /// The workspace that it names.
    pub about: String,
    /// The channel's id of it; empty where it was refused.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Why it was refused: nothing of it is tried again until the person writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
