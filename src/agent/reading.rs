//! What a person's message means here and now: an objective, steering, an answer, a command.

/// What begins with a slash.
mod commands;
/// What starts or steers work, and what answers.
mod plain;
/// What `/agent` says.
mod status;
/// What waits for more of the same.
pub mod together;

pub use commands::can_resume;
pub use status::short_status;

use crate::agent::carry;
use crate::agent::command::{self, ChatCommand, Said, looks_like_code};
use crate::agent::event::{By, Event, Inbound, Reading, Spoken, TooMany, Via};
use crate::agent::loading;
use crate::agent::media;
use crate::agent::money;
use crate::agent::state::State;
use crate::agent::step::Policy;
use crate::agent::undelivered;
use crate::agent::wording;
use commands::take_command;
use plain::{is_work, take_plain, which_one};

/// The oldest unread message that needs not wait. What starts or steers work goes in order; a word that only answers or
/// commands passes what is still to be fetched, and what waits for more to come.
fn due(state: &State) -> Option<&Inbound> {
    let open = together::is_open(state);
    let mut behind = false;
    state.unread.iter().find(|message| {
        let is_here = media::is_here(state, message);
        let gathers = open && together::members(state).any(|member| member.id == message.id);
        let waits = !is_here || gathers || behind && is_work(state, message);
        behind |= !is_here;
        !waits && !undelivered::is_early(state, message)
    })
}

/// The event that takes the next message, or `None` where there is none to take now.
pub fn next(state: &State, policy: &Policy) -> Option<Event> {
    let message = due(state)?;
    if state.checkpoints.puts_back() || carry::is_under_way(state) {
        return None; // whatever it is, it is said about files that are just changing
    }
    if state.errand.is_some() {
        return None; // one after the other, so that each answer follows its question
    }
    if let Some(failure) = &message.undelivered {
        return Some(undelivered::reading(state, message, failure));
    }
    if message.via == Via::Notice {
        return Some(taken(message, Reading::Ignored, Some(message.text.clone())));
    }
    if message.via == Via::Pairing {
        let welcome = wording::welcome(&state.texts, &state.checkout);
        return Some(command(message, "pair", welcome));
    }
    if !is_theirs(state, message) {
        return Some(taken(
            message,
            Reading::Refused,
            Some(say(state, "busy_not_owner", &[])),
        ));
    }
    if let Some(kind) = &message.unreadable {
        return Some(command(message, "", media::unreadable(state, kind)));
    }
    if let Some(taken) = spoken(state, message) {
        return Some(taken);
    }
    if media::is_lost(state, message) {
        return media::failure(state, message).map(|told| command(message, "", told));
    }
    if let Some(many) = limit_of(state, message) {
        let reply = (!many.told).then(|| too_many(state, many));
        return Some(taken(message, Reading::TooMany, reply));
    }
    if media::is_file(message) {
        return take_plain(state, policy, message, &message.text);
    }
    if let Some(which) = which_one(state, policy, message) {
        return Some(taken(message, Reading::Ignored, Some(which)));
    }
    match command::read(&message.text) {
        Said::Command(ChatCommand::Undo { .. } | ChatCommand::Redo { .. })
            if state.turn.is_none() && state.checkpoints.is_unsettled() =>
        {
            None // taken up once it is known what there is to undo
        }
        Said::Command(command) => Some(take_command(state, policy, message, command)),
        Said::Unknown(_) if loading::is_text(state, message) => {
            take_plain(state, policy, message, "")
        }
        Said::Unknown(name) => Some(command(
            message,
            name,
            loading::failure(state, message, name),
        )),
        Said::Empty => Some(command(message, "", say(state, "empty", &[]))),
        Said::Plain(text) => take_plain(state, policy, message, text),
    }
}

/// What becomes of a spoken message whose yes or no, or everything else, counts in another session. `None`: it counts here.
fn spoken(state: &State, message: &Inbound) -> Option<Event> {
    let answers = plain::is_yes_or_no(message);
    let ignored = |reply| Some(taken(message, Reading::Ignored, reply));
    match message.spoken? {
        Spoken::ForAnswer if !answers => ignored(None),
        // It was answered meanwhile, or expired.
        Spoken::ForAnswer if state.question().is_none() => {
            ignored(Some(say(state, "nothing_open", &[])))
        }
        Spoken::ForAllElse if answers => ignored(None),
        Spoken::ForAnswer | Spoken::ForAllElse => None,
    }
}

