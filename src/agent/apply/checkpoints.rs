//! What becomes of checkpoints, and of the person's wish to see or put back what changed.

use super::messages::take_word;
use super::outbox::{notice, say};
use super::{Illegal, illegal};
use crate::agent::checkpoints::{Change, Open, Swap, Undone, Way, Wish, rounds_of};
use crate::agent::event::{By, CheckpointTaken, Moment, Names, OutgoingKind, Restored, TreeId};
use crate::agent::state::{Phase, State};

pub(super) fn wish(state: &mut State, by: &By, wish: Wish) -> Result<(), Illegal> {
    take_word(state, by)?;
    match (&state.checkpoints.wish, &wish) {
        (Some(Wish::Back { .. }), _) => illegal("the workspace is being put back already"),
        (_, Wish::Back { .. }) if state.turn.is_some() => illegal("an undo during a turn"),
        _ => {
            state.checkpoints.wish = Some(wish);
            Ok(())
        }
    }
}

/// Something is done with trees from here on.
pub(super) fn start(state: &mut State) -> Result<(), Illegal> {
    if state.checkpoints.running {
        return illegal("two things are done with trees at a time");
    }
    state.checkpoints.running = true;
    Ok(())
}

fn end(state: &mut State) -> Result<(), Illegal> {
    match std::mem::take(&mut state.checkpoints.running) {
        true => Ok(()),
        false => illegal("what was done with trees ends without having started"),
    }
}

pub(super) fn taken(state: &mut State, taken: &CheckpointTaken) -> Result<(), Illegal> {
    end(state)?;
    if let Some(tree) = &taken.tree {
        keep(state, taken.number, tree);
    }
    let checkpoints = &mut state.checkpoints;
    checkpoints
        .kept
        .retain(|kept| !taken.dropped.contains(kept));
    if let Some(oldest) = taken.dropped.iter().max() {
        checkpoints.changes.retain(|change| change.number > *oldest);
    }
    match taken.moment {
        Moment::Before => {
            if checkpoints.start.is_none() {
                checkpoints.start.clone_from(&taken.tree);
            }
            checkpoints.open = Some(Open {
                round: state.rounds,
                number: taken.number,
                before: taken.tree.clone(),
                sure: true,
            });
        }
        Moment::After => {
            let Some(open) = checkpoints.open.take() else {
                return illegal("a round ends that no checkpoint began");
            };
            close(state, open, taken.tree.clone());
        }
        Moment::Undo => match (&mut checkpoints.wish, &taken.tree) {
            (Some(Wish::Back { from, .. }), Some(tree)) => *from = Some(tree.clone()),
            (wish, _) => {
                *wish = None;
                let why = taken.error.as_deref().unwrap_or_default();
                notice(state, "undo_failed", &[("why", why)]);
                return Ok(());
            }
        },
    }
    if let Some(why) = &taken.error {
        tell_failure(state, why);
    }
    Ok(())
}

fn keep(state: &mut State, number: u64, tree: &TreeId) {
    let checkpoints = &mut state.checkpoints;
    checkpoints.last_tree = Some(tree.clone());
    if number > checkpoints.last {
        checkpoints.last = number;
        if number > checkpoints.first.max(1) {
            checkpoints.kept.push_back(number);
        }
    }
}

/// A round that changed nothing is none that could be undone.
fn close(state: &mut State, open: Open, after: Option<TreeId>) {
    let after = after.filter(|_| open.sure);
    if after.is_some() && after == open.before {
        return;
    }
    let checkpoints = &mut state.checkpoints;
    checkpoints.undone = None;
    checkpoints.changes.push(Change {
        round: open.round,
        number: open.number,
        before: open.before,
        after,
    });
}

/// Once for each reason: the work goes on, but nobody is to believe that it could be undone.
fn tell_failure(state: &mut State, why: &str) {
    if state.checkpoints.told.as_deref() != Some(why) {
        state.checkpoints.told = Some(why.to_owned());
        notice(state, "checkpoint_failed", &[("why", why)]);
    }
}

/// The process died: what was running is made again, and what changed meanwhile is nobody's for sure.
pub(super) fn interrupt(state: &mut State) {
    state.checkpoints.running = false;
    let in_calls = state
        .turn
        .as_ref()
        .is_some_and(|turn| matches!(turn.phase, Phase::Calls(_)));
    let Some(mut open) = state.checkpoints.open.take() else {
        return;
    };
    open.sure = false;
    match in_calls && open.round == state.rounds {
        true => state.checkpoints.open = Some(open),
        false => close(state, open, None),
    }
}

pub(super) fn put_back(state: &mut State, restored: &Restored) -> Result<(), Illegal> {
    end(state)?;
    let Some(Wish::Back { way, from, .. }) = state.checkpoints.wish.take() else {
        return illegal("nobody wanted the workspace put back");
    };
    match restored {
        Restored::Done {
            number,
            tree,
            files,
        } => {
            keep(state, *number, tree);
            done(state, way, from, tree, files)
        }
        Restored::Conflict { files } => {
            let command = match way {
                Way::Undo { rounds } => format!("/undo {rounds} force"),
                Way::Redo => "/redo force".to_owned(),
            };
            let values = [("files", &*listed(files)), ("command", &command)];
            notice(state, "undo_conflict", &values);
            Ok(())
        }
        Restored::Failed { why } => {
            notice(state, "undo_failed", &[("why", why)]);
            Ok(())
        }
    }
}

fn done(
    state: &mut State,
    way: Way,
    from: Option<TreeId>,
    tree: &TreeId,
    files: &Names,
) -> Result<(), Illegal> {
    let checkpoints = &mut state.checkpoints;
    let (model, chat, rounds) = match way {
        Way::Undo { rounds } => {
            let Some(first) = checkpoints.first_of(rounds) else {
                return illegal(format!("there are not {rounds} rounds to undo"));
            };
            let changes = checkpoints.changes.split_off(first);
            checkpoints.undone = from.map(|from| Undone {
                changes,
                swap: Swap {
                    before: from,
                    after: Some(tree.clone()),
                },
            });
            ("undo_model", "undone", rounds)
        }
        Way::Redo => {
            let Some(undone) = checkpoints.undone.take() else {
                return illegal("there is no undo to take back");
            };
            let count = rounds_of(&undone.changes);
            checkpoints.changes.extend(undone.changes);
            ("redo_model", "redone", count)
        }
    };
    let rounds = rounds.to_string();
    let values = [("rounds", &*rounds), ("files", &*listed(files))];
    // Appended, so that the conversation only grows at its end.
    let told = state.texts.say(model, &values);
    state.conversation.user(&told);
    notice(state, chat, &values);
    Ok(())
}

pub(super) fn shown(state: &mut State, text: &str) -> Result<(), Illegal> {
    end(state)?;
    if let Some(Wish::Diff) = state.checkpoints.wish {
        state.checkpoints.wish = None;
    }
    let text = match text {
        "" => state.texts.say("diff_nothing", &[]),
        text => state.texts.say("diff", &[("diff", text)]),
    };
    say(state, OutgoingKind::Change, text);
    Ok(())
}

pub(super) fn listed(files: &Names) -> String {
    let mut text = files.names.join("\n");
    let more = files.count - files.names.len().min(files.count);
    if more > 0 {
        text.push_str(&format!("\n… {more} more"));
    }
    text
}
