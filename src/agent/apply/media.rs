//! What came with a message: under way, here.

use super::outbox::say;
use super::{Illegal, illegal, spend_outside_turns};
use crate::agent::event::{Got, OutgoingKind, Spoken, Usage};
use crate::agent::media;
use crate::agent::state::State;

pub(super) fn start(state: &mut State, id: &str) -> Result<(), Illegal> {
    let waits = |state: &State| {
        let mut unread = state.unread.iter();
        unread.any(|message| message.id == id && !media::is_here(state, message))
    };
    if state.fetching.is_some() || !waits(state) {
        return illegal(format!("nothing is to be fetched for {id}"));
    }
    state.fetching = Some(id.to_owned());
    Ok(())
}

pub(super) fn fetched(state: &mut State, id: &str, got: &Got) -> Result<(), Illegal> {
    if state.fetching.take().as_deref() != Some(id) {
        return illegal(format!("something is there for {id} that was not fetched"));
    }
    let message = state.unread.iter_mut().find(|message| message.id == id);
    let Some(message) = message else {
        return match state.seen.contains(id) {
            true => Ok(()), // a stop took it along
            false => illegal(format!("something is there for {id}, which never came")),
        };
    };
    if let Got::Words { text, cost_micros } = got {
        // From here on it is as if they had been typed.
        message.text.clone_from(text);
        let is_echoed = message.spoken != Some(Spoken::ForAnswer); // the other one is
        state.said.by_person(message);
        if is_echoed {
            let echo = media::echo(state, text);
            say(state, OutgoingKind::Notice, echo);
        }
        state.hearing.heard(*cost_micros);
        if let Some(micros) = *cost_micros {
            let usage = Usage::default();
            spend_outside_turns(state, usage, Some(micros));
        }
    }
    state.got.insert(id.to_owned(), got.clone());
    Ok(())
}
