//! `journeyman plan`: plans made, shown, run and listed. Showing and listing only read, so they work beside a server.

use super::assemble::{Assembly, assemble, fixed_workspace, model};
use super::find::journals;
use super::run::{Attendant, Doubt, How, failed, leave, start_on};
use super::{CliError, Exit, block_on, log_to_stderr};
use crate::agent::event::{EndReason, Judged, Outlook};
use crate::agent::graphs::{Known, Made};
use crate::agent::state::State;
use crate::agent::wording;
use crate::config::Settings;
use crate::doors::terminal::{Style, harmless};
use crate::history::good_part;
use crate::plan::{Standing, lines, mermaid};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::io;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum Plan {
    /// Make a plan for an objective; nothing of it runs
    New(New),
    /// Show a plan and what would become of each of its tasks
    Show(Show),
    /// Run a plan: asks once for all of it
    Run(Run),
    /// List the plans
    List(List),
}

#[derive(Debug, Args)]
pub struct New {
    /// What is to be planned
    objective: String,
    /// Folder to work in [default: this one]
    #[arg(long, short, value_name = "DIR")]
    workspace: Option<PathBuf>,
    #[command(flatten)]
    form: Form,
}

#[derive(Debug, Args)]
pub struct Show {
    /// Id of the plan [default: the last one]
    id: Option<String>,
    #[command(flatten)]
    form: Form,
}

#[derive(Debug, Args)]
pub struct Run {
    /// Id of the plan [default: the last one]
    id: Option<String>,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, Args)]
pub struct List {
    /// Print a JSON list on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Form {
    /// Print JSON on stdout
    #[arg(long)]
    json: bool,
    /// Print a Mermaid flowchart on stdout
    #[arg(long, conflicts_with = "json")]
    mermaid: bool,
}

impl Plan {
    pub fn run(self, settings: &Settings) -> Result<Exit, CliError> {
        log_to_stderr("warn");
        match self {
            Plan::New(new) => new.run(settings),
            Plan::Show(show) => {
                let found = find(settings, show.id.as_deref())?;
                show.form.print(&found);
                Ok(Exit::Done)
            }
            Plan::Run(run) => run.run(settings),
            Plan::List(list) => list.run(settings),
        }
    }
}

impl New {
    fn run(self, settings: &Settings) -> Result<Exit, CliError> {
        let objective = self.objective.trim();
        if objective.is_empty() {
            return Err(CliError::Use(
                "the objective is empty: say what is to be planned".into(),
            ));
        }
        // In a chat, these would be about a plan that is there.
        let verb = objective.split_whitespace().next().unwrap_or_default();
        let is_verb = ["run", "show"]
            .iter()
            .any(|one| verb.eq_ignore_ascii_case(one));
        if is_verb && objective.split_whitespace().count() <= 2 {
            return Err(CliError::Use(format!(
                "{objective:?} is no objective: say in a few more words what is to be planned. `journeyman plan {verb} ID` is about a plan that is there"
            )));
        }
        let workspace = fixed_workspace(self.workspace.as_deref())?;
        let (exit, session) = start_on(
            settings,
            workspace,
            format!("/plan {objective}"),
            How::silent(),
        )?;
        let found = all(settings)?
            .into_iter()
            .find(|one| one.session() == session);
        match found {
            Some(found) if found.known.made.is_some() => {
                self.form.print(&found);
                Ok(exit)
            }
            Some(found) => {
                let why = found
                    .known
                    .failed
                    .unwrap_or_else(|| "it was stopped".into());
                Err(CliError::Failed(format!("no plan was made: {why}")))
            }
            None => Err(CliError::Failed("no plan was made".into())),
        }
    }
}

