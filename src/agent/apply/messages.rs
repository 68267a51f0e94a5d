//! What a person's words change: messages taken, questions answered, turns cancelled and resumed.

use super::asking;
use super::calls::{finish_round, pending};
use super::graphs;
use super::mcp;
use super::outbox::{confirm, notice, say, send_again};
use super::trust::begin_turn;
use super::{Illegal, illegal, turn};
use crate::agent::charter;
use crate::agent::conversation::Words;
use crate::agent::event::{Along, By, Inbound, Outcome, OutgoingKind, Reading, Status, Via};
use crate::agent::loading;
use crate::agent::loops::Loops;
use crate::agent::state::{Pending, Phase, Question, Stage, State, Stop, Ticket, Turn};
use crate::agent::wording;
use crate::gate::Pattern;
use std::sync::Arc;

const SHOWN_WITH_THE_ANSWER: &str = "[The picture that the person sent with that answer:]";

/// The unread message `id`. Some pass others that have to wait.
pub(super) fn unread(state: &mut State, id: &str) -> Result<Inbound, Illegal> {
    let place = state.unread.iter().position(|message| message.id == id);
    match place.and_then(|place| state.unread.remove(place)) {
        Some(message) => {
            state.got.remove(id);
            state.loaded.remove(id);
            state.came.remove(id);
            Ok(message)
        }
        None => illegal(format!("message {id} is taken, and was not unread")),
    }
}

pub(super) fn take_word(state: &mut State, by: &By) -> Result<(), Illegal> {
    match &by.message {
        Some(id) => unread(state, id).map(drop),
        None => Ok(()),
    }
}

/// Their yes or no is a word, too: with a person looking on, what repeats is no loop. A flag or a clock looks at nothing.
fn heard_person(state: &mut State, by: &By) {
    if !matches!(by.via, Via::Flag | Via::Schedule | Via::Notice) {
        state.loops = Loops::default();
    }
}

/// The unread message, with what the model reads and sees around it.
fn whole(state: &mut State, along: &Along) -> Result<(Inbound, Words), Illegal> {
    let found = state.unread.iter().find(|one| one.id == along.message);
    let loaded = found.and_then(|message| loading::words(state, message));
    let message = unread(state, &along.message)?;
    let mut words = Words::text(loaded.unwrap_or_else(|| message.text.clone()));
    if let Some(quote) = &along.quote {
        words.text = format!("{quote}\n\n{}", words.text);
    }
    if let Some(attached) = &along.attached {
        let text = format!("{}\n\n{attached}", words.text);
        words.text = text.trim_start().to_owned();
    }
    words.images.extend(along.image.clone());
    Ok((message, words))
}

pub(super) fn take_message(
    state: &mut State,
    first: &Along,
    with: &[Along],
    reading: &Reading,
    reply: Option<&str>,
) -> Result<(), Illegal> {
    let ids = [first].into_iter().chain(with);
    let charter = charter::of(state, ids.map(|along| along.message.as_str()));
    let (message, mut words) = whole(state, first)?;
    for along in with {
        let (_, next) = whole(state, along)?;
        words.text = format!("{}\n{}", words.text, next.text);
        words.images.extend(next.images);
    }
    if matches!(
        reading,
        Reading::Objective | Reading::Steering | Reading::Answer { .. }
    ) {
        // The person may have meant to change just that.
        state.refused.clear();
        state.loops = Loops::default();
    }
    if let Some(reply) = reply {
        say(state, OutgoingKind::Notice, reply.to_owned());
    }
    match reading {
        Reading::Objective => {
            if state.turn.is_some() {
                return illegal("an objective during a turn");
            }
            if state.plan.done() == state.plan.steps.len() {
                state.plan = Default::default();
            }
            state.conversation.person(&words, true);
            state.worktrees.doubt();
            let person = !matches!(message.via, Via::Schedule | Via::Notice);
            let began = person.then(|| message.id.clone());
            state.turn = Some(Turn::begin(state.now, began, state.plan.done()));
            state.charter = charter.map(Arc::new);
            begin_turn(state);
            mcp::begin_turn(state);
        }
        Reading::Steering => {
            let turn = turn(state)?;
            // Where no model is at work, nobody would read it before the end.
            let has_model = turn.work.is_none() && turn.asks.is_none();
            let at_boundary = has_model && matches!(turn.phase, Phase::Ready);
            state.steering.push(words);
            if at_boundary {
                pass_on_steering(state);
            }
        }
        Reading::Answer { call } => {
            let pending = pending(state, call)?;
            let Stage::Listening = pending.stage else {
                return illegal(format!("call {call} did not ask"));
            };
            pending.stage = Stage::Heard(words.text);
            if !words.images.is_empty() {
                // A result holds no picture: it comes right after.
                let text = SHOWN_WITH_THE_ANSWER.to_owned();
                let images = words.images;
                state.steering.push(Words { text, images });
            }
        }
        Reading::Command { name } => {
            // A code is in no language: the first words are, and open a session of their own.
            if name == "new" || name == "pair" {
                state.closed = true;
            }
        }
        Reading::NotDelivered { again } => {
            let mark = state.texts.say("sent_again_part", &[]);
            let deliveries = &mut state.deliveries;
            if let Some(outgoing) = deliveries.failed(&message, *again, state.now, &mark) {
                send_again(state, outgoing);
            }
        }
        Reading::Refused | Reading::TooMany | Reading::Ignored => {}
    }
    Ok(())
}

