//! A plain message, which is no command: it starts or steers work, or it answers what is open.

use super::{by, cancelled, drop_waiting, say, taken, together};
use crate::agent::command::{self, Said};
use crate::agent::event::{
    Along, Event, Inbound, OpenQuestion, OutgoingKind, Reading, Spoken, Via,
};
use crate::agent::loading;
use crate::agent::media;
use crate::agent::quotes;
use crate::agent::state::{Outgoing, Phase, Question, State, Turn};
use crate::agent::step::Policy;
use crate::agent::wording;
use crate::gate::{Reply, read_reply};

/// Whether it is a plain yes or no, to whatever question.
pub(super) fn is_yes_or_no(message: &Inbound) -> bool {
    matches!(command::read(&message.text), Said::Plain(text) if read_reply(text).is_some())
}

/// Whether it would start or steer work: no command, no answer, nothing of the channel's own.
pub(super) fn is_work(state: &State, message: &Inbound) -> bool {
    let Said::Plain(text) = command::read(&message.text) else {
        let is_persons = message.via == Via::Text;
        return media::is_file(message) || is_persons && loading::is_text(state, message);
    };
    let counts = match message.spoken {
        None => true,
        Some(Spoken::ForAnswer) => false,
        Some(Spoken::ForAllElse) => read_reply(text).is_none(),
    };
    let answers = state.question().is_some() && read_reply(text).is_some();
    // It must not wait for what it is to end.
    let is_busy = state.turn.is_some() || state.fetching.is_some();
    let stops = is_busy && is_stop_word(text);
    let is_persons = message.via == Via::Text && message.unreadable.is_none();
    is_persons
        && counts
        && (media::is_file(message)
            || !answers
                && !stops
                && state.listening().is_none()
                && state.server_question().is_none())
}

pub(super) fn take_plain(
    state: &State,
    policy: &Policy,
    message: &Inbound,
    text: &str,
) -> Option<Event> {
    let is_file = media::is_file(message);
    if let Some((_, question)) = state.question() {
        let reply = read_reply(text).filter(|_| !is_file);
        if reply.is_some() && !is_about(message, question) {
            let reply = say(state, "other_question", &[("code", &question.approval)]);
            return Some(taken(message, Reading::Ignored, Some(reply)));
        }
        if reply.is_none() && message.via == Via::Reaction {
            return Some(taken(message, Reading::Ignored, None));
        }
        if reply == Some(Reply::Yes) && is_unseen(state, message, question) {
            let reply = say(state, "unseen_question", &[("code", &question.approval)]);
            return Some(taken(message, Reading::Ignored, Some(reply)));
        }
        return Some(match reply {
            Some(Reply::Yes) => Event::ApprovalGiven {
                approval: question.approval.clone(),
                by: by(message),
                always: None,
            },
            Some(Reply::No) => Event::ApprovalRefused {
                approval: question.approval.clone(),
                by: by(message),
                reason: None,
            },
            None => for_model(
                state,
                policy,
                message,
                Reading::Steering,
                Some(say(state, "still_open", &[("code", &question.approval)])),
            ),
        });
    }
    if message.via == Via::Reaction {
        return Some(taken(message, Reading::Ignored, None));
    }
    if let Some((call, question, _)) = state.server_question()
        && !is_file
        && !loading::is_text(state, message)
        && !is_before_the_question(state, message)
    {
        return Some(match question.read(text) {
            Ok(answer) => Event::ServerAnswered {
                call: call.id.clone(),
                by: Some(by(message)),
                answer,
            },
            Err(why) => {
                let values = [("server", question.server.as_str()), ("why", &why)];
                let reply = say(state, "server_no_answer", &values);
                taken(message, Reading::Ignored, Some(reply))
            }
        });
    }
    if let Some(call) = state
        .listening()
        .filter(|_| !loading::is_text(state, message))
    {
        let call = call.id.clone();
        return Some(for_model(
            state,
            policy,
            message,
            Reading::Answer { call },
            None,
        ));
    }
    match &state.turn {
        Some(_) if is_stop_word(text) && !is_file => Some(cancelled(state, message)),
        // The turn is about to end: the message starts the next one.
        Some(Turn {
            phase: Phase::Answered(_) | Phase::Failed(_) | Phase::Limited(_),
            ..
        }) => None,
        Some(Turn {
            interrupted: true, ..
        }) => Some(for_model(
            state,
            policy,
            message,
            Reading::Steering,
            Some(say(state, "steering_interrupted", &[])),
        )),
        Some(turn) => {
            let told = match (&turn.work, &turn.asks) {
                (Some(_), _) => say(state, "graph_steering", &[]),
                (None, Some(_)) => say(state, "ask_steering", &[]),
                (None, None) => say(state, "steering", &[]),
            };
            Some(for_model(
                state,
                policy,
                message,
                Reading::Steering,
                Some(told),
            ))
        }
        // What was said just before was not meant any more.
        None if is_stop_word(text) && !is_file && !together::dropped(state, message).is_empty() => {
            Some(drop_waiting(state, message))
        }
        None => {
            let fires = wording::cron_fires(state, message);
            Some(for_model(state, policy, message, Reading::Objective, fires))
        }
    }
}

