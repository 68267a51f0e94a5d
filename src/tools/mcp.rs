//! Calls a tool of an MCP server: one entry stands for all of them. It is not in the table, so no model calls it by name.
//!
//! Which server and which tool, the gate has approved; the arguments fit the schema that the server gave.

use super::{Action, Reach, RunFuture, Tool};
use crate::agent::event::{Call, EffectClass, Outcome};
use crate::gate::Approved;
use serde_json::{Value, json};
use std::sync::Arc;

pub static TOOL: Tool = Tool {
    name: "mcp",
    about: "",
    class: EffectClass::Opaque,
    schema: || json!({"type": "object"}),
    touches: |_| Ok(Vec::new()),
    action: Action::World { run, expect: None },
};

fn run(call: Approved<Call>, reach: Arc<Reach>) -> RunFuture {
    Box::pin(async move {
        let mut outcome = match (call.mcp(), &reach.mcp, call.get().json()) {
            (Some(touch), Some(servers), Ok(Value::Object(arguments))) => {
                servers.call(touch, arguments, &call.get().id, &reach).await
            }
            (_, None, _) => Outcome::failed("There are no MCP servers here."),
            (_, _, _) => Outcome::failed("The arguments are no object."),
        };
        outcome.consequential = true;
        outcome
    })
}
