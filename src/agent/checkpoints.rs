//! Checkpoints: which there are, when one is due, and what `/undo` and `/redo` put back. Pure.
//!
//! What a round may change is stood between two: one before its first such call, one when all its calls have ended, or
//! wait for a person, so that what a person changes meanwhile is not taken for the session's. Trees are made and put back by
//! [`crate::world`]; here they are only ids.

use crate::agent::event::{Call, EffectClass, Moment, TreeId};
use crate::agent::state::{Phase, State};
use crate::agent::step::{Effect, Policy};
use crate::gate::{self, Touch, Verdict};
use crate::tools;
use std::collections::VecDeque;

/// What a session knows of its checkpoints.
#[derive(Debug, Clone, Default)]
pub struct Checkpoints {
    /// Numbers before this one are of workspaces that the session was in earlier.
    pub first: u64,
    /// The newest: its number and its tree.
    pub last: u64,
    pub last_tree: Option<TreeId>,
    /// Before the session changed anything; kept for ever.
    pub start: Option<TreeId>,
    /// Numbers that are kept besides the first, oldest first.
    pub kept: VecDeque<u64>,
    /// What rounds changed and is not undone, oldest first.
    pub changes: Vec<Change>,
    /// The round that may be changing something.
    pub open: Option<Open>,
    /// What the last undo put back, until the next change.
    pub undone: Option<Undone>,
    /// One thing at a time is done with trees.
    pub running: bool,
    pub wish: Option<Wish>,
    /// The last failure that the chat was told of.
    pub told: Option<String>,
}

/// What a round did between two checkpoints; there are more than two where it waited for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub round: u32,
    /// Of the checkpoint before it.
    pub number: u64,
    /// `None`: the checkpoint failed, so the round cannot be undone.
    pub before: Option<TreeId>,
    /// `None`: nobody knows what of the workspace's later state is the round's work.
    pub after: Option<TreeId>,
}

/// A round between its two checkpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    pub round: u32,
    pub number: u64,
    pub before: Option<TreeId>,
    /// The process was there all the time.
    pub sure: bool,
}

/// An undo that can be taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undone {
    pub changes: Vec<Change>,
    pub swap: Swap,
}

/// Put back `before` where the workspace is as in `after`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swap {
    pub before: TreeId,
    /// `None`: unknown.
    pub after: Option<TreeId>,
}

/// What the person asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    Diff,
    Back {
        way: Way,
        force: bool,
        /// The workspace when it was asked for, once it is kept.
        from: Option<TreeId>,
    },
}

/// Which way the workspace is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", tag = "to")]
pub enum Way {
    /// Before the last so many changing rounds.
    Undo { rounds: usize },
    /// As before the last undo.
    Redo,
}

impl Checkpoints {
    /// Files are being put back, or are about to be: nothing else may touch them.
    pub fn puts_back(&self) -> bool {
        matches!(self.wish, Some(Wish::Back { .. }))
    }

    /// What the last round changed is not known yet.
    pub fn is_unsettled(&self) -> bool {
        self.running || self.open.is_some()
    }

    /// What to put back; `None` where it is not possible any more.
    pub fn swaps(&self, way: Way) -> Option<Vec<Swap>> {
        let swap = |change: &Change| {
            Some(Swap {
                before: change.before.clone()?,
                after: change.after.clone(),
            })
        };
        match way {
            Way::Redo => Some(vec![self.undone.as_ref()?.swap.clone()]),
            Way::Undo { rounds } => {
                let first = self.first_of(rounds)?;
                self.changes[first..].iter().map(swap).collect()
            }
        }
    }

    /// Rounds that changed something and are not undone.
    pub fn rounds(&self) -> usize {
        rounds_of(&self.changes)
    }

    /// Where the changes of the last so many rounds begin; `None` where there are not so many.
    pub fn first_of(&self, rounds: usize) -> Option<usize> {
        (0..=self.changes.len())
            .rev()
            .find(|first| rounds_of(&self.changes[*first..]) == rounds)
            .map(|first| {
                let is_earlier = |change: &Change| {
                    let same = self.changes.get(first);
                    same.is_none_or(|same| same.round != change.round)
                };
                let before = &self.changes[..first];
                before.iter().rposition(is_earlier).map_or(0, |at| at + 1)
            })
    }
}

/// How many rounds these are the changes of.
pub fn rounds_of(changes: &[Change]) -> usize {
    let mut rounds: Vec<u32> = changes.iter().map(|change| change.round).collect();
    rounds.dedup();
    rounds.len()
}

/// What is to be done with trees next, besides the turn.
pub fn due(state: &State, policy: &Policy) -> Option<Effect> {
    let checkpoints = &state.checkpoints;
    if checkpoints.running {
        return None;
    }
    if checkpoints
        .open
        .as_ref()
        .is_some_and(|open| is_over(state, open.round))
    {
        return Some(take(state, policy, Moment::After));
    }
    match checkpoints.wish.as_ref()? {
        Wish::Diff => Some(Effect::Diff {
            start: checkpoints.start.clone(),
        }),
        Wish::Back { from: None, .. } => Some(take(state, policy, Moment::Undo)),
        Wish::Back {
            way,
            force,
            from: Some(from),
        } => Some(Effect::PutBack {
            number: checkpoints.last + 1,
            way: *way,
            swaps: checkpoints.swaps(*way).unwrap_or_default(),
            from: from.clone(),
            force: *force,
        }),
    }
}

/// Whether a round changes nothing for now: it ended, or waits for a person.
fn is_over(state: &State, round: u32) -> bool {
    let in_calls = state
        .turn
        .as_ref()
        .is_some_and(|turn| matches!(turn.phase, Phase::Calls(_)));
    round != state.rounds || !in_calls || state.waits_for_person()
}

/// The next checkpoint; the oldest ones go where there are too many.
pub fn take(state: &State, policy: &Policy, moment: Moment) -> Effect {
    let checkpoints = &state.checkpoints;
    let keep = policy.limits.checkpoints_max.max(2) - 1;
    let too_many = (checkpoints.kept.len() + 1).saturating_sub(keep);
    Effect::Checkpoint {
        number: checkpoints.last + 1,
        moment,
        last: checkpoints.last_tree.clone(),
        drop: checkpoints.kept.iter().take(too_many).copied().collect(),
    }
}

/// Whether a call may change files, so that its round needs a checkpoint.
pub fn may_change(policy: &Policy, call: &Call, touches: &[Touch], verdict: &Verdict) -> bool {
    let is_pure = tools::find(&call.tool).is_some_and(|tool| tool.class == EffectClass::Pure);
    let is_command = matches!(touches, [Touch::Command(_)]);
    let is_elsewhere = match touches {
        [Touch::Schedule(_)] => true,
        [Touch::Mcp(touch)] => !touch.writes,
        _ => false,
    };
    let is_elsewhere = is_elsewhere || tools::delegates(call);
    !(is_pure || is_elsewhere || is_command && gate::only_reads(&policy.gate, verdict))
}
