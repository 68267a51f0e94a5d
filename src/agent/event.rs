//! What can happen in a session: the vocabulary of the journal.
//!
//! Facts come from outside, intents precede effects, outcomes follow them, decisions are ours. An event carries all
//! that `apply` needs, so that folding a journal never has to look at the world. Nothing here computes anything.

use crate::agent::plan::Plan;
use crate::gate::{Facts, Pattern, Verdict};
use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::fmt;

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// From 1, without gaps.
    pub seq: u64,
    pub at: Timestamp,
    #[serde(flatten)]
    pub event: Event,
    /// Hash of the line before; 64 zeros on the first line.
    pub prev: String,
    /// SHA-256 over `prev` and the line without this field.
    pub hash: String,
}

/// One thing that happened. Tagged by `event` on the journal's line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    // --- facts -----------------------------------------------------------------------------------------------------
    /// The first line of every journal.
    SessionStarted(Box<Opening>),
    /// A person wrote. Only after this is on disk may a webhook answer 200.
    MessageReceived { message: Inbound },
    /// The owner of the chat said yes to an open question.
    ApprovalGiven {
        approval: String,
        by: By,
        always: Option<Pattern>,
    },
    /// The owner said no; a reason reaches the model word for word.
    ApprovalRefused {
        approval: String,
        by: By,
        reason: Option<String>,
    },
    /// Nobody answered in time.
    ApprovalExpired { approval: String },
    /// It is time to try a message again.
    SendDue { send: u64 },
    /// The owner stopped the turn.
    Cancelled { by: By },
    /// The owner (or the configuration) said to go on after an interruption, a limit, a failure or a cancel.
    Resumed { by: By },
    /// What the world resolved for the gate, and what a probe could look for if this process died.
    CallExamined {
        call: CallId,
        facts: Facts,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expect: Option<Expectation>,
    },
    /// What a probe found about an effect that was in doubt.
    CallProbed { call: CallId, probe: Probe },

    // --- intents ---------------------------------------------------------------------------------------------------
    /// The conversation up to here is about to be sent to the model.
    ModelAsked {
        round: u32,
        messages: usize,
        model: String,
    },
    /// A tool is about to run. With consequences, hence on disk first.
    ToolStarted {
        call: CallId,
        tool: String,
        class: EffectClass,
        approval: Option<String>,
    },
    /// A message is about to be sent.
    SendStarted {
        send: u64,
        kind: OutgoingKind,
        text: String,
    },
    /// A question about a call is open from here on.
    ApprovalAsked {
        /// The short code that people answer with.
        approval: String,
        call: CallId,
        /// What exactly would run; an approval is void if it differs by one byte.
        digest: String,
        question: String,
        expires_at: Timestamp,
        /// What *always this session* would grant.
        pattern: Option<Pattern>,
    },
    /// The agent asked the person something; the next plain message is the answer.
    QuestionAsked { call: CallId, question: String },
    /// Running effects are told to stop.
    StopAsked,

    // --- outcomes --------------------------------------------------------------------------------------------------
    /// The model's whole reply. On disk before its first call runs.
    ModelAnswered { round: u32, answer: Answer },
    /// The model could not answer; the turn ends, resumable.
    ModelFailed {
        round: u32,
        kind: String,
        message: String,
        attempts: u32,
    },
    /// A tool ended, one way or another.
    ToolFinished { call: CallId, outcome: Outcome },
    /// A message was sent, or failed: then it is tried again at `retry_at`, or given up.
    SendFinished {
        send: u64,
        error: Option<String>,
        /// The channel's ids of what was sent: a reaction or a quote names one of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ids: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Timestamp>,
    },

    // --- decisions -------------------------------------------------------------------------------------------------
    /// What a message was understood as, and what the chat is told at once.
    MessageTaken {
        message: String,
        reading: Reading,
        reply: Option<String>,
    },
    /// The gate's verdict on a call.
    GateDecided {
        call: CallId,
        verdict: Verdict,
        policy_digest: String,
    },
    /// The plan is now this one; `output` is what the model reads about it.
    PlanChanged {
        call: CallId,
        plan: Plan,
        output: String,
    },
    /// A limit of the configuration was reached.
    LimitReached { limit: String, text: String },
    /// The process that ran these effects is gone; none of them has an outcome.
    Interrupted {
        calls: Vec<CallId>,
        asking: bool,
        sending: bool,
    },
    /// The turn is over.
    TurnEnded { reason: EndReason, text: String },
}

impl Event {
    /// Whether the line must have reached the disk before anything else happens.
    ///
    /// What a person said, effects with consequences (before and after), and what is about to be said to a person.
    /// Everything else follows from those by deciding again, so it travels with the next line that must be there.
    pub fn must_be_durable(&self) -> bool {
        match self {
            Event::SessionStarted(_)
            | Event::MessageReceived { .. }
            | Event::CallProbed { .. }
            | Event::SendStarted { .. } => true,
            Event::ToolStarted { class, .. } => *class != EffectClass::Pure,
            Event::ToolFinished { outcome, .. } => outcome.consequential,
            Event::ApprovalGiven { .. }
            | Event::ApprovalRefused { .. }
            | Event::ApprovalExpired { .. }
            | Event::Cancelled { .. }
            | Event::Resumed { .. }
            | Event::CallExamined { .. }
            | Event::ModelAsked { .. }
            | Event::ModelAnswered { .. }
            | Event::ModelFailed { .. }
            | Event::ApprovalAsked { .. }
            | Event::QuestionAsked { .. }
            | Event::StopAsked
            | Event::SendFinished { .. }
            | Event::SendDue { .. }
            | Event::MessageTaken { .. }
            | Event::GateDecided { .. }
            | Event::PlanChanged { .. }
            | Event::LimitReached { .. }
            | Event::Interrupted { .. }
            | Event::TurnEnded { .. } => false,
        }
    }
}

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
}

/// The folder that a session works in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
        }
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
        self.input_tokens + self.output_tokens
    }

    pub fn add(&mut self, other: Usage) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cached_tokens += other.cached_tokens;
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

/// What a probe will look for, written down before the effect: files with their digests before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expectation {
    pub files: Vec<ExpectedFile>,
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
    /// It did not happen.
    DidNotHappen,
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
    /// The whole output, where `output` shows only a part: kept beside the journal, not in it.
    #[serde(skip)]
    pub whole: Option<String>,
    /// Exit code and argv of a command, for the audit table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The effect had consequences, so this line must be durable.
    #[serde(default)]
    pub consequential: bool,
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
            whole: None,
            exit_code: None,
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

/// UTC instant in milliseconds; RFC 3339 on the journal's line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

impl Timestamp {
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// Milliseconds from `earlier` to `self`; 0 where the clock went back.
    pub fn since(self, earlier: Timestamp) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = DateTime::<Utc>::from_timestamp_millis(self.0).unwrap_or_default();
        f.write_str(&at.to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let at = DateTime::parse_from_rfc3339(&text).map_err(serde::de::Error::custom)?;
        Ok(Self(at.timestamp_millis()))
    }
}
