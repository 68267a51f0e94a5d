//! The agent that the session acts as: chosen now, in force from the next turn on.

use super::errands::met;
use super::outbox::say;
use super::{Illegal, illegal};
use crate::agent::event::OutgoingKind;
use crate::agent::roles::AgentAnswer;
use crate::agent::state::{ErrandWish, State};
use crate::agent::wording;
use crate::definitions::Origin;
use std::sync::Arc;

pub(super) fn answer(state: &mut State, answer: &AgentAnswer) -> Result<(), Illegal> {
    let ErrandWish::Agents(_) = met(state)? else {
        return illegal("an answer about agents that nobody asked for");
    };
    let text = wording::agent_answer(state, answer);
    say(state, OutgoingKind::Notice, text);
    match answer {
        AgentAnswer::Chosen { role } => {
            state.next_role = Some(Some(Arc::new((**role).clone())));
        }
        AgentAnswer::Off => state.next_role = Some(None),
        AgentAnswer::Listed { .. } | AgentAnswer::NotThere { .. } | AgentAnswer::Refused { .. } => {
        }
    }
    Ok(())
}

/// The system prompt changes between turns, and never within one.
pub(super) fn begin_turn(state: &mut State) {
    // The person's choice counts again from the turn after the command's.
    let commands = state.charter.as_ref().and_then(|one| one.role.clone());
    let next = match (commands, state.next_role.take()) {
        (None, None) => return,
        (None, Some(next)) => next,
        (Some(role), next) => {
            let chosen = next.unwrap_or_else(|| state.role.clone());
            let role = match &chosen {
                Some(chosen) => role.within(chosen),
                None => role,
            };
            state.next_role = Some(chosen);
            Some(Arc::new(role))
        }
    };
    let base = &state.opening.system;
    let system = next
        .as_ref()
        .map_or_else(|| base.clone(), |role| role.system(base));
    state.conversation.replace_system(&system);
    state.role = next;
    // Some instructions are for one agent.
    if let Some(briefing) = &mut state.briefing {
        briefing.due |= briefing.brief.is_scoped();
    }
}

/// What a workspace says counts no longer: the agent of its that ends, by name.
pub(super) fn distrust(state: &mut State) -> Option<String> {
    let next = state.next_role.as_ref().unwrap_or(&state.role);
    let theirs = next
        .as_ref()
        .filter(|role| role.origin == Origin::Workspace)?;
    let name = theirs.name.clone();
    state.next_role = Some(None);
    Some(name)
}