impl Run {
    fn run(self, settings: &Settings) -> Result<Exit, CliError> {
        let found = find(settings, self.id.as_deref())?;
        let id = found.known.id.clone();
        if found.known.is_over() {
            println!("{}", wording::graph_shown(&found.state, &found.known));
            return Ok(found.exit());
        }
        if found.known.made.is_none() || found.known.lost {
            return Err(CliError::Use(format!(
                "plan {id} cannot run: {}",
                wording::graph_shown(&found.state, &found.known)
            )));
        }
        if found.state.turn.is_some() {
            return Err(CliError::Use(format!(
                "session {} is at work: journeyman resume {} goes on with it",
                found.session(),
                found.session()
            )));
        }
        let (model, workspace) = (model(settings)?, fixed_workspace(None)?);
        let exit = block_on(async {
            let assembly = assemble(settings, model, workspace)?;
            let exit = attend(&assembly, &found, self.how, &id).await;
            leave(assembly).await;
            exit
        })??;
        // A plan that was refused, or the rest of one, is not done, although its turn is.
        match exit {
            Exit::Done if !find(settings, Some(&id))?.known.is_over() => {
                Ok(Exit::of(EndReason::Failed))
            }
            exit => Ok(exit),
        }
    }
}

async fn attend(assembly: &Assembly, found: &Found, how: How, id: &str) -> Result<Exit, CliError> {
    assembly.hub.index().map_err(failed)?;
    let mut seen = assembly.hub.surface().observers.watch();
    let owner = found.state.opening.owner.clone();
    let attendant = Attendant::new(assembly, found.session(), owner, how, Doubt::Ask)?;
    let wish = format!("/plan run {id}");
    let exit = attendant.say_and_stay(&wish, &mut seen).await;
    attendant.print_rest(&mut seen);
    exit
}

impl List {
    fn run(self, settings: &Settings) -> Result<Exit, CliError> {
        let all = all(settings)?;
        if self.json {
            let all: Vec<Value> = all.iter().map(Found::json).collect();
            println!("{:#}", Value::Array(all));
            return Ok(Exit::Done);
        }
        if all.is_empty() {
            println!("No plans yet. `journeyman plan new OBJECTIVE` makes one.");
        }
        for found in all {
            let objective = wording::one_line(&found.known.objective, 60);
            println!(
                "{}  {:<8}  {:>3} tasks  session {}  {objective}",
                found.known.id,
                found.status(),
                found
                    .known
                    .made
                    .iter()
                    .flat_map(|made| &made.graph.tasks)
                    .count(),
                found.session()
            );
        }
        Ok(Exit::Done)
    }
}

/// A plan, in the session that it is of.
struct Found {
    state: State,
    known: Known,
}

/// Every plan of every session, the newest session first.
fn all(settings: &Settings) -> Result<Vec<Found>, CliError> {
    let mut all = Vec::new();
    for path in journals(&settings.data_dir)? {
        match good_part(&path, &settings.texts, |_| {}) {
            Ok(past) => {
                let known: Vec<Known> = past.state.graphs.iter().cloned().collect();
                let of = |known| Found {
                    state: past.state.clone(),
                    known,
                };
                all.extend(known.into_iter().rev().map(of));
            }
            Err(error) => eprintln!("journeyman: {error}"),
        }
    }
    all.sort_by_key(|found| std::cmp::Reverse(found.state.now));
    Ok(all)
}

fn find(settings: &Settings, id: Option<&str>) -> Result<Found, CliError> {
    let is_it = |found: &Found| id.is_none_or(|id| found.known.id.eq_ignore_ascii_case(id));
    let found = all(settings)?.into_iter().find(is_it);
    found.ok_or_else(|| {
        CliError::Use(match id {
            Some(id) => format!("there is no plan {id:?}. `journeyman plan list` lists all"),
            None => "there is no plan yet. `journeyman plan new OBJECTIVE` makes one".into(),
        })
    })
}

impl Found {
    fn session(&self) -> String {
        self.state.opening.session.clone()
    }

