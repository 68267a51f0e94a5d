//! What a session knows, and nothing else: everything here is folded from its journal by [`crate::agent::apply`].
//!
//! No field is ever set from outside, no clock is read: `now` is the time of the last event.

use crate::agent::asking::Asked;
use crate::agent::brief::Briefing;
use crate::agent::carry::Carrying;
use crate::agent::charter::Charter;
use crate::agent::checkpoints::Checkpoints;
use crate::agent::children;
use crate::agent::conversation::{Conversation, Words};
use crate::agent::deeds::Deeds;
use crate::agent::event::{
    Call, CallId, EndReason, Event, Expectation, Got, Inbound, Loaded, Opening, Outcome,
    OutgoingKind, Probe, Record, Timestamp, WorkspaceRef,
};
use crate::agent::forms::{ServerAnswer, ServerQuestion};
use crate::agent::graphs::{Graphs, Work};
use crate::agent::loops::{Loops, Sight};
use crate::agent::mcp;
use crate::agent::money::{Elsewhere, Hearing, Spend};
use crate::agent::plan::Plan;
use crate::agent::quotes::Said;
use crate::agent::reading::together;
use crate::agent::roles::{AgentWish, Role};
use crate::agent::skills::Skills;
use crate::agent::texts::{Catalogues, Texts};
use crate::agent::trust::TrustWish;
use crate::agent::undelivered::Deliveries;
use crate::agent::worktrees::Worktrees;
use crate::gate::{Facts, Pattern, Verdict};
use crate::schedule::wish::Wish;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

/// A session, folded.
#[derive(Debug, Clone)]
pub struct State {
    pub opening: Arc<Opening>,
    pub texts: Arc<Texts>,
    /// The last line of the journal: its number and its hash.
    pub seq: u64,
    pub head: String,
    pub started_at: Timestamp,
    /// The time of the last event.
    pub now: Timestamp,
    pub conversation: Conversation,
    /// Received, not yet understood.
    pub unread: VecDeque<Inbound>,
    /// When each of them came.
    pub came: BTreeMap<String, Timestamp>,
    /// The unread message for which something is being fetched or loaded.
    pub fetching: Option<String>,
    /// What was fetched, by the messages that it came with, until these are taken.
    pub got: BTreeMap<String, Got>,
    /// What was loaded for them: the text of a command.
    pub loaded: BTreeMap<String, Loaded>,
    /// Every message that came, by the channel's id: the same one twice is one.
    pub seen: HashSet<String>,
    /// What became of messages that went out.
    pub deliveries: Deliveries,
    /// The last messages of both sides, for replies that quote one.
    pub said: Said,
    /// Understood, waiting for the next round boundary.
    pub steering: Vec<Words>,
    pub outbox: VecDeque<Outgoing>,
    pub sends: u64,
    /// When the chat last heard where the plan stands.
    pub progress_at: Option<Timestamp>,
    pub turn: Option<Turn>,
    pub plan: Plan,
    /// Plans that are task graphs.
    pub graphs: Graphs,
    /// The question about sources that the last turn was about and got no answer to: it is asked again where somebody says so.
    pub unanswered: Option<Asked>,
    /// Where it works now.
    pub workspace: WorkspaceRef,
    /// The person's folder that this stands for: the same, unless it is a worktree of the session's own.
    pub checkout: WorkspaceRef,
    pub worktrees: Worktrees,
    /// Where the person wants it to work as soon as no round is under way.
    pub moving: Option<WorkspaceRef>,
    /// What belongs to the workspaces that it left, by their paths.
    pub left: BTreeMap<String, Belongings>,
    /// Files that this session changed: a commit takes new ones of these along.
    pub changed: BTreeSet<String>,
    pub grants: Vec<Pattern>,
    /// Calls that were refused since the person last spoke, by what they are, with what the model was told.
    pub refused: BTreeMap<String, String>,
    /// What was called since the person last spoke, and what came of it.
    pub loops: Loops,
    /// Rounds of all turns; calls are numbered by it.
    pub rounds: u32,
    pub spend: Spend,
    pub hearing: Hearing,
    /// What this session spent in the month of its last answer.
    pub month: Option<(String, Spend)>,
    pub elsewhere: Option<Elsewhere>,
    /// Of the turn that ended last.
    pub last_turn: Spend,
    pub last_end: Option<EndReason>,
    pub checkpoints: Checkpoints,
    /// What the model knows of the workspace's own files; `None`: the journal is from before there were any.
    pub briefing: Option<Briefing>,
    /// What the model is offered of MCP servers; `None`: there are none.
    pub mcp: Option<mcp::Known>,
    /// Skills that the model has before it.
    pub skills: Skills,
    /// The agent that it acts as; none: as this program.
    pub role: Option<Arc<Role>>,
    /// Another one, or none, from the next turn on.
    pub next_role: Option<Option<Arc<Role>>>,
    /// What the command that began the last turn lays down for it.
    pub charter: Option<Arc<Charter>>,
    /// How often a process died over its work.
    pub interruptions: u32,
    /// When the person is reminded of what is asked, once: in sessions that a schedule started.
    pub remind_at: Option<Timestamp>,
    /// What the owner wants done about schedules or trust.
    pub errand: Option<Errand>,
    /// What the owner wants carried between their folder and the worktree.
    pub carrying: Option<Carrying>,
    /// `/new` was said: the chat's next message starts another session.
    pub closed: bool,
    /// The other session of this chat whose journal the chat was told is damaged.
    pub damaged: Option<String>,
}

