//! `journeyman replay`: does today's logic decide what is in a journal, line by line, as it was decided then?
//!
//! Reads the journal and the settings, and nothing else: facts, outcomes and the model's answers are those of the journal.

use super::backtest::{self, Policies};
use super::find::journal;
use super::{CliError, Exit};
use crate::agent::event::Record;
use crate::agent::replay::{Match, Today, recorded};
use crate::config::Settings;
use crate::history::walk;
use crate::world::journal::FORMAT;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(
    after_help = "Facts, outcomes and answers are taken as recorded; decisions are made again and compared. \
                  Exit code 0: every decision comes out the same; 1: one differs, or the journal is damaged."
)]
pub struct Replay {
    /// Id of the session, or the beginning of one
    session: String,
    /// Show instead which commands this policy file would have decided differently
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Print the report as JSON on stdout
    #[arg(long)]
    json: bool,
}

/// What came out.
#[derive(Debug, Default, Serialize)]
struct Report {
    session: String,
    lines: u64,
    /// Decisions that were made again.
    decisions: u64,
    same: bool,
    difference: Option<First>,
    /// Lines that say the same in other words.
    reworded: Vec<u64>,
    /// Where a setting of then was another one than today; the recorded one was used.
    settings: Vec<Setting>,
    /// What the journal does not say, so that today's had to be used.
    notes: Vec<String>,
}

/// The first decision that comes out differently.
#[derive(Debug, Serialize)]
struct First {
    line: u64,
    recorded: String,
    today: String,
}

#[derive(Debug, Serialize)]
struct Setting {
    line: u64,
    setting: &'static str,
}

impl Replay {
    pub fn run(self, settings: &Settings) -> Result<Exit, CliError> {
        let path = journal(&settings.data_dir, &self.session)?;
        match &self.policy {
            Some(policy) => judge_again(&path, policy, settings, self.json),
            None => self.decide_again(&path, settings),
        }
    }

    fn decide_again(&self, path: &Path, settings: &Settings) -> Result<Exit, CliError> {
        let report = replay(path, settings)?;
        match self.json {
            true => print_json(&report)?,
            false => print(&report),
        }
        Ok(if report.same {
            Exit::Done
        } else {
            Exit::Failed
        })
    }
}

fn failed(error: impl ToString) -> CliError {
    CliError::Failed(error.to_string())
}

fn print_json(report: &impl Serialize) -> Result<(), CliError> {
    println!("{}", serde_json::to_string_pretty(report).map_err(failed)?);
    Ok(())
}

fn replay(path: &Path, settings: &Settings) -> Result<Report, CliError> {
    let mut policy = settings.policy()?;
    policy.gate = settings.gate(true)?;
    let mut today = Today::new(policy, settings.gate(false)?);
    let mut report = Report::default();
    let mut before = None;
    let texts = &settings.texts;
    let past = walk(path, texts, |state, record| {
        report.lines = record.seq;
        match (state, &before) {
            (Some(state), Some(before)) if report.difference.is_none() => {
                report.take(record, today.compare(state, before, record));
            }
            _ => {}
        }
        before = Some(record.event.clone());
    })
    .map_err(failed)?;
    if let Some(error) = past.error(path) {
        return Err(failed(error));
    }
    let opening = &past.state.opening;
    if opening.format != FORMAT {
        return Err(CliError::Failed(format!(
            "{} has format {}, and this program decides about format {FORMAT}: replay it with {}",
            path.display(),
            opening.format,
            opening.program
        )));
    }
    report.session.clone_from(&opening.session);
    report.same = report.difference.is_none();
    if !today
        .gate_digests()
        .contains(&opening.policy_digest.as_str())
    {
        report.notes.push(
            "the policy (config/policy.toml, AGENT_SHELL_ALLOWLIST, protected_branches) is another one than then, and the \
             journal has only its digest: verdicts were made again by today's"
                .into(),
        );
    }
    Ok(report)
}

impl Report {
    fn take(&mut self, record: &Record, found: Match) {
        self.decisions += u64::from(found != Match::Outside);
        let line = record.seq;
        match found {
            Match::Outside | Match::Same => {}
            Match::Reworded => self.reworded.push(line),
            Match::OtherSetting(setting) => self.settings.push(Setting { line, setting }),
            Match::Different(today) => {
                let recorded = recorded(&record.event);
                self.difference = Some(First {
                    line,
                    recorded,
                    today,
                });
            }
        }
    }
}

fn print(report: &Report) {
    for setting in &report.settings {
        println!(
            "line {}: another setting than today ({}); the recorded one was used",
            setting.line, setting.setting
        );
    }
    if let Some(first) = report.reworded.first() {
        println!(
            "{} decisions are the same in other words, the first on line {first}",
            report.reworded.len()
        );
    }
    report
        .notes
        .iter()
        .for_each(|note| println!("note: {note}"));
    match &report.difference {
        None => println!(
            "{}: every one of {} decisions on {} lines comes out the same",
            report.session, report.decisions, report.lines
        ),
        Some(first) => println!(
            "{}: the first difference is on line {}\n  recorded: {}\n  today:    {}",
            report.session, first.line, first.recorded, first.today
        ),
    }
}

/// Which commands of this session another policy would have decided differently.
fn judge_again(
    path: &Path,
    policy: &Path,
    settings: &Settings,
    json: bool,
) -> Result<Exit, CliError> {
    let policies = Policies::load(settings, policy)?;
    let mut report = backtest::Report::default();
    backtest::replay(path, &policies, &mut report).map_err(failed)?;
    report.journals = 1;
    match json {
        true => print_json(&report)?,
        false => backtest::print(&report),
    }
    Ok(match report.different.is_empty() {
        true => Exit::Done,
        false => Exit::Failed,
    })
}
