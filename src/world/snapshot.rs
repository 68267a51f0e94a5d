//! The workspace's content as one git tree: every file that is neither ignored nor secret, byte for byte.
//!
//! A tree is made with an index of our own, in a git folder of our own (the shelf), so that nothing of the repository's
//! configuration runs (filters, hooks, monitors) and neither the person's index, nor branches, nor stash are touched.
//! Objects and refs (`refs/journeyman/SESSION/N`) go into the person's repository, or into the shelf where there is none.
//! The index is a cache: what is wrong with it is cured by making it again. Decides nothing about undoing.

/// Files of one folder, taken into another.
mod bring;
/// What nobody goes back to.
pub mod cleaning;
/// What changed, in words.
mod diff;
/// Which files belong into it.
mod entries;
/// Ignore rules from above the workspace.
mod ignored;
/// Trees put back into the folder.
mod restore;
/// Our own git folder.
mod shelf;

pub use bring::Brought;
pub use restore::Order;

use super::process::{Exit, Finished, Processes};
use crate::agent::event::{CallId, Names, TreeId};
use crate::agent::step::Policy;
use entries::{Found, look_at};
use sha2::{Digest, Sha256};
use shelf::Shelf;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use tokio::sync::{Mutex, MutexGuard};

/// What git may print for one snapshot: names of all files of a large repository.
const OUTPUT_BYTES_MAX: u64 = 64_000_000;
/// Of a digest of the workspace's path.
const PLACE_CHARS: usize = 16;
/// Snapshots of one session are made one after the other; those of others beside them.
static LANES: [Mutex<()>; 16] = [const { Mutex::const_new(()) }; 16];

/// Why there is no snapshot; the text is for the person.
#[derive(Debug, Error)]
pub enum SnapshotError {
    #[error("git {verb}: {why}")]
    Git { verb: String, why: String },
    #[error("git {verb} printed more than {OUTPUT_BYTES_MAX} bytes: too many files")]
    TooMany { verb: String },
    #[error("git {verb} printed what it should not: {line}")]
    Odd { verb: String, line: String },
    #[error("{verb} {path}: {source}")]
    Shelf {
        verb: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

type Result<T> = std::result::Result<T, SnapshotError>;

/// The workspace as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub tree: TreeId,
    pub left_out: Names,
}

/// Makes snapshots of one session's workspace. Cheap to make and to clone.
#[derive(Clone)]
pub struct Snapshots {
    processes: Processes,
    root: PathBuf,
    /// `DATA_DIR/checkpoints/SESSION/WORKSPACE`: each workspace of a session has its own.
    folder: PathBuf,
    session: String,
    policy: Arc<Policy>,
}

impl Snapshots {
    /// `processes` must be those of the workspace.
    pub fn of(
        data_dir: &Path,
        session: &str,
        root: &Path,
        processes: &Processes,
        policy: Arc<Policy>,
    ) -> Self {
        let place = Sha256::digest(root.as_os_str().as_encoded_bytes());
        let folder = data_dir.join("checkpoints").join(session);
        let folder = folder.join(&hex::encode(place)[..PLACE_CHARS]);
        // What cannot be made is said by the first use.
        let _ = shelf::make_folder(&folder);
        Self {
            processes: processes.with_own(&folder, OUTPUT_BYTES_MAX),
            root: root.to_owned(),
            folder,
            session: session.to_owned(),
            policy,
        }
    }

    /// An id of the workspace's content: equal where nothing changed. Two git processes, side by side, where nothing did.
    ///
    /// `None` where there is nothing to tell: the snapshot cannot be made here.
    pub async fn tree(&self) -> Option<TreeId> {
        match self.take().await {
            Ok(snapshot) => Some(snapshot.tree),
            Err(error) => {
                tracing::warn!(session = %self.session, %error, "no snapshot");
                None
            }
        }
    }

