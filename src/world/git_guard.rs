//! Puts a repository's hooks and configuration back after a command that changed them.
//!
//! Both run programs, outside of any confinement, the next time when the person uses git there. Landlock cannot leave
//! them out of a folder that git must be able to write, so they are compared afterwards: at that time none of the
//! command's processes is alive. What `git switch` and `git branch` write about branches stays.

/// Kept for another process.
mod stored;

pub use stored::{next_field, put_field};

use super::confine::rules::worktree_folders;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

const CONFIG: &[&str] = &["config", "config.worktree"];
const HOOKS: &str = "hooks";
const FILE_BYTES_MAX: u64 = 1_000_000;
const HOOKS_MAX: usize = 200;
/// Where something is put that took the place of `.git`.
const ASIDE: &str = ".git-put-aside";
const ASIDE_MAX: u32 = 1000;
/// What a branch may be told without asking; none of it runs anything.
const BRANCH_KEYS: &[&str] = &[
    "remote",
    "merge",
    "rebase",
    "pushRemote",
    "vscode-merge-base",
];

/// A repository as it was before a command.
pub struct GitGuard {
    /// The workspace, where `.git` is a folder in it.
    root: Option<PathBuf>,
    /// The folder with `config` and `hooks`.
    folder: PathBuf,
    before: Files,
}

/// Content and mode by name; `hooks/NAME` for hooks.
type Files = BTreeMap<String, (Vec<u8>, u32)>;

impl GitGuard {
    /// Takes down what there is; `None` where there is no repository.
    ///
    /// # Errors
    /// Where it is too much to be put back, or cannot be read.
    pub fn take(workspace: &Path) -> Result<Option<Self>, String> {
        let (root, folder) = match worktree_folders(workspace) {
            Some((_, common)) => (None, common),
            None => (Some(workspace.to_owned()), workspace.join(".git")),
        };
        let handle = match open_folder(&folder) {
            Ok(handle) => handle,
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Ok(None),
            Err(error) => return Err(format!("{} cannot be opened: {error}", folder.display())),
        };
        let before = read(&handle).map_err(|why| format!("{}: {why}", folder.display()))?;
        Ok(Some(Self {
            root,
            folder,
            before,
        }))
    }

    /// Puts back what is different; names it.
    ///
    /// # Errors
    /// In words, where something could not be put back: the person must look.
    pub fn put_back(self) -> Result<Vec<String>, String> {
        let fail = |error: Errno| format!("{} is not as it was: {error}", self.folder.display());
        let mut changed = Vec::new();
        let handle = match open_folder(&self.folder) {
            Ok(handle) => handle,
            Err(Errno::ENOENT) => return Ok(Vec::new()), // no repository, nothing that runs
            Err(Errno::ENOTDIR | Errno::ELOOP) if self.root.is_some() => {
                let root =
                    open_folder(self.root.as_deref().unwrap_or(&self.folder)).map_err(fail)?;
                let aside = put_aside(&root, ".git").map_err(fail)?;
                return Ok(vec![format!(".git (no folder any more; now {aside})")]);
            }
            Err(error) => return Err(fail(error)),
        };
        let now = read(&handle).unwrap_or_default();
        let names: std::collections::BTreeSet<&String> =
            self.before.keys().chain(now.keys()).collect();
        // A link or a folder in the place of a file is not among what was read.
        for name in names {
            let (before, after) = (self.before.get(name), now.get(name));
            if before == after || name == "config" && only_branches_differ(before, after) {
                continue;
            }
            restore(&handle, name, before).map_err(fail)?;
            changed.push(format!(".git/{name}"));
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
            if fstatat(&handle, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok_and(odd) {
                let aside = put_aside(&handle, name).map_err(fail)?;
                changed.push(format!(".git/{name} (now .git/{aside})"));
            }
        }
        Ok(changed)
    }
}

fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_RDONLY;
    open(path, flags, Mode::empty())
}

