//! git's answers, for the git tools. Only a repository whose top folder is the workspace counts: a commit must
//! not land in a repository around it.

use super::Reach;
use super::walk::is_secret;
use crate::agent::event::CallId;
use crate::world::process::{Exit, Finished};
use std::path::Path;

const ERROR_CHARS_MAX: usize = 1_500;

/// git, under one call.
pub struct Git<'a> {
    pub reach: &'a Reach,
    pub call: &'a CallId,
}

/// One line of `git status`.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// In the index, and in the folder: `M`, `A`, `D`, `R`, `?`, …; a blank for no change.
    pub index: char,
    pub folder: char,
    pub path: String,
}

impl Entry {
    pub fn is_untracked(&self) -> bool {
        self.index == '?'
    }

    pub fn is_unmerged(&self) -> bool {
        self.index == 'U'
            || self.folder == 'U'
            || matches!((self.index, self.folder), ('A', 'A') | ('D', 'D'))
    }

    pub fn is_staged(&self) -> bool {
        !self.is_untracked() && self.index != ' '
    }

    pub fn is_secret(&self) -> bool {
        is_secret(&self.path)
    }
}

impl Git<'_> {
    /// What git printed, whole or as much as was kept.
    pub async fn ask(&self, args: &[&str]) -> Result<String, String> {
        Ok(self.run(args, None).await?.stdout.text())
    }

    pub async fn run(&self, args: &[&str], stdin: Option<Vec<u8>>) -> Result<Finished, String> {
        let (processes, root) = (&self.reach.processes, self.reach.workspace.root());
        checked(args, processes.git(self.call, root, args, stdin).await)
    }

    /// The same with the hooks in a folder, which the person trusts.
    pub async fn run_with_hooks(
        &self,
        args: &[&str],
        stdin: Option<Vec<u8>>,
        folder: &Path,
    ) -> Result<Finished, String> {
        let (processes, root) = (&self.reach.processes, self.reach.workspace.root());
        let finished = processes.git_with_hooks(self.call, root, args, stdin, folder);
        checked(args, finished.await)
    }

    /// An error unless the workspace is the top folder of a repository.
    pub async fn require_repository(&self) -> Result<(), String> {
        let root = self.reach.workspace.root();
        let top = match self.ask(&["rev-parse", "--show-toplevel"]).await {
            Ok(top) => top,
            Err(error) if error.contains("not a git repository") => {
                return Err(
                    "the workspace is no git repository, so the git tools can't be used here"
                        .into(),
                );
            }
            Err(error) => return Err(error),
        };
        match std::path::Path::new(top.trim_end_matches('\n')) == root {
            true => Ok(()),
            false => Err(format!(
                "the workspace is no git repository of its own; it lies in that of {}, which the git tools leave alone",
                top.trim()
            )),
        }
    }

    pub async fn has_commits(&self) -> bool {
        self.ask(&["rev-parse", "--verify", "--quiet", "HEAD"])
            .await
            .is_ok()
    }

    /// Every change in the folder and the index; ignored files are not among them.
    pub async fn status(&self) -> Result<Vec<Entry>, String> {
        let args = [
            "status",
            "--porcelain=v1",
            "-z",
            "--untracked-files=all",
            "--no-renames",
        ];
        let finished = self.run(&args, None).await?;
        if finished.stdout.omitted_bytes > 0 {
            return Err(
                "too many changed files to list; commit or ignore some of them by hand first"
                    .into(),
            );
        }
        let bytes = [finished.stdout.head, finished.stdout.tail].concat();
        Ok(entries(&String::from_utf8_lossy(&bytes)))
    }
}

/// What git did, or its refusal in words.
fn checked(args: &[&str], finished: Finished) -> Result<Finished, String> {
    let name = args.iter().find(|arg| !arg.starts_with('-')).unwrap_or(&"");
    let said = super::text::head_and_tail(finished.stderr.text().trim(), ERROR_CHARS_MAX);
    match &finished.exit {
        Exit::Code(0) => Ok(finished),
        Exit::Code(code) => Err(format!("git {name} ended with exit code {code}: {said}")),
        Exit::Signal(signal) => Err(format!("git {name} was killed by signal {signal}: {said}")),
        Exit::TimedOut => Err(format!("git {name} took too long and was stopped: {said}")),
        Exit::Cancelled => Err(format!("git {name} was cancelled by the person")),
        Exit::Lost => Err(format!("git {name} was killed: {said}")),
        Exit::NotStarted(why) => Err(format!("git did not start: {why}")),
    }
}

/// `XY path`, each ended by a NUL.
fn entries(status: &str) -> Vec<Entry> {
    let entry = |text: &str| {
        let mut chars = text.chars();
        let (index, folder) = (chars.next()?, chars.next()?);
        Some(Entry {
            index,
            folder,
            path: chars.as_str().strip_prefix(' ')?.to_owned(),
        })
    };
    status.split('\0').filter_map(entry).collect()
}
