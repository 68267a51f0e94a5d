//! `{{task.output.field}}`: what a task takes from those before it. Filled in just before it starts, in one pass.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

const OPEN: &str = "{{";
const CLOSE: &str = "}}";
/// Between the braces; anything longer is no reference.
const BYTES_MAX: usize = 300;

/// A place in what a task gave.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    pub task: String,
    /// Names of fields and numbers of items, from the outside in; empty: the whole output.
    pub path: Vec<String>,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OPEN}{}.output", self.task)?;
        for part in &self.path {
            write!(f, ".{part}")?;
        }
        f.write_str(CLOSE)
    }
}

/// Why an input cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReferenceError {
    #[error("{reference}: task {:?} has not given anything", .reference.task)]
    NoOutput { reference: Reference },
    #[error("{reference}: there is no {missing:?} in the output of {:?}{}", .reference.task, offer(.there))]
    NoField {
        reference: Reference,
        missing: String,
        there: Vec<String>,
    },
}

fn offer(there: &[String]) -> String {
    match there {
        [] => String::new(),
        names => format!(" (there is {})", names.join(", ")),
    }
}

/// Every reference in the texts of a value; names of fields are none.
pub fn references(value: &Value) -> Vec<Reference> {
    let mut found = Vec::new();
    collect(value, &mut found);
    found
}

fn collect(value: &Value, found: &mut Vec<Reference>) {
    match value {
        Value::String(text) => {
            found.extend(parts(text).into_iter().filter_map(|part| match part {
                Part::Text(_) => None,
                Part::Reference(reference) => Some(reference),
            }))
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// What stands in double braces and begins with the id of a task, but is no reference: it would stay as it is.
pub(super) fn misspelt(value: &Value, is_task: &dyn Fn(&str) -> bool) -> Vec<String> {
    match value {
        Value::String(text) => misspelt_in(text, is_task),
        Value::Array(items) => items
            .iter()
            .flat_map(|item| misspelt(item, is_task))
            .collect(),
        Value::Object(fields) => fields
            .values()
            .flat_map(|field| misspelt(field, is_task))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

fn misspelt_in(text: &str, is_task: &dyn Fn(&str) -> bool) -> Vec<String> {
    let insides = text.match_indices(OPEN).filter_map(|(open, _)| {
        let inside = open + OPEN.len();
        Some(&text[inside..closing(text, inside)?])
    });
    let first = |inside: &str| {
        let word = inside.trim().split(['.', '[']).next();
        word.is_some_and(is_task)
    };
    insides
        .filter(|inside| parse(inside).is_none() && first(inside))
        .map(|inside| format!("{OPEN}{inside}{CLOSE}"))
        .collect()
}

/// The input with every reference filled in. A text that is nothing but a reference becomes what it leads to, with its
/// type; within a longer text, texts stand as they are and all else as JSON. What is filled in is not looked at again.
///
/// # Errors
/// The first reference that leads nowhere.
pub fn resolve(input: &Value, outputs: &BTreeMap<String, Value>) -> Result<Value, ReferenceError> {
    Ok(match input {
        Value::String(text) => filled(text, outputs)?,
        Value::Array(items) => Value::Array(
            items
                .iter()
                .map(|item| resolve(item, outputs))
                .collect::<Result<_, _>>()?,
        ),
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(name, field)| Ok((name.clone(), resolve(field, outputs)?)))
                .collect::<Result<_, _>>()?,
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => input.clone(),
    })
}

fn filled(text: &str, outputs: &BTreeMap<String, Value>) -> Result<Value, ReferenceError> {
    let parts = parts(text);
    if let [Part::Reference(whole)] = &parts[..] {
        return look(whole, outputs).cloned();
    }
    let mut all = String::with_capacity(text.len());
    for part in parts {
        match part {
            Part::Text(text) => all.push_str(text),
            Part::Reference(reference) => match look(&reference, outputs)? {
                Value::String(text) => all.push_str(text),
                other => all.push_str(&other.to_string()),
            },
        }
    }
    Ok(Value::String(all))
}

fn look<'a>(
    reference: &Reference,
    outputs: &'a BTreeMap<String, Value>,
) -> Result<&'a Value, ReferenceError> {
    let mut here = outputs
        .get(&reference.task)
        .ok_or_else(|| ReferenceError::NoOutput {
            reference: reference.clone(),
        })?;
    for part in &reference.path {
        let next = match here {
            Value::Array(items) => part.parse().ok().and_then(|at: usize| items.get(at)),
            Value::Object(fields) => fields.get(part),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        };
        here = next.ok_or_else(|| ReferenceError::NoField {
            reference: reference.clone(),
            missing: part.clone(),
            there: names(here),
        })?;
    }
    Ok(here)
}

/// What could have been meant.
fn names(value: &Value) -> Vec<String> {
    const NAMES_MAX: usize = 10;
    match value {
        Value::Object(fields) => fields.keys().take(NAMES_MAX).cloned().collect(),
        Value::Array(items) => vec![format!("{} items", items.len())],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

enum Part<'a> {
    Text(&'a str),
    Reference(Reference),
}

/// A text cut at its references.
fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut start, mut from) = (0, 0);
    while let Some(open) = text[from..].find(OPEN).map(|at| from + at) {
        let inside = open + OPEN.len();
        let close = closing(text, inside);
        match close.and_then(|close| Some((close, parse(&text[inside..close])?))) {
            Some((close, reference)) => {
                if start < open {
                    parts.push(Part::Text(&text[start..open]));
                }
                parts.push(Part::Reference(reference));
                start = close + CLOSE.len();
                from = start;
            }
            // `{{{task.output}}`: the reference starts one brace later.
            None => from = open + 1,
        }
    }
    if start < text.len() {
        parts.push(Part::Text(&text[start..]));
    }
    parts
}

/// Looked for no further than a reference can reach, so that a text full of braces is read in one go.
fn closing(text: &str, inside: usize) -> Option<usize> {
    let bytes = &text.as_bytes()[inside..];
    let bytes = &bytes[..bytes.len().min(BYTES_MAX + CLOSE.len())];
    let end = bytes.iter().position(|byte| matches!(byte, b'{' | b'}'))?;
    bytes[end..]
        .starts_with(CLOSE.as_bytes())
        .then_some(inside + end)
}

/// `task.output`, `task.output.field`, `task.output.items[0].name`, `task.output.items.0.name`.
fn parse(inside: &str) -> Option<Reference> {
    let dotted = inside.trim().replace('[', ".").replace(']', "");
    let mut words = dotted.split('.');
    let task = words.next().filter(|task| is_name(task))?;
    words.next().filter(|word| *word == "output")?;
    let path: Vec<String> = words.map(str::to_owned).collect();
    path.iter().all(|word| is_name(word)).then(|| Reference {
        task: task.to_owned(),
        path,
    })
}

fn is_name(word: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '$');
    !word.is_empty() && word.chars().all(allowed)
}
