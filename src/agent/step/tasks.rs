//! DECIDES about turns that are about a plan: drafted, judged before anything runs, run side by side.
//!
//! The calls of its tasks are calls like any other, so the gate, approvals, limits and recovery are those that there are.
//! What is special: the person is asked about the whole of it first, and a task starts as soon as what it depends on is
//! there and there is room.

use super::calls::{prepare, stop_calls};
use super::{
    Decision, DraftBounds, Effect, Look, Policy, Toolset, calls, end, failed_turn, look_at_month,
    look_at_servers, perform, record, stopped_by_limit, toolset,
};
use crate::agent::event::{
    Call, CallId, EndReason, Event, Judged, Outcome, Outlook, Status, TaskCall,
};
use crate::agent::graphs::{Approval, Ended, Known, RUN, Work, is_run};
use crate::agent::state::{Pending, Stage, State, Stop, Turn};
use crate::agent::{children, deeds, money, wording};
use crate::gate;
use crate::plan::{self, Task};
use crate::tools;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What is next between the rounds of such a turn.
pub(super) fn next(state: &State, policy: &Policy, turn: &Turn, work: &Work) -> Decision {
    let Some(known) = state.graphs.get(&work.graph) else {
        let values = [("id", work.graph.as_str())];
        return failed_turn(state, &state.texts.say("graph_unknown", &values));
    };
    if known.lost {
        let text = state.texts.say("graph_lost", &[("id", &known.id)]);
        return end(state, EndReason::Failed, text);
    }
    if let Some(look) = look_at_servers(state) {
        return look;
    }
    if known.made.is_none() {
        return draft_for_person(state, policy, turn, known);
    }
    match (&known.facts, &known.outlooks) {
        (None, None) => return examine(state, policy, known),
        (Some(_), None) => return judge(state, policy, known),
        (_, Some(_)) => {}
    }
    match work.runs {
        true => run(state, turn, known),
        false => {
            let text = deeds::told(state, turn, &wording::planned(state, known));
            end(state, EndReason::Done, text)
        }
    }
}

fn draft_for_person(state: &State, policy: &Policy, turn: &Turn, known: &Known) -> Decision {
    if let Some(stopped) = stopped_by_limit(state, policy, turn) {
        return stopped;
    }
    draft(state, policy, turn, &known.id, &known.objective, None)
}

/// Asks for a plan, in a turn that has so many tokens left.
pub(super) fn draft(
    state: &State,
    policy: &Policy,
    turn: &Turn,
    graph: &str,
    objective: &str,
    call: Option<&CallId>,
) -> Decision {
    // As for any other question to a model: the month's sum must be fresh.
    if policy.limits.month_cents_max > 0 && money::month(state).is_none() {
        return look_at_month(state);
    }
    let spent = turn.spend.usage.total();
    let tokens_max = children::limits(state, &policy.limits).tokens_max;
    perform(Effect::Draft {
        graph: graph.to_owned(),
        objective: objective.to_owned(),
        call: call.cloned(),
        model: policy.model_of(state).to_owned(),
        tools: Toolset {
            steps: true, // what waits for the steps of a plan, to be offered: here is one
            ..toolset(state, policy)
        },
        bounds: DraftBounds {
            tokens: tokens_max.saturating_sub(spent),
            micros: money::left(state, policy, turn.spend),
        },
    })
}

/// What a call comes to that asked for a plan: first it is known what would become of its tasks.
pub(super) fn tell_of(state: &State, policy: &Policy, known: &Known, asked: &Call) -> Decision {
    // What a command lays down for this turn says nothing about the one in which the person runs it.
    let state = &State {
        charter: None,
        ..state.clone()
    };
    match (&known.facts, &known.outlooks) {
        (None, None) => examine(state, policy, known),
        (Some(_), None) => judge(state, policy, known),
        (_, Some(_)) => record(Event::ToolFinished {
            call: asked.id.clone(),
            outcome: Outcome::done(wording::planned_for_model(state, known)),
        }),
    }
}

/// The tasks that have not been called, each as its call would be if nothing in it had to be looked up first.
fn open_tasks(known: &Known) -> impl Iterator<Item = (&Task, Call)> {
    let made = known.made.iter();
    let tasks = made.flat_map(|made| made.graph.tasks.iter().map(move |task| (made, task)));
    let open = tasks.filter(|(_, task)| !known.called.contains_key(&task.id));
    open.map(|(made, task)| {
        let tool = made.tools.get(&task.id).cloned().unwrap_or_default();
        (task, call(CallId(String::new()), tool, &task.input))
    })
}

