//! The folder that a session works in, held by a directory handle: a name that leads out of it does not open.
//!
//! [`Workspace::open`] is the one function that opens a file for the model. The kernel resolves every path beneath the
//! handle (`openat2`), so neither `..` nor a link nor a folder swapped in between leads outside. This module decides
//! nothing about what may be read or written: that was judged before. Its one rule of its own is that nothing is
//! written below `.git`, whose hooks and configuration run programs.

/// Files that a person sent.
mod inbox;
/// Names of files, taken away and changed.
mod names;
/// What lies elsewhere and is read.
mod sources;
/// Several files at once.
mod swap;

pub use sources::Tree;
pub use swap::{Mode as FileMode, Standing, Swap};

use super::notes::Notes;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2, renameat};
use nix::sys::stat::{Mode, fchmod, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest file that is read or written as text.
pub const TEXT_BYTES_MAX: u64 = 10_000_000;
/// `openat2` says EAGAIN when a folder was renamed during the look-up; so often is it tried again.
const OPEN_TRIES_MAX: usize = 16;
/// A NUL this early means that a file is no text.
const BINARY_PROBE_BYTES: usize = 8_000;

/// A folder, by handle, and what its session knows about it. Cheap to clone; clones share both.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: Arc<File>,
    path: Arc<Path>,
    notes: Arc<Notes>,
    /// Folders besides it that commands may read.
    links: Arc<[PathBuf]>,
    sources: Arc<[sources::Source]>,
}

/// What a path is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// An existing regular file, for reading.
    Read,
    /// An existing folder.
    Folder,
    /// A file that must not exist yet, for writing.
    New,
}

/// Why a path could not be used; the text is for a model.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("{path}: no such file or folder in the workspace; list_files shows what is there")]
    NotFound { path: String },
    #[error(
        "{path} leads outside the workspace (by `..`, an absolute path or a link); use a path beneath the workspace"
    )]
    Leaves { path: String },
    #[error("{path} is {what}; only regular files can be read or written")]
    NotAFile { path: String, what: &'static str },
    #[error("{path} is a source: sources are read, and never changed")]
    Source { path: String },
    #[error("{path} is below .git, where nothing is written; use the git tools")]
    GitInternals { path: String },
    #[error("{path} has {bytes} bytes; at most {TEXT_BYTES_MAX} are read or written as text")]
    TooLarge { path: String, bytes: u64 },
    #[error(
        "{path} is not text: invalid UTF-8 or a NUL at byte {offset}; it can't be read or edited here"
    )]
    NotUtf8 { path: String, offset: usize },
    #[error("{path}: {source}")]
    Io { path: String, source: io::Error },
}

type Result<T> = std::result::Result<T, WorkspaceError>;

