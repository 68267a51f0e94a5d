//! DECIDES: the next thing to do, from the state alone.
//!
//! `step` is a function: same state and policy, same decision. It records decisions, names effects and never performs
//! one. Whatever needs the outside (a path, a probe) it asks for as a [`Look`].

use crate::agent::checkpoints::{self, Swap, Way};
use crate::agent::event::{
    Call, CallId, EffectClass, EndReason, Event, Expectation, Moment, Outcome, Probe, Status,
    TreeId,
};
use crate::agent::limits::{self, Limits};
use crate::agent::loops::{self, Ahead};
use crate::agent::mask::Masks;
use crate::agent::money::{self, Price};
use crate::agent::recovery::{self, Remedy};
use crate::agent::state::{Outgoing, Pending, Phase, Stage, State, Stop, Turn};
use crate::agent::{compaction, conversation::Wire, reading, wording};
use crate::gate::{self, Approved, Facts, GatePolicy, Touch, Verdict};
use crate::tools::{self, Action, Tool};
use serde_json::Value;

/// Everything but the state that a decision depends on.
#[derive(Debug)]
pub struct Policy {
    pub gate: GatePolicy,
    pub limits: Limits,
    pub resume: Resume,
    pub model: String,
    /// What that model costs, where it is known.
    pub price: Option<Price>,
    pub masks: Masks,
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
    Examine { call: Call, touches: Vec<Touch> },
    /// Whether an effect in doubt happened.
    Probe {
        call: CallId,
        expect: Option<Expectation>,
    },
    /// The state of the workspace, before a call that repeats another one.
    Tree { call: CallId },
    /// What the sessions besides this one have spent in the month.
    Spend { month: String, session: String },
    /// What the journal's file says of its chain, since this message asks.
    Chain { message: String },
}

