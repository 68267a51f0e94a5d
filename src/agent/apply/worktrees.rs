//! What becomes of a session's own worktrees.

use super::outbox::notice;
use super::{Illegal, illegal};
use crate::agent::event::WorkspaceRef;
use crate::agent::state::{Phase, State};
use crate::agent::worktrees::{Made, Place, Tree};

pub(super) fn start(state: &mut State, checkout: &WorkspaceRef) -> Result<(), Illegal> {
    if state.opening.worktrees.is_none() {
        return illegal("a worktree is made for a session that works in the folder itself");
    }
    match state.worktrees.making.replace(checkout.path.clone()) {
        None => Ok(()),
        Some(_) => illegal("two worktrees are made at a time"),
    }
}

pub(super) fn made(state: &mut State, checkout: &str, made: &Made) -> Result<(), Illegal> {
    if state.worktrees.making.take().as_deref() != Some(checkout) {
        return illegal("a worktree is there that was not being made");
    }
    match made {
        Made::Failed { why } => {
            let (path, why) = (checkout.to_owned(), why.clone());
            state.worktrees.failed.insert(path, why);
        }
        Made::Shared { why } => {
            if know(state, checkout, Place::Shared) {
                return illegal("a session leaves its worktree for the person's folder");
            }
            if checkout == state.checkout.path {
                let name = state.checkout.name.clone();
                let values = [("name", &*name), ("why", why)];
                notice(state, "worktree_none", &values);
                tell_model(state, "worktree_none_model", &values);
            }
        }
        Made::Own {
            tree,
            fresh,
            uncommitted,
        } => {
            let was_known = know(state, checkout, Place::Own(tree.clone()));
            if checkout == state.checkout.path {
                state.workspace = tree.workspace.clone();
                // Its own files may say something else than the person's.
                if let Some(briefing) = state.briefing.as_mut().filter(|_| !was_known) {
                    briefing.due |= briefing.brief.trusted;
                }
            }
            // The model knows its branch from the beginning.
            match (was_known, fresh) {
                (false, _) => tell_person(state, tree, *uncommitted),
                (true, true) => {
                    let values = [("name", &*tree.workspace.name)];
                    tell_model(state, "worktree_again_model", &values);
                }
                (true, false) => {}
            }
        }
    }
    Ok(())
}

/// Whether it was known before.
fn know(state: &mut State, checkout: &str, place: Place) -> bool {
    let worktrees = &mut state.worktrees;
    worktrees.sure.insert(checkout.to_owned());
    worktrees.known.insert(checkout.to_owned(), place).is_some()
}

fn tell_person(state: &mut State, tree: &Tree, uncommitted: usize) {
    let count = uncommitted.to_string();
    let values = [
        ("name", &*tree.workspace.name),
        ("branch", &tree.branch),
        ("count", &count),
    ];
    notice(state, "worktree_made", &values);
    if uncommitted > 0 {
        notice(state, "worktree_uncommitted", &values);
    }
}

/// Appended, so that the conversation only grows at its end; between a call and its result nothing can be.
fn tell_model(state: &mut State, text: &str, values: &[(&str, &str)]) {
    let in_calls = state
        .turn
        .as_ref()
        .is_some_and(|turn| matches!(turn.phase, Phase::Calls(_)));
    if !in_calls {
        let told = state.texts.say(text, values);
        state.conversation.user(&told);
    }
}
