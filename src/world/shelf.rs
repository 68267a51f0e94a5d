//! Definitions as they stand in folders: found by their places, read through the folder's handle, remembered by when
//! they were changed.
//!
//! It knows nothing of trust: who asks says whether texts may be read. A link that leads out of the folder, a FIFO, a
//! secret, a file that is too large and a name that is none are problems, never definitions.

use super::workspace::{Open, Workspace, WorkspaceError, digest_of};
use crate::definitions::front_matter::split;
use crate::definitions::hidden;
use crate::definitions::places::{self, Placed, Searched};
use crate::definitions::skills::FILE;
use crate::definitions::{Bounds, Definition, FrontMatter, Kind, Origin, Problem};
use crate::definitions::{allowed, template};
use crate::tools::is_secret;
use nix::dir::{Dir, Type};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

/// Where definitions are found. Cheap to clone; clones remember together.
#[derive(Clone)]
pub struct Shelf {
    /// The configuration folder.
    pub user: PathBuf,
    pub bounds: Bounds,
    known: Arc<Mutex<Known>>,
}

type Known = HashMap<(PathBuf, String), (Stamp, Arc<Definition>)>;

/// Definitions that are remembered, as many times those of one folder; then all are forgotten.
const FOLDERS_KNOWN_MAX: usize = 8;
/// Entries of a folder that are looked at, as many times the definitions.
const ENTRIES_A_DEFINITION: usize = 20;

/// Files of a skill that are listed.
const RESOURCES_MAX: usize = 100;

/// Which state of a file was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What was found in one folder.
#[derive(Debug, Default)]
pub struct Found {
    pub definitions: Vec<Arc<Definition>>,
    pub problems: Vec<Problem>,
}

impl Shelf {
    pub fn new(user: PathBuf, bounds: Bounds) -> Self {
        let known = Arc::default();
        Self {
            user,
            bounds,
            known,
        }
    }

    /// What stands in the places of `origin` below `root`; where they may not be read, only their names.
    pub fn find(&self, root: &Workspace, origin: Origin, may_read: bool) -> Found {
        let mut search = Search {
            shelf: self,
            root,
            origin,
            may_read,
            found: Found::default(),
            entries: 0,
        };
        for folder in places::folders(origin) {
            search.place(folder);
        }
        for path in places::files(origin) {
            search.file(&path, true);
        }
        search.found
    }

    /// Whether `root` has none of the places of `origin`.
    pub fn is_empty(&self, root: &Workspace, origin: Origin) -> bool {
        let is_there = |path: &str, how| is_there(root, path, how);
        let folders = places::folders(origin);
        let files = places::files(origin);
        !folders.iter().any(|one| is_there(one.folder, Open::Folder))
            && !files.iter().any(|path| is_there(path, Open::Read))
    }

    /// Whether `root` has none of the places of `origin` for commands.
    pub fn lacks_commands(&self, root: &Workspace, origin: Origin) -> bool {
        let mut folders = places::command_folders(origin).into_iter();
        !folders.any(|folder| is_there(root, folder, Open::Folder))
    }

    /// A text below `root`, whole; a link counts as what it leads to.
    ///
    /// # Errors
    /// Why it is not read, in words.
    pub fn text(&self, root: &Workspace, path: &str) -> Result<String, String> {
        let place = root.locate(path).map_err(|error| error.to_string())?;
        refuse_hidden(&place)?;
        let file = root
            .open(&place, Open::Read)
            .map_err(|error| error.to_string())?;
        read(&file, self.bounds.bytes_max)
    }

    /// Files below a folder besides its [`FILE`](crate::definitions::skills::FILE), a bounded number, by their paths in it.
    pub fn beside(&self, root: &Workspace, folder: &str) -> Vec<String> {
        let mut names = Vec::new();
        let mut open = vec![(String::new(), 0)];
        while let Some((inner, depth)) = open.pop() {
            let entries = root
                .open(&format!("{folder}{inner}"), Open::Folder)
                .ok()
                .and_then(|one| entries(one).ok());
            for (name, kind) in entries.unwrap_or_default() {
                let path = format!("{inner}{name}");
                match kind {
                    Type::Directory if depth < self.bounds.depth_max => {
                        open.push((format!("{path}/"), depth + 1))
                    }
                    Type::File if path != FILE && !is_secret(&path) => names.push(path),
                    _ => {}
                }
                if names.len() >= RESOURCES_MAX {
                    names.push(format!("[and more: only {RESOURCES_MAX} are listed]"));
                    return names;
                }
            }
        }
        names.sort();
        names
    }

    fn remembered(&self, key: &(PathBuf, String), stamp: Stamp) -> Option<Arc<Definition>> {
        let known = self.known();
        let (then, definition) = known.get(key)?;
        (*then == stamp).then(|| definition.clone())
    }

