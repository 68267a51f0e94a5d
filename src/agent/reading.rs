//! What a person's message means here and now: an objective, steering, an answer, a command.

use crate::agent::checkpoints::Way;
use crate::agent::command::{self, ChatCommand, Said, looks_like_code};
use crate::agent::event::{By, EndReason, Event, Inbound, OpenQuestion, Reading, Via};
use crate::agent::limits;
use crate::agent::media;
use crate::agent::money;
use crate::agent::quotes;
use crate::agent::state::{Outgoing, Phase, Question, State, Turn};
use crate::agent::step::Policy;
use crate::agent::trust;
use crate::agent::undelivered;
use crate::agent::wording;
use crate::gate::{Reply, read_reply};
use crate::schedule::wish;

/// The oldest unread message that needs not wait. What starts or steers work goes in order; a word that only answers or
/// commands passes what is still to be fetched.
fn due(state: &State) -> Option<&Inbound> {
    let mut behind = false;
    state.unread.iter().find(|message| {
        let is_here = media::is_here(state, message);
        let waits = !is_here || behind && is_work(state, message);
        behind |= !is_here;
        !waits && !undelivered::is_early(state, message)
    })
}

/// Whether it would start or steer work: no command, no answer, nothing of the channel's own.
fn is_work(state: &State, message: &Inbound) -> bool {
    let Said::Plain(text) = command::read(&message.text) else {
        return media::is_file(message);
    };
    let answers = state.question().is_some() && read_reply(text).is_some();
    let stops = state.turn.is_some() && is_stop_word(text);
    let is_persons = message.via == Via::Text && message.unreadable.is_none();
    is_persons && (media::is_file(message) || !answers && !stops && state.listening().is_none())
}

/// The event that takes the next message, or `None` where there is none to take now.
pub fn next(state: &State, policy: &Policy) -> Option<Event> {
    let message = due(state)?;
    if state.checkpoints.puts_back() {
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
    if media::is_lost(state, message) {
        return media::failure(state, message).map(|told| command(message, "", told));
    }
    if media::is_file(message) {
        return take_plain(state, message, &message.text);
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
        Said::Unknown(name) => {
            let names = command::nearest(name);
            let nearest = match names.is_empty() {
                true => String::new(),
                false => say(state, "nearest", &[("names", &names.join(", "))]),
            };
            Some(command(
                message,
                name,
                say(
                    state,
                    "unknown_command",
                    &[("name", name), ("nearest", &nearest)],
                ),
            ))
        }
        Said::Empty => Some(command(message, "", say(state, "empty", &[]))),
        Said::Plain(text) => take_plain(state, message, text),
    }
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

/// With two questions open in one chat, an answer that names none answers nothing, and is asked which one it is for
/// (behaviour, section 1).
fn which_one(state: &State, policy: &Policy, message: &Inbound) -> Option<String> {
    let own = state.question().map(|(call, question)| OpenQuestion {
        code: question.approval.clone(),
        what: wording::in_a_line(call),
    });
    let stops = own.is_none() && state.turn.is_some() && is_stop_word(&message.text);
    let open: Vec<&OpenQuestion> = own.iter().chain(&message.elsewhere).collect();
    if message.elsewhere.is_empty() || open.len() < 2 || stops || state.listening().is_some() {
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
    }
}

/// Taken for the model, with what it quotes.
fn for_model(state: &State, message: &Inbound, reading: Reading, reply: Option<String>) -> Event {
    let told = [media::failure(state, message), reply];
    let told: Vec<String> = told.into_iter().flatten().collect();
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

fn take_plain(state: &State, message: &Inbound, text: &str) -> Option<Event> {
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
                message,
                Reading::Steering,
                Some(say(state, "still_open", &[("code", &question.approval)])),
            ),
        });
    }
    if message.via == Via::Reaction {
        return Some(taken(message, Reading::Ignored, None));
    }
    if let Some(call) = state.listening() {
        let call = call.id.clone();
        return Some(for_model(state, message, Reading::Answer { call }, None));
    }
    match &state.turn {
        Some(_) if is_stop_word(text) && !is_file => Some(Event::Cancelled { by: by(message) }),
        // The turn is about to end: the message starts the next one.
        Some(Turn {
            phase: Phase::Answered(_) | Phase::Failed(_) | Phase::Limited(_),
            ..
        }) => None,
        Some(Turn {
            interrupted: true, ..
        }) => Some(for_model(
            state,
            message,
            Reading::Steering,
            Some(say(state, "steering_interrupted", &[])),
        )),
        Some(_) => Some(for_model(
            state,
            message,
            Reading::Steering,
            Some(say(state, "steering", &[])),
        )),
        None => {
            let fires = wording::cron_fires(state, message);
            Some(for_model(state, message, Reading::Objective, fires))
        }
    }
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

