//! git, as the tools call it.

use super::{Finished, Launch, Life, Processes};
use crate::agent::event::CallId;
use crate::world::confine::{Needs, Temp};
use std::path::Path;
use std::time::Duration;

/// Longer than any of the tools' commands takes on a large repository.
pub const GIT_TIMEOUT: Duration = Duration::from_secs(60);
/// Subcommands of git that are for nothing without the network.
const GIT_REMOTE: &[&str] = &["clone", "fetch", "ls-remote", "pull", "push"];
/// Subcommands that leave something behind: a probe must know whether one still runs.
const GIT_LASTING: &[&str] = &["add", "commit"];
const PUSH_TIMEOUT: Duration = Duration::from_secs(300);
/// With hooks: they may run checks and tests.
pub const HOOKS_TIMEOUT: Duration = Duration::from_secs(300);
/// Where git finds no hooks.
const NO_HOOKS: &str = "/dev/null";
/// What else of git could start a program or ask for something: pager, monitor, external diff, signing.
const NEUTRAL: &[&str] = &[
    "--no-pager",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "diff.external=",
    "-c",
    "core.pager=cat",
    "-c",
    "commit.gpgSign=false",
    "-c",
    "tag.gpgSign=false",
    "-c",
    "core.quotePath=false",
    "-c",
    "protocol.ext.allow=never",
    "-c",
    "color.ui=false",
    "-c",
    "gc.auto=0",
];
/// What else could start a program, or leave the repository, where git only looks on behalf of a text: what checks
/// signatures, what fetches what is missing, submodules, a folder that merely looks like a repository.
const NEUTRAL_LOOKING: &[&str] = &[
    "-c",
    "safe.bareRepository=explicit",
    "-c",
    "protocol.allow=never",
    "-c",
    "log.showSignature=false",
    "-c",
    "gpg.program=false",
    "-c",
    "gpg.openpgp.program=false",
    "-c",
    "gpg.x509.program=false",
    "-c",
    "gpg.ssh.program=false",
    "-c",
    "core.sshCommand=false",
    "-c",
    "core.attributesFile=/dev/null",
    "-c",
    "submodule.recurse=false",
    "-c",
    "status.submoduleSummary=false",
    "-c",
    "diff.ignoreSubmodules=all",
];
/// No redirect is followed, which may lead to another host, and nothing but what a push needs is spoken.
const NEUTRAL_ABROAD: &[&str] = &[
    "-c",
    "http.followRedirects=false",
    "-c",
    "protocol.allow=never",
    "-c",
    "protocol.https.allow=always",
    "-c",
    "protocol.http.allow=always",
    "-c",
    "protocol.ssh.allow=always",
];

impl Processes {
    /// Runs git with everything neutralised that could start a program or ask for something: hooks, pager, monitor,
    /// external diff, editor, prompts, signing.
    pub async fn git(
        &self,
        call: &CallId,
        cwd: &Path,
        args: &[&str],
        stdin: Option<Vec<u8>>,
    ) -> Finished {
        self.git_with(call, cwd, args, stdin, &[]).await
    }

    /// The same with the hooks in `folder`, which were trusted: confined like any command, and what they change of git's
    /// settings is put back.
    pub async fn git_with_hooks(
        &self,
        call: &CallId,
        cwd: &Path,
        args: &[&str],
        stdin: Option<Vec<u8>>,
        folder: &Path,
    ) -> Finished {
        let local = local(cwd, args, stdin, &[]);
        let launch = Launch {
            args: neutral(&folder.display().to_string(), args),
            timeout: HOOKS_TIMEOUT,
            guard_git: true,
            ..local
        };
        self.run(call, launch).await
    }

    /// The same with variables of its own.
    pub async fn git_with(
        &self,
        call: &CallId,
        cwd: &Path,
        args: &[&str],
        stdin: Option<Vec<u8>>,
        variables: &[(String, String)],
    ) -> Finished {
        self.run(call, local(cwd, args, stdin, variables)).await
    }

