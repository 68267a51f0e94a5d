//! Texts about plans.

use super::{one_line, short_code, visible};
use crate::agent::brief::without_tag;
use crate::agent::event::{Call, CallId, EffectClass, Event, Judged, Outlook, Status};
use crate::agent::graphs::{Ended, Known, Work};
use crate::agent::state::State;
use crate::agent::step::Policy;
use crate::gate::{Decision, Touch};
use crate::plan::{Line, Row, Rows, Standing, Task, lines};
use crate::tools;

/// Of one task's output, in a message and for the model.
const OUTPUT_CHARS_MAX: usize = 400;
const FOR_MODEL_CHARS_MAX: usize = 8_000;

/// How each task of a plan stands.
pub fn graph_rows(state: &State, known: &Known) -> Rows {
    let Some(made) = &known.made else {
        return Rows::default();
    };
    let ends = &known.ends(state);
    let aborted = known.next(ends).aborted;
    let row = |task: &Task| {
        let outlook = known.outlooks.as_ref().and_then(|all| all.get(&task.id));
        let standing = match ends.get(&task.id) {
            Some(ended) if ended.status == Status::Done => Standing::Done,
            Some(_) => Standing::Failed,
            None if known.is_under_way(state, &task.id) => Standing::Running,
            None if known.ran && aborted.contains(&task.id) => Standing::Aborted,
            None => outlook.map_or(Standing::Planned, standing_before),
        };
        let tool = made.tools.get(&task.id).map_or("", String::as_str);
        let class = outlook.map_or_else(|| class_of(tool), |outlook| outlook.class);
        let call = task_call(task, tool);
        let row = Row {
            standing,
            class,
            touches: touched(&call),
        };
        (task.id.clone(), row)
    };
    made.graph.tasks.iter().map(row).collect()
}

fn standing_before(outlook: &Outlook) -> Standing {
    match &outlook.says {
        Judged::Later => Standing::Planned,
        Judged::Unfit { .. } => Standing::WouldBeDenied,
        Judged::Known { verdict, .. } => match verdict.decision {
            Decision::Allow => Standing::WouldRun,
            Decision::Ask => Standing::WouldAsk,
            Decision::Deny => Standing::WouldBeDenied,
        },
    }
}

/// What can be known about a tool of this name. A server's says so itself, once it is judged.
fn class_of(tool: &str) -> EffectClass {
    tools::find(tool).map_or(EffectClass::Opaque, |tool| tool.class)
}

/// The command, or the paths, or else the whole input.
fn touched(call: &Call) -> String {
    let arguments = call.json().unwrap_or_default();
    let tool = tools::find(&call.tool);
    let touches = tool.and_then(|tool| (tool.touches)(&arguments).ok());
    let said = |touch: Touch| match touch {
        Touch::Command(command) => Some(command),
        touch => touch.into_path(),
    };
    let said = touches.into_iter().flatten().filter_map(said);
    match said.collect::<Vec<_>>() {
        said if said.is_empty() => call.arguments.clone(),
        said => said.join(", "),
    }
}

