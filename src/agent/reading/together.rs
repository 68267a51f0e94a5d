//! Messages in quick succession, which say one thing: the first ones wait for a moment and start a turn together. Pure.
//!
//! Only what would start a turn waits, and only where the session's first line says so. Nothing is kept of the window
//! but when each message came.

use super::plain::{is_stop_word, is_work};
use crate::agent::event::{Along, Event, Inbound, Timestamp, Via};
use crate::agent::media;
use crate::agent::quotes;
use crate::agent::state::State;

/// From the first message on, however many follow.
const TOGETHER_MS_MAX: u64 = 5_000;

/// The unread messages that will start the next turn, in their order; none where they need not wait for each other.
pub fn members(state: &State) -> impl Iterator<Item = &Inbound> {
    let gathers = state.opening.together_ms > 0 && state.turn.is_none();
    let unread = state.unread.iter().filter(move |_| gathers);
    unread.filter(|message| is_member(state, message))
}

/// What is still at the channel may turn out to be one.
fn is_member(state: &State, message: &Inbound) -> bool {
    let is_persons = message.from == state.opening.owner && message.via == Via::Text;
    if !is_persons
        || message.too_many.is_some()
        || message.undelivered.is_some()
        || !message.elsewhere.is_empty()
    {
        return false;
    }
    let stops = is_stop_word(&message.text) && !media::is_file(message);
    let starts = is_work(state, message) && !media::is_lost(state, message) && !stops;
    starts || !media::is_here(state, message)
}

/// Whether more may come that belongs to what is there.
pub fn is_open(state: &State) -> bool {
    let more = members(state).any(|message| !media::is_here(state, message));
    more || closes_at(state).is_some_and(|at| state.now < at)
}

fn closes_at(state: &State) -> Option<Timestamp> {
    let came = || members(state).filter_map(|message| state.came.get(&message.id));
    let (first, last) = (came().min()?, came().max()?);
    let end = first.plus_ms(TOGETHER_MS_MAX);
    Some(last.plus_ms(state.opening.together_ms).min(end))
}

/// When the window closes, where it has not yet.
pub fn alarm(state: &State) -> Option<(Timestamp, Event)> {
    let at = closes_at(state).filter(|at| state.now < *at)?;
    Some((at, Event::TogetherDue))
}

/// What is taken along with this message as its first: the others, with what the model reads around each of them.
pub fn others(state: &State, first: &Inbound) -> Vec<Along> {
    if !is_member(state, first) {
        return Vec::new(); // a button or a schedule is complete by itself
    }
    let others = members(state).filter(|message| message.id != first.id);
    let along = |message: &Inbound| Along {
        message: message.id.clone(),
        quote: quotes::context(state, message),
        attached: media::words(state, message),
        image: None, // that depends on all of them
    };
    others.map(along).collect()
}

/// What waits before this message and is not wanted any more: it is taken, and nobody reads it. What is still at the channel
/// goes as well, or it would start work after a stop.
pub fn dropped(state: &State, stop: &Inbound) -> Vec<Along> {
    let before = state.unread.iter().take_while(|other| other.id != stop.id);
    let unwanted = before.filter(|message| is_member(state, message));
    let along = |message: &Inbound| Along {
        message: message.id.clone(),
        ..Along::default()
    };
    unwanted.map(along).collect()
}
