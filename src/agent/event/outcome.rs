//! How calls and turns ended, and what is said of it.

use super::is_zero;
use crate::agent::money::Spend;
use serde::{Deserialize, Serialize};

/// How a call ended, and what the model reads about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub status: Status,
    /// Bounded text for the model.
    pub output: String,
    #[serde(default)]
    pub duration_ms: u64,
    /// SHA-256 of the full output, where it was longer than what stands here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Files that the call changed, with a unified diff for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FileChange>,
    /// The state of the workspace after it, where the call was about to be a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// The whole output, where `output` shows only a part: kept beside the journal, not in it.
    #[serde(skip)]
    pub whole: Option<String>,
    /// What of that, or of `output` where it shows all, a command printed on stdout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<Printed>,
    /// Exit code and argv of a command, for the audit table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What a child of the session spent for it, which the turn pays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Box<Spend>>,
    /// The effect had consequences, so this line must be durable.
    #[serde(default)]
    pub consequential: bool,
}

/// What a command printed on stdout: of a whole output that is kept, so many of its first bytes; else so many of those that
/// are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Printed {
    pub bytes: usize,
    /// Bytes from the middle of it that were not kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_bytes: u64,
}

impl Outcome {
    pub fn done(output: impl Into<String>) -> Self {
        Self::new(Status::Done, output)
    }

    pub fn failed(output: impl Into<String>) -> Self {
        Self::new(Status::Failed, output)
    }

    pub fn new(status: Status, output: impl Into<String>) -> Self {
        Self {
            status,
            output: output.into(),
            duration_ms: 0,
            digest: None,
            changes: Vec::new(),
            tree: None,
            whole: None,
            printed: None,
            exit_code: None,
            spent: None,
            consequential: false,
        }
    }
}

/// Kinds of outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Done,
    /// The outside world said no: the model reads why and goes on.
    Failed,
    /// The gate or the person said no.
    Denied,
    /// Stopped by `/cancel` or by a limit, partial output kept.
    Cancelled,
    /// In doubt, and the person chose to go on without running it again.
    Unknown,
}

/// One file that a call changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    pub path: String,
    pub added: usize,
    pub removed: usize,
    /// Unified diff, bounded.
    pub diff: String,
}

/// Why a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    Done,
    Failed,
    Limit,
    Cancelled,
}

impl EndReason {
    pub fn word(self) -> &'static str {
        match self {
            EndReason::Done => "done",
            EndReason::Failed => "failed",
            EndReason::Limit => "stopped at a limit",
            EndReason::Cancelled => "cancelled",
        }
    }
}

/// What kind of message goes out; a channel may show each its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutgoingKind {
    /// A reply to a command, or a remark.
    Notice,
    /// The plan moved.
    Progress,
    /// What was changed, as a diff.
    Change,
    /// Waits for yes or no.
    Question,
    /// Ends the turn.
    Final,
}
