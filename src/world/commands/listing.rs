//! Names, as `ls` shows them: of the project only, without a process, bounded.

use super::files::{Missing, refusal, refuse_hidden};
use crate::definitions::inline::{Listing, Order};
use crate::world::clock;
use crate::world::workspace::{Open, Workspace, WorkspaceError};
use nix::dir::Dir;
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, SFlag, fstatat};
use std::os::fd::OwnedFd;

/// Names of one list; the rest is counted.
const NAMES_MAX: usize = 2_000;
const DEPTH_MAX: usize = 20;

struct Entry {
    name: String,
    stat: FileStat,
}

/// What `ls` prints.
pub fn listed(workspace: &Workspace, listing: &Listing) -> Result<String, Missing> {
    let mut list = List {
        workspace,
        listing,
        names: 0,
        omitted: 0,
        parts: Vec::new(),
    };
    let here = [".".to_owned()];
    let paths = match listing.paths.is_empty() {
        true => &here[..],
        false => &listing.paths,
    };
    let several = paths.len() > 1 || listing.below;
    for path in paths {
        refuse_hidden(path)?;
        match workspace.open(path, Open::Folder) {
            Ok(_) if !listing.itself => list.folder(path, several, 0)?,
            Ok(_) | Err(WorkspaceError::NotAFile { .. }) => list.one(path)?,
            Err(error) => return Err(refusal(path, error)),
        }
    }
    if list.omitted > 0 {
        list.parts.push(format!("[{} more names]", list.omitted));
    }
    Ok(list.parts.join("\n"))
}

struct List<'a> {
    workspace: &'a Workspace,
    listing: &'a Listing,
    names: usize,
    omitted: usize,
    parts: Vec<String>,
}

impl List<'_> {
    fn one(&mut self, path: &str) -> Result<(), Missing> {
        let (folder, name) = path
            .trim_end_matches('/')
            .rsplit_once('/')
            .unwrap_or((".", path));
        let folder = match folder {
            "" => "/",
            folder => folder,
        };
        let handle = self
            .workspace
            .open(folder, Open::Folder)
            .map_err(|error| refusal(path, error))?;
        let stat = fstatat(&handle, name, AtFlags::AT_SYMLINK_NOFOLLOW)
            .map_err(|errno| Missing::Unfit(format!("{path}: {errno}")))?;
        let entry = Entry {
            name: path.to_owned(),
            stat,
        };
        self.parts.push(self.line(&entry));
        Ok(())
    }

    fn folder(&mut self, path: &str, headed: bool, depth: usize) -> Result<(), Missing> {
        let place = self
            .workspace
            .locate(path)
            .map_err(|error| refusal(path, error))?;
        refuse_hidden(&place)?;
        let mut entries = self.entries(path)?;
        sort(&mut entries, self.listing);
        if headed {
            let gap = if self.parts.is_empty() { "" } else { "\n" };
            self.parts.push(format!("{gap}{path}:"));
        }
        let fits = entries.len().min(NAMES_MAX.saturating_sub(self.names));
        self.names += fits;
        self.omitted += entries.len() - fits;
        let lines = entries
            .iter()
            .take(fits)
            .map(|entry| self.line(entry))
            .collect::<Vec<_>>();
        self.parts.extend(lines);
        if !self.listing.below || depth >= DEPTH_MAX {
            return Ok(());
        }
        for entry in entries.iter().take(fits).filter(|entry| is_folder(entry)) {
            let below = format!("{path}/{}", entry.name);
            // What went meanwhile, or may not be read, is not below.
            if entry.name != ".git" {
                let _ = self.folder(&below, true, depth + 1);
            }
        }
        Ok(())
    }

    fn entries(&self, path: &str) -> Result<Vec<Entry>, Missing> {
        let failed = |errno: nix::Error| Missing::Unfit(format!("{path}: {errno}"));
        let folder = self
            .workspace
            .open(path, Open::Folder)
            .map_err(|error| refusal(path, error))?;
        let mut dir = Dir::from_fd(OwnedFd::from(folder)).map_err(failed)?;
        let found = dir.iter().flatten();
        let names: Vec<_> = found.map(|entry| entry.file_name().to_owned()).collect();
        let entry = |name: &std::ffi::CString| {
            let stat = fstatat(&dir, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
            let name = name.to_string_lossy().into_owned();
            let is_shown =
                !name.starts_with('.') || self.listing.hidden && name != "." && name != "..";
            is_shown.then_some(Entry { name, stat })
        };
        Ok(names.iter().filter_map(entry).collect())
    }

    fn line(&self, entry: &Entry) -> String {
        let mark = match self.listing.marks {
            true => mark(entry),
            false => "",
        };
        // What a terminal would take for a command of its own is no part of a name here.
        let name: String = entry
            .name
            .chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .collect();
        if !self.listing.long {
            return format!("{name}{mark}");
        }
        let at = clock::written_at(entry.stat.st_mtime, "%Y-%m-%d %H:%M");
        format!(
            "{} {:>9} {at} {name}{mark}",
            mode(entry),
            entry.stat.st_size
        )
    }
}

fn sort(entries: &mut [Entry], listing: &Listing) {
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    match listing.order {
        Order::Name => {}
        Order::Time => entries.sort_by_key(|entry| std::cmp::Reverse(entry.stat.st_mtime)),
        Order::Size => entries.sort_by_key(|entry| std::cmp::Reverse(entry.stat.st_size)),
    }
    if listing.reversed {
        entries.reverse();
    }
}

fn kind(entry: &Entry) -> SFlag {
    SFlag::from_bits_truncate(entry.stat.st_mode) & SFlag::S_IFMT
}

fn is_folder(entry: &Entry) -> bool {
    kind(entry) == SFlag::S_IFDIR
}

fn mark(entry: &Entry) -> &'static str {
    match kind(entry) {
        SFlag::S_IFDIR => "/",
        SFlag::S_IFLNK => "@",
        _ if entry.stat.st_mode & 0o111 != 0 => "*",
        _ => "",
    }
}

/// `drwxr-xr-x`.
fn mode(entry: &Entry) -> String {
    let first = match kind(entry) {
        SFlag::S_IFDIR => 'd',
        SFlag::S_IFLNK => 'l',
        SFlag::S_IFIFO => 'p',
        SFlag::S_IFSOCK => 's',
        SFlag::S_IFCHR => 'c',
        SFlag::S_IFBLK => 'b',
        _ => '-',
    };
    let bit = |at: usize| match entry.stat.st_mode >> (8 - at) & 1 {
        1 => b"rwx"[at % 3] as char,
        _ => '-',
    };
    [first].into_iter().chain((0..9).map(bit)).collect()
}
