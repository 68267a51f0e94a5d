//! Known traps of commands that are written in files, each by its name: what a text must never read, write or start.
//!
//! Where a repository's own settings are the trap, plain git falls into it first: else nothing would be shown.

use crate::commands::{Project, is_refused};
use crate::support::git;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

// --- commands that leave, write or start something ---------------------------------------------------------------------

/// It is refused, says nothing, and leaves everything as it is.
async fn refused(command: &str) {
    let project = Project::new();
    let root = project.root();
    let state = || {
        let all = [
            &["rev-parse", "HEAD"][..],
            &["branch"],
            &["status", "--short"],
        ];
        all.map(|args| git(&root, args))
    };
    project.command("inline", "");
    git(&root, &["add", "."]);
    git(&root, &["commit", "--quiet", "--message", "add"]);
    project.command("inline", &format!("!`{command}`"));
    let before = state();
    let loaded = project.load(&["inline"]).await;
    let done = &loaded["expansions"]["bash"][0];
    assert_eq!(done["command"], command);
    is_refused(done);
    let content = loaded["command"]["content"].as_str().expect("content");
    assert!(
        content.starts_with(&format!("!`{command}` [not run: not allowed: ")),
        "{content}"
    );
    assert!(!content.contains("root:"), "{content}");
    assert_eq!(state(), before);
}

macro_rules! refused {
    ($($name:ident: $command:literal;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                refused($command).await;
            }
        )*
    };
}

refused! {
    trap_cat_of_a_path_that_climbs_out: "cat ./../../etc/passwd";
    trap_ls_of_etc: "ls /etc";
    trap_git_diff_into_a_file: "git diff --output=f";
    trap_git_diff_of_files_outside: "git diff --no-index /etc/passwd notes.txt";
    trap_git_difftool_with_a_program: "git difftool -x sh";
    trap_git_branch_deleted: "git branch -D main";
    trap_git_log_format_that_asks_for_signatures: "git log --format='%-GK'";
}

// --- what a repository's settings would start --------------------------------------------------------------------------

/// A project in which `trap.sh` leaves a mark when it runs.
struct Trapped {
    project: Project,
    mark: PathBuf,
    script: String,
}

impl Trapped {
    fn new() -> Self {
        let project = Project::new();
        let root = project.root();
        let mark = root.parent().expect("a folder").join("ran");
        let script = root.parent().expect("a folder").join("trap.sh");
        let text = format!("#!/bin/sh\ntouch {}; cat\n", mark.display());
        fs::write(&script, text).expect("written");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("executable");
        fs::write(root.join("notes.txt"), "changed\n").expect("written");
        // Nothing may rest on the sandbox.
        let settings = "worktree = \"shared\"\nsandbox = \"off\"\n";
        project.0.config("settings.toml", settings);
        let script = script.display().to_string();
        Self {
            project,
            mark,
            script,
        }
    }

    fn set(&self, name: &str, value: &str) -> &Self {
        git(&self.project.root(), &["config", name, value]);
        self
    }

    fn attributes(&self, text: &str) -> &Self {
        let info = self.project.root().join(".git/info");
        fs::create_dir_all(&info).expect("a folder");
        fs::write(info.join("attributes"), text).expect("written");
        self
    }

    /// Plain git, told this in `folder`, runs the script.
    fn springs(&self, folder: &Path, args: &[&str]) {
        let mut plain = Command::new("git");
        plain.args(args).current_dir(folder).stdin(Stdio::null());
        plain.stdout(Stdio::null()).stderr(Stdio::null());
        let _ = plain.status().expect("git runs");
        assert!(self.mark.exists(), "the trap works: git {args:?}");
        fs::remove_file(&self.mark).expect("removed");
        // What git remembers of the file it looked at would hide the next look.
        fs::write(self.project.root().join("notes.txt"), "changed again\n").expect("written");
    }

    /// A text does not, and what it asks for is there all the same.
    async fn stays_shut(&self, commands: &[&str]) -> Vec<Value> {
        let found = self.project.bash(commands).await;
        assert!(!self.mark.exists(), "something ran: {found:?}");
        found
    }
}

