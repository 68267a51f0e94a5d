//! How a session gets from one workspace to another, and what stays behind in each.

use super::calls::finish;
use super::messages::unread;
use super::outbox::notice;
use super::{Illegal, illegal};
use crate::agent::event::{CallId, Outcome, WorkspaceRef};
use crate::agent::state::{Belongings, State};
use crate::agent::workspaces::is_between_rounds;
use crate::agent::worktrees::place_of;
use crate::gate::Destination;
use std::mem::{replace, swap};

/// The person asked which there are, or for one of them.
pub(super) fn seen(
    state: &mut State,
    message: &str,
    names: &[String],
    wanted: Option<&Destination<WorkspaceRef>>,
) -> Result<(), Illegal> {
    unread(state, message)?;
    match wanted {
        None => list(state, names),
        Some(Destination::Nowhere { why }) => notice(state, "workspace_refused", &[("why", why)]),
        Some(Destination::Known(wanted)) if **wanted == state.checkout => {
            state.moving = None;
            notice(state, "workspace_here", &[("name", &wanted.name)]);
        }
        Some(Destination::Known(wanted)) => {
            state.moving = Some(wanted.as_ref().clone());
            if !is_between_rounds(state) {
                notice(state, "workspace_soon", &[("name", &wanted.name)]);
            }
        }
    }
    Ok(())
}

fn list(state: &mut State, names: &[String]) {
    let here = |name: &&String| **name == state.workspace.name;
    let line = |name: &String| match here(&name) {
        true => format!("• {name} ←"),
        false => format!("• {name}"),
    };
    let mut lines: Vec<String> = names.iter().map(line).collect();
    if !names.iter().any(|name| here(&name)) {
        lines.insert(0, format!("• {} ←", state.workspace.path));
    }
    notice(state, "workspaces", &[("list", &lines.join("\n"))]);
}

/// Everything that belongs to the old workspace stays with it, and waits there.
pub(super) fn switch(
    state: &mut State,
    call: Option<&CallId>,
    workspace: &WorkspaceRef,
    output: &str,
) -> Result<(), Illegal> {
    if state.checkpoints.is_unsettled() || state.checkpoints.wish.is_some() {
        return illegal("the workspace is switched before it is known what was changed in it");
    }
    let place = place_of(state, workspace);
    let mut belongings = state.left.remove(&place.path).unwrap_or_default();
    let old = replace(&mut state.workspace, place);
    state.checkout = workspace.clone();
    let last = state.checkpoints.last;
    exchange(state, &mut belongings);
    // Numbers go on: two workspaces may keep their trees in one repository.
    let checkpoints = &mut state.checkpoints;
    if checkpoints.start.is_none() {
        checkpoints.first = last + 1;
    }
    checkpoints.last = last;
    checkpoints.last_tree = None;
    state.left.insert(old.path, belongings);
    if let Some(briefing) = &mut state.briefing {
        briefing.due = true;
    }
    notice(state, "workspace_switched", &[("name", &workspace.name)]);
    match call {
        Some(call) => finish(state, call, &Outcome::done(output)),
        None => {
            state.moving = None;
            // Appended, so that the conversation only grows at its end.
            state.conversation.user(output);
            Ok(())
        }
    }
}

fn exchange(state: &mut State, belongings: &mut Belongings) {
    swap(&mut state.changed, &mut belongings.changed);
    swap(&mut state.grants, &mut belongings.grants);
    swap(&mut state.refused, &mut belongings.refused);
    swap(&mut state.checkpoints, &mut belongings.checkpoints);
}
