//! Makes git worktrees of a session's own, beside the person's folders: `PROJECTS_ROOT/.journeyman/worktrees/SESSION/NAME`.
//!
//! Making one is idempotent. It is built under a name that nobody works in, and gets its own name as the last step: a
//! folder that has it is whole, and is never removed here, whatever died in between. The person's folder, its index and
//! its branches are read, and no more; a session's branch is all that is new. Decides nothing about who gets one.

/// What the person did not commit, taken along.
mod bringing;
/// Folders of the person's that are linked into it.
mod links;
/// What git lists.
mod listing;
/// What the session committed, brought home.
mod merging;
/// What becomes of those that nobody needs any more.
mod pruning;

use super::confine::rules::worktree_folders;
use super::process::{Exit, Processes};
use super::projects::{Projects, reference};
use super::{Scene, World, clock};
use crate::agent::carry::{Carried, Carry};
use crate::agent::event::{CallId, Event, WorkspaceRef};
use crate::agent::worktrees::{Made, Tree, branch};
use listing::Repository;
use serde::Deserialize;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

/// What git may print: names of the person's uncommitted changes.
const OUTPUT_BYTES_MAX: u64 = 4_000_000;
/// How the name of a folder begins in which one is built.
const BUILDING: &str = ".new-";
/// Its time is that of the last turn that worked there.
const USED: &str = ".used";
/// Large files of git-lfs need the network: they stay what the commit says of them.
const WITHOUT_LFS: (&str, &str) = ("GIT_LFS_SKIP_SMUDGE", "1");

/// Held while a worktree is taken away, and while one is taken up again.
static PRUNING: Mutex<()> = Mutex::const_new(());

/// Made at a time, in all sessions: each takes a dozen git processes, and webhooks are to be answered meanwhile.
static MAKING: Semaphore = Semaphore::const_new(4);

/// Where sessions work that come through a door from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// Each in a worktree of its own.
    Own,
    /// In the person's folder.
    Shared,
}

/// The settings.
#[derive(Debug, Clone)]
pub struct Habits {
    /// Names of ignored folders that builds need and do not write.
    pub links: Vec<String>,
    /// Sessions whose worktrees are kept, where they hold nothing that is not elsewhere.
    pub sessions_max: usize,
    pub idle_days_max: u64,
}

/// Where one worktree is.
struct Site {
    /// Of all worktrees of its session.
    folder: PathBuf,
    tree: PathBuf,
    branch: String,
    checkout: PathBuf,
}

/// The person's folder and a session's worktree of it, beside each other.
struct Sides {
    site: Site,
    theirs: Repository,
    ours: Repository,
}

impl World {
    /// Makes sure that a session's worktree is there.
    pub(super) async fn make_worktree(
        &self,
        owner: &str,
        checkout: &WorkspaceRef,
        again: bool,
        scene: &Scene,
    ) -> Event {
        let made = self.made(owner, checkout, again, &scene.cancel).await;
        Event::WorktreeMade {
            checkout: checkout.path.clone(),
            made: made.unwrap_or_else(|why| Made::Failed { why }),
        }
    }

    fn sides(
        &self,
        owner: &str,
        checkout: &Path,
        tree: &Tree,
        processes: &Processes,
    ) -> Result<Sides, String> {
        let projects = self.projects.as_deref();
        let site = Site::of(
            projects.ok_or("there is no PROJECTS_ROOT")?,
            owner,
            checkout,
        )?;
        let here = processes.with_own(&site.folder, OUTPUT_BYTES_MAX);
        let folder = PathBuf::from(&tree.workspace.path);
        let there = here.at(&folder).with_own(&site.folder, OUTPUT_BYTES_MAX);
        let theirs = Repository {
            processes: here,
            folder: checkout.to_owned(),
        };
        let ours = Repository {
            processes: there,
            folder,
        };
        Ok(Sides { site, theirs, ours })
    }

    /// Carries something between the person's folder and a session's worktree. `/cancel` does not stop it: half of it would be
    /// worse than a second more.
    pub(super) async fn carry(
        &self,
        carry: Carry,
        owner: &str,
        checkout: &WorkspaceRef,
        tree: &Tree,
        scene: &Scene,
    ) -> Event {
        let path = Path::new(&checkout.path);
        let processes = self.processes_at(path, CancellationToken::new());
        let carried = match carry {
            Carry::Bring => {
                let session = &scene.session;
                self.bring(session, owner, path, tree, &processes).await
            }
            Carry::Merge { committed } => {
                self.merge(owner, path, tree, committed, &processes).await
            }
        };
        Event::Carried {
            carried: carried.unwrap_or_else(|why| Carried::Failed { why }),
        }
    }