/// What a session has in one workspace, and nowhere else.
#[derive(Debug, Clone, Default)]
pub struct Belongings {
    pub changed: BTreeSet<String>,
    pub grants: Vec<Pattern>,
    pub refused: BTreeMap<String, String>,
    pub checkpoints: Checkpoints,
}

/// From a message to the final answer.
#[derive(Debug, Clone)]
pub struct Turn {
    pub started_at: Timestamp,
    /// The person's message that began it, by the channel's id; `None` where no person did.
    pub message: Option<String>,
    /// The plan that it drafts or runs; `None`: a model says what is done.
    pub work: Option<Work>,
    /// The question about sources that it is about; no model is asked then.
    pub asks: Option<Asked>,
    pub round: u32,
    pub spend: Spend,
    /// Time spent waiting for a person or without a process, which no limit counts.
    pub waited_ms: u64,
    pub phase: Phase,
    pub stop: Stop,
    /// A limit was reached in the middle of a round; the text says which, and ends the turn once it stands still.
    pub halted: Option<String>,
    /// The process died; nothing goes on until somebody says so.
    pub interrupted: bool,
    /// Finished steps of the plan that the chat was told about.
    pub told_done: usize,
    /// Requests in a row that were refused as too long.
    pub overflows: u32,
    pub deeds: Deeds,
}

/// Where in a round the turn is.
#[derive(Debug, Clone)]
pub enum Phase {
    /// The model is to be asked next.
    Ready,
    Asking,
    /// A model is asked for a plan.
    Drafting,
    Calls(Vec<Pending>),
    /// The final answer is there.
    Answered(String),
    Failed(String),
    /// The request was refused as too long: something must be left out first.
    TooLong(String),
    /// The model is asked for notes on so many messages.
    Summarising(usize),
    /// These are its notes, if it made any.
    Summarised(usize, Option<String>),
    /// A limit was reached; the text says which.
    Limited(String),
}

/// How far a `/cancel` got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    No,
    Wanted,
    /// The running effects were told.
    Asked,
}

/// One call of the current round.
#[derive(Debug, Clone)]
pub struct Pending {
    pub call: Call,
    pub stage: Stage,
    /// An approval that was given and not yet spent.
    pub ticket: Option<Ticket>,
    /// What a probe could look for.
    pub expect: Option<Expectation>,
    /// When it last started.
    pub began: Option<Timestamp>,
    /// While it runs: the session that it began waits for a person.
    pub helper_waits: bool,
    /// While it runs: what its MCP server asks the person, and until when.
    pub asked: Option<(ServerQuestion, Timestamp)>,
    /// A probe found a part of it done; its next run finishes it.
    pub half_done: bool,
    /// It was running when a process died, and nobody knows how far it came: whatever becomes of it, it is never "not run".
    pub may_have_run: bool,
    /// The workspace before it, where it repeats another call.
    pub sight: Sight,
    /// For the model, with the result, if that is no progress.
    pub warning: Option<String>,
}

/// An approval: good for one run of exactly what its digest says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    pub approval: String,
    pub digest: String,
}

/// How far a call is.
#[derive(Debug, Clone)]
pub enum Stage {
    Proposed,
    Examined(Facts),
    Judged(Facts, Verdict),
    /// Waits for yes or no.
    Waiting(Question),
    /// Waits for the person's words.
    Listening,
    /// The person's words are there.
    Heard(String),
    Running(Facts),
    /// It was running when the process died.
    InDoubt(Facts, Option<Probe>),
    Finished(Outcome),
}

