//! What goes between the person's folder and the worktree: asked for, under way, done.

use super::checkpoints::listed;
use super::messages::take_word;
use super::outbox::notice;
use super::{Illegal, illegal};
use crate::agent::carry::{Carried, Carry, Carrying};
use crate::agent::event::{By, WorkspaceRef};
use crate::agent::state::State;
use crate::agent::workspaces::is_between_rounds;

const COMMIT_CHARS: usize = 10;

pub(super) fn ask(
    state: &mut State,
    by: &By,
    carry: Carry,
    checkout: &WorkspaceRef,
) -> Result<(), Illegal> {
    let Some(message) = by.message.clone() else {
        return illegal("a wish without a message");
    };
    if state.carrying.is_some() {
        return illegal("two wishes at once");
    }
    take_word(state, by)?;
    state.carrying = Some(Carrying {
        message,
        carry,
        checkout: checkout.clone(),
        running: false,
    });
    // Since the last turn, somebody may have taken it away.
    match state.turn {
        None => state.worktrees.doubt(),
        Some(_) if !is_between_rounds(state) => {
            notice(state, "bring_soon", &[("name", &checkout.name)]);
        }
        Some(_) => {}
    }
    Ok(())
}

pub(super) fn start(state: &mut State, message: &str) -> Result<(), Illegal> {
    match &mut state.carrying {
        Some(carrying) if carrying.message == message && !carrying.running => {
            carrying.running = true;
            Ok(())
        }
        _ => illegal(format!("nothing is to be carried for {message}")),
    }
}

pub(super) fn done(state: &mut State, carried: &Carried) -> Result<(), Illegal> {
    let Some(carrying) = state.carrying.take() else {
        return illegal("nobody wanted anything carried");
    };
    let is_merge = matches!(carrying.carry, Carry::Merge { .. });
    let name = &*carrying.checkout.name;
    match carried {
        Carried::Brought { files, left_out } => {
            let count = files.count.to_string();
            let values = [
                ("name", name),
                ("count", &*count),
                ("files", &listed(files)),
            ];
            match files.is_empty() {
                true => notice(state, "bring_nothing", &values),
                false => {
                    tell_model(state, "brought_model", &values);
                    notice(state, "brought", &values);
                }
            }
            if !left_out.is_empty() {
                notice(state, "bring_left_out", &[("files", &listed(left_out))]);
            }
        }
        Carried::Differ { files } => {
            notice(state, "bring_differ", &[("files", &listed(files))]);
        }
        Carried::Merged {
            branch,
            into,
            commit,
            commits,
            files,
        } => {
            let (count, files) = (commits.to_string(), files.to_string());
            let values = [
                ("name", name),
                ("branch", branch),
                ("into", into),
                ("commit", commit.get(..COMMIT_CHARS).unwrap_or(commit)),
                ("commits", &count),
                ("files", &files),
            ];
            match commits {
                0 => notice(state, "merged_already", &values),
                _ => {
                    tell_model(state, "merged_model", &values);
                    notice(state, "merged", &values);
                }
            }
        }
        Carried::Uncommitted { files } => {
            notice(state, "merge_uncommitted", &[("files", &listed(files))]);
        }
        Carried::InTheWay { files } => {
            let values = [("name", name), ("files", &listed(files))];
            notice(state, "merge_in_the_way", &values);
        }
        Carried::Conflict { into, files } => {
            let values = [("into", &**into), ("files", &listed(files))];
            notice(state, "merge_conflict", &values);
        }
        Carried::Shared => notice(state, "carry_shared", &[("name", name)]),
        Carried::Failed { why } if is_merge => notice(state, "merge_failed", &[("why", why)]),
        Carried::Failed { why } => notice(state, "bring_failed", &[("why", why)]),
    }
    Ok(())
}

/// Appended, so that the conversation only grows at its end; it is never done within a round.
fn tell_model(state: &mut State, text: &str, values: &[(&str, &str)]) {
    let told = state.texts.say(text, values);
    state.conversation.user(&told);
}

/// The process died: it is done again, which comes to the same.
pub(super) fn interrupt(state: &mut State) {
    if let Some(carrying) = &mut state.carrying {
        carrying.running = false;
    }
}

/// Lines of the journal are gone: what the person meant then may be something else now.
pub(super) fn forget(state: &mut State) {
    let Some(carrying) = state.carrying.take() else {
        return;
    };
    let why = state.texts.say("undo_lost", &[]);
    let text = match carrying.carry {
        Carry::Bring => "bring_failed",
        Carry::Merge { .. } => "merge_failed",
    };
    notice(state, text, &[("why", &why)]);
}
