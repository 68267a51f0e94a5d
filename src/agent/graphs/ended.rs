//! What a task gave, as the journal has it, and what references to it bring: all of it, or a refusal. Pure.

use crate::agent::event::{CallId, Outcome, Printed, Status, Whole};
use crate::plan::{self, Reference};
use crate::tools;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The references of one task bring no more, in bytes.
pub const WHOLE_BYTES_MAX: usize = 100_000;

/// A task that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    pub status: Status,
    pub output: String,
    /// The call whose whole output is kept beside the journal, since `output` is a part of it.
    pub cut: Option<CallId>,
    pub printed: Option<Printed>,
    /// A command gave it, and no other tool.
    by_command: bool,
}

impl Ended {
    pub(super) fn of(call: &CallId, outcome: &Outcome) -> Self {
        Self {
            status: outcome.status,
            output: outcome.output.clone(),
            cut: outcome.digest.is_some().then(|| call.clone()),
            printed: outcome.printed,
            by_command: outcome.exit_code.is_some(),
        }
    }

    /// One that was never called.
    pub fn unfit(why: &str) -> Self {
        Self {
            status: Status::Failed,
            output: why.to_owned(),
            cut: None,
            printed: None,
            by_command: false,
        }
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// What references to it find; `whole`: what was looked up.
    pub(super) fn value(&self, whole: Option<&Whole>) -> Result<Value, String> {
        match (&self.cut, whole) {
            (None, _) => Ok(value(self.given())),
            (Some(_), Some(Whole::Text { text })) => Ok(value(text)),
            (Some(_), Some(Whole::TooLong { bytes })) => Err(format!(
                "the output is too long ({bytes} bytes): a reference brings {WHOLE_BYTES_MAX} at most. Let the task print less, or write it into a file"
            )),
            (Some(_), Some(Whole::NotKept { bytes })) => Err(format!(
                "the output is too long: {bytes} bytes of what the command printed were not kept. Let the task print less, or write it into a file"
            )),
            (Some(_), Some(Whole::Gone { why })) => {
                Err(format!("the whole output cannot be read any more: {why}"))
            }
            (Some(_), None) => Err("the whole output was not looked up".to_owned()),
        }
    }

    /// What it gave, where nothing of it was left out: of a command, what it printed on stdout.
    fn given(&self) -> &str {
        let known = |printed: Printed| tools::shown_of_stdout(&self.output, printed.bytes);
        match self.by_command {
            true => (self.printed.and_then(known)).unwrap_or_else(|| stdout_in(&self.output)),
            false => &self.output,
        }
    }
}

/// How much a reference brings.
pub(super) fn bytes_of(
    reference: &Reference,
    outputs: &BTreeMap<String, Value>,
) -> Result<usize, String> {
    let brought = plan::resolve(&Value::String(reference.to_string()), outputs);
    match brought.map_err(|error| error.to_string())? {
        Value::String(text) => Ok(text.len()),
        other => Ok(other.to_string().len()),
    }
}

fn value(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(Value::Object(mut fields)) => {
            fields
                .entry("text")
                .or_insert_with(|| text.trim_end().into());
            Value::Object(fields)
        }
        Ok(items @ Value::Array(_)) => items,
        Ok(_) | Err(_) => json!({"text": text.trim_end()}),
    }
}

/// How the result of a command is told, in journals that do not say how much of it is stdout.
const EXIT: &str = "Exit code: ";
const STDOUT: &str = "stdout:\n";
const STDERR: &str = "\nstderr:\n";

fn stdout_in(output: &str) -> &str {
    match output.split_once('\n') {
        Some((head, printed)) if head.starts_with(EXIT) => {
            let stdout = printed.strip_prefix(STDOUT).unwrap_or_default();
            stdout.split(STDERR).next().unwrap_or(stdout)
        }
        _ => output,
    }
}
