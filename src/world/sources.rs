//! Sources on this machine: the file that names them, and the copies of repositories.
//!
//! `sources.toml` and `sources/git/NAME` stand in the configuration folder. A copy is there as a whole or not at all, and
//! is replaced in one step.

use super::process::Processes;
use super::projects::Projects;
use super::remote::{Hosting, Remote};
use crate::agent::event::CallId;
use crate::subagent::source::{Kind, Source, Sources};
use nix::fcntl::{AT_FDCWD, Flock, FlockArg, RenameFlags, renameat2};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Where they are.
#[derive(Debug, Clone)]
pub struct Library {
    file: PathBuf,
    copies: PathBuf,
}

impl Library {
    /// Those of a configuration folder.
    pub fn of(home: &Path) -> Self {
        Self {
            file: home.join("sources.toml"),
            copies: home.join("sources/git"),
        }
    }

    /// # Errors
    /// The file cannot be read; what is wrong with it.
    pub fn read(&self) -> Result<Sources, String> {
        let wrong = |why: String| format!("{}: {why}", self.file.display());
        match fs::read_to_string(&self.file) {
            Ok(text) => Sources::parse(&text).map_err(wrong),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Sources::default()),
            Err(error) => Err(wrong(error.to_string())),
        }
    }

    /// Changes the list; whoever else changes it at the same time waits.
    ///
    /// # Errors
    /// Those of `change`, and of the disk; then the file is as it was.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut Sources) -> Result<T, String>,
    ) -> Result<T, String> {
        let folder = self.copies()?;
        let held = File::open(&folder).map_err(|error| failed(&folder, error))?;
        let _held = Flock::lock(held, FlockArg::LockExclusive)
            .map_err(|(_, errno)| failed(&folder, errno.into()))?;
        let mut sources = self.read()?;
        let changed = change(&mut sources)?;
        self.put(&sources.text())
            .map_err(|error| failed(&self.file, error))?;
        Ok(changed)
    }

    fn put(&self, text: &str) -> io::Result<()> {
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(&self.file)?;
        File::open(folder)?.sync_all()
    }

    /// Where a source can be looked at.
    ///
    /// # Errors
    /// It is not there, or is something else by now; what to do.
    pub fn place(&self, source: &Source) -> Result<PathBuf, String> {
        let (place, remedy) = match source.kind {
            Kind::Git => (
                self.copies.join(&source.name),
                "`journeyman sources sync` fetches it",
            ),
            Kind::File | Kind::Directory => (
                PathBuf::from(&source.place),
                "`journeyman sources remove` and `add` name it anew",
            ),
        };
        let is_there = match source.is_folder() {
            true => place.is_dir(),
            false => place.is_file(),
        };
        match is_there {
            true => Ok(place),
            false => Err(format!(
                "the source {} is not at {}; {remedy}",
                source.name,
                place.display()
            )),
        }
    }

    /// Copies a repository anew, without its history.
    ///
    /// # Errors
    /// In words; the copy that was there is left.
    pub async fn fetch(
        &self,
        source: &Source,
        processes: &Processes,
        hosting: &Hosting,
    ) -> Result<(), String> {
        let copies = Projects::at(&self.copies()?);
        copies.sweep();
        let name = &source.name;
        let busy =
            |error| format!("no room for the copy (does another process fetch it?): {error}");
        let staged = copies.stage(name).map_err(busy)?;
        let remote = Remote {
            processes,
            call: &CallId("sources".into()),
            root: copies.root(),
            hosting,
        };
        let switches = ["--progress", "--depth=1", "--single-branch", "--no-tags"];
        let fetched = remote
            .fetch_into(&staged.folder, &source.place, name, &switches)
            .await;
        let put = fetched.and_then(|()| {
            replace(&staged.folder.join(name), &copies.root().join(name))
                .map_err(|error| format!("the copy could not be put in place: {error}"))
        });
        // What a killed process leaves goes with the next one.
        let _ = fs::remove_dir_all(&staged.folder);
        put
    }

    /// Removes the copy of a repository.
    ///
    /// # Errors
    /// The disk failed.
    pub fn forget(&self, name: &str) -> Result<(), String> {
        let copy = self.copies.join(name);
        match fs::remove_dir_all(&copy) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&copy, error)),
            _ => Ok(()),
        }
    }

    fn copies(&self) -> Result<PathBuf, String> {
        let mut private = DirBuilder::new();
        let made = private.recursive(true).mode(0o700).create(&self.copies);
        made.map_err(|error| failed(&self.copies, error))?;
        Ok(self.copies.clone())
    }
}

/// Puts a folder where another one is or not; the other one is then where this one was.
fn replace(fresh: &Path, place: &Path) -> io::Result<()> {
    let swap = |flags| renameat2(AT_FDCWD, fresh, AT_FDCWD, place, flags);
    match swap(RenameFlags::RENAME_NOREPLACE) {
        Err(nix::errno::Errno::EEXIST) => swap(RenameFlags::RENAME_EXCHANGE)?,
        put => put?,
    }
    let parent = place.parent().unwrap_or(Path::new("/"));
    File::open(parent)?.sync_all()
}

fn failed(path: &Path, error: io::Error) -> String {
    format!("{}: {error}", path.display())
}
