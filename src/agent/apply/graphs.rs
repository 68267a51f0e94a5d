//! Plans: asked for, drafted, judged, run. How each of their tasks stands is kept here, and nowhere else.

use super::calls::{finish, pending, tell_changes};
use super::messages::{pass_on_steering, take_word};
use super::outbox::{notice, say, say_progress};
use super::{Illegal, fresh, illegal, mcp, spend, trust, turn};
use crate::agent::event::{
    By, Call, CallId, DraftCost, Drafted, EndReason, Outcome, OutgoingKind, Outlook, Status,
    TaskCall, Via, Whole,
};
use crate::agent::graphs::{self, Approval, Ended, Known, Made, RUN, Work};
use crate::agent::loops::Loops;
use crate::agent::state::{Pending, Phase, Stage, State, Stop, Ticket, Turn};
use crate::agent::wording;
use crate::gate::{Decision, Facts};
use std::collections::BTreeMap;

const STOPPED: &str = "Stopped before there was a plan.";

pub(super) fn ask(state: &mut State, by: &By, id: &str, objective: &str) -> Result<(), Illegal> {
    if state.graphs.get(id).is_some() {
        return illegal(format!("two plans {id}"));
    }
    begin(state, by)?;
    state.graphs.add(id, objective);
    work_on(state, id, false)
}

pub(super) fn ask_run(state: &mut State, by: &By, id: &str) -> Result<(), Illegal> {
    begin(state, by)?;
    let known = known(state, id)?;
    if known.made.is_none() || known.lost {
        return illegal(format!("plan {id} cannot run"));
    }
    known.ran = true;
    known.look_again();
    work_on(state, id, true)
}

/// A turn that no model begins.
pub(super) fn begin(state: &mut State, by: &By) -> Result<(), Illegal> {
    if state.turn.is_some() {
        return illegal("work of the person's during a turn");
    }
    take_word(state, by)?;
    state.refused.clear();
    state.loops = Loops::default();
    state.charter = None;
    state.worktrees.doubt();
    let person = !matches!(by.via, Via::Schedule | Via::Notice);
    let began = by.message.clone().filter(|_| person);
    state.turn = Some(Turn::begin(state.now, began, state.plan.done()));
    trust::begin_turn(state);
    mcp::begin_turn(state);
    Ok(())
}

fn work_on(state: &mut State, id: &str, runs: bool) -> Result<(), Illegal> {
    let graph = id.to_owned();
    turn(state)?.work = Some(Work { graph, runs });
    state.graphs.left = None;
    Ok(())
}

fn known<'a>(state: &'a mut State, id: &str) -> Result<&'a mut Known, Illegal> {
    state.graphs.get_mut(id).ok_or_else(|| Illegal {
        what: format!("there is no plan {id}"),
    })
}

/// The plan that the turn is about.
fn at_work<'a>(state: &'a mut State, id: &str) -> Result<&'a mut Known, Illegal> {
    let work = turn(state)?.work.as_ref();
    if work.is_none_or(|work| work.graph != id) {
        return illegal(format!("the turn is not about plan {id}"));
    }
    known(state, id)
}

/// The plan that is judged now: the turn is about it, or a call of its waits for it.
fn at_judgement<'a>(state: &'a mut State, id: &str) -> Result<&'a mut Known, Illegal> {
    let call = state
        .graphs
        .get(id)
        .and_then(|known| known.for_call.as_ref());
    let waits = |pending: &Pending| {
        Some(&pending.call.id) == call && matches!(pending.stage, Stage::Proposed)
    };
    match state.calls().iter().any(waits) {
        true => known(state, id),
        false => at_work(state, id),
    }
}