    fn remember(&self, key: (PathBuf, String), stamp: Stamp, definition: &Arc<Definition>) {
        let mut known = self.known();
        if known.len() >= self.bounds.count_max.saturating_mul(FOLDERS_KNOWN_MAX) {
            known.clear();
        }
        known.insert(key, (stamp, definition.clone()));
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Each change is one insertion: a panic elsewhere cannot have left it half done.
        self.known
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Whether something stands there, whatever it is.
fn is_there(root: &Workspace, path: &str, how: Open) -> bool {
    !matches!(root.open(path, how), Err(WorkspaceError::NotFound { .. }))
}

/// A search under way.
struct Search<'a> {
    shelf: &'a Shelf,
    root: &'a Workspace,
    origin: Origin,
    may_read: bool,
    found: Found,
    entries: usize,
}

impl Search<'_> {
    fn place(&mut self, searched: Searched) {
        let depth = match (searched.below, searched.deep) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => self.shelf.bounds.depth_max,
        };
        // A link to elsewhere in the workspace is followed; what it leads to is looked at more closely.
        let linked = self
            .root
            .locate(searched.folder)
            .is_ok_and(|place| place != searched.folder);
        self.folder(searched.folder, depth, searched.deep, linked);
    }

    fn folder(&mut self, path: &str, depth: usize, deep: bool, linked: bool) {
        let opened = match self.root.open(path, Open::Folder) {
            Ok(opened) => opened,
            Err(WorkspaceError::NotFound { .. } | WorkspaceError::NotAFile { .. }) => return,
            Err(error) => return self.problem(path, error.to_string()),
        };
        let entries = match entries(opened) {
            Ok(entries) => entries,
            Err(why) => return self.problem(path, why),
        };
        for (name, kind) in entries {
            self.entries += 1;
            let bounds = self.shelf.bounds;
            if self.entries > bounds.count_max.saturating_mul(ENTRIES_A_DEFINITION) {
                return self.problem(path, "too many files: the rest is not looked at".into());
            }
            let below = format!("{path}/{name}");
            let is_link = kind == Type::Symlink;
            match kind {
                Type::Directory if depth > 0 => self.folder(&below, depth - 1, deep, linked),
                Type::Directory if deep => {
                    let max = bounds.depth_max;
                    self.problem(
                        &below,
                        format!("more than {max} folders deep: not looked at"),
                    );
                }
                Type::Directory => {}
                _ if places::placed(self.origin, &below).is_some() => {
                    self.file(&below, linked || is_link)
                }
                Type::Symlink if depth > 0 => self.folder(&below, depth - 1, deep, true),
                _ => {}
            }
        }
    }

    /// A file at a definition's place, if it is there.
    fn file(&mut self, path: &str, linked: bool) {
        let placed = match places::placed(self.origin, path) {
            None => return,
            Some(Err(why)) => return self.problem(path, why),
            Some(Ok(placed)) => placed,
        };
        if self.found.definitions.len() >= self.shelf.bounds.count_max {
            let max = self.shelf.bounds.count_max;
            return self.problem(
                "",
                format!("more than {max} definitions: the rest is left out"),
            );
        }
        match self.definition(path, placed, linked) {
            Ok(Some(definition)) => {
                for what in definition.front.warning.iter().chain(&definition.warnings) {
                    self.problem(path, what.clone());
                }
                self.found.definitions.push(definition);
            }
            Ok(None) => {}
            Err(why) => self.problem(path, why),
        }
    }

    fn definition(
        &self,
        path: &str,
        placed: Placed,
        linked: bool,
    ) -> Result<Option<Arc<Definition>>, String> {
        let file = match self.root.open(path, Open::Read) {
            Ok(file) => file,
            Err(WorkspaceError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        if linked {
            refuse_hidden(&self.root.locate(path).map_err(|error| error.to_string())?)?;
        }
        let metadata = file.metadata().map_err(|error| error.to_string())?;
        let definition = |front: FrontMatter, warnings: Vec<String>, digest: String| {
            Arc::new(Definition {
                kind: placed.kind,
                id: placed.id.clone(),
                origin: self.origin,
                path: path.to_owned(),
                rank: placed.rank,
                trusted: self.may_read,
                front,
                warnings,
                digest,
                bytes: metadata.len(),
            })
        };
        if !self.may_read {
            return Ok(Some(definition(
                FrontMatter::default(),
                Vec::new(),
                String::new(),
            )));
        }
        let stamp = Stamp {
            file: (metadata.dev(), metadata.ino()),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        };
        let key = (self.root.root().to_owned(), path.to_owned());
        if let Some(known) = self.shelf.remembered(&key, stamp) {
            return Ok(Some(known));
        }
        let text = read(&file, self.shelf.bounds.bytes_max)?;
        let (front, body) = split(&text);
        let mut warnings: Vec<String> = hidden::warning(&text).into_iter().collect();
        if placed.kind == Kind::Command {
            let commands = template::commands(body);
            warnings.extend(allowed::problems(&front.keys, &commands));
        }
        let read = definition(front, warnings, digest_of(text.as_bytes()));
        self.shelf.remember(key, stamp, &read);
        Ok(Some(read))
    }

    fn problem(&mut self, path: &str, what: String) {
        let problem = Problem {
            path: path.to_owned(),
            what,
        };
        if !self.found.problems.contains(&problem) {
            self.found.problems.push(problem);
        }
    }
}

/// Names and kinds of what a folder holds, in order, without what is hidden.
fn entries(folder: File) -> Result<Vec<(String, Type)>, String> {
    let mut dir = Dir::from_fd(OwnedFd::from(folder)).map_err(|errno| errno.to_string())?;
    let mut entries = Vec::new();
    for entry in dir.iter() {
        let entry = entry.map_err(|errno| errno.to_string())?;
        let Ok(name) = entry.file_name().to_str() else {
            continue;
        };
        if !name.starts_with('.') {
            // Where the file system does not tell, opening it will.
            entries.push((name.to_owned(), entry.file_type().unwrap_or(Type::Symlink)));
        }
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(entries)
}

fn refuse_hidden(place: &str) -> Result<(), String> {
    match is_secret(place) || place.split('/').any(|part| part == ".git") {
        true => Err(format!("it is a link to {place}, which is never shown")),
        false => Ok(()),
    }
}

/// UTF-8, at most so many bytes.
fn read(file: &File, bytes_max: u64) -> Result<String, String> {
    let mut bytes = Vec::new();
    file.take(bytes_max + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > bytes_max {
        return Err(format!(
            "it has more than {bytes_max} bytes: it is not read"
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("it is not text: invalid UTF-8 at byte {at}")
    })
}
