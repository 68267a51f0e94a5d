//! Puts what makes git run programs back after a command that changed it: a repository's hooks and configuration, and the
//! files that say where git finds those.
//!
//! They act outside of any confinement, the next time when the person uses git there. Landlock cannot leave them out of a
//! folder that git must be able to write, so they are compared afterwards: at that time none of the command's processes
//! is alive. What `git switch` and `git branch` write about branches stays, and so do worktrees that come and go.

/// Which changes of a configuration are only about branches.
mod branches;
/// Commands that run at the same time.
mod shared;
/// Kept for another process.
mod stored;

pub use shared::shared;
pub use stored::{next_field, put_field};

use super::confine::rules::worktree_folders;
use branches::only_branches_differ;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// `commondir` makes git take another folder's configuration and hooks, also where there is no linked worktree. `gitdir` says
/// which folder a linked worktree is.
const CONFIG: &[&str] = &["config", "config.worktree", "commondir", "gitdir"];
/// Of each linked worktree.
const WORKTREE_CONFIG: &[&str] = &["config.worktree", "commondir"];
const HOOKS: &str = "hooks";
const WORKTREES: &str = "worktrees";
const FILE_BYTES_MAX: u64 = 1_000_000;
/// Hooks, and worktrees, that are kept.
const ENTRIES_MAX: usize = 200;
/// Where something is put that took the place of `.git`.
const ASIDE: &str = ".git-put-aside";
const ASIDE_MAX: u32 = 1000;

/// A workspace's repository as it was before a command.
pub struct GitGuard {
    workspace: PathBuf,
    /// `.git` of the workspace, where it is a file that says where the repository is.
    pointer: Option<Kept>,
    /// The folder with `config` and `hooks`, where commands may write it, and what was in it.
    repository: Option<(PathBuf, Files)>,
}

/// Content and mode.
type Kept = (Vec<u8>, u32);
/// By name: `config`, `hooks/NAME`, `worktrees/NAME/commondir`.
type Files = BTreeMap<String, Kept>;

impl GitGuard {
    /// Takes down what there is; `None` where there is no repository. `confined`: the kernel keeps commands of a linked
    /// worktree from everything of the repository that runs programs, but for the worktree's own part. Only that is looked
    /// at then: the rest may be changed meanwhile by the person, and by nobody else.
    ///
    /// # Errors
    /// Where it is too much to be put back, or cannot be read.
    pub fn take(workspace: &Path, confined: bool) -> Result<Option<Self>, String> {
        let fail = |path: &Path, why: String| format!("{}: {why}", path.display());
        let at_root = open_folder(workspace).map_err(|error| fail(workspace, error.to_string()))?;
        let pointer = read_file(&at_root, ".git").map_err(|why| fail(workspace, why))?;
        let folder = match worktree_folders(workspace) {
            Some((own, _)) if confined => own,
            Some((_, common)) => common,
            None => workspace.join(".git"),
        };
        let repository = match open_folder(&folder) {
            Ok(handle) => {
                let files = read(&handle).map_err(|why| fail(&folder, why))?;
                Some((folder, files))
            }
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => None,
            Err(error) => return Err(format!("{} cannot be opened: {error}", folder.display())),
        };
        let is_there = pointer.is_some() || repository.is_some();
        Ok(is_there.then(|| Self {
            workspace: workspace.to_owned(),
            pointer,
            repository,
        }))
    }