    fn status(&self) -> &'static str {
        let of_turn = self.state.turn.as_ref().and_then(|turn| turn.work.as_ref());
        let is_at_work = of_turn.is_some_and(|work| work.graph == self.known.id);
        match &self.known {
            known if known.lost => "lost",
            _ if is_at_work => "at work",
            known if known.made.is_none() => "not made",
            known if !known.ran => "planned",
            known if !known.is_over() => "stopped",
            _ if self.has_failed() => "failed",
            _ => "done",
        }
    }

    fn has_failed(&self) -> bool {
        let rows = wording::graph_rows(&self.state, &self.known);
        rows.values().any(|row| row.standing != Standing::Done)
    }

    fn exit(&self) -> Exit {
        match self.has_failed() {
            true => Exit::of(EndReason::Failed),
            false => Exit::Done,
        }
    }

    /// What stands below the tree: why tasks would not simply run, or failed, and what can be done.
    fn what_next(&self) -> String {
        let (id, session) = (&self.known.id, self.session());
        let untouched = self.known.is_untouched();
        let reasons = match untouched {
            true => wording::reasons_before(&self.state, &self.known),
            false => wording::reasons_after(&self.state, &self.known),
        };
        let next = match self.status() {
            "planned" | "stopped" if untouched => {
                format!("Nothing has run. `journeyman plan run {id}` runs it")
            }
            "stopped" => format!("`journeyman plan run {id}` goes on with what has not started"),
            "at work" => format!("At work, or interrupted: `journeyman resume {session}` goes on"),
            "lost" => "It cannot run: lines of its journal are lost".to_owned(),
            _ => "It has run, and does not run again".to_owned(),
        };
        let reasons = reasons.trim_start();
        match reasons.is_empty() {
            true => next,
            false => format!("{}\n{next}", harmless(reasons)),
        }
    }

    fn json(&self) -> Value {
        let made = self.known.made.as_ref();
        json!({
            "id": self.known.id,
            "session": self.session(),
            "objective": self.known.objective,
            "status": self.status(),
            "digest": made.map(|made| &made.digest),
            "why": self.known.failed,
            "tasks": made.map(|made| self.tasks(made)).unwrap_or_default(),
        })
    }

    fn tasks(&self, made: &Made) -> Vec<Value> {
        let ends = self.known.ends(&self.state);
        let rows = wording::graph_rows(&self.state, &self.known);
        let outlooks = self.known.outlooks.as_ref();
        let task = |task: &crate::plan::Task| {
            let mut json = serde_json::to_value(task).unwrap_or_default();
            if let Some(row) = rows.get(&task.id) {
                json["standing"] = row.standing.key().into();
                json["class"] = json!(row.class);
                json["touches"] = row.touches.clone().into();
            }
            if let Some(outlook) = outlooks.and_then(|all| all.get(&task.id)) {
                json["why"] = why(outlook);
            }
            if let Some(ended) = ends.get(&task.id) {
                json["output"] = ended.output.clone().into();
            }
            json
        };
        made.graph.tasks.iter().map(task).collect()
    }
}

fn why(outlook: &Outlook) -> Value {
    match &outlook.says {
        Judged::Known { verdict, .. } => json!(verdict.reasons),
        Judged::Later => Value::Null,
        Judged::Unfit { why } => why.clone().into(),
    }
}

impl Form {
    fn print(&self, found: &Found) {
        let Some(made) = found.known.made.as_ref().filter(|_| !self.json) else {
            let shown = match self.json {
                true => format!("{:#}", found.json()),
                false => wording::graph_shown(&found.state, &found.known),
            };
            println!("{shown}");
            return;
        };
        let rows = wording::graph_rows(&found.state, &found.known);
        if self.mermaid {
            print!("{}", mermaid(&made.graph, &rows));
            return;
        }
        let style = Style::of(&io::stdout());
        println!(
            "Plan {}: {}",
            found.known.id,
            style.bold(&made.graph.objective)
        );
        for line in lines(&made.graph, &rows, &Standing::words) {
            let text = style.standing(line.standing, &line.text);
            println!("{}{text}", line.branch);
        }
        println!("{}", found.what_next());
    }
}