    async fn made(
        &self,
        owner: &str,
        checkout: &WorkspaceRef,
        again: bool,
        cancel: &CancellationToken,
    ) -> Result<Made, String> {
        let path = Path::new(&checkout.path);
        let Some(projects) = self.projects.as_deref().filter(|them| them.holds(path)) else {
            return Err(format!(
                "{} is not right below PROJECTS_ROOT, where worktrees are",
                checkout.path
            ));
        };
        let site = Site::of(projects, owner, path)?;
        let processes = self.processes_at(path, cancel.clone());
        let is_there = site.take_up().await?;
        let git = Git::at(&processes, &site);
        let mut turn = None;
        if !is_there {
            turn = tokio::select! {
                turn = MAKING.acquire() => turn.ok(),
                () = cancel.cancelled() => return Err("it was stopped".into()),
            };
            match git.cannot_branch_off().await {
                None => {}
                Some(why) if again => return Err(format!("it is gone, and {why}")),
                Some(why) => return Ok(Made::Shared { why }),
            }
            self.prune(projects, owner).await;
            git.build(&self.worktrees.links).await?;
        }
        git.require_whole().await?;
        let made = Made::Own {
            tree: Tree {
                workspace: WorkspaceRef {
                    name: checkout.name.clone(),
                    ..reference(&site.tree)
                },
                branch: site.branch.clone(),
                commit: git.commit().await,
                links: links::of(&site.checkout, &site.tree, &self.worktrees.links),
            },
            fresh: !is_there,
            uncommitted: if again { 0 } else { git.uncommitted().await },
        };
        drop(turn);
        Ok(made)
    }

    fn processes_at(&self, workspace: &Path, cancel: CancellationToken) -> Processes {
        let (environment, sandbox) = (self.environment.clone(), self.sandbox.clone());
        Processes::new(environment, sandbox, workspace, cancel)
    }
}

impl Site {
    fn of(projects: &Projects, owner: &str, checkout: &Path) -> Result<Self, String> {
        let name = checkout.file_name().ok_or("it has no name")?;
        let folder = projects.worktrees().join(owner);
        Ok(Self {
            tree: folder.join(name),
            branch: branch(owner),
            checkout: checkout.to_owned(),
            folder,
        })
    }

    /// Whether it is there; from here on nobody takes it away.
    async fn take_up(&self) -> Result<bool, String> {
        let _alone = PRUNING.lock().await;
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder);
        made.map_err(|error| format!("make {}: {error}", self.folder.display()))?;
        let path = self.folder.join(USED);
        let text = self.branch.as_bytes();
        fs::write(&path, text).map_err(|error| format!("write {}: {error}", path.display()))?;
        Ok(self.tree.is_dir())
    }

    /// What an attempt left that died; nobody ever worked there.
    fn unfinished(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let is_one = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy());
            name.is_some_and(|name| name.starts_with(BUILDING))
        };
        entries.map(|entry| entry.path()).filter(is_one).collect()
    }
}

/// git in the person's folder, which may also write the folder of the session's worktrees.
struct Git<'a> {
    processes: Processes,
    site: &'a Site,
}

impl<'a> Git<'a> {
    /// The folder must be there.
    fn at(processes: &Processes, site: &'a Site) -> Self {
        let processes = processes.with_own(&site.folder, OUTPUT_BYTES_MAX);
        Self { processes, site }
    }

    async fn ask(&self, args: &[&str]) -> Result<String, String> {
        ask(&self.processes, &self.site.checkout, args).await
    }

