//! `journeyman policy`: the gate's verdict on a command without running it, and what its rules mean.

use super::assemble::surroundings;
use super::{CliError, Exit};
use crate::config::Settings;
use crate::gate::{self, Decision, Touch};
use crate::world::{process, resolve};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum Policy {
    /// What the gate would say about a command in this folder, and why
    Check {
        #[arg(long)]
        json: bool,
        /// The command, as one text or as words
        #[arg(required = true, last = true)]
        command: Vec<String>,
    },
    /// What a rule means: when it speaks, why, and what would make the command allowed
    Explain {
        #[arg(long)]
        json: bool,
        /// The name that stands in a verdict, such as `denylist` or `git-push` [default: list all names]
        rule: Option<String>,
    },
    /// What a changed policy would have decided differently about the commands in the journals
    Backtest(super::backtest::Backtest),
}

impl Policy {
    pub fn run(self, settings: &Settings) -> Result<Exit, CliError> {
        match self {
            Policy::Check { json, command } => check(settings, json, &command),
            Policy::Explain { json, rule } => explain(settings, json, rule.as_deref()),
            Policy::Backtest(backtest) => backtest.run(settings),
        }
    }
}

fn check(settings: &Settings, json: bool, command: &[String]) -> Result<Exit, CliError> {
    let text = match command {
        [one] => one.clone(),
        words => shlex::try_join(words.iter().map(String::as_str))
            .map_err(|error| CliError::Use(error.to_string()))?,
    };
    let policy = settings.gate(true)?;
    let here = std::env::current_dir()
        .map_err(|error| CliError::Failed(format!("find this folder: {error}")))?;
    let touches = [Touch::Command(text)];
    let around = surroundings(
        settings,
        &process::safe_environment(&settings.file.environment),
    );
    let facts = resolve::facts(&gate::wants(&policy, &touches), &here, &[], &around);
    let verdict = gate::judge(&policy, &touches, &facts);
    if json {
        println!(
            "{}",
            serde_json::to_string(&verdict).map_err(|error| CliError::Failed(error.to_string()))?
        );
        return Ok(Exit::Done);
    }
    let word = match verdict.decision {
        Decision::Allow => "allow: it would run without asking",
        Decision::Ask => "ask: it would wait for your approval",
        Decision::Deny => "deny: it would never run",
    };
    println!("{word}");
    for reason in &verdict.reasons {
        println!(
            "- {} (rule {})\n  instead: {}",
            reason.text, reason.rule, reason.fix
        );
    }
    if !settings.write_enabled {
        println!("Note: AGENT_WRITE_ENABLED is false, so for now no command runs at all.");
    }
    Ok(Exit::Done)
}

fn explain(settings: &Settings, json: bool, rule: Option<&str>) -> Result<Exit, CliError> {
    let policy = settings.gate(true)?;
    let Some(rule) = rule else {
        policy
            .rule_names()
            .iter()
            .for_each(|name| println!("{name}"));
        return Ok(Exit::Done);
    };
    let found = policy.explain(rule);
    if found.is_empty() {
        let names = policy.rule_names();
        let nearest = names
            .iter()
            .max_by(|a, b| strsim::jaro_winkler(a, rule).total_cmp(&strsim::jaro_winkler(b, rule)));
        let hint = nearest.map_or(String::new(), |name| format!("; the nearest is {name}"));
        return Err(CliError::Use(format!("no rule is called {rule}{hint}")));
    }
    if json {
        let text =
            serde_json::to_string(&found).map_err(|error| CliError::Failed(error.to_string()))?;
        println!("{text}");
        return Ok(Exit::Done);
    }
    for one in &found {
        let decides = match one.decision {
            Some(Decision::Allow) => "allows",
            Some(Decision::Ask) => "asks",
            Some(Decision::Deny) => "denies",
            None => "speaks",
        };
        println!("{}: {decides} when {}.", one.rule, one.when);
        println!("  why: {}", one.reason);
        if !one.fix.is_empty() {
            println!("  instead: {}", one.fix);
        }
        one.matches
            .iter()
            .for_each(|example| println!("  such as: {example}"));
        one.misses
            .iter()
            .for_each(|example| println!("  but not: {example}"));
    }
    Ok(Exit::Done)
}
