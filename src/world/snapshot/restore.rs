//! Trees put back into the folder: the files that certain rounds changed become what they were before them.
//!
//! Only those files: what the person changed elsewhere stays. git itself writes (`read-tree -m -u`), confined to the
//! workspace: it refuses what changed in between and never goes through a link. Done twice, it is done once: a file that
//! is already as wanted is left alone, so an undo that a crash cut short is simply made again.

use super::{Result, Snapshots, printed, shelf::Shelf, tree_of};
use crate::agent::checkpoints::Swap;
use crate::agent::event::{Names, Restored, TreeId};
use crate::world::process::Exit;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const INDEX: &str = "undo-index";
const MODE_GONE: &str = "000000";
const READ_BITS: u32 = 0o444;

/// What is to be put back.
#[derive(Debug, Clone)]
pub struct Order {
    /// The checkpoint that the result is kept as.
    pub number: u64,
    /// Oldest first.
    pub swaps: Vec<Swap>,
    /// The workspace as it was when the person asked.
    pub from: TreeId,
    /// Also where a file is not as the session left it, as long as it is as it was when the person asked.
    pub force: bool,
}

impl Order {
    /// What must be there to put it back.
    pub fn trees(&self) -> impl Iterator<Item = &TreeId> {
        let after = self.swaps.iter().filter_map(|swap| swap.after.as_ref());
        self.swaps.iter().map(|swap| &swap.before).chain(after)
    }
}

/// A file in a tree: mode and object id; `None` where it is not there.
pub type Entry = Option<(String, String)>;
pub type Path = Vec<u8>;

/// What a file is to become.
pub struct Wish {
    pub want: Entry,
    /// As the session left it; outer `None` where nobody knows.
    pub left: Option<Entry>,
}

/// What came of making files what they are to become.
pub enum Put {
    /// The workspace is this tree.
    Done(TreeId),
    Conflict(Names),
    Failed(String),
}

impl Snapshots {
    /// Puts files back, all or none of them where one is not as expected.
    ///
    /// # Errors
    /// As [`Snapshots::take`]. What git refuses is [`Restored::Failed`].
    pub async fn put_back(&self, order: &Order) -> Result<Restored> {
        let _lane = self.lane().await;
        let now = self.take_alone().await?.tree;
        let shelf = self.shelf().await?;
        let wishes = self.wishes(&shelf, order).await?;
        let forced = order.force.then_some(&order.from);
        match self.put(&shelf, &now, &wishes, forced).await? {
            Put::Conflict(files) => Ok(Restored::Conflict { files }),
            Put::Failed(why) => Ok(Restored::Failed { why }),
            Put::Done(tree) => {
                self.keep(order.number, &tree, &[]).await?;
                let mut files = Names::default();
                wishes
                    .keys()
                    .for_each(|path| files.add(&String::from_utf8_lossy(path)));
                let number = order.number;
                Ok(Restored::Done {
                    number,
                    tree,
                    files,
                })
            }
        }
    }

    /// Makes files what they are to become, all or none of them where one is neither as left nor, with `forced`, as there.
    /// With the lane held; the workspace is `now`.
    pub async fn put(
        &self,
        shelf: &Shelf,
        now: &TreeId,
        wishes: &BTreeMap<Path, Wish>,
        forced: Option<&TreeId>,
    ) -> Result<Put> {
        let paths: BTreeSet<&Path> = wishes.keys().collect();
        let current = self.entries(shelf, now, &paths).await?;
        let asked = match forced {
            Some(from) => Some(self.entries(shelf, from, &paths).await?),
            None => None,
        };
        let (mut edits, mut conflicts) = (BTreeMap::new(), Names::default());
        for (path, wish) in wishes {
            let is = current.get(path);
            let forced = asked.as_ref().is_some_and(|asked| asked.get(path) == is);
            let as_left = (wish.left.as_ref()).is_some_and(|left| left.as_ref() == is);
            if is == wish.want.as_ref() {
                continue;
            }
            // What no tree holds, because it is ignored, secret or too large, nothing could bring back.
            let is_unkept = is.is_none() && self.is_occupied(path, wishes);
            match !is_unkept && (as_left || forced) {
                true => drop(edits.insert(path.clone(), wish.want.clone())),
                false => conflicts.add(&String::from_utf8_lossy(path)),
            }
        }
        if conflicts.count > 0 {
            return Ok(Put::Conflict(conflicts));
        }
        let target = self.target(shelf, now, &edits).await?;
        if let Some(why) = self.write_out(shelf, now, &target, &edits).await? {
            return Ok(Put::Failed(why));
        }
        let after = self.take_alone().await?.tree;
        let paths = edits.keys().collect();
        let put = self.entries(shelf, &after, &paths).await?;
        // Elsewhere it may differ: a build may go on, and without a `.gitignore` more is seen.
        if edits
            .iter()
            .any(|(path, want)| put.get(path) != want.as_ref())
        {
            let why = "files changed while they were put back; some may be as before, some not";
            return Ok(Put::Failed(why.into()));
        }
        Ok(Put::Done(target))
    }

