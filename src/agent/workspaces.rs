//! When a session goes to another workspace: never within a round that the person did not see end. Pure.
//!
//! A call of the model goes there in its turn, after the calls before it. What the person asks for waits until no call
//! was made for the old place. Which folders there are, the world knows.

use crate::agent::checkpoints;
use crate::agent::event::{Call, CallId, Event, Moment, Outcome};
use crate::agent::state::{Phase, State};
use crate::agent::step::{Decision, Policy};
use crate::agent::wording;
use crate::agent::worktrees::{self, place_of};
use crate::gate::Approved;

/// The switch that the person asked for, once nothing is under way in the old workspace. Until then no round begins.
pub fn due(state: &State) -> Option<Decision> {
    // A plan was judged and approved for one place: it ends there.
    let of_plan = state.turn.as_ref().is_some_and(|turn| turn.work.is_some());
    let goes = !of_plan && is_between_rounds(state);
    let workspace = state.moving.as_ref().filter(|_| goes)?;
    let checkpoints = &state.checkpoints;
    let busy = state.errand.is_some() || state.worktrees.making.is_some();
    if checkpoints.is_unsettled() || checkpoints.wish.is_some() || busy {
        return Some(Decision::Wait);
    }
    Some(Decision::Record(Box::new(Event::WorkspaceSwitched {
        call: None,
        workspace: workspace.clone(),
        output: wording::moved_by_person(&place_of(state, workspace), &state.workspace),
    })))
}

/// Whether no call waits for its turn, and none is being thought of.
pub fn is_between_rounds(state: &State) -> bool {
    match state.turn.as_ref().map(|turn| &turn.phase) {
        None | Some(Phase::Ready | Phase::Answered(_) | Phase::Failed(_) | Phase::Limited(_)) => {
            true
        }
        Some(
            Phase::Asking
            | Phase::Drafting
            | Phase::Calls(_)
            | Phase::TooLong(_)
            | Phase::Summarising(_)
            | Phase::Summarised(..),
        ) => false,
    }
}

/// What comes of a call that goes elsewhere: first it is known what this round changed here.
pub fn go(state: &State, policy: &Policy, approved: &Approved<Call>) -> Decision {
    if state.checkpoints.running || state.errand.is_some() {
        return Decision::Wait;
    }
    if state.checkpoints.open.is_some() {
        return Decision::Perform(Box::new(checkpoints::take(state, policy, Moment::After)));
    }
    let call = approved.get().id.clone();
    let event = match approved.workspace() {
        Err(why) => finished(&call, Outcome::failed(format!("Not switched: {why}."))),
        Ok(workspace) if *workspace == state.checkout => {
            let text = format!("{} is the workspace already.", workspace.name);
            finished(&call, Outcome::done(text))
        }
        Ok(workspace) => {
            // What is done from here on, this round included, is done in a worktree that is there.
            if state.worktrees.making.is_some() {
                return Decision::Wait;
            }
            if let Some(first) = worktrees::make(state, workspace) {
                return first;
            }
            match state.worktrees.failed.get(&workspace.path) {
                Some(why) => finished(&call, Outcome::failed(format!("Not switched: {why}"))),
                None => Event::WorkspaceSwitched {
                    output: wording::moved(&place_of(state, workspace), &state.workspace),
                    workspace: workspace.clone(),
                    call: Some(call),
                },
            }
        }
    };
    Decision::Record(Box::new(event))
}

fn finished(call: &CallId, outcome: Outcome) -> Event {
    Event::ToolFinished {
        call: call.clone(),
        outcome,
    }
}
