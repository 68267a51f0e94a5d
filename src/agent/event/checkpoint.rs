//! The workspace as trees: which ones were kept, and when.

use super::Names;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The workspace's content at one time: the id of a git tree. Equal ids, equal files.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TreeId(pub String);

impl fmt::Display for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// When a checkpoint is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Before the first call of a round that may change files.
    Before,
    /// When all calls of that round have ended.
    After,
    /// Before the workspace is put back.
    Undo,
}

/// A checkpoint, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointTaken {
    /// That of the one before where nothing had changed since.
    pub number: u64,
    pub moment: Moment,
    pub tree: Option<TreeId>,
    /// Files that it does not hold, with the reason: secret, too large, not readable, a repository of its own.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub left_out: Names,
    /// Older checkpoints that are not kept any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What became of putting the workspace back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum Restored {
    /// The files are as wanted, and kept as a checkpoint.
    Done {
        number: u64,
        tree: TreeId,
        files: Names,
    },
    /// Nothing was touched: these are not as the session left them.
    Conflict {
        files: Names,
    },
    Failed {
        why: String,
    },
}
