//! The table of tools. Adding one is one file, one text under `prompts/tools/`, and one line here.
//!
//! A tool says what it touches before it runs ([`Tool::touches`], pure), gets nothing but an [`Approved`] call, and
//! reaches the outside only through its [`Reach`]. Its result is bounded text for a model. It never asks, never judges.

use crate::agent::event::{Call, EffectClass, Expectation, Outcome};
use crate::agent::plan::Plan;
use crate::gate::{Approved, Touch};
use crate::world::process::Processes;
use crate::world::workspace::Workspace;
use serde_json::Value;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// One row of the table.
pub struct Tool {
    pub name: &'static str,
    /// For the model: `prompts/tools/NAME.md`.
    pub about: &'static str,
    pub class: EffectClass,
    /// JSON Schema of the arguments, without noise: it is sent with every request.
    pub schema: fn() -> Value,
    /// What the call would touch. Called with arguments that fit the schema; an error is the model's to read.
    pub touches: fn(&Value) -> Result<Vec<Touch>, String>,
    pub action: Action,
}

/// Where the work of a tool is done.
pub enum Action {
    /// In the world, under an approved call.
    World {
        run: RunFn,
        /// What a probe can look for after a crash; computed before the intent is written. Probeable tools have it.
        expect: Option<ExpectFn>,
    },
    /// In the session's own plan: the next plan, and the text that the model reads.
    Plan(fn(&Plan, &Value) -> Result<(Option<Plan>, String), String>),
    /// A question to the person, whose next plain message is the result.
    Question(fn(&Value) -> String),
}

pub type RunFn = fn(Approved<Call>, Arc<Reach>) -> Pin<Box<dyn Future<Output = Outcome> + Send>>;
pub type ExpectFn = fn(&Value, &Workspace) -> Option<Expectation>;

/// Everything of the outside that a tool may use.
pub struct Reach {
    pub workspace: Workspace,
    pub processes: Processes,
}
