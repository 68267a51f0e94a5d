//! The only place where the state changes: `apply(state, record)`.
//!
//! An event that is illegal in a state is an error, never ignored (invariant 2): it means that the journal and this
//! program disagree about what happened, and nothing may go on from there.

use crate::agent::event::{
    Answer, By, Call, CallId, EndReason, Event, Inbound, Outcome, OutgoingKind, Probe, Reading,
    Record, Status, Timestamp,
};
use crate::agent::state::{Outgoing, Pending, Phase, Question, Stage, State, Stop, Ticket, Turn};
use crate::agent::{recovery, wording};
use crate::gate::Pattern;
use thiserror::Error;

/// An event that cannot have happened in this state.
#[derive(Debug, Error)]
#[error("illegal event: {what}")]
pub struct Illegal {
    pub what: String,
}

fn illegal<T>(what: impl Into<String>) -> Result<T, Illegal> {
    Err(Illegal { what: what.into() })
}

/// Takes the next line of the journal into the state.
///
/// # Errors
/// [`Illegal`] where the event cannot follow what is already known.
pub fn apply(state: &mut State, record: &Record) -> Result<(), Illegal> {
    if record.seq != state.seq + 1 {
        return illegal(format!("line {} after line {}", record.seq, state.seq));
    }
    pass_time(state, record);
    happen(state, &record.event).map_err(|error| Illegal {
        what: format!("line {}: {}", record.seq, error.what),
    })?;
    state.seq = record.seq;
    state.head.clone_from(&record.hash);
    Ok(())
}

/// Time without work is not the turn's: somebody else was waited for, or no process was there.
fn pass_time(state: &mut State, record: &Record) {
    let idle = state.waits_for_person() || matches!(record.event, Event::Interrupted { .. });
    let gap = record.at.since(state.now);
    state.now = state.now.max(record.at);
    if let Some(turn) = &mut state.turn
        && (idle || turn.interrupted)
    {
        turn.waited_ms += gap;
    }
}

