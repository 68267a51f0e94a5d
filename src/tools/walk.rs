//! The files of a workspace that a model may see: not ignored, not hidden, in a stable order.
//!
//! `.gitignore` counts also without a repository, but never one from above the workspace. Names that start with a dot
//! are left out unless the call names them; `.git` always. Walking only gives names: files are opened by the workspace.

use crate::world::workspace::{Open, Tree, Workspace, WorkspaceError};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::WalkBuilder;
use ignore::types::{Types, TypesBuilder};
use std::path::{Path, PathBuf};

/// A walk stops here, and says so.
pub const WALK_FILES_MAX: usize = 100_000;

/// Where to look, and for which names.
pub struct Walk {
    base: String,
    globs: Option<GlobSet>,
    types: Option<Types>,
}

/// Whether to go on to the next file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    On,
    Stop,
}

/// How a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walked {
    All,
    Stopped,
    /// More files than [`WALK_FILES_MAX`].
    TooMany,
}

impl Walk {
    /// Errors are for the model: a folder that is not there, a glob that does not parse.
    pub fn new(
        workspace: &Workspace,
        path: Option<&str>,
        glob: Option<&str>,
    ) -> Result<Self, String> {
        let base = workspace
            .locate(path.unwrap_or("."))
            .map_err(|e| e.to_string())?;
        if base.split('/').any(|part| part == ".git") {
            return Err(format!(
                "{base} is below .git, which is never listed or searched; use the git tools"
            ));
        }
        let globs = glob.map(|glob| globs(glob, &base)).transpose()?;
        let types = None;
        Ok(Self { base, globs, types })
    }

    /// Only files of a type, by ripgrep's names: `rust`, `py`, `ts`.
    ///
    /// # Errors
    /// There is no such type; for the model.
    pub fn only(mut self, name: &str) -> Result<Self, String> {
        let mut types = TypesBuilder::new();
        types.add_defaults().select(name);
        let unknown = |_| format!("type {name:?} is not known; use glob, such as *.{name}");
        // `all` would leave out every file that no type knows.
        self.types = match name {
            "all" => None,
            _ => Some(types.build().map_err(unknown)?),
        };
        Ok(self)
    }

    /// Visits every file by its path relative to the root.
    pub fn files(
        &self,
        workspace: &Workspace,
        mut visit: impl FnMut(&str) -> Step,
    ) -> Result<Walked, String> {
        match workspace.open(&self.base, Open::Folder) {
            Ok(_) => {}
            Err(WorkspaceError::NotAFile { .. }) => {
                visit(&self.base); // the call named one file: neither glob nor ignore rules are asked
                return Ok(Walked::All);
            }
            Err(e) => return Err(e.to_string()),
        }
        let mut seen = 0;
        for tree in workspace.trees(&self.base) {
            let walked = self.visit(tree, &mut seen, &mut visit);
            if walked != Walked::All {
                return Ok(walked);
            }
        }
        Ok(Walked::All)
    }

    fn visit(
        &self,
        tree: Tree<'_>,
        seen: &mut usize,
        visit: &mut impl FnMut(&str) -> Step,
    ) -> Walked {
        if tree.is_file {
            let wanted = self.wants(tree.prefix);
            return match wanted.then(|| visit(tree.prefix)) {
                Some(Step::Stop) => Walked::Stopped,
                Some(Step::On) | None => Walked::All,
            };
        }
        for entry in self.builder(tree).build() {
            // What can't be read is left out, as by any search; the model sees the file missing, not the tool failing.
            let Ok(entry) = entry else { continue };
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            let inner = entry.path().strip_prefix(tree.root).ok();
            let Some(path) = inner.map(|inner| Path::new(tree.prefix).join(inner)) else {
                continue;
            };
            let Some(path) = path.to_str().filter(|path| self.wants(path)) else {
                continue;
            };
            *seen += 1;
            if *seen > WALK_FILES_MAX {
                return Walked::TooMany;
            }
            if visit(path) == Step::Stop {
                return Walked::Stopped;
            }
        }
        Walked::All
    }

    /// By its name and type.
    fn wants(&self, path: &str) -> bool {
        let globs = self.globs.as_ref();
        let types = self.types.as_ref();
        globs.is_none_or(|globs| globs.is_match(path))
            && types.is_none_or(|types| types.matched(path, false).is_whitelist())
    }

    /// Walks from the root, so that its ignore rules hold, but only down to and below the base.
    fn builder(&self, tree: Tree<'_>) -> WalkBuilder {
        let inner =
            (self.base.strip_prefix(tree.prefix)).map_or("", |rest| rest.trim_start_matches('/'));
        let base: PathBuf = match inner {
            "" | "." => tree.root.into(),
            inner => tree.root.join(inner),
        };
        let mut builder = WalkBuilder::new(tree.root);
        builder
            .hidden(false)
            .parents(false)
            .require_git(false)
            .git_global(false)
            .follow_links(false);
        builder.sort_by_file_path(Path::cmp);
        builder.filter_entry(move |entry| {
            let path = entry.path();
            if base.starts_with(path) {
                return true;
            }
            let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            path.starts_with(&base) && !hidden
        });
        builder
    }
}

/// A glob without a slash fits a name at any depth; with one, a path from the root or from the base.
fn globs(glob: &str, base: &str) -> Result<GlobSet, String> {
    let wrong =
        |e: globset::Error| format!("glob {glob:?}: {}; examples: *.rs, src/**/*.py", e.kind());
    let mut texts = vec![glob.trim_start_matches("./").to_owned()];
    if !glob.contains('/') {
        texts = vec![format!("**/{glob}")];
    } else if base != "." {
        texts.push(format!("{}/{glob}", globset::escape(base)));
    }
    let mut set = GlobSetBuilder::new();
    for text in texts {
        set.add(
            GlobBuilder::new(&text)
                .literal_separator(true)
                .build()
                .map_err(wrong)?,
        );
    }
    set.build().map_err(wrong)
}

/// Whether a file's name says that it holds secrets. Names are matched as names: `test_valid_rsa.py` is fine.
pub fn is_secret(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    if let Some(rest) = name.strip_prefix(".env") {
        return ![".example", ".sample", ".template", ".dist"].contains(&rest); // made to be shared
    }
    let exact = [
        "id_rsa",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
        ".netrc",
        ".pgpass",
        ".git-credentials",
        ".htpasswd",
    ];
    let endings = [".pem", ".key", ".p12", ".pfx", ".jks", ".keystore"];
    exact.contains(&name.as_str()) || endings.iter().any(|ending| name.ends_with(ending))
}
