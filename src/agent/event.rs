//! What can happen in a session: the vocabulary of the journal.
//!
//! Facts come from outside, intents precede effects, outcomes follow them, decisions are ours. An event carries all
//! that `apply` needs, so that folding a journal never has to look at the world. Nothing here computes anything.

/// Calls, and what is written down before one runs.
mod call;
/// Trees of the workspace.
mod checkpoint;
/// Commands that are written in files.
mod commands;
/// Task graphs.
mod graphs;
/// A line, read.
mod line;
/// What is not text.
mod media;
/// A message, and what it was understood as.
mod message;
/// The first line.
mod opening;
/// How calls and turns ended.
mod outcome;
/// A channel that is closed.
mod sent;
/// Instants.
mod timestamp;

pub use call::{
    Answer, Call, CallId, EffectClass, Expectation, ExpectedFile, ExpectedMark, Names, Probe, Usage,
};
pub use checkpoint::{CheckpointTaken, Moment, Restored, TreeId};
pub use commands::*;
pub use graphs::*;
pub use media::*;
pub use message::{Along, By, Inbound, NotDelivered, OpenQuestion, Reading, TooMany, Via};
pub use opening::{Fork, NextRole, Opening, Scheduled, WorkspaceRef};
pub use outcome::{EndReason, FileChange, Outcome, OutgoingKind, Printed, Status};
pub use sent::*;
pub use timestamp::Timestamp;

use crate::agent::brief::Brief;
use crate::agent::carry::{Carried, Carry};
use crate::agent::checkpoints::Way;
use crate::agent::forms::{ServerAnswer, ServerQuestion};
use crate::agent::mcp::Offer;
use crate::agent::money::Spend;
use crate::agent::plan::Plan;
use crate::agent::roles::{AgentAnswer, AgentWish};
use crate::agent::trust::{TrustAnswer, TrustWish};
use crate::agent::worktrees::Made;
use crate::gate::{Destination, Facts, Pattern, Verdict};
use crate::schedule::wish::{self as schedule, Wish};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize)]
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