    /// What each file must become: as before the oldest of the rounds that changed it; left by the newest.
    async fn wishes(&self, shelf: &Shelf, order: &Order) -> Result<BTreeMap<Path, Wish>> {
        let mut wishes: BTreeMap<Path, Wish> = BTreeMap::new();
        for swap in &order.swaps {
            let after = swap.after.as_ref().unwrap_or(&order.from);
            for (path, old, new) in self.changes(shelf, &swap.before, after).await? {
                let left = swap.after.is_some().then_some(new);
                match wishes.get_mut(&path) {
                    // What the person did between two rounds is not the session's.
                    Some(wish) if wish.left.as_ref() == Some(&old) => wish.left = left,
                    Some(wish) => wish.left = None,
                    None => drop(wishes.insert(path, Wish { want: old, left })),
                }
            }
        }
        Ok(wishes)
    }

    /// Whether something stands where a file is to come back, or in its way, that the undo does not know.
    fn is_occupied(&self, path: &Path, wishes: &BTreeMap<Path, Wish>) -> bool {
        let at = |path: &[u8]| self.root.join(OsStr::from_bytes(path)).symlink_metadata();
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let in_the_way = slashes
            .map(|(end, _)| &path[..end])
            .any(|above| at(above).is_ok_and(|meta| !meta.is_dir()) && !wishes.contains_key(above));
        in_the_way
            || match at(path) {
                Ok(meta) if meta.is_dir() => self.holds_more(path, wishes),
                Ok(_) => true,
                Err(_) => false,
            }
    }

