//! A graph as people see it: a tree of lines, or a Mermaid flowchart. Colours are the terminal's.

use super::graph::{Graph, Task};
use crate::agent::event::EffectClass;
use crate::agent::mcp::clean;
use std::collections::{BTreeMap, BTreeSet};

/// Levels that are indented; what is deeper stands below each other.
const INDENTED_MAX: usize = 8;
/// Characters of what a task touches. In the tree, which people approve by, nothing that they should see may be missing.
const TOUCHES_CHARS_MAX: usize = 1_000;
const LABEL_CHARS_MAX: usize = 80;

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    Planned,
    WouldRun,
    WouldAsk,
    WouldBeDenied,
    Running,
    Done,
    Failed,
    Aborted,
}

impl Standing {
    pub const ALL: [Standing; 8] = [
        Standing::Planned,
        Standing::WouldRun,
        Standing::WouldAsk,
        Standing::WouldBeDenied,
        Standing::Running,
        Standing::Done,
        Standing::Failed,
        Standing::Aborted,
    ];

    /// As it is called in JSON, in flowcharts, and in the catalogues of texts.
    pub fn key(self) -> &'static str {
        match self {
            Standing::Planned => "planned",
            Standing::WouldRun => "would_run",
            Standing::WouldAsk => "would_ask",
            Standing::WouldBeDenied => "would_be_denied",
            Standing::Running => "running",
            Standing::Done => "done",
            Standing::Failed => "failed",
            Standing::Aborted => "aborted",
        }
    }

    /// In English.
    pub fn words(self) -> String {
        self.key().replace('_', " ")
    }
}

/// What is known of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub standing: Standing,
    pub class: EffectClass,
    /// Paths and commands, one after the other.
    pub touches: String,
}

/// By task; one that is missing is planned.
pub type Rows = BTreeMap<String, Row>;

/// One line of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Where it hangs: `├─ `.
    pub branch: String,
    pub text: String,
    pub standing: Standing,
}

/// The tree in English, below the objective.
pub fn tree(graph: &Graph, rows: &Rows) -> String {
    let mut all = vec![short(&graph.objective, TOUCHES_CHARS_MAX)];
    let lines = lines(graph, rows, &Standing::words);
    all.extend(
        lines
            .iter()
            .map(|line| format!("{}{}", line.branch, line.text)),
    );
    all.join("\n")
}

/// Every task once, below the one that it waits for longest; `after` names all where there are several. `say`: what a
/// standing is called.
pub fn lines(graph: &Graph, rows: &Rows, say: &dyn Fn(Standing) -> String) -> Vec<Line> {
    let below = below(graph);
    let mut lines = Vec::new();
    // Above each that is open: its branch, and whether more follow on its level.
    let roots = below.get(&None).cloned().unwrap_or_default();
    let mut open: Vec<(usize, String, bool)> = stacked(&roots, "");
    while let Some((at, indent, is_last)) = open.pop() {
        let task = &graph.tasks[at];
        let row = rows.get(&task.id);
        lines.push(Line {
            branch: format!("{indent}{}", if is_last { "└─ " } else { "├─ " }),
            text: text(task, row, say),
            standing: row.map_or(Standing::Planned, |row| row.standing),
        });
        let deeper = match indent.chars().count() / 3 < INDENTED_MAX {
            true => format!("{indent}{}", if is_last { "   " } else { "│  " }),
            false => indent,
        };
        let children = below.get(&Some(at)).cloned().unwrap_or_default();
        open.extend(stacked(&children, &deeper));
    }
    lines
}

/// Siblings with their indentation, the first one on top of the stack.
fn stacked(tasks: &[usize], indent: &str) -> Vec<(usize, String, bool)> {
    let last = tasks.len().saturating_sub(1);
    let one = |(place, at): (usize, &usize)| (*at, indent.to_owned(), place == last);
    tasks.iter().enumerate().map(one).rev().collect()
}

fn text(task: &Task, row: Option<&Row>, say: &dyn Fn(Standing) -> String) -> String {
    let standing = row.map_or(Standing::Planned, |row| row.standing);
    let mut text = format!("{}  {}  {}", task.id, task.full_name(), say(standing));
    if let Some(row) = row {
        let class = match row.class {
            EffectClass::Pure => "pure",
            EffectClass::Idempotent => "idempotent",
            EffectClass::Probeable => "probeable",
            EffectClass::Opaque => "opaque",
        };
        text += &format!(" · {class}");
        if !row.touches.is_empty() {
            text += &format!(" · {}", short(&row.touches, TOUCHES_CHARS_MAX));
        }
    }
    if task.depends_on.len() > 1 {
        text += &format!("  ← {}", task.depends_on.join(", "));
    }
    text
}

