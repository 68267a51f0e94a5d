//! `journeyman ask`: a question about sources, to an agent in a clean room. stdout is the answer and nothing else.

use super::assemble::{always, inquiries, make_private};
use super::chat::talk;
use super::run::{How, interrupted, work_on};
use super::{CliError, Exit, block_on, log_to_stderr};
use crate::agent::event::CallId;
use crate::config::Settings;
use crate::hub::Site;
use crate::world::clean_room::CleanRoom;
use crate::world::clock;
use crate::world::inquiries::{Placed, Said, placed, room, said};
use crate::world::lock::{DataLock, LockError};
use crate::world::process::safe_environment;
use crate::world::projects::reference;
use crate::world::remote::Hosting;
use crate::world::visit::{Bounds, Host, Visit};
use clap::Args;
use std::convert::Infallible;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Below the data folder: where questions are answered while another process works in it.
const BESIDE: &str = "beside";
/// Of these, kept.
const BESIDE_MAX: usize = 50;

#[derive(Debug, Args)]
pub struct Ask {
    /// What it is about: names of sources (`journeyman sources list`)
    #[arg(short, long = "source", value_name = "SOURCE", required = true, num_args = 1..)]
    sources: Vec<String>,
    /// The question
    #[arg(
        short,
        long,
        value_name = "TEXT",
        required_unless_present = "chat",
        allow_hyphen_values = true
    )]
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
        let inquiries = inquiries(&settings);
        let sources = inquiries.chosen(&self.sources).map_err(CliError::Use)?;
        let backends = inquiries.backends().map_err(CliError::Use)?;
        let name = self.agent.as_deref().unwrap_or(&backends.default);
        let backend = backends.find(name).map_err(CliError::Use)?;
        let prompt = match self.chat {
            true => None,
            false => Some(
                inquiries
                    .prompt(&question, &sources)
                    .map_err(CliError::Use)?,
            ),
        };
        let room = room(&sources).map_err(CliError::Failed)?;
        let Some(backend) = backend else {
            return ours(settings, &room, &sources, prompt);
        };
        let host = host(&settings);
        let places: Vec<PathBuf> = sources.into_iter().map(|(_, place)| place).collect();
        let visit = Visit::prepare(&host, backend, room, &places, prompt.as_deref());
        let visit = visit.map_err(CliError::Use)?;
        block_on(async {
            match self.chat {
                true => talk_with(visit).await,
                false => hear(visit, &host).await,
            }
        })?
    }
}

/// Prints its answer.
async fn hear(visit: Visit, host: &Host) -> Result<Exit, CliError> {
    let (program, call) = (visit.program().to_owned(), CallId("ask".into()));
    let stop = async {
        interrupted().await;
        host.cancel.cancel();
        std::future::pending::<Infallible>().await
    };
    let finished = tokio::select! {
        finished = visit.ask(&call) => finished,
        never = stop => match never {},
    };
    match said(&program, host, &finished) {
        Said::Answer(text) => {
            // Whoever reads it may go away first.
            let _ = io::stdout().write_all(text.as_bytes());
            Ok(Exit::Done)
        }
        Said::Stopped => Ok(Exit::Interrupted),
        Said::Nothing { why, had } if had.is_empty() => Err(CliError::Failed(why)),
        Said::Nothing { why, had } => Err(CliError::Failed(format!(
            "{why}\nUntil then it had said this:\n{had}"
        ))),
    }
}

async fn talk_with(visit: Visit) -> Result<Exit, CliError> {
    let program = visit.program().to_owned();
    let ended = visit.chat().await.map_err(CliError::Failed)?;
    match ended.success() {
        true => Ok(Exit::Done),
        false => Err(CliError::Failed(format!("{program} ended with {ended}"))),
    }
}

fn host(settings: &Settings) -> Host {
    let environment = safe_environment(&settings.file.environment);
    Host {
        sandbox: settings.sandbox(&environment),
        environment: Arc::new(environment),
        bounds: Bounds::of(&settings.limits),
        cancel: CancellationToken::new(),
    }
}

/// Our own loop, in a session that reads and does nothing else.
fn ours(
    settings: Settings,
    room: &CleanRoom,
    sources: &[Placed],
    prompt: Option<String>,
) -> Result<Exit, CliError> {
    let settings = Settings {
        write_enabled: false,
        projects_root: None,
        github: Hosting::default(),
        data_dir: free_folder(&settings.data_dir)?,
        ..settings
    };
    let site = Site {
        workspace: reference(room.folder()),
        sources: sources.iter().map(placed).collect(),
    };
    match prompt {
        Some(prompt) => work_on(&settings, always(site), prompt, How::alone()),
        None => talk(&settings, always(site)),
    }
}

/// The data folder, or where another process works in it, one below it: nobody writes what another process writes.
fn free_folder(data_dir: &Path) -> Result<PathBuf, CliError> {
    make_private(data_dir)?;
    match DataLock::take(data_dir) {
        Ok(free) => {
            drop(free);
            Ok(data_dir.to_owned())
        }
        Err(LockError::Held { .. }) => {
            let beside = data_dir.join(BESIDE);
            forget_oldest(&beside);
            Ok(beside.join(clock::session_id()))
        }
        Err(error) => Err(CliError::Failed(error.to_string())),
    }
}

/// Those beyond the limit go, but for what is in use.
fn forget_oldest(beside: &Path) {
    let entries = fs::read_dir(beside).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    // They are named by their time.
    folders.sort();
    let many = (folders.len() + 1).saturating_sub(BESIDE_MAX);
    for folder in &folders[..many] {
        if let Ok(lock) = DataLock::take(folder) {
            let _ = fs::remove_dir_all(folder); // or the next time
            drop(lock);
        }
    }
}
