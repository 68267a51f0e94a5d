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
        /// Names of the MCP servers that can be asked for what they have.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        servers: Vec<String>,
    },
    /// What an MCP server said, cleaned and cut: words of a third party, with which the message goes on.
    Theirs {
        server: String,
        of: TheirKind,
        text: String,
        /// Characters that nobody sees, which were taken out.
        #[serde(default, skip_serializing_if = "is_zero")]
        hidden: usize,
    },
    /// What an MCP server has for a person.
    Server {
        server: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        prompts: Vec<ListedCommand>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        resources: Vec<ListedResource>,
        /// So many more of both.
        #[serde(default, skip_serializing_if = "is_zero")]
        more: usize,
    },
}

/// What was asked of an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TheirKind {
    /// A prompt, with its arguments filled in.
    Prompt,
    /// A resource, as it is now.
    Resource,
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

/// A resource of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedResource {
    /// Its URI, or a template of it: `docs://{page}`.
    pub uri: String,
    pub about: String,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(count: &usize) -> bool {
    *count == 0
}