fn happen(state: &mut State, event: &Event) -> Result<(), Illegal> {
    match event {
        Event::SessionStarted(_) => illegal("a session starts once"),
        Event::MessageReceived { message } => {
            if !state.seen.insert(message.id.clone()) {
                return illegal(format!("message {} came before", message.id));
            }
            state.unread.push_back(message.clone());
            Ok(())
        }
        Event::MessageTaken {
            message,
            reading,
            reply,
        } => take_message(state, message, reading, reply.as_deref()),
        Event::ApprovalGiven {
            approval,
            by,
            always,
        } => approve(state, approval, by, always.as_ref()),
        Event::ApprovalRefused {
            approval,
            by,
            reason,
        } => refuse(state, approval, by, reason.as_deref()),
        Event::ApprovalExpired { approval } => expire(state, approval),
        Event::Cancelled { by } => cancel(state, by),
        Event::Resumed { by } => resume(state, by),
        Event::CallExamined {
            call,
            facts,
            expect,
        } => {
            let pending = pending(state, call)?;
            let Stage::Proposed = pending.stage else {
                return illegal(format!("call {call} was examined already"));
            };
            pending.stage = Stage::Examined(facts.clone());
            pending.expect = expect.clone();
            Ok(())
        }
        Event::GateDecided { call, verdict, .. } => {
            let pending = pending(state, call)?;
            let Stage::Examined(facts) = &pending.stage else {
                return illegal(format!("call {call} is judged before it is examined"));
            };
            pending.stage = Stage::Judged(facts.clone(), verdict.clone());
            Ok(())
        }
        Event::ApprovalAsked {
            approval,
            call,
            digest,
            question,
            expires_at,
            pattern,
        } => {
            let pending = pending(state, call)?;
            let in_doubt = matches!(pending.stage, Stage::InDoubt(..));
            if !in_doubt && !matches!(pending.stage, Stage::Judged(..)) {
                return illegal(format!("call {call} is asked about before it is judged"));
            }
            pending.stage = Stage::Waiting(Question {
                approval: approval.clone(),
                digest: digest.clone(),
                expires_at: *expires_at,
                pattern: pattern.clone(),
                asked_in: Vec::new(),
                in_doubt,
            });
            say(
                state,
                OutgoingKind::Question,
                question.clone(),
                Some(approval.clone()),
            );
            if let Some(question) = state.outbox.back_mut() {
                question.always = pattern.is_some();
            }
            Ok(())
        }
        Event::QuestionAsked { call, question } => {
            let pending = pending(state, call)?;
            let Stage::Proposed = pending.stage else {
                return illegal(format!("call {call} asks twice"));
            };
            pending.stage = Stage::Listening;
            say(state, OutgoingKind::Question, question.clone(), None);
            Ok(())
        }
        Event::ModelAsked { round, .. } => ask_model(state, *round),
        Event::ModelAnswered { round, answer } => answer_model(state, *round, answer),
        Event::ModelFailed { message, .. } => {
            let turn = turn(state)?;
            let Phase::Asking = turn.phase else {
                return illegal("the model failed without being asked");
            };
            turn.phase = if turn.stop == Stop::No {
                Phase::Failed(message.clone())
            } else {
                Phase::Ready
            };
            Ok(())
        }
        Event::ToolStarted { call, approval, .. } => {
            let pending = pending(state, call)?;
            let Stage::Judged(facts, _) = &pending.stage else {
                return illegal(format!("call {call} starts without a verdict"));
            };
            if *approval
                != pending
                    .ticket
                    .as_ref()
                    .map(|ticket| ticket.approval.clone())
            {
                return illegal(format!(
                    "call {call} starts with an approval that is not its own"
                ));
            }
            pending.stage = Stage::Running(facts.clone());
            Ok(())
        }
        Event::CallProbed { call, probe } => probed(state, call, probe),
        Event::ToolFinished { call, outcome } => finish(state, call, outcome),
        Event::PlanChanged { call, plan, output } => {
            state.plan = plan.clone();
            finish(state, call, &Outcome::done(output.clone()))
        }
        Event::SendStarted { send, .. } => {
            let Some(front) = state
                .outbox
                .front_mut()
                .filter(|front| front.send == *send && !front.sending)
            else {
                return illegal(format!("send {send} starts out of order"));
            };
            front.sending = true;
            Ok(())
        }
        Event::SendFinished {
            send,
            retry_at,
            ids,
            ..
        } => finish_send(state, *send, *retry_at, ids),
        Event::SendDue { send } => match state.outbox.front_mut() {
            Some(front) if front.send == *send && front.due.is_some() => {
                front.due = None;
                Ok(())
            }
            _ => illegal(format!("send {send} waits for nothing")),
        },
        Event::StopAsked => {
            turn(state)?.stop = Stop::Asked;
            Ok(())
        }
        Event::LimitReached { text, .. } => {
            turn(state)?.phase = Phase::Limited(text.clone());
            Ok(())
        }
        Event::Interrupted {
            calls,
            asking,
            sending,
        } => interrupt(state, calls, *asking, *sending),
        Event::TurnEnded { reason, text } => end_turn(state, *reason, text),
    }
}

fn finish_send(
    state: &mut State,
    send: u64,
    retry_at: Option<Timestamp>,
    ids: &[String],
) -> Result<(), Illegal> {
    let front = state.outbox.front_mut();
    let Some(front) = front.filter(|front| front.send == send && front.sending) else {
        return illegal(format!("send {send} ends without having started"));
    };
    if retry_at.is_some() {
        front.sending = false;
        front.attempts += 1;
        front.due = retry_at;
        return Ok(());
    }
    let asked = front.approval.take();
    state.outbox.pop_front();
    let Some(Turn {
        phase: Phase::Calls(calls),
        ..
    }) = &mut state.turn
    else {
        return Ok(());
    };
    for pending in calls {
        if let Stage::Waiting(question) = &mut pending.stage
            && asked.as_ref() == Some(&question.approval)
        {
            question.asked_in = ids.to_vec();
        }
    }
    Ok(())
}