fn subfolder(folder: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_RDONLY;
    openat(folder, name, flags, Mode::empty())
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
    let Ok(hooks) = subfolder(folder, HOOKS) else {
        return Ok(files);
    };
    let again = hooks.try_clone().map_err(|error| error.to_string())?;
    let mut listing = Dir::from_fd(again).map_err(|error| error.to_string())?;
    for entry in listing.iter() {
        let entry = entry.map_err(|error| error.to_string())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if files.len() > HOOKS_MAX {
            return Err(format!("more than {HOOKS_MAX} hooks"));
        }
        // Git comes with a dozen samples, and runs none.
        if name != "." && name != ".." && !name.ends_with(".sample") {
            let file = read_file(&hooks, &name)?;
            // What is no file is noted as present: it runs only through a file, and is removed where it is new.
            files.insert(format!("{HOOKS}/{name}"), file.unwrap_or_default());
        }
    }
    Ok(files)
}

fn read_file(folder: &OwnedFd, name: &str) -> Result<Option<(Vec<u8>, u32)>, String> {
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
fn restore(folder: &OwnedFd, name: &str, before: Option<&(Vec<u8>, u32)>) -> Result<(), Errno> {
    let (held, folder, name) = match name.split_once('/') {
        None => (None, folder, name),
        Some((_, name)) => {
            if let (Err(_), Some(_)) = (subfolder(folder, HOOKS), before) {
                let _ = put_aside(folder, HOOKS);
                mkdirat(folder, HOOKS, Mode::from_bits_truncate(0o755))?;
            }
            (Some(subfolder(folder, HOOKS)?), folder, name)
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

/// Whether the rest is the same when plain entries of `[branch "…"]` are left out. Only the form that git itself
/// writes is recognised; anything cleverer counts as a difference.
fn only_branches_differ(before: Option<&(Vec<u8>, u32)>, after: Option<&(Vec<u8>, u32)>) -> bool {
    fn rest(file: Option<&(Vec<u8>, u32)>) -> Option<(Vec<&str>, u32)> {
        let (bytes, mode) = file?;
        Some((without_branches(std::str::from_utf8(bytes).ok()?), *mode))
    }
    let (before, after) = (rest(before), rest(after));
    before.is_some() && before == after
}

fn without_branches(config: &str) -> Vec<&str> {
    let mut rest = Vec::new();
    let mut in_branch = false;
    for line in config.lines() {
        if line.starts_with('[') {
            in_branch = is_branch_header(line);
            if in_branch {
                continue;
            }
        } else if in_branch && is_plain_entry(line) {
            continue;
        }
        rest.push(line);
    }
    rest
}

fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || "/-_.+@".contains(c))
}

fn is_branch_header(line: &str) -> bool {
    let name = line
        .strip_prefix("[branch \"")
        .and_then(|rest| rest.strip_suffix("\"]"));
    name.is_some_and(is_plain)
}

fn is_plain_entry(line: &str) -> bool {
    let entry = line.strip_prefix('\t').and_then(|l| l.split_once(" = "));
    entry.is_some_and(|(key, value)| BRANCH_KEYS.contains(&key) && is_plain(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(after: &str, harmless: bool) {
        let before = "[core]\n\tbare = false\n[branch \"main\"]\n\tremote = origin\n";
        let file = |text: &str| (text.as_bytes().to_vec(), 0o644);
        let (before, after) = (file(before), file(after));
        assert_eq!(
            only_branches_differ(Some(&before), Some(&after)),
            harmless,
            "{:?}",
            String::from_utf8_lossy(&after.0)
        );
    }

    #[test]
    fn lets_branches_be_tracked_and_nothing_else_change() {
        let same = "[core]\n\tbare = false\n";
        check(same, true);
        check(
            &format!("{same}[branch \"fix/a\"]\n\tmerge = refs/heads/fix/a\n"),
            true,
        );
        check(&format!("{same}\tfsmonitor = evil\n"), false);
        check(
            &format!("{same}[branch \"a\"][core]\n\tfsmonitor = evil\n"),
            false,
        );
        check(
            &format!("{same}[branch \"a\"]\n\tremote = ext::sh -c evil\n"),
            false,
        );
        check(
            &format!("{same}[branch \"a\"]\n\tfsmonitor = evil\n"),
            false,
        );
        check(
            &format!("{same}[branch \"a\"]\n\tremote = x\\\n[core]\n\tfsmonitor = evil\n"),
            false,
        );
        check("[core]\n\tbare = true\n", false);
    }
}
