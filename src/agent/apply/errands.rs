//! What the owner wants done outside of the workspace, one after the other: asked for, under way, met.

use super::messages::take_word;
use super::{Illegal, illegal};
use crate::agent::event::By;
use crate::agent::state::{Errand, ErrandWish, State};

pub(super) fn ask(state: &mut State, by: &By, wish: ErrandWish) -> Result<(), Illegal> {
    let Some(message) = by.message.clone() else {
        return illegal("a wish without a message");
    };
    if state.errand.is_some() {
        return illegal("two wishes at once");
    }
    take_word(state, by)?;
    state.errand = Some(Errand {
        message,
        wish,
        at: state.now,
        running: false,
    });
    Ok(())
}

pub(super) fn start(state: &mut State, message: &str) -> Result<(), Illegal> {
    match &mut state.errand {
        Some(errand) if errand.message == message && !errand.running => {
            errand.running = true;
            Ok(())
        }
        _ => illegal(format!("nothing is to be done for {message}")),
    }
}

/// The wish that was under way.
pub(super) fn met(state: &mut State) -> Result<ErrandWish, Illegal> {
    match state.errand.take() {
        Some(errand) if errand.running => Ok(errand.wish),
        _ => illegal("an answer to a wish that nobody had"),
    }
}

/// The process died: it is done again, which does nothing where it was done.
pub(super) fn interrupt(state: &mut State) {
    if let Some(errand) = &mut state.errand {
        errand.running = false;
    }
}