fn turn(state: &mut State) -> Result<&mut Turn, Illegal> {
    state.turn.as_mut().ok_or_else(|| Illegal {
        what: "no turn is active".into(),
    })
}

fn pending<'a>(state: &'a mut State, id: &CallId) -> Result<&'a mut Pending, Illegal> {
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

fn say(state: &mut State, kind: OutgoingKind, text: String, approval: Option<String>) {
    state.sends += 1;
    state.outbox.push_back(Outgoing {
        send: state.sends,
        kind,
        text,
        approval,
        always: false,
        sending: false,
        attempts: 0,
        due: None,
    });
}

fn notice(state: &mut State, name: &str, values: &[(&str, &str)]) {
    let text = state.texts.say(name, values);
    say(state, OutgoingKind::Notice, text, None);
}

/// The oldest unread message, which must be `id`.
fn unread(state: &mut State, id: &str) -> Result<Inbound, Illegal> {
    match state.unread.pop_front() {
        Some(message) if message.id == id => Ok(message),
        _ => illegal(format!("message {id} is taken out of order")),
    }
}

fn take_word(state: &mut State, by: &By) -> Result<(), Illegal> {
    match &by.message {
        Some(id) => unread(state, id).map(drop),
        None => Ok(()),
    }
}

fn take_message(
    state: &mut State,
    id: &str,
    reading: &Reading,
    reply: Option<&str>,
) -> Result<(), Illegal> {
    let message = unread(state, id)?;
    if matches!(
        reading,
        Reading::Objective | Reading::Steering | Reading::Answer { .. }
    ) {
        // The person may have meant to change just that.
        state.refused.clear();
    }
    if let Some(reply) = reply {
        say(state, OutgoingKind::Notice, reply.to_owned(), None);
    }
    match reading {
        Reading::Objective => {
            if state.turn.is_some() {
                return illegal("an objective during a turn");
            }
            if state.plan.done() == state.plan.steps.len() {
                state.plan = Default::default();
            }
            state.conversation.user(&message.text);
            state.turn = Some(Turn::begin(state.now, state.plan.done()));
        }
        Reading::Steering => {
            let at_boundary = matches!(turn(state)?.phase, Phase::Ready);
            state.steering.push(message);
            if at_boundary {
                pass_on_steering(state);
            }
        }
        Reading::Answer { call } => {
            let pending = pending(state, call)?;
            let Stage::Listening = pending.stage else {
                return illegal(format!("call {call} did not ask"));
            };
            pending.stage = Stage::Heard(message.text);
        }
        Reading::Command { name } => {
            if name == "new" {
                state.closed = true;
            }
        }
        Reading::Refused | Reading::Ignored => {}
    }
    Ok(())
}

fn pass_on_steering(state: &mut State) {
    for message in std::mem::take(&mut state.steering) {
        state.conversation.user(&message.text);
    }
}

/// The call of an open question, and the question.
fn close_question<'a>(
    state: &'a mut State,
    code: &str,
) -> Result<(&'a mut Pending, Question), Illegal> {
    let Phase::Calls(calls) = &mut turn(state)?.phase else {
        return illegal(format!("no question {code} is open"));
    };
    for pending in calls {
        let Stage::Waiting(question) = &pending.stage else {
            continue;
        };
        if question.approval != code {
            continue;
        }
        let question = question.clone();
        return Ok((pending, question));
    }
    illegal(format!("no question {code} is open"))
}

fn approve(
    state: &mut State,
    code: &str,
    by: &By,
    always: Option<&Pattern>,
) -> Result<(), Illegal> {
    take_word(state, by)?;
    let (pending, question) = close_question(state, code)?;
    // Judged again from fresh facts before it runs: an approval is void if anything differs by then.
    pending.stage = Stage::Proposed;
    pending.ticket = Some(Ticket {
        approval: question.approval,
        digest: question.digest,
    });
    match always {
        Some(pattern) => {
            state.grants.push(pattern.clone());
            notice(
                state,
                "approved_always",
                &[("code", code), ("pattern", &pattern.to_string())],
            );
        }
        None => notice(state, "approved", &[("code", code)]),
    }
    Ok(())
}

