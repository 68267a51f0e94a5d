//! A file's name taken away or changed; its content and its mode stay what they are.
//!
//! Links are neither followed nor touched, folders neither: what a name stands for is the file that was judged.

use super::swap::is_link;
use super::{Open, Result, Standing, Workspace, WorkspaceError, io_error, refuse_git};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, RenameFlags, renameat, renameat2};
use nix::sys::stat::fstatat;
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::fs::File;

impl Workspace {
    /// The one name of a regular file.
    ///
    /// # Errors
    /// There is none: nothing, a link, a folder, a device.
    pub fn file(&self, path: &str) -> Result<String> {
        match self.standing(path)? {
            Standing::Nothing { .. } => Err(WorkspaceError::NotFound { path: path.into() }),
            Standing::Link { .. } => Err(not_a_file(path, "a symbolic link")),
            Standing::Something { place } => self.open(&place, Open::Read).map(|_| place),
        }
    }

    /// Takes a file away, by its one name.
    ///
    /// # Errors
    /// Nothing was changed, unless the disk fails after it.
    pub fn delete(&self, place: &str) -> Result<()> {
        let (folder, name) = self.parent(place)?;
        unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir)
            .map_err(|errno| io_error(place, errno.into()))?;
        folder.sync_all().map_err(|e| io_error(place, e))
    }

    /// Gives a file another name, where nothing has that name; makes missing folders. Both are one names.
    ///
    /// # Errors
    /// As [`Workspace::delete`].
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        refuse_git(to, to)?; // before a folder is made there
        let (old, name) = self.parent(from)?;
        self.folder(to.rsplit_once('/').map_or(".", |(parent, _)| parent))?;
        let (new, new_name) = self.parent(to)?;
        let kept = RenameFlags::RENAME_NOREPLACE;
        let renamed = match renameat2(&old, name, &new, new_name, kept) {
            // A file system that cannot promise it.
            Err(Errno::EINVAL | Errno::ENOSYS) if is_free(&new, new_name) => {
                renameat(&old, name, &new, new_name)
            }
            Err(Errno::EINVAL | Errno::ENOSYS) => Err(Errno::EEXIST),
            other => other,
        };
        renamed.map_err(|errno| io_error(to, errno.into()))?;
        // The new name first: never is there a time when the disk knows neither.
        new.sync_all().map_err(|e| io_error(to, e))?;
        old.sync_all().map_err(|e| io_error(from, e))
    }

    /// The folder of a name, and what it is called there.
    fn parent<'a>(&self, place: &'a str) -> Result<(File, &'a str)> {
        let (parent, name) = place.rsplit_once('/').unwrap_or((".", place));
        let folder = self.open(parent, Open::Folder)?;
        let real = self.place(&folder, place)?;
        refuse_git(place, &format!("{real}/{name}"))?;
        match fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) if is_link(stat.st_mode) => Err(not_a_file(place, "a symbolic link")),
            _ => Ok((folder, name)),
        }
    }
}

fn is_free(folder: &File, name: &str) -> bool {
    fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) == Err(Errno::ENOENT)
}

fn not_a_file(path: &str, what: &'static str) -> WorkspaceError {
    let path = path.into();
    WorkspaceError::NotAFile { path, what }
}
