//! Commands that run at the same time in one workspace put back the same: what was there before the first of them. What one
//! of them changes meanwhile is never taken for how things were.

use super::GitGuard;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Those of the commands that run.
static LIVE: Mutex<Vec<Weak<GitGuard>>> = Mutex::new(Vec::new());

/// That of a command that runs already, or else a new one. It counts for others until the last of them has put it back.
///
/// # Errors
/// Those of [`GitGuard::take`].
pub fn shared(workspace: &Path, confined: bool) -> Result<Option<Arc<GitGuard>>, String> {
    // A panic elsewhere cannot have left it half done.
    let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    live.retain(|guard| guard.strong_count() > 0);
    let mut known = live.iter().filter_map(Weak::upgrade);
    if let Some(known) = known.find(|guard| guard.workspace == workspace) {
        return Ok(Some(known));
    }
    let taken = GitGuard::take(workspace, confined)?.map(Arc::new);
    live.extend(taken.as_ref().map(Arc::downgrade));
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_second_command_does_not_keep_what_the_first_one_changed() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join(".git/config");
        fs::create_dir_all(folder.path().join(".git/hooks")).unwrap();
        fs::write(&config, "[core]\n\tbare = false\n").unwrap();
        let take = || shared(folder.path(), true).unwrap().expect("a repository");
        let first = take();
        fs::write(&config, "[core]\n\tfsmonitor = evil\n").unwrap();
        let second = take();
        assert_eq!(first.put_back().unwrap(), [".git/config"]);
        drop(first);
        fs::write(&config, "[core]\n\tfsmonitor = evil\n").unwrap();
        assert_eq!(second.put_back().unwrap(), [".git/config"]);
        drop(second);
        // Afterwards, what the person changes is how things are.
        fs::write(&config, "[core]\n\tbare = true\n").unwrap();
        assert!(take().put_back().unwrap().is_empty());
    }
}
