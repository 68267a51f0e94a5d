//! Where a session can be forked, and what goes along. Pure.
//!
//! The conversation and the plan go along. Grants, approvals, questions, and effects that have not ended do not: they were
//! given to, and made by, the other session.

use crate::agent::event::{Fork, NextRole, Opening};
use crate::agent::roles::Role;
use crate::agent::state::{Phase, State, Stop};
use std::sync::Arc;

/// Whether the past up to here can stand for itself: no call is open, and everything that was said is in the conversation.
pub fn is_possible(state: &State) -> bool {
    let settled = state.turn.as_ref().is_none_or(|turn| {
        turn.stop == Stop::No
            && match turn.phase {
                Phase::Ready | Phase::Answered(_) | Phase::Failed(_) | Phase::Limited(_) => true,
                Phase::Asking
                | Phase::Drafting
                | Phase::Calls(_)
                | Phase::TooLong(_)
                | Phase::Summarising(_)
                | Phase::Summarised(..) => false,
            }
    });
    settled && state.unread.is_empty() && state.steering.is_empty()
}

/// The first line of a fork. `session`, `chat` and `program` are the new ones.
pub fn opening(state: &State, session: String, chat: String, program: String) -> Opening {
    let parent = &state.opening;
    let messages = state.conversation.messages().iter();
    let in_turn = state
        .turn
        .as_ref()
        .is_some_and(|turn| !matches!(turn.phase, Phase::Answered(_)));
    let (kinds, past) = state.conversation.handed_on();
    let fork = Fork {
        parent: parent.session.clone(),
        at: state.seq,
        head: state.head.clone(),
        messages: messages.map(|message| message.get().to_owned()).collect(),
        kinds,
        past,
        rounds: state.rounds,
        plan: state.plan.clone(),
        changed: state.changed.iter().cloned().collect(),
        in_turn,
        role: boxed(state.role.as_ref()),
        next_role: state.next_role.as_ref().map(|next| NextRole {
            role: boxed(next.as_ref()),
        }),
        charter: state.charter.as_deref().cloned().map(Box::new),
    };
    let together_ms = match chat == parent.chat {
        true => parent.together_ms,
        false => 0,
    };
    Opening {
        together_ms,
        session,
        chat,
        program,
        // Its worktree, if it has one, is the parent's: files stay as they are.
        workspace: state.checkout.clone(),
        // A person is there.
        scheduled: None,
        welcome: false,
        fork: Some(Box::new(fork)),
        // Whoever forks it is a person, who talks with it.
        child: None,
        ..(**parent).clone()
    }
}

fn boxed(role: Option<&Arc<Role>>) -> Option<Box<Role>> {
    role.map(|role| Box::new((**role).clone()))
}
