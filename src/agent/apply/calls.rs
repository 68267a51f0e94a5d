//! How the calls of a round go: probed, finished, and their results passed on once all are there.

use super::messages::pass_on_steering;
use super::outbox::{say, say_progress};
use super::{Illegal, asking, graphs, illegal, trust, turn};
use crate::agent::conversation::Worth;
use crate::agent::event::{Call, CallId, Outcome, OutgoingKind, Probe, Status};
use crate::agent::graphs::{RUN, running};
use crate::agent::loops::Sight;
use crate::agent::skills::Skills;
use crate::agent::state::{Pending, Phase, Stage, State, Turn};
use crate::gate::Facts;
use crate::tools::{self, Action};
use std::borrow::Cow;

pub(super) fn pending<'a>(state: &'a mut State, id: &CallId) -> Result<&'a mut Pending, Illegal> {
    let Phase::Calls(calls) = &mut turn(state)?.phase else {
        return illegal(format!("call {id} outside of a round"));
    };
    calls
        .iter_mut()
        .find(|pending| pending.call.id == *id)
        .ok_or_else(|| Illegal {
            what: format!("no call {id} in this round"),
        })
}

pub(super) fn probed(state: &mut State, id: &CallId, probe: &Probe) -> Result<(), Illegal> {
    let pending = pending(state, id)?;
    let Stage::InDoubt(facts, None) = &pending.stage else {
        return illegal(format!("call {id} is not in doubt"));
    };
    match probe {
        // It provably did not run, so its approval was not spent.
        Probe::DidNotHappen | Probe::Harmless => {
            pending.stage = Stage::Proposed;
            pending.may_have_run = false;
        }
        // Judged again like any other, but what it will have done stays what was written down first.
        Probe::HalfDone => {
            pending.stage = Stage::Proposed;
            pending.half_done = true;
        }
        Probe::Happened { .. } | Probe::Kept | Probe::Unclear { .. } => {
            pending.stage = Stage::InDoubt(facts.clone(), Some(probe.clone()));
        }
    }
    Ok(())
}

pub(super) fn see_tree(
    state: &mut State,
    id: &CallId,
    tree: Option<String>,
) -> Result<(), Illegal> {
    let pending = pending(state, id)?;
    match (&pending.stage, &pending.sight) {
        (Stage::Proposed, Sight::Unseen) => {
            pending.sight = Sight::Seen(tree);
            Ok(())
        }
        _ => illegal(format!("the workspace is looked at again before call {id}")),
    }
}

pub(super) fn warn(state: &mut State, id: &CallId, text: &str) -> Result<(), Illegal> {
    let pending = pending(state, id)?;
    match (&pending.stage, &pending.warning) {
        (Stage::Proposed, None) => {
            pending.warning = Some(text.to_owned());
            Ok(())
        }
        _ => illegal(format!("a warning about call {id} comes too late")),
    }
}

/// It runs, or ran, under its keeper: it has its result when that has. Or it began a session, which is to end.
pub(super) fn await_kept(state: &mut State, id: &CallId) -> Result<(), Illegal> {
    let pending = pending(state, id)?;
    let is_over = matches!(pending.stage, Stage::Running(_) | Stage::Finished(_));
    let facts = match &pending.stage {
        Stage::InDoubt(facts, Some(Probe::Kept)) => facts.clone(),
        _ if !is_over && pending.may_have_run && tools::delegates(&pending.call) => {
            Facts::default()
        }
        _ => return illegal(format!("call {id} has nothing to wait for")),
    };
    pending.stage = Stage::Running(facts);
    Ok(())
}

/// What the call began waits for a person, or goes on.
pub(super) fn helper_waits(state: &mut State, id: &CallId, waits: bool) -> Result<(), Illegal> {
    let pending = pending(state, id)?;
    let Stage::Running(_) = pending.stage else {
        return illegal(format!("call {id} does not run, so nobody waits in it"));
    };
    pending.helper_waits = waits;
    Ok(())
}

pub(super) fn finish(state: &mut State, id: &CallId, outcome: &Outcome) -> Result<(), Illegal> {
    let turn = turn(state)?;
    let Phase::Calls(calls) = &mut turn.phase else {
        return illegal(format!("call {id} outside of a round"));
    };
    if let Some(pending) = calls.iter().find(|pending| pending.call.id == *id) {
        turn.deeds.note(&pending.call, outcome);
    }
    let pending = pending(state, id)?;
    if let Stage::Finished(_) = pending.stage {
        return illegal(format!("call {id} ends twice"));
    }
    // Found in place: nobody has its diff any more, but its files are this session's all the same.
    let found = matches!(pending.stage, Stage::InDoubt(..)) && outcome.status == Status::Done;
    let expect = pending.expect.take().filter(|_| found);
    pending.stage = Stage::Finished(outcome.clone());
    let ticket = pending.ticket.take();
    let is_run = pending.call.tool == RUN && outcome.status == Status::Done;
    if let (Some(spent), Some(turn)) = (&outcome.spent, &mut state.turn) {
        turn.spend.add(**spent);
        state.spend.add(**spent);
    }
    let files = expect.into_iter().flat_map(|expect| expect.files);
    state.changed.extend(files.map(|file| file.path));
    state
        .changed
        .extend(outcome.changes.iter().map(|change| change.path.clone()));
    match is_run {
        true => graphs::approve_run(state, ticket),
        false => graphs::tell_progress(state),
    }
    finish_round(state);
    Ok(())
}

