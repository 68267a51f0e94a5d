//! What came with a message: under way, here.

use super::outbox::say;
use super::{Illegal, illegal};
use crate::agent::event::{Got, OutgoingKind};
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
    if let Got::Words { text } = got {
        // From here on it is as if they had been typed.
        message.text.clone_from(text);
        state.said.by_person(message);
        let echo = media::echo(state, text);
        say(state, OutgoingKind::Notice, echo);
    }
    state.got.insert(id.to_owned(), got.clone());
    Ok(())
}
