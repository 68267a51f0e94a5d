//! What can be done to the world, and what is written down before.

use crate::agent::carry::Carry;
use crate::agent::charter::Charter;
use crate::agent::checkpoints::{Swap, Way};
use crate::agent::conversation::Wire;
use crate::agent::event::{
    Call, CallId, CommandWish, EffectClass, Event, Expectation, Media, Moment, TreeId, WorkspaceRef,
};
use crate::agent::mcp;
use crate::agent::roles::Role;
use crate::agent::state::{Errand, ErrandWish, Outgoing};
use crate::agent::worktrees::Tree;
use crate::gate::Approved;
use std::borrow::Cow;
use std::sync::Arc;

/// What of the tools a request brings along, as far as the state says; the rest depends on where the session started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Toolset {
    /// Those that write and run.
    pub write: bool,
    pub skills: bool,
    /// Those for work of several steps: once the model has said which.
    pub steps: bool,
    /// Who does not have all of them.
    pub role: Option<Arc<Role>>,
    /// What the command that began the turn leaves of them.
    pub charter: Option<Arc<Charter>>,
    /// Those of MCP servers.
    pub mcp: Arc<mcp::Offer>,
}

impl Toolset {
    /// Whether a tool is taken away.
    pub fn forbids(&self, tool: &str) -> bool {
        let by_role = self.role.as_ref().is_some_and(|role| role.forbids(tool));
        by_role || self.charter.as_ref().is_some_and(|one| one.forbids(tool))
    }
}

/// How far a draft may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftBounds {
    /// Tokens that the turn has left.
    pub tokens: u64,
    /// Micro-dollars that it has left; `None`: as many as it takes.
    pub micros: Option<u64>,
}

/// An effect on the world.
#[derive(Debug)]
pub enum Effect {
    AskModel {
        round: u32,
        model: String,
        messages: Arc<Vec<Wire>>,
        tools: Toolset,
    },
    /// Ask the model for notes on the messages before `end`, which are to be left out.
    Summarise {
        end: usize,
        round: u32,
        model: String,
        messages: Arc<Vec<Wire>>,
        tools: Toolset,
    },
    /// Ask the model for a plan, and for the input of each of its tasks. Whatever it answers, nothing runs.
    Draft {
        graph: String,
        objective: String,
        /// The call that asks for it.
        call: Option<CallId>,
        model: String,
        tools: Toolset,
        bounds: DraftBounds,
    },
    RunTool {
        call: Approved<Call>,
        /// Its name; `mcp.SERVER.TOOL` where it is one of a server.
        tool: Cow<'static, str>,
        class: EffectClass,
        approval: Option<String>,
        /// Whether it is about to be a loop: then the workspace is looked at afterwards.
        watched: bool,
        /// What a probe would look for: what is done must be that.
        expect: Option<Box<Expectation>>,
    },
    /// Wait for the result of a tool that an earlier process started.
    Await {
        call: Call,
    },
    Send {
        outgoing: Outgoing,
    },
    /// Keep the workspace's content, and let go of some that was kept.
    Checkpoint {
        number: u64,
        moment: Moment,
        last: Option<TreeId>,
        drop: Vec<u64>,
    },
    /// Put files back; idempotent.
    PutBack {
        number: u64,
        way: Way,
        swaps: Vec<Swap>,
        from: TreeId,
        force: bool,
    },
    /// Look at what changed since `start`; `None`: nothing did.
    Diff {
        start: Option<TreeId>,
    },
    /// Make sure that a session's own worktree of a folder is there; idempotent.
    MakeWorktree {
        owner: String,
        checkout: WorkspaceRef,
        again: bool,
    },
    /// Carry something between the person's folder and the worktree; twice comes to the same.
    Carry {
        message: String,
        carry: Carry,
        owner: String,
        checkout: WorkspaceRef,
        tree: Tree,
    },
    /// Fetch what came with a message; twice gives the same.
    Fetch {
        message: String,
        media: Media,
    },
    /// Load a command's text for a message: only reads, so that twice does no harm.
    LoadCommand {
        message: String,
        wish: CommandWish,
    },
    /// Meet a wish about schedules or trust, once for each message.
    Errand {
        errand: Errand,
    },
    /// Drop the model's stream and kill process groups.
    Stop,
}

impl Effect {
    /// What is on disk before the effect starts.
    pub fn intent(&self) -> Event {
        match self {
            Effect::AskModel {
                round,
                model,
                messages,
                ..
            } => Event::ModelAsked {
                round: *round,
                messages: messages.len(),
                model: model.clone(),
            },
            Effect::Summarise { end, model, .. } => Event::SummaryAsked {
                messages: *end,
                model: model.clone(),
            },
            Effect::Draft {
                graph,
                objective,
                call,
                ..
            } => Event::DraftStarted {
                graph: graph.clone(),
                objective: objective.clone(),
                call: call.clone(),
            },
            Effect::RunTool {
                call,
                tool,
                class,
                approval,
                watched: _,
                expect: _,
            } => Event::ToolStarted {
                call: call.get().id.clone(),
                tool: tool.clone().into_owned(),
                class: *class,
                approval: approval.clone(),
            },
            Effect::Await { call } => Event::ToolAwaited {
                call: call.id.clone(),
            },
            Effect::Send { outgoing } => Event::SendStarted {
                send: outgoing.send,
                kind: outgoing.kind,
                text: outgoing.text.clone(),
            },
            Effect::Checkpoint { number, moment, .. } => Event::CheckpointStarted {
                number: *number,
                moment: *moment,
            },
            Effect::PutBack {
                way, from, force, ..
            } => Event::PutBackStarted {
                way: *way,
                force: *force,
                from: from.clone(),
            },
            Effect::Diff { .. } => Event::DiffStarted,
            Effect::MakeWorktree {
                checkout, again, ..
            } => Event::WorktreeStarted {
                checkout: checkout.clone(),
                again: *again,
            },
            Effect::Carry { message, carry, .. } => Event::CarryStarted {
                message: message.clone(),
                carry: *carry,
            },
            Effect::Fetch { message, .. } => Event::MediaStarted {
                message: message.clone(),
            },
            Effect::LoadCommand { message, wish } => Event::CommandStarted {
                message: message.clone(),
                wish: wish.clone(),
            },
            Effect::Errand { errand } => {
                let message = errand.message.clone();
                match errand.wish.clone() {
                    ErrandWish::Cron(wish) => Event::CronStarted { message, wish },
                    ErrandWish::Trust(wish) => Event::TrustStarted { message, wish },
                    ErrandWish::Agents(wish) => Event::AgentsStarted { message, wish },
                }
            }
            Effect::Stop => Event::StopAsked,
        }
    }
}
