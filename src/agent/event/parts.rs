//! What events are made of: messages, calls, answers, outcomes.

use super::{Image, Media, Spoken, Timestamp};
use crate::agent::brief::Brief;
use crate::agent::charter::Charter;
use crate::agent::children::Child;
use crate::agent::conversation::{Kind, Past};
use crate::agent::language::Language;
use crate::agent::money::Spend;
use crate::agent::plan::Plan;
use crate::agent::roles::Role;
use crate::gate::{Project, PushPlan};
use crate::schedule::wish::Terms;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

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

fn is_english(language: &Language) -> bool {
    *language == Language::English
}

fn is_zero(number: &u64) -> bool {
    *number == 0
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

/// One call of a tool, as the model asked for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Ours: `ROUND.POSITION`, unique in the session.
    pub id: CallId,
    /// The provider's id, repeated to it with the result.
    pub wire_id: String,
    pub tool: String,
    /// Exactly the text that the model wrote; may be malformed.
    pub arguments: String,
}

impl Call {
    /// The arguments as JSON. An empty text counts as `{}`, as several models write it.
    pub fn json(&self) -> Result<Value, serde_json::Error> {
        if self.arguments.trim().is_empty() {
            return Ok(Value::Object(Default::default()));
        }
        serde_json::from_str(&self.arguments)
    }

    /// Tool and arguments in one text: the same for calls that would do the same, however they are written.
    pub fn sameness(&self) -> String {
        let arguments = self.json().map(|mut json| {
            json.sort_all_objects();
            json.to_string()
        });
        format!(
            "{} {}",
            self.tool,
            arguments.unwrap_or_else(|_| self.arguments.clone())
        )
    }
}

/// `ROUND.POSITION` of a call within its session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub String);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The workspace's content at one time: the id of a git tree. Equal ids, equal files.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TreeId(pub String);

impl fmt::Display for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How many files, and the names of the first of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    pub count: usize,
    pub names: Vec<String>,
}

impl Names {
    const NAMES_MAX: usize = 20;

    pub fn add(&mut self, name: &str) {
        self.count += 1;
        if self.names.len() < Self::NAMES_MAX {
            self.names.push(name.to_owned());
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
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

/// A model's whole reply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Some providers want their reasoning back with the next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    #[serde(default)]
    pub usage: Usage,
    /// What it cost by the prices of that day, in micro-dollars; `None`: nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// The provider's reason for stopping: `stop`, `tool_calls`, `length`.
    pub finish: String,
    /// Requests made until this one came through.
    pub attempts: u32,
    pub duration_ms: u64,
}

/// Tokens spent, as the provider counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(default)]
    pub cached_tokens: u64,
}

impl Usage {
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    pub fn add(&mut self, other: Usage) {
        for (sum, more) in [
            (&mut self.input_tokens, other.input_tokens),
            (&mut self.output_tokens, other.output_tokens),
            (&mut self.cached_tokens, other.cached_tokens),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// What can be known about an effect after a crash. Recovery is a table over this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// No consequences: run again freely.
    Pure,
    /// Running again gives the same.
    Idempotent,
    /// The world can be asked whether it happened.
    Probeable,
    /// Nobody can tell.
    Opaque,
}

/// What a probe will look for, written down before the effect: here, and outside of this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expectation {
    /// Files with their digests before and after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ExpectedFile>,
    /// A commit whose message names the call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub commit: bool,
    /// A spool, and the start of the machine (`boot_id`) in which it would be made: a missing one proves nothing later.
    /// Empty: it never proves anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spool: Option<String>,
    /// What the remote has afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<Box<PushPlan>>,
    /// What GitHub has afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Box<ExpectedMark>>,
}

/// Something on GitHub that names the call which made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedMark {
    pub project: Project,
    pub text: String,
    /// The pull request that is commented on; `None`: it is itself what carries the mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull: Option<u64>,
    /// Names that are set on it afterwards: reviewers, labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
}

/// One file's state before and after an effect. `None`: the file does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedFile {
    pub path: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "found")]
pub enum Probe {
    /// It happened; this is its result.
    Happened { output: String },
    /// A keeper has its result, or will have: it runs, or it ended.
    Kept,
    /// It did not happen.
    DidNotHappen,
    /// Some of it happened; running it again finishes it from what the first run left ready.
    HalfDone,
    /// Nobody looked: running it once more does no harm.
    Harmless,
    /// Something else was found, or nothing can be known.
    Unclear { why: String },
}

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
