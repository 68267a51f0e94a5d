//! Several files changed together: staged beside their places, checked, renamed; put back where that fails.
//!
//! A staged file's name follows from session, path and content. So a later process finds what a dead one staged and
//! finishes it ([`Workspace::finish`]): before the first rename every new content is on disk. Decides nothing about
//! what may be written.

use super::{Open, Result, Workspace, WorkspaceError, digest_of, fill, io_error, refuse_git};
use crate::agent::event::ExpectedFile;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, RenameFlags, readlinkat, renameat, renameat2};
use nix::sys::stat::{SFlag, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

/// What stands at a path whose last part is not followed. The place is the one name of the file, relative to the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// A file, or a folder or a device: opening it tells.
    Something {
        place: String,
    },
    Nothing {
        place: String,
    },
    Link {
        target: String,
    },
}

/// The permission bits of a file that is put in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As a new file gets them.
    Usual,
    /// The same, and executable.
    Executable,
    Exactly(u32),
}

/// One file, as it was read and as it shall be. `None`: it is not there.
#[derive(Debug, Clone)]
pub struct Swap {
    pub path: String,
    pub before: Option<(Arc<[u8]>, Mode)>,
    pub after: Option<(Arc<[u8]>, Mode)>,
}

/// A staged file, and where it belongs.
struct Staged {
    folder: File,
    name: String,
    temporary: String,
}