pub(super) fn pass_on_steering(state: &mut State) {
    for words in std::mem::take(&mut state.steering) {
        state.conversation.person(&words, false);
    }
}

/// The call of an open question, and the question.
pub(super) fn close_question<'a>(
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

pub(super) fn approve(
    state: &mut State,
    code: &str,
    by: &By,
    always: Option<&Pattern>,
) -> Result<(), Illegal> {
    take_word(state, by)?;
    heard_person(state, by);
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
            confirm(
                state,
                "approved_always",
                &[("code", code), ("pattern", &pattern.to_string())],
            );
        }
        None => confirm(state, "approved", &[("code", code)]),
    }
    Ok(())
}

pub(super) fn refuse(
    state: &mut State,
    code: &str,
    by: &By,
    reason: Option<&str>,
) -> Result<(), Illegal> {
    take_word(state, by)?;
    heard_person(state, by);
    let (pending, question) = close_question(state, code)?;
    let outcome = match question.in_doubt {
        true => wording::left_in_doubt("The person chose not to run it again."),
        false => refusal("the person refused", reason),
    };
    pending.stage = Stage::Finished(outcome);
    confirm(state, "denied", &[("code", code)]);
    finish_round(state);
    Ok(())
}

pub(super) fn expire(state: &mut State, code: &str) -> Result<(), Illegal> {
    let (pending, question) = close_question(state, code)?;
    let outcome = match question.in_doubt {
        true => wording::left_in_doubt("Nobody answered in time whether to run it again."),
        false => refusal("nobody answered the approval question in time", None),
    };
    pending.stage = Stage::Finished(outcome);
    confirm(state, "expired", &[("code", code)]);
    finish_round(state);
    Ok(())
}

pub(super) fn refusal(who: &str, reason: Option<&str>) -> Outcome {
    let reason = reason
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    let text = format!(
        "Not run: {who}{reason}\nDo not try the same again; go another way, or ask the person."
    );
    Outcome::new(Status::Denied, text)
}

pub(super) fn cancel(state: &mut State, by: &By, with: &[String]) -> Result<(), Illegal> {
    take_word(state, by)?;
    for id in with {
        unread(state, id)?;
    }
    let turn = turn(state)?;
    turn.stop = Stop::Wanted;
    turn.halted = None;
    turn.interrupted = false;
    match with {
        [] => notice(state, "cancelling", &[]),
        _ => notice(state, "cancelling_waiting", &[]),
    }
    Ok(())
}

pub(super) fn resume(state: &mut State, by: &By) -> Result<(), Illegal> {
    take_word(state, by)?;
    state.loops = Loops::default();
    state.worktrees.doubt();
    notice(state, "resuming", &[]);
    match &mut state.turn {
        Some(turn) if turn.interrupted => {
            turn.interrupted = false;
        }
        Some(_) => return illegal("a turn that goes on cannot be resumed"),
        None => {
            let began = by.message.clone();
            state.turn = Some(Turn::begin(state.now, began, state.plan.done()));
            mcp::begin_turn(state);
            graphs::take_up(state);
            asking::take_up(state);
        }
    }
    Ok(())
}
