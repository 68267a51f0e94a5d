//! A repository as a new workspace: what would be cloned, and the clone. It is ready as a whole or not there at all.

use super::address::{self, Address, login_for};
use super::said::explain;
use super::{Remote, Room, Used};
use crate::gate::{ClonePlan, Destination};
use crate::world::process::Exit;
use crate::world::projects::{Projects, check_name, unset};
use std::fs;
use std::path::Path;

impl Remote<'_> {
    /// What a clone would be. Nothing is asked of the remote.
    pub fn clone_plan(projects: Option<&Projects>, url: &str) -> Destination<ClonePlan> {
        match projects
            .ok_or_else(unset)
            .and_then(|them| planned(them, url))
        {
            Ok(plan) => Destination::Known(Box::new(plan)),
            Err(why) => Destination::Nowhere { why },
        }
    }

    /// Clones exactly what was approved.
    ///
    /// # Errors
    /// In words for the model; then there is no new workspace.
    pub async fn clone_into(
        &self,
        projects: &Projects,
        plan: &ClonePlan,
    ) -> Result<String, String> {
        let staged = projects
            .stage(&plan.name)
            .map_err(|error| format!("no room beside the other workspaces: {error}"))?;
        let made = self.cloned(projects, plan, &staged.folder).await;
        // What is left of a clone that was killed goes with the next start, or before the next try.
        let _ = fs::remove_dir_all(&staged.folder);
        made
    }

    async fn cloned(
        &self,
        projects: &Projects,
        plan: &ClonePlan,
        folder: &Path,
    ) -> Result<String, String> {
        let name = &plan.name;
        self.fetch_into(folder, &plan.url, name, &["--quiet"])
            .await?;
        projects
            .add(&folder.join(name), name)
            .map_err(|error| format!("{name} could not be put beside the others: {error}"))?;
        Ok(format!(
            "Cloned {} as the workspace {name}; switch_workspace goes there.",
            plan.url
        ))
    }

    /// Clones an address as `name` into a folder that is there, with switches of its own.
    ///
    /// # Errors
    /// In words; what is in the folder then is no repository to work with.
    pub async fn fetch_into(
        &self,
        folder: &Path,
        url: &str,
        name: &str,
        switches: &[&str],
    ) -> Result<(), String> {
        let address = address::read(url)?;
        let token = self.hosting.token.as_deref();
        let login = login_for(&address, &self.hosting.api, token);
        let used = match &login {
            Some(_) => Used::Token,
            None => Used::OwnGit,
        };
        let private = |error| format!("no private folder to clone from: {error}");
        let room = Room::empty("sha1", login.as_ref()).map_err(private)?;
        let helper = room.helper(&address);
        let usual = [
            "clone",
            "--template=",
            "--no-recurse-submodules",
            "--no-local",
        ];
        let args: Vec<&str> = (helper.iter().map(String::as_str))
            .chain(usual)
            .chain(switches.iter().copied())
            .chain(["--", url, name])
            .collect();
        let processes = self.processes.at(folder);
        let own = used == Used::OwnGit;
        let (room, credentials) = room.apart();
        let finished = processes
            .git_beside(room, folder, self.call, &args, own)
            .await;
        drop(credentials);
        match finished.exit {
            Exit::Code(0) => Ok(()),
            Exit::Code(_) => Err(explain(&finished.stderr.text(), url, used)),
            Exit::NotStarted(why) => Err(format!("git did not start: {why}")),
            Exit::Cancelled => Err("the person stopped it".into()),
            Exit::TimedOut => Err("it took longer than 5 minutes; the person can clone it".into()),
            Exit::Signal(_) | Exit::Lost => Err("git was killed".into()),
        }
    }
}

/// Reads an address that may be kept and shown.
///
/// # Errors
/// It is none, or holds credentials.
pub fn open_address(url: &str) -> Result<Address, String> {
    let address = address::read(url)?;
    match address.login {
        None => Ok(address),
        Some(_) => {
            Err("credentials do not belong into an address; GITHUB_TOKEN is for them".into())
        }
    }
}

fn planned(projects: &Projects, url: &str) -> Result<ClonePlan, String> {
    let address = open_address(url)?;
    let name = address.path.rsplit('/').next().unwrap_or_default();
    check_name(name)?;
    if projects.root().join(name).symlink_metadata().is_ok() {
        return Err(format!(
            "there is a {name} already; switch_workspace goes there"
        ));
    }
    Ok(ClonePlan {
        url: address.text,
        name: name.to_owned(),
    })
}
