//! What a message calls: under way, here.

use super::outbox::notice;
use super::{Illegal, illegal};
use crate::agent::event::Loaded;
use crate::agent::loading;
use crate::agent::state::State;

pub(super) fn start(state: &mut State, id: &str) -> Result<(), Illegal> {
    let waits = |state: &State| {
        let mut unread = state.unread.iter();
        unread.any(|message| message.id == id && !loading::is_here(state, message))
    };
    if state.fetching.is_some() || !waits(state) {
        return illegal(format!("nothing is to be loaded for {id}"));
    }
    state.fetching = Some(id.to_owned());
    Ok(())
}

pub(super) fn loaded(state: &mut State, id: &str, loaded: &Loaded) -> Result<(), Illegal> {
    if state.fetching.take().as_deref() != Some(id) {
        return illegal(format!("something is there for {id} that was not loaded"));
    }
    if !state.unread.iter().any(|message| message.id == id) {
        return match state.seen.contains(id) {
            true => Ok(()), // a stop took it along
            false => illegal(format!("something is there for {id}, which never came")),
        };
    }
    if let Loaded::Theirs { server, hidden, .. } = loaded
        && *hidden > 0
    {
        let values = [("server", server.as_str()), ("count", &hidden.to_string())];
        notice(state, "mcp_hidden", &values);
    }
    state.loaded.insert(id.to_owned(), loaded.clone());
    Ok(())
}
