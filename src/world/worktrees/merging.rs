//! A session's commits, merged into the branch that the person has checked out, in the person's folder.
//!
//! All or nothing: what the merge would make is known before the folder is touched, as a commit that no branch has yet. The
//! folder goes there by a fast-forward, in which git itself refuses to overwrite anything. A file that the merge changes and
//! that is not as the person's commit has it stops it, unless it already is what the merge makes of it: so a merge that
//! was cut short is finished by the next one, and what came along with `/bring` is not in its own way.

use super::Sides;
use super::listing::{Entry, Name, Repository, ended_by_nul, shown};
use crate::agent::carry::Carried;
use crate::agent::worktrees::Tree;
use crate::world::World;
use crate::world::process::{Exit, Processes};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Where git writes down that it is in the middle of something.
const UNDER_WAY: &[(&str, &str)] = &[
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
];
const INDEX: &str = ".merge-index";

/// What goes where.
struct Plan {
    /// The person's branch, and where it is.
    into: String,
    head: String,
    /// The session's, and where it is.
    branch: String,
    tip: String,
}

impl World {
    pub(super) async fn merge(
        &self,
        owner: &str,
        checkout: &Path,
        tree: &Tree,
        committed: bool,
        processes: &Processes,
    ) -> Result<Carried, String> {
        let Sides { site, theirs, ours } = self.sides(owner, checkout, tree, processes)?;
        let dirt = ours.dirt().await?;
        if !committed && !dirt.is_empty() {
            let files = shown(dirt.keys());
            return Ok(Carried::Uncommitted { files });
        }
        let plan = plan(&theirs, &ours, tree).await?;
        merge(&theirs, &plan, &site.folder.join(INDEX)).await
    }
}

async fn plan(theirs: &Repository, ours: &Repository, tree: &Tree) -> Result<Plan, String> {
    let branch_of = ["symbolic-ref", "--quiet", "--short", "HEAD"];
    let head_of = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];
    let into = theirs.line(&branch_of).await;
    let into = into.map_err(
        |_| "no branch is checked out in your folder, so there is nothing to merge into",
    )?;
    for (name, what) in UNDER_WAY {
        let is_there = theirs
            .line(&["rev-parse", "--verify", "--quiet", name])
            .await;
        if is_there.is_ok() {
            return Err(format!(
                "{what} is under way in your folder; finish it first"
            ));
        }
    }
    let head = theirs.line(&head_of).await;
    Ok(Plan {
        into,
        head: head.map_err(|_| "your branch has no commit yet")?,
        // The session may have gone to another one since.
        branch: ours.line(&branch_of).await.unwrap_or(tree.branch.clone()),
        tip: ours.line(&head_of).await?,
    })
}

async fn merge(theirs: &Repository, plan: &Plan, index: &Path) -> Result<Carried, String> {
    let Plan {
        into, head, tip, ..
    } = plan;
    let range = format!("{head}..{tip}");
    let count = theirs.line(&["rev-list", "--count", &range]).await?;
    let commits = count.parse().map_err(|_| format!("git counts {count}"))?;
    let merged = |commit: &str, files| Carried::Merged {
        branch: plan.branch.clone(),
        into: into.clone(),
        commit: commit.to_owned(),
        commits,
        files,
    };
    if commits == 0 {
        return Ok(merged(head, 0));
    }
    let commit = match is_ancestor(theirs, head, tip).await {
        true => tip.clone(),
        false => match join(theirs, plan).await? {
            Ok(commit) => commit,
            Err(conflict) => return Ok(conflict),
        },
    };
    let changes = theirs.changes(head, &commit).await?;
    let candidates = candidates(theirs, &changes).await?;
    let names: BTreeSet<&Name> = candidates.iter().map(|(name, _)| name).collect();
    let are = match names.is_empty() {
        true => BTreeMap::new(),
        false => theirs.entries_of(&names, index).await?,
    };
    // What was staged besides the file's own content would be lost.
    let in_the_way = |(name, twofold): &&(Name, bool)| {
        let wanted = changes.get(name).and_then(|(_, entry)| entry.as_ref());
        *twofold || are.get(name) != wanted
    };
    let stops: Vec<&(Name, bool)> = candidates.iter().filter(in_the_way).collect();
    if !stops.is_empty() {
        let files = shown(stops.into_iter().map(|(name, _)| name));
        return Ok(Carried::InTheWay { files });
    }
    if !names.is_empty() {
        let args = ["update-index", "--add", "--remove", "-z", "--stdin"];
        let listed = ended_by_nul(names.iter().copied());
        theirs.git(&args, Some(listed), &[]).await?;
    }
    let forward = [
        "merge",
        "--ff-only",
        "--no-overwrite-ignore",
        "--quiet",
        "--no-stat",
        &commit,
    ];
    let action = format!("merge {}", plan.branch);
    let variables = [("GIT_REFLOG_ACTION", &*action)];
    match theirs.git(&forward, None, &variables).await {
        Ok(_) => Ok(merged(&commit, changes.len())),
        // Of an earlier server, whose git was still at it.
        Err(_) if is_ancestor(theirs, tip, "HEAD").await => Ok(merged(&commit, changes.len())),
        Err(why) => Err(why),
    }
}

async fn is_ancestor(theirs: &Repository, older: &str, newer: &str) -> bool {
    let args = ["merge-base", "--is-ancestor", older, newer];
    theirs.line(&args).await.is_ok()
}

/// A commit that has both, which no branch has yet.
async fn join(theirs: &Repository, plan: &Plan) -> Result<Result<String, Carried>, String> {
    let Plan {
        into,
        head,
        branch,
        tip,
    } = plan;
    let args = [
        "merge-tree",
        "--write-tree",
        "--no-messages",
        "--name-only",
        "-z",
        head,
        tip,
    ];
    let finished = theirs.run(&args, None, &[]).await;
    let listed = [&*finished.stdout.head, &finished.stdout.tail].concat();
    let mut parts = listed.split(|byte| *byte == 0);
    let tree = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    match finished.exit {
        Exit::Code(0) => {
            let message = format!("Merge branch '{branch}' into {into}");
            let args = [
                "commit-tree",
                tree.trim(),
                "-p",
                head,
                "-p",
                tip,
                "-m",
                &message,
            ];
            theirs.line(&args).await.map(Ok)
        }
        Exit::Code(1) => {
            let names: BTreeSet<Name> = parts
                .filter(|name| !name.is_empty())
                .map(<[u8]>::to_vec)
                .collect();
            Ok(Err(Carried::Conflict {
                into: into.clone(),
                files: shown(names.iter()),
            }))
        }
        _ => {
            let said = finished.stderr.text();
            Err(format!("git merge-tree failed: {}", said.trim()))
        }
    }
}

/// Files that the merge changes and that are not as the person's commit has them, ignored ones included; `true`: staged in one
/// version and there in another.
async fn candidates(
    theirs: &Repository,
    changes: &BTreeMap<Name, (bool, Entry)>,
) -> Result<Vec<(Name, bool)>, String> {
    let dirt = theirs.dirt().await?;
    let mut candidates = Vec::new();
    for (name, (was_there, _)) in changes {
        match dirt.get(name) {
            Some(dirt) => candidates.push((name.clone(), dirt.staged && dirt.unstaged)),
            None if !was_there && theirs.path(name).symlink_metadata().is_ok() => {
                candidates.push((name.clone(), false));
            }
            None => {}
        }
    }
    Ok(candidates)
}
