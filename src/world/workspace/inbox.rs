//! Files that a person sent. They come into a folder of their own, which git does not see, and never over another file.

use super::{
    Open, Result, Workspace, WorkspaceError, digest_of, fill, io_error, refuse_git, temporary_name,
};
use nix::errno::Errno;
use nix::fcntl::{RenameFlags, renameat2};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::io;

/// The second where the project has a folder of its own by the name of the first.
const FOLDERS: [&str; 2] = ["inbox", "inbox-journeyman"];
/// Keeps git from seeing the folder, and says whose it is.
const MARK: &str = "# What people sent to Journeyman; no part of the project.\n*\n";
const SAME_NAMES_MAX: usize = 100;

impl Workspace {
    /// Keeps a file under this name, or one like it; where it is now. The same content is kept once.
    ///
    /// # Errors
    /// Where there is no place for it, or the disk fails.
    pub fn receive(&self, name: &str, content: &[u8]) -> Result<String> {
        let folder = self.inbox()?;
        let (stem, ending) = match name.rsplit_once('.') {
            Some((stem, ending)) => (stem, format!(".{ending}")),
            None => (name, String::new()),
        };
        for number in 1..=SAME_NAMES_MAX {
            let path = match number {
                1 => format!("{folder}/{name}"),
                number => format!("{folder}/{stem}-{number}{ending}"),
            };
            if self
                .digest(&path)
                .is_some_and(|digest| digest == digest_of(content))
                || self.put_new(&path, content)?
            {
                return Ok(path);
            }
        }
        let taken = io::Error::from(io::ErrorKind::AlreadyExists);
        Err(io_error(name, taken))
    }

    fn inbox(&self) -> Result<&'static str> {
        for folder in FOLDERS {
            let mark = format!("{folder}/.gitignore");
            match self.open(folder, Open::Folder) {
                Err(WorkspaceError::NotFound { .. }) => {
                    self.write_atomic(&mark, MARK.as_bytes())?;
                    return Ok(folder);
                }
                Ok(_) if self.digest(&mark) == Some(digest_of(MARK.as_bytes())) => {
                    return Ok(folder);
                }
                Ok(_) | Err(_) => {}
            }
        }
        let taken = io::Error::other("folders of these names are there, and are not mine");
        Err(io_error(&FOLDERS.join(" and "), taken))
    }

    /// Whether the name was free; then the whole file is there, on disk.
    fn put_new(&self, path: &str, content: &[u8]) -> Result<bool> {
        refuse_git(path, path)?;
        let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
        let folder = self.open(parent, Open::Folder)?;
        let temporary = temporary_name();
        let file = self.open(&format!("{parent}/{temporary}"), Open::New)?;
        let put = fill(file, content, None).and_then(|()| {
            let free = RenameFlags::RENAME_NOREPLACE;
            match renameat2(&folder, temporary.as_str(), &folder, name, free) {
                Ok(()) => Ok(true),
                Err(Errno::EEXIST) => Ok(false),
                Err(errno) => Err(errno.into()),
            }
        });
        if !matches!(put, Ok(true)) {
            // The first failure is the one to report; a left-over is hidden and harmless.
            let _ = unlinkat(&folder, temporary.as_str(), UnlinkatFlags::NoRemoveDir);
        }
        let put = put.map_err(|error| io_error(path, error))?;
        folder.sync_all().map_err(|error| io_error(path, error))?;
        Ok(put)
    }
}