    /// Puts back what is different; names it.
    ///
    /// # Errors
    /// In words, where something could not be put back: the person must look.
    pub fn put_back(&self) -> Result<Vec<String>, String> {
        let mut changed = Vec::new();
        let fail = |error: Errno| {
            let pointer = self.workspace.join(".git");
            format!("{} is not as it was: {error}", pointer.display())
        };
        if let Some(pointer) = &self.pointer {
            let root = open_folder(&self.workspace).map_err(fail)?;
            if read_file(&root, ".git").unwrap_or_default().as_ref() != Some(pointer) {
                restore(&root, ".git", Some(pointer)).map_err(fail)?;
                changed.push(".git".to_owned());
            }
        }
        let Some((folder, before)) = &self.repository else {
            return Ok(changed);
        };
        let handle = match open_folder(folder) {
            Ok(handle) => handle,
            Err(Errno::ENOENT) => return Ok(changed), // no repository, nothing that runs
            Err(Errno::ENOTDIR | Errno::ELOOP) if self.pointer.is_none() => {
                let root = open_folder(&self.workspace).map_err(fail)?;
                let aside = put_aside(&root, ".git").map_err(fail)?;
                return Ok(vec![format!(".git (no folder any more; now {aside})")]);
            }
            Err(error) => return Err(fail(error)),
        };
        put_back_files(&handle, before, &mut changed)
            .map_err(|error| format!("{} is not as it was: {error}", folder.display()))?;
        Ok(changed)
    }
}

