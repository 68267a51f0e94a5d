//! A clean room: a private folder with links to sources and empty MCP configurations, in which another agent answers.
//!
//! It goes when it is dropped, and never through a link. One whose process was killed is held by nobody, and goes with
//! the next one that is made. It starts nothing.

use super::clock;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;
use uuid::{Builder, Uuid};

/// How names of clean rooms begin; a UUID follows.
const PREFIX: &str = "lctx-";
/// Agents that look here for MCP servers find none: no agent reaches another one, or itself again.
const MCP_CONFIGS: [(&str, &str); 4] = [
    // Claude Code refuses one that does not say so.
    (MCP_CONFIG, "{\"mcpServers\":{}}\n"),
    (".gemini/settings.json", "{}\n"),
    (".cursor/mcp.json", "{}\n"),
    ("opencode.json", "{}\n"),
];
const MCP_CONFIG: &str = ".mcp.json";
const PROMPT: &str = "prompt.md";
/// Between the making of a folder and the hold on it; whoever sweeps meanwhile leaves it.
const HELD_WITHIN: Duration = Duration::from_secs(60);

/// The folder. Removed when it is dropped.
#[derive(Debug)]
pub struct CleanRoom {
    folder: PathBuf,
    _held: Flock<File>,
}

impl CleanRoom {
    /// Makes one below `parent`, with a link for every source: its name, and where it is.
    ///
    /// # Errors
    /// The folder cannot be made; nothing of it is left then.
    pub fn make(parent: &Path, sources: &[(String, PathBuf)]) -> io::Result<Self> {
        sweep(parent);
        let id = Builder::from_random_bytes(clock::random()).into_uuid();
        let folder = parent.canonicalize()?.join(format!("{PREFIX}{id}"));
        DirBuilder::new().mode(0o700).create(&folder)?;
        let held = hold(&folder).inspect_err(|_| drop(fs::remove_dir(&folder)))?;
        let room = Self {
            folder,
            _held: held,
        };
        for (name, no_servers) in MCP_CONFIGS {
            room.put(name, no_servers)?;
        }
        for (name, place) in sources {
            symlink(place, room.folder.join(name))?;
        }
        Ok(room)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The empty configuration that agents are pointed to.
    pub fn mcp_config(&self) -> PathBuf {
        self.folder.join(MCP_CONFIG)
    }

    /// Writes what is asked; where.
    ///
    /// # Errors
    /// The disk failed.
    pub fn put_prompt(&self, text: &str) -> io::Result<PathBuf> {
        self.put(PROMPT, text)?;
        Ok(self.folder.join(PROMPT))
    }

    fn put(&self, name: &str, text: &str) -> io::Result<()> {
        let path = self.folder.join(name);
        let parent = path.parent().unwrap_or(&self.folder);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
        let mut private = fs::OpenOptions::new();
        let mut file = private
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(text.as_bytes())
    }
}

impl Drop for CleanRoom {
    fn drop(&mut self) {
        // What is left is swept later. Links in it are removed, not followed.
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(%error, "a clean room is left behind");
        }
    }
}

/// Removes rooms below `parent` whose process is gone.
pub fn sweep(parent: &Path) {
    let me = nix::unistd::geteuid().as_raw();
    let is_old = |meta: &Metadata| {
        let age = meta.modified().ok().and_then(|then| then.elapsed().ok());
        age.is_some_and(|age| age > HELD_WITHIN)
    };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        // Of a link, this is the link.
        let Ok(meta) = path.symlink_metadata() else {
            continue;
        };
        if !is_room(&path) || !meta.is_dir() || meta.uid() != me || !is_old(&meta) {
            continue;
        }
        if let Ok(held) = hold(&path) {
            let _ = fs::remove_dir_all(&path); // or the next time
            drop(held);
        }
    }
}

fn is_room(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let id = name.and_then(|name| name.strip_prefix(PREFIX));
    id.is_some_and(|id| Uuid::try_parse(id).is_ok())
}

fn hold(folder: &Path) -> io::Result<Flock<File>> {
    let flags = nix::fcntl::OFlag::O_DIRECTORY | nix::fcntl::OFlag::O_NOFOLLOW;
    let mut only_itself = fs::OpenOptions::new();
    let file = only_itself
        .read(true)
        .custom_flags(flags.bits())
        .open(folder)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| io::Error::from(errno))
}
