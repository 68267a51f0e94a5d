//! What git says to a command that only looks: nothing of the repository's configuration runs a program.

use super::Loader;
use crate::tools::is_secret;
use crate::world::confine::rules::worktree_folders;
use crate::world::process::{Exit, Finished};
use std::time::{Duration, Instant};

/// Of one command, with the look at the configuration before it. Fixed: a text that is loaded keeps nobody waiting longer (seed 000).
const TIMEOUT: Duration = Duration::from_secs(5);
/// Drivers of filters that are switched off; a repository with more is left alone.
const DRIVERS_MAX: usize = 100;
const ERROR_CHARS_MAX: usize = 1_500;

/// The output of git.
///
/// # Errors
/// What git said, or why it was not asked.
pub async fn said(loader: &Loader<'_>, args: &[String]) -> Result<String, String> {
    let root = loader.workspace.root();
    let pointer = root.join(".git");
    let is_own = match pointer.symlink_metadata() {
        Ok(found) => found.is_dir() || worktree_folders(root).is_some(),
        Err(_) => return Err("the project is no git repository of its own".into()),
    };
    if !is_own {
        return Err("not allowed: the project's .git leads to another repository".into());
    }
    let started = Instant::now();
    let off = filters_off(loader).await?;
    let left = TIMEOUT.saturating_sub(started.elapsed());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let finished = (loader.processes).git_looking(loader.call, root, &args, &off, left);
    Ok(without_secrets(&checked(finished.await)?))
}

/// Every filter that the configuration names, as variables that make it do nothing: git asks a filter what a changed file
/// would be in the repository, also where it only looks.
async fn filters_off(loader: &Loader<'_>) -> Result<Vec<(String, String)>, String> {
    let root = loader.workspace.root();
    let names = ["config", "-z", "--name-only", "--get-regexp", r"^filter\."];
    let finished = (loader.processes)
        .git_looking(loader.call, root, &names, &[], TIMEOUT)
        .await;
    let text = match finished.exit {
        Exit::Code(1) => return Ok(Vec::new()), // there is none
        _ if finished.stdout.omitted_bytes > 0 => {
            return Err("not allowed: the repository has too many filters".into());
        }
        _ => checked(finished)?,
    };
    let mut drivers: Vec<&str> = text
        .split('\0')
        .filter_map(|key| Some(key.rsplit_once('.')?.0))
        .collect();
    drivers.sort_unstable();
    drivers.dedup();
    if drivers.len() > DRIVERS_MAX {
        return Err("not allowed: the repository has too many filters".into());
    }
    let off = [
        ("clean", ""),
        ("smudge", ""),
        ("process", ""),
        ("required", "false"),
    ];
    let settings = drivers
        .iter()
        .flat_map(|driver| off.map(|(key, value)| (format!("{driver}.{key}"), value.to_owned())));
    let settings: Vec<_> = settings.collect();
    let count = ("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string());
    let variables = settings
        .into_iter()
        .enumerate()
        .flat_map(|(at, (key, value))| {
            [
                (format!("GIT_CONFIG_KEY_{at}"), key),
                (format!("GIT_CONFIG_VALUE_{at}"), value),
            ]
        });
    Ok([count].into_iter().chain(variables).collect())
}

fn checked(finished: Finished) -> Result<String, String> {
    let said: String = finished
        .stderr
        .text()
        .trim()
        .chars()
        .take(ERROR_CHARS_MAX)
        .collect();
    match finished.exit {
        Exit::Code(0) => Ok(finished.stdout.text()),
        Exit::Code(code) if said.is_empty() => Err(format!("git ended with exit code {code}")),
        Exit::Code(_) => Err(said),
        Exit::TimedOut => Err(format!(
            "timeout: stopped after {} seconds",
            TIMEOUT.as_secs()
        )),
        Exit::Signal(signal) => Err(format!("git was killed by signal {signal}: {said}")),
        Exit::Cancelled => Err("cancelled by the person".into()),
        Exit::NotStarted(why) => Err(format!("git did not start: {why}")),
        Exit::Lost => Err("git was killed".into()),
    }
}

/// A diff without the parts about secret files.
fn without_secrets(text: &str) -> String {
    let (mut shown, mut hides) = (String::with_capacity(text.len()), false);
    for line in text.split_inclusive('\n') {
        // Behind the lines of a graph too. But what is hidden ends only where no line of a file can begin so.
        let bare = line.trim_start_matches(['|', '*', '/', '\\', '_', ' ']);
        let is_first = bare.len() == line.len();
        match of_file(bare) {
            Some(names) if is_first || !hides => {
                let mut words = names.split_whitespace().chain([names.trim_end()]);
                hides = words.any(|word| is_secret(word.trim_matches('"')));
                if hides {
                    shown.push_str(&format!(
                        "{}\n[a secret file is not shown]\n",
                        line.trim_end()
                    ));
                }
            }
            _ if line.starts_with("commit ") => hides = false,
            _ => {}
        }
        if !hides {
            shown.push_str(line);
        }
    }
    shown
}

/// The names in the line with which a file's part begins.
fn of_file(line: &str) -> Option<&str> {
    ["diff --git ", "diff --cc ", "diff --combined "]
        .into_iter()
        .find_map(|begins| line.strip_prefix(begins))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_diff_secret_files_are_named_and_not_shown() {
        let diff = "commit 1\n\ndiff --git a/.env b/.env\n+KEY=1\ndiff --git a/x b/x\n+x\ndiff --cc id_rsa\n+k\ncommit 2\n";
        let shown = without_secrets(diff);
        assert_eq!(
            shown,
            "commit 1\n\ndiff --git a/.env b/.env\n[a secret file is not shown]\ndiff --git a/x b/x\n+x\ndiff --cc id_rsa\n[a secret file is not shown]\ncommit 2\n"
        );
        let renamed = without_secrets("| diff --git a/.env b/notes.txt\n| -KEY=1\n");
        assert!(!renamed.contains("KEY"), "{renamed}");
        let tricky = without_secrets("diff --git a/.env b/.env\n diff --git a/x b/x\n+KEY=1\n");
        assert!(!tricky.contains("KEY"), "{tricky}");
    }
}
