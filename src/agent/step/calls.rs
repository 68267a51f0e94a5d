//! DECIDES about the calls of one round: examined, judged, admitted, asked about, refused, settled after a crash.
//!
//! As pure as its parent, which decides when it is a round's turn.

use super::{Decision, Effect, Look, Policy, perform, record, tasks};
use crate::agent::event::{Call, EffectClass, Event, Moment, Outcome, Probe, Status};
use crate::agent::loops::{self, Ahead};
use crate::agent::mcp::{self, Offered};
use crate::agent::recovery::{self, Remedy};
use crate::agent::skills;
use crate::agent::state::{Pending, Stage, State, Stop, Turn};
use crate::agent::{charter, checkpoints, graphs, wording, workspaces};
use crate::gate::{self, Facts, Touch, Verdict};
use crate::tools::{self, Action, Tool};
use serde_json::Value;
use std::borrow::Cow;

/// Calls run in order; neighbours without consequences run together, and so do those that work elsewhere.
pub(super) fn step_calls(
    state: &State,
    policy: &Policy,
    turn: &Turn,
    calls: &[Pending],
) -> Decision {
    if turn.stop != Stop::No {
        return stop_calls(state, turn, calls);
    }
    let (mut others_run, mut helpers) = (false, 0);
    for (position, pending) in calls.iter().enumerate() {
        let runs_beside = is_pure(&pending.call) || tools::delegates(&pending.call);
        match &pending.stage {
            Stage::Finished(_) => continue,
            Stage::Running(_) if runs_beside => {
                others_run = true;
                helpers += usize::from(tools::delegates(&pending.call));
                continue;
            }
            Stage::Running(_) | Stage::Waiting(_) | Stage::Listening => return Decision::Wait,
            _ if others_run && !runs_beside => return Decision::Wait,
            _ if tools::delegates(&pending.call) && helpers >= policy.limits.helpers_max => {
                return Decision::Wait;
            }
            _ => return step_call(state, policy, position, pending),
        }
    }
    Decision::Wait
}

/// Running it once more does no harm, so it is never in doubt.
pub(super) fn is_harmless(state: &State, call: &Call) -> bool {
    recovery::remedy(class(state, call), None) == Remedy::Rerun
}

/// What can be known about a call after a crash; nothing, where nobody knows the tool.
pub(super) fn class(state: &State, call: &Call) -> EffectClass {
    let ours = tools::find(&call.tool).map(|tool| tool.class);
    let theirs = || Some(state.mcp_tool(&call.tool)?.class);
    ours.or_else(theirs).unwrap_or(EffectClass::Opaque)
}

/// What to do about a call that an earlier process left; `None` where it left none.
pub(super) fn remedy(state: &State, pending: &Pending) -> Option<Remedy> {
    let Stage::InDoubt(_, probe) = &pending.stage else {
        return None;
    };
    Some(recovery::remedy(
        class(state, &pending.call),
        probe.as_ref(),
    ))
}

pub(super) fn probe(pending: &Pending) -> Decision {
    Decision::Look(Look::Probe {
        call: pending.call.id.clone(),
        expect: pending.expect.clone(),
    })
}

fn is_pure(call: &Call) -> bool {
    tools::find(&call.tool).is_some_and(|tool| {
        let acts = matches!(tool.action, Action::World { .. } | Action::Schedule(_));
        acts && tool.class == EffectClass::Pure
    })
}

/// After a `/cancel`: what runs is told to stop, what does not run never will.
pub(super) fn stop_calls(state: &State, turn: &Turn, calls: &[Pending]) -> Decision {
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
        Some(pending) if pending.may_have_run => stop_left(state, turn, pending),
        Some(pending) => finished(
            &pending.call,
            wording::stopped_call(turn.halted.is_some(), pending.may_have_run),
        ),
        // Every call has its result: `apply` has already ended the round.
        None => Decision::Wait,
    }
}