    /// The same where it only looks, on behalf of a text that nobody asked about: it can write nothing, fetches nothing, and
    /// takes no folder for its work but `root`.
    pub async fn git_looking(
        &self,
        call: &CallId,
        root: &Path,
        args: &[&str],
        variables: &[(String, String)],
        timeout: Duration,
    ) -> Finished {
        let args: Vec<&str> = NEUTRAL_LOOKING.iter().chain(args).copied().collect();
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let above = root.parent().unwrap_or(root);
        let own = [
            ("GIT_WORK_TREE", path(root)),
            ("GIT_CEILING_DIRECTORIES", path(above)),
            ("GIT_NO_LAZY_FETCH", "1".into()),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value));
        let variables: Vec<_> = own.into_iter().chain(variables.iter().cloned()).collect();
        let launch = Launch {
            timeout,
            ..local(root, &args, None, &variables)
        };
        self.only_reading().run(call, launch).await
    }

    /// git with a remote, in a bare repository of ours that is its only writable folder besides the workspace. It is
    /// removed afterwards.
    ///
    /// `own_credentials`: whether it may read the person's keys and tokens.
    pub async fn git_in(
        &self,
        room: Temp,
        call: &CallId,
        args: &[&str],
        own_credentials: bool,
    ) -> Finished {
        let folder = room.path().to_owned();
        let git_dir = ("GIT_DIR", folder.to_string_lossy().into_owned());
        let work = (folder.as_path(), Some(git_dir));
        self.git_abroad(room, work, call, args, own_credentials)
            .await
    }

    /// The same in a folder that is the workspace of these processes, with the room only for what is private.
    pub async fn git_beside(
        &self,
        room: Temp,
        cwd: &Path,
        call: &CallId,
        args: &[&str],
        own_credentials: bool,
    ) -> Finished {
        self.git_abroad(room, (cwd, None), call, args, own_credentials)
            .await
    }

    async fn git_abroad(
        &self,
        room: Temp,
        (cwd, git_dir): (&Path, Option<(&str, String)>),
        call: &CallId,
        args: &[&str],
        own_credentials: bool,
    ) -> Finished {
        let args: Vec<&str> = NEUTRAL_ABROAD.iter().chain(args).copied().collect();
        let env = [
            // Where credentials are read from: a pipe that only this folder's owner finds.
            (
                "JOURNEYMAN_ROOM",
                room.path().to_string_lossy().into_owned(),
            ),
            ("GIT_TERMINAL_PROMPT", "0".into()),
            ("GIT_EDITOR", "true".into()),
            // What git says is read.
            ("LC_ALL", "C".into()),
        ];
        let launch = Launch {
            program: "git".into(),
            args: neutral(NO_HOOKS, &args),
            cwd: cwd.to_owned(),
            env: (env.into_iter().chain(git_dir))
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            timeout: PUSH_TIMEOUT,
            stdin: None,
            needs: Needs {
                network: true,
                credentials: own_credentials,
            },
            guard_git: false,
            // It reads its credentials from us, and the remote knows what arrived.
            life: Life::Bound,
        };
        self.run_in(room, call, launch).await
    }
}

/// These arguments, with hooks from nowhere but this folder and nothing else that could start a program.
fn neutral(hooks: &str, args: &[&str]) -> Vec<String> {
    let hooks = format!("core.hooksPath={hooks}");
    let hooks = ["-c", &*hooks];
    let all = NEUTRAL.iter().chain(&hooks).chain(args);
    all.map(|arg| (*arg).to_owned()).collect()
}

/// git on what is here.
fn local(
    cwd: &Path,
    args: &[&str],
    stdin: Option<Vec<u8>>,
    variables: &[(String, String)],
) -> Launch {
    let remote = args.first().is_some_and(|name| GIT_REMOTE.contains(name));
    let env = [
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_EDITOR", "true"),
        ("GIT_ASKPASS", "true"),
    ];
    let mut words = args.iter().skip_while(|arg| arg.starts_with('-'));
    let life = match words.next().filter(|name| GIT_LASTING.contains(name)) {
        Some(name) => Life::Lasting(format!("git {name}")),
        None => Life::Bound,
    };
    Launch {
        program: "git".into(),
        args: neutral(NO_HOOKS, args),
        cwd: cwd.to_owned(),
        env: env
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into_iter()
            .chain(variables.iter().cloned())
            .collect(),
        timeout: GIT_TIMEOUT,
        stdin,
        needs: Needs {
            network: remote,
            credentials: remote,
        },
        guard_git: false,
        life,
    }
}
