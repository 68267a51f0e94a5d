//! DECIDES: the next thing to do, from the state alone.
//!
//! `step` is a function: same state and policy, same decision. It records decisions, names effects and never performs
//! one. Whatever needs the outside (a path, a probe) it asks for as a [`Look`].

/// The calls of a round.
mod calls;
/// What is done to the world.
mod effect;
/// Turns that are about a plan.
mod tasks;

pub use effect::{DraftBounds, Effect, Toolset};

use crate::agent::asking::{self, Asked};
use crate::agent::brief::Brief;
use crate::agent::event::{
    Call, CallId, EndReason, Event, Expectation, Opening, OutgoingKind, Printed,
};
use crate::agent::limits::{self, Limits};
use crate::agent::mask::Masks;
use crate::agent::mcp::{self, Offer};
use crate::agent::money::{self, Price};
use crate::agent::recovery::Remedy;
use crate::agent::state::{Outgoing, Phase, Stage, State, Stop, Turn};
use crate::agent::{
    carry, checkpoints, compaction, deeds, graphs, media, reading, roles, wording, workspaces,
    worktrees,
};
use crate::gate::{GatePolicy, Touch};
use crate::schedule::wish::Interrupted;
use calls::{is_harmless, probe, remedy, step_calls};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Everything but the state that a decision depends on.
#[derive(Debug)]
pub struct Policy {
    pub gate: GatePolicy,
    pub limits: Limits,
    pub resume: Resume,
    pub model: String,
    /// What that model costs, where it is known.
    pub price: Option<Price>,
    /// What agents' definitions call models.
    pub aliases: BTreeMap<String, Alias>,
    pub masks: Masks,
}

/// A model under the name that definitions know it by.
#[derive(Debug, Clone, PartialEq)]
pub struct Alias {
    pub model: String,
    pub price: Option<Price>,
    pub context_tokens: Option<u64>,
}

impl Policy {
    /// The model that is asked: the command's or the agent's own, where its name means one here.
    pub fn model_of(&self, state: &State) -> &str {
        self.alias(state).map_or(&self.model, |alias| &alias.model)
    }

    /// What fits into its window.
    pub fn context_tokens(&self, state: &State) -> u64 {
        let own = self.alias(state).and_then(|alias| alias.context_tokens);
        own.unwrap_or(self.limits.context_tokens)
    }

    /// What a model costs, where it is known.
    pub fn price_of(&self, model: &str) -> Option<Price> {
        let alias = self.aliases.values().find(|alias| alias.model == model);
        match alias {
            Some(alias) if model != self.model => alias.price,
            Some(_) | None => self.price,
        }
    }

    fn alias(&self, state: &State) -> Option<&Alias> {
        let charter = state.charter.as_ref().and_then(|one| one.model.as_ref());
        let role = || state.role.as_ref()?.model.as_ref();
        let name = charter.or_else(role)?;
        self.aliases.get(&name.to_ascii_lowercase())
    }
}

/// Who says that an interrupted turn goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resume {
    /// The chat is told and waits for `/agent-resume`.
    Ask,
    /// By itself, where nothing is in doubt.
    Auto,
}

/// What to do next.
#[derive(Debug)]
pub enum Decision {
    /// Write down a decision; it has no effect outside.
    Record(Box<Event>),
    /// Find something out; no consequences, answered at once, recorded as a fact.
    Look(Look),
    /// Write the intent down, then do it.
    Perform(Box<Effect>),
    /// Nothing until an effect ends or a fact arrives.
    Wait,
}

/// A question to the world.
#[derive(Debug)]
pub enum Look {
    /// Which programs and paths the call names, and what they are.
    Examine {
        call: Call,
        touches: Vec<Touch>,
        /// For whom.
        opening: Arc<Opening>,
    },
    /// The same for each task of a plan that can be judged before any of them runs.
    Graph {
        graph: String,
        tasks: Vec<(String, Vec<Touch>)>,
        opening: Arc<Opening>,
    },
    /// The whole outputs of tasks of a plan, which the journal has only parts of.
    Outputs {
        graph: String,
        outputs: Vec<(String, CallId, Option<Printed>)>,
    },
    /// Whether an effect in doubt happened.
    Probe {
        call: CallId,
        expect: Option<Expectation>,
    },
    /// The state of the workspace, before a call that repeats another one.
    Tree { call: CallId },
    /// What MCP servers offer, before a model is asked that is offered this.
    Mcp { known: Arc<Offer> },
    /// The workspace's own files, before a model is asked that knows these, for an agent that touched these files since.
    Brief {
        known: Brief,
        touched: Vec<String>,
        agent: String,
    },
    /// What the sessions besides this one have spent in the month.
    Spend { month: String, session: String },
    /// What the journal's file says of its chain, since this message asks.
    Chain { message: String },
    /// Which workspaces there are, since this message asks, and which one it means.
    Workspaces {
        message: String,
        name: Option<String>,
    },
}

