//! The repository's remote: where a push would go, the push itself, and whether one has arrived.
//!
//! git talks to a remote from a *room*: an empty bare repository in a private folder that borrows the workspace's
//! objects. Hooks, addresses, credential helpers and everything else that the workspace's repository is configured with
//! do not exist there, so nothing of it decides where credentials go or which programs run. The person's own
//! configuration counts as ever. Credentials are read from a pipe by a helper for one host: they are in no argument,
//! no variable and no file.

/// Addresses, and who gets which credentials.
mod address;
/// A repository as a new workspace.
mod cloning;
/// What git says, in words.
mod said;

pub use cloning::open_address;

use super::confine::Temp;
use super::process::{Exit, Finished, Processes};
use crate::agent::event::CallId;
use crate::gate::{Destination, Project, PushPlan, PushWish};
use address::{Address, Login, git_origin, login_for};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use said::{Used, explain};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Of the list of commits at which a shallow clone ends.
const SHALLOW_BYTES_MAX: u64 = 1024 * 1024;
/// So often may git ask for the credentials in one run; once is what it does.
const CREDENTIAL_READS_MAX: usize = 4;
/// Of what the remote says about a push that went well.
const REMARK_LINES_MAX: usize = 8;

/// GitHub, or a server that speaks like it.
#[derive(Clone, Default)]
pub struct Hosting {
    /// `GITHUB_API_URL`.
    pub api: String,
    /// `GITHUB_TOKEN`; it goes to that API and to the repositories of the same service, nowhere else.
    pub token: Option<String>,
    /// `GITHUB_REPO`: owner and name.
    pub project: Option<(String, String)>,
}

impl fmt::Debug for Hosting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hosting({}, {:?})", self.api, self.project)
    }
}

/// The remotes of one workspace, under one call.
#[derive(Clone, Copy)]
pub struct Remote<'a> {
    pub processes: &'a Processes,
    pub call: &'a CallId,
    pub root: &'a Path,
    pub hosting: &'a Hosting,
}

