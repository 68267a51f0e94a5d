//! What a message asks of the commands that are written in files, and what came of it.

use crate::agent::charter::Charter;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "wish")]
pub enum CommandWish {
    /// `/NAME ARGUMENTS`.
    Load { name: String, arguments: String },
    /// Which ones there are.
    List,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum Loaded {
    /// What the message says from here on.
    Text {
        path: String,
        text: String,
        /// What it lays down for the turn that it begins.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        charter: Option<Box<Charter>>,
    },
    /// There is none of this name; these are like it.
    Unknown {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        nearest: Vec<String>,
    },
    /// It is of the workspace, which nobody trusts.
    Untrusted {
        path: String,
    },
    Failed {
        why: String,
    },
    Listed {
        commands: Vec<ListedCommand>,
        /// So many more.
        more: usize,
    },
}

/// One that a person can call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedCommand {
    /// With what it takes: `review-pr [number]`.
    pub usage: String,
    /// What it is for; `None` where the workspace is not trusted, so that nothing of it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
}