/// Once every call of the round has its result: results go to the model in the order of the calls, then what the
/// person said meanwhile, and the chat hears what changed.
pub(super) fn finish_round(state: &mut State) {
    let Some(Turn {
        phase: Phase::Calls(calls),
        ..
    }) = &mut state.turn
    else {
        return;
    };
    let ended = |pending: &Pending| matches!(pending.stage, Stage::Finished(_));
    if !calls.iter().all(ended) {
        return;
    }
    let calls = std::mem::take(calls);
    if running(state).is_some() {
        graphs::close_round(state, calls);
        return;
    }
    if state.turn.as_ref().is_some_and(|turn| turn.asks.is_some()) {
        asking::close_round(state, calls);
        return;
    }
    let mut results = Vec::with_capacity(calls.len());
    let mut warnings = Vec::with_capacity(calls.len());
    for pending in calls {
        warnings.push(state.loops.close(&pending).unwrap_or_default());
        if let Stage::Finished(outcome) = pending.stage {
            results.push((pending.call, outcome));
        }
    }
    let last = results.len() - 1;
    for (i, ((call, outcome), warning)) in results.iter().zip(&warnings).enumerate() {
        let reminder = if i == last {
            plan_reminder(state)
        } else {
            String::new()
        };
        let content = match (warning.as_str(), reminder.as_str()) {
            ("", "") => Cow::Borrowed(outcome.output.as_str()),
            (warning, reminder) => Cow::Owned(format!("{}{warning}{reminder}", outcome.output)),
        };
        let worth = worth(&state.skills, call, outcome);
        state.conversation.tool(call, worth, &content);
    }
    for (call, outcome) in results
        .iter()
        .filter(|(_, outcome)| outcome.status == Status::Done)
    {
        trust::touch(state, call, outcome);
        if let Some(name) = tools::skill_of(call) {
            state.skills.entry(name).or_insert_with(|| call.id.clone());
        }
    }
    let refused = results
        .iter()
        .filter(|(_, outcome)| outcome.status == Status::Denied);
    let refused = refused.map(|(call, outcome)| (call.sameness(), outcome.output.clone()));
    state.refused.extend(refused);
    pass_on_steering(state);
    tell_changes(state, &results);
    tell_progress(state);
    if let Some(turn) = &mut state.turn {
        turn.phase = Phase::Ready;
    }
}

fn worth(skills: &Skills, call: &Call, outcome: &Outcome) -> Worth {
    // Loaded before, it was not loaded by this one.
    let loads = |name: String| !skills.contains_key(&name);
    let asks = |tool: &tools::Tool| matches!(tool.action, Action::Question(_));
    match outcome.status {
        Status::Unknown => Worth::Doubt,
        Status::Denied => Worth::Word,
        Status::Done if tools::find(&call.tool).is_some_and(asks) => Worth::Answer,
        Status::Done if tools::skill_of(call).is_some_and(loads) => Worth::Skill,
        Status::Done | Status::Failed | Status::Cancelled => Worth::Output,
    }
}

/// The plan in a line, with every round's last result: appended, so that the prefix stays what it was.
pub(super) fn plan_reminder(state: &State) -> String {
    match state.plan.current() {
        Some((number, step)) => format!(
            "\n[plan: {}/{} done; now {number}. {}]",
            state.plan.done(),
            state.plan.steps.len(),
            step.text
        ),
        None => String::new(),
    }
}

pub(super) fn tell_changes(state: &mut State, results: &[(Call, Outcome)]) {
    let changes: Vec<_> = results
        .iter()
        .flat_map(|(_, outcome)| &outcome.changes)
        .collect();
    if changes.is_empty() {
        return;
    }
    let names: Vec<String> = changes
        .iter()
        .map(|change| format!("{} (+{} −{})", change.path, change.added, change.removed))
        .collect();
    let diffs: Vec<&str> = changes
        .iter()
        .map(|change| change.diff.trim_end())
        .collect();
    let text = state.texts.say(
        "changed",
        &[("files", &names.join(", ")), ("diff", &diffs.join("\n"))],
    );
    say(state, OutgoingKind::Change, text);
}

pub(super) fn tell_progress(state: &mut State) {
    let Some(turn) = &mut state.turn else { return };
    let done = state.plan.done();
    if done == turn.told_done || state.plan.is_empty() {
        turn.told_done = done;
        return;
    }
    turn.told_done = done;
    let round = turn.round.to_string();
    let values = [
        ("round", round.as_str()),
        ("done", &done.to_string()),
        ("total", &state.plan.steps.len().to_string()),
    ];
    let mut text = state.texts.say("progress", &values);
    if let Some((_, step)) = state.plan.current() {
        text.push_str(&state.texts.say("progress_now", &[("step", &step.text)]));
    }
    say_progress(state, text);
}
