//! `journeyman ask`: a question about sources, to an agent in a clean room. stdout is the answer and nothing else.

/// Agents of others.
mod visit;

use super::assemble::always;
use super::chat::talk;
use super::run::{How, work_on};
use super::{CliError, Exit, block_on, log_to_stderr};
use crate::agent::event::WorkspaceRef;
use crate::config::Settings;
use crate::hub::Site;
use crate::subagent::backend::Backends;
use crate::subagent::source::Source;
use crate::subagent::template::{self, Template};
use crate::world::clean_room::CleanRoom;
use crate::world::projects::reference;
use crate::world::remote::Hosting;
use crate::world::sources::Library;
use clap::Args;
use std::env;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use visit::Visit;

#[derive(Debug, Args)]
pub struct Ask {
    /// What it is about: names of sources (`journeyman sources list`)
    #[arg(short, long = "source", value_name = "SOURCE", required = true, num_args = 1..)]
    sources: Vec<String>,
    /// The question
    #[arg(short, long, value_name = "TEXT", required_unless_present = "chat")]
    question: Option<String>,
    /// Talk with the agent in this terminal instead
    #[arg(long, conflicts_with = "question")]
    chat: bool,
    /// Who answers, by its name in agents.json [default: defaultAgent there]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

impl Ask {
    pub fn run(self, settings: Settings) -> Result<Exit, CliError> {
        log_to_stderr("warn");
        let question = self
            .question
            .as_deref()
            .unwrap_or_default()
            .trim()
            .to_owned();
        if question.is_empty() && !self.chat {
            return Err(CliError::Use(
                "the question is empty: say what you want to know".into(),
            ));
        }
        let sources = chosen(&settings, &self.sources)?;
        let backends = backends(&settings.home)?;
        let name = self.agent.as_deref().unwrap_or(&backends.default);
        let backend = backends.find(name).map_err(CliError::Use)?;
        let prompt = match self.chat {
            true => None,
            false => {
                let sources: Vec<Source> =
                    sources.iter().map(|(source, _)| source.clone()).collect();
                Some(template(&settings.home)?.prompt(&question, &sources))
            }
        };
        let room = room(&sources)?;
        match backend {
            None => ours(settings, &room, &sources, prompt),
            Some(backend) => {
                let visit = Visit::prepare(&settings, backend, room, &sources, prompt.as_deref())?;
                block_on(async {
                    match self.chat {
                        true => visit.chat().await,
                        false => visit.ask().await,
                    }
                })?
            }
        }
    }
}

fn room(sources: &[(Source, PathBuf)]) -> Result<CleanRoom, CliError> {
    let links: Vec<(String, PathBuf)> = (sources.iter())
        .map(|(source, place)| (source.name.clone(), place.clone()))
        .collect();
    CleanRoom::make(&env::temp_dir(), &links).map_err(no_room)
}

fn no_room(error: io::Error) -> CliError {
    CliError::Failed(format!("no clean room can be made: {error}"))
}

/// Our own loop, in a session that reads and does nothing else.
fn ours(
    settings: Settings,
    room: &CleanRoom,
    sources: &[(Source, PathBuf)],
    prompt: Option<String>,
) -> Result<Exit, CliError> {
    let settings = Settings {
        write_enabled: false,
        projects_root: None,
        github: Hosting::default(),
        ..settings
    };
    let source = |(source, place): &(Source, PathBuf)| WorkspaceRef {
        name: source.name.clone(),
        path: place.to_string_lossy().into_owned(),
    };
    let site = Site {
        workspace: reference(room.folder()),
        sources: sources.iter().map(source).collect(),
    };
    match prompt {
        Some(prompt) => work_on(&settings, always(site), prompt, How::alone()),
        None => talk(&settings, always(site)),
    }
}

/// The sources that were named, each once, with where they are.
fn chosen(settings: &Settings, names: &[String]) -> Result<Vec<(Source, PathBuf)>, CliError> {
    let library = Library::of(&settings.home);
    let known = library.read().map_err(CliError::Use)?;
    let mut chosen: Vec<(Source, PathBuf)> = Vec::new();
    for name in names {
        if chosen.iter().any(|(source, _)| source.name == *name) {
            continue;
        }
        let source = known.find(name).map_err(CliError::Use)?;
        let place = library.place(&source).map_err(CliError::Use)?;
        chosen.push((source, place));
    }
    Ok(chosen)
}

fn backends(home: &Path) -> Result<Backends, CliError> {
    let path = home.join("config/agents.json");
    let own = match fs::read_to_string(&path) {
        Ok(own) => Some(own),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(CliError::Use(format!("{}: {error}", path.display()))),
    };
    Backends::parse(own.as_deref())
        .map_err(|why| CliError::Use(format!("{}: {why}", path.display())))
}

/// The owner's template; where there is none yet, it becomes ours.
fn template(home: &Path) -> Result<Template, CliError> {
    let path = home.join("config/prompt_template.md");
    let at = |error: String| CliError::Use(format!("{}: {error}", path.display()));
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            write_new(&path, template::DEFAULT).map_err(|error| at(error.to_string()))?;
            template::DEFAULT.to_owned()
        }
        read => read.map_err(|error| at(error.to_string()))?,
    };
    Template::parse(text)
        .map_err(|missing| CliError::Use(format!("{missing} ({})", path.display())))
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)?;
    file.write_all(text.as_bytes())
}
