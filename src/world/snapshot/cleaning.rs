//! Takes checkpoints away that nobody goes back to: those of sessions whose last one is old, and of the oldest sessions
//! where all of them take too much room. Which sessions still need theirs, the caller says; one that is in doubt does.

use super::{Result, SnapshotError, Snapshots, shelf};
use crate::agent::event::TreeId;
use crate::agent::limits::Limits;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What is kept of one session in one workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub session: String,
    /// The shelf.
    pub folder: PathBuf,
    /// Where it belongs, if that can be told.
    pub root: Option<PathBuf>,
    bytes: u64,
    last: SystemTime,
}

/// Those that go, of all that is kept. `is_over`: whether a session has nothing left to do.
pub fn expired(
    data_dir: &Path,
    limits: &Limits,
    now: SystemTime,
    is_over: impl Fn(&str) -> bool,
) -> Vec<Kept> {
    let mut all = all(data_dir);
    all.sort_by_key(|kept| kept.last);
    let age_max = DAY.saturating_mul(limits.checkpoint_days_max);
    let mut bytes: u64 = all.iter().map(|kept| kept.bytes).sum();
    all.retain(|kept| {
        let age = now.duration_since(kept.last).unwrap_or_default();
        let goes =
            (age > age_max || bytes > limits.checkpoints_bytes_max) && is_over(&kept.session);
        bytes -= if goes { kept.bytes } else { 0 };
        goes
    });
    all
}

fn all(data_dir: &Path) -> Vec<Kept> {
    let folders = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
    };
    let mut all = Vec::new();
    for session in folders(&data_dir.join("checkpoints")) {
        for place in folders(&session.path()) {
            let (bytes, last) = measure(&place.path());
            all.push(Kept {
                session: session.file_name().to_string_lossy().into_owned(),
                root: shelf::root_of(&place.path()),
                folder: place.path(),
                bytes,
                last,
            });
        }
    }
    all
}

/// How much there is, and when something of it was last written.
fn measure(folder: &Path) -> (u64, SystemTime) {
    let (mut bytes, mut last) = (0, SystemTime::UNIX_EPOCH);
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                left.push(entry.path());
            } else if meta.is_file() {
                bytes += meta.len();
                last = meta.modified().map_or(last, |at| last.max(at));
            }
        }
    }
    (bytes, last)
}

/// Takes a shelf away, and the session's folder with the last one.
///
/// # Errors
/// [`SnapshotError`]: what is left goes the next time.
pub fn remove(folder: &Path) -> Result<()> {
    fs::remove_dir_all(folder).map_err(|source| SnapshotError::Shelf {
        verb: "remove",
        path: folder.to_owned(),
        source,
    })?;
    if let Some(session) = folder.parent() {
        let _ = fs::remove_dir(session); // not while another workspace's is there
    }
    Ok(())
}

impl Snapshots {
    /// Takes away everything that is kept of the session in this workspace; git's own cleaning does the rest.
    ///
    /// # Errors
    /// As [`Snapshots::take`].
    pub async fn forget_all(&self) -> Result<()> {
        let _lane = self.lane().await;
        let shelf = self.shelf().await?;
        let names = format!("refs/journeyman/{}", self.session);
        let args = ["for-each-ref", "--format=delete %(refname)", &names];
        let variables = shelf.variables_for_refs();
        let orders = self.git(&args, None, &variables).await?;
        if !orders.is_empty() {
            let args = ["update-ref", "--stdin"];
            self.git(&args, Some(orders), &variables).await?;
        }
        remove(&self.folder)
    }

    /// Whether all of these trees are still there.
    pub async fn are_kept(&self, trees: impl Iterator<Item = &TreeId>) -> Result<bool> {
        let names: String = trees.map(|tree| format!("{tree}\n")).collect();
        let args = ["cat-file", "--batch-check"];
        let variables = self.shelf().await?.variables();
        let found = self
            .git(&args, Some(names.into_bytes()), &variables)
            .await?;
        let found = String::from_utf8_lossy(&found);
        Ok(!found.lines().any(|line| line.ends_with(" missing")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::limits::DEFAULTS;

    /// A shelf of so many bytes, so many days old.
    fn shelf(data_dir: &Path, session: &str, bytes: usize, days: u32) {
        let folder = data_dir.join("checkpoints").join(session).join("place");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("index"), vec![0; bytes]).expect("a file");
        let file = fs::File::options().append(true).open(folder.join("index"));
        let then = SystemTime::now() - DAY * days;
        file.and_then(|file| file.set_modified(then)).expect("aged");
    }

    fn going(data_dir: &Path, bytes_max: u64) -> Vec<String> {
        let mut limits: Limits = toml::from_str(DEFAULTS).expect("the limits");
        (limits.checkpoint_days_max, limits.checkpoints_bytes_max) = (30, bytes_max);
        let is_over = |session: &str| !session.starts_with("busy");
        let going = expired(data_dir, &limits, SystemTime::now(), is_over);
        going.into_iter().map(|kept| kept.session).collect()
    }

    #[test]
    fn the_oldest_go_until_there_is_room_and_those_in_use_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        for (session, days) in [("old", 31), ("busy", 40), ("older", 3), ("newer", 2)] {
            shelf(folder.path(), session, 1_000, days);
        }
        assert_eq!(going(folder.path(), 1_000_000), ["old"]);
        assert_eq!(going(folder.path(), 2_500), ["old", "older"]);
        assert_eq!(going(folder.path(), 10), ["old", "older", "newer"]);
    }
}
