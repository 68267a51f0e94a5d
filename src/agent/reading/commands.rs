//! What each chat command does: an event of its own, or an answer at once.

use super::status::{short_status, status};
use super::{by, cancelled, command, drop_waiting, say, taken, together};
use crate::agent::asking;
use crate::agent::carry::{self, Carry};
use crate::agent::checkpoints::Way;
use crate::agent::command::{ChatCommand, looks_like_code};
use crate::agent::event::{EndReason, Event, Inbound, Reading, Via};
use crate::agent::graphs;
use crate::agent::loading;
use crate::agent::money;
use crate::agent::roles::{self, AgentWish};
use crate::agent::state::State;
use crate::agent::step::Policy;
use crate::agent::trust;
use crate::agent::wording;
use crate::schedule::wish;

pub(super) fn take_command(
    state: &State,
    policy: &Policy,
    message: &Inbound,
    said: ChatCommand<'_>,
) -> Event {
    match said {
        ChatCommand::Help => command(message, "help", help(state, message)),
        ChatCommand::Commands => command(message, "commands", commands(state, message)),
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
        ChatCommand::Bring => carry(state, message, "bring", Carry::Bring),
        ChatCommand::Merge { committed } => {
            carry(state, message, "merge", Carry::Merge { committed })
        }
        ChatCommand::Cron(said) => cron(state, message, said),
        ChatCommand::Plan(said) => plan(state, message, said),
        ChatCommand::Ask(said) => ask(state, message, said),
        ChatCommand::Trust(said) => trust(state, message, said),
        ChatCommand::Agents(said) => agents(state, message, said),
        ChatCommand::Undo { rounds, force } => undo(state, message, rounds, force),
        ChatCommand::Redo { force } => redo(state, message, force),
        ChatCommand::New => command(message, "new", say(state, "new_thread", &[])),
        ChatCommand::Cancel if state.turn.is_some() => cancelled(state, message),
        ChatCommand::Cancel if !together::dropped(state, message).is_empty() => {
            drop_waiting(state, message)
        }
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

fn help(state: &State, message: &Inbound) -> String {
    let help = say(state, "help", &[]);
    match loading::list(state, message) {
        list if list.is_empty() => help,
        list => format!("{}\n{list}", help.trim_end()),
    }
}

fn commands(state: &State, message: &Inbound) -> String {
    match loading::list(state, message) {
        list if list.is_empty() => say(state, "commands_none", &[]),
        list => list,
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
        Err(unclear) => {
            let why = wording::cron_unclear(&state.texts, &unclear);
            told(say(state, "cron_usage", &[("why", &why)]))
        }
    }
}

fn plan(state: &State, message: &Inbound, said: &str) -> Event {
    let wish = graphs::read(state, said);
    let told = |text| command(message, "plan", text);
    graphs::ask(state, message, by(message), &wish).unwrap_or_else(|answer| match answer {
        graphs::Answer::Shown(known) => told(wording::graph_shown(state, known)),
        graphs::Answer::Text(name, id) => told(state.texts.say(name, &[("id", id)])),
    })
}

fn ask(state: &State, message: &Inbound, said: &str) -> Event {
    let told = |name| command(message, "ask", say(state, name, &[]));
    match asking::read(said) {
        None => told("ask_usage"),
        Some(_) if state.turn.is_some() => told("ask_busy"),
        Some(asked) => asking::ask(asked, by(message)),
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

fn agents(state: &State, message: &Inbound, said: &str) -> Event {
    let wish = roles::read(said);
    match (message.via, &wish) {
        // What may be used, whoever is there says.
        (Via::Schedule, AgentWish::Use { .. } | AgentWish::Off) => {
            command(message, "agents", say(state, "agents_by_person", &[]))
        }
        _ => Event::AgentsAsked {
            by: by(message),
            wish,
        },
    }
}

fn carry(state: &State, message: &Inbound, name: &str, carry: Carry) -> Event {
    let values = [("name", &*state.checkout.name)];
    let told = |text| command(message, name, say(state, text, &values));
    carry::ask(state, message, by(message), carry).unwrap_or_else(told)
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
