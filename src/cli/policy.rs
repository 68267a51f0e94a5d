//! `journeyman policy check`: the gate's verdict on a command, without running it.

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
}

impl Policy {
    pub fn run(self, settings: &Settings) -> Result<Exit, CliError> {
        let Policy::Check { json, command } = self;
        let text = match command.as_slice() {
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
        let facts = resolve::facts(&gate::wants(&policy, &touches), &here, &around);
        let verdict = gate::judge(&policy, &touches, &facts);
        if json {
            println!(
                "{}",
                serde_json::to_string(&verdict)
                    .map_err(|error| CliError::Failed(error.to_string()))?
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
}