impl Remote<'_> {
    /// What a push would be. Nothing is asked of the remote.
    pub async fn plan(&self, wish: &PushWish) -> Destination<PushPlan> {
        match self.planned(wish).await {
            Ok(plan) => Destination::Known(Box::new(plan)),
            Err(why) => Destination::Nowhere { why },
        }
    }

    async fn planned(&self, wish: &PushWish) -> Result<PushPlan, String> {
        let branch = match &wish.branch {
            Some(branch) => branch.clone(),
            None => {
                let head = self
                    .local(&["symbolic-ref", "--quiet", "--short", "HEAD"])
                    .await;
                head.map_err(|_| "no branch is checked out; git_create_branch makes one")?
            }
        };
        self.local(&["check-ref-format", "--branch", &branch])
            .await
            .map_err(|_| format!("{branch:?} is no name of a branch"))?;
        let full = format!("refs/heads/{branch}^{{commit}}");
        let commit = self
            .local(&["rev-parse", "--verify", "--quiet", &full])
            .await;
        let commit = commit.map_err(|_| format!("there is no branch {branch:?} with a commit"))?;
        let remote = self.name(&branch).await?;
        let url = self.address(&remote).await?.text;
        let seen = format!("refs/remotes/{remote}/{branch}");
        let seen = self
            .local(&["rev-parse", "--verify", "--quiet", &seen])
            .await;
        let overwrites = match (wish.force, seen) {
            (false, _) => None,
            (true, Ok(seen)) => Some(seen),
            (true, Err(_)) => {
                return Err(format!(
                    "what {remote} has of {branch} was never fetched, so it is not overwritten; push without force, or fetch first"
                ));
            }
        };
        Ok(PushPlan {
            remote,
            url,
            branch,
            commit,
            overwrites,
        })
    }

    /// The remote that the branch is pushed to: the configured one, `origin`, the only one.
    async fn name(&self, branch: &str) -> Result<String, String> {
        let remotes = self.local(&["remote"]).await?;
        let remotes: Vec<&str> = remotes.lines().collect();
        let full = format!("refs/heads/{branch}");
        let format = "--format=%(push:remotename)";
        let configured = self.local(&["for-each-ref", format, &full]).await?;
        let wanted = [configured.as_str(), "origin"];
        let found = wanted.into_iter().find(|name| remotes.contains(name));
        match (found, remotes.as_slice()) {
            (Some(name), _) => Ok(name.to_owned()),
            (None, [only]) => Ok((*only).to_owned()),
            (None, []) => Err("the repository has no remote; the person can add one: git remote add origin https://…".into()),
            (None, several) => Err(format!("none of the remotes is origin: {}", several.join(", "))),
        }
    }

    /// Where it is, rewritten as git would (`insteadOf`, `pushurl`): what the person is shown is what counts.
    async fn address(&self, remote: &str) -> Result<Address, String> {
        let text = self
            .local(&["remote", "get-url", "--push", "--", remote])
            .await?;
        let first = text.lines().next().unwrap_or_default();
        address::read(first).map_err(|why| format!("the remote {remote} can't be pushed to: {why}"))
    }

    /// The project on GitHub that this repository belongs to.
    pub async fn project(&self) -> Destination<Project> {
        match self.found_project().await {
            Ok(project) => Destination::Known(Box::new(project)),
            Err(why) => Destination::Nowhere { why },
        }
    }

    async fn found_project(&self) -> Result<Project, String> {
        if self.hosting.token.is_none() {
            return Err("GITHUB_TOKEN is not set, so GitHub can't be asked; the person can set it (docs/github.md)".into());
        }
        let api = self.hosting.api.clone();
        if let Some((owner, name)) = self.hosting.project.clone() {
            return Ok(Project { api, owner, name });
        }
        let host = git_origin(&api);
        let host = host
            .as_ref()
            .map(|origin| origin.host())
            .unwrap_or_default();
        let remotes = self.local(&["remote"]).await?;
        for remote in remotes.lines() {
            let Ok(address) = self.address(remote).await else {
                continue;
            };
            let Some((owner, name)) = address.path.split_once('/') else {
                continue;
            };
            if address.host == host && is_name(owner) && is_name(name) {
                let (owner, name) = (owner.to_owned(), name.to_owned());
                return Ok(Project { api, owner, name });
            }
        }
        Err(format!(
            "no remote of this repository is at {host}; the person can set GITHUB_REPO=owner/name"
        ))
    }

    /// Who owns the repository that a plan pushes to: the head of a pull request is named by it.
    pub fn owner(plan: &PushPlan) -> Option<String> {
        let address = address::read(&plan.url).ok()?;
        Some(address.path.split_once('/')?.0.to_owned())
    }

    /// Pushes exactly what was approved.
    ///
    /// # Errors
    /// In words for the model: what the remote said, and what to do.
    pub async fn push(&self, plan: &PushPlan) -> Result<String, String> {
        let switches = [
            "push",
            "--porcelain",
            "--no-verify",
            "--no-signed",
            "--no-follow-tags",
            "--recurse-submodules=no",
        ];
        let approved = plan.argv().into_iter().skip(2);
        let args: Vec<String> = switches
            .map(str::to_owned)
            .into_iter()
            .chain(approved)
            .collect();
        let (finished, used) = self.talk(plan, &args).await?;
        let printed = format!("{}\n{}", finished.stderr.text(), finished.stdout.text());
        match &finished.exit {
            Exit::Code(0) => {}
            Exit::Code(_) => return Err(explain(&printed, &plan.url, used)),
            other => return Err(unclear(other, plan)),
        }
        let mut told = format!("Pushed {} to {}.", named(plan), plan.url);
        if finished
            .stdout
            .text()
            .lines()
            .any(|line| line.starts_with('='))
        {
            told = format!("{} is on {} already.", named(plan), plan.url);
        }
        if let Err(why) = self.follow(plan).await {
            told.push_str(&format!("\nThe upstream could not be set: {why}"));
        }
        let said = finished.stderr.text();
        let remarks = said.lines().filter_map(|line| line.strip_prefix("remote:"));
        let remarks = remarks.map(str::trim).filter(|line| !line.is_empty());
        for remark in remarks.take(REMARK_LINES_MAX) {
            told.push_str(&format!("\nremote: {remark}"));
        }
        Ok(told)
    }

    /// What the remote has under the plan's branch.
    ///
    /// # Errors
    /// In words, where it can't be asked.
    pub async fn tip(&self, plan: &PushPlan) -> Result<Option<String>, String> {
        let args = ["ls-remote", &plan.url, &plan.target()].map(str::to_owned);
        let (finished, used) = self.talk(plan, &args).await?;
        let printed = finished.stdout.text();
        match &finished.exit {
            Exit::Code(0) => Ok(printed.split_whitespace().next().map(str::to_owned)),
            Exit::Code(_) => Err(explain(&finished.stderr.text(), &plan.url, used)),
            other => Err(unclear(other, plan)),
        }
    }

    /// Whether the workspace's repository says that this commit arrived.
    pub async fn knows_as_pushed(&self, plan: &PushPlan) -> bool {
        let tracking = format!("refs/remotes/{}/{}", plan.remote, plan.branch);
        let args = ["rev-parse", "--verify", "--quiet", &tracking];
        let known = self.local(&args).await;
        known.is_ok_and(|commit| commit == plan.commit)
    }

    /// git in a room, with the credentials that are for the plan's host.
    async fn talk(&self, plan: &PushPlan, args: &[String]) -> Result<(Finished, Used), String> {
        let here = self.address(&plan.remote).await.ok();
        let address = match here.filter(|here| here.text == plan.url) {
            Some(address) => address,
            None => address::read(&plan.url)?,
        };
        let token = self.hosting.token.as_deref();
        let login = login_for(&address, &self.hosting.api, token);
        let used = match &login {
            Some(login) if token == Some(login.password.as_str()) => Used::Token,
            Some(_) => Used::Address,
            None => Used::OwnGit,
        };
        let room = Room::make(self, login.as_ref()).await?;
        let helper = room.helper(&address);
        let args: Vec<&str> = helper.iter().chain(args).map(String::as_str).collect();
        let own = used == Used::OwnGit;
        let (folder, credentials) = room.apart();
        let finished = self.processes.git_in(folder, self.call, &args, own).await;
        drop(credentials);
        Ok((finished, used))
    }

    /// The workspace's repository learns what the remote has now, and the branch its upstream.
    async fn follow(&self, plan: &PushPlan) -> Result<(), String> {
        let PushPlan {
            remote,
            branch,
            commit,
            ..
        } = plan;
        let tracking = format!("refs/remotes/{remote}/{branch}");
        self.local(&["update-ref", &tracking, commit]).await?;
        let upstream = format!("--set-upstream-to={remote}/{branch}");
        self.local(&["branch", "--quiet", &upstream, branch])
            .await?;
        Ok(())
    }

    /// git in the workspace: nothing here reaches out.
    async fn local(&self, args: &[&str]) -> Result<String, String> {
        let finished = self.processes.git(self.call, self.root, args, None).await;
        match &finished.exit {
            Exit::Code(0) => Ok(finished.stdout.text().trim().to_owned()),
            Exit::NotStarted(why) => Err(format!("git did not start: {why}")),
            _ => Err(finished.stderr.text().trim().to_owned()),
        }
    }
}