impl Workspace {
    /// Takes hold of a folder. Its own path may contain links; they are followed once, here.
    pub fn at(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let root = File::open(&path)?;
        if !root.metadata()?.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                format!("{} is no folder", path.display()),
            ));
        }
        Ok(Self {
            root: Arc::new(root),
            path: path.into(),
            notes: Arc::default(),
            links: Arc::default(),
            sources: Arc::default(),
        })
    }

    /// With folders that are linked into it.
    pub fn with_links(self, links: &[String]) -> Self {
        let links = links.iter().map(PathBuf::from).collect();
        Self { links, ..self }
    }

    pub fn links(&self) -> &[PathBuf] {
        &self.links
    }

    /// What the session has read and written here.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Absolute and canonical.
    pub fn root(&self) -> &Path {
        &self.path
    }

    /// Opens a path beneath the workspace. Devices, FIFOs and sockets are refused, and never waited for.
    pub fn open(&self, path: &str, how: Open) -> Result<File> {
        let relative = self.relative(path)?;
        let (flags, mode) = match how {
            Open::Read => (OFlag::O_RDONLY, Mode::empty()),
            Open::Folder => (OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty()),
            Open::New => (
                OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL,
                Mode::from_bits_truncate(0o666),
            ),
        };
        let how_to = OpenHow::new()
            .flags(flags | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC)
            .mode(mode)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let (folder, inner) = self.beneath(path, &relative, how)?;
        let mut tries = 1;
        let file = loop {
            match openat2(folder, inner, how_to) {
                Ok(handle) => break File::from(handle),
                Err(Errno::EAGAIN | Errno::EINTR) if tries < OPEN_TRIES_MAX => tries += 1,
                Err(errno) => return Err(refusal(path, how, errno)),
            }
        };
        let kind = file.metadata().map_err(|e| io_error(path, e))?.file_type();
        let what = match how {
            Open::Folder => return Ok(file),
            Open::Read | Open::New if kind.is_file() => return Ok(file),
            Open::Read | Open::New if kind.is_dir() => "a folder",
            Open::Read | Open::New if kind.is_fifo() => "a FIFO",
            Open::Read | Open::New => "a device",
        };
        Err(WorkspaceError::NotAFile {
            path: path.into(),
            what,
        })
    }

    /// A whole text file. Line ends and a byte order mark stay as they are.
    pub fn read_text(&self, path: &str) -> Result<String> {
        let (content, _) = self.read_bytes(path)?;
        let probe = &content[..content.len().min(BINARY_PROBE_BYTES)];
        if let Some(offset) = probe.iter().position(|b| *b == 0) {
            return Err(WorkspaceError::NotUtf8 {
                path: path.into(),
                offset,
            });
        }
        String::from_utf8(content).map_err(|e| WorkspaceError::NotUtf8 {
            path: path.into(),
            offset: e.utf8_error().valid_up_to(),
        })
    }

    /// A whole file that is small enough for a text, and its permission bits.
    pub fn read_bytes(&self, path: &str) -> Result<(Vec<u8>, u32)> {
        let file = self.open(path, Open::Read)?;
        let metadata = file.metadata().map_err(|e| io_error(path, e))?;
        let too_large = |bytes| WorkspaceError::TooLarge {
            path: path.into(),
            bytes,
        };
        let bytes = metadata.len();
        if bytes > TEXT_BYTES_MAX {
            return Err(too_large(bytes));
        }
        let mut content = Vec::with_capacity(bytes as usize);
        // One byte more than allowed shows that the file grew while it was read.
        file.take(TEXT_BYTES_MAX + 1)
            .read_to_end(&mut content)
            .map_err(|e| io_error(path, e))?;
        match content.len() as u64 {
            bytes if bytes > TEXT_BYTES_MAX => Err(too_large(bytes)),
            _ => Ok((content, metadata.permissions().mode() & 0o7777)),
        }
    }

    /// Puts a file in place as a whole or not at all. Keeps the mode of a file that is there, follows a link that stays
    /// in the workspace, and makes missing parent folders.
    pub fn write_atomic(&self, path: &str, content: &[u8]) -> Result<()> {
        let bytes = content.len() as u64;
        if bytes > TEXT_BYTES_MAX {
            return Err(WorkspaceError::TooLarge {
                path: path.into(),
                bytes,
            });
        }
        let (target, mode) = match self.open(path, Open::Read) {
            Ok(file) => {
                let mode = file
                    .metadata()
                    .map_err(|e| io_error(path, e))?
                    .permissions()
                    .mode()
                    & 0o7777;
                (self.place(&file, path)?, Some(mode))
            }
            Err(WorkspaceError::NotFound { .. }) => (self.relative(path)?, None),
            Err(e) => return Err(e),
        };
        let (parent, name) = target.rsplit_once('/').unwrap_or((".", &target));
        if name == "." || name == ".." {
            return Err(WorkspaceError::NotAFile {
                path: path.into(),
                what: "a folder",
            });
        }
        refuse_git(path, &target)?; // before a folder is made there
        let folder = self.folder(parent)?;
        let parent = self.place(&folder, path)?;
        refuse_git(path, &format!("{parent}/{name}"))?;
        if mode.is_none() && fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok() {
            return Err(WorkspaceError::NotAFile {
                path: path.into(),
                what: "a link that leads nowhere",
            });
        }
        let temporary = temporary_name();
        let file = self.open(&format!("{parent}/{temporary}"), Open::New)?;
        let put = fill(file, content, mode)
            .and_then(|()| Ok(renameat(&folder, temporary.as_str(), &folder, name)?));
        if let Err(e) = put {
            // The first error is the one to report; a left-over is hidden and harmless.
            let _ = unlinkat(&folder, temporary.as_str(), UnlinkatFlags::NoRemoveDir);
            return Err(io_error(path, e));
        }
        folder.sync_all().map_err(|e| io_error(path, e))
    }

    /// SHA-256 of a file's bytes in hex; `None` where there is no such file to read.
    pub fn digest(&self, path: &str) -> Option<String> {
        let mut file = self.open(path, Open::Read).ok()?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match file.read(&mut buffer).ok()? {
                0 => return Some(hex::encode(hasher.finalize())),
                n => hasher.update(&buffer[..n]),
            }
        }
    }

    /// The path relative to the root, without `.` and empty parts. `..` stays: only the kernel knows where it leads.
    pub fn relative(&self, path: &str) -> Result<String> {
        let leaves = || WorkspaceError::Leaves { path: path.into() };
        let inner = match path.starts_with('/') {
            true => (self.called(Path::new(path)))
                .and_then(|inner| inner.into_os_string().into_string().ok())
                .ok_or_else(leaves)?,
            false => path.to_owned(),
        };
        let parts: Vec<&str> = inner
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
            .collect();
        Ok(if parts.is_empty() {
            ".".into()
        } else {
            parts.join("/")
        })
    }

    /// Where an existing file or folder really is, relative to the root: with links followed, one name for one file.
    pub fn locate(&self, path: &str) -> Result<String> {
        match self.open(path, Open::Read) {
            Ok(file) => self.place(&file, path),
            Err(WorkspaceError::NotAFile {
                what: "a folder", ..
            }) => self.place(&self.open(path, Open::Folder)?, path),
            Err(e) => Err(e),
        }
    }

    /// Opens a file for reading, and says where what was opened really is.
    pub fn open_located(&self, path: &str) -> Result<(File, String)> {
        let file = self.open(path, Open::Read)?;
        let place = self.place(&file, path)?;
        Ok((file, place))
    }

    fn place(&self, open: &File, path: &str) -> Result<String> {
        let real = std::fs::read_link(format!("/proc/self/fd/{}", open.as_raw_fd()))
            .map_err(|e| io_error(path, e))?;
        let leaves = || WorkspaceError::Leaves { path: path.into() };
        let place = self.called(&real).ok_or_else(leaves)?;
        match place.to_str() {
            Some("") => Ok(".".into()),
            Some(place) => Ok(place.into()),
            None => Err(io_error(path, io::Error::other("the name is not UTF-8"))),
        }
    }

    /// Opens a folder, making what is missing of it. Every step goes through [`Workspace::open`], so none leaves.
    fn folder(&self, path: &str) -> Result<File> {
        match self.open(path, Open::Folder) {
            Err(WorkspaceError::NotFound { .. }) => {}
            found => return found,
        }
        let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
        let parent = self.folder(parent)?;
        match mkdirat(&parent, name, Mode::from_bits_truncate(0o777)) {
            Ok(()) | Err(Errno::EEXIST) => self.open(path, Open::Folder),
            Err(errno) => Err(io_error(path, errno.into())),
        }
    }
}

