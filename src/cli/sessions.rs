//! `sessions`, `show`, `index rebuild`: looking at what happened. They only read, so they work beside a server.

use super::find::{journal, journals};
use super::{CliError, Exit};
use crate::agent::event::{Event, Record};
use crate::agent::texts::Catalogues;
use crate::config::Settings;
use crate::history::{good_part, inspect};
use crate::hub::index;
use crate::world::journal::JournalError;
use crate::world::lock::DataLock;
use crate::world::store::Store;
use crate::world::store::projection::status;
use crate::world::store::sessions::SessionRow;
use clap::{Args, Subcommand};
use std::fs;
use std::path::Path;

#[derive(Debug, Args)]
pub struct Sessions {
    /// Print a JSON list on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct Show {
    /// Id of the session, or the beginning of one
    session: String,
    /// Print the journal's lines as they are
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Index {
    /// Make the database again from the journals
    Rebuild,
}

impl Sessions {
    /// From the journals themselves: they are the truth, and the database may belong to a running server.
    pub fn run(self, settings: &Settings) -> Result<Exit, CliError> {
        let rows = rows(settings)?;
        if self.json {
            println!(
                "{}",
                serde_json::to_string_pretty(&rows)
                    .map_err(|error| CliError::Failed(error.to_string()))?
            );
            return Ok(Exit::Done);
        }
        if rows.is_empty() {
            println!("No sessions yet. `journeyman demo` shows one.");
        }
        for row in rows {
            let objective: String = row
                .objective
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(60)
                .collect();
            println!(
                "{}  {:<16} {:>3} rounds  {}  {}",
                row.id,
                row.status,
                row.rounds,
                &row.updated_at[..16].replace('T', " "),
                objective
            );
        }
        Ok(Exit::Done)
    }
}

/// Every session, the one that did something last first.
pub fn rows(settings: &Settings) -> Result<Vec<SessionRow>, CliError> {
    let mut rows = Vec::new();
    for path in journals(&settings.data_dir)? {
        match row(&path, &settings.texts) {
            Ok(row) => rows.push(row),
            Err(error) => eprintln!("journeyman: {error}"),
        }
    }
    rows.sort_by(|a, b| b.updated_at.cmp(&a.updated_at));
    Ok(rows)
}

fn row(path: &Path, texts: &Catalogues) -> Result<SessionRow, JournalError> {
    let mut objective = String::new();
    let past = good_part(path, texts, |record| {
        if let Event::MessageReceived { message } = &record.event
            && objective.is_empty()
            && !message.text.starts_with('/')
        {
            objective.clone_from(&message.text);
        }
    })?;
    let state = past.state;
    let status = match past.damage {
        Some(_) => "damaged",
        None => status(&state),
    };
    Ok(SessionRow {
        id: state.opening.session.clone(),
        chat: state.opening.chat.clone(),
        workspace: state.workspace.path.clone(),
        objective,
        status: status.into(),
        rounds: state.rounds,
        started_at: state.started_at.to_string(),
        updated_at: state.now.to_string(),
    })
}

impl Show {
    pub fn run(self, settings: &Settings) -> Result<Exit, CliError> {
        let path = journal(&settings.data_dir, &self.session)?;
        let texts = &settings.texts;
        let mut lines = Vec::new();
        let inspected = inspect(&path, texts, |record| {
            lines.push(match self.json {
                true => serde_json::to_string(record).unwrap_or_default(),
                false => format!(
                    "{:>5} {} {}",
                    record.seq,
                    &record.at.to_string()[11..23],
                    describe(record)
                ),
            });
        });
        lines.iter().for_each(|line| println!("{line}"));
        match inspected {
            Ok((state, _)) if !self.json => println!("      status: {}", status(&state)),
            Ok(_) => {}
            Err(error) => return Err(CliError::Failed(error.to_string())),
        }
        Ok(Exit::Done)
    }
}

/// One line for a person: what happened, without the bulk.
fn describe(record: &Record) -> String {
    const CHARS_MAX: usize = 140;
    let value = serde_json::to_value(&record.event).unwrap_or_default();
    let name = value
        .get("event")
        .and_then(|name| name.as_str())
        .unwrap_or_default()
        .to_owned();
    let detail = match &record.event {
        Event::SessionStarted(opening) => format!(
            "{} in {} ({})",
            opening.chat, opening.workspace.path, opening.model
        ),
        Event::MessageReceived { message } => format!("{}: {}", message.from, message.text),
        Event::ModelAnswered { answer, .. } => {
            let calls: Vec<String> = answer
                .calls
                .iter()
                .map(|call| format!("{} {} {}", call.id, call.tool, call.arguments))
                .collect();
            format!("{} {}", answer.text, calls.join(" · "))
        }
        Event::ModelFailed { kind, message, .. } => format!("{kind}: {message}"),
        Event::SummaryGiven {
            error: Some(why), ..
        } => format!("none: {why}"),
        Event::SummaryGiven { text, .. } => text.clone(),
        Event::Compacted {
            messages,
            results,
            tokens_before,
            tokens_after,
            ..
        } => format!(
            "{messages} messages and {} results left out, about {tokens_before} → {tokens_after} tokens",
            results.len()
        ),
        Event::GateDecided { call, verdict, .. } => {
            let rules: Vec<&str> = verdict
                .reasons
                .iter()
                .map(|reason| reason.rule.as_str())
                .collect();
            format!("{call} {:?} {}", verdict.decision, rules.join(", "))
        }
        Event::ToolStarted {
            call,
            tool,
            approval,
            ..
        } => {
            format!(
                "{call} {tool}{}",
                approval
                    .as_ref()
                    .map(|code| format!(" (approved as {code})"))
                    .unwrap_or_default()
            )
        }
        Event::ToolFinished { call, outcome } => {
            format!("{call} {:?} {}", outcome.status, outcome.output)
        }
        Event::ApprovalAsked { approval, call, .. } => format!("{approval} about {call}"),
        Event::ApprovalGiven { approval, by, .. } => {
            format!("{approval} by {} ({:?})", by.who, by.via)
        }
        Event::ApprovalRefused {
            approval,
            by,
            reason,
        } => format!(
            "{approval} by {} {}",
            by.who,
            reason.as_deref().unwrap_or_default()
        ),
        Event::SendStarted { kind, text, .. } => format!("{kind:?}: {text}"),
        Event::PlanChanged { plan, .. } => format!("{}/{} done", plan.done(), plan.steps.len()),
        Event::TurnEnded { reason, text } => format!("{}: {text}", reason.word()),
        _ => {
            let mut fields = value;
            if let Some(fields) = fields.as_object_mut() {
                fields.remove("event");
            }
            fields.to_string()
        }
    };
    let flat: String = detail
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(CHARS_MAX)
        .collect();
    format!("{name:<18} {flat}")
}

impl Index {
    pub fn run(self, settings: Settings) -> Result<Exit, CliError> {
        let fail = |error: &dyn std::fmt::Display| CliError::Failed(error.to_string());
        let _lock = DataLock::take(&settings.data_dir).map_err(|error| fail(&error))?;
        let (store, texts) = (Store::new(&settings.data_dir), &settings.texts);
        store.forget_derived().map_err(|error| fail(&error))?;
        let mut sessions = 0;
        for path in journals(&settings.data_dir)? {
            let bytes = fs::metadata(&path).map_err(|error| fail(&error))?.len();
            match index::project(&store, &path, texts, bytes) {
                Ok(None) => sessions += 1,
                Ok(Some(damage)) => {
                    sessions += 1;
                    eprintln!("journeyman: {damage}; indexed up to there");
                }
                Err(error) => eprintln!("journeyman: {error}"),
            }
        }
        println!("{sessions} sessions indexed");
        Ok(Exit::Done)
    }
}
