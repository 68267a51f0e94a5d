//! How the session is doing, in words.

use super::say;
use crate::agent::limits;
use crate::agent::money;
use crate::agent::state::State;
use crate::agent::step::Policy;
use crate::agent::undelivered;
use crate::agent::wording;

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
    if state.listening().is_some() || state.server_question().is_some() {
        return say(state, "status_question", &[]);
    }
    let (round, max) = (
        turn.round.to_string(),
        limits::rounds_max(state, policy).to_string(),
    );
    say(state, "status_running", &[("round", &round), ("max", &max)])
}

pub(super) fn status(state: &State, policy: &Policy) -> String {
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
