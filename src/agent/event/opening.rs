//! The first line of a journal: who began the session, where it works, and where it comes from.

use super::Timestamp;
use super::is_zero;
use crate::agent::brief::Brief;
use crate::agent::charter::Charter;
use crate::agent::children::Child;
use crate::agent::conversation::{Kind, Past};
use crate::agent::language::Language;
use crate::agent::plan::Plan;
use crate::agent::roles::Role;
use crate::schedule::wish::Terms;
use serde::{Deserialize, Serialize};

/// What a session starts with. Kept whole, so that a resumed session shows the model the same bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opening {
    /// Version of the journal's format.
    pub format: u32,
    /// Program and version that wrote the first line.
    pub program: String,
    pub session: String,
    /// The correspondent on a channel: `whatsapp:5491112345678`, `terminal:local`.
    pub chat: String,
    /// Who may answer questions: the sender of the chat.
    pub owner: String,
    pub workspace: WorkspaceRef,
    /// The system prompt, word for word.
    pub system: String,
    pub prompt_digest: String,
    pub policy_digest: String,
    pub model: String,
    /// What confines commands: `landlock abi 7, seccomp`.
    #[serde(default)]
    pub sandbox: String,
    /// The workspace's own files at the end of `system`; `None` in journals of before there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brief: Option<Brief>,
    /// There are MCP servers, or may be: what they offer is looked at with every turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mcp: bool,
    /// Folders and files that lie elsewhere, by the names under which they are read in the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<WorkspaceRef>,
    /// The slot that this session was started for, if the clock started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<Box<Scheduled>>,
    /// Whose git worktrees it works in: its own id, or for a fork that of the session it comes from. `None`: it works in
    /// the person's folders themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktrees: Option<String>,
    /// What the chat is spoken to in; English where it is missing.
    #[serde(default, skip_serializing_if = "is_english")]
    pub language: Language,
    /// The chat's first session: the person is told what this is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub welcome: bool,
    /// How long a message that would start a turn waits for another one, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub together_ms: u64,
    /// Where this session comes from, if it is a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Box<Fork>>,
    /// Whose child it is, if another session began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<Box<Child>>,
}

/// A time of a schedule, and how its run goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduled {
    pub job: i64,
    pub slot: Timestamp,
    /// IANA name.
    pub timezone: String,
    #[serde(default)]
    pub terms: Terms,
}

/// The past that a forked session starts with: what another one had said and planned, and nothing that it may do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fork {
    pub parent: String,
    /// The last line of the parent that is part of this past, and its hash.
    pub at: u64,
    pub head: String,
    /// What the model saw, message by message, byte for byte; the system prompt first.
    pub messages: Vec<String>,
    /// What each of them is, and what remains of those that were left out before.
    pub kinds: Vec<Kind>,
    pub past: Past,
    /// Rounds of the parent: the fork counts on, so that no call is called like one of the parent's.
    pub rounds: u32,
    pub plan: Plan,
    /// Files that the parent had changed: a commit takes them along.
    pub changed: Vec<String>,
    /// The parent's turn had not ended there: it can be resumed.
    pub in_turn: bool,
    /// The agent that the parent acted as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Box<Role>>,
    /// Another one counts from the next turn on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_role: Option<NextRole>,
    /// What the command that began the parent's turn lays down for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charter: Option<Box<Charter>>,
}

/// The agent of the next turn; none: as this program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextRole {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Box<Role>>,
}

/// The folder that a session works in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceRef {
    pub name: String,
    /// Absolute and canonical.
    pub path: String,
}

fn is_english(language: &Language) -> bool {
    *language == Language::English
}
