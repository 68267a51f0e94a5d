//! The real program as a user starts it, in folders of its own.

use crate::support::make_repository;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use tempfile::TempDir;
use tokio::process::{Child, Command};

pub struct Program {
    folder: TempDir,
    base_url: String,
    write: bool,
}

/// How a run of the program ended.
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Program {
    /// With a workspace that is a git repository, and a model at `base_url` (none if empty).
    pub fn new(base_url: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        make_repository(&folder.path().join("projects/shop"));
        let config = folder.path().join("home/config");
        fs::create_dir_all(&config).expect("a folder");
        // What is done is looked for where the test put its files; worktrees.rs has tests of their own.
        fs::write(config.join("settings.toml"), "worktree = \"shared\"\n").expect("written");
        fs::write(config.join("limits.toml"), "together_ms = 0\n").expect("written");
        Self {
            folder,
            base_url: base_url.to_owned(),
            write: true,
        }
    }

    pub fn read_only(mut self) -> Self {
        self.write = false;
        self
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub fn data(&self) -> PathBuf {
        self.home().join("data")
    }

    pub fn workspace(&self) -> PathBuf {
        self.projects().join("shop")
    }

    /// The folder that holds the workspace and nothing else.
    pub fn projects(&self) -> PathBuf {
        self.folder.path().join("projects")
    }

    /// Puts a file into the configuration folder.
    pub fn config(&self, name: &str, text: &str) {
        fs::write(self.home().join("config").join(name), text).expect("written");
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_journeyman"));
        command.args(args).current_dir(self.workspace()).env_clear();
        for name in ["PATH", "HOME", "TMPDIR", "LANG"] {
            if let Ok(value) = std::env::var(name) {
                command.env(name, value);
            }
        }
        command
            .env("JOURNEYMAN_HOME", self.home())
            .env("AGENT_WRITE_ENABLED", self.write.to_string());
        if !self.base_url.is_empty() {
            command
                .env("OPENAI_BASE_URL", &self.base_url)
                .env("OPENAI_API_KEY", "test-key")
                .env("AGENT_MODEL", "test-model");
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    pub fn start(&self, args: &[&str]) -> Child {
        self.command(args).spawn().expect("the program starts")
    }

    pub async fn run(&self, args: &[&str]) -> Run {
        finish(self.command(args)).await
    }
}

pub async fn finish(mut command: Command) -> Run {
    let ended = tokio::time::timeout(crate::support::PATIENCE * 2, command.output());
    let output = ended
        .await
        .expect("the program ends in time")
        .expect("the program runs");
    Run {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