/// An effect on the world.
#[derive(Debug)]
pub enum Effect {
    AskModel {
        round: u32,
        model: String,
        messages: Vec<Wire>,
        write_enabled: bool,
    },
    /// Ask the model for notes on the messages before `end`, which are to be left out.
    Summarise {
        end: usize,
        round: u32,
        model: String,
        messages: Vec<Wire>,
        write_enabled: bool,
    },
    RunTool {
        call: Approved<Call>,
        tool: &'static str,
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
            Effect::RunTool {
                call,
                tool,
                class,
                approval,
                watched: _,
                expect: _,
            } => Event::ToolStarted {
                call: call.get().id.clone(),
                tool: (*tool).to_owned(),
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
            Effect::Stop => Event::StopAsked,
        }
    }
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
    if let Some(event) = reading::next(state, policy) {
        return record(event);
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
    if let Some(effect) = checkpoints::due(state, policy) {
        return perform(effect);
    }
    match &state.turn {
        Some(turn) if turn.interrupted => go_on_alone(state, policy),
        Some(turn) => step_turn(state, policy, turn),
        None => Decision::Wait,
    }
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
        .any(|pending| left(&pending.stage) && !is_harmless(&pending.call));
    policy.resume == Resume::Auto && !in_doubt
}

/// The same, after a look at what can be looked at.
fn go_on_alone(state: &State, policy: &Policy) -> Decision {
    if policy.resume == Resume::Ask {
        return Decision::Wait;
    }
    for pending in state.calls() {
        match remedy(pending) {
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
    match &turn.phase {
        Phase::Asking | Phase::Summarising(_) if turn.stop == Stop::Wanted => perform(Effect::Stop),
        Phase::Asking | Phase::Summarising(_) => Decision::Wait,
        Phase::Calls(calls) => step_calls(state, policy, turn, calls),
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
        Phase::Ready => ask_model(state, policy, turn),
        Phase::Answered(text) => end(state, EndReason::Done, text.clone()),
        Phase::Failed(why) => failed_turn(state, why),
        Phase::TooLong(why) => {
            compaction::next(state, policy).unwrap_or_else(|| failed_turn(state, why))
        }
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

fn ask_model(state: &State, policy: &Policy, turn: &Turn) -> Decision {
    if policy.limits.month_cents_max > 0 && money::month(state).is_none() {
        return look_at_month(state);
    }
    if let Some((name, text)) = limits::reached(state, policy, turn) {
        return record(Event::LimitReached {
            limit: name.to_owned(),
            text,
        });
    }
    if let Some(first) = compaction::next(state, policy) {
        return first;
    }
    perform(Effect::AskModel {
        round: state.rounds + 1,
        model: policy.model.clone(),
        messages: state.conversation.messages().to_vec(),
        write_enabled: policy.gate.write_enabled(),
    })
}

/// Calls run in order; neighbours without consequences run together.
fn step_calls(state: &State, policy: &Policy, turn: &Turn, calls: &[Pending]) -> Decision {
    if turn.stop != Stop::No {
        return stop_calls(turn, calls);
    }
    let mut others_run = false;
    for (position, pending) in calls.iter().enumerate() {
        match &pending.stage {
            Stage::Finished(_) => continue,
            Stage::Running(_) if is_pure(&pending.call) => {
                others_run = true;
                continue;
            }
            Stage::Running(_) | Stage::Waiting(_) | Stage::Listening => return Decision::Wait,
            _ if others_run && !is_pure(&pending.call) => return Decision::Wait,
            _ => return step_call(state, policy, position, pending),
        }
    }
    Decision::Wait
}

/// Running it once more does no harm, so it is never in doubt.
fn is_harmless(call: &Call) -> bool {
    tools::find(&call.tool).is_some_and(|tool| recovery::remedy(tool.class, None) == Remedy::Rerun)
}

/// What to do about a call that an earlier process left; `None` where it left none.
fn remedy(pending: &Pending) -> Option<Remedy> {
    let Stage::InDoubt(_, probe) = &pending.stage else {
        return None;
    };
    let class = tools::find(&pending.call.tool).map_or(EffectClass::Opaque, |tool| tool.class);
    Some(recovery::remedy(class, probe.as_ref()))
}

fn probe(pending: &Pending) -> Decision {
    Decision::Look(Look::Probe {
        call: pending.call.id.clone(),
        expect: pending.expect.clone(),
    })
}

fn is_pure(call: &Call) -> bool {
    tools::find(&call.tool).is_some_and(|tool| {
        tool.class == EffectClass::Pure && matches!(tool.action, Action::World { .. })
    })
}

/// After a `/cancel`: what runs is told to stop, what does not run never will.
fn stop_calls(turn: &Turn, calls: &[Pending]) -> Decision {
    let running = |pending: &&Pending| matches!(pending.stage, Stage::Running(_));
    if calls.iter().any(|pending| running(&pending)) {
        return if turn.stop == Stop::Wanted {
            perform(Effect::Stop)
        } else {
            Decision::Wait
        };
    }
    match calls
        .iter()
        .find(|pending| !matches!(pending.stage, Stage::Finished(_)))
    {
        Some(pending) if pending.may_have_run => stop_left(turn, pending),
        Some(pending) => finished(
            &pending.call,
            wording::stopped_call(turn.halted.is_some(), pending.may_have_run),
        ),
        // Every call has its result: `apply` has already ended the round.
        None => Decision::Wait,
    }
}

/// What an earlier process left may still run, and must not any more.
fn stop_left(turn: &Turn, pending: &Pending) -> Decision {
    match remedy(pending) {
        Some(Remedy::Probe) => probe(pending),
        Some(Remedy::Await) => perform(Effect::Await {
            call: pending.call.clone(),
        }),
        Some(Remedy::FinishWith(output)) => finished(&pending.call, Outcome::done(output)),
        Some(Remedy::Rerun | Remedy::AskPerson) | None => finished(
            &pending.call,
            wording::stopped_call(turn.halted.is_some(), true),
        ),
    }
}

fn finished(call: &Call, outcome: Outcome) -> Decision {
    record(Event::ToolFinished {
        call: call.id.clone(),
        outcome,
    })
}

fn failed(call: &Call, text: String) -> Decision {
    finished(call, Outcome::failed(text))
}

fn step_call(state: &State, policy: &Policy, position: usize, pending: &Pending) -> Decision {
    let call = &pending.call;
    if let Some(decision) = watch(state, position, pending) {
        return decision;
    }
    let prepared = match prepare(policy, position, call) {
        Ok(prepared) => prepared,
        Err(text) => return failed(call, text),
    };
    match &pending.stage {
        Stage::Proposed => match refused_before(state, pending) {
            Some(answer) => finished(
                call,
                Outcome::new(Status::Denied, wording::refused_before(answer)),
            ),
            None => propose(state, call, prepared),
        },
        Stage::Examined(facts) => {
            let verdict = gate::judge(&policy.gate, &prepared.touches, facts);
            record(Event::GateDecided {
                call: call.id.clone(),
                verdict: policy.masks.verdict(verdict),
                policy_digest: policy.gate.digest().to_owned(),
            })
        }
        Stage::Judged(facts, _) => admit(state, policy, pending, prepared, facts),
        Stage::InDoubt(facts, probe) => {
            let remedy = recovery::remedy(prepared.tool.class, probe.as_ref());
            settle(state, policy, pending, prepared, facts, remedy)
        }
        Stage::Heard(words) => finished(call, Outcome::done(words.clone())),
        Stage::Running(_) | Stage::Waiting(_) | Stage::Listening | Stage::Finished(_) => {
            Decision::Wait
        }
    }
}

/// What there is to do about a call that repeats without progress, before it runs. One that was answered was looked at.
fn watch(state: &State, position: usize, pending: &Pending) -> Option<Decision> {
    let Stage::Proposed = pending.stage else {
        return None;
    };
    if pending.ticket.is_some() {
        return None;
    }
    let call = pending.call.id.clone();
    match loops::ahead(state, position) {
        Ahead::Clear => None,
        Ahead::Wait => Some(Decision::Wait),
        Ahead::Look => Some(Decision::Look(Look::Tree { call })),
        Ahead::Warn(_) if pending.warning.is_some() => None,
        Ahead::Warn(found) => Some(record(Event::LoopWarned {
            call,
            text: wording::loop_warning(&found),
        })),
        Ahead::Stop(found) => Some(record(Event::LimitReached {
            limit: "loop".into(),
            text: wording::loop_stop(&state.texts, &found),
        })),
    }
}

/// A call that fits its tool's schema, and what it would touch.
struct Prepared {
    tool: &'static Tool,
    arguments: Value,
    touches: Vec<Touch>,
}

fn prepare(policy: &Policy, position: usize, call: &Call) -> Result<Prepared, String> {
    if position >= policy.limits.calls_max {
        return Err(wording::too_many_calls(policy.limits.calls_max));
    }
    let Some(tool) = tools::find(&call.tool) else {
        return Err(wording::unknown_tool(&call.tool));
    };
    let arguments = call
        .json()
        .map_err(|error| wording::malformed_arguments(tool.name, &error))?;
    tools::validate(tool, &arguments)?;
    let touches = (tool.touches)(&arguments)?;
    Ok(Prepared {
        tool,
        arguments,
        touches,
    })
}

fn propose(state: &State, call: &Call, prepared: Prepared) -> Decision {
    match &prepared.tool.action {
        Action::World { .. } => Decision::Look(Look::Examine {
            call: call.clone(),
            touches: prepared.touches,
        }),
        Action::Question(ask) => record(Event::QuestionAsked {
            call: call.id.clone(),
            question: ask(&prepared.arguments),
        }),
        Action::Plan(change) => match change(&state.plan, &prepared.arguments) {
            Ok((Some(plan), output)) => record(Event::PlanChanged {
                call: call.id.clone(),
                plan,
                output,
            }),
            Ok((None, output)) => finished(call, Outcome::done(output)),
            Err(text) => failed(call, text),
        },
    }
}

fn admit(
    state: &State,
    policy: &Policy,
    pending: &Pending,
    prepared: Prepared,
    facts: &Facts,
) -> Decision {
    let call = &pending.call;
    let ticket = pending.ticket.as_ref().map(|ticket| gate::Ticket {
        digest: ticket.digest.clone(),
    });
    let context = gate::Circumstances {
        cwd: &state.opening.workspace.path,
        owner: &state.opening.owner,
    };
    match gate::admit(
        &policy.gate,
        &state.grants,
        call,
        &prepared.touches,
        facts,
        context,
        ticket.as_ref(),
    ) {
        Ok(_) if may_change(policy, pending, &prepared) && state.checkpoints.running => {
            Decision::Wait
        }
        Ok(_) if may_change(policy, pending, &prepared) && !is_covered(state) => {
            perform(checkpoints::take(state, policy, Moment::Before))
        }
        Ok(approved) => perform(Effect::RunTool {
            call: approved,
            tool: prepared.tool.name,
            class: prepared.tool.class,
            expect: pending.expect.clone().map(Box::new),
            approval: pending
                .ticket
                .as_ref()
                .map(|ticket| ticket.approval.clone()),
            watched: pending.warning.is_some(),
        }),
        Err(now) if pending.may_have_run && !may_ask(&now, pending) => {
            finished(call, wording::left_in_doubt(&wording::not_again(&now)))
        }
        Err(now) if now.decision == gate::Decision::Deny => {
            finished(call, Outcome::new(Status::Denied, wording::denied(&now)))
        }
        // The person approved something else than what would run now.
        Err(now) if pending.ticket.is_some() => failed(call, wording::approval_void(&now)),
        Err(now) => record(wording::approval_question(state, policy, call, &now, false)),
    }
}

/// Whether the call may change files.
fn may_change(policy: &Policy, pending: &Pending, prepared: &Prepared) -> bool {
    let Stage::Judged(_, verdict) = &pending.stage else {
        return false;
    };
    checkpoints::may_change(policy, &pending.call, &prepared.touches, verdict)
}

/// Whether the workspace is kept as it was before what this round changes from here on.
fn is_covered(state: &State) -> bool {
    let open = state.checkpoints.open.as_ref();
    open.is_some_and(|open| open.round == state.rounds)
}

/// What the model was told when the same call was refused; nothing of that holds for one that was answered since.
fn refused_before<'a>(state: &'a State, pending: &Pending) -> Option<&'a String> {
    let answered = pending.ticket.is_some() || pending.may_have_run;
    let told = || state.refused.get(&pending.call.sameness());
    (!answered).then(told).flatten()
}

/// Whether the person can still be asked: it is no denial, and this is not what was asked before.
fn may_ask(now: &Verdict, pending: &Pending) -> bool {
    now.decision == gate::Decision::Ask && pending.ticket.is_none()
}

fn settle(
    state: &State,
    policy: &Policy,
    pending: &Pending,
    prepared: Prepared,
    facts: &Facts,
    remedy: Remedy,
) -> Decision {
    let call = &pending.call;
    match remedy {
        Remedy::Probe => probe(pending),
        Remedy::Await => perform(Effect::Await { call: call.clone() }),
        Remedy::FinishWith(output) => finished(call, Outcome::done(output)),
        // Judged again, and run again only if that allows it.
        Remedy::Rerun => record(Event::CallProbed {
            call: call.id.clone(),
            probe: Probe::Harmless,
        }),
        Remedy::AskPerson => {
            let verdict = gate::judge(&policy.gate, &prepared.touches, facts);
            record(wording::approval_question(
                state, policy, call, &verdict, true,
            ))
        }
    }
}
