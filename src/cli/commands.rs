//! `journeyman commands`: what a command's text becomes, without a server or a model.

use super::assemble::{surroundings, trust};
use super::{CliError, Exit, block_on};
use crate::agent::event::CallId;
use crate::config::Settings;
use crate::definitions::arguments::Arguments;
use crate::definitions::loading::{Answer, Caller, Loaded};
use crate::definitions::{Definition, Kind, Origin};
use crate::world::commands::Loader;
use crate::world::open_workspace;
use crate::world::process::{Processes, safe_environment};
use crate::world::store::Store;
use crate::world::trust::Trust;
use crate::world::workspace::Workspace;
use clap::Subcommand;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Subcommand)]
pub enum Commands {
    /// Print a command's text, with its arguments and everything that it refers to
    #[command(
        after_help = "With --json the exit code is 0 also where the command could not be loaded: `success` says so."
    )]
    Load {
        /// Its name, /NAME, or its path
        name: String,
        /// What it is given; one alone is read as behind /NAME in a chat
        arguments: Vec<String>,
        /// Everything about it as JSON
        #[arg(long)]
        json: bool,
        /// The project
        #[arg(long, value_name = "DIR", default_value = ".")]
        workspace: PathBuf,
    },
    /// List the commands that can be loaded here
    List {
        #[arg(long)]
        json: bool,
        /// The project
        #[arg(long, value_name = "DIR", default_value = ".")]
        workspace: PathBuf,
    },
}

impl Commands {
    pub fn run(self, settings: &Settings) -> Result<Exit, CliError> {
        match self {
            Commands::Load {
                name,
                arguments,
                json,
                workspace,
            } => {
                let place = Place::of(settings, &workspace)?;
                let answer =
                    block_on(place.load(settings, &name, &Arguments::of_words(&arguments)))?;
                match json {
                    true => print(&answer),
                    false => show(answer),
                }
            }
            Commands::List { json, workspace } => {
                let place = Place::of(settings, &workspace)?;
                let registry = place.trust.definitions(&place.workspace);
                let commands: Vec<_> = registry.of(Kind::Command).map(|one| listed(one)).collect();
                match json {
                    true => print(&commands),
                    false => {
                        commands.iter().for_each(|one| println!("{}", line(one)));
                        Ok(Exit::Done)
                    }
                }
            }
        }
    }
}

/// A workspace, and whether it is trusted.
struct Place {
    workspace: Workspace,
    trust: Trust,
}

impl Place {
    fn of(settings: &Settings, folder: &std::path::Path) -> Result<Self, CliError> {
        let workspace = open_workspace(folder).map_err(CliError::Use)?;
        let store = Arc::new(Store::new(&settings.data_dir));
        let trust = trust(settings, store, settings.policy()?.masks);
        Ok(Self { workspace, trust })
    }

    async fn load(&self, settings: &Settings, name: &str, arguments: &Arguments) -> Answer {
        let environment = safe_environment(&settings.file.environment);
        let own = surroundings(settings, &environment).own;
        let processes = Processes::new(
            Arc::new(environment.clone()),
            settings.sandbox(&environment),
            self.workspace.root(),
            CancellationToken::new(),
        );
        let loader = Loader {
            trust: &self.trust,
            workspace: &self.workspace,
            processes: &processes,
            own: &own,
            call: &CallId("commands-load".into()),
            caller: Caller::Terminal,
            agent: None,
        };
        loader.load(name, arguments).await.into()
    }
}

/// What there is to know of a command before it is loaded.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    argument_hint: Option<String>,
    path: String,
    origin: Origin,
    /// Whether it can be loaded: of a workspace that nobody trusts, nothing can.
    trusted: bool,
}

fn listed(one: &Definition) -> Listed {
    Listed {
        name: one.id.clone(),
        description: one.description(),
        argument_hint: one.front.text(&["argument-hint", "argumentHint"]),
        path: one.path.clone(),
        origin: one.origin,
        trusted: one.trusted,
    }
}

fn line(one: &Listed) -> String {
    let hint = one.argument_hint.as_deref().unwrap_or_default();
    let said = match (one.trusted, &one.description) {
        (false, _) => "not loaded: this workspace is not trusted",
        (true, Some(description)) => description,
        (true, None) => &one.path,
    };
    let usage = format!("/{} {hint}", one.name);
    format!("{:<32}  {said}", usage.trim_end())
}

fn print(answer: &impl Serialize) -> Result<Exit, CliError> {
    let text = serde_json::to_string_pretty(answer);
    println!(
        "{}",
        text.map_err(|error| CliError::Failed(error.to_string()))?
    );
    Ok(Exit::Done)
}

/// The text on stdout, what is wrong with it on stderr.
fn show(answer: Answer) -> Result<Exit, CliError> {
    match answer {
        Answer::Loaded(loaded) => {
            println!("{}", loaded.command.content);
            notes(&loaded).iter().for_each(|note| eprintln!("{note}"));
            Ok(Exit::Done)
        }
        Answer::Failed(failed) => Err(CliError::Failed(failed.error.to_string())),
    }
}

fn notes(loaded: &Loaded) -> Vec<String> {
    let files = loaded.expansions.files.iter();
    let files =
        files.filter_map(|file| Some(format!("{}: {}", file.reference, file.error.as_ref()?)));
    let bash = loaded.expansions.bash.iter();
    let bash = bash.filter_map(|one| Some(format!("!`{}`: {}", one.command, one.error.as_ref()?)));
    let warnings = loaded.metadata.warnings.iter().cloned();
    files.chain(bash).chain(warnings).collect()
}
