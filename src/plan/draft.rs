//! Drafting: one answer says which tasks there are, then one answer a task says what its input is. Every answer is
//! checked; what is wrong goes back to the model, so often and no more.

use super::asked::{Request, construction, routing, shortened};
use super::catalog::{Catalog, Command};
use super::check::{Problem, check};
use super::graph::{Graph, Task};
use serde::Deserialize;
use serde_json::Value;

/// Layer 1, seed 001's words.
const NO_ANSWER: &str = "Invalid AI response format";
const NO_TASK: &str = "Invalid input: id, service, command, and prompt are required";

/// Characters that are said about one answer: it is the model that chose the words in it.
const REFUSAL_CHARS_MAX: usize = 4_000;

/// A plan in the making.
#[derive(Debug, Clone)]
pub struct Draft {
    catalog: Catalog,
    graph: Graph,
    stage: Stage,
    /// Answers to the question that is open.
    answers: u32,
    /// What was wrong with the last of them.
    refused: Option<String>,
}

#[derive(Debug, Clone)]
enum Stage {
    Routing,
    /// The task at this place gets its input.
    Building(usize),
    Done,
    Failed(String),
}

/// What to do now.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    Ask(Box<Request>),
    /// Every task has an input, and [`check`] finds nothing wrong.
    Done(Graph),
    /// `Planning failed: …`, `Command agent failed: …`: nothing runs.
    Failed(String),
}

/// What the orchestrator answers.
#[derive(Deserialize)]
struct Routed {
    tasks: Vec<Value>,
}

/// What the command agent answers: seed 001's `CommandAgentOutput`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Constructed {
    id: String,
    service: String,
    command: String,
    input: Value,
    depends_on: Vec<String>,
}

impl Draft {
    pub fn begin(objective: &str, catalog: &Catalog) -> Self {
        let graph = Graph {
            objective: objective.to_owned(),
            tasks: Vec::new(),
        };
        Self {
            catalog: catalog.clone(),
            graph,
            stage: Stage::Routing,
            answers: 0,
            refused: None,
        }
    }

    pub fn next(&self) -> Next {
        let refused = self.refused.as_deref();
        match &self.stage {
            Stage::Routing => Next::Ask(Box::new(routing(
                &self.graph.objective,
                &self.catalog,
                refused,
            ))),
            Stage::Building(at) => {
                let task = &self.graph.tasks[*at];
                Next::Ask(Box::new(construction(task, self.command(task), refused)))
            }
            Stage::Done => Next::Done(self.graph.clone()),
            Stage::Failed(why) => Next::Failed(why.clone()),
        }
    }

    /// Takes the text that the model answered with. Calls that it made besides are nobody's to make.
    pub fn answered(&mut self, text: &str) {
        let taken = match self.stage {
            Stage::Routing => self.routed(text).map(|graph| (graph, 0)),
            Stage::Building(at) => self.built(at, text).map(|graph| (graph, at + 1)),
            Stage::Done | Stage::Failed(_) => return,
        };
        match taken {
            Ok((graph, next)) => {
                self.answers = 0;
                self.refused = None;
                self.stage = match next < graph.tasks.len() {
                    true => Stage::Building(next),
                    false => Stage::Done,
                };
                self.graph = graph;
            }
            Err(why) => self.refuse(why),
        }
    }

    fn refuse(&mut self, why: String) {
        let why = shortened(&why, REFUSAL_CHARS_MAX);
        self.answers += 1;
        if self.answers < self.catalog.bounds().attempts_max {
            self.refused = Some(why);
            return;
        }
        let answers = self.answers;
        let text = match self.stage {
            Stage::Building(at) => {
                let task = &self.graph.tasks[at].id;
                format!("Command agent failed: {why} (task {task}, {answers} answers)")
            }
            Stage::Routing | Stage::Done | Stage::Failed(_) => {
                format!("Planning failed: {why} ({answers} answers)")
            }
        };
        self.stage = Stage::Failed(text);
    }

    fn command(&self, task: &Task) -> &Command {
        self.catalog
            .get(&task.service, &task.command)
            .expect("BUG: the routing was checked")
    }

    fn routed(&self, text: &str) -> Result<Graph, String> {
        let routed: Option<Routed> =
            json_of(text).and_then(|answer| serde_json::from_value(answer).ok());
        let tasks = routed.ok_or(NO_ANSWER)?.tasks;
        let graph = Graph {
            objective: self.graph.objective.clone(),
            tasks: tasks
                .into_iter()
                .map(|task| routed_task(task).ok_or(NO_TASK))
                .collect::<Result<_, _>>()?,
        };
        checked(graph, &self.catalog)
    }

    /// Both layers, and whether the graph is still one that can be carried out.
    fn built(&self, at: usize, text: &str) -> Result<Graph, String> {
        let asked = &self.graph.tasks[at];
        let answer: Option<Constructed> =
            json_of(text).and_then(|answer| serde_json::from_value(answer).ok());
        let answer = answer.filter(|answer| answer.input.is_object() || answer.input.is_array());
        let answer = answer.ok_or(NO_ANSWER)?;
        let same = |field: &str, is: &str, was: &str| match is == was {
            true => Ok(()),
            false => Err(format!("{NO_ANSWER}: {field} must stay {was:?}")),
        };
        same("id", &answer.id, &asked.id)?;
        same("service", &answer.service, &asked.service)?;
        same("command", &answer.command, &asked.command)?;
        let lost = |on: &&String| !answer.depends_on.contains(on);
        if let Some(on) = asked.depends_on.iter().find(lost) {
            return Err(format!("{NO_ANSWER}: dependsOn must keep {on:?}"));
        }
        self.command(asked).fits_so_far(&answer.input)?;
        let mut graph = self.graph.clone();
        let task = &mut graph.tasks[at];
        task.input = answer.input;
        task.depends_on = answer.depends_on;
        checked(graph, &self.catalog)
    }
}

fn checked(mut graph: Graph, catalog: &Catalog) -> Result<Graph, String> {
    for task in &mut graph.tasks {
        let mut seen = std::collections::BTreeSet::new();
        task.depends_on.retain(|on| seen.insert(on.clone()));
    }
    let told = |problems: Vec<Problem>| {
        let all: Vec<String> = problems.iter().map(Problem::to_string).collect();
        format!("Invalid plan: {}", all.join("; "))
    };
    check(&graph, catalog).map_err(told)?;
    Ok(graph)
}

/// Seed 001: a task without these is none. What depends on nothing may say so by saying nothing.
fn routed_task(task: Value) -> Option<Task> {
    let task: Task = serde_json::from_value(task).ok()?;
    let given = [&task.id, &task.service, &task.command, &task.prompt];
    let is_given = given.iter().all(|text| !text.trim().is_empty());
    is_given.then_some(Task {
        input: Value::Null, // whoever routes builds nothing
        ..task
    })
}

/// The object in an answer: the answer itself, what stands in its first fenced block, or between its outermost braces.
fn json_of(text: &str) -> Option<Value> {
    let text = text.trim();
    let fenced = || {
        let (_, after) = text.split_once("```")?;
        let (_, block) = after.split_once('\n')?;
        Some(block.split_once("\n```")?.0)
    };
    let braced = || text.get(text.find('{')?..=text.rfind('}')?);
    let object = |json: &str| {
        let value: Value = serde_json::from_str(json).ok()?;
        value.is_object().then_some(value)
    };
    object(text)
        .or_else(|| object(fenced()?))
        .or_else(|| object(braced()?))
}
