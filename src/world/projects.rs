//! The folders of `PROJECTS_ROOT`: which there are, which one a name means, and a place for one more.
//!
//! A workspace is a direct child: a visible, real folder. A link is none, wherever it leads, so that what a name stands
//! for cannot be changed from inside of another workspace. Decides nothing about who works where.

use crate::agent::event::WorkspaceRef;
use crate::gate::Destination;
use nix::fcntl::{AT_FDCWD, Flock, FlockArg, RenameFlags, renameat2};
use std::fs::{self, DirBuilder, DirEntry, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Where new ones are made, beside the others and not one of them.
const STAGING: &str = ".journeyman";
/// What a folder is called there, before its name.
const STAGED: &str = "clone-";
const WORKTREES: &str = "worktrees";
/// Of a name.
const NAME_BYTES_MAX: usize = 200;

/// The folder whose children are the workspaces.
#[derive(Debug, Clone)]
pub struct Projects {
    root: PathBuf,
}

impl Projects {
    /// `root`: absolute and canonical.
    pub fn at(root: &Path) -> Self {
        let root = root.to_owned();
        Self { root }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Every workspace by its name, in order.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let real = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        let mut names: Vec<String> = entries
            .filter(real)
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| check_name(name).is_ok())
            .collect();
        names.sort();
        names
    }

    /// Whether this folder is one of them.
    pub fn holds(&self, path: &Path) -> bool {
        path.parent() == Some(&self.root)
    }

    /// The workspace of a name.
    ///
    /// # Errors
    /// What is wrong with the name, and which there are.
    pub fn find(&self, name: &str) -> Result<WorkspaceRef, String> {
        check_name(name)?;
        let path = self.root.join(name);
        match path.symlink_metadata() {
            Ok(meta) if meta.is_dir() => Ok(reference(&path)),
            Ok(meta) if meta.is_symlink() => {
                Err(format!("{name} is a link, and no link is a workspace"))
            }
            Ok(_) => Err(format!("{name} is no folder")),
            Err(_) => {
                let names = self.names().join(", ");
                Err(format!(
                    "there is no workspace {name:?}. There are: {names}"
                ))
            }
        }
    }

    /// The same as a fact for the gate.
    pub fn destination(projects: Option<&Self>, name: &str) -> Destination<WorkspaceRef> {
        match projects.ok_or_else(unset).and_then(|them| them.find(name)) {
            Ok(workspace) => Destination::Known(Box::new(workspace)),
            Err(why) => Destination::Nowhere { why },
        }
    }

    /// Where sessions have worktrees of their own.
    pub fn worktrees(&self) -> PathBuf {
        self.root.join(STAGING).join(WORKTREES)
    }

    /// A fresh folder for something that is to become a workspace; whatever an earlier try left there is gone.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn stage(&self, name: &str) -> io::Result<Staged> {
        let staging = self.root.join(STAGING);
        match DirBuilder::new().mode(0o700).create(&staging) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        if !staging.symlink_metadata()?.is_dir() {
            let what = format!("{} is no folder", staging.display());
            return Err(io::Error::new(io::ErrorKind::NotADirectory, what));
        }
        let folder = staging.join(format!("{STAGED}{name}"));
        match hold(&folder) {
            // One that a killed process left: whoever still works in it holds it.
            Ok(_held) => fs::remove_dir_all(&folder)?,
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
        DirBuilder::new().mode(0o700).create(&folder)?;
        let held = hold(&folder)?;
        Ok(Staged {
            folder,
            _held: held,
        })
    }

    /// Removes what clones left that were killed: folders that no process holds any more.
    pub fn sweep(&self) {
        let staging = self.root.join(STAGING);
        let is_ours = |entry: &DirEntry| {
            let named = entry
                .file_name()
                .as_encoded_bytes()
                .starts_with(STAGED.as_bytes());
            named && entry.file_type().is_ok_and(|kind| kind.is_dir())
        };
        let entries = fs::read_dir(staging).into_iter().flatten().flatten();
        for entry in entries.filter(is_ours) {
            let path = entry.path();
            if let Ok(held) = hold(&path) {
                let _ = fs::remove_dir_all(&path); // or with the next start
                drop(held);
            }
        }
    }

    /// Makes what is ready in `folder` the workspace `name`: all of it or nothing, and never in the place of another.
    ///
    /// # Errors
    /// Something has that name by now, or the disk failed.
    pub fn add(&self, folder: &Path, name: &str) -> io::Result<()> {
        let target = self.root.join(name);
        let kept = RenameFlags::RENAME_NOREPLACE;
        renameat2(AT_FDCWD, folder, AT_FDCWD, &target, kept).map_err(io::Error::from)?;
        File::open(&self.root)?.sync_all()
    }
}

/// A folder for something that is to become a workspace, and a lock that goes with the process.
pub struct Staged {
    pub folder: PathBuf,
    _held: Flock<File>,
}

fn hold(folder: &Path) -> io::Result<Flock<File>> {
    Flock::lock(File::open(folder)?, FlockArg::LockExclusiveNonblock)
        .map_err(|(_, errno)| io::Error::from(errno))
}

/// What is said where there are no workspaces to choose from.
pub fn unset() -> String {
    "PROJECTS_ROOT is not set, so there is no other workspace".into()
}

/// Whether a workspace can be called so: one plain, visible name.
///
/// # Errors
/// What is wrong with it.
pub fn check_name(name: &str) -> Result<(), String> {
    let wrong = match name {
        "" => "it is empty",
        name if name.contains(['/', '\\']) => "it is a path, not a name",
        name if name.starts_with('.') => "names that begin with a dot are hidden",
        name if name.chars().any(char::is_control) => "it has control characters",
        name if name.len() > NAME_BYTES_MAX => "it is too long",
        _ => return Ok(()),
    };
    Err(format!("{name:?} is no name of a workspace: {wrong}"))
}

/// A folder as a session's workspace.
pub fn reference(path: &Path) -> WorkspaceRef {
    let name = path.file_name().map(|name| name.to_string_lossy());
    WorkspaceRef {
        name: name.map_or_else(|| "/".into(), |name| name.into_owned()),
        path: path.to_string_lossy().into_owned(),
    }
}