/// SHA-256 in hex.
pub fn digest_of(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn fill(mut file: File, content: &[u8], mode: Option<u32>) -> io::Result<()> {
    file.write_all(content)?;
    if let Some(mode) = mode {
        fchmod(&file, Mode::from_bits_truncate(mode))?;
    }
    file.sync_all()
}

/// Hidden, and unique in this folder as long as two processes have different ids.
fn temporary_name() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let nanos = std::time::UNIX_EPOCH
        .elapsed()
        .map(|d| d.subsec_nanos())
        .unwrap_or(0);
    format!(
        ".journeyman-{}-{}-{nanos}.tmp",
        std::process::id(),
        COUNTER.fetch_add(1, Ordering::Relaxed)
    )
}

fn refuse_git(path: &str, place: &str) -> Result<()> {
    match place
        .split('/')
        .any(|part| part.eq_ignore_ascii_case(".git"))
    {
        true => Err(WorkspaceError::GitInternals { path: path.into() }),
        false => Ok(()),
    }
}

fn refusal(path: &str, how: Open, errno: Errno) -> WorkspaceError {
    let path = path.to_owned();
    match (errno, how) {
        (Errno::ENOTDIR, Open::Folder) => WorkspaceError::NotAFile {
            path,
            what: "no folder",
        },
        (Errno::ENOENT | Errno::ENOTDIR, _) => WorkspaceError::NotFound { path },
        (Errno::EXDEV | Errno::ELOOP, _) => WorkspaceError::Leaves { path },
        (Errno::ENXIO | Errno::ENODEV, _) => WorkspaceError::NotAFile {
            path,
            what: "a socket or a device",
        },
        (errno, _) => WorkspaceError::Io {
            path,
            source: errno.into(),
        },
    }
}

fn io_error(path: &str, source: io::Error) -> WorkspaceError {
    WorkspaceError::Io {
        path: path.into(),
        source,
    }
}
