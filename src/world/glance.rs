//! The state of a workspace in one short id: equal where nothing changed. For telling work from loops, nothing else.
//!
//! Two looks of git and the content of the files that it names. Only asked for where a call repeats another one.

use super::process::{Exit, Processes};
use super::workspace::Workspace;
use crate::agent::event::CallId;
use sha2::{Digest, Sha256};

/// Changed files whose content is read; where there are more, the state is not told.
const FILES_MAX: usize = 500;

/// `None` where it cannot be told: no repository, too many changes, git fails.
pub async fn state(workspace: &Workspace, processes: &Processes, call: &CallId) -> Option<String> {
    let ask = async |args: &[&str]| {
        let told = processes.git(call, workspace.root(), args, None).await;
        (told.exit == Exit::Code(0)).then(|| told.stdout.text())
    };
    // A repository without commits has no tree yet.
    let head = ask(&["rev-parse", "--verify", "--quiet", "HEAD^{tree}"]).await;
    let changed = ask(&[
        "status",
        "--porcelain",
        "-z",
        "--untracked-files=all",
        "--no-renames",
    ])
    .await?;
    let mut hasher = Sha256::new();
    hasher.update(head.unwrap_or_default());
    let entries: Vec<&str> = changed
        .split('\0')
        .filter(|entry| !entry.is_empty())
        .collect();
    if entries.len() > FILES_MAX {
        return None;
    }
    for entry in entries {
        // Two letters and a blank, then the path. What is staged is the same file.
        let path = entry.get(3..)?;
        let content = workspace.digest(path).unwrap_or_default();
        hasher.update(format!("{path}\0{content}\0"));
    }
    Some(hex::encode(hasher.finalize()))
}