    /// The workspace as it is now, its objects on disk. They stay only once [`Snapshots::keep`] names the tree.
    ///
    /// # Errors
    /// [`SnapshotError`]: git is missing, the disk is full, the repository is damaged.
    pub async fn take(&self) -> Result<Snapshot> {
        let _lane = self.lane().await;
        self.take_alone().await
    }

    async fn lane(&self) -> MutexGuard<'static, ()> {
        let sum = |sum: usize, byte: u8| sum.wrapping_mul(31).wrapping_add(usize::from(byte));
        let lane = self.session.bytes().fold(0, sum) % LANES.len();
        LANES[lane].lock().await
    }

    /// With the lane held.
    async fn take_alone(&self) -> Result<Snapshot> {
        let shelf = self.shelf().await?;
        match self.index(&shelf).await {
            Ok(snapshot) => Ok(snapshot),
            Err(first) => {
                tracing::info!(session = %self.session, error = %first, "the snapshot's index is made again");
                self.forget(&shelf)?;
                let shelf = self.shelf().await?;
                self.index(&shelf).await
            }
        }
    }

    /// Gives a tree a name that keeps it from git's cleaning, and takes older names away. Twice is as good as once.
    ///
    /// # Errors
    /// As [`Snapshots::take`].
    pub async fn keep(&self, number: u64, tree: &TreeId, drop: &[u64]) -> Result<()> {
        let shelf = self.shelf().await?;
        let name = |number: u64| format!("refs/journeyman/{}/{number}", self.session);
        let mut orders = format!("update {} {tree}\n", name(number));
        for number in drop {
            orders.push_str(&format!("delete {}\n", name(*number)));
        }
        let args = ["update-ref", "--stdin"];
        let variables = shelf.variables_for_refs();
        self.git(&args, Some(orders.into_bytes()), &variables)
            .await?;
        Ok(())
    }

    async fn shelf(&self) -> Result<Shelf> {
        Shelf::open(&self.processes, &self.root, &self.folder).await
    }

    /// Brings the index up to date with the folder, and writes its tree.
    async fn index(&self, shelf: &Shelf) -> Result<Snapshot> {
        // Left by a git that was killed; nobody else writes here.
        let _ = fs::remove_file(self.folder.join("index.lock"));
        let fresh = !self.folder.join("index").exists();
        let mut listed = match fresh {
            true => self.new_files(shelf).await?,
            false => {
                // Side by side: one looks at every known file, the other one into every folder.
                let (changed, mut new) =
                    tokio::try_join!(self.changed_files(shelf), self.new_files(shelf))?;
                new.extend(changed);
                new
            }
        };
        if fresh && shelf.is_in_repository() {
            listed.extend(self.tracked_though_ignored().await?);
        }
        let found = self.sort_out(listed).await?;
        if let (false, true, Some(tree)) = (fresh, found.is_empty(), shelf.last_tree()) {
            return Ok(Snapshot {
                tree,
                left_out: found.left_out,
            });
        }
        shelf.forget_tree()?;
        if !found.forgotten.is_empty() {
            let args = ["update-index", "--force-remove", "-z", "--stdin"];
            self.git(&args, Some(found.forgotten), &shelf.variables())
                .await?;
        }
        if !found.changed.is_empty() || fresh {
            let args = [
                "update-index",
                "--add",
                "--remove",
                "--replace",
                "-z",
                "--stdin",
            ];
            self.git(&args, Some(found.changed), &shelf.variables())
                .await?;
        }
        let tree = self.write_tree(shelf.variables()).await?;
        shelf.remember_tree(&tree)?;
        Ok(Snapshot {
            tree,
            left_out: found.left_out,
        })
    }

    /// What is not in the index.
    async fn new_files(&self, shelf: &Shelf) -> Result<Vec<u8>> {
        let args = ["ls-files", "-z", "-o", "--exclude-standard"];
        let listed = self.git(&args, None, &shelf.variables()).await?;
        Ok(tagged(b"? ", &listed))
    }