pub(super) fn start_draft(
    state: &mut State,
    id: &str,
    call: Option<&CallId>,
) -> Result<(), Illegal> {
    if let Some(call) = call {
        let now = state.now;
        let pending = pending(state, call)?;
        let Stage::Proposed = pending.stage else {
            return illegal(format!("call {call} asks for a plan twice"));
        };
        pending.stage = Stage::Running(Facts::default());
        pending.began = Some(now);
        return Ok(());
    }
    if at_work(state, id)?.made.is_some() {
        return illegal(format!("plan {id} is drafted twice"));
    }
    let turn = turn(state)?;
    let Phase::Ready = turn.phase else {
        return illegal("a plan is drafted out of turn");
    };
    turn.phase = Phase::Drafting;
    Ok(())
}

pub(super) fn spend_drafting(state: &mut State, cost: &DraftCost) -> Result<(), Illegal> {
    match cost.answers {
        0 => Ok(()),
        _ => spend(state, cost.usage, cost.cost_micros),
    }
}

pub(super) fn drafted_for_person(
    state: &mut State,
    id: &str,
    drafted: &Drafted,
) -> Result<(), Illegal> {
    let known = at_work(state, id)?;
    known.failed = None;
    let failed = match drafted {
        Drafted::Made { .. } => {
            known.made = made(drafted);
            None
        }
        Drafted::Failed { why } => {
            known.failed = Some(why.clone());
            Some(why.clone())
        }
        Drafted::Stopped => Some(STOPPED.to_owned()),
    };
    let turn = turn(state)?;
    let Phase::Drafting = turn.phase else {
        return illegal("a plan that nobody asked for");
    };
    turn.phase = match (failed, turn.stop) {
        (Some(why), Stop::No) => Phase::Failed(why),
        (Some(_) | None, _) => Phase::Ready,
    };
    Ok(())
}

/// `to_judge`: the call has its answer once it is known what would become of the tasks.
pub(super) fn drafted_for_call(
    state: &mut State,
    id: &str,
    call: &CallId,
    drafted: &Drafted,
    to_judge: bool,
) -> Result<(), Illegal> {
    let objective = match &pending(state, call)?.stage {
        Stage::Running(_) => match drafted {
            Drafted::Made { task_graph, .. } => task_graph.objective.clone(),
            Drafted::Failed { .. } | Drafted::Stopped => String::new(),
        },
        _ => return illegal(format!("call {call} asked for no plan")),
    };
    let outcome = match drafted {
        Drafted::Made { .. } => {
            state.graphs.add(id, &objective);
            let known = known(state, id)?;
            known.made = made(drafted);
            if to_judge {
                known.for_call = Some(call.clone());
                pending(state, call)?.stage = Stage::Proposed;
                return Ok(());
            }
            let known = known.clone();
            let text = wording::planned(state, &known);
            say(state, OutgoingKind::Notice, text);
            Outcome::done(wording::planned_for_model(state, &known))
        }
        Drafted::Failed { why } => Outcome::failed(why.clone()),
        Drafted::Stopped => Outcome::new(Status::Cancelled, STOPPED),
    };
    finish(state, call, &outcome)
}

fn made(drafted: &Drafted) -> Option<Made> {
    let Drafted::Made {
        task_graph,
        digest,
        tools,
    } = drafted
    else {
        return None;
    };
    Some(Made {
        graph: task_graph.clone(),
        digest: digest.clone(),
        tools: tools.clone(),
    })
}

pub(super) fn examined(
    state: &mut State,
    id: &str,
    facts: &BTreeMap<String, Facts>,
) -> Result<(), Illegal> {
    let known = at_judgement(state, id)?;
    if known.made.is_none() || known.facts.is_some() {
        return illegal(format!("plan {id} is examined out of turn"));
    }
    known.facts = Some(facts.clone());
    Ok(())
}

