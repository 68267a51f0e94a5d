//! JUDGES, pure: what a call touches, against policy and grants. The only place that mints [`Approved`].
//!
//! The gate never names a tool: it judges declared [`Touch`]es. It resolves nothing itself: programs and paths are
//! looked up by the world beforehand and arrive as [`Facts`]. Merging is always strictest wins (behaviour, decisions).

/// The proof that a call was let through.
mod approved;
/// How much a judgement may cost.
mod bounds;
/// What rules mean, in words.
mod explain;
/// What was found, and the verdict that it adds up to.
mod findings;
/// What *always this session* would cover.
mod grant;
/// Verdicts: what a call needs looked up, and what the gate says about it.
mod judge;
/// Nodes of the parse tree that are words.
mod nodes;
/// What programs make of words that are no options.
mod operands;
/// What programs make of their words.
mod options;
/// Paths in words.
mod paths;
/// The policy file and the settings.
mod policy;
/// Programs and their options, as the policy describes them.
mod programs;
/// Programs that only read.
mod readers;
/// A person's yes or no.
mod reply;
/// Rules of the policy file.
mod rules;
/// Text to simple commands.
mod shell;
/// Words as bash joins them.
mod words;

pub use approved::{Approved, Authority, Circumstances, Runnable, Ticket, admit, digest};
pub use explain::Explanation;
pub use judge::{judge, wants};
pub use paths::names_secret;
pub use policy::{BUILT_IN, GatePolicy, GateSettings, PolicyError};
pub use readers::only_reads;
pub use reply::{Reply, read_reply};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Runs now, waits for the person, or never runs. Ordered: the greater one is the stricter one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Allow,
    Ask,
    Deny,
}

/// The gate's word on a call, with everything that a person or a model needs to understand it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub decision: Decision,
    /// Why; empty for a plain allow.
    #[serde(default)]
    pub reasons: Vec<Reason>,
    /// Every simple command found in the text, in order.
    #[serde(default)]
    pub commands: Vec<JudgedCommand>,
    /// What *always this session* would grant; `None` where it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Pattern>,
    /// The text needs a shell (operators, expansions): it runs by `bash -c`, and only after approval.
    #[serde(default)]
    pub shell: bool,
}

/// One rule that spoke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Stable name, for `policy explain`: `denylist`, `operators`, `unknown-program`, `outside-workspace`.
    pub rule: String,
    /// What was seen, as a sentence fragment.
    pub text: String,
    /// What would make it allowed.
    pub fix: String,
}

/// A simple command of the text, with its words as the shell would make them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedCommand {
    pub argv: Vec<String>,
    pub program: String,
    pub decision: Decision,
}

/// *Always this session*: a program and its subcommand, never a whole tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    pub program: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subcommand: Option<String>,
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subcommand {
            Some(subcommand) => write!(f, "{} {subcommand}", self.program),
            None => f.write_str(&self.program),
        }
    }
}

/// What a call touches, as its tool declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touch {
    /// A path is read; relative to the workspace.
    Read(String),
    /// A path is written; relative to the workspace.
    Write(String),
    /// A command line is executed.
    Command(String),
    /// The repository is read (status, diff).
    RepositoryRead,
    /// The repository's local history is written (commit).
    RepositoryWrite,
}

/// What the world must look up before the gate can judge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wants {
    pub paths: Vec<String>,
    pub programs: Vec<String>,
}

/// What the world found. Kept in the journal, so that a verdict can be computed again from it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// By the path as written in the call.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub paths: BTreeMap<String, PathFact>,
    /// By the program as written in the command.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, ProgramFact>,
}

/// Where a path leads, with links followed as far as it exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathFact {
    /// Absolute.
    pub resolved: String,
    pub place: Place,
    pub exists: bool,
}

/// Which region of the machine a path is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    Workspace,
    /// `.git` of the workspace, whose hooks and configuration can run programs.
    GitInternals,
    /// The program's own data and configuration.
    OwnData,
    Outside,
}

/// What a program's name leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum ProgramFact {
    /// Nothing on `PATH`: it will fail to start.
    Missing,
    /// Root-owned in a system or `PATH` folder: the name can be trusted.
    System { path: String },
    /// Somewhere else, such as the person's own `~/.cargo/bin`.
    User { path: String },
    /// In the workspace or a world-writable folder: the name means nothing.
    Untrusted { path: String },
}