fn refuse(state: &mut State, code: &str, by: &By, reason: Option<&str>) -> Result<(), Illegal> {
    take_word(state, by)?;
    let (pending, question) = close_question(state, code)?;
    let outcome = match question.in_doubt {
        true => wording::left_in_doubt("The person chose not to run it again."),
        false => refusal("the person refused", reason),
    };
    pending.stage = Stage::Finished(outcome);
    notice(state, "denied", &[("code", code)]);
    finish_round(state);
    Ok(())
}

fn expire(state: &mut State, code: &str) -> Result<(), Illegal> {
    let (pending, question) = close_question(state, code)?;
    let outcome = match question.in_doubt {
        true => wording::left_in_doubt("Nobody answered in time whether to run it again."),
        false => refusal("nobody answered the approval question in time", None),
    };
    pending.stage = Stage::Finished(outcome);
    notice(state, "expired", &[("code", code)]);
    finish_round(state);
    Ok(())
}

fn refusal(who: &str, reason: Option<&str>) -> Outcome {
    let reason = reason
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    let text = format!(
        "Not run: {who}{reason}\nDo not try the same again; go another way, or ask the person."
    );
    Outcome::new(Status::Denied, text)
}

fn cancel(state: &mut State, by: &By) -> Result<(), Illegal> {
    take_word(state, by)?;
    let turn = turn(state)?;
    turn.stop = Stop::Wanted;
    turn.interrupted = false;
    notice(state, "cancelling", &[]);
    Ok(())
}

fn resume(state: &mut State, by: &By) -> Result<(), Illegal> {
    take_word(state, by)?;
    notice(state, "resuming", &[]);
    match &mut state.turn {
        Some(turn) if turn.interrupted => {
            turn.interrupted = false;
        }
        Some(_) => return illegal("a turn that goes on cannot be resumed"),
        None => state.turn = Some(Turn::begin(state.now, state.plan.done())),
    }
    Ok(())
}

fn ask_model(state: &mut State, round: u32) -> Result<(), Illegal> {
    if round != state.rounds + 1 {
        return illegal(format!(
            "round {round} does not follow round {}",
            state.rounds
        ));
    }
    let turn = turn(state)?;
    let Phase::Ready = turn.phase else {
        return illegal("the model is asked out of turn");
    };
    turn.phase = Phase::Asking;
    turn.round += 1;
    state.rounds = round;
    Ok(())
}

fn answer_model(state: &mut State, round: u32, answer: &Answer) -> Result<(), Illegal> {
    if round != state.rounds {
        return illegal(format!(
            "an answer to round {round} in round {}",
            state.rounds
        ));
    }
    let turn = turn(state)?;
    let Phase::Asking = turn.phase else {
        return illegal("an answer that nobody asked for");
    };
    turn.usage.add(answer.usage);
    state.usage.add(answer.usage);
    if answer.calls.is_empty() && answer.text.trim().is_empty() {
        let text = state.texts.say("empty_answer", &[]);
        self::turn(state)?.phase = Phase::Failed(text);
        return Ok(());
    }
    state.conversation.assistant(answer);
    let phase = if !answer.calls.is_empty() {
        let proposed = |call: &Call| Pending {
            call: call.clone(),
            stage: Stage::Proposed,
            ticket: None,
            expect: None,
            may_have_run: false,
        };
        Phase::Calls(answer.calls.iter().map(proposed).collect())
    } else if state.steering.is_empty() {
        Phase::Answered(final_text(state, answer))
    } else {
        // The person said something meanwhile: this was not the end.
        say(state, OutgoingKind::Progress, answer.text.clone(), None);
        pass_on_steering(state);
        Phase::Ready
    };
    self::turn(state)?.phase = phase;
    Ok(())
}