fn call(id: CallId, tool: String, input: &Value) -> Call {
    Call {
        id,
        wire_id: String::new(),
        tool,
        arguments: input.to_string(),
    }
}

fn examine(state: &State, policy: &Policy, known: &Known) -> Decision {
    let tasks = open_tasks(known).filter(|(task, _)| plan::references(&task.input).is_empty());
    let touches = |(task, call): (&Task, Call)| {
        let prepared = prepare(state, policy, 0, &call).ok()?;
        Some((task.id.clone(), prepared.touches))
    };
    Decision::Look(Look::Graph {
        graph: known.id.clone(),
        tasks: tasks.filter_map(touches).collect(),
        opening: state.opening.clone(),
    })
}

fn judge(state: &State, policy: &Policy, known: &Known) -> Decision {
    let outlook = |(task, call): (&Task, Call)| {
        let class = calls::class(state, &call);
        let says = judged(state, policy, known, task, &call);
        (task.id.clone(), Outlook { class, says })
    };
    record(Event::GraphJudged {
        graph: known.id.clone(),
        outlooks: open_tasks(known).map(outlook).collect(),
        policy_digest: policy.gate.digest().to_owned(),
    })
}

fn judged(state: &State, policy: &Policy, known: &Known, task: &Task, call: &Call) -> Judged {
    if !plan::references(&task.input).is_empty() {
        return Judged::Later;
    }
    let prepared = match prepare(state, policy, 0, call) {
        Ok(prepared) => prepared,
        Err(why) => return Judged::Unfit { why },
    };
    let facts = known.facts.as_ref().and_then(|facts| facts.get(&task.id));
    let facts = facts.cloned().unwrap_or_default();
    let mut verdict = gate::judge(&policy.gate, &prepared.touches, &facts);
    let digest = gate::digest(call, &state.workspace.path, &state.opening.owner, &verdict);
    let is_granted = |pattern: &gate::Pattern| state.grants.contains(pattern);
    if verdict.decision == gate::Decision::Ask && verdict.pattern.as_ref().is_some_and(is_granted) {
        verdict.decision = gate::Decision::Allow;
    }
    Judged::Known {
        verdict: policy.masks.verdict(verdict),
        digest,
    }
}

fn run(state: &State, turn: &Turn, known: &Known) -> Decision {
    match known.approval {
        Approval::Refused => {
            let text = state.texts.say("graph_refused", &[("id", &known.id)]);
            return end(state, EndReason::Done, text);
        }
        Approval::None if known.asks() => {
            let digest = known.made.as_ref().map(|made| &made.digest);
            let input = json!({"plan": known.id, "digest": digest});
            return record(Event::RunProposed {
                graph: known.id.clone(),
                call: call(call_id(state, 1), RUN.to_owned(), &input),
            });
        }
        Approval::None | Approval::Given(_) => {}
    }
    if let Some(called) = call_tasks(state, known) {
        return called;
    }
    let failed = known.ended.values().any(|end| end.status != Status::Done);
    let text = deeds::told(state, turn, &wording::ran(state, known));
    match failed {
        true => end(state, EndReason::Failed, text),
        false => end(state, EndReason::Done, text),
    }
}

/// The n-th call of the round that is under way, or else of the next one.
fn call_id(state: &State, position: usize) -> CallId {
    let round = state.rounds + u32::from(state.calls().is_empty());
    CallId(format!("{round}.{position}"))
}

/// Calls the tasks that nothing is missing for any more.
fn call_tasks(state: &State, known: &Known) -> Option<Decision> {
    let ends = known.ends(state);
    let ready = known.next(&ends).ready;
    if ready.is_empty() {
        return None;
    }
    if let Some(look) = look_at_outputs(known, &ready, &ends) {
        return Some(look);
    }
    let first = state.calls().len() + 1;
    let called = ready.into_iter().enumerate().filter_map(|(at, id)| {
        let task = known.task(&id)?;
        let called = task_call(state, known, task, &ends, call_id(state, first + at));
        Some((id, called))
    });
    Some(record(Event::TasksCalled {
        graph: known.id.clone(),
        tasks: called.collect(),
    }))
}