/// A plan as a tree, in the language of the chat.
pub fn graph_tree(state: &State, known: &Known) -> String {
    let Some(made) = &known.made else {
        return String::new();
    };
    let said = |standing: Standing| state.texts.say(&format!("task_{}", standing.key()), &[]);
    let lines = lines(&made.graph, &graph_rows(state, known), &said);
    let line = |line: &Line| format!("{}{}", line.branch, line.text);
    visible(&lines.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// A plan that was made, and what the person can do with it.
pub fn planned(state: &State, known: &Known) -> String {
    let tree = graph_tree(state, known);
    let values = [
        ("id", known.id.as_str()),
        ("objective", &one_line(&known.objective, OUTPUT_CHARS_MAX)),
        ("tree", &tree),
        ("why", &reasons_before(state, known)),
    ];
    state.texts.say("graph_planned", &values)
}

/// Why tasks would not simply run: a line for each reason.
pub fn reasons_before(state: &State, known: &Known) -> String {
    let reason = |(task, outlook): (&String, &Outlook)| {
        let why = match &outlook.says {
            Judged::Later => state.texts.say("graph_later", &[]),
            Judged::Unfit { why } => one_line(why, OUTPUT_CHARS_MAX),
            Judged::Known { verdict, .. } if verdict.reasons.is_empty() => return None,
            Judged::Known { verdict, .. } => super::asked_because(&state.texts, verdict),
        };
        Some((task.clone(), why))
    };
    by_reason(known.outlooks.iter().flatten().filter_map(reason))
}

/// Tasks with the same reason share a line.
fn by_reason(reasons: impl Iterator<Item = (String, String)>) -> String {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for (task, why) in reasons {
        match lines.iter_mut().find(|(other, _)| *other == why) {
            Some((_, tasks)) => tasks.push(task),
            None => lines.push((why, vec![task])),
        }
    }
    let line = |(why, tasks): (String, Vec<String>)| format!("\n{}: {why}", tasks.join(", "));
    lines.into_iter().map(line).collect()
}

/// How a run ended.
pub fn ran(state: &State, known: &Known) -> String {
    let rows = graph_rows(state, known);
    let count = |wanted: Standing| rows.values().filter(|row| row.standing == wanted).count();
    let (done, failed, aborted) = (
        count(Standing::Done).to_string(),
        count(Standing::Failed).to_string(),
        count(Standing::Aborted).to_string(),
    );
    let values = [
        ("id", known.id.as_str()),
        ("tree", &graph_tree(state, known)),
        ("done", &done),
        ("failed", &failed),
        ("aborted", &aborted),
        ("why", &reasons_after(state, known)),
    ];
    state.texts.say("graph_ran", &values)
}

/// Why tasks failed: a line for each reason.
pub fn reasons_after(state: &State, known: &Known) -> String {
    let ends = known.ends(state);
    let failed = ends
        .iter()
        .filter(|(_, ended)| ended.status != Status::Done);
    by_reason(failed.map(|(task, ended)| (task.clone(), one_line(&ended.output, OUTPUT_CHARS_MAX))))
}

/// A plan as it stands, whatever became of it.
pub fn graph_shown(state: &State, known: &Known) -> String {
    match &known.made {
        None => {
            let why = known.failed.clone().unwrap_or_default();
            let values = [("id", known.id.as_str()), ("why", &why)];
            state.texts.say("graph_not_made", &values)
        }
        Some(_) if known.ran && !known.is_untouched() => ran(state, known),
        Some(_) => planned(state, known),
    }
}

/// What the model reads where it asked for a plan.
pub fn planned_for_model(state: &State, known: &Known) -> String {
    format!(
        "The plan {} is made; nothing of it runs. The person sees it and runs it with /plan run {}, or not.\n{}",
        known.id,
        known.id,
        graph_tree(state, known)
    )
}

/// What the model reads, with what the person says next, about a plan that was not its doing. Outputs are data.
pub fn graph_for_model(state: &State, known: &Known, work: &Work) -> String {
    let what = match work.runs {
        true => "ran",
        false => "had a plan made, of which nothing has run",
    };
    let output = |(task, ended): (&String, &Ended)| {
        let output = without_tag(&ended.output, "output");
        format!("\n<output task=\"{task}\">\n{output}\n</output>")
    };
    let outputs: String = known.ended.iter().map(output).collect();
    let outputs = match outputs.char_indices().nth(FOR_MODEL_CHARS_MAX) {
        Some((end, _)) => format!("{}{}", &outputs[..end], super::CUT),
        None => outputs,
    };
    let why = known.failed.as_deref().unwrap_or_default();
    format!(
        "[The person {what}: plan {}, for {:?}. {why}\n{}{outputs}]",
        known.id,
        known.objective,
        graph_tree(state, known)
    )
}

/// The event that opens the question about a whole run: everything that would run, and why the gate asks.
pub fn run_question(
    state: &State,
    policy: &Policy,
    call: &Call,
    known: &Known,
    digest: String,
) -> Event {
    let code = short_code(state, &digest);
    let minutes = policy.limits.approval_minutes;
    let why = reasons_before(state, known);
    let values = [
        ("id", known.id.as_str()),
        ("tree", &graph_tree(state, known)),
        ("what", &whole_calls(state, known)),
        ("why", why.trim_start()),
        ("workspace", &state.workspace.name),
        ("code", &code),
        ("minutes", &minutes.to_string()),
    ];
    let question = state.texts.say("graph_question", &values);
    Event::ApprovalAsked {
        approval: code,
        call: call.id.clone(),
        digest,
        question: policy.masks.apply(question),
        expires_at: state.now.plus_ms(minutes * 60_000),
        pattern: None,
    }
}

/// The calls that the person is asked about, whole.
fn whole_calls(state: &State, known: &Known) -> String {
    let Some(made) = &known.made else {
        return String::new();
    };
    let whole = |task: &Task| {
        let outlook = known.outlooks.as_ref()?.get(&task.id)?;
        let Judged::Known { verdict, .. } = &outlook.says else {
            return None;
        };
        let call = task_call(task, made.tools.get(&task.id)?);
        let what = super::what_would_run(&state.texts, &call, verdict);
        (verdict.decision == Decision::Ask).then(|| format!("{}:\n{what}", task.id))
    };
    let tasks = made.graph.tasks.iter().filter_map(whole);
    tasks.collect::<Vec<_>>().join("\n")
}

fn task_call(task: &Task, tool: &str) -> Call {
    Call {
        id: CallId(String::new()),
        wire_id: String::new(),
        tool: tool.to_owned(),
        arguments: task.input.to_string(),
    }
}
