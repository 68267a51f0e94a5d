//! What a model answered, the calls in it, and what is written down before one of them runs.

use crate::gate::{Project, PushPlan};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// One call of a tool, as the model asked for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Ours: `ROUND.POSITION`, unique in the session.
    pub id: CallId,
    /// The provider's id, repeated to it with the result.
    pub wire_id: String,
    pub tool: String,
    /// Exactly the text that the model wrote; may be malformed.
    pub arguments: String,
}

impl Call {
    /// The arguments as JSON. An empty text counts as `{}`, as several models write it.
    pub fn json(&self) -> Result<Value, serde_json::Error> {
        if self.arguments.trim().is_empty() {
            return Ok(Value::Object(Default::default()));
        }
        serde_json::from_str(&self.arguments)
    }

    /// Tool and arguments in one text: the same for calls that would do the same, however they are written.
    pub fn sameness(&self) -> String {
        let arguments = self.json().map(|mut json| {
            json.sort_all_objects();
            json.to_string()
        });
        format!(
            "{} {}",
            self.tool,
            arguments.unwrap_or_else(|_| self.arguments.clone())
        )
    }
}

/// `ROUND.POSITION` of a call within its session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub String);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How many files, and the names of the first of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    pub count: usize,
    pub names: Vec<String>,
}

impl Names {
    const NAMES_MAX: usize = 20;

    pub fn add(&mut self, name: &str) {
        self.count += 1;
        if self.names.len() < Self::NAMES_MAX {
            self.names.push(name.to_owned());
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A model's whole reply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Some providers want their reasoning back with the next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    #[serde(default)]
    pub usage: Usage,
    /// What it cost by the prices of that day, in micro-dollars; `None`: nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// The provider's reason for stopping: `stop`, `tool_calls`, `length`.
    pub finish: String,
    /// Requests made until this one came through.
    pub attempts: u32,
    pub duration_ms: u64,
}

/// Tokens spent, as the provider counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(default)]
    pub cached_tokens: u64,
}

impl Usage {
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    pub fn add(&mut self, other: Usage) {
        for (sum, more) in [
            (&mut self.input_tokens, other.input_tokens),
            (&mut self.output_tokens, other.output_tokens),
            (&mut self.cached_tokens, other.cached_tokens),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// What can be known about an effect after a crash. Recovery is a table over this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// No consequences: run again freely.
    Pure,
    /// Running again gives the same.
    Idempotent,
    /// The world can be asked whether it happened.
    Probeable,
    /// Nobody can tell.
    Opaque,
}

/// What a probe will look for, written down before the effect: here, and outside of this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expectation {
    /// Files with their digests before and after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ExpectedFile>,
    /// A commit whose message names the call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub commit: bool,
    /// A spool, and the start of the machine (`boot_id`) in which it would be made: a missing one proves nothing later.
    /// Empty: it never proves anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spool: Option<String>,
    /// What the remote has afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<Box<PushPlan>>,
    /// What GitHub has afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Box<ExpectedMark>>,
}

/// Something on GitHub that names the call which made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedMark {
    pub project: Project,
    pub text: String,
    /// The pull request that is commented on; `None`: it is itself what carries the mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull: Option<u64>,
    /// Names that are set on it afterwards: reviewers, labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
}

/// One file's state before and after an effect. `None`: the file does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedFile {
    pub path: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "found")]
pub enum Probe {
    /// It happened; this is its result.
    Happened { output: String },
    /// A keeper has its result, or will have: it runs, or it ended.
    Kept,
    /// It did not happen.
    DidNotHappen,
    /// Some of it happened; running it again finishes it from what the first run left ready.
    HalfDone,
    /// Nobody looked: running it once more does no harm.
    Harmless,
    /// Something else was found, or nothing can be known.
    Unclear { why: String },
}