/// One line without characters that hide, and with what is missing counted.
fn short(text: &str, chars_max: usize) -> String {
    let text = clean(text);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(chars_max) {
        None => line,
        Some((at, _)) => {
            let left_out = line[at..].chars().count();
            format!("{}… [{left_out} more characters]", &line[..at])
        }
    }
}

/// Where in the graph each task stands, by its id.
fn places(graph: &Graph) -> BTreeMap<&str, usize> {
    let tasks = graph.tasks.iter().enumerate();
    tasks.map(|(at, task)| (task.id.as_str(), at)).collect()
}

/// By task, at its place in the graph: those that hang below it. A graph that is wrong is shown all the same: what nothing
/// leads to hangs at the top.
fn below(graph: &Graph) -> BTreeMap<Option<usize>, Vec<usize>> {
    let place = places(graph);
    let mut level: BTreeMap<usize, usize> = BTreeMap::new();
    let mut below: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    let mut open: BTreeSet<usize> = (0..graph.tasks.len()).collect();
    while !open.is_empty() {
        let on = |at: &usize| {
            let all = graph.tasks[*at].depends_on.iter();
            all.filter_map(|id| place.get(id.as_str()).copied())
                .collect::<Vec<usize>>()
        };
        let is_free = |at: &&usize| on(at).iter().all(|on| level.contains_key(on));
        let free: Vec<usize> = open.iter().filter(is_free).copied().collect();
        let placed = match free.is_empty() {
            true => open.iter().copied().collect(), // a cycle
            false => free,
        };
        let mut levels = Vec::new();
        for at in placed {
            let deepest = on(&at)
                .into_iter()
                .filter_map(|on| Some((*level.get(&on)?, on)))
                .max_by_key(|(level, _)| *level);
            levels.push((at, deepest.map_or(0, |(level, _)| level + 1)));
            below.entry(deepest.map(|(_, on)| on)).or_default().push(at);
            open.remove(&at);
        }
        level.extend(levels);
    }
    below
}

/// A Mermaid flowchart, which GitHub and editors show as a picture.
pub fn mermaid(graph: &Graph, rows: &Rows) -> String {
    let mut lines = vec![
        format!("%% {}", short(&graph.objective, LABEL_CHARS_MAX)),
        "flowchart TD".to_owned(),
    ];
    let place = places(graph);
    let mut used: BTreeSet<&str> = BTreeSet::new();
    for (at, task) in graph.tasks.iter().enumerate() {
        let row = rows.get(&task.id);
        let standing = row.map_or(Standing::Planned, |row| row.standing);
        let mut label = vec![
            escaped(&task.id),
            escaped(&task.full_name()),
            standing.words(),
        ];
        label.extend(
            row.filter(|row| !row.touches.is_empty())
                .map(|row| escaped(&short(&row.touches, LABEL_CHARS_MAX))),
        );
        used.insert(standing.key());
        lines.push(format!(
            "    t{at}[\"{}\"]:::{}",
            label.join("<br/>"),
            standing.key()
        ));
    }
    for (at, task) in graph.tasks.iter().enumerate() {
        let on = task
            .depends_on
            .iter()
            .filter_map(|id| place.get(id.as_str()));
        lines.extend(on.map(|on| format!("    t{on} --> t{at}")));
    }
    let used = Standing::ALL.iter().filter(|one| used.contains(one.key()));
    lines.extend(used.map(|one| format!("    classDef {} {}", one.key(), style(*one))));
    lines.join("\n") + "\n"
}

fn style(standing: Standing) -> &'static str {
    match standing {
        Standing::Planned => "fill:#f4f4f4,stroke:#888,color:#222",
        Standing::WouldRun | Standing::Done => "fill:#e2f5e4,stroke:#2a7d32,color:#222",
        Standing::WouldAsk => "fill:#fff4d6,stroke:#b07d00,color:#222",
        Standing::Running => "fill:#e0edff,stroke:#2f6fd0,color:#222",
        Standing::WouldBeDenied | Standing::Failed => "fill:#fde2e1,stroke:#c62828,color:#222",
        Standing::Aborted => "fill:#eee,stroke:#888,color:#666,stroke-dasharray:4",
    }
}

/// What would end a label or be read as markup, as Mermaid's entities.
fn escaped(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '#' | '"' | '<' | '>' | '&' | '`' | '[' | ']' | '{' | '}' | '(' | ')' | '|' | '%'
            | '\\' | ';' => all.push_str(&format!("#{};", u32::from(c))),
            c if c.is_control() => all.push(' '),
            c => all.push(c),
        }
    }
    all
}
