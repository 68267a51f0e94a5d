//! `journeyman policy backtest`: every recorded command, judged again under a changed policy with the facts of that time.
//!
//! Reads journals and nothing else: the file system of today is not asked, so a path or program that only the changed policy wants
//! to know about counts as not looked up.

use super::find::{journals, journals_in};
use super::{CliError, Exit};
use crate::agent::event::{Call, Event};
use crate::config::Settings;
use crate::gate::{self, BUILT_IN, Decision, Facts, GatePolicy, GateSettings, Touch, Verdict};
use crate::tools;
use crate::world::journal;
use clap::Args;
use serde::Serialize;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub struct Backtest {
    /// The changed policy file: takes the place of config/policy.toml
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,
    /// A data folder with journals [default: the configured one]
    #[arg(long, value_name = "DIR")]
    journals: Option<PathBuf>,
    #[arg(long)]
    json: bool,
}

/// One command that would be decided differently.
#[derive(Debug, Serialize)]
pub struct Difference {
    session: String,
    call: String,
    command: String,
    was: Decision,
    would_be: Decision,
    /// Why, then and now: the rules that spoke.
    rules_then: Vec<String>,
    rules_now: Vec<String>,
}

/// What came out.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub journals: usize,
    pub commands: usize,
    pub different: Vec<Difference>,
}

impl Backtest {
    pub fn run(self, settings: &Settings) -> Result<Exit, CliError> {
        let policies = Policies::load(settings, &self.policy)?;
        let folder = self.journals.as_deref().unwrap_or(&settings.data_dir);
        let mut report = Report::default();
        let paths = match journals(folder)? {
            none if none.is_empty() => journals_in(folder).map_err(CliError::Use)?,
            found => found,
        };
        for path in paths {
            replay(&path, &policies, &mut report)
                .map_err(|error| CliError::Failed(format!("replay {}: {error}", path.display())))?;
            report.journals += 1;
        }
        if self.json {
            let text = serde_json::to_string(&report)
                .map_err(|error| CliError::Failed(error.to_string()))?;
            println!("{text}");
        } else {
            print(&report);
        }
        Ok(Exit::Done)
    }
}

/// The changed policy, with the write switch as it was recorded.
pub struct Policies {
    on: GatePolicy,
    off: GatePolicy,
}

impl Policies {
    /// # Errors
    /// Where the file cannot be read, or is no policy.
    pub fn load(settings: &Settings, file: &Path) -> Result<Self, CliError> {
        let name = file.display().to_string();
        let text = fs::read_to_string(file)
            .map_err(|error| CliError::Use(format!("read {name}: {error}")))?;
        let load = |write_enabled| {
            let with = GateSettings {
                allowlist: settings.allowlist.clone(),
                write_enabled,
                protected_branches: settings.file.protected_branches.clone(),
            };
            let files = [
                ("built-in policy.toml", BUILT_IN),
                (name.as_str(), text.as_str()),
            ];
            GatePolicy::load(&files, with).map_err(|error| CliError::Use(error.to_string()))
        };
        Ok(Self {
            on: load(true)?,
            off: load(false)?,
        })
    }
}

/// Judges the commands of one journal again.
///
/// # Errors
/// Where the journal is damaged.
pub fn replay(
    path: &Path,
    policies: &Policies,
    report: &mut Report,
) -> Result<(), journal::JournalError> {
    let session = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut calls: HashMap<String, Call> = HashMap::new();
    let mut seen: HashMap<String, Facts> = HashMap::new();
    journal::read(path, |record| match record.event {
        Event::ModelAnswered { answer, .. } => {
            calls.extend(
                answer
                    .calls
                    .into_iter()
                    .map(|call| (call.id.0.clone(), call)),
            );
        }
        Event::CallExamined { call, facts, .. } => {
            seen.insert(call.0, facts);
        }
        Event::GateDecided { call, verdict, .. } => {
            let facts = seen.get(&call.0).cloned().unwrap_or_default();
            if let Some((touches, command)) = calls.get(&call.0).and_then(command) {
                report.commands += 1;
                report
                    .different
                    .extend(difference(policies, &touches, &facts, &verdict).map(
                        |(now, rules_now)| Difference {
                            session: session.clone(),
                            call: call.0.clone(),
                            command,
                            was: verdict.decision,
                            would_be: now,
                            rules_then: rules(&verdict),
                            rules_now,
                        },
                    ));
            }
        }
        _ => {}
    })?;
    Ok(())
}

/// What a call touches, and its command; `None` for calls that run none.
fn command(call: &Call) -> Option<(Vec<Touch>, String)> {
    let tool = tools::find(&call.tool)?;
    let touches = (tool.touches)(&call.json().ok()?).ok()?;
    let text = touches.iter().find_map(|touch| match touch {
        Touch::Command(text) => Some(text.clone()),
        Touch::Read(_) | Touch::Write(_) | Touch::RepositoryRead | Touch::RepositoryWrite => None,
        Touch::Push(_) | Touch::GitHubRead | Touch::GitHubWrite => None,
        Touch::Workspace(_) | Touch::Clone(_) | Touch::Schedule(_) | Touch::Mcp(_) => None,
        Touch::Sources(_) | Touch::Forbidden { .. } | Touch::Only { .. } => None,
    })?;
    Some((touches, text))
}

fn difference(
    policies: &Policies,
    touches: &[Touch],
    facts: &Facts,
    then: &Verdict,
) -> Option<(Decision, Vec<String>)> {
    let was_off = then
        .reasons
        .iter()
        .any(|reason| reason.rule == "write-switch");
    let policy = if was_off { &policies.off } else { &policies.on };
    let now = gate::judge(policy, touches, facts);
    (now.decision != then.decision).then(|| (now.decision, rules(&now)))
}

fn rules(verdict: &Verdict) -> Vec<String> {
    let mut names: Vec<String> = verdict
        .reasons
        .iter()
        .map(|reason| reason.rule.clone())
        .collect();
    names.dedup();
    names
}

/// For a person.
pub fn print(report: &Report) {
    let word = |decision| match decision {
        Decision::Allow => "allow",
        Decision::Ask => "ask",
        Decision::Deny => "deny",
    };
    for one in &report.different {
        let because = match one.rules_now.is_empty() {
            true => one.rules_then.join(", "),
            false => one.rules_now.join(", "),
        };
        println!(
            "{} -> {}  {}  ({} {}; {because})",
            word(one.was),
            word(one.would_be),
            one.command,
            one.session,
            one.call
        );
    }
    println!(
        "{} of {} commands in {} journals would be decided differently",
        report.different.len(),
        report.commands,
        report.journals
    );
}