    /// Whether a folder that has to go holds files besides those that go with it.
    fn holds_more(&self, folder: &[u8], wishes: &BTreeMap<Path, Wish>) -> bool {
        let entries = fs::read_dir(self.root.join(OsStr::from_bytes(folder)));
        entries.into_iter().flatten().flatten().any(|entry| {
            let name = entry.file_name();
            let path = [folder, b"/", name.as_bytes()].concat();
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => self.holds_more(&path, wishes),
                false => wishes.get(&path).is_none_or(|wish| wish.want.is_some()),
            }
        })
    }

    /// The files in which two trees differ, with what they are in each.
    async fn changes(
        &self,
        shelf: &Shelf,
        before: &TreeId,
        after: &TreeId,
    ) -> Result<Vec<(Path, Entry, Entry)>> {
        let args = [
            "diff-tree",
            "-r",
            "-z",
            "--raw",
            "--no-renames",
            "--no-abbrev",
            &before.0,
            &after.0,
        ];
        let listed = self.git(&args, None, &shelf.variables()).await?;
        let mut parts = listed.split(|byte| *byte == 0);
        let mut changes = Vec::new();
        while let (Some(meta), Some(path)) = (parts.next(), parts.next()) {
            // `:MODE MODE ID ID STATUS`
            let meta = String::from_utf8_lossy(meta);
            let words: Vec<&str> = meta.trim_start_matches(':').split(' ').collect();
            let [old_mode, new_mode, old, new, _] = words[..] else {
                continue;
            };
            let entry = |mode: &str, id: &str| {
                (mode != MODE_GONE).then(|| (mode.to_owned(), id.to_owned()))
            };
            changes.push((path.to_owned(), entry(old_mode, old), entry(new_mode, new)));
        }
        Ok(changes)
    }

    pub async fn entries(
        &self,
        shelf: &Shelf,
        tree: &TreeId,
        paths: &BTreeSet<&Path>,
    ) -> Result<BTreeMap<Path, (String, String)>> {
        let args = ["ls-tree", "-r", "-z", "--full-tree", &tree.0];
        let listed = self.git(&args, None, &shelf.variables()).await?;
        let mut entries = BTreeMap::new();
        for line in listed.split(|byte| *byte == 0) {
            // `MODE blob ID<TAB>PATH`
            let Some(tab) = line.iter().position(|byte| *byte == b'\t') else {
                continue;
            };
            let path = line[tab + 1..].to_vec();
            let meta = String::from_utf8_lossy(&line[..tab]);
            let words: Vec<&str> = meta.split(' ').collect();
            if let ([mode, _, id], true) = (&words[..], paths.contains(&path)) {
                entries.insert(path, ((*mode).to_owned(), (*id).to_owned()));
            }
        }
        Ok(entries)
    }

    /// The tree `now` with some files replaced.
    async fn target(
        &self,
        shelf: &Shelf,
        now: &TreeId,
        edits: &BTreeMap<Path, Entry>,
    ) -> Result<TreeId> {
        let variables = shelf.variables_with_index(INDEX);
        self.git(&["read-tree", &now.0], None, &variables).await?;
        let nothing = "0".repeat(now.0.len());
        let (mut gone, mut there) = (Vec::new(), Vec::new());
        for (path, entry) in edits {
            let (lines, order) = match entry {
                None => (&mut gone, format!("0 {nothing}\t")),
                Some((mode, id)) => (&mut there, format!("{mode} {id}\t")),
            };
            lines.extend_from_slice(order.as_bytes());
            lines.extend_from_slice(path);
            lines.push(0);
        }
        // A folder may stand where a file was: what goes goes first.
        gone.extend(there);
        let args = ["update-index", "-z", "--index-info"];
        self.git(&args, Some(gone), &variables).await?;
        let printed = self.git(&["write-tree"], None, &variables).await?;
        tree_of("write-tree", &printed)
    }

    /// Brings the folder from one tree to another; says in words why git did not.
    async fn write_out(
        &self,
        shelf: &Shelf,
        now: &TreeId,
        target: &TreeId,
        edits: &BTreeMap<Path, Entry>,
    ) -> Result<Option<String>> {
        let modes = self.modes(edits);
        shelf.forget_tree()?;
        let call = crate::agent::event::CallId("undo".into());
        let args = ["read-tree", "-m", "-u", &now.0, &target.0];
        let variables = shelf.variables();
        // A file whose times or permissions alone changed is as it was; `read-tree` would refuse it.
        let refresh = ["update-index", "-q", "--refresh"];
        self.git(&refresh, None, &variables).await?;
        let finished = self
            .processes
            .git_with(&call, &self.root, &args, None, &variables)
            .await;
        if let Exit::NotStarted(_) = finished.exit {
            return printed("read-tree", finished).map(|_| None);
        }
        self.put_modes(modes);
        Ok(printed("read-tree", finished)
            .err()
            .map(|error| error.to_string()))
    }

    /// Permissions of the files that git will write anew: it only knows executable or not.
    fn modes(&self, edits: &BTreeMap<Path, Entry>) -> Vec<(PathBuf, u32)> {
        let wanted = edits.iter().filter(|(_, entry)| is_file(entry));
        let mode = |(path, _): (&Path, &Entry)| {
            let path = self.root.join(OsStr::from_bytes(path));
            let meta = path.symlink_metadata().ok().filter(|meta| meta.is_file())?;
            Some((path, meta.permissions().mode() & 0o777))
        };
        wanted.filter_map(mode).collect()
    }

    fn put_modes(&self, modes: Vec<(PathBuf, u32)>) {
        for (path, before) in modes {
            // git has just made it, after looking at every folder above; a link is not followed.
            let Some(meta) = path.symlink_metadata().ok().filter(|meta| meta.is_file()) else {
                continue;
            };
            let runs = meta.permissions().mode() & 0o100 != 0;
            let bits = before & 0o666;
            let mode = if runs {
                bits | (bits & READ_BITS) >> 2
            } else {
                bits
            };
            let _ = fs::set_permissions(&path, Permissions::from_mode(mode)); // as git made it, then
        }
    }
}

fn is_file(entry: &Entry) -> bool {
    entry
        .as_ref()
        .is_some_and(|(mode, _)| mode.starts_with("100"))
}
