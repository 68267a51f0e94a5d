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
/// Patterns that narrow what may be run.
mod fits;
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
pub use bounds::letters;
pub use explain::Explanation;
pub use fits::{fits, is_pattern};
pub use judge::{judge, wants};
pub use paths::names_secret;
pub use policy::{BUILT_IN, GatePolicy, GateSettings, PolicyError};
pub use readers::only_reads;
pub use reply::{Reply, read_reply};
pub use words::plain;

use crate::agent::event::WorkspaceRef;
use crate::agent::mcp::Offered;
use crate::schedule::wish::Wish;
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

impl Touch {
    /// The file or folder that is read or written.
    pub fn into_path(self) -> Option<String> {
        match self {
            Touch::Read(path) | Touch::Write(path) => Some(path),
            Touch::Command(_) | Touch::RepositoryRead | Touch::RepositoryWrite => None,
            Touch::Push(_) | Touch::GitHubRead | Touch::GitHubWrite => None,
            Touch::Workspace(_) | Touch::Clone(_) | Touch::Schedule(_) => None,
            Touch::Mcp(_) | Touch::Sources(_) => None,
            Touch::Forbidden { .. } | Touch::Only { .. } => None,
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
    /// Commits of the repository go to its remote.
    Push(PushWish),
    /// The repository's project on GitHub is read, or written (a pull request, a comment).
    GitHubRead,
    GitHubWrite,
    /// The session goes to another workspace, by its name.
    Workspace(String),
    /// A repository becomes a workspace, by its address.
    Clone(String),
    /// Schedules of the person are looked at or changed.
    Schedule(Wish),
    /// A tool of an MCP server is called: what it does, nobody here knows.
    Mcp(McpTouch),
    /// A question goes to whoever answers about these sources.
    Sources(Vec<String>),
    /// A tool that the agent, or the command that began the turn, by its definition does not have.
    Forbidden {
        by: Restrains,
        tool: String,
    },
    /// Of the call's commands, only those that fit one of each of these: the command that began the turn says so. It stands
    /// behind what it narrows.
    Only {
        command: String,
        runs: Vec<Vec<String>>,
    },
}

/// Whose definition takes tools away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restrains {
    Agent(String),
    Command(String),
}

/// Which tool of which server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpTouch {
    pub server: String,
    pub tool: String,
    /// SHA-256 of the server's configuration.
    pub origin: String,
    /// SHA-256 of what the server says that it does and takes.
    pub about: String,
    /// The owner's configuration lets it run without a question.
    pub allowed: bool,
    /// Whether its server may write in the workspace.
    pub writes: bool,
}

impl McpTouch {
    pub fn of(offered: &Offered) -> Self {
        Self {
            server: offered.server.clone(),
            tool: offered.tool.clone(),
            origin: offered.origin.clone(),
            about: offered.digest(),
            allowed: offered.allowed,
            writes: offered.writes,
        }
    }
}

/// A push, as it was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PushWish {
    /// `None`: the current one.
    pub branch: Option<String>,
    /// Whether the remote's branch may be overwritten.
    pub force: bool,
}

/// What the world must look up before the gate can judge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wants {
    pub paths: Vec<String>,
    pub programs: Vec<String>,
    pub push: Option<PushWish>,
    pub github: bool,
    pub workspace: Option<String>,
    pub clone: Option<String>,
    pub schedule: Option<Wish>,
    pub sources: Option<Vec<String>>,
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
    /// Where a push would go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<Destination<PushPlan>>,
    /// Which project on GitHub is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub github: Option<Destination<Project>>,
    /// Which workspace a name means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Destination<WorkspaceRef>>,
    /// What would be cloned, and as what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone: Option<Destination<ClonePlan>>,
    /// Which schedule it would be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleFact>,
    /// Who answers about sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answerer: Option<Destination<Answerer>>,
}

/// Somewhere outside of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Destination<T> {
    Known(Box<T>),
    /// There is none, so nothing will happen: the call says why.
    Nowhere {
        why: String,
    },
}

/// What exactly would be pushed, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushPlan {
    /// Its name in the repository: `origin`.
    pub remote: String,
    /// Its address, rewritten as git would, without credentials.
    pub url: String,
    pub branch: String,
    pub commit: String,
    /// The remote's branch is overwritten, if it still is at this commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrites: Option<String>,
}

impl PushPlan {
    /// The command that pushes: what the person is shown, what an approval is bound to, and what runs.
    pub fn argv(&self) -> Vec<String> {
        let force = self.overwrites.as_ref();
        let lease = force.map(|seen| format!("--force-with-lease={}:{seen}", self.target()));
        let words = ["git", "push"].map(str::to_owned).into_iter().chain(lease);
        let refspec = format!("{}:{}", self.commit, self.target());
        words.chain([self.url.clone(), refspec]).collect()
    }

    /// The branch as the remote names it in full.
    pub fn target(&self) -> String {
        format!("refs/heads/{}", self.branch)
    }
}

/// What exactly would be cloned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClonePlan {
    /// Without credentials.
    pub url: String,
    /// The new workspace's.
    pub name: String,
}

impl ClonePlan {
    /// The command that clones: what the person is shown and what an approval is bound to.
    pub fn argv(&self) -> Vec<String> {
        ["git", "clone", &self.url, &self.name]
            .map(str::to_owned)
            .into()
    }
}

/// Who answers a question about sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answerer {
    /// As the owner's configuration names it.
    pub agent: String,
    /// Its command; none where it is this program itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
}

/// A project on GitHub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// Of the API, such as `https://api.github.com`.
    pub api: String,
    pub owner: String,
    pub name: String,
}

impl Project {
    /// Its address in the API.
    pub fn address(&self) -> String {
        format!("{}/repos/{}/{}", self.api, self.owner, self.name)
    }
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

/// What a change of schedules would come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum ScheduleFact {
    /// A new one.
    New {
        schedule: String,
        timezone: String,
        /// Its next firings, RFC 3339 in its own zone.
        next: Vec<String>,
    },
    /// This one, which is there.
    Kept { schedule: String, message: String },
    /// Nothing will happen: the call says why.
    Impossible { why: String },
    /// The session was started by the clock itself.
    Forbidden,
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
