//! Worktrees of sessions that nobody has gone on with for long, taken away: never one that holds anything which is not
//! elsewhere too.
//!
//! A file that git would not ignore, a change that is not committed, a commit that no remote and no other branch has: each
//! of them keeps the worktree. A session that goes on gets a new one, on its branch.

use super::{BUILDING, Git, PRUNING, Site, USED, ask};
use crate::world::World;
use crate::world::confine::rules::worktree_folders;
use crate::world::projects::{Projects, check_name};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Of the sessions beyond the number, those that were at work in it keep theirs: they may go on at once.
const FRESH: Duration = Duration::from_secs(60 * 60);
/// After [`BUILDING`]: how the name of a folder begins that holds one which is being taken away.
const GOING: &str = "going-";
/// Sessions whose worktrees are looked at before one is made; each costs three runs of git.
const LOOKED_AT_MAX: usize = 100;

/// The worktrees of one session.
struct Room {
    owner: String,
    folder: PathBuf,
    idle: Duration,
}

impl Room {
    /// Since the last turn that worked there.
    fn idle(folder: &Path) -> Option<Duration> {
        let used = fs::metadata(folder.join(USED)).or_else(|_| fs::metadata(folder));
        used.ok()?.modified().ok()?.elapsed().ok()
    }
}

impl World {
    /// Before one more is made. What cannot be looked at stays.
    pub(super) async fn prune(&self, projects: &Projects, making: &str) {
        let habits = &self.worktrees;
        // A session that waits for a person works there again as soon as the person answers.
        let Ok(at_work) = self.store.in_turn() else {
            return;
        };
        let mut rooms = rooms(&projects.worktrees());
        rooms.sort_by_key(|room| std::cmp::Reverse(room.idle));
        let mut too_many = rooms.len().saturating_sub(habits.sessions_max);
        let idle_max = DAY * u32::try_from(habits.idle_days_max).unwrap_or(u32::MAX);
        let is_used = |room: &&Room| room.owner == making || at_work.contains(&room.owner);
        let unused = rooms.iter().filter(|room| !is_used(room));
        for room in unused.take(LOOKED_AT_MAX) {
            let is_stale = room.idle > idle_max || too_many > 0 && room.idle > FRESH;
            if is_stale && self.empty(room, projects).await {
                too_many = too_many.saturating_sub(1);
            }
        }
    }

    /// Whether nothing of the session's is left there.
    async fn empty(&self, room: &Room, projects: &Projects) -> bool {
        // A session that goes on says so under the same lock.
        let _alone = PRUNING.lock().await;
        if Room::idle(&room.folder).is_none_or(|idle| idle < room.idle) {
            return false;
        }
        for name in names(&room.folder) {
            let tree = room.folder.join(&name);
            let checkout = projects.root().join(&name);
            let is_spent = checkout.is_dir() && self.is_spent(&tree).await;
            if !is_spent || !self.remove(room, &name, projects).await {
                return false;
            }
        }
        // Beside them are only attempts that died.
        let folder = room.folder.clone();
        let gone = tokio::task::spawn_blocking(move || fs::remove_dir_all(folder)).await;
        gone.is_ok_and(|gone| gone.is_ok())
    }

    /// Whether everything in it is elsewhere too.
    async fn is_spent(&self, tree: &Path) -> bool {
        if worktree_folders(tree).is_none() {
            return false;
        }
        let processes = self.processes_at(tree, CancellationToken::new());
        let changes = ["status", "--porcelain", "--untracked-files=all"];
        let clean = ask(&processes, tree, &changes).await;
        // Of HEAD, whatever the session has called its branch.
        let branch = ask(
            &processes,
            tree,
            &["symbolic-ref", "--quiet", "--short", "HEAD"],
        )
        .await;
        let but = format!("--exclude={}", branch.unwrap_or_default());
        let only_here = [
            "rev-list",
            "--max-count=1",
            "HEAD",
            "--not",
            "--remotes",
            &but,
            "--branches",
        ];
        let only_here = ask(&processes, tree, &only_here).await;
        clean.is_ok_and(|text| text.is_empty()) && only_here.is_ok_and(|text| text.is_empty())
    }

    /// It loses its name first: one that is half gone must never be taken for a whole one.
    async fn remove(&self, room: &Room, name: &str, projects: &Projects) -> bool {
        let checkout = projects.root().join(name);
        let Ok(site) = Site::of(projects, &room.owner, &checkout) else {
            return false;
        };
        let processes = self.processes_at(&checkout, CancellationToken::new());
        let git = Git::at(&processes, &site);
        let going = room.folder.join(format!("{BUILDING}{GOING}{name}"));
        if fs::create_dir(&going).is_err() && !going.is_dir() {
            return false;
        }
        let (from, to) = (site.tree.to_string_lossy(), going.join(name));
        let moved = git
            .ask(&["worktree", "move", &from, &to.to_string_lossy()])
            .await;
        if moved.is_err() {
            return false;
        }
        git.discard(&going).await;
        // A branch on which nothing happened is not worth its name; git keeps one that holds anything.
        let _ = git
            .ask(&["branch", "--quiet", "--delete", &site.branch])
            .await;
        true
    }
}

/// Of every session that has one.
fn rooms(folder: &Path) -> Vec<Room> {
    let room = |owner: String| {
        let folder = folder.join(&owner);
        let idle = Room::idle(&folder)?;
        Some(Room {
            owner,
            folder,
            idle,
        })
    };
    names(folder).into_iter().filter_map(room).collect()
}

/// Visible folders.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| check_name(name).is_ok())
        .collect()
}
