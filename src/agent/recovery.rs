//! What to do about effects that a dead process left behind. One table, nothing else.
//!
//! Never guesses: what cannot be known is put to the person (behaviour, section 4).

use crate::agent::carry;
use crate::agent::event::{EffectClass, Event, Probe};
use crate::agent::state::{Phase, Stage, State, Stop};

/// What follows from a class and what a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// Ask the world first.
    Probe,
    /// Run it again: it did not happen, or twice is as good as once.
    Rerun,
    /// It happened; this is its result.
    FinishWith(String),
    /// Its keeper has the result, or will have: wait for it, and take it from there.
    Await,
    /// Nobody can tell: "may or may not have run: run again, or go on?"
    AskPerson,
}

/// The table. `None`: no probe was made yet.
pub fn remedy(class: EffectClass, probe: Option<&Probe>) -> Remedy {
    match (class, probe) {
        (EffectClass::Pure | EffectClass::Idempotent, _) => Remedy::Rerun,
        (EffectClass::Probeable | EffectClass::Opaque, None) => Remedy::Probe,
        (EffectClass::Probeable | EffectClass::Opaque, Some(Probe::Happened { output })) => {
            Remedy::FinishWith(output.clone())
        }
        (EffectClass::Probeable | EffectClass::Opaque, Some(Probe::Kept)) => Remedy::Await,
        (
            EffectClass::Probeable | EffectClass::Opaque,
            Some(Probe::DidNotHappen | Probe::HalfDone | Probe::Harmless),
        ) => Remedy::Rerun,
        (EffectClass::Probeable | EffectClass::Opaque, Some(Probe::Unclear { .. })) => {
            Remedy::AskPerson
        }
    }
}

/// What a process must write down first when it takes over a journal: what the one before left behind.
///
/// `None` where nothing was under way, or where only a person's word is missing.
pub fn on_start(state: &State) -> Option<Event> {
    let running = |stage: &Stage| matches!(stage, Stage::Running(_));
    let calls: Vec<_> = state
        .calls()
        .iter()
        .filter(|p| running(&p.stage))
        .map(|p| p.call.id.clone())
        .collect();
    let sending = state.outbox.front().is_some_and(|front| front.sending);
    let turn = state.turn.as_ref();
    let asking = turn.is_some_and(|turn| {
        matches!(
            turn.phase,
            Phase::Asking | Phase::Drafting | Phase::Summarising(_)
        )
    });
    let worked = turn.is_some_and(|turn| !turn.interrupted && !state.waits_for_person());
    let checkpoints = &state.checkpoints;
    let errand = state.errand.as_ref().is_some_and(|errand| errand.running);
    let fetching = state.fetching.is_some();
    let between = fetching
        || errand
        || carry::is_under_way(state)
        || state.worktrees.making.is_some()
        || checkpoints.running
        || checkpoints.open.as_ref().is_some_and(|open| open.sure);
    if calls.is_empty() && !sending && !worked && !between {
        return None;
    }
    Some(Event::Interrupted {
        calls,
        asking,
        sending,
    })
}

/// Whether the end of its process stops the turn until somebody says that it goes on.
///
/// Not one that waits for a person anyway, and not one that was told to stop: that one ends.
pub fn halts(state: &State) -> bool {
    state.turn.as_ref().is_some_and(|turn| {
        !turn.interrupted
            && turn.stop == Stop::No
            && !state.waits_for_person()
            && under_way(turn.round, &turn.phase)
    })
}

/// A turn whose model was never asked lost nothing, and one that has its end only needs to say so: both just go on.
fn under_way(round: u32, phase: &Phase) -> bool {
    match phase {
        Phase::Ready => round > 0,
        Phase::Asking
        | Phase::Drafting
        | Phase::Calls(_)
        | Phase::TooLong(_)
        | Phase::Summarising(_)
        | Phase::Summarised(..) => true,
        Phase::Answered(_) | Phase::Failed(_) | Phase::Limited(_) => false,
    }
}
