//! What the model reads while a plan is drafted, and the shape of its answers: first all tasks at once without their
//! inputs, then the input of one task with the schema of its one command (seed 001).

use super::catalog::{Catalog, Command, Example};
use super::graph::Task;
use crate::subagent::substitute;
use serde_json::{Map, Value, json};

const ORCHESTRATOR: &str = include_str!("../../prompts/plan/orchestrator.md");
const COMMAND_AGENT: &str = include_str!("../../prompts/plan/command_agent.md");

/// Seed 001: low, for precise construction.
const TEMPERATURE: f64 = 0.2;
/// Characters of a command's description in the list of all.
const ABOUT_CHARS_MAX: usize = 160;
/// Characters of one parameter's description, and of the command's own.
const PARAMETER_CHARS_MAX: usize = 300;
const DESCRIPTION_CHARS_MAX: usize = 1_500;
/// Characters of all examples: about 500 tokens.
const EXAMPLES_CHARS_MAX: usize = 2_000;

/// One question to a model, whose answer is an object of this shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// What the answer is, as servers want to have it named.
    pub name: &'static str,
    pub system: String,
    pub user: String,
    /// JSON Schema of the answer.
    pub schema: Value,
    pub temperature: f64,
}

/// Which tasks? `refused`: what was wrong with the answer before.
pub(super) fn routing(objective: &str, catalog: &Catalog, refused: Option<&str>) -> Request {
    let line = |command: &Command| {
        let about = shortened(first_line(&command.about), ABOUT_CHARS_MAX);
        format!("- {}: {about}", command.full_name())
    };
    let commands: Vec<String> = catalog.commands().map(line).collect();
    let tasks_max = catalog.bounds().tasks_max;
    let text = json!({"type": "string"});
    let properties = json!({
        "id": text, "service": text, "command": text, "prompt": text,
        "dependsOn": {"type": "array", "items": text},
    });
    let task = object(
        properties,
        &["id", "service", "command", "prompt", "dependsOn"],
    );
    let tasks = json!({"tasks": {"type": "array", "items": task}});
    Request {
        name: "plan",
        system: substitute(
            ORCHESTRATOR,
            &[
                ("${tasksMax}", &tasks_max.to_string()),
                ("${commands}", &commands.join("\n")),
            ],
        ),
        user: with_refusal(objective.to_owned(), refused),
        schema: object(tasks, &["tasks"]),
        temperature: TEMPERATURE,
    }
}

/// What is this task's input?
pub(super) fn construction(task: &Task, command: &Command, refused: Option<&str>) -> Request {
    let routing = json!({
        "id": task.id,
        "service": task.service,
        "command": task.command,
        "prompt": task.prompt,
        "dependsOn": task.depends_on,
    });
    let text = json!({"type": "string"});
    let mut input = command.schema.clone();
    if !task.depends_on.is_empty() {
        admit_references(&mut input);
    }
    let properties = json!({
        "id": text, "service": text, "command": text, "input": input,
        "dependsOn": {"type": "array", "items": text},
    });
    Request {
        name: "command_input",
        system: instruction(command),
        user: with_refusal(format!("{routing:#}"), refused),
        schema: object(
            properties,
            &["id", "service", "command", "input", "dependsOn"],
        ),
        temperature: TEMPERATURE,
    }
}

fn with_refusal(user: String, refused: Option<&str>) -> String {
    match refused {
        None => user,
        Some(why) => format!(
            "{user}\n\nYour answer before this was refused: {why}\nAnswer again, with the whole object."
        ),
    }
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// A number may be a reference until it is filled in. A server that holds the model to the schema must let it write one.
fn admit_references(schema: &mut Value) {
    let Value::Object(keywords) = schema else {
        return;
    };
    if let Some(Value::String(kind)) = keywords.get("type")
        && ["integer", "number", "boolean"].contains(&kind.as_str())
    {
        let both = json!([kind, "string"]);
        keywords.insert("type".into(), both);
    }
    // Below `properties` the keys are names of fields, not keywords.
    let fields = keywords
        .get_mut("properties")
        .and_then(Value::as_object_mut);
    let fields = fields.into_iter().flat_map(Map::values_mut);
    fields.for_each(admit_references);
    if let Some(items) = keywords.get_mut("items") {
        admit_references(items);
    }
}

fn instruction(command: &Command) -> String {
    let required: Vec<&str> = command
        .schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let fields = command.schema.get("properties").and_then(Value::as_object);
    let named = |wanted: bool| {
        let fields = fields.into_iter().flatten();
        let chosen = fields.filter(|(name, _)| required.contains(&name.as_str()) == wanted);
        let lines: Vec<String> = chosen.map(|(name, field)| parameter(name, field)).collect();
        match lines.is_empty() {
            true => "None".to_owned(),
            false => lines.join("\n"),
        }
    };
    // What a parameter is for stands in the lists: saying it twice would double what every construction costs.
    let mut bare = command.schema.clone();
    drop_words(&mut bare);
    let filled = substitute(
        COMMAND_AGENT,
        &[
            (
                "${description}",
                &shortened(&command.about, DESCRIPTION_CHARS_MAX),
            ),
            ("${required}", &named(true)),
            ("${optional}", &named(false)),
            ("${schema}", &bare.to_string()),
            ("${examples}", &examples(&command.examples)),
        ],
    );
    filled.trim_end().to_owned()
}

/// `- **path** (string): where it is`
fn parameter(name: &str, field: &Value) -> String {
    let kind = match field.get("type") {
        Some(Value::String(kind)) => format!(" ({kind})"),
        Some(Value::Array(kinds)) => {
            let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            format!(" ({})", kinds.join(" or "))
        }
        _ => String::new(),
    };
    match field.get("description").and_then(Value::as_str) {
        Some(about) => format!(
            "- **{name}**{kind}: {}",
            shortened(&one_line(about), PARAMETER_CHARS_MAX)
        ),
        None => format!("- **{name}**{kind}"),
    }
}

fn drop_words(schema: &mut Value) {
    let Value::Object(keywords) = schema else {
        return;
    };
    keywords.remove("examples");
    let fields = keywords
        .get_mut("properties")
        .and_then(Value::as_object_mut);
    for field in fields.into_iter().flat_map(Map::values_mut) {
        if let Value::Object(keywords) = field {
            keywords.remove("description");
        }
    }
}

fn examples(examples: &[Example]) -> String {
    let mut all = String::new();
    for (at, example) in examples.iter().enumerate() {
        let about = match example.about.is_empty() {
            true => String::new(),
            false => format!(": {}", example.about),
        };
        let number = at + 1;
        let one = format!(
            "Example {number}{about}\n```json\n{:#}\n```\n",
            example.input
        );
        if all.len() + one.len() > EXAMPLES_CHARS_MAX {
            break;
        }
        all.push_str(&one);
    }
    match all.is_empty() {
        true => String::new(),
        false => format!("\n### Examples\n{all}"),
    }
}

fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(super) fn shortened(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}
