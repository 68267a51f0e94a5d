//! Sessions that another session begins: whose they are, what they may use, what they may spend. Pure.
//!
//! A child is a session like any other, with a journal of its own, in the chat of its parent. It says nothing there but its
//! questions, each with its name, and never is the chat's active session: what it has to tell, its parent's call is told.

use crate::agent::event::{Opening, OutgoingKind};
use crate::agent::limits::Limits;
use crate::agent::roles::Role;
use crate::agent::state::State;
use crate::agent::step::Policy;
use crate::definitions::Origin;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How ids of children begin.
pub const PREFIX: &str = "child-";

/// What a child that answers a question about sources has.
const READING: [&str; 5] = [
    "list_files",
    "search",
    "get_file_outline",
    "read_lines",
    "read_output",
];

/// Calls that begin one.
const BEGUN_BY: [&str; 2] = ["ask_sources", "delegate"];

/// What no child has: one level is enough, what runs by itself is the person's, and neither a question in free words nor a
/// plan that is to be run would find its way back past the chat's active session.
const NEVER: [&str; 6] = [
    "ask_sources",
    "plan_tasks",
    "delegate",
    "create_cron",
    "delete_cron",
    "request_user_approval",
];

/// Whose child a session is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Child {
    /// The session that began it.
    pub parent: String,
    /// The call, or the person's message, that it is for.
    pub about: String,
    /// What people know it by.
    pub name: String,
    pub share: Share,
    /// Whether it works in a worktree of its own.
    #[serde(default)]
    pub isolated: bool,
    /// What it keeps of the tools.
    pub role: Box<Role>,
}

/// Whether it has nothing but tools that read.
pub fn only_reads(role: &Role) -> bool {
    let reads = |tool: &String| READING.contains(&tool.as_str());
    (role.tools.as_ref()).is_some_and(|tools| tools.iter().all(reads))
}

/// What a child may spend of its parent's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    pub rounds_max: u32,
    pub tokens_max: u64,
    pub seconds_max: u64,
    /// In US cents; 0 sets no limit.
    pub cents_max: u64,
}

/// The id of a session's child.
pub fn id(parent: &str, about: &str) -> String {
    format!("{PREFIX}{parent}-{about}")
}

/// Whether a session is a child, by its id.
pub fn is_id(session: &str) -> bool {
    session.starts_with(PREFIX)
}

/// What is left of the turn, divided by the calls of the round that may each need a share; outside of a turn, a whole one.
pub fn share(state: &State, policy: &Policy) -> Share {
    let limits = &policy.limits;
    let whole = whole(&self::limits(state, limits));
    let Some(turn) = &state.turn else {
        return whole;
    };
    let calls = state.calls().iter();
    let many = calls
        .filter(|pending| BEGUN_BY.contains(&&*pending.call.tool))
        .count()
        .max(1) as u64;
    let spent_ms = state
        .now
        .since(turn.started_at)
        .saturating_sub(turn.waited_ms);
    let spent_cents = turn.spend.micros.div_ceil(10_000);
    Share {
        rounds_max: whole.rounds_max.saturating_sub(turn.round).max(1),
        tokens_max: (whole.tokens_max.saturating_sub(turn.spend.usage.total()) / many).max(1),
        // They run side by side.
        seconds_max: whole.seconds_max.saturating_sub(spent_ms / 1000).max(1),
        cents_max: match whole.cents_max {
            0 => 0,
            cents => (cents.saturating_sub(spent_cents) / many).max(1),
        },
    }
}

fn whole(limits: &Limits) -> Share {
    Share {
        rounds_max: limits.rounds_max,
        tokens_max: limits.tokens_max,
        seconds_max: limits.turn_seconds_max,
        cents_max: limits.turn_cents_max,
    }
}

/// The limits of a turn as they hold for a session: a child's are its share.
pub fn limits(state: &State, limits: &Limits) -> Limits {
    let Some(child) = &state.opening.child else {
        return limits.clone();
    };
    let share = child.share;
    Limits {
        rounds_max: limits.rounds_max.min(share.rounds_max),
        tokens_max: limits.tokens_max.min(share.tokens_max),
        turn_seconds_max: limits.turn_seconds_max.min(share.seconds_max),
        turn_cents_max: match (limits.turn_cents_max, share.cents_max) {
            (own, 0) => own,
            (0, share) => share,
            (own, share) => own.min(share),
        },
        ..limits.clone()
    }
}

/// What one that answers a question about sources acts as: it reads, within what its parent may use.
pub fn reader(name: &str, parent: Option<&Role>) -> Role {
    let kept = READING.iter().map(|tool| (*tool).to_owned()).collect();
    role(name, Some(kept), parent)
}

/// What a child acts as: never more than its parent.
pub fn role(name: &str, tools: Option<BTreeSet<String>>, parent: Option<&Role>) -> Role {
    let own = Role {
        name: name.to_owned(),
        origin: Origin::BuiltIn,
        text: String::new(),
        tools,
        without: NEVER.iter().map(|tool| (*tool).to_owned()).collect(),
        model: parent.and_then(|role| role.model.clone()),
        skills: Vec::new(),
    };
    match parent {
        Some(parent) => own.within(parent),
        None => own,
    }
}

/// What a session acts as from its first line on.
pub fn role_of(opening: &Opening) -> Option<Box<Role>> {
    let fork = opening.fork.as_deref();
    let child = opening.child.as_deref();
    let role = fork.and_then(|fork| fork.role.clone());
    role.or_else(|| Some(child?.role.clone()))
}

/// That a person's word on what it asked was taken: of a child, with its name.
pub fn confirmed(state: &State, text: String) -> String {
    match &state.opening.child {
        None => text,
        Some(child) => {
            let values = [("name", child.name.as_str()), ("text", &text)];
            state.texts.say("child_confirms", &values)
        }
    }
}

/// What of its words the chat hears: of a child, what it asks, with its name.
pub fn said(state: &State, kind: OutgoingKind, text: String) -> Option<String> {
    match (&state.opening.child, kind) {
        (None, _) => Some(text),
        (Some(child), OutgoingKind::Question) => {
            let values = [("name", child.name.as_str()), ("text", &text)];
            Some(state.texts.say("child_asks", &values))
        }
        (
            Some(_),
            OutgoingKind::Notice
            | OutgoingKind::Progress
            | OutgoingKind::Change
            | OutgoingKind::Final,
        ) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_child_has_what_would_not_find_back_to_the_person() {
        let all = role("helper 1.1", None, None);
        let chosen = NEVER.iter().map(|tool| (*tool).to_owned()).collect();
        let chosen = role("helper 1.1", Some(chosen), None);
        for tool in ["delegate", "plan_tasks", "create_cron"] {
            assert!(all.forbids(tool) && chosen.forbids(tool), "{tool}");
        }
        assert!(!all.forbids("run_command"));
    }
}