pub(super) fn judged(
    state: &mut State,
    id: &str,
    outlooks: &BTreeMap<String, Outlook>,
) -> Result<(), Illegal> {
    let known = at_judgement(state, id)?;
    if known.facts.is_none() || known.outlooks.is_some() {
        return illegal(format!("plan {id} is judged before it is examined"));
    }
    known.outlooks = Some(outlooks.clone());
    let known = known.clone();
    // The end of a turn that is about a plan tells of it by itself.
    if state.turn.as_ref().is_some_and(|turn| turn.work.is_none()) {
        let text = wording::planned(state, &known);
        say(state, OutgoingKind::Notice, text);
    }
    Ok(())
}

pub(super) fn see_wholes(
    state: &mut State,
    id: &str,
    outputs: &BTreeMap<String, Whole>,
) -> Result<(), Illegal> {
    let known = at_work(state, id)?;
    known.wholes.extend(outputs.clone());
    Ok(())
}

/// The calls of the next round, or more of them in the one that is under way.
pub(super) fn call(state: &mut State, calls: Vec<Pending>) -> Result<(), Illegal> {
    if calls.is_empty() {
        return Ok(());
    }
    let turn = turn(state)?;
    match &mut turn.phase {
        Phase::Calls(under_way) => {
            under_way.extend(calls);
            return Ok(());
        }
        Phase::Ready => turn.phase = Phase::Calls(calls),
        _ => return illegal("tasks are called out of turn"),
    }
    turn.round += 1;
    state.rounds += 1;
    Ok(())
}

pub(super) fn propose_run(state: &mut State, id: &str, whole: &Call) -> Result<(), Illegal> {
    let known = at_work(state, id)?;
    if known.outlooks.is_none() || known.approval != Approval::None {
        return illegal(format!("plan {id} is asked about out of turn"));
    }
    match &turn(state)?.phase {
        Phase::Ready => call(state, vec![fresh(whole)]),
        _ => illegal("a plan is proposed in a round"),
    }
}

pub(super) fn call_tasks(
    state: &mut State,
    id: &str,
    tasks: &BTreeMap<String, TaskCall>,
) -> Result<(), Illegal> {
    let known = at_work(state, id)?;
    let mut calls = Vec::new();
    for (task, called) in tasks {
        if known.called.contains_key(task) || known.ended.contains_key(task) {
            return illegal(format!("task {task} is called twice"));
        }
        match (called, graphs::call_of(known, task, called)) {
            (TaskCall::Called { call, .. }, Some(made)) => {
                let ticket = ticket(known, task);
                known.called.insert(task.clone(), call.clone());
                calls.push(Pending {
                    ticket,
                    ..fresh(&made)
                });
            }
            (TaskCall::Called { .. }, None) => {
                return illegal(format!("plan {id} has no task {task}"));
            }
            (TaskCall::Unfit { why }, _) => {
                known.ended.insert(task.clone(), Ended::unfit(why));
            }
        }
    }
    // In the order of the calls' names, as they stand in the journal.
    calls.sort_by_key(|pending| position(&pending.call.id));
    call(state, calls)
}

