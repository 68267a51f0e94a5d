//! Sources: folders and files that lie elsewhere, each under a name at the root of a workspace. They are read, never
//! written, and nothing beside them is.

use super::{Open, Result, Workspace, WorkspaceError};
use crate::agent::event::WorkspaceRef;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One source, by a handle of its folder, or of the folder that a file is in.
#[derive(Debug)]
pub(super) struct Source {
    name: String,
    folder: File,
    /// Canonical; the file itself where it is one.
    path: PathBuf,
    /// Below `folder`.
    file: Option<String>,
}

/// What a walk goes over: all of it has paths that begin with `prefix`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tree<'a> {
    /// Empty, or the name of a source.
    pub prefix: &'a str,
    pub root: &'a Path,
    pub is_file: bool,
}

impl Workspace {
    /// With sources at its root.
    ///
    /// # Errors
    /// One of them is gone, or is neither a folder nor a file.
    pub fn with_sources(self, sources: &[WorkspaceRef]) -> io::Result<Self> {
        if sources.is_empty() {
            return Ok(self);
        }
        let sources: io::Result<Vec<Source>> = sources.iter().map(held).collect();
        Ok(Self {
            sources: Arc::from(sources?),
            ..self
        })
    }

    /// The handle beneath which a path lies, and the path beneath it.
    pub(super) fn beneath<'a>(
        &'a self,
        path: &str,
        relative: &'a str,
        how: Open,
    ) -> Result<(&'a File, &'a str)> {
        let (first, rest) = relative.split_once('/').unwrap_or((relative, "."));
        let Some(source) = self.sources.iter().find(|source| source.name == first) else {
            return Ok((&self.root, relative));
        };
        match &source.file {
            _ if how == Open::New => Err(WorkspaceError::Source { path: path.into() }),
            None => Ok((&source.folder, rest)),
            Some(file) if rest == "." => Ok((&source.folder, file)),
            Some(_) => Err(WorkspaceError::NotFound { path: path.into() }),
        }
    }

    /// What a path of this machine is called here, if it lies in the workspace or in a source.
    pub(super) fn called(&self, real: &Path) -> Option<PathBuf> {
        let inside = real.strip_prefix(&self.path).ok().map(PathBuf::from);
        inside.or_else(|| {
            self.sources.iter().find_map(|source| {
                let inner = real.strip_prefix(&source.path).ok()?;
                let name = Path::new(&source.name);
                match inner.as_os_str().is_empty() {
                    true => Some(name.to_owned()),
                    false => Some(name.join(inner)),
                }
            })
        })
    }

    /// Where sources really are.
    pub fn source_paths(&self) -> Vec<PathBuf> {
        let sources = self.sources.iter();
        sources.map(|source| source.path.clone()).collect()
    }

    /// What is walked to visit `base`: the source that it is in, else the workspace, and at its root every source.
    pub fn trees(&self, base: &str) -> Vec<Tree<'_>> {
        let sources = self.sources.iter().map(|source| Tree {
            prefix: &source.name,
            root: &source.path,
            is_file: source.file.is_some(),
        });
        let own = Tree {
            prefix: "",
            root: &self.path,
            is_file: false,
        };
        let first = base.split('/').next().unwrap_or_default();
        if let Some(source) = sources.clone().find(|source| source.prefix == first) {
            return vec![source];
        }
        match base {
            "." => std::iter::once(own).chain(sources).collect(),
            _ => vec![own],
        }
    }
}

fn held(source: &WorkspaceRef) -> io::Result<Source> {
    let path = Path::new(&source.path).canonicalize()?;
    let meta = path.metadata()?;
    let name = source.name.clone();
    let odd = |what: &str| io::Error::other(format!("{}: {what}", path.display()));
    if meta.is_dir() {
        return Ok(Source {
            name,
            folder: File::open(&path)?,
            path,
            file: None,
        });
    }
    if !meta.is_file() {
        return Err(odd("neither a folder nor a file"));
    }
    let (Some(parent), Some(file)) = (path.parent(), path.file_name()) else {
        return Err(odd("it has no folder"));
    };
    let file = file.to_str().ok_or_else(|| odd("the name is not UTF-8"))?;
    Ok(Source {
        name,
        folder: File::open(parent)?,
        file: Some(file.to_owned()),
        path: path.clone(),
    })
}