/// A reaction or a quote names the message that it is about; what names none is about the open question.
fn is_about(message: &Inbound, question: &Question) -> bool {
    match &message.about {
        None => true,
        Some(id) => question.asked_in.contains(id),
    }
}

/// With no question open, a plain "stop" is `/cancel` (behaviour, section 1).
fn is_stop_word(text: &str) -> bool {
    let word = text
        .trim_matches(|c: char| !c.is_alphanumeric())
        .to_lowercase();
    matches!(word.as_str(), "stop" | "cancelar")
}

fn take_command(state: &State, policy: &Policy, message: &Inbound, said: ChatCommand<'_>) -> Event {
    match said {
        ChatCommand::Help => command(message, "help", say(state, "help", &[])),
        ChatCommand::Status => command(message, "agent", status(state, policy)),
        // The hub opens the new session and gives it the objective; here it would be the first message.
        ChatCommand::Start(_) => taken(
            message,
            Reading::Command {
                name: "agent".into(),
            },
            None,
        ),
        ChatCommand::Cost => command(message, "cost", money::report(state, policy)),
        // `step` has the world look first; what it finds is the answer.
        ChatCommand::Audit | ChatCommand::Workspaces { .. } => {
            taken(message, Reading::Ignored, None)
        }
        ChatCommand::Diff => Event::DiffAsked { by: by(message) },
        ChatCommand::Cron(said) => cron(state, message, said),
        ChatCommand::Trust(said) => trust(state, message, said),
        ChatCommand::Undo { rounds, force } => undo(state, message, rounds, force),
        ChatCommand::Redo { force } => redo(state, message, force),
        ChatCommand::New => command(message, "new", say(state, "new_thread", &[])),
        ChatCommand::Cancel if state.turn.is_some() => Event::Cancelled { by: by(message) },
        ChatCommand::Cancel => command(message, "cancel", say(state, "nothing_to_cancel", &[])),
        // What it takes was said with the damage.
        ChatCommand::Resume { id: Some(id), .. } if state.damaged.as_deref() == Some(id) => {
            let name = "agent-resume".into();
            taken(message, Reading::Command { name }, None)
        }
        ChatCommand::Resume { id: Some(id), .. } if id != state.opening.session => command(
            message,
            "agent-resume",
            say(state, "no_session", &[("id", id)]),
        ),
        ChatCommand::Resume { .. } if can_resume(state) => Event::Resumed { by: by(message) },
        ChatCommand::Resume { .. } => {
            let status = short_status(state, policy);
            command(
                message,
                "agent-resume",
                say(state, "nothing_to_resume", &[("status", &status)]),
            )
        }
        ChatCommand::Approve { code, always } => approve(state, message, code, always),
        ChatCommand::Deny { code, reason } => deny(state, message, code, reason),
    }
}

fn cron(state: &State, message: &Inbound, said: &str) -> Event {
    let told = |text| command(message, "cron", text);
    match wish::read(said) {
        // What runs by the clock must not breed.
        Ok(wish) if wish.changes() && message.via == Via::Schedule => {
            told(say(state, "cron_from_schedule", &[]))
        }
        Ok(wish) => Event::CronAsked {
            by: by(message),
            wish,
        },
        Err(unclear) => told(say(state, "cron_usage", &[("why", &unclear.to_string())])),
    }
}

fn trust(state: &State, message: &Inbound, said: &str) -> Event {
    match message.via {
        // It was said before anybody could see what is there when the clock says it.
        Via::Schedule | Via::Flag => command(message, "trust", say(state, "trust_by_person", &[])),
        Via::Text | Via::Button | Via::Reaction | Via::Pairing | Via::Notice => Event::TrustAsked {
            by: by(message),
            wish: trust::read(said),
        },
    }
}

fn undo(state: &State, message: &Inbound, rounds: Result<usize, &str>, force: bool) -> Event {
    let told = |name, values: &[(&str, &str)]| command(message, "undo", say(state, name, values));
    if state.turn.is_some() {
        return told("undo_busy", &[]);
    }
    let checkpoints = &state.checkpoints;
    let max = checkpoints.rounds();
    match rounds {
        Err(word) => told("undo_number", &[("word", word)]),
        Ok(_) if max == 0 => told("undo_nothing", &[]),
        Ok(rounds) if rounds > max => {
            let max = max.to_string();
            told("undo_few", &[("max", &max)])
        }
        Ok(rounds) => {
            let way = Way::Undo { rounds };
            let by = by(message);
            match checkpoints.swaps(way).is_some() {
                true => Event::UndoAsked { by, way, force },
                false => told("undo_uncovered", &[]),
            }
        }
    }
}