fn position(id: &CallId) -> usize {
    let position = id.0.rsplit('.').next();
    position
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

/// What the person's yes to the whole run says about this task: exactly what they saw of it.
fn ticket(known: &Known, task: &str) -> Option<Ticket> {
    use crate::agent::event::Judged;
    let Approval::Given(approval) = &known.approval else {
        return None;
    };
    let outlook = known.outlooks.as_ref()?.get(task)?;
    match &outlook.says {
        Judged::Known { verdict, digest } if verdict.decision == Decision::Ask => Some(Ticket {
            approval: approval.clone(),
            digest: digest.clone(),
        }),
        Judged::Known { .. } | Judged::Later | Judged::Unfit { .. } => None,
    }
}

/// The person said yes to the whole run.
pub(super) fn approve_run(state: &mut State, ticket: Option<Ticket>) {
    let work = state.turn.as_ref().and_then(|turn| turn.work.clone());
    let known = work.and_then(|work| state.graphs.get_mut(&work.graph));
    if let (Some(known), Some(ticket)) = (known, ticket) {
        known.approval = Approval::Given(ticket.approval);
    }
}

/// Every call of the round has its result: what became of each task is known now. No model asked for any of this.
pub(super) fn close_round(state: &mut State, calls: Vec<Pending>) {
    let work = state.turn.as_ref().and_then(|turn| turn.work.clone());
    let Some(known) = work.and_then(|work| state.graphs.get_mut(&work.graph)) else {
        return;
    };
    let mut results = Vec::new();
    for pending in calls {
        let Stage::Finished(outcome) = &pending.stage else {
            continue;
        };
        if pending.call.tool == RUN {
            if outcome.status != Status::Done {
                known.approval = Approval::Refused;
            }
            continue;
        }
        let Some(task) = known.task_of(&pending.call.id).map(str::to_owned) else {
            continue;
        };
        match graphs::end_of(&pending) {
            Some(ended) => drop(known.ended.insert(task, ended)),
            None => drop(known.called.remove(&task)),
        }
        results.push((pending.call, outcome.clone()));
    }
    let done = results
        .iter()
        .filter(|(_, outcome)| outcome.status == Status::Done);
    for (call, outcome) in done.cloned().collect::<Vec<_>>() {
        trust::touch(state, &call, &outcome);
    }
    tell_changes(state, &results);
    if let Some(turn) = &mut state.turn {
        turn.phase = Phase::Ready;
    }
}

/// How far a run is, where one of its tasks has just ended.
pub(super) fn tell_progress(state: &mut State) {
    let Some(known) = graphs::running(state) else {
        return;
    };
    let ended = known.ends(state).len();
    let total = known.made.iter().map(|made| made.graph.tasks.len()).sum();
    if ended == 0 || ended >= total {
        return;
    }
    let values = [
        ("id", known.id.as_str()),
        ("ended", &ended.to_string()),
        ("total", &total.to_string()),
    ];
    let text = state.texts.say("graph_progress", &values);
    say_progress(state, text);
}

/// The turn is over. What is left of the plan can go on; the model reads what came of it before anything else is said.
pub(super) fn end_turn(state: &mut State, work: Option<Work>, reason: EndReason) {
    state.graphs.left = None;
    let Some(work) = work else {
        return;
    };
    if let Some(known) = state.graphs.get_mut(&work.graph) {
        known.wholes.clear(); // they are kept where they were found
    }
    let Some(known) = state.graphs.get(&work.graph).cloned() else {
        return;
    };
    let text = wording::graph_for_model(state, &known, &work);
    state.conversation.user(&text);
    let is_open = !known.lost && !known.is_over() && (work.runs || known.made.is_none());
    let refused = known.approval == Approval::Refused;
    state.graphs.left = Some(work).filter(|_| is_open && !refused);
    hear_steering(state, reason);
}

/// Nobody has read what the person said during a turn without a model: it begins one that has one.
pub(super) fn hear_steering(state: &mut State, reason: EndReason) {
    let goes_on = matches!(reason, EndReason::Done | EndReason::Failed);
    if goes_on && !state.steering.is_empty() {
        state.turn = Some(Turn::begin(state.now, None, state.plan.done()));
        trust::begin_turn(state);
        mcp::begin_turn(state);
        pass_on_steering(state);
    }
}

/// Goes on with what the last turn left; its facts are looked up anew.
pub(super) fn take_up(state: &mut State) {
    let Some(work) = state.graphs.left.take() else {
        return;
    };
    if let Some(known) = state.graphs.get_mut(&work.graph) {
        known.look_again();
    }
    if let Some(turn) = &mut state.turn {
        turn.work = Some(work);
    }
}

/// Lines of the journal are gone: any of the tasks may have run in them, so none runs from here on.
pub(super) fn lose(state: &mut State) {
    for known in state.graphs.iter_mut() {
        known.lost = true;
    }
    state.graphs.left = None;
    if let Some(known) = graphs::running(state) {
        let id = known.id.clone();
        notice(state, "graph_lost", &[("id", &id)]);
    }
}