    /// Why there can be no worktree of it.
    async fn cannot_branch_off(&self) -> Option<String> {
        let top = self.ask(&["rev-parse", "--show-toplevel"]).await;
        let is_top = top.is_ok_and(|top| Path::new(&top) == self.site.checkout);
        if !is_top {
            return Some("it is no git repository of its own".into());
        }
        let head = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];
        let has_commits = self.ask(&head).await.is_ok();
        (!has_commits).then(|| "its repository has no commit yet".into())
    }

    /// Under another name first: one that bears its own name is whole.
    async fn build(&self, links: &[String]) -> Result<(), String> {
        for left in self.site.unfinished() {
            self.discard(&left).await;
        }
        let Site {
            folder,
            tree,
            branch,
            checkout,
        } = self.site;
        let room = folder.join(format!("{BUILDING}{}", clock::message_id()));
        let fail = |error: io::Error| format!("make {}: {error}", room.display());
        DirBuilder::new().mode(0o700).create(&room).map_err(fail)?;
        let building = room.join(tree.file_name().unwrap_or_default());
        let (at, to) = (building.to_string_lossy(), tree.to_string_lossy());
        let full = format!("refs/heads/{branch}");
        let is_there = ["show-ref", "--verify", "--quiet", &full];
        let start: &[&str] = match self.ask(&is_there).await {
            // Of an attempt that died, or of a worktree that was pruned: what was committed on it counts.
            Ok(_) => &[&at, branch],
            Err(_) => &["--no-track", "-b", branch, &at, "HEAD"],
        };
        // A dead attempt's git may still hold the branch, in a folder that nobody will use.
        let add = [&["worktree", "add", "--quiet", "--force"], start].concat();
        let built = async {
            self.ask(&add).await?;
            let ignored = self.ignored(links).await;
            links::make(checkout, &building, &ignored)?;
            self.ask(&["worktree", "move", &at, &to]).await
        };
        let built = built.await;
        if built.is_err() || building.exists() {
            self.discard(&room).await;
        }
        let _ = fs::remove_dir(&room); // empty
        match built {
            // Somebody else's attempt came to its end.
            Err(_) if tree.is_dir() => Ok(()),
            built => built.map(drop),
        }
    }

    /// Which of these folders the person's repository ignores: only those are linked.
    async fn ignored(&self, names: &[String]) -> Vec<String> {
        let mut ignored = Vec::new();
        for name in names {
            let is_folder = self.site.checkout.join(name).symlink_metadata();
            if !is_folder.is_ok_and(|meta| meta.is_dir()) {
                continue;
            }
            let within = format!("{name}/x");
            if self
                .ask(&["check-ignore", "--quiet", "--", &within])
                .await
                .is_ok()
            {
                ignored.push(name.clone());
            }
        }
        ignored
    }

    /// Takes away a folder in which one was being built, and what the repository knows of it.
    async fn discard(&self, room: &Path) {
        let name = self.site.tree.file_name().unwrap_or_default();
        let building = room.join(name);
        let path = room.to_owned();
        // Where it cannot be removed, it lies there, and is tried again.
        let _ = tokio::task::spawn_blocking(move || fs::remove_dir_all(path)).await;
        let building = building.to_string_lossy();
        let _ = self
            .ask(&["worktree", "remove", "--force", "--force", &building])
            .await;
    }

    /// An attempt that died between the last two steps left a folder that its repository looks for elsewhere.
    async fn require_whole(&self) -> Result<(), String> {
        let tree = &self.site.tree;
        if worktree_folders(tree).is_some() {
            return Ok(());
        }
        let path = tree.to_string_lossy();
        let _ = self.ask(&["worktree", "repair", &path]).await;
        match worktree_folders(tree) {
            Some(_) => Ok(()),
            None => Err(format!(
                "{path} is there, and its repository does not know it as a worktree. Nothing was changed; look at it, and move it away"
            )),
        }
    }

    async fn commit(&self) -> String {
        let tree = &self.site.tree;
        let processes = self.processes.at(tree);
        let head = ask(&processes, tree, &["rev-parse", "HEAD"]).await;
        head.unwrap_or_default()
    }

    async fn uncommitted(&self) -> usize {
        let status = self.ask(&["status", "--porcelain"]).await;
        status.map_or(0, |status| status.lines().count())
    }
}

/// What git says; an error is a sentence.
async fn ask(processes: &Processes, cwd: &Path, args: &[&str]) -> Result<String, String> {
    let call = CallId("worktree".into());
    let variables = [(WITHOUT_LFS.0.to_owned(), WITHOUT_LFS.1.to_owned())];
    let finished = processes.git_with(&call, cwd, args, None, &variables).await;
    let said = finished.stderr.text();
    let verb = args.join(" ");
    match finished.exit {
        Exit::Code(0) => Ok(finished.stdout.text().trim_end().to_owned()),
        Exit::NotStarted(why) => Err(format!("git did not start: {why}")),
        Exit::TimedOut => Err(format!("git {verb} took too long and was stopped")),
        Exit::Cancelled => Err("the person stopped it".into()),
        Exit::Code(_) | Exit::Signal(_) | Exit::Lost => {
            Err(format!("git {verb} failed: {}", said.trim()))
        }
    }
}