impl Workspace {
    /// What stands at a path. Parent folders are followed as far as they stay in the workspace.
    ///
    /// # Errors
    /// The path leaves the workspace, or names a folder by `.` or `..`.
    pub fn standing(&self, path: &str) -> Result<Standing> {
        let relative = self.relative(path)?;
        let (parent, name) = relative.rsplit_once('/').unwrap_or((".", &relative));
        if name == "." || name == ".." {
            return Err(WorkspaceError::NotAFile {
                path: path.into(),
                what: "a folder",
            });
        }
        let folder = match self.open(parent, Open::Folder) {
            Ok(folder) => folder,
            Err(WorkspaceError::NotFound { .. }) => {
                let place = format!("{}/{name}", self.missing(parent, path)?);
                return Ok(Standing::Nothing {
                    place: place.trim_start_matches("./").to_owned(),
                });
            }
            Err(e) => return Err(e),
        };
        let place = match self.place(&folder, path)?.as_str() {
            "." => name.to_owned(),
            parent => format!("{parent}/{name}"),
        };
        match fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Err(Errno::ENOENT) => Ok(Standing::Nothing { place }),
            Err(errno) => Err(io_error(path, errno.into())),
            Ok(stat) if is_link(stat.st_mode) => {
                let target = readlinkat(&folder, name).map_err(|e| io_error(path, e.into()))?;
                Ok(Standing::Link {
                    target: target.to_string_lossy().into_owned(),
                })
            }
            Ok(_) => Ok(Standing::Something { place }),
        }
    }

    /// The one name of a folder that is not there yet: the real name of what is there of it, and the rest as written.
    fn missing(&self, folder: &str, path: &str) -> Result<String> {
        let (parent, name) = folder.rsplit_once('/').unwrap_or((".", folder));
        if name == ".." {
            return Err(WorkspaceError::NotFound { path: path.into() });
        }
        let real = match self.open(parent, Open::Folder) {
            Ok(open) => self.place(&open, path)?,
            Err(WorkspaceError::NotFound { .. }) if parent != "." => self.missing(parent, path)?,
            Err(e) => return Err(e),
        };
        Ok(format!("{real}/{name}").trim_start_matches("./").to_owned())
    }

    /// Puts all files in place, or none. What is there by then must be what was read.
    ///
    /// # Errors
    /// A sentence for the model. It names the files that could not be put back, if there are any.
    pub fn swap_all(&self, session: &str, swaps: &[Swap]) -> std::result::Result<(), String> {
        let staged = self.stage_all(session, swaps)?;
        let result = self.check_all(swaps).map_err(|error| (0, error));
        // New contents first: while an old name goes, its content stands under the new one already.
        let result = result.and_then(|()| self.put_all(swaps, &staged));
        let Err((done, error)) = result else {
            return Ok(());
        };
        for staged in staged.iter().flatten() {
            // Those that were renamed are not there any more, which is as good.
            let _ = unlinkat(
                &staged.folder,
                staged.temporary.as_str(),
                UnlinkatFlags::NoRemoveDir,
            );
        }
        Err(self.put_back(swaps, done, &error))
    }

    fn stage_all(
        &self,
        session: &str,
        swaps: &[Swap],
    ) -> std::result::Result<Vec<Option<Staged>>, String> {
        let mut staged: Vec<Option<Staged>> = Vec::with_capacity(swaps.len());
        for swap in swaps {
            let one = match &swap.after {
                Some((content, mode)) => self.stage(session, &swap.path, content, *mode).map(Some),
                None => refuse_git(&swap.path, &swap.path).map(|()| None),
            };
            match one {
                Ok(one) => staged.push(one),
                Err(error) => {
                    for left in staged.iter().flatten() {
                        let _ = unlinkat(
                            &left.folder,
                            left.temporary.as_str(),
                            UnlinkatFlags::NoRemoveDir,
                        );
                    }
                    return Err(format!("Nothing was changed, in no file. {error}"));
                }
            }
        }
        Ok(staged)
    }

    fn stage(&self, session: &str, path: &str, content: &[u8], mode: Mode) -> Result<Staged> {
        let bytes = content.len() as u64;
        if bytes > super::TEXT_BYTES_MAX {
            return Err(WorkspaceError::TooLarge {
                path: path.into(),
                bytes,
            });
        }
        refuse_git(path, path)?; // before a folder is made there
        let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
        let folder = self.folder(parent)?;
        let parent = self.place(&folder, path)?;
        refuse_git(path, &format!("{parent}/{name}"))?;
        let temporary = staged_name(session, path, &digest_of(content));
        // Left by a process that died at this point of the same call.
        let _ = unlinkat(&folder, temporary.as_str(), UnlinkatFlags::NoRemoveDir);
        let file = self.open(&format!("{parent}/{temporary}"), Open::New)?;
        let usual = file
            .metadata()
            .map_err(|e| io_error(path, e))?
            .permissions()
            .mode()
            & 0o777;
        let mode = match mode {
            Mode::Usual => None,
            Mode::Executable => Some(usual | ((usual & 0o444) >> 2)), // whoever may read it may run it
            Mode::Exactly(mode) => Some(mode),
        };
        let staged = Staged {
            folder,
            name: name.to_owned(),
            temporary,
        };
        if let Err(e) = fill(file, content, mode) {
            let _ = unlinkat(
                &staged.folder,
                staged.temporary.as_str(),
                UnlinkatFlags::NoRemoveDir,
            );
            return Err(io_error(path, e));
        }
        Ok(staged)
    }

    fn check_all(&self, swaps: &[Swap]) -> std::result::Result<(), String> {
        let changed = |swap: &&Swap| {
            let before = swap.before.as_ref().map(|(bytes, _)| digest_of(bytes));
            match self.standing(&swap.path) {
                Ok(Standing::Something { .. }) => {
                    before.is_none() || self.digest(&swap.path) != before
                }
                Ok(Standing::Nothing { .. }) => before.is_some(),
                Ok(Standing::Link { .. }) | Err(_) => true,
            }
        };
        match swaps.iter().find(changed) {
            None => Ok(()),
            Some(swap) => Err(format!(
                "{} was changed by somebody else at this moment; read it again",
                swap.path
            )),
        }
    }

    /// Renames what is staged, then takes away what goes, then makes all of it durable. The error says how many swaps
    /// may have been begun, in the order in which they are done.
    fn put_all(
        &self,
        swaps: &[Swap],
        staged: &[Option<Staged>],
    ) -> std::result::Result<(), (usize, String)> {
        let mut folders: BTreeMap<&str, File> = BTreeMap::new();
        for (done, at) in order(swaps).into_iter().enumerate() {
            let swap = &swaps[at];
            let put = match &staged[at] {
                Some(staged) => staged.put(swap.before.is_none()).and_then(|()| {
                    let folder = staged.folder.try_clone()?;
                    Ok((parent_of(&swap.path), folder))
                }),
                None => self.take_away(&swap.path),
            };
            let (parent, folder) = put.map_err(|e| (done, io_error(&swap.path, e).to_string()))?;
            folders.entry(parent).or_insert(folder);
        }
        for (parent, folder) in folders {
            folder
                .sync_all()
                .map_err(|e| (swaps.len(), io_error(parent, e).to_string()))?;
        }
        Ok(())
    }

    fn take_away<'a>(&self, path: &'a str) -> io::Result<(&'a str, File)> {
        let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
        let folder = self
            .open(parent, Open::Folder)
            .map_err(|e| io::Error::other(e.to_string()))?;
        unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir)?;
        Ok((parent, folder))
    }

    fn put_back(&self, swaps: &[Swap], done: usize, error: &str) -> String {
        let mut stuck = Vec::new();
        for at in order(swaps).into_iter().take(done) {
            let swap = &swaps[at];
            let back = match &swap.before {
                None => self.take_away(&swap.path).map(drop),
                Some((bytes, mode)) => self
                    .stage("put-back", &swap.path, bytes, *mode)
                    .map_err(|e| io::Error::other(e.to_string()))
                    .and_then(|staged| staged.put(false)),
            };
            if back.is_err() {
                stuck.push(swap.path.as_str());
            }
        }
        match stuck.is_empty() {
            true => format!("Nothing was changed, in no file. {error}"),
            false => format!(
                "{error}. These files were patched and could not be put back: {}",
                stuck.join(", ")
            ),
        }
    }

    /// Whether a process died between the first and the last rename of these files.
    pub fn is_half_done(&self, files: &[ExpectedFile]) -> bool {
        let is = |file: &ExpectedFile, wanted: &Option<String>| self.digest(&file.path) == *wanted;
        let done = files.iter().filter(|file| is(file, &file.after)).count();
        done > 0
            && done < files.len()
            && files
                .iter()
                .all(|file| is(file, &file.after) || is(file, &file.before))
    }

    /// Rolls forward what a dead process had staged. Done again, it does nothing more.
    ///
    /// # Errors
    /// A sentence that names what is done and what is not.
    pub fn finish(&self, session: &str, files: &[ExpectedFile]) -> std::result::Result<(), String> {
        let left = |file: &&ExpectedFile| self.digest(&file.path) != file.after;
        let (renames, deletions): (Vec<_>, Vec<_>) = files
            .iter()
            .filter(left)
            .partition(|file| file.after.is_some());
        for file in renames.into_iter().chain(deletions) {
            if let Err(why) = self.finish_one(session, file) {
                let undone: Vec<&str> =
                    files.iter().filter(left).map(|f| f.path.as_str()).collect();
                return Err(format!(
                    "The patch was interrupted and can't be finished: {why}. Not patched: {}. The other files of this patch are patched; read before you go on",
                    undone.join(", ")
                ));
            }
        }
        Ok(())
    }

    fn finish_one(&self, session: &str, file: &ExpectedFile) -> std::result::Result<(), String> {
        let path = &file.path;
        refuse_git(path, path).map_err(|e| e.to_string())?;
        if self.digest(path) != file.before {
            return Err(format!("{path} is neither as before nor as after"));
        }
        let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
        let folder = match &file.after {
            None => self.take_away(path).map_err(|e| format!("{path}: {e}"))?.1,
            Some(digest) => {
                let temporary = staged_name(session, path, digest);
                if self.digest(&format!("{parent}/{temporary}")).as_ref() != Some(digest) {
                    return Err(format!("the new content of {path} is not there any more"));
                }
                let folder = self.open(parent, Open::Folder).map_err(|e| e.to_string())?;
                let staged = Staged {
                    folder,
                    name: name.to_owned(),
                    temporary,
                };
                staged
                    .put(file.before.is_none())
                    .map_err(|e| format!("{path}: {e}"))?;
                staged.folder
            }
        };
        folder.sync_all().map_err(|e| format!("{path}: {e}"))
    }
}