fn put_back_files(
    handle: &OwnedFd,
    before: &Files,
    changed: &mut Vec<String>,
) -> Result<(), Errno> {
    let now = match read(handle) {
        Ok(now) => now,
        Err(_) => replace_all(handle, before, changed)?,
    };
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    // A link or a folder in the place of a file is not among what was read.
    for name in names {
        let (was, is) = (before.get(name), now.get(name));
        let is_same = was == is
            || name == "config" && only_branches_differ(was, is)
            || is_of_another_worktree(name, before, handle);
        if !is_same {
            restore(handle, name, was)?;
            changed.push(format!(".git/{name}"));
        }
    }
    for name in CONFIG.iter().copied().chain([HOOKS]) {
        let odd = |stat: FileStat| {
            let wanted = if name == HOOKS {
                SFlag::S_IFDIR
            } else {
                SFlag::S_IFREG
            };
            SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT != wanted
        };
        if fstatat(handle, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok_and(odd) {
            let aside = put_aside(handle, name)?;
            changed.push(format!(".git/{name} (now .git/{aside})"));
        }
    }
    Ok(())
}

/// Where there is more than can be looked at: nothing of it stays, and what was there before is put back.
fn replace_all(
    handle: &OwnedFd,
    before: &Files,
    changed: &mut Vec<String>,
) -> Result<Files, Errno> {
    for name in CONFIG.iter().copied().chain([HOOKS]) {
        if fstatat(handle, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok() {
            let aside = put_aside(handle, name)?;
            changed.push(format!(".git/{name} (now .git/{aside})"));
        }
    }
    let known = before.keys().filter_map(|name| worktree_of(name));
    for worktree in known.collect::<BTreeSet<_>>() {
        for name in WORKTREE_CONFIG {
            let name = format!("{worktree}/{name}");
            if below(handle, worktree).is_ok() {
                restore(handle, &name, before.get(&name))?;
            }
        }
    }
    // Its hooks and configuration are gone, so they are missing; worktrees are as they were.
    Ok(before
        .iter()
        .filter(|(name, _)| worktree_of(name).is_some())
        .map(|(name, kept)| (name.clone(), kept.clone()))
        .collect())
}

/// `worktrees/NAME` of `worktrees/NAME/commondir`.
fn worktree_of(name: &str) -> Option<&str> {
    let (folder, _) = name.rsplit_once('/')?;
    folder.starts_with(WORKTREES).then_some(folder)
}

/// Whether it belongs to a worktree that was added or removed meanwhile.
fn is_of_another_worktree(name: &str, before: &Files, folder: &OwnedFd) -> bool {
    let Some(worktree) = worktree_of(name) else {
        return false;
    };
    let was = before
        .keys()
        .any(|known| worktree_of(known) == Some(worktree));
    !was || matches!(below(folder, worktree), Err(Errno::ENOENT))
}

fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_RDONLY;
    open(path, flags, Mode::empty())
}

/// A folder further down, never through a link.
fn below(folder: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_RDONLY;
    let mut parts = path.split('/');
    let first = openat(folder, parts.next().unwrap_or(path), flags, Mode::empty());
    parts.try_fold(first?, |at, name| openat(&at, name, flags, Mode::empty()))
}

/// Gives it another name, which nothing has.
fn put_aside(folder: &OwnedFd, name: &str) -> Result<String, Errno> {
    for number in 1..=ASIDE_MAX {
        let aside = format!("{ASIDE}-{number}");
        if fstatat(folder, aside.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW) == Err(Errno::ENOENT) {
            renameat(folder, name, folder, aside.as_str())?;
            return Ok(aside);
        }
    }
    Err(Errno::EEXIST)
}

/// Regular files only, never through a link.
fn read(folder: &OwnedFd) -> Result<Files, String> {
    let mut files = Files::new();
    for name in CONFIG {
        if let Some(file) = read_file(folder, name)? {
            files.insert((*name).to_owned(), file);
        }
    }
    if let Ok(hooks) = below(folder, HOOKS) {
        // Git comes with a dozen samples, and runs none.
        for name in names_in(&hooks, HOOKS, |name| !name.ends_with(".sample"))? {
            let file = read_file(&hooks, &name)?;
            // What is no file is noted as present: it runs only through a file, and is removed where it is new.
            files.insert(format!("{HOOKS}/{name}"), file.unwrap_or_default());
        }
    }
    if let Ok(worktrees) = below(folder, WORKTREES) {
        for worktree in names_in(&worktrees, WORKTREES, |_| true)? {
            let Ok(place) = below(&worktrees, &worktree) else {
                continue;
            };
            for name in WORKTREE_CONFIG {
                if let Some(file) = read_file(&place, name)? {
                    files.insert(format!("{WORKTREES}/{worktree}/{name}"), file);
                }
            }
        }
    }
    Ok(files)
}

/// What is in a folder, at most so much.
fn names_in(
    folder: &OwnedFd,
    called: &str,
    counts: impl Fn(&str) -> bool,
) -> Result<Vec<String>, String> {
    let again = folder.try_clone().map_err(|error| error.to_string())?;
    let mut listing = Dir::from_fd(again).map_err(|error| error.to_string())?;
    let mut names = Vec::new();
    for entry in listing.iter() {
        let entry = entry.map_err(|error| error.to_string())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "." || name == ".." || !counts(&name) {
            continue;
        }
        if names.len() >= ENTRIES_MAX {
            return Err(format!("more than {ENTRIES_MAX} {called}; remove some"));
        }
        names.push(name);
    }
    Ok(names)
}

fn read_file(folder: &OwnedFd, name: &str) -> Result<Option<Kept>, String> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_RDONLY | OFlag::O_NONBLOCK;
    let Ok(opened) = openat(folder, name, flags, Mode::empty()) else {
        return Ok(None);
    };
    let stat = fstat(&opened).map_err(|error| error.to_string())?;
    if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    File::from(opened)
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("read {name}: {error}"))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("{name} is larger than {FILE_BYTES_MAX} bytes"));
    }
    Ok(Some((bytes, stat.st_mode & 0o7777)))
}

/// The file as it was, or its absence.
fn restore(folder: &OwnedFd, path: &str, before: Option<&Kept>) -> Result<(), Errno> {
    let (held, name) = match path.rsplit_once('/') {
        None => (None, path),
        Some((parent, name)) => {
            if parent == HOOKS && before.is_some() && below(folder, HOOKS).is_err() {
                let _ = put_aside(folder, HOOKS);
                mkdirat(folder, HOOKS, Mode::from_bits_truncate(0o755))?;
            }
            (Some(below(folder, parent)?), name)
        }
    };
    let folder = held.as_ref().unwrap_or(folder);
    match unlinkat(folder, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(Errno::EISDIR | Errno::EPERM) => drop(put_aside(folder, name)?),
        Err(error) => return Err(error),
    }
    let Some((bytes, mode)) = before else {
        return Ok(());
    };
    let flags =
        OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_WRONLY;
    let made = openat(folder, name, flags, Mode::from_bits_truncate(0o600))?;
    fchmod(&made, Mode::from_bits_truncate(*mode))?;
    File::from(made)
        .write_all(bytes)
        .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))
}