fn final_text(state: &State, answer: &Answer) -> String {
    if answer.finish == "length" {
        return format!("{}\n\n{}", answer.text, state.texts.say("cut_answer", &[]));
    }
    answer.text.clone()
}

fn probed(state: &mut State, id: &CallId, probe: &Probe) -> Result<(), Illegal> {
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
        Probe::Happened { .. } | Probe::Unclear { .. } => {
            pending.stage = Stage::InDoubt(facts.clone(), Some(probe.clone()));
        }
    }
    Ok(())
}

fn finish(state: &mut State, id: &CallId, outcome: &Outcome) -> Result<(), Illegal> {
    let pending = pending(state, id)?;
    if let Stage::Finished(_) = pending.stage {
        return illegal(format!("call {id} ends twice"));
    }
    // Found in place: nobody has its diff any more, but its files are this session's all the same.
    let found = matches!(pending.stage, Stage::InDoubt(..)) && outcome.status == Status::Done;
    let expect = pending.expect.take().filter(|_| found);
    pending.stage = Stage::Finished(outcome.clone());
    pending.ticket = None;
    let files = expect.into_iter().flat_map(|expect| expect.files);
    state.changed.extend(files.map(|file| file.path));
    state
        .changed
        .extend(outcome.changes.iter().map(|change| change.path.clone()));
    finish_round(state);
    Ok(())
}

/// Once every call of the round has its result: results go to the model in the order of the calls, then what the
/// person said meanwhile, and the chat hears what changed.
fn finish_round(state: &mut State) {
    let Some(Turn {
        phase: Phase::Calls(calls),
        ..
    }) = &state.turn
    else {
        return;
    };
    let mut results = Vec::with_capacity(calls.len());
    for pending in calls {
        let Stage::Finished(outcome) = &pending.stage else {
            return;
        };
        results.push((pending.call.clone(), outcome.clone()));
    }
    let last = results.len() - 1;
    for (i, (call, outcome)) in results.iter().enumerate() {
        let reminder = if i == last {
            plan_reminder(state)
        } else {
            String::new()
        };
        state
            .conversation
            .tool(call, &format!("{}{reminder}", outcome.output));
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

/// The plan in a line, with every round's last result: appended, so that the prefix stays what it was.
fn plan_reminder(state: &State) -> String {
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

fn tell_changes(state: &mut State, results: &[(Call, Outcome)]) {
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
    say(state, OutgoingKind::Change, text, None);
}

fn tell_progress(state: &mut State) {
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
    say(state, OutgoingKind::Progress, text, None);
}

fn interrupt(
    state: &mut State,
    calls: &[CallId],
    asking: bool,
    sending: bool,
) -> Result<(), Illegal> {
    let halts = recovery::halts(state);
    for id in calls {
        let pending = pending(state, id)?;
        let Stage::Running(facts) = &pending.stage else {
            return illegal(format!("call {id} was not running"));
        };
        pending.stage = Stage::InDoubt(facts.clone(), None);
        pending.may_have_run = true;
    }
    if sending {
        let mark = state.texts.say("repeated", &[]);
        let Some(front) = state.outbox.front_mut() else {
            return illegal("nothing was being sent");
        };
        front.sending = false;
        if !front.text.starts_with(&mark) {
            front.text.insert_str(0, &mark);
        }
    }
    let Some(turn) = &mut state.turn else {
        return Ok(());
    };
    let round = turn.round.to_string();
    if asking {
        turn.phase = Phase::Ready;
        turn.round -= 1;
    }
    if halts {
        turn.interrupted = true;
        notice(state, "interrupted", &[("round", &round)]);
    }
    Ok(())
}

fn end_turn(state: &mut State, reason: EndReason, text: &str) -> Result<(), Illegal> {
    turn(state)?;
    state.turn = None;
    state.last_end = Some(reason);
    say(state, OutgoingKind::Final, text.to_owned(), None);
    pass_on_steering(state);
    Ok(())
}
