//! Rulesets and temporary folders that the next command of a workspace can have too.
//!
//! A ruleset is a hundred opened files, most of a start's cost, and the kernel applies one as often as it is asked to. It
//! is used again only while everything that it was made of is still the same: a folder that was listed, a root that was
//! replaced, a secret that came to be. What cannot be told apart is made again.

use crate::world::confine::rules::{self, Made, Plan, Stamp};
use std::collections::HashMap;
use std::fs::Permissions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tempfile::TempDir;

/// Kept at most; beyond it all are forgotten.
const KEPT_MAX: usize = 16;
/// How the names of temporary folders of commands begin.
pub const PRIVATE_FOLDER: &str = "journeyman-command-";

/// What was prepared by this process.
#[derive(Debug, Default)]
pub struct Prepared {
    rulesets: Mutex<Vec<Ruleset>>,
    temps: Mutex<HashMap<PathBuf, Arc<TempDir>>>,
}

#[derive(Debug)]
struct Ruleset {
    plan: OwnedPlan,
    made: Made,
    /// Of the plan's roots, in its order.
    roots: Vec<Option<Stamp>>,
    /// Whether each path that is left out was there.
    left_out: Vec<bool>,
}

/// What one ruleset is for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OwnedPlan {
    paths: [Vec<PathBuf>; 6],
    network: bool,
    unix_sockets: bool,
}

/// The temporary folder of one command, below the one of its workspace. Removed when it is dropped.
#[derive(Debug)]
pub struct Temp {
    own: TempDir,
    shared: Arc<TempDir>,
    outlives: bool,
}

impl Temp {
    /// One that no other command shares.
    pub fn alone() -> io::Result<Self> {
        let folder = std::env::temp_dir();
        let folder = folder.canonicalize().unwrap_or(folder);
        let shared = Arc::new(private_folder_in(&folder)?);
        let own = private_folder_in(shared.path())?;
        Ok(Self::new(own, shared))
    }

    fn new(own: TempDir, shared: Arc<TempDir>) -> Self {
        Self {
            own,
            shared,
            outlives: false,
        }
    }

    /// Whether it stays when this is dropped: its command may go on without this server.
    pub fn outlive(&mut self, outlives: bool) {
        self.own.disable_cleanup(outlives);
        self.outlives = outlives;
    }

    /// Of this command alone, by name; other commands of the workspace could look into it.
    pub fn path(&self) -> &Path {
        self.own.path()
    }

    /// Of all commands of the workspace: what the rules name.
    pub fn shared(&self) -> &Path {
        self.shared.path()
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if self.outlives {
            // The folder around it must stay as well; whoever finds it abandoned removes it.
            std::mem::forget(self.shared.clone());
        }
    }
}

impl Prepared {
    /// The ruleset of a plan: `None` where the kernel has no Landlock.
    ///
    /// # Errors
    /// In words; nothing may be started then.
    pub fn ruleset(&self, plan: &Plan<'_>) -> Result<Option<OwnedFd>, String> {
        let mut kept = self.rulesets.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = OwnedPlan::of(plan);
        // Before it is made: what changes meanwhile is then seen the next time.
        let (roots, left_out) = (roots(plan), left_out(plan));
        kept.retain(|one| one.plan != wanted || one.is_true(&roots, &left_out));
        if let Some(one) = kept.iter().find(|one| one.plan == wanted) {
            return one.handle();
        }
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        let made = Ruleset {
            plan: wanted,
            made: rules::ruleset(plan)?,
            roots,
            left_out,
        };
        let handle = made.handle();
        kept.push(made);
        handle
    }

    /// A fresh temporary folder, which nobody but this user can look into.
    pub fn temp(&self, workspace: &Path) -> io::Result<Temp> {
        let mut temps = self.temps.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = temps.get(workspace) {
            // Not there any more: something tidied up.
            if let Ok(own) = private_folder_in(shared.path()) {
                let shared = shared.clone();
                return Ok(Temp::new(own, shared));
            }
        }
        if temps.len() >= KEPT_MAX {
            temps.clear();
        }
        let temp = Temp::alone()?;
        temps.insert(workspace.to_owned(), temp.shared.clone());
        Ok(temp)
    }
}

