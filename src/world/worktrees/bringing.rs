//! The person's uncommitted changes, taken along into a session's worktree: changed, new and deleted files, but for ignored
//! and secret ones. The person's folder is only read.
//!
//! All or nothing: a file of which the session has another version than the person's last commit stops it, unless it already
//! is as the person has it.

use super::Sides;
use super::listing::{Name, shown};
use crate::agent::carry::Carried;
use crate::agent::event::Names;
use crate::agent::worktrees::Tree;
use crate::world::process::Processes;
use crate::world::snapshot::{Brought, Snapshots};
use crate::world::{World, open_workspace};
use std::collections::BTreeSet;
use std::path::Path;

const HEAD: &[&str] = &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];

impl World {
    pub(super) async fn bring(
        &self,
        session: &str,
        owner: &str,
        checkout: &Path,
        tree: &Tree,
        processes: &Processes,
    ) -> Result<Carried, String> {
        let Sides { theirs, ours, .. } = self.sides(owner, checkout, tree, processes)?;
        let workspace = open_workspace(&ours.folder)?;
        let into = self.snapshots(session, &workspace);
        let from = Snapshots::of(
            &self.data_dir,
            session,
            checkout,
            processes,
            self.policy.clone(),
        );
        let names: BTreeSet<Name> = theirs.dirt().await?.into_keys().collect();
        let picked = from.pick(&names).await.map_err(|error| error.to_string())?;
        if picked.wants.is_empty() {
            return Ok(Carried::Brought {
                files: Names::default(),
                left_out: picked.left_out,
            });
        }
        let (theirs_at, ours_at) = (theirs.line(HEAD).await?, ours.line(HEAD).await?);
        let mut of_session: BTreeSet<Name> = ours.dirt().await?.into_keys().collect();
        of_session.extend(theirs.changes(&theirs_at, &ours_at).await?.into_keys());
        let files = shown(picked.wants.keys());
        let left_out = picked.left_out;
        let brought = into.bring(picked.wants, &of_session).await;
        match brought.map_err(|error| error.to_string())? {
            Brought::Done => Ok(Carried::Brought { files, left_out }),
            Brought::Differ { files } => Ok(Carried::Differ { files }),
            Brought::Failed { why } => Err(why),
        }
    }
}