fn named(plan: &PushPlan) -> String {
    format!("{} ({:.10})", plan.branch, plan.commit)
}

/// Killed, timed out, cancelled: it may have arrived.
fn unclear(exit: &Exit, plan: &PushPlan) -> String {
    let why = match exit {
        Exit::NotStarted(why) => return format!("git did not start: {why}"),
        Exit::TimedOut => "took too long and was stopped".to_owned(),
        Exit::Cancelled => "was cancelled by the person".to_owned(),
        Exit::Signal(signal) => format!("was killed by signal {signal}"),
        Exit::Code(code) => format!("ended with exit code {code}"),
        Exit::Lost => "was killed".to_owned(),
    };
    format!(
        "git {why}; whether {} arrived at {} is not known. Pushing it again does no harm",
        named(plan),
        plan.url
    )
}

/// What GitHub calls people and repositories.
pub fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !text.is_empty() && text.len() <= 100 && text != "." && text != ".." && text.chars().all(plain)
}

/// Where a shallow clone ends. The workspace can put anything there, also a link to a file that only we may read, and git
/// would repeat what it does not understand: so commits, or nothing.
fn commits_of(shallow: &Path) -> Option<String> {
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).custom_flags(flags).open(shallow).ok()?;
    file.metadata().ok().filter(|meta| meta.is_file())?;
    let mut text = String::new();
    file.take(SHALLOW_BYTES_MAX)
        .read_to_string(&mut text)
        .ok()?;
    let is_commit = |line: &str| {
        matches!(line.len(), 40 | 64) && line.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    text.lines().all(is_commit).then_some(text)
}

