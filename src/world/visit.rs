//! An agent of others in a clean room: its program, what it may reach, what it says.
//!
//! Who asks it, and whether it may be asked, was decided before.

use super::clean_room::CleanRoom;
use super::confine::{Needs, Sandbox};
use super::process::{Finished, Launch, Life, Processes};
use crate::agent::event::CallId;
use crate::agent::limits::Limits;
use crate::subagent::backend::{Backend, Paths, Way};
use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What it is started with.
#[derive(Clone)]
pub struct Host {
    pub environment: Arc<Vec<(String, String)>>,
    pub sandbox: Arc<Sandbox>,
    pub bounds: Bounds,
    pub cancel: CancellationToken,
}

/// What an answer may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub seconds_max: u64,
    /// How long nothing may be printed.
    pub silence_seconds: u64,
    /// Kept of the answer, at each end.
    pub bytes_max: u64,
}

impl Bounds {
    pub fn of(limits: &Limits) -> Self {
        Self {
            seconds_max: limits.ask_seconds_max,
            silence_seconds: limits.ask_silence_seconds,
            bytes_max: limits.answer_bytes_max,
        }
    }
}

/// An agent of others in its room.
pub struct Visit {
    room: CleanRoom,
    launch: Launch,
    processes: Processes,
}

impl Visit {
    /// `prompt`: what it is asked; without, it talks with the person in this terminal. `places`: where the sources are.
    ///
    /// # Errors
    /// The prompt cannot be written, or the command template is wrong.
    pub fn prepare(
        host: &Host,
        backend: &Backend,
        room: CleanRoom,
        places: &[PathBuf],
        prompt: Option<&str>,
    ) -> Result<Self, String> {
        let prompt_file = prompt.map(|prompt| room.put_prompt(prompt)).transpose();
        let prompt_file = prompt_file
            .map_err(|error| format!("no clean room can be made: {error}"))?
            .unwrap_or_default();
        let mcp_config = room.mcp_config();
        let paths = Paths {
            room: &room.folder().to_string_lossy(),
            prompt_file: &prompt_file.to_string_lossy(),
            mcp_config: &mcp_config.to_string_lossy(),
        };
        let way = match prompt {
            Some(_) => Way::Ask,
            None => Way::Chat,
        };
        let mut words = backend.command(way, paths)?;
        let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let write = backend.write.iter().map(|place| at_home(&home, place));
        let processes = Processes::new(
            host.environment.clone(),
            host.sandbox.clone(),
            room.folder(),
            host.cancel.clone(),
        );
        let processes = processes
            .with_own(room.folder(), host.bounds.bytes_max)
            .ending_after_silence(Duration::from_secs(host.bounds.silence_seconds))
            .writing(write.collect())
            .reading(places);
        let launch = Launch {
            program: words.remove(0),
            args: words,
            cwd: room.folder().to_owned(),
            env: [inherited(&backend.env), backend.variables(paths)].concat(),
            timeout: Duration::from_secs(host.bounds.seconds_max),
            stdin: None,
            needs: Needs {
                network: true,
                credentials: false,
            },
            guard_git: false,
            life: Life::Heard,
        };
        Ok(Self {
            room,
            launch,
            processes,
        })
    }

    pub fn program(&self) -> &str {
        &self.launch.program
    }

    /// What it said, and how it ended; its room is gone then.
    pub async fn ask(self, call: &CallId) -> Finished {
        let finished = self.processes.run(call, self.launch).await;
        // Its group has ended before its room goes.
        drop(self.room);
        finished
    }

    /// Leaves the terminal to it.
    ///
    /// # Errors
    /// Why it did not start.
    pub async fn chat(self) -> Result<ExitStatus, String> {
        let ended = self.processes.in_terminal(&self.launch).await;
        drop(self.room);
        ended
    }
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
