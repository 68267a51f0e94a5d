//! Git worktrees of a session's own: whether it works in one, and when it is made. Pure.
//!
//! A session that came through a door from outside works beside the person's folder, not in it. Before a turn does
//! anything in a workspace, the world makes sure that the session's worktree of it is there: the first time it is made, later
//! that is a look. Where none can be made, because there is no repository or no commit, it works in the folder itself.

use crate::agent::event::{Event, WorkspaceRef};
use crate::agent::state::{Phase, State, Stop, Turn};
use crate::agent::step::{Decision, Effect};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a session knows of its worktrees. Workspaces are named by the paths of the person's folders.
#[derive(Debug, Clone, Default)]
pub struct Worktrees {
    pub known: BTreeMap<String, Place>,
    /// The one that is being made, or looked for.
    pub making: Option<String>,
    /// Those that were there when they were last looked for, in this turn and by this process.
    pub sure: BTreeSet<String>,
    /// Those that could not be made, and why: until the next turn.
    pub failed: BTreeMap<String, String>,
}

/// Where the session works for one folder of the person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Own(Tree),
    /// In the folder itself.
    Shared,
}

/// A worktree of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// Called like the person's folder.
    pub workspace: WorkspaceRef,
    /// That it was made on; the session may have gone to another one since.
    pub branch: String,
    /// Of its first commit, when it was made.
    pub commit: String,
    /// Folders of the person's that commands may read: what is linked into it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
}

/// What came of making one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum Made {
    Own {
        tree: Tree,
        /// It was not there before.
        fresh: bool,
        /// Changes of the person that are not committed, and so not in it.
        #[serde(default)]
        uncommitted: usize,
    },
    /// There can be none.
    Shared { why: String },
    /// There could be one, and is none: nothing is done in the person's folder instead.
    Failed { why: String },
}

impl Worktrees {
    /// Another process begins: what was being made is not being made any more.
    pub fn begin_anew(&mut self) {
        self.making = None;
        self.doubt();
    }

    /// Nothing is taken for granted: a turn begins. One may be under way, for a file that came before it.
    pub fn doubt(&mut self) {
        self.sure.clear();
        self.failed.clear();
    }
}

/// The branch of a session's worktrees, by whose they are.
pub fn branch(owner: &str) -> String {
    format!("journeyman/{owner}")
}

/// The folder in which tools work for a folder of the person.
pub fn place_of(state: &State, checkout: &WorkspaceRef) -> WorkspaceRef {
    match state.worktrees.known.get(&checkout.path) {
        Some(Place::Own(tree)) => tree.workspace.clone(),
        Some(Place::Shared) | None => checkout.clone(),
    }
}

/// The worktree in which it works now.
pub fn here(state: &State) -> Option<&Tree> {
    match state.worktrees.known.get(&state.checkout.path)? {
        Place::Own(tree) => Some(tree),
        Place::Shared => None,
    }
}

/// Why nothing may be done in the workspace yet: the session's own one is not there, and the person's is not its to change.
pub fn missing(state: &State) -> Option<String> {
    let path = &state.checkout.path;
    if state.opening.worktrees.is_none() || state.worktrees.known.contains_key(path) {
        return None;
    }
    let why = state.worktrees.failed.get(path);
    Some(why.cloned().unwrap_or_else(|| {
        format!(
            "The session's own worktree of {} is not made yet.",
            state.checkout.name
        )
    }))
}

/// What must be known of the worktree before the turn goes on.
pub fn first(state: &State, turn: &Turn) -> Option<Decision> {
    state.opening.worktrees.as_ref()?;
    let is_next = match &turn.phase {
        Phase::Ready | Phase::Calls(_) => true,
        Phase::Asking
        | Phase::Drafting
        | Phase::Answered(_)
        | Phase::Failed(_)
        | Phase::TooLong(_)
        | Phase::Summarising(_)
        | Phase::Summarised(..)
        | Phase::Limited(_) => false,
    };
    if state.worktrees.making.is_some() {
        return is_next.then_some(Decision::Wait);
    }
    (is_next && turn.stop == Stop::No)
        .then(|| make(state, &state.checkout))
        .flatten()
}

/// Why the turn cannot begin its work.
pub fn failure(state: &State) -> Option<String> {
    let why = state.worktrees.failed.get(&state.checkout.path)?;
    let values = [("name", &*state.checkout.name), ("why", why)];
    Some(state.texts.say("worktree_failed", &values))
}

/// The effect that makes sure of it; `None` where that is done, was tried, or there is nothing to make.
pub fn make(state: &State, checkout: &WorkspaceRef) -> Option<Decision> {
    let owner = state.opening.worktrees.as_ref()?;
    let (path, worktrees) = (&checkout.path, &state.worktrees);
    let known = worktrees.known.get(path);
    let is_settled = worktrees.sure.contains(path)
        || worktrees.failed.contains_key(path)
        || known == Some(&Place::Shared);
    (!is_settled).then(|| {
        Decision::Perform(Box::new(Effect::MakeWorktree {
            owner: owner.clone(),
            checkout: checkout.clone(),
            again: known.is_some(),
        }))
    })
}

/// What is written down where the making itself broke.
pub fn broken(checkout: String, why: &str) -> Event {
    let why = why.to_owned();
    Event::WorktreeMade {
        checkout,
        made: Made::Failed { why },
    }
}
