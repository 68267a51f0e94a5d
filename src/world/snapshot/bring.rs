//! Files of one folder taken into another one of the same repository, by their content: read in one by an index of its own,
//! written in the other as an undo is.

use super::restore::{Entry, Path, Put, Wish};
use super::{Result, Snapshots};
use crate::agent::event::Names;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

const INDEX: &str = "bring-index";

/// Files as they lie in a folder, their content among the repository's objects.
#[derive(Debug)]
pub struct Picked {
    pub wants: BTreeMap<Path, Entry>,
    /// Secret, too large, not readable, a repository of its own.
    pub left_out: Names,
}

/// What became of them in the other folder.
#[derive(Debug)]
pub enum Brought {
    Done,
    /// Nothing was touched.
    Differ {
        files: Names,
    },
    Failed {
        why: String,
    },
}

impl Snapshots {
    /// Reads these files as they are; those that are not there are wanted gone.
    ///
    /// # Errors
    /// As [`Snapshots::take`].
    pub async fn pick(&self, names: &BTreeSet<Path>) -> Result<Picked> {
        let _lane = self.lane().await;
        let shelf = self.shelf().await?;
        let listed: Vec<u8> = names
            .iter()
            .flat_map(|name| [b"? ", &name[..], b"\0"].concat())
            .collect();
        let found = self.sort_out(listed).await?;
        let (mut wants, mut listed) = (BTreeMap::new(), Vec::new());
        for name in found.changed.split(|byte| *byte == 0) {
            let path = self.root.join(OsStr::from_bytes(name));
            let meta = path.symlink_metadata().ok().filter(|_| !name.is_empty());
            // A folder stands in the place of a file that is gone.
            if meta.is_some_and(|meta| !meta.is_dir()) {
                listed.extend([name, b"\0"].concat());
            }
            wants.insert(name.to_vec(), None);
        }
        wants.remove(&b""[..]);
        super::remove(&self.folder.join(INDEX))?;
        let variables = shelf.variables_with_index(INDEX);
        let args = ["update-index", "--add", "--remove", "-z", "--stdin"];
        self.git(&args, Some(listed), &variables).await?;
        let tree = self.write_tree(variables).await?;
        let paths: BTreeSet<Path> = wants.keys().cloned().collect();
        let entries = self.entries(&shelf, &tree, &paths.iter().collect()).await?;
        for (path, entry) in entries {
            wants.insert(path, Some(entry));
        }
        Ok(Picked {
            wants,
            left_out: found.left_out,
        })
    }

    /// Makes files of this folder what they were picked as, all or none: those that `of_session` names only where they are that
    /// already.
    ///
    /// # Errors
    /// As [`Snapshots::take`].
    pub async fn bring(
        &self,
        wants: BTreeMap<Path, Entry>,
        of_session: &BTreeSet<Path>,
    ) -> Result<Brought> {
        let _lane = self.lane().await;
        let now = self.take_alone().await?.tree;
        let shelf = self.shelf().await?;
        let paths: BTreeSet<&Path> = wants.keys().collect();
        let current = self.entries(&shelf, &now, &paths).await?;
        let wish = |(path, want): (&Path, &Entry)| {
            let left = (!of_session.contains(path)).then(|| current.get(path).cloned());
            let want = want.clone();
            (path.clone(), Wish { want, left })
        };
        let wishes = wants.iter().map(wish).collect();
        Ok(match self.put(&shelf, &now, &wishes, None).await? {
            Put::Done(_) => Brought::Done,
            Put::Conflict(files) => Brought::Differ { files },
            Put::Failed(why) => Brought::Failed { why },
        })
    }
}
