//! What goes between the person's folder and a session's own worktree, on the person's word: in, what they did not commit
//! (`/bring`); out, what the session committed (`/merge`). Pure.
//!
//! Never within a round: the model's calls were made for the files as they were, and what a round changed is known before.
//! Both come to the same when they are done twice, so what a crash cut short is simply done again.

use crate::agent::event::{By, Event, Inbound, Names, Via, WorkspaceRef};
use crate::agent::state::State;
use crate::agent::step::{Decision, Effect};
use crate::agent::workspaces::is_between_rounds;
use crate::agent::worktrees::{self, Place};
use serde::{Deserialize, Serialize};

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "way")]
pub enum Carry {
    /// The person's uncommitted changes, into the worktree.
    Bring,
    /// The session's commits, into the branch that the person has checked out.
    Merge {
        /// Also where the session has changes that are not committed: these stay.
        committed: bool,
    },
}

/// What the person asked for and is not done yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carrying {
    /// The message that said so.
    pub message: String,
    pub carry: Carry,
    /// The person's folder.
    pub checkout: WorkspaceRef,
    pub running: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum Carried {
    Brought {
        files: Names,
        /// With the reason: secret, too large, a repository of its own.
        #[serde(default, skip_serializing_if = "Names::is_empty")]
        left_out: Names,
    },
    /// Nothing was brought: the session has these files in another version.
    Differ {
        files: Names,
    },
    Merged {
        branch: String,
        into: String,
        /// Where `into` is now.
        commit: String,
        /// None where all of it was there.
        commits: usize,
        files: usize,
    },
    /// Nothing was merged: the session has not committed these.
    Uncommitted {
        files: Names,
    },
    /// Nothing was merged: the person's own changes of these would be overwritten.
    InTheWay {
        files: Names,
    },
    /// Nothing was merged: both sides changed these.
    Conflict {
        into: String,
        files: Names,
    },
    /// The session works in the person's folder itself.
    Shared,
    Failed {
        why: String,
    },
}

/// What the message becomes: a wish, or an answer at once.
pub fn ask(state: &State, message: &Inbound, by: By, carry: Carry) -> Result<Event, &'static str> {
    let checkout = &state.checkout;
    let known = state.worktrees.known.get(&checkout.path);
    let is_merge = matches!(carry, Carry::Merge { .. });
    match message.via {
        Via::Schedule | Via::Flag => return Err("carry_by_person"),
        Via::Text | Via::Button | Via::Reaction | Via::Pairing | Via::Notice => {}
    }
    match known {
        _ if state.opening.worktrees.is_none() => Err("carry_shared"),
        Some(Place::Shared) => Err("carry_shared"),
        _ if state.carrying.is_some() => Err("carry_busy"),
        _ if is_merge && state.turn.is_some() => Err("merge_busy"),
        None if is_merge => Err("merge_none"),
        Some(Place::Own(_)) | None => Ok(Event::CarryAsked {
            by,
            carry,
            checkout: checkout.clone(),
        }),
    }
}

/// What is to be done about it next. Until it is done, no round begins.
pub fn due(state: &State) -> Option<Decision> {
    let carrying = state.carrying.as_ref()?;
    let owner = state.opening.worktrees.as_ref();
    if carrying.running {
        return Some(Decision::Wait);
    }
    if !is_between_rounds(state) {
        return None;
    }
    let checkpoints = &state.checkpoints;
    let busy = state.errand.is_some() || state.worktrees.making.is_some();
    if checkpoints.is_unsettled() || checkpoints.wish.is_some() || busy {
        return Some(Decision::Wait);
    }
    // Somebody may have taken it away since the last turn.
    if let Some(first) = worktrees::make(state, &carrying.checkout) {
        return Some(first);
    }
    let place = &state.worktrees;
    let path = &carrying.checkout.path;
    let carried = match (place.failed.get(path), place.known.get(path), owner) {
        (Some(why), _, _) => Carried::Failed { why: why.clone() },
        (None, Some(Place::Own(tree)), Some(owner)) => {
            return Some(Decision::Perform(Box::new(Effect::Carry {
                message: carrying.message.clone(),
                carry: carrying.carry,
                owner: owner.clone(),
                checkout: carrying.checkout.clone(),
                tree: tree.clone(),
            })));
        }
        (None, _, _) => Carried::Shared,
    };
    Some(Decision::Record(Box::new(Event::Carried { carried })))
}

/// Whether files are just going one way or the other: whatever is said now would be said about those.
pub fn is_under_way(state: &State) -> bool {
    state
        .carrying
        .as_ref()
        .is_some_and(|carrying| carrying.running)
}

/// What is written down where the doing itself broke.
pub fn broken(why: &str) -> Event {
    let why = why.to_owned();
    Event::Carried {
        carried: Carried::Failed { why },
    }
}