fn redo(state: &State, message: &Inbound, force: bool) -> Event {
    let told = |name| command(message, "redo", say(state, name, &[]));
    match state.checkpoints.undone {
        _ if state.turn.is_some() => told("undo_busy"),
        None => told("redo_nothing"),
        Some(_) => Event::UndoAsked {
            by: by(message),
            way: Way::Redo,
            force,
        },
    }
}

/// Interrupted, failed, limited and cancelled turns go on; a finished one needs a new message.
pub fn can_resume(state: &State) -> bool {
    match &state.turn {
        Some(turn) => turn.interrupted,
        None => matches!(
            state.last_end,
            Some(EndReason::Failed | EndReason::Limit | EndReason::Cancelled)
        ),
    }
}

fn approve(state: &State, message: &Inbound, code: &str, always: bool) -> Event {
    let Some((_, question)) = state
        .question()
        .filter(|(_, question)| same_code(&question.approval, code))
    else {
        return command(message, "approve", no_question(state, code));
    };
    let given = |always| Event::ApprovalGiven {
        approval: question.approval.clone(),
        by: by(message),
        always,
    };
    match (always, &question.pattern) {
        (false, _) => given(None),
        (true, Some(pattern)) => given(Some(pattern.clone())),
        (true, None) => {
            let why = say(state, "always_no_pattern", &[]);
            command(
                message,
                "approve",
                say(state, "always_refused", &[("why", &why)]),
            )
        }
    }
}

fn deny(state: &State, message: &Inbound, code: &str, reason: Option<&str>) -> Event {
    if let Some((_, question)) = state.question().filter(|_| !looks_like_code(code)) {
        let rest = format!("{code} {}", reason.unwrap_or_default());
        return Event::ApprovalRefused {
            approval: question.approval.clone(),
            by: by(message),
            reason: Some(rest.trim().to_owned()).filter(|reason| !reason.is_empty()),
        };
    }
    let Some((_, question)) = state
        .question()
        .filter(|(_, question)| same_code(&question.approval, code))
    else {
        return command(message, "deny", no_question(state, code));
    };
    Event::ApprovalRefused {
        approval: question.approval.clone(),
        by: by(message),
        reason: reason.map(str::to_owned),
    }
}

/// With one question open, a command without a code means that one.
fn same_code(open: &str, said: &str) -> bool {
    said.is_empty() || open.eq_ignore_ascii_case(said)
}

fn no_question(state: &State, code: &str) -> String {
    match state.question() {
        None => say(state, "nothing_open", &[]),
        Some((_, question)) => {
            let open = say(state, "open_question", &[("code", &question.approval)]);
            say(
                state,
                "no_such_question",
                &[("code", code), ("open", &open)],
            )
        }
    }
}

/// One line: what the session does or waits for.
pub fn short_status(state: &State, policy: &Policy) -> String {
    let Some(turn) = &state.turn else {
        return match state.last_end {
            Some(reason) => {
                let reason = wording::ended(&state.texts, reason);
                say(state, "status_idle", &[("reason", &reason)])
            }
            None => say(state, "status_fresh", &[]),
        };
    };
    if turn.interrupted {
        return say(state, "status_interrupted", &[]);
    }
    if let Some((_, question)) = state.question() {
        return say(state, "status_waiting", &[("code", &question.approval)]);
    }
    if state.listening().is_some() {
        return say(state, "status_question", &[]);
    }
    let (round, max) = (
        turn.round.to_string(),
        limits::rounds_max(state, policy).to_string(),
    );
    say(state, "status_running", &[("round", &round), ("max", &max)])
}

fn status(state: &State, policy: &Policy) -> String {
    let plan = match state.plan.is_empty() {
        true => String::new(),
        false => format!("\n{}", state.plan.checklist()),
    };
    // Journals of before it was written down have none.
    let sandbox = match state.opening.sandbox.as_str() {
        "" => "-",
        sandbox => sandbox,
    };
    let values = [
        ("session", state.opening.session.as_str()),
        ("workspace", &wording::place(state)),
        ("sandbox", sandbox),
        ("status", &short_status(state, policy)),
        ("rounds", &state.rounds.to_string()),
        ("spend", &money::line(state, state.spend)),
        ("plan", &plan),
        ("undelivered", &undelivered::line(state)),
    ];
    say(state, "status", &values)
}
