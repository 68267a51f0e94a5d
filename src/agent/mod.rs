//! DECIDES, pure: what happened, what is known, what to do next.
//!
//! No clock, no randomness, no I/O, no `async` (invariant 1). Read in this order.

pub mod apply; // how an event changes what is known
pub mod command; // chat commands
pub mod conversation; // what the model sees
pub mod event; // what can happen
pub mod limits; // when a turn must pause
pub mod plan; // the task plan
pub mod prompt; // the system prompt
pub mod reading; // what a person's message means
pub mod recovery; // what to do about effects in doubt
pub mod state; // what is known
pub mod step; // what to do next
pub mod texts;
pub mod wording; // texts that depend on a decision // the catalogue of chat texts
