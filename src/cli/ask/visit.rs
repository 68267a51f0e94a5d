//! An agent of others in a clean room: its program, what it may reach, what it says.

use super::no_room;
use crate::agent::event::CallId;
use crate::cli::run::interrupted;
use crate::cli::{CliError, Exit};
use crate::config::Settings;
use crate::subagent::backend::{Backend, Paths, Way};
use crate::subagent::source::Source;
use crate::world::clean_room::CleanRoom;
use crate::world::confine::Needs;
use crate::world::process::{Exit as Ended, Finished, Launch, Life, Processes, safe_environment};
use std::convert::Infallible;
use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// An agent of others in its room.
pub struct Visit {
    room: CleanRoom,
    launch: Launch,
    processes: Processes,
    cancel: CancellationToken,
}

impl Visit {
    /// # Errors
    /// The prompt cannot be written, or the command template is wrong.
    pub fn prepare(
        settings: &Settings,
        backend: &Backend,
        room: CleanRoom,
        sources: &[(Source, PathBuf)],
        prompt: Option<&str>,
    ) -> Result<Self, CliError> {
        let prompt_file = prompt.map(|prompt| room.put_prompt(prompt)).transpose();
        let prompt_file = prompt_file.map_err(no_room)?.unwrap_or_default();
        let mcp_config = room.mcp_config();
        let paths = Paths {
            prompt_file: &prompt_file.to_string_lossy(),
            mcp_config: &mcp_config.to_string_lossy(),
        };
        let way = match prompt {
            Some(_) => Way::Ask,
            None => Way::Chat,
        };
        let mut words = backend.command(way, paths).map_err(CliError::Use)?;
        let environment = safe_environment(&settings.file.environment);
        let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let cancel = CancellationToken::new();
        let reach = sources
            .iter()
            .map(|(_, place)| place.clone())
            .collect::<Vec<_>>();
        let processes = Processes::new(
            Arc::new(environment.clone()),
            settings.sandbox(&environment),
            room.folder(),
            cancel.clone(),
        );
        let processes = processes
            .with_own(room.folder(), settings.limits.answer_bytes_max)
            .writing(
                backend
                    .write
                    .iter()
                    .map(|place| at_home(&home, place))
                    .collect(),
            )
            .reading(&reach);
        let launch = Launch {
            program: words.remove(0),
            args: words,
            cwd: room.folder().to_owned(),
            env: inherited(&backend.env),
            timeout: Duration::from_secs(settings.limits.ask_seconds_max),
            stdin: None,
            needs: Needs {
                network: true,
                credentials: false,
            },
            guard_git: false,
            life: Life::Bound,
        };
        Ok(Self {
            room,
            launch,
            processes,
            cancel,
        })
    }

    /// Prints its answer.
    pub async fn ask(self) -> Result<Exit, CliError> {
        let seconds = self.launch.timeout.as_secs();
        let program = self.launch.program.clone();
        let call = CallId("ask".into());
        let running = self.processes.run(&call, self.launch);
        let stop = async {
            interrupted().await;
            self.cancel.cancel();
            std::future::pending::<Infallible>().await
        };
        let finished = tokio::select! {
            finished = running => finished,
            never = stop => match never {},
        };
        // Its group has ended before its room goes.
        drop(self.room);
        answer(&program, seconds, finished)
    }

    /// Leaves the terminal to it.
    pub async fn chat(self) -> Result<Exit, CliError> {
        let ended = self.processes.in_terminal(&self.launch).await;
        drop(self.room);
        let ended = ended.map_err(CliError::Failed)?;
        match ended.success() {
            true => Ok(Exit::Done),
            false => Err(CliError::Failed(format!(
                "{} ended with {ended}",
                self.launch.program
            ))),
        }
    }
}

fn answer(program: &str, seconds: u64, finished: Finished) -> Result<Exit, CliError> {
    let said = finished.stderr.text();
    let said = match said.trim() {
        "" => "it said nothing on stderr",
        said => said,
    };
    let failed = match finished.exit {
        Ended::Code(0) => {
            // Whoever reads it may go away first.
            let _ = io::stdout().write_all(finished.stdout.text().as_bytes());
            return Ok(Exit::Done);
        }
        Ended::Cancelled => return Ok(Exit::Interrupted),
        Ended::Code(code) => format!("{program} ended with {code}: {said}"),
        Ended::Signal(signal) => format!("{program} was killed by signal {signal}: {said}"),
        Ended::TimedOut => format!(
            "{program} gave no answer within {seconds} s and was ended (ask_seconds_max in config/limits.toml): {said}"
        ),
        Ended::NotStarted(why) => format!("{program} did not start: {why}"),
        Ended::Lost => format!("{program} went away: {said}"),
    };
    Err(CliError::Failed(failed))
}

fn inherited(names: &[String]) -> Vec<(String, String)> {
    let value = |name: &String| Some((name.clone(), env::var(name).ok()?));
    names.iter().filter_map(value).collect()
}

fn at_home(home: &Path, place: &str) -> PathBuf {
    match place.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => PathBuf::from(place),
    }
}