impl Ruleset {
    fn is_true(&self, roots: &[Option<Stamp>], left_out: &[bool]) -> bool {
        let same = |(one, other): (&Option<Stamp>, &Option<Stamp>)| match (one, other) {
            (Some(one), Some(other)) => one.is_same_file(other),
            (one, other) => one.is_none() && other.is_none(),
        };
        self.left_out == left_out
            && self.roots.iter().zip(roots).all(same)
            && self
                .made
                .listed
                .iter()
                .all(|(path, stamp)| Stamp::of(path) == *stamp)
    }

    fn handle(&self) -> Result<Option<OwnedFd>, String> {
        let ruleset = self.made.ruleset.as_ref().map(OwnedFd::try_clone);
        let failed = |error| format!("the Landlock rules cannot be handed on: {error}");
        ruleset.transpose().map_err(failed)
    }
}

impl OwnedPlan {
    fn of(plan: &Plan<'_>) -> Self {
        let owned = |paths: &[&Path]| paths.iter().map(|path| path.to_path_buf()).collect();
        Self {
            paths: [
                owned(&plan.read),
                owned(&plan.write),
                owned(&plan.devices),
                owned(&plan.own),
                owned(&plan.denied),
                owned(&plan.read_only),
            ],
            network: plan.network,
            unix_sockets: plan.unix_sockets,
        }
    }
}

fn roots(plan: &Plan<'_>) -> Vec<Option<Stamp>> {
    let roots = plan.read.iter().chain(&plan.write);
    let roots = roots.chain(&plan.devices).chain(&plan.own);
    roots.map(|path| Stamp::of(path)).collect()
}

fn left_out(plan: &Plan<'_>) -> Vec<bool> {
    let paths = plan.denied.iter().chain(&plan.read_only);
    paths.map(|path| path.symlink_metadata().is_ok()).collect()
}

/// A fresh folder that nobody else can look into; removed when it is dropped.
fn private_folder_in(folder: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix(PRIVATE_FOLDER)
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn stamp_of_ruleset(prepared: &Prepared) -> usize {
        let kept = prepared.rulesets.lock().unwrap();
        std::ptr::from_ref(&kept.last().unwrap().plan.paths[0][0]) as usize
    }

    /// Whether a second use of a plan takes the first one's ruleset, after `change`.
    fn is_used_again(change: impl FnOnce(&Path)) -> bool {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        fs::create_dir(root.join("tools")).unwrap();
        fs::write(root.join("secret"), "s").unwrap();
        let (denied, later) = (root.join("secret"), root.join("tools/key"));
        let plan = Plan {
            read: vec![root],
            denied: vec![&denied, &later],
            network: true,
            unix_sockets: true,
            ..Plan::default()
        };
        let prepared = Prepared::default();
        prepared.ruleset(&plan).unwrap();
        let first = stamp_of_ruleset(&prepared);
        change(root);
        prepared.ruleset(&plan).unwrap();
        assert_eq!(prepared.rulesets.lock().unwrap().len(), 1);
        stamp_of_ruleset(&prepared) == first
    }

    #[test]
    fn a_ruleset_is_used_again_until_something_that_it_was_made_of_changes() {
        assert!(is_used_again(|_| {}));
        assert!(is_used_again(
            |root| fs::write(root.join("tools/x"), "").unwrap()
        ));
        assert!(!is_used_again(
            |root| fs::write(root.join("new"), "").unwrap()
        ));
        assert!(!is_used_again(
            |root| fs::write(root.join("tools/key"), "").unwrap()
        ));
        assert!(!is_used_again(|root| {
            fs::write(root.join("other"), "o").unwrap();
            fs::rename(root.join("other"), root.join("secret")).unwrap();
        }));
    }

    #[test]
    fn commands_of_a_workspace_have_temporary_folders_of_their_own_in_one() {
        let prepared = Prepared::default();
        let (a, b) = (Path::new("/a"), Path::new("/b"));
        let (first, second) = (prepared.temp(a).unwrap(), prepared.temp(a).unwrap());
        assert_ne!(first.path(), second.path());
        assert_eq!(first.shared(), second.shared());
        assert_ne!(prepared.temp(b).unwrap().shared(), first.shared());
        fs::remove_dir_all(first.shared()).unwrap();
        assert!(prepared.temp(a).unwrap().path().is_dir());
    }
}