/// An open approval.
#[derive(Debug, Clone)]
pub struct Question {
    pub approval: String,
    pub digest: String,
    pub expires_at: Timestamp,
    pub pattern: Option<Pattern>,
    /// The channel's ids of the message that asked: a reaction to it, or a reply that quotes it, is an answer.
    pub asked_in: Vec<String>,
    /// The call may have run already.
    pub in_doubt: bool,
}

/// A wish of the owner that is not met yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errand {
    /// The message that said so: it is met once for it.
    pub message: String,
    pub wish: ErrandWish,
    pub at: Timestamp,
    pub running: bool,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrandWish {
    Cron(Wish),
    Trust(TrustWish),
    Agents(AgentWish),
}

/// A message on its way to the chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Number within the session.
    pub send: u64,
    pub kind: OutgoingKind,
    pub text: String,
    /// The code of the question.
    pub approval: Option<String>,
    /// What it can be answered with, for channels that have buttons.
    pub buttons: Vec<Button>,
    pub sending: bool,
    /// Times that it failed.
    pub attempts: u32,
    /// When to try again, after it failed.
    pub due: Option<Timestamp>,
    /// It may have gone out before, and says so.
    pub repeated: bool,
    /// It went out before and did not arrive.
    pub again: bool,
    /// So many of its parts have arrived.
    pub parts: usize,
    /// The channel's ids of those that arrived in attempts that failed.
    pub ids: Vec<String>,
    /// Where the plan stands: nothing is lost where a later message says where it stands then.
    pub fleeting: bool,
    /// It waits until the person writes again.
    pub held: Option<Held>,
    /// The channel took it then, and said later that it takes nothing before the person writes.
    pub closed_at: Option<Timestamp>,
    /// The message that bears the mark of work; with this one the work is over.
    pub answers: Option<String>,
}

/// Since when a message is held back, and when the person had written last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    pub since: Timestamp,
    pub heard: Option<Timestamp>,
}

/// A button: the command that it stands for, and what is written on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Button {
    pub command: String,
    pub title: String,
}

impl Outgoing {
    /// Puts it back into the queue as one that may have gone out; `mark` goes before its text, once.
    pub fn repeat(&mut self, mark: &str) {
        self.sending = false;
        if !std::mem::replace(&mut self.repeated, true) {
            self.text.insert_str(0, mark);
        }
        // What may have gone out twice says so: all of it goes out again, behind the mark.
        self.parts = 0;
    }
}

impl State {
    /// The state after a journal's first line; `None` where that line does not open a session.
    pub fn begin(first: &Record, catalogues: &Catalogues) -> Option<Self> {
        let Event::SessionStarted(opening) = &first.event else {
            return None;
        };
        let fork = opening.fork.as_deref();
        let conversation = match fork {
            Some(fork) => Conversation::taken_over(fork).ok()?,
            None => {
                let mut conversation = Conversation::default();
                conversation.system(&opening.system);
                conversation
            }
        };
        Some(Self {
            workspace: opening.workspace.clone(),
            checkout: opening.workspace.clone(),
            worktrees: Worktrees::default(),
            moving: None,
            left: BTreeMap::new(),
            opening: Arc::new((**opening).clone()),
            texts: catalogues.speaking(opening.language).clone(),
            seq: first.seq,
            head: first.hash.clone(),
            started_at: first.at,
            now: first.at,
            conversation,
            unread: VecDeque::new(),
            came: BTreeMap::new(),
            fetching: None,
            got: BTreeMap::new(),
            loaded: BTreeMap::new(),
            seen: HashSet::new(),
            deliveries: Deliveries::default(),
            said: Said::default(),
            steering: Vec::new(),
            outbox: VecDeque::new(),
            sends: 0,
            progress_at: None,
            turn: None,
            plan: fork.map(|fork| fork.plan.clone()).unwrap_or_default(),
            graphs: Graphs::default(),
            unanswered: None,
            changed: fork
                .map(|fork| fork.changed.iter().cloned().collect())
                .unwrap_or_default(),
            grants: Vec::new(),
            refused: BTreeMap::new(),
            loops: Loops::default(),
            rounds: fork.map_or(0, |fork| fork.rounds),
            spend: Spend::default(),
            hearing: Hearing::default(),
            month: None,
            elsewhere: None,
            last_turn: Spend::default(),
            // What was under way in the parent goes on here once somebody says so.
            last_end: fork
                .filter(|fork| fork.in_turn)
                .map(|_| EndReason::Cancelled),
            checkpoints: Checkpoints::default(),
            briefing: opening.brief.clone().map(|brief| Briefing {
                brief,
                due: fork.is_some(), // what else its parent was told, is told again
                ..Briefing::default()
            }),
            mcp: opening.mcp.then(|| mcp::Known {
                due: true,
                ..mcp::Known::default()
            }),
            skills: Skills::default(),
            role: children::role_of(opening).map(Arc::from),
            next_role: fork
                .and_then(|fork| fork.next_role.as_ref())
                .map(|next| next.role.clone().map(Arc::from)),
            charter: fork.and_then(|fork| fork.charter.clone()).map(Arc::from),
            interruptions: 0,
            remind_at: None,
            errand: None,
            carrying: None,
            closed: false,
            damaged: None,
        })
    }