/// References bring whole outputs, where the journal has a part of them.
fn look_at_outputs(
    known: &Known,
    ready: &[String],
    ends: &BTreeMap<String, Ended>,
) -> Option<Decision> {
    let tasks = ready.iter().filter_map(|id| known.task(id));
    let cut = tasks.flat_map(|task| known.cut_before(task, ends));
    let cut: BTreeMap<String, &Ended> = cut.collect();
    let outputs = cut
        .into_iter()
        .filter_map(|(task, ended)| Some((task, ended.cut.clone()?, ended.printed)));
    let outputs: Vec<_> = outputs.collect();
    (!outputs.is_empty()).then(|| {
        Decision::Look(Look::Outputs {
            graph: known.id.clone(),
            outputs,
        })
    })
}

/// With its references resolved, and looked at again: what is known now may not fit.
fn task_call(
    state: &State,
    known: &Known,
    task: &Task,
    ends: &BTreeMap<String, Ended>,
    call: CallId,
) -> TaskCall {
    let made = known.made.as_ref();
    let tool = made.and_then(|made| made.tools.get(&task.id));
    let fits = |input: &Value| match tool.and_then(|tool| schema(state, tool)) {
        Some(schema) => plan::validate(&schema, input),
        None => Err(wording::unknown_tool(
            tool.map(String::as_str).unwrap_or_default(),
        )),
    };
    let input = known.arguments(task, ends);
    match input.and_then(|input| fits(&input).map(|()| input)) {
        Ok(input) => TaskCall::Called {
            call,
            arguments: input.to_string(),
        },
        Err(why) => TaskCall::Unfit { why },
    }
}

fn schema(state: &State, tool: &str) -> Option<Value> {
    let ours = tools::find(tool).map(|tool| (tool.schema)());
    ours.or_else(|| Some(state.mcp_tool(tool)?.schema.clone()))
}

/// The calls of a round of a run: side by side, as many as there may be. What the person must be asked about comes last, so
/// that nothing waits for it that need not.
pub(super) fn step_tasks(
    state: &State,
    policy: &Policy,
    turn: &Turn,
    calls: &[Pending],
    known: &Known,
) -> Decision {
    if turn.stop != Stop::No {
        return stop_calls(state, turn, calls);
    }
    if let Some(whole) = calls.iter().find(|pending| is_run(state, &pending.call)) {
        return step_run(state, policy, whole, known);
    }
    let runs = |pending: &&Pending| matches!(pending.stage, Stage::Running(_));
    let running = calls.iter().filter(runs).count();
    let is_full = running >= policy.limits.plan_parallel_max.max(1)
        || calls
            .iter()
            .filter(runs)
            .any(|pending| is_alone(&pending.call));
    let helpers = calls.iter().filter(runs);
    let helpers = helpers.filter(|pending| tools::delegates(&pending.call));
    let is_full_of_helpers = helpers.count() >= policy.limits.helpers_max;
    let mut question = None;
    for pending in calls {
        let decision = match &pending.stage {
            Stage::Finished(_) | Stage::Running(_) => continue,
            // Asked only once all else is done.
            Stage::Waiting(_) | Stage::Listening => return Decision::Wait,
            Stage::InDoubt(..) => calls::step_call(state, policy, 0, pending),
            _ if is_full || running > 0 && is_alone(&pending.call) => continue,
            _ if is_full_of_helpers && tools::delegates(&pending.call) => continue,
            _ => calls::step_call(state, policy, 0, pending),
        };
        match decision {
            Decision::Wait => {}
            Decision::Record(event) if matches!(*event, Event::ApprovalAsked { .. }) => {
                question.get_or_insert(event);
            }
            decision => return decision,
        }
    }
    if let Some(called) = call_tasks(state, known) {
        return called;
    }
    match question {
        Some(question) if running == 0 => Decision::Record(question),
        Some(_) | None => Decision::Wait,
    }
}

/// git looks at all of the workspace, and changes what others of its processes would wait for: nothing runs beside it.
fn is_alone(call: &Call) -> bool {
    call.tool.starts_with("git_")
}

/// The question about the whole run, and what its answer comes to.
fn step_run(state: &State, policy: &Policy, pending: &Pending, known: &Known) -> Decision {
    let digest = known.run_digest(state);
    let outcome = match (&pending.stage, &pending.ticket) {
        (Stage::Waiting(_), _) => return Decision::Wait,
        (Stage::Proposed, None) => {
            return record(wording::run_question(
                state,
                policy,
                &pending.call,
                known,
                digest,
            ));
        }
        (Stage::Proposed, Some(ticket)) if ticket.digest == digest => Outcome::done("Approved."),
        _ => Outcome::new(Status::Denied, "Not run: this is not what was asked about."),
    };
    record(Event::ToolFinished {
        call: pending.call.id.clone(),
        outcome,
    })
}