/// The limit that keeps a message from starting or steering work. What answers or commands has none.
fn limit_of<'a>(state: &State, message: &'a Inbound) -> Option<&'a TooMany> {
    let many = message.too_many.as_ref()?;
    let starts = matches!(
        command::read(&message.text),
        Said::Command(ChatCommand::Start(_) | ChatCommand::Plan(_) | ChatCommand::Ask(_))
    );
    let is_work = starts || is_work(state, message) && state.listening().is_none();
    is_work.then_some(many)
}

fn too_many(state: &State, many: &TooMany) -> String {
    let values = [
        ("messages", many.messages.to_string()),
        ("minutes", many.minutes.to_string()),
        ("again", many.again_minutes.to_string()),
    ];
    let values = values
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    say(state, "too_many", &values)
}

/// Whether it counts for this session: the owner says it. From another chat of theirs, only an answer to a question that it
/// names does.
fn is_theirs(state: &State, message: &Inbound) -> bool {
    let owner = &state.opening.owner;
    let answers = || match command::read(&message.text) {
        Said::Command(ChatCommand::Approve { code, .. } | ChatCommand::Deny { code, .. }) => {
            looks_like_code(&code.to_ascii_uppercase())
        }
        Said::Command(_) | Said::Empty | Said::Plain(_) | Said::Unknown(_) => false,
    };
    let from_elsewhere = message.stands_for.as_ref() == Some(owner) && answers();
    message.from == *owner || message.via == Via::Flag || from_elsewhere
}

/// Whether the next message asks what the month has cost, and nobody has looked yet.
pub fn needs_month(state: &State) -> bool {
    let asks = |message: &Inbound| {
        message.via != Via::Notice
            && message.unreadable.is_none()
            && message.from == state.opening.owner
            && matches!(
                command::read(&message.text),
                Said::Command(ChatCommand::Cost)
            )
    };
    due(state).is_some_and(asks) && money::month(state).is_none()
}

/// The message that asks for the journal's chain, if it is the next one.
pub fn audit(state: &State) -> Option<&Inbound> {
    let message = due(state)?;
    let theirs = message.from == state.opening.owner || message.via == Via::Flag;
    let asks = matches!(
        command::read(&message.text),
        Said::Command(ChatCommand::Audit)
    );
    (theirs && asks && message.unreadable.is_none()).then_some(message)
}

/// The message that asks for workspaces, if it is the next one, and the name in it.
pub fn workspaces(state: &State) -> Option<(&Inbound, Option<&str>)> {
    let message = due(state)?;
    let theirs = message.from == state.opening.owner || message.via == Via::Flag;
    match command::read(&message.text) {
        Said::Command(ChatCommand::Workspaces { name })
            if theirs && message.unreadable.is_none() =>
        {
            Some((message, name))
        }
        _ => None,
    }
}

fn say(state: &State, name: &str, values: &[(&str, &str)]) -> String {
    state.texts.say(name, values)
}

fn taken(message: &Inbound, reading: Reading, reply: Option<String>) -> Event {
    Event::MessageTaken {
        message: message.id.clone(),
        reading,
        reply,
        quote: None,
        attached: None,
        image: None,
        with: Vec::new(),
    }
}

fn command(message: &Inbound, name: &str, reply: String) -> Event {
    let name = name.trim_start_matches('/').to_owned();
    taken(message, Reading::Command { name }, Some(reply))
}

fn by(message: &Inbound) -> By {
    By {
        who: message.from.clone(),
        via: message.via,
        message: Some(message.id.clone()),
    }
}

/// `/cancel` in a turn. What waits behind something that is still fetched would start another one.
fn cancelled(state: &State, message: &Inbound) -> Event {
    let with = together::dropped(state, message).into_iter();
    Event::Cancelled {
        by: by(message),
        with: with.map(|along| along.message).collect(),
    }
}

/// `/cancel` before anything began: what waits to start a turn starts none.
fn drop_waiting(state: &State, message: &Inbound) -> Event {
    Event::MessageTaken {
        message: message.id.clone(),
        reading: Reading::Command {
            name: "cancel".into(),
        },
        reply: Some(say(state, "cancelled_waiting", &[])),
        quote: None,
        attached: None,
        image: None,
        with: together::dropped(state, message),
    }
}
