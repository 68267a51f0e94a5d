//! A task graph, and what of it can start.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// One call that is to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Unique in its graph: letters, digits, `-` and `_`.
    pub id: String,
    pub service: String,
    pub command: String,
    /// What it is for, as whoever builds its input reads it.
    pub prompt: String,
    #[serde(default, rename = "dependsOn")]
    pub depends_on: Vec<String>,
    /// What the command is given; null until it is built. References stay as they are.
    #[serde(default)]
    pub input: Value,
}

impl Task {
    /// `service.command`.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.service, self.command)
    }
}

/// Tasks, in the order in which they were planned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    pub objective: String,
    pub tasks: Vec<Task>,
}

impl Graph {
    pub fn task(&self, id: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.id == id)
    }

    /// SHA-256 of everything in it, whatever the order of an input's fields: what an approval binds to.
    pub fn digest(&self) -> String {
        let mut json = serde_json::to_value(self).expect("BUG: a graph is plain data");
        json.sort_all_objects();
        hex::encode(Sha256::digest(json.to_string()))
    }
}

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskEnd {
    Done,
    Failed,
    /// It never started: something that it depends on failed.
    Aborted,
}

/// What comes next. Tasks that have ended are in neither list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ready {
    /// Everything that they depend on is done. Those that run already are among them: nobody here knows.
    pub start: Vec<String>,
    /// Something that they depend on failed or was aborted: they never start.
    pub aborted: Vec<String>,
}

/// Which tasks can start and which cannot any more, both in the graph's order.
pub fn ready(graph: &Graph, ended: &BTreeMap<String, TaskEnd>) -> Ready {
    let aborted = aborted(graph, ended);
    let is_done = |id: &String| ended.get(id) == Some(&TaskEnd::Done);
    let open = graph
        .tasks
        .iter()
        .filter(|task| !ended.contains_key(&task.id));
    let (lost, open): (Vec<&Task>, Vec<&Task>) =
        open.partition(|task| aborted.contains(task.id.as_str()));
    let id = |task: &Task| task.id.clone();
    Ready {
        start: open
            .into_iter()
            .filter(|task| task.depends_on.iter().all(is_done))
            .map(id)
            .collect(),
        aborted: lost.into_iter().map(id).collect(),
    }
}

/// All that depends, over however many others, on what failed.
fn aborted<'a>(graph: &'a Graph, ended: &'a BTreeMap<String, TaskEnd>) -> BTreeSet<&'a str> {
    let dependents = dependents(graph);
    let mut lost = BTreeSet::new();
    let mut open: Vec<&str> = ended
        .iter()
        .filter(|(_, end)| **end != TaskEnd::Done)
        .map(|(id, _)| id.as_str())
        .collect();
    while let Some(id) = open.pop() {
        for task in dependents.get(id).into_iter().flatten() {
            if lost.insert(*task) {
                open.push(task);
            }
        }
    }
    lost
}

/// By task: those that wait for it.
fn dependents(graph: &Graph) -> BTreeMap<&str, Vec<&str>> {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for task in &graph.tasks {
        for id in &task.depends_on {
            all.entry(id).or_default().push(&task.id);
        }
    }
    all
}