impl Staged {
    /// A new file never takes the place of one that appeared meanwhile.
    fn put(&self, new: bool) -> io::Result<()> {
        let (from, to) = (self.temporary.as_str(), self.name.as_str());
        if new {
            match renameat2(
                &self.folder,
                from,
                &self.folder,
                to,
                RenameFlags::RENAME_NOREPLACE,
            ) {
                Err(Errno::EINVAL | Errno::ENOSYS) => {} // a file system that cannot do it
                other => return Ok(other?),
            }
        }
        Ok(renameat(&self.folder, from, &self.folder, to)?)
    }
}

/// What gets a content comes before what goes away.
fn order(swaps: &[Swap]) -> Vec<usize> {
    let (mut first, last): (Vec<usize>, Vec<usize>) =
        (0..swaps.len()).partition(|at| swaps[*at].after.is_some());
    first.extend(last);
    first
}

fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(".", |(parent, _)| parent)
}

pub(super) fn is_link(mode: u32) -> bool {
    SFlag::from_bits_truncate(mode) & SFlag::S_IFMT == SFlag::S_IFLNK
}

/// Hidden, and the same in every process that works on this session.
fn staged_name(session: &str, path: &str, digest: &str) -> String {
    let name = digest_of(format!("{session}\0{path}\0{digest}").as_bytes());
    format!(".journeyman-{}.tmp", &name[..24])
}