    /// The one open approval, if any: calls of a round wait for each other.
    pub fn question(&self) -> Option<(&Call, &Question)> {
        self.calls()
            .iter()
            .find_map(|pending| match &pending.stage {
                Stage::Waiting(question) => Some((&pending.call, question)),
                _ => None,
            })
    }

    /// The call whose free question waits for the person's words.
    pub fn listening(&self) -> Option<&Call> {
        self.calls()
            .iter()
            .find(|pending| matches!(pending.stage, Stage::Listening))
            .map(|pending| &pending.call)
    }

    /// The running call whose MCP server asks the person something, what that is, and until when.
    pub fn server_question(&self) -> Option<(&Call, &ServerQuestion, Timestamp)> {
        let running = |pending: &&Pending| matches!(pending.stage, Stage::Running(_));
        self.calls().iter().filter(running).find_map(|pending| {
            let (question, until) = pending.asked.as_ref()?;
            Some((&pending.call, question, *until))
        })
    }

    /// The calls of the current round.
    pub fn calls(&self) -> &[Pending] {
        match self.turn.as_ref().map(|turn| &turn.phase) {
            Some(Phase::Calls(calls)) => calls,
            _ => &[],
        }
    }

    /// The tool of an MCP server that is offered by this name.
    pub fn mcp_tool(&self, name: &str) -> Option<&mcp::Offered> {
        self.mcp.as_ref()?.offer.find(name)
    }

    pub fn pending(&self, id: &CallId) -> Option<&Pending> {
        self.calls().iter().find(|pending| pending.call.id == *id)
    }

    /// Whether the turn can go on only after a person's word.
    pub fn waits_for_person(&self) -> bool {
        self.question().is_some() || self.listening().is_some() || self.server_question().is_some()
    }

    /// Whether a session that one of the running calls began waits for a person.
    pub fn helper_waits(&self) -> bool {
        let waits =
            |pending: &Pending| pending.helper_waits && matches!(pending.stage, Stage::Running(_));
        self.calls().iter().any(waits)
    }

    /// What happens by itself if nothing else does, and when: a question expires or is
    /// asked once more, a message is tried again, nothing more came for a while.
    pub fn next_alarm(&self) -> Option<(Timestamp, Event)> {
        // An answer that came in time counts, also where it is read late.
        let question = self.question().filter(|_| self.unread.is_empty());
        let expiry = question.map(|(_, question)| {
            let approval = question.approval.clone();
            (question.expires_at, Event::ApprovalExpired { approval })
        });
        let due = self.outbox.front().and_then(|front| {
            let event = Event::SendDue { send: front.send };
            Some((front.due?, event))
        });
        let asked = self.server_question().filter(|_| self.unread.is_empty());
        let asked = asked.map(|(call, _, until)| {
            let event = Event::ServerAnswered {
                call: call.id.clone(),
                by: None,
                answer: ServerAnswer::Declined,
            };
            (until, event)
        });
        // A server waits for an answer in this process, and is not told of twice.
        let remind = self.remind_at.filter(|_| self.waits_for_person());
        let remind = remind.filter(|_| self.server_question().is_none());
        let remind = remind.filter(|_| self.unread.is_empty());
        let remind = remind.map(|at| (at, Event::Reminded));
        let alarms = expiry.into_iter().chain(due).chain(remind);
        let alarms = alarms.chain(asked).chain(together::alarm(self));
        alarms.min_by_key(|(at, _)| *at)
    }
}

impl Turn {
    pub fn begin(at: Timestamp, message: Option<String>, told_done: usize) -> Self {
        Self {
            started_at: at,
            message,
            work: None,
            asks: None,
            round: 0,
            spend: Spend::default(),
            waited_ms: 0,
            phase: Phase::Ready,
            stop: Stop::No,
            halted: None,
            interrupted: false,
            told_done,
            overflows: 0,
            deeds: Deeds::default(),
        }
    }
}