/// Taken for the model, with what it quotes and shows.
fn for_model(
    state: &State,
    policy: &Policy,
    message: &Inbound,
    reading: Reading,
    reply: Option<String>,
) -> Event {
    let mut with = match reading {
        Reading::Objective => together::others(state, message),
        _ => Vec::new(),
    };
    let others = || state.unread.iter().filter(|other| is_along(&with, other));
    let all: Vec<&Inbound> = [message].into_iter().chain(others()).collect();
    let failures = all
        .iter()
        .filter_map(|message| media::failure(state, message));
    let (images, beyond) = media::shown(state, policy, all.iter().copied());
    let too_many = (beyond > 0).then(|| {
        let max = policy.limits.images_max.to_string();
        let count = beyond.to_string();
        say(state, "images_full", &[("count", &count), ("max", &max)])
    });
    let told: Vec<String> = failures.chain(too_many).chain(reply).collect();
    let image = |id: &str| {
        let found = images.iter().find(|(message, _)| *message == id);
        found.map(|(_, image)| (*image).clone())
    };
    for along in &mut with {
        along.image = image(&along.message);
    }
    Event::MessageTaken {
        message: message.id.clone(),
        // An answer is for what was asked; nobody needs to be told what that was.
        quote: match reading {
            Reading::Answer { .. } => None,
            _ => quotes::context(state, message),
        },
        reading,
        reply: (!told.is_empty()).then(|| told.join("\n")),
        attached: media::words(state, message),
        image: image(&message.id),
        with,
    }
}

fn is_along(with: &[Along], message: &Inbound) -> bool {
    with.iter().any(|along| along.message == message.id)
}

/// With two questions open in one chat, an answer that names none answers nothing, and is asked which one it is for
/// (behaviour, section 1).
pub(super) fn which_one(state: &State, policy: &Policy, message: &Inbound) -> Option<String> {
    let own = state.question().map(|(call, question)| OpenQuestion {
        code: question.approval.clone(),
        what: wording::in_a_line(call),
    });
    let stops = own.is_none() && state.turn.is_some() && is_stop_word(&message.text);
    let open: Vec<&OpenQuestion> = own.iter().chain(&message.elsewhere).collect();
    if message.elsewhere.is_empty()
        || open.len() < 2
        || stops
        || state.listening().is_some()
        || state.server_question().is_some()
    {
        return None;
    }
    let line = |open: &&OpenQuestion| {
        let what = policy.masks.apply(open.what.clone());
        say(
            state,
            "which_line",
            &[("code", &open.code), ("what", &what)],
        )
    };
    let list = open.iter().map(line).collect::<Vec<_>>().join("\n");
    let count = open.len().to_string();
    Some(say(
        state,
        "which_question",
        &[("count", &count), ("list", &list)],
    ))
}

/// Whether its message has not even been tried since, so that a yes was meant for something else: the answer before, sent
/// twice. One that was on its way when the process died may have been seen. A flag answers everything.
fn is_unseen(state: &State, message: &Inbound, question: &Question) -> bool {
    let waits = |outgoing: &Outgoing| {
        outgoing.approval.as_ref() == Some(&question.approval)
            && !outgoing.sending
            && !outgoing.repeated
    };
    message.via != Via::Flag && state.outbox.iter().any(waits)
}

/// Whether the server's question has not even been sent: what was meant for the model must not go to a third party.
fn is_before_the_question(state: &State, message: &Inbound) -> bool {
    let waits = |outgoing: &Outgoing| {
        outgoing.kind == OutgoingKind::Question && !outgoing.sending && !outgoing.repeated
    };
    message.via != Via::Flag && state.outbox.iter().any(waits)
}

/// A reaction or a quote names the message that it is about; what names none is about the open question.
fn is_about(message: &Inbound, question: &Question) -> bool {
    match &message.about {
        None => true,
        Some(id) => question.asked_in.contains(id),
    }
}

/// With no question open, a plain "stop" is `/cancel` (behaviour, section 1).
pub(super) fn is_stop_word(text: &str) -> bool {
    let word = text
        .trim_matches(|c: char| !c.is_alphanumeric())
        .to_lowercase();
    matches!(word.as_str(), "stop" | "cancelar")
}
