//! `load_command`: the text of a command that was written down, for the model to follow.

use super::{Action, Reach, RunFuture, Tool, schema_of, text};
use crate::agent::event::{Call, EffectClass, Outcome};
use crate::definitions::arguments::Arguments;
use crate::definitions::loading::{Caller, LoadError};
use crate::definitions::{Definition, Kind};
use crate::gate::{Approved, Touch};
use crate::world::commands::Loader;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

const RESULT_CHARS_MAX: usize = 20_000;
const NAMES_MAX: usize = 50;

pub const TOOL: Tool = Tool {
    name: "load_command",
    about: include_str!("../../prompts/tools/load_command.md"),
    class: EffectClass::Pure,
    schema: schema_of::<Args>,
    // What it reads and runs, its text says; whatever that is, it only looks.
    touches: |_| Ok(vec![Touch::RepositoryRead]),
    action: Action::World { run, expect: None },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    name: String,
    arguments: Option<String>,
}

fn run(call: Approved<Call>, reach: Arc<Reach>) -> RunFuture {
    Box::pin(async move {
        let id = call.get().id.clone();
        let args = match call.typed::<Args>() {
            Ok(approved) => approved.into_inner(),
            Err(error) => return Outcome::failed(error),
        };
        let loader = Loader {
            trust: &reach.trust,
            workspace: &reach.workspace,
            processes: &reach.processes,
            own: &reach.own,
            call: &id,
            caller: Caller::Model,
            agent: reach.agent.as_deref(),
        };
        let given = Arguments::read(args.arguments.as_deref().unwrap_or_default());
        match loader.load(&args.name, &given).await {
            Ok(loaded) => Outcome::done(text::head_lines(
                &loaded.command.content,
                RESULT_CHARS_MAX,
                "",
            )),
            Err(LoadError::NotFound { .. }) => Outcome::failed(unknown(&reach, &args.name)),
            Err(error) => Outcome::failed(error.to_string()),
        }
    })
}

fn unknown(reach: &Reach, name: &str) -> String {
    let registry = reach.trust.definitions(&reach.workspace);
    let agent = reach.agent.as_deref();
    let is_for_it = |one: &&Arc<_>| is_for_models(one, agent);
    let names = registry.of(Kind::Command).filter(is_for_it).take(NAMES_MAX);
    let names: Vec<&str> = names.map(|one| one.id.as_str()).collect();
    format!(
        "Command '{name}' not found. Available commands: {}",
        names.join(", ")
    )
}

/// Whether a model may load it, as this agent.
pub fn is_for_models(one: &Definition, agent: Option<&str>) -> bool {
    one.trusted && Caller::Model.refusal(&one.front, agent).is_none()
}