    /// What is in the index and is not as it says: unlike `ls-files -m`, this looks with several threads.
    async fn changed_files(&self, shelf: &Shelf) -> Result<Vec<u8>> {
        let args = ["diff-files", "-z", "--name-only", "--ignore-submodules=all"];
        let listed = self.git(&args, None, &shelf.variables()).await?;
        Ok(tagged(b"C ", &listed))
    }

    /// Which of the listed files belong into the tree, off the async threads.
    async fn sort_out(&self, listed: Vec<u8>) -> Result<Found> {
        let (root, policy) = (self.root.clone(), self.policy.clone());
        let sorted = tokio::task::spawn_blocking(move || look_at(&root, &policy, &listed)).await;
        sorted.map_err(|error| SnapshotError::Git {
            verb: "ls-files".into(),
            why: format!("its answer could not be read: {error}"),
        })
    }

    /// What the person added to the repository in spite of its ignore rules, listed as if it were new.
    async fn tracked_though_ignored(&self) -> Result<Vec<u8>> {
        let args = ["ls-files", "-z", "-c", "-i", "--exclude-standard"];
        let listed = self.git(&args, None, &[]).await?;
        Ok(tagged(b"? ", &listed))
    }

    async fn write_tree(&self, variables: Vec<(String, String)>) -> Result<TreeId> {
        let printed = self.git(&["write-tree"], None, &variables).await?;
        tree_of("write-tree", &printed)
    }

    /// Takes the cache away, as if this were the first snapshot.
    fn forget(&self, shelf: &Shelf) -> Result<()> {
        shelf.forget_tree()?;
        for name in ["index", shelf::PLACE] {
            remove(&self.folder.join(name))?;
        }
        Ok(())
    }

    /// git on the shelf: whatever it prints, whole.
    async fn git(
        &self,
        args: &[&str],
        stdin: Option<Vec<u8>>,
        variables: &[(String, String)],
    ) -> Result<Vec<u8>> {
        let call = CallId("checkpoint".into());
        let finished = self
            .processes
            .git_with(&call, &self.root, args, stdin, variables)
            .await;
        printed(args[0], finished)
    }
}

/// Names that git printed, as `ls-files -t` would.
fn tagged(tag: &[u8], listed: &[u8]) -> Vec<u8> {
    let mut tagged = Vec::with_capacity(listed.len() * 2);
    for name in listed.split(|byte| *byte == 0).filter(|n| !n.is_empty()) {
        for part in [tag, name, b"\0"] {
            tagged.extend_from_slice(part);
        }
    }
    tagged
}

fn printed(verb: &str, finished: Finished) -> Result<Vec<u8>> {
    let verb = verb.to_owned();
    let said = finished.stderr.text().trim().to_owned();
    match finished.exit {
        Exit::Code(0) if finished.stdout.omitted_bytes == 0 => {
            Ok([finished.stdout.head, finished.stdout.tail].concat())
        }
        Exit::Code(0) => Err(SnapshotError::TooMany { verb }),
        exit => {
            let why = match exit {
                Exit::Code(code) => format!("exit code {code}: {said}"),
                Exit::Signal(signal) => format!("killed by signal {signal}: {said}"),
                Exit::TimedOut => "took too long and was stopped".into(),
                Exit::Cancelled => "was stopped by the person".into(),
                Exit::Lost => "was killed".into(),
                Exit::NotStarted(why) => why,
            };
            Err(SnapshotError::Git { verb, why })
        }
    }
}

/// The object id that git printed.
fn tree_of(verb: &str, printed: &[u8]) -> Result<TreeId> {
    let line = String::from_utf8_lossy(printed).trim().to_owned();
    let is_id = matches!(line.len(), 40 | 64) && line.bytes().all(|b| b.is_ascii_hexdigit());
    match is_id {
        true => Ok(TreeId(line)),
        false => Err(SnapshotError::Odd {
            verb: verb.into(),
            line: line.chars().take(200).collect(),
        }),
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(SnapshotError::Shelf {
            verb: "remove",
            path: path.to_owned(),
            source,
        }),
        _ => Ok(()),
    }
}
