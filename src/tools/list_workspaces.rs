//! `list_workspaces`: the folders of `PROJECTS_ROOT`, by the names that `switch_workspace` takes.

use super::{Action, Reach, RunFuture, Tool, blocking, schema_of};
use crate::agent::event::{Call, EffectClass, Outcome};
use crate::gate::Approved;
use crate::world::projects::unset;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

const NAMES_MAX: usize = 200;

pub const TOOL: Tool = Tool {
    name: "list_workspaces",
    about: include_str!("../../prompts/tools/list_workspaces.md"),
    class: EffectClass::Pure,
    schema: schema_of::<Args>,
    // Names of folders that are the person's workspaces: nothing is read in them.
    touches: |_| Ok(Vec::new()),
    action: Action::World { run, expect: None },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {}

fn run(call: Approved<Call>, reach: Arc<Reach>) -> RunFuture {
    blocking::<Args>(call, reach, TOOL.class, |_, reach| {
        let Some(projects) = &reach.projects else {
            return Outcome::failed(unset());
        };
        let here = projects.holds(reach.workspace.root());
        let here = reach.workspace.root().file_name().filter(|_| here);
        let names = projects.names();
        let mut lines: Vec<String> = names.iter().take(NAMES_MAX).cloned().collect();
        for line in &mut lines {
            if here.is_some_and(|here| here == line.as_str()) {
                line.push_str(" (you are here)");
            }
        }
        if names.len() > NAMES_MAX {
            lines.push(format!("[{} more]", names.len() - NAMES_MAX));
        }
        match lines.is_empty() {
            true => Outcome::done("There are none."),
            false => Outcome::done(lines.join("\n")),
        }
    })
}