fn output(one: &Value) -> &str {
    one["output"].as_str().unwrap_or_else(|| panic!("{one}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_core_fsmonitor() {
    let trapped = Trapped::new();
    trapped.set("core.fsmonitor", &trapped.script);
    trapped.springs(&trapped.project.root(), &["status"]);
    let found = trapped
        .stays_shut(&["git status --short", "git diff"])
        .await;
    assert!(output(&found[0]).contains(" M notes.txt"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_diff_external() {
    let trapped = Trapped::new();
    trapped.set("diff.external", &trapped.script);
    trapped.springs(&trapped.project.root(), &["diff"]);
    let found = trapped.stays_shut(&["git diff", "git log -p -1"]).await;
    assert!(output(&found[0]).contains("+changed again"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_textconv() {
    let trapped = Trapped::new();
    trapped
        .set("diff.trap.textconv", &trapped.script)
        .attributes("*.txt diff=trap\n");
    trapped.springs(&trapped.project.root(), &["diff"]);
    let found = trapped.stays_shut(&["git diff", "git log -p -1"]).await;
    assert!(output(&found[0]).contains("+changed again"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_clean_filter_in_info_attributes() {
    let trapped = Trapped::new();
    trapped
        .set("filter.trap.clean", &trapped.script)
        .set("filter.trap.required", "true")
        .attributes("*.txt filter=trap\n");
    trapped.springs(&trapped.project.root(), &["diff"]);
    let commands = ["git diff", "git status --short"];
    let found = trapped.stays_shut(&commands).await;
    assert!(output(&found[0]).contains("+changed again"), "{found:?}");
    assert!(output(&found[1]).contains(" M notes.txt"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_nested_bare_repository() {
    let trapped = Trapped::new();
    let nested = trapped.project.root().join("vendor/data");
    fs::create_dir_all(&nested).expect("a folder");
    git(&nested, &["init", "--quiet", "--bare", "."]);
    git(&nested, &["config", "core.bare", "false"]);
    git(&nested, &["config", "core.worktree", ".."]);
    git(&nested, &["config", "core.fsmonitor", &trapped.script]);
    trapped.springs(&nested, &["status"]);
    let commands = [
        "git status --short vendor/data",
        "git diff -- vendor/data",
        "git log -1 --oneline -- vendor/data",
    ];
    let found = trapped.stays_shut(&commands).await;
    assert!(found.iter().all(|one| one["executed"] == true), "{found:?}");
    assert!(output(&found[0]).contains("?? vendor/"), "{found:?}");
}

/// What is missing in a partial clone is fetched by a program that the clone's settings name.
#[tokio::test(flavor = "multi_thread")]
async fn trap_partial_clone_that_fetches() {
    let trapped = Trapped::new();
    let root = trapped.project.root();
    let blob = git(&root, &["rev-parse", "HEAD:notes.txt"]);
    let (folder, name) = blob.trim().split_at(2);
    // One that ends at once: git waits for what it fetches.
    let uploads = format!("touch {}; false", trapped.mark.display());
    let object = root.join(".git/objects").join(folder).join(name);
    fs::remove_file(object).expect("a loose object");
    trapped
        .set("core.repositoryFormatVersion", "1")
        .set("extensions.partialClone", "origin")
        .set("remote.origin.promisor", "true")
        .set("remote.origin.url", &root.display().to_string())
        .set("remote.origin.uploadpack", &uploads);
    trapped.springs(&root, &["log", "-p"]);
    let found = trapped.stays_shut(&["git log -p", "git diff"]).await;
    assert!(
        found.iter().all(|one| one["executed"] == false),
        "{found:?}"
    );
}

// --- files that are none -----------------------------------------------------------------------------------------------

/// Neither a reference nor `cat` gets at `name`, and neither waits for it.
async fn not_read(project: &Project, name: &str, why: &str) {
    let text = format!("@{name}\n!`cat {name}`\n");
    project.command("reads", &text);
    let started = Instant::now();
    let loaded = project.load(&["reads"]).await;
    assert!(started.elapsed() < Duration::from_secs(5));
    let file = &loaded["expansions"]["files"][0];
    assert_eq!(file["resolved"], false, "{file}");
    let bash = &loaded["expansions"]["bash"][0];
    assert_eq!(bash["executed"], false, "{bash}");
    for one in [file, bash] {
        let error = one["error"].as_str().expect("an error");
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_symlink_to_etc_hostname() {
    let project = Project::new();
    symlink("/etc/hostname", project.root().join("host.md")).expect("a link");
    not_read(&project, "host.md", "leads outside the project").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_fifo() {
    let project = Project::new();
    let mode = nix::sys::stat::Mode::from_bits_truncate(0o600);
    nix::unistd::mkfifo(&project.root().join("pipe.md"), mode).expect("a FIFO");
    not_read(&project, "pipe.md", "FIFO").await;
}

// --- words that come in ------------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn trap_command_inside_an_argument() {
    let project = Project::new();
    project
        .command("plain", "Do it.")
        .command("asks", "Do: $0 and $ARGUMENTS");
    for (name, begin) in [("plain", "Do it."), ("asks", "Do: ")] {
        for given in [
            "!`git status`",
            "`!`echo hi``",
            "a\n!`git status`\n@notes.txt",
        ] {
            let loaded = project.load(&[name, "--", given]).await;
            let content = loaded["command"]["content"].as_str().expect("content");
            assert!(
                content.starts_with(begin) && content.contains(given),
                "{content}"
            );
            for kind in ["bash", "files"] {
                let found = loaded["expansions"][kind].as_array().expect("a list");
                assert!(found.is_empty(), "{given}: {found:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_reference_inside_an_included_file() {
    let project = Project::new();
    let root = project.root();
    let outside = root.parent().expect("a folder").join("outside.md");
    fs::write(&outside, "hunter22").expect("written");
    project
        .command("top", "@docs/a.md @docs/a.txt")
        .write(".env", "KEY=hunter22")
        .write("docs/b.md", "beta")
        .write("docs/a.txt", "@docs/b.md @.env\n");
    let out = outside.display();
    let text = format!("@b.md\n@{out}\n@../../outside.md\n@.env\n@/etc/hostname\n!`pwd`\n");
    project.write("docs/a.md", &text);
    let loaded = project.load(&["top"]).await;
    let files = loaded["expansions"]["files"].as_array().expect("files");
    let read = files.iter().filter(|file| file["resolved"] == true);
    let read: Vec<_> = read.map(|file| file["reference"].as_str()).collect();
    assert_eq!(read, ["@docs/a.md", "@b.md", "@docs/a.txt"].map(Some));
    assert_eq!(files.len(), 3 + 4, "{files:?}");
    assert!(!loaded.to_string().contains("hunter22"), "{loaded}");
    assert_eq!(loaded["expansions"]["bash"], serde_json::json!([]));
}
