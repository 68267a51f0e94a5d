//! The hooks of a workspace's repository: which there are, and one digest over every byte that decides what they do.
//!
//! It runs nothing, and changes nothing. Where hooks are looked for is read here and then told to git, so that what git
//! runs is what was looked at.

use crate::world::confine::rules::worktree_folders;
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Files that are looked at, and bytes of each.
const FILES_MAX: usize = 200;
const FILE_BYTES_MAX: u64 = 1_000_000;
const DEPTH_MAX: usize = 5;
/// What git runs around a commit.
const WITH_COMMIT: [&str; 6] = [
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-index-change",
    "reference-transaction",
];

/// The hooks of a repository, as they are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hooks {
    /// Where git finds them.
    pub folder: PathBuf,
    /// Those that git can run.
    pub files: Vec<Hook>,
    /// SHA-256 over names, modes and bytes of all files there; empty where git can run none.
    pub digest: String,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    pub name: String,
    pub bytes: u64,
    /// Whether a commit runs it.
    pub with_commit: bool,
}

impl Hooks {
    /// The hooks of the repository whose top folder is `root`.
    ///
    /// # Errors
    /// Why they can never run here, in words.
    pub fn of(root: &Path) -> Result<Self, String> {
        let none = |folder| Self {
            folder,
            files: Vec::new(),
            digest: String::new(),
        };
        let Some(common) = common_folder(root) else {
            return Ok(none(root.join(".git/hooks")));
        };
        let named = hooks_path(&common);
        let folder = match &named {
            None => common.join("hooks"),
            Some(path) => root.join(path),
        };
        let Ok(folder) = folder.canonicalize() else {
            return Ok(none(folder));
        };
        if !is_within(&folder, root, &common) {
            return Err(format!(
                "core.hooksPath leads out of the workspace, to {}",
                folder.display()
            ));
        }
        // husky's `_` only calls what lies beside it.
        let looked_at = match (folder.file_name(), folder.parent()) {
            (Some(name), Some(parent)) if name == "_" && parent != root => parent.to_owned(),
            _ => folder.clone(),
        };
        let mut seen = Vec::new();
        collect(&looked_at, "", &mut seen, (root, &common))?;
        seen.sort_by(|a, b| a.name.cmp(&b.name));
        let inner = folder.strip_prefix(&looked_at).unwrap_or(Path::new(""));
        let files: Vec<Hook> = seen
            .iter()
            .filter_map(|file| runnable(file, inner))
            .collect();
        let digest = match files.is_empty() {
            true => String::new(),
            false => digest(&seen),
        };
        Ok(Self {
            folder,
            files,
            digest,
        })
    }

    /// Those that a commit runs.
    pub fn with_commit(&self) -> Vec<&str> {
        let run = self.files.iter().filter(|hook| hook.with_commit);
        run.map(|hook| hook.name.as_str()).collect()
    }
}

struct Seen {
    /// From the folder that is looked at.
    name: String,
    executable: bool,
    content: Vec<u8>,
}

/// The folder with `config` and `hooks`.
fn common_folder(root: &Path) -> Option<PathBuf> {
    if let Some((_, common)) = worktree_folders(root) {
        return Some(common);
    }
    let own = root.join(".git");
    own.symlink_metadata().ok()?.is_dir().then_some(own)
}

fn is_within(path: &Path, root: &Path, common: &Path) -> bool {
    let common = common.canonicalize().unwrap_or_else(|_| common.to_owned());
    path.starts_with(root) || path.starts_with(common)
}

/// `core.hooksPath` of the repository's own configuration; what the person set for all repositories is not the
/// repository's.
fn hooks_path(common: &Path) -> Option<String> {
    let text = fs::read_to_string(common.join("config")).ok()?;
    let mut in_core = false;
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let name = section.split(']').next().unwrap_or_default();
            in_core = name.trim().eq_ignore_ascii_case("core");
        } else if let Some((key, value)) = line.split_once('=')
            && in_core
            && key.trim().eq_ignore_ascii_case("hookspath")
        {
            found = Some(value.trim().trim_matches('"').to_owned());
        }
    }
    found.filter(|path| !path.is_empty())
}

/// Every regular file, also through links that stay within; names of samples, which git never runs, left out.
fn collect(
    folder: &Path,
    prefix: &str,
    seen: &mut Vec<Seen>,
    bounds: (&Path, &Path),
) -> Result<(), String> {
    if prefix.matches('/').count() > DEPTH_MAX {
        return Err(format!("{} has too many folders", folder.display()));
    }
    let listing = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for entry in listing {
        let entry = entry.map_err(|e| format!("{}: {e}", folder.display()))?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if name.ends_with(".sample") {
            continue;
        }
        if seen.len() >= FILES_MAX {
            return Err(format!(
                "{} has more than {FILES_MAX} files",
                folder.display()
            ));
        }
        let Ok(path) = entry.path().canonicalize() else {
            continue; // a link that leads nowhere runs nothing
        };
        if !is_within(&path, bounds.0, bounds.1) {
            return Err(format!(
                "the hook {name} is a link that leads out of the workspace"
            ));
        }
        let meta = path.metadata().map_err(|e| format!("{name}: {e}"))?;
        if meta.is_dir() && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&path, &format!("{name}/"), seen, bounds)?;
        } else if meta.is_file() {
            if meta.len() > FILE_BYTES_MAX {
                return Err(format!(
                    "the hook {name} is larger than {FILE_BYTES_MAX} bytes"
                ));
            }
            let content = fs::read(&path).map_err(|e| format!("the hook {name}: {e}"))?;
            let executable = meta.permissions().mode() & 0o111 != 0;
            seen.push(Seen {
                name,
                executable,
                content,
            });
        } else {
            return Err(format!("the hook {name} is no regular file"));
        }
    }
    Ok(())
}

/// git runs executables of its folder, not of those below.
fn runnable(file: &Seen, inner: &Path) -> Option<Hook> {
    let name = Path::new(&file.name).strip_prefix(inner).ok()?.to_str()?;
    let could = file.executable && !name.contains('/') && !name.contains('.');
    could.then(|| Hook {
        name: name.to_owned(),
        bytes: file.content.len() as u64,
        with_commit: WITH_COMMIT.contains(&name),
    })
}

fn digest(seen: &[Seen]) -> String {
    let mut hasher = Sha256::new();
    for file in seen {
        hasher.update(format!(
            "{}\0{}\0{}\0",
            file.name,
            file.executable,
            file.content.len()
        ));
        hasher.update(&file.content);
    }
    hex::encode(hasher.finalize())
}
