//! What MCP servers offer: looked at when a turn begins, the same until it ends.

use super::outbox::notice;
use super::{Illegal, illegal};
use crate::agent::mcp::Offer;
use crate::agent::state::State;
use std::sync::Arc;

/// The person hears of each problem once, until it is gone.
pub(super) fn see(state: &mut State, offer: Option<&Offer>) -> Result<(), Illegal> {
    let Some(known) = state.mcp.as_mut().filter(|known| known.due) else {
        return illegal("nobody asked what MCP servers offer");
    };
    known.due = false;
    let Some(offer) = offer else {
        return Ok(());
    };
    known.offer = Arc::new(offer.clone());
    let told = std::mem::replace(&mut known.told, offer.problems.clone());
    let news: Vec<&str> = (offer.problems.iter())
        .filter(|problem| !told.contains(problem))
        .map(String::as_str)
        .collect();
    if !news.is_empty() {
        notice(state, "mcp_problems", &[("problems", &news.join("\n"))]);
    }
    Ok(())
}

/// Servers may offer something else by now.
pub(super) fn begin_turn(state: &mut State) {
    if let Some(known) = &mut state.mcp {
        known.due = true;
    }
}