/// The enum as it is written, and a twin of its definition from which [`line`] reads it: serde's own way to read what is
/// tagged like this copies every line into a tree first, twice.
macro_rules! written_and_read {
    ($(#[$about:meta])* pub enum Event $variants:tt) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(tag = "event", rename_all = "snake_case")]
        pub enum Event $variants

        #[derive(Deserialize)]
        #[serde(remote = "Event", rename_all = "snake_case")]
        enum Read $variants
    };
}

written_and_read! {
/// One thing that happened. Tagged by `event` on the journal's line.
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
    /// It is time to say once more what is asked.
    Reminded,
    /// It is time to try a message again.
    SendDue { send: u64 },
    /// Nothing more came for a while: what waited for it starts a turn.
    TogetherDue,
    /// The owner stopped the turn, and `with` it what they had sent before that and nobody has read yet.
    Cancelled {
        by: By,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        with: Vec<String>,
    },
    /// The owner wants the workspace put back, or an undo taken back.
    UndoAsked { by: By, way: Way, force: bool },
    /// The owner wants to see what the session changed.
    DiffAsked { by: By },
    /// The owner wants something done about schedules.
    CronAsked { by: By, wish: Wish },
    /// The owner wants to trust the workspace, or not any more.
    TrustAsked { by: By, wish: TrustWish },
    /// The owner wants something carried between their folder and the session's own worktree of it.
    CarryAsked {
        by: By,
        carry: Carry,
        checkout: WorkspaceRef,
    },
    /// The owner wants the session to act as an agent, or to know which there are.
    AgentsAsked { by: By, wish: AgentWish },
    /// The owner wants a question about sources answered, by nobody but the one who answers such questions.
    SourcesAsked {
        by: By,
        sources: Vec<String>,
        question: String,
    },
    /// The owner wants a plan made for an objective.
    GraphAsked {
        by: By,
        graph: String,
        objective: String,
    },
    /// The owner wants a plan to be run.
    GraphRunAsked { by: By, graph: String },
    /// The owner (or the configuration) said to go on after an interruption, a limit, a failure or a cancel.
    Resumed { by: By },
    /// What the world resolved for the gate, and what a probe could look for if this process died.
    CallExamined {
        call: CallId,
        facts: Facts,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expect: Option<Expectation>,
    },
    /// The state of the workspace before a call that repeats another one; `None`: it cannot be told.
    TreeSeen { call: CallId, tree: Option<String> },
    /// What the other sessions have spent in a month; `None`: it could not be looked up.
    SpendSeen {
        month: String,
        elsewhere: Option<Spend>,
    },
    /// This journal was damaged after the line before; a person said to go on from there. What came after is kept in
    /// `file`, and what it recorded may have happened.
    TailSetAside {
        lines: u64,
        bytes: u64,
        /// SHA-256 of what was set aside.
        digest: String,
        file: String,
        /// What was wrong with the first line of it.
        what: String,
    },
    /// Another journal of this chat is damaged at this line; the chat is told here.
    JournalDamaged {
        session: String,
        line: u64,
        what: String,
    },
    /// `/audit`: this journal was read again from its file.
    ChainVerified {
        message: String,
        lines: u64,
        head: String,
        /// What is wrong with it, and where.
        damage: Option<String>,
    },
    /// `/workspaces`, `/workspace NAME`: which workspaces there are, and which one the name means.
    WorkspacesSeen {
        message: String,
        names: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wanted: Option<Destination<WorkspaceRef>>,
    },
    /// The workspace's own files as they are now; `text` is what the model reads of them, and is empty where it knows.
    BriefSeen {
        brief: Brief,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
    },
    /// What MCP servers offer from here on; `None`: what they offered before.
    McpSeen {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offer: Option<Box<Offer>>,
    },
    /// What the world resolved for the gate about a plan's tasks that have not run.
    GraphExamined {
        graph: String,
        facts: BTreeMap<String, Facts>,
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
    /// The model is about to be asked for notes on the first `messages` messages, which are to be left out.
    SummaryAsked { messages: usize, model: String },
    /// A tool is about to run. With consequences, hence on disk first.
    ToolStarted {
        call: CallId,
        tool: String,
        class: EffectClass,
        approval: Option<String>,
    },
    /// A tool that an earlier process started is waited for: nothing is started by this.
    ToolAwaited { call: CallId },
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
    /// The workspace's content is about to be kept. No consequences: twice is as good as once.
    CheckpointStarted { number: u64, moment: Moment },
    /// Files are about to be put back: those that differ from `from`, the workspace as the person saw it.
    PutBackStarted { way: Way, force: bool, from: TreeId },
    /// What changed is about to be looked at.
    DiffStarted,
    /// The session's own worktree of a folder is about to be made sure of: made, where it is not there. `again`: it was
    /// there in an earlier turn.
    WorktreeStarted {
        checkout: WorkspaceRef,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        again: bool,
    },
    /// That is about to be done; twice comes to the same.
    CarryStarted { message: String, carry: Carry },
    /// What came with a message is about to be fetched; twice gives the same.
    MediaStarted { message: String },
    /// The text of a command is about to be loaded, for this message. No consequences: it is only read.
    CommandStarted { message: String, wish: CommandWish },
    /// A wish about schedules is about to be met; once for each message, however often it starts.
    CronStarted { message: String, wish: Wish },
    /// A wish about trust is about to be met; twice does no harm.
    TrustStarted { message: String, wish: TrustWish },
    /// A model is about to be asked for a plan, and for the input of each of its tasks. No consequences.
    DraftStarted {
        graph: String,
        objective: String,
        /// The call that asks for it; `None`: the person does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallId>,
    },
    /// Agents are about to be looked up.
    AgentsStarted { message: String, wish: AgentWish },

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
    /// The model's notes; empty where it made none, or where `error` says why there are none.
    SummaryGiven {
        text: String,
        usage: Usage,
        /// As an answer's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_micros: Option<u64>,
        attempts: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// What came of drafting a plan.
    GraphDrafted {
        graph: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallId>,
        drafted: Drafted,
        cost: DraftCost,
        /// The call is answered once its tasks are judged; in older journals it is answered with this.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        to_judge: bool,
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
        /// How many of its parts had arrived: the next try goes on after them.
        #[serde(default, skip_serializing_if = "is_none_yet")]
        parts: usize,
        /// Nothing was tried, or nothing was taken, before the person writes again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        closed: Option<Closed>,
    },

    /// The workspace's content is kept, or is not.
    Checkpoint(CheckpointTaken),
    /// Files were put back, or not.
    PutBack { restored: Restored },
    /// What the session changed; empty where that is nothing.
    DiffShown { text: String },
    /// What came of making sure of a worktree of the folder at this path.
    WorktreeMade { checkout: String, made: Made },
    /// What came of carrying something between the person's folder and the worktree.
    Carried { carried: Carried },
    /// What became of what came with a message.
    MediaFetched { message: String, got: Got },
    /// What came of loading a command.
    CommandLoaded { message: String, loaded: Loaded },
    /// What came of a wish about schedules.
    CronAnswered { answer: schedule::Answer },
    /// What came of a wish about trust.
    TrustAnswered { answer: TrustAnswer },
    /// What came of a wish about agents; one that was chosen counts from the next turn on.
    AgentsAnswered { answer: AgentAnswer },

    // --- decisions -------------------------------------------------------------------------------------------------
    /// What a message was understood as, and what the chat is told at once.
    MessageTaken {
        message: String,
        reading: Reading,
        reply: Option<String>,
        /// What the model reads about the message that this one quotes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quote: Option<String>,
        /// What it reads about the file that came with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attached: Option<String>,
        /// What it sees of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        image: Option<Image>,
        /// Messages that came right after it and are taken with it, as one.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        with: Vec<Along>,
    },
    /// The gate's verdict on a call.
    GateDecided {
        call: CallId,
        verdict: Verdict,
        policy_digest: String,
    },
    /// What would become of a plan's tasks that have not run.
    GraphJudged {
        graph: String,
        outlooks: BTreeMap<String, Outlook>,
        policy_digest: String,
    },
    /// The MCP server that a running call is at asks the person something; the next plain message is the answer.
    ServerAsked {
        call: CallId,
        question: ServerQuestion,
        expires_at: Timestamp,
    },
    /// What it is told: the person's answer, or `None` where nobody answered in time.
    ServerAnswered {
        call: CallId,
        by: Option<By>,
        answer: ServerAnswer,
    },
    /// The session that a running call began waits for a person, or does no more. That time is not the turn's.
    HelperWaits { call: CallId, waits: bool },
    /// The owner's question about sources becomes a call, which no model made.
    SourcesCalled { call: Call },
    /// The whole outputs of tasks that ended, where references lead to what the journal has only a part of.
    WholesSeen {
        graph: String,
        outputs: BTreeMap<String, Whole>,
    },
    /// A plan is about to run, and the person is to be asked first: `call` stands for all of it, and runs nothing.
    RunProposed { graph: String, call: Call },
    /// Everything that these tasks of the plan depend on is there.
    TasksCalled {
        graph: String,
        tasks: BTreeMap<String, TaskCall>,
    },
    /// The plan is now this one; `output` is what the model reads about it.
    PlanChanged {
        call: CallId,
        plan: Plan,
        output: String,
    },
    /// From here on everything happens in another workspace. `call` asked for it, or else the person did; `output` is
    /// what the model reads about it.
    WorkspaceSwitched {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallId>,
        workspace: WorkspaceRef,
        output: String,
    },
    /// A call is about to repeat without progress. The model reads this with its result, unless that brings something new.
    LoopWarned { call: CallId, text: String },
    /// The conversation became shorter; from here on it only grows again. `digest` stands for the messages before the
    /// `messages`-th, the system prompt excepted (0: for none), references for the results of these calls.
    Compacted {
        #[serde(default)]
        messages: usize,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        digest: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        results: Vec<CallId>,
        /// Our own estimates.
        tokens_before: u64,
        tokens_after: u64,
    },
    /// This message about where the plan stands is not sent: a later one says it all.
    SendSuperseded { send: u64 },
    /// A limit of the configuration was reached, or the next call would go on in a loop.
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
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_none_yet(parts: &usize) -> bool {
    *parts == 0
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
            | Event::TailSetAside { .. }
            | Event::JournalDamaged { .. }
            | Event::PutBackStarted { .. }
            | Event::PutBack { .. }
            | Event::CarryStarted { .. }
            | Event::Carried { .. }
            | Event::MediaStarted { .. }
            | Event::MediaFetched { .. }
            | Event::GraphDrafted { .. }
            | Event::SendStarted { .. } => true,
            Event::CronStarted { wish, .. } => wish.changes(),
            Event::CronAnswered { answer } => !matches!(answer, schedule::Answer::Listed { .. }),
            Event::TrustStarted { wish, .. } => *wish != TrustWish::Show,
            Event::AgentsAnswered { answer } => !matches!(answer, AgentAnswer::Listed { .. }),
            Event::TrustAnswered { answer } => !matches!(answer, TrustAnswer::Shown { .. }),
            Event::WorktreeStarted { again, .. } => !again,
            Event::WorktreeMade { made, .. } => !matches!(made, Made::Own { fresh: false, .. }),
            Event::ToolStarted { class, .. } => *class != EffectClass::Pure,
            Event::ToolFinished { outcome, .. } => outcome.consequential,
            // It leaves this program: what was said is on disk before.
            Event::ServerAnswered { .. } => true,
            Event::ApprovalGiven { .. }
            | Event::ApprovalRefused { .. }
            | Event::ApprovalExpired { .. }
            | Event::Cancelled { .. }
            | Event::Resumed { .. }
            | Event::UndoAsked { .. }
            | Event::DiffAsked { .. }
            | Event::CronAsked { .. }
            | Event::TrustAsked { .. }
            | Event::CarryAsked { .. }
            | Event::AgentsAsked { .. }
            | Event::AgentsStarted { .. }
            | Event::HelperWaits { .. }
            | Event::ServerAsked { .. }
            | Event::SourcesAsked { .. }
            | Event::SourcesCalled { .. }
            | Event::GraphAsked { .. }
            | Event::GraphRunAsked { .. }
            | Event::GraphExamined { .. }
            | Event::WholesSeen { .. }
            | Event::GraphJudged { .. }
            | Event::DraftStarted { .. }
            | Event::RunProposed { .. }
            | Event::TasksCalled { .. }
            | Event::BriefSeen { .. }
            | Event::McpSeen { .. }
            | Event::CommandStarted { .. }
            | Event::CommandLoaded { .. }
            | Event::CheckpointStarted { .. }
            | Event::Checkpoint(_)
            | Event::DiffStarted
            | Event::DiffShown { .. }
            | Event::CallExamined { .. }
            | Event::SpendSeen { .. }
            | Event::TreeSeen { .. }
            | Event::LoopWarned { .. }
            | Event::ChainVerified { .. }
            | Event::WorkspacesSeen { .. }
            | Event::WorkspaceSwitched { .. }
            | Event::ToolAwaited { .. }
            | Event::ModelAsked { .. }
            | Event::ModelAnswered { .. }
            | Event::ModelFailed { .. }
            | Event::SummaryAsked { .. }
            | Event::SummaryGiven { .. }
            | Event::Compacted { .. }
            | Event::ApprovalAsked { .. }
            | Event::QuestionAsked { .. }
            | Event::StopAsked
            | Event::SendFinished { .. }
            | Event::SendDue { .. }
            | Event::SendSuperseded { .. }
            | Event::TogetherDue
            | Event::Reminded
            | Event::MessageTaken { .. }
            | Event::GateDecided { .. }
            | Event::PlanChanged { .. }
            | Event::LimitReached { .. }
            | Event::Interrupted { .. }
            | Event::TurnEnded { .. } => false,
        }
    }
}