/// A bare repository that has nothing of its own.
struct Room {
    folder: Temp,
    /// Held open, so that what is in the pipe stays there.
    credentials: Option<File>,
}

impl Room {
    async fn make(remote: &Remote<'_>, login: Option<&Login>) -> Result<Self, String> {
        let at = |name| ["rev-parse", "--path-format=absolute", "--git-path", name];
        let objects = remote.local(&at("objects")).await?;
        let shallow = remote.local(&at("shallow")).await?;
        let format = remote.local(&["rev-parse", "--show-object-format"]).await?;
        Self::furnished(&objects, Path::new(&shallow), &format, login)
            .map_err(|error| format!("no private folder to push from: {error}"))
    }

    fn furnished(
        objects: &str,
        shallow: &Path,
        format: &str,
        login: Option<&Login>,
    ) -> io::Result<Self> {
        let room = Self::empty(format, login)?;
        let path = room.folder.path();
        fs::write(path.join("objects/info/alternates"), format!("{objects}\n"))?;
        if let Some(commits) = commits_of(shallow) {
            fs::write(path.join("shallow"), commits)?;
        }
        Ok(room)
    }

    /// Borrows nothing from anywhere.
    fn empty(format: &str, login: Option<&Login>) -> io::Result<Self> {
        let folder = Temp::alone()?;
        let path = folder.path();
        let config = match format {
            "sha256" => {
                "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n"
            }
            _ => "[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
        };
        fs::create_dir_all(path.join("objects/info"))?;
        fs::create_dir(path.join("refs"))?;
        fs::write(path.join("HEAD"), "ref: refs/heads/none\n")?;
        fs::write(path.join("config"), config)?;
        let credentials = login
            .map(|login| pipe(&path.join("credentials"), login))
            .transpose()?;
        Ok(Self {
            credentials,
            folder,
        })
    }

    /// The folder, and what must be held until git has ended.
    fn apart(self) -> (Temp, Option<File>) {
        (self.folder, self.credentials)
    }

    /// Settings that make git ask us for one host, and nobody else for it.
    fn helper(&self, address: &Address) -> Vec<String> {
        let (Some(_), Some(origin)) = (&self.credentials, &address.origin) else {
            return Vec::new();
        };
        let script = "!f() { test \"$1\" = get && { IFS= read -r a; IFS= read -r b; printf '%s\\n%s\\n' \"$a\" \"$b\"; } < \"$JOURNEYMAN_ROOM/credentials\"; }; f";
        let only = format!("credential.{origin}.helper={script}");
        ["-c", "credential.helper=", "-c", &only]
            .map(str::to_owned)
            .into()
    }
}

/// A pipe with a name that only its folder's owner can find, filled with the answer to git's question.
fn pipe(path: &Path, login: &Login) -> io::Result<File> {
    mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).map_err(io::Error::from)?;
    // Open for both, it neither waits for a reader nor loses what nobody has read yet.
    let mut pipe = OpenOptions::new().read(true).write(true).open(path)?;
    let Login { name, password } = login;
    let answer = format!("username={name}\npassword={password}\n").repeat(CREDENTIAL_READS_MAX);
    pipe.write_all(answer.as_bytes())?;
    Ok(pipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_shallow_clone_is_commits_or_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let (secret, shallow) = (folder.path().join("netrc"), folder.path().join("shallow"));
        fs::write(
            &secret,
            "machine git.example login ana password correct-horse\n",
        )
        .expect("a secret");
        std::os::unix::fs::symlink(&secret, &shallow).expect("a link");
        assert_eq!(commits_of(&shallow), None);
        assert_eq!(commits_of(&secret), None);
        assert_eq!(commits_of(folder.path()), None);
        let commits = format!("{}\n{}\n", "a1".repeat(20), "b2".repeat(32));
        fs::remove_file(&shallow).expect("remove the link");
        fs::write(&shallow, &commits).expect("commits");
        assert_eq!(commits_of(&shallow), Some(commits));
    }
}