/// What an earlier process left may still run, and must not any more.
fn stop_left(state: &State, turn: &Turn, pending: &Pending) -> Decision {
    if tools::delegates(&pending.call) {
        // What it began is there by itself, also where it waits for the person.
        return perform(Effect::Await {
            call: pending.call.clone(),
        });
    }
    match remedy(state, pending) {
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

pub(super) fn step_call(
    state: &State,
    policy: &Policy,
    position: usize,
    pending: &Pending,
) -> Decision {
    let call = &pending.call;
    if let Some(decision) = watch(state, position, pending) {
        return decision;
    }
    let prepared = match prepare(state, policy, position, call) {
        Ok(prepared) => prepared,
        Err(text) => return failed(call, text),
    };
    match &pending.stage {
        Stage::Proposed => match refused_before(state, pending) {
            Some(answer) => finished(
                call,
                Outcome::new(Status::Denied, wording::refused_before(answer)),
            ),
            None => match skills::loaded_before(state, call) {
                Some(text) => finished(call, Outcome::done(text)),
                None => propose(state, policy, call, prepared),
            },
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
            let remedy = recovery::remedy(prepared.class, probe.as_ref());
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
    // A plan has an end, and the person saw all of it.
    if pending.ticket.is_some() || graphs::running(state).is_some() {
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
pub(super) struct Prepared {
    tool: &'static Tool,
    name: Cow<'static, str>,
    class: EffectClass,
    arguments: Value,
    pub(super) touches: Vec<Touch>,
}

pub(super) fn prepare(
    state: &State,
    policy: &Policy,
    position: usize,
    call: &Call,
) -> Result<Prepared, String> {
    if position >= policy.limits.calls_max {
        return Err(wording::too_many_calls(policy.limits.calls_max));
    }
    let Some(tool) = tools::find(&call.tool) else {
        return match state.mcp_tool(&call.tool) {
            Some(offered) => prepare_theirs(state, call, offered),
            None => Err(wording::unknown_tool(&call.tool)),
        };
    };
    let arguments = call
        .json()
        .map_err(|error| wording::malformed_arguments(tool.name, &error))?;
    tools::validate(tool, &arguments)?;
    let touches = match charter::forbidden(state, tool.name) {
        // Nothing else of the call matters, and nothing is looked up.
        Some(forbidden) => vec![forbidden],
        None => charter::narrowed(state, (tool.touches)(&arguments)?),
    };
    Ok(Prepared {
        tool,
        name: tool.name.into(),
        class: tool.class,
        arguments,
        touches,
    })
}

/// The same for a tool of an MCP server.
fn prepare_theirs(state: &State, call: &Call, offered: &Offered) -> Result<Prepared, String> {
    let arguments = call
        .json()
        .map_err(|error| wording::malformed_arguments(&call.tool, &error))?;
    mcp::check(offered, &arguments)?;
    Ok(Prepared {
        tool: &tools::MCP,
        name: offered.full_name().into(),
        class: offered.class,
        touches: vec![
            charter::forbidden(state, &offered.name)
                .unwrap_or_else(|| Touch::Mcp(gate::McpTouch::of(offered))),
        ],
        arguments,
    })
}

fn propose(state: &State, policy: &Policy, call: &Call, prepared: Prepared) -> Decision {
    let asks_nobody = matches!(
        prepared.tool.action,
        Action::Question(_) | Action::Plan(_) | Action::Draft(_)
    );
    if let (true, [Touch::Forbidden { .. }]) = (asks_nobody, &prepared.touches[..]) {
        let verdict = gate::judge(&policy.gate, &prepared.touches, &Facts::default());
        return finished(
            call,
            Outcome::new(Status::Denied, wording::denied(&verdict)),
        );
    }
    match &prepared.tool.action {
        Action::World { .. } | Action::Switch | Action::Schedule(_) => {
            Decision::Look(Look::Examine {
                call: call.clone(),
                touches: prepared.touches,
                opening: state.opening.clone(),
            })
        }
        Action::Question(ask) => record(Event::QuestionAsked {
            call: call.id.clone(),
            question: ask(&prepared.arguments),
        }),
        Action::Draft(objective) => match (graphs::made_for(state, &call.id), &state.turn) {
            (Some(known), _) => tasks::tell_of(state, policy, known, call),
            (None, Some(turn)) => {
                let graph = graphs::fresh_id(state, &call.id.0);
                let objective = objective(&prepared.arguments);
                tasks::draft(state, policy, turn, &graph, &objective, Some(&call.id))
            }
            (None, None) => Decision::Wait,
        },
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
        cwd: &state.workspace.path,
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
        Ok(approved) if matches!(prepared.tool.action, Action::Switch) => {
            workspaces::go(state, policy, &approved)
        }
        Ok(approved) => perform(Effect::RunTool {
            call: approved,
            tool: prepared.name,
            class: prepared.class,
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
        Err(now) if has_own_ticket(state, pending) => failed(call, wording::approval_void(&now)),
        Err(now) => record(wording::approval_question(state, policy, call, &now, false)),
    }
}

/// Whether the person was asked about this call and no other. Where they approved a whole plan, they are asked again.
fn has_own_ticket(state: &State, pending: &Pending) -> bool {
    let ticket = pending.ticket.as_ref();
    ticket.is_some_and(|ticket| !graphs::is_of_run(state, &ticket.approval))
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
    let answered = answered || graphs::running(state).is_some();
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
