//! What events about task graphs are made of.

use super::{CallId, EffectClass, Usage};
use crate::gate::Verdict;
use crate::plan::Graph;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What came of drafting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum Drafted {
    Made {
        task_graph: Graph,
        /// SHA-256 of the graph.
        digest: String,
        /// The tool of each task, as a model would call it.
        tools: BTreeMap<String, String>,
    },
    /// No graph was made; nothing runs.
    Failed { why: String },
    /// The person stopped it, or a limit did.
    Stopped,
}

/// What drafting cost: all its answers together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DraftCost {
    pub answers: u32,
    pub usage: Usage,
    /// As an answer's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
}

/// What would become of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outlook {
    pub class: EffectClass,
    pub says: Judged,
}

/// The gate's word on a task that has not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Judged {
    /// `digest`: what exactly was judged, which an approval of the whole graph is bound to.
    Known { verdict: Verdict, digest: String },
    /// Its input depends on what others find out: it is judged when that is known.
    Later,
    /// It will not run: its input fits no call.
    Unfit { why: String },
}

/// The whole output of a task, which references bring.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Whole {
    Text {
        text: String,
    },
    /// More than a reference brings.
    TooLong {
        bytes: u64,
    },
    /// So much of what the command printed was not kept.
    NotKept {
        bytes: u64,
    },
    /// It is not there any more.
    Gone {
        why: String,
    },
}

/// A task that is called, or why it cannot be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum TaskCall {
    /// With its references resolved.
    Called { call: CallId, arguments: String },
    /// A reference leads nowhere, or what it leads to does not fit.
    Unfit { why: String },
}
