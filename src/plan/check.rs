//! What is wrong with a graph. Everything is named at once.

use super::catalog::Catalog;
use super::graph::{Graph, Task};
use super::reference::{misspelt, references};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Characters of a task's id.
const ID_CHARS_MAX: usize = 64;

/// One thing that is wrong, in words for whoever planned it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    #[error("the plan has no tasks")]
    Empty,
    #[error("the plan has {tasks} tasks; at most {max} are possible (plan_tasks_max)")]
    TooMany { tasks: usize, max: usize },
    #[error("task id {0:?} cannot be used: 1 to {ID_CHARS_MAX} letters, digits, - and _ can")]
    Id(String),
    #[error("duplicate task id {0:?}")]
    Duplicate(String),
    #[error("task {task:?}: unknown command {command:?}{}", meant(.nearest))]
    UnknownCommand {
        task: String,
        command: String,
        nearest: Option<String>,
    },
    #[error("task {task:?} depends on unknown task {on:?}")]
    UnknownTask { task: String, on: String },
    #[error("task {0:?} depends on itself")]
    SelfReference(String),
    #[error("cycle: {}", around(.0))]
    Cycle(Vec<String>),
    #[error("task {task:?} refers to {reference} of unknown task {to:?}")]
    UnknownReferent {
        task: String,
        reference: String,
        to: String,
    },
    #[error("task {task:?} refers to {reference} without dependsOn: add {to:?} to its dependsOn")]
    WithoutDependsOn {
        task: String,
        reference: String,
        to: String,
    },
    #[error("task {task:?}: {text} is no reference; write {{{{task.output.field}}}}")]
    Misspelt { task: String, text: String },
}

fn meant(nearest: &Option<String>) -> String {
    nearest
        .as_ref()
        .map_or_else(String::new, |name| format!(" (is {name:?} meant?)"))
}

fn around(tasks: &[String]) -> String {
    let first = tasks.first().into_iter();
    let all: Vec<&str> = tasks.iter().chain(first).map(String::as_str).collect();
    all.join(" -> ")
}

/// Whether a graph can be carried out: its commands exist, and every task can start once others are done.
///
/// # Errors
/// Everything that is wrong with it.
pub fn check(graph: &Graph, catalog: &Catalog) -> Result<(), Vec<Problem>> {
    let tasks_max = catalog.bounds().tasks_max;
    let tasks = graph.tasks.len();
    if tasks > tasks_max {
        // Nothing else is looked at: it would take as long as somebody likes.
        return Err(vec![Problem::TooMany {
            tasks,
            max: tasks_max,
        }]);
    }
    let mut problems = Vec::new();
    if graph.tasks.is_empty() {
        problems.push(Problem::Empty);
    }
    let mut known = BTreeSet::new();
    for task in &graph.tasks {
        if !is_id(&task.id) {
            problems.push(Problem::Id(task.id.clone()));
        } else if !known.insert(task.id.as_str()) {
            problems.push(Problem::Duplicate(task.id.clone()));
        }
    }
    for task in &graph.tasks {
        problems.extend(of_command(task, catalog));
        problems.extend(of_dependencies(task, &known));
        problems.extend(of_references(task, &known));
    }
    problems.extend(cycle(graph).map(Problem::Cycle));
    let mut told = BTreeSet::new();
    problems.retain(|problem| told.insert(problem.to_string()));
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems),
    }
}

fn is_id(id: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    (1..=ID_CHARS_MAX).contains(&id.len()) && id.chars().all(allowed)
}

fn of_command(task: &Task, catalog: &Catalog) -> Option<Problem> {
    if catalog.get(&task.service, &task.command).is_some() {
        return None;
    }
    let command = task.full_name();
    Some(Problem::UnknownCommand {
        task: task.id.clone(),
        nearest: catalog.nearest(&command),
        command,
    })
}

fn of_dependencies(task: &Task, known: &BTreeSet<&str>) -> Vec<Problem> {
    let wrong = |on: &String| match on {
        on if *on == task.id => Some(Problem::SelfReference(task.id.clone())),
        on if !known.contains(on.as_str()) => Some(Problem::UnknownTask {
            task: task.id.clone(),
            on: on.clone(),
        }),
        _ => None,
    };
    task.depends_on.iter().filter_map(wrong).collect()
}

/// References of the input, and of the prompt it is built from.
fn of_references(task: &Task, known: &BTreeSet<&str>) -> Vec<Problem> {
    let prompt = serde_json::Value::String(task.prompt.clone());
    let all = references(&task.input)
        .into_iter()
        .chain(references(&prompt));
    let wrong = |found: super::Reference| {
        let (task_id, reference, to) = (task.id.clone(), found.to_string(), found.task);
        if to == task.id {
            return Some(Problem::SelfReference(to));
        }
        if !known.contains(to.as_str()) {
            return Some(Problem::UnknownReferent {
                task: task_id,
                reference,
                to,
            });
        }
        (!task.depends_on.contains(&to)).then_some(Problem::WithoutDependsOn {
            task: task_id,
            reference,
            to,
        })
    };
    let is_task = |word: &str| known.contains(word);
    let texts = misspelt(&task.input, &is_task)
        .into_iter()
        .chain(misspelt(&prompt, &is_task));
    let no_reference = texts.map(|text| Problem::Misspelt {
        task: task.id.clone(),
        text,
    });
    all.filter_map(wrong).chain(no_reference).collect()
}

/// The tasks of one cycle, each depending on the next. A task that depends on itself is told elsewhere.
fn cycle(graph: &Graph) -> Option<Vec<String>> {
    let by_id: BTreeMap<&str, &Task> = graph
        .tasks
        .iter()
        .map(|task| (task.id.as_str(), task))
        .collect();
    let mut open = by_id.clone();
    loop {
        let is_free = |task: &Task| {
            let others = task.depends_on.iter().filter(|on| **on != task.id);
            !others.into_iter().any(|on| open.contains_key(on.as_str()))
        };
        let free: Vec<&str> = open
            .values()
            .filter(|task| is_free(task))
            .map(|task| task.id.as_str())
            .collect();
        if free.is_empty() {
            break;
        }
        open.retain(|id, _| !free.contains(id));
    }
    // Whatever is left waits for something that is left: following that comes around.
    let (first, _) = open.first_key_value()?;
    let mut path: Vec<&str> = vec![first];
    loop {
        let here = path.last()?;
        let next = by_id[here]
            .depends_on
            .iter()
            .find(|on| *on != here && open.contains_key(on.as_str()))?;
        if let Some(at) = path.iter().position(|id| id == next) {
            return Some(path[at..].iter().map(|id| (*id).to_owned()).collect());
        }
        path.push(next);
    }
}
