//! The commands that tasks may name: `service.command`, the tool behind it, and what it takes.

use super::Bounds;
use super::misfit;
use super::schema::{self, SchemaError};
use crate::agent::mcp::Offer;
use crate::tools::{Action, Tool};
use jsonschema::Validator;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What inputs of our own tools look like, by tool.
const EXAMPLES: &str = include_str!("../../prompts/plan/examples.json");

/// Commands by `service.command`.
#[derive(Debug, Clone)]
pub struct Catalog {
    bounds: Bounds,
    commands: BTreeMap<String, Arc<Command>>,
    /// Tools that no task may name, and why.
    pub left_out: Vec<(String, SchemaError)>,
}

/// One of them.
#[derive(Debug)]
pub struct Command {
    pub service: String,
    pub command: String,
    /// As a model calls it.
    pub tool: String,
    pub about: String,
    /// JSON Schema of its input.
    pub schema: Value,
    pub examples: Vec<Example>,
    validator: Validator,
}

/// An input that fits.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    #[serde(default)]
    pub about: String,
    pub input: Value,
}

impl Catalog {
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            commands: BTreeMap::new(),
            left_out: Vec::new(),
        }
    }

    /// Those of these tools of ours that a task can be, and all that servers offer. What is described beyond the bounds is
    /// left out.
    pub fn of_tools(
        bounds: Bounds,
        tools: impl IntoIterator<Item = &'static Tool>,
        offer: &Offer,
    ) -> Self {
        let examples: BTreeMap<String, Vec<Example>> =
            serde_json::from_str(EXAMPLES).expect("BUG: the examples are compiled in");
        let mut catalog = Self::new(bounds);
        for tool in tools {
            if !is_work(tool) {
                continue;
            }
            let (service, command) = of_ours(tool.name);
            let examples = examples.get(tool.name).cloned().unwrap_or_default();
            let (about, schema) = (tool.about.trim(), (tool.schema)());
            let added = catalog.add(service, command, tool.name, about, schema, examples);
            catalog.note(format!("{service}.{command}"), added);
        }
        for tool in &offer.tools {
            let service = format!("mcp.{}", tool.server);
            let schema = tool.schema.clone();
            let added = catalog.register(&service, &tool.tool, &tool.name, &tool.about, schema);
            catalog.note(tool.full_name(), added);
        }
        catalog
    }

    fn note(&mut self, name: String, added: Result<(), SchemaError>) {
        self.left_out.extend(added.err().map(|error| (name, error)));
    }

    /// Takes a command in, with the examples that its schema brings along.
    ///
    /// # Errors
    /// Why nothing can be checked against its schema.
    pub fn register(
        &mut self,
        service: &str,
        command: &str,
        tool: &str,
        about: &str,
        schema: Value,
    ) -> Result<(), SchemaError> {
        let inputs = schema.get("examples").and_then(Value::as_array);
        let example = |input: &Value| Example {
            about: String::new(),
            input: input.clone(),
        };
        let examples = inputs.into_iter().flatten().map(example).collect();
        self.add(service, command, tool, about, schema, examples)
    }

    fn add(
        &mut self,
        service: &str,
        command: &str,
        tool: &str,
        about: &str,
        schema: Value,
        examples: Vec<Example>,
    ) -> Result<(), SchemaError> {
        let name = format!("{service}.{command}");
        if self.commands.contains_key(&name) {
            return Err(SchemaError::Taken); // server a.b with tool c, and server a with tool b.c
        }
        let validator = schema::bounded(&schema, &self.bounds)?;
        let command = Command {
            service: service.to_owned(),
            command: command.to_owned(),
            tool: tool.to_owned(),
            about: about.to_owned(),
            schema,
            examples,
            validator,
        };
        self.commands.insert(name, Arc::new(command));
        Ok(())
    }

    pub fn get(&self, service: &str, command: &str) -> Option<&Command> {
        self.commands
            .get(&format!("{service}.{command}"))
            .map(Arc::as_ref)
    }

    /// In the order of their names.
    pub fn commands(&self) -> impl Iterator<Item = &Command> {
        self.commands.values().map(Arc::as_ref)
    }

    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// The name that was meant, if one looks like it.
    pub(super) fn nearest(&self, name: &str) -> Option<String> {
        const LIKENESS_MIN: f64 = 0.7;
        const BYTES_MAX: usize = 200;
        if name.len() > BYTES_MAX {
            return None;
        }
        let likeness =
            |known: &String| (strsim::normalized_levenshtein(known, name), known.clone());
        let all = self.commands.keys().map(likeness);
        let (best, known) = all.max_by(|one, other| one.0.total_cmp(&other.0))?;
        (best >= LIKENESS_MIN).then_some(known)
    }
}

impl Command {
    /// `service.command`.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.service, self.command)
    }

    /// Whether an input fits.
    ///
    /// # Errors
    /// `Parameter validation failed: …` with everything that does not.
    pub fn fits(&self, input: &Value) -> Result<(), String> {
        misfit::told(misfit::all(&self.validator, input))
    }

    /// Whether it fits but for what its references will bring: that shows when they are filled in.
    ///
    /// # Errors
    /// As [`Command::fits`].
    pub fn fits_so_far(&self, input: &Value) -> Result<(), String> {
        misfit::told(misfit::for_certain(&self.validator, input))
    }
}

/// Whether a tool does something by itself: not what keeps plans, asks the person, or says where a session is.
fn is_work(tool: &Tool) -> bool {
    matches!(tool.action, Action::World { .. } | Action::Schedule(_))
}

/// What one of our tools is called in a plan.
fn of_ours(tool: &str) -> (&'static str, &str) {
    let service = match tool {
        "run_command" | "manage_process" => "shell",
        "list_files" | "search" | "get_file_outline" | "read_lines" | "read_output"
        | "write_file" | "preview_patch" | "apply_patch" | "delete_file" | "move_file" => "files",
        "list_workspaces" | "get_workspace_info" | "clone_workspace" => "workspaces",
        "create_cron" | "list_crons" | "delete_cron" => "schedules",
        "load_skill" | "load_command" => "definitions",
        "ask_sources" | "delegate" => "agents",
        git if git.starts_with("git_") => "git",
        _ => "tools",
    };
    (service, tool.strip_prefix("git_").unwrap_or(tool))
}