/// The next decision.
pub fn step(state: &State, policy: &Policy) -> Decision {
    if reading::needs_month(state) {
        return look_at_month(state);
    }
    if let Some(message) = reading::audit(state) {
        let message = message.id.clone();
        return Decision::Look(Look::Chain { message });
    }
    if let Some((message, name)) = reading::workspaces(state) {
        let (message, name) = (message.id.clone(), name.map(str::to_owned));
        return Decision::Look(Look::Workspaces { message, name });
    }
    if let Some(event) = reading::next(state, policy) {
        return record(event);
    }
    if let Some(send) = superseded(state) {
        return record(Event::SendSuperseded { send });
    }
    if let Some(front) = state
        .outbox
        .front()
        .filter(|front| !front.sending && front.due.is_none())
    {
        return perform(Effect::Send {
            outgoing: front.clone(),
        });
    }
    if let Some(decision) = media::due(state) {
        return decision;
    }
    if let Some(effect) = checkpoints::due(state, policy) {
        return perform(effect);
    }
    if let Some(errand) = state.errand.as_ref().filter(|errand| !errand.running) {
        return perform(Effect::Errand {
            errand: errand.clone(),
        });
    }
    if let Some(decision) = carry::due(state) {
        return decision;
    }
    if let Some(decision) = workspaces::due(state) {
        return decision;
    }
    match &state.turn {
        Some(turn) if turn.interrupted => go_on_alone(state, policy),
        Some(turn) => step_turn(state, policy, turn),
        None => Decision::Wait,
    }
}

/// A message about where the plan stands that had to wait, where something came after it. A change alone can wait as well.
fn superseded(state: &State) -> Option<u64> {
    let mut outbox = state.outbox.iter();
    let waits = |front: &&Outgoing| front.fleeting && !front.sending && front.due.is_some();
    let front = outbox.next().filter(waits)?;
    let makes_up = |later: &Outgoing| later.kind != OutgoingKind::Change;
    outbox.any(makes_up).then_some(front.send)
}

fn record(event: Event) -> Decision {
    Decision::Record(Box::new(event))
}

fn perform(effect: Effect) -> Decision {
    Decision::Perform(Box::new(effect))
}

/// Not before it is known what the last round changed: what the person does after the last word is the person's.
fn end(state: &State, reason: EndReason, text: String) -> Decision {
    if state.checkpoints.is_unsettled() {
        return Decision::Wait;
    }
    record(Event::TurnEnded { reason, text })
}

/// Whether the configuration says to go on with an interrupted turn: never where something is in doubt.
///
/// Also for a journal that nobody took over yet: what ran in it is in doubt from then on.
pub fn goes_on_alone(state: &State, policy: &Policy) -> bool {
    let left = |stage: &Stage| matches!(stage, Stage::InDoubt(..) | Stage::Running(_));
    let in_doubt = state
        .calls()
        .iter()
        .any(|pending| left(&pending.stage) && !is_harmless(state, &pending.call));
    resume(state, policy) == Resume::Auto && !in_doubt
}

/// What a schedule says about its runs counts more than the configuration.
fn resume(state: &State, policy: &Policy) -> Resume {
    let scheduled = state.opening.scheduled.as_ref();
    match scheduled.and_then(|scheduled| scheduled.terms.interrupted) {
        Some(Interrupted::Report) => Resume::Ask,
        Some(Interrupted::Resume) => Resume::Auto,
        None => policy.resume,
    }
}

/// The same, after a look at what can be looked at.
fn go_on_alone(state: &State, policy: &Policy) -> Decision {
    if resume(state, policy) == Resume::Ask {
        return Decision::Wait;
    }
    for pending in state.calls() {
        match remedy(state, pending) {
            Some(Remedy::Probe) => return probe(pending),
            Some(Remedy::AskPerson) => return Decision::Wait,
            Some(Remedy::Rerun | Remedy::FinishWith(_) | Remedy::Await) | None => {}
        }
    }
    record(Event::Resumed {
        by: wording::configuration(),
    })
}

fn step_turn(state: &State, policy: &Policy, turn: &Turn) -> Decision {
    if let Some(first) = worktrees::first(state, turn) {
        return first;
    }
    match &turn.phase {
        Phase::Asking | Phase::Drafting | Phase::Summarising(_) if turn.stop == Stop::Wanted => {
            perform(Effect::Stop)
        }
        Phase::Asking | Phase::Drafting | Phase::Summarising(_) => Decision::Wait,
        Phase::Calls(calls) => match graphs::running(state) {
            Some(known) => tasks::step_tasks(state, policy, turn, calls, known),
            None => step_calls(state, policy, turn, calls),
        },
        Phase::Ready
        | Phase::Answered(_)
        | Phase::Failed(_)
        | Phase::TooLong(_)
        | Phase::Summarised(..)
        | Phase::Limited(_)
            if turn.stop != Stop::No =>
        {
            match &turn.halted {
                Some(text) => end(state, EndReason::Limit, text.clone()),
                None => end(
                    state,
                    EndReason::Cancelled,
                    state.texts.say("cancelled", &[]),
                ),
            }
        }
        Phase::Ready => match worktrees::failure(state) {
            Some(why) => failed_turn(state, &why),
            None => match (&turn.work, &turn.asks) {
                (Some(work), _) => tasks::next(state, policy, turn, work),
                (None, Some(asked)) => ask_sources(state, policy, turn, asked),
                (None, None) => ask_model(state, policy, turn),
            },
        },
        Phase::Answered(text) => end(state, EndReason::Done, deeds::told(state, turn, text)),
        Phase::Failed(why) => failed_turn(state, why),
        // The notes that it may ask for cost as well.
        Phase::TooLong(why) => stopped_by_limit(state, policy, turn)
            .or_else(|| compaction::next(state, policy))
            .unwrap_or_else(|| failed_turn(state, why)),
        Phase::Summarised(messages, notes) => {
            compaction::with_notes(state, policy, *messages, notes.as_deref())
        }
        Phase::Limited(text) => end(state, EndReason::Limit, text.clone()),
    }
}

fn look_at_month(state: &State) -> Decision {
    Decision::Look(Look::Spend {
        month: state.now.month(),
        session: state.opening.session.clone(),
    })
}

fn failed_turn(state: &State, why: &str) -> Decision {
    let text = state.texts.say("failed", &[("why", why)]);
    end(state, EndReason::Failed, text)
}

/// Before anything is asked of the model: a limit that is reached, or what must be known to tell.
fn stopped_by_limit(state: &State, policy: &Policy, turn: &Turn) -> Option<Decision> {
    if policy.limits.month_cents_max > 0 && money::month(state).is_none() {
        return Some(look_at_month(state));
    }
    let (name, text) = limits::reached(state, policy, turn)?;
    Some(record(Event::LimitReached {
        limit: name.to_owned(),
        text,
    }))
}

/// The person's question is the turn's only call.
fn ask_sources(state: &State, policy: &Policy, turn: &Turn, asked: &Asked) -> Decision {
    stopped_by_limit(state, policy, turn).unwrap_or_else(|| {
        let call = asking::call(state, asked);
        record(Event::SourcesCalled { call })
    })
}

fn ask_model(state: &State, policy: &Policy, turn: &Turn) -> Decision {
    if let Some(stopped) = stopped_by_limit(state, policy, turn) {
        return stopped;
    }
    if let Some(briefing) = state.briefing.as_ref().filter(|known| known.due) {
        return Decision::Look(Look::Brief {
            known: briefing.brief.clone(),
            touched: briefing.fresh.clone(),
            agent: roles::name(state).to_owned(),
        });
    }
    if let Some(look) = look_at_servers(state) {
        return look;
    }
    if let Some(first) = compaction::next(state, policy) {
        return first;
    }
    perform(Effect::AskModel {
        round: state.rounds + 1,
        model: policy.model_of(state).to_owned(),
        messages: state.conversation.shared(),
        tools: toolset(state, policy),
    })
}

/// What MCP servers offer, where a turn has not asked yet.
fn look_at_servers(state: &State) -> Option<Decision> {
    let known = state.mcp.as_ref().filter(|known| known.due)?;
    let known = known.offer.clone();
    Some(Decision::Look(Look::Mcp { known }))
}

/// What the model may call, as far as the state says.
pub fn toolset(state: &State, policy: &Policy) -> Toolset {
    let briefing = state.briefing.as_ref();
    Toolset {
        write: policy.gate.write_enabled(),
        skills: briefing.is_some_and(|known| known.brief.has_skills()),
        steps: !state.plan.is_empty(),
        role: state.role.clone(),
        charter: state.charter.clone(),
        mcp: mcp::offered(state),
    }
}
