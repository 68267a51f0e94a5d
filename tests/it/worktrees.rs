//! Worktrees of a session's own: the person's folder stays as it is, and no session treads on another.

use crate::fake_forge::{Forge, TOKEN};
use crate::fake_model::{self, FakeModel};
use crate::serve::Served;
use crate::support::{Rig, call, calls, git, make_repository, run_command, says};
use journeyman::agent::event::{CallId, Event, Inbound, OutgoingKind, Status};
use journeyman::agent::state::State;
use journeyman::config::Settings;
use journeyman::history::inspect;
use journeyman::world::process::{Finished, Launch, Life, Processes, safe_environment};
use journeyman::world::remote::Hosting;
use journeyman::world::worktrees::Isolation;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

pub const ANA: &str = "http:ana";
const EVE: &str = "http:eve";

pub fn write(path: &str) -> Value {
    call("write_file", json!({"path": path, "content": "new\n"}))
}

pub fn commit() -> Value {
    call("git_commit", json!({"message": "feat: more"}))
}

/// A rig whose sessions from outside work in worktrees of their own, in `shop`, with `other` beside it.
pub fn rig(replies: &[Value]) -> Rig {
    rig_with(replies, |_| {})
}

pub fn rig_with(replies: &[Value], adjust: impl FnOnce(&mut Settings)) -> Rig {
    Rig::with(replies, |settings| {
        settings.file.worktree = Isolation::Own;
        let root = settings.projects_root.as_ref().expect("a root");
        make_repository(&root.join("other"));
        adjust(settings);
    })
}

pub fn projects(rig: &Rig) -> PathBuf {
    let root = rig.folder.path().join("projects");
    root.canonicalize().expect("it is there")
}

pub async fn say(rig: &Rig, chat: &str, id: &str, text: &str) -> String {
    let hub = &rig.assembly.as_ref().expect("it runs").hub;
    let message = Inbound::text(id, chat, text);
    let delivered = hub.deliver(chat, message).await.expect("it is taken");
    delivered.session
}

pub async fn notice(rig: &mut Rig) -> String {
    rig.message(OutgoingKind::Notice).await
}

pub fn tree(rig: &Rig, session: &str, name: &str) -> PathBuf {
    let trees = projects(rig).join(".journeyman/worktrees");
    trees.join(session).join(name)
}

pub fn state(rig: &Rig, session: &str) -> State {
    let journal = format!("agent_sessions/{session}.jsonl");
    let path = rig.settings.data_dir.join(journal);
    let (state, _) = inspect(&path, &crate::support::texts(), |_| {}).expect("it is intact");
    state
}

/// Everything of the person's that a session could tread on.
pub fn standing(folder: &Path) -> (Vec<u8>, [String; 5]) {
    let index = fs::read(folder.join(".git/index")).unwrap_or_default();
    let said = [
        &["status", "--porcelain=v2", "--branch"][..],
        &["diff", "--no-ext-diff"],
        &["stash", "list"],
        &["reflog", "--format=%H %gs"],
        &["config", "--local", "--list"],
    ];
    (index, said.map(|args| git(folder, args)))
}

fn worktrees(folder: &Path) -> Vec<String> {
    let listed = git(folder, &["worktree", "list", "--porcelain"]);
    let path = |line: &str| line.strip_prefix("worktree ").map(str::to_owned);
    listed.lines().filter_map(path).collect()
}

// --- side by side ----------------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn two_chats_work_on_one_project_at_a_time_and_neither_in_the_persons_folder() {
    let mut rig = rig(&[
        calls(&[write("new.txt")]),
        run_command("echo ran >> proof.txt"),
        calls(&[commit()]),
        says("Done."),
    ]);
    let shop = projects(&rig).join("shop");
    fs::write(shop.join("notes.txt"), "mine\n").expect("a change of the person's");
    fs::write(shop.join("draft.txt"), "mine\n").expect("a new file of the person's");
    git(&shop, &["stash", "push", "--quiet", "--include-untracked"]);
    git(&shop, &["stash", "apply", "--quiet"]);
    git(&shop, &["add", "draft.txt"]);
    let before = standing(&shop);
    let ana = say(&rig, ANA, "a1", "do it").await;
    let eve = say(&rig, EVE, "e1", "do it").await;
    for _ in [&ana, &eve] {
        rig.message(OutgoingKind::Question).await;
    }
    // Both wait at the same place, with files of their own.
    for session in [&ana, &eve] {
        let tree = tree(&rig, session, "shop");
        assert!(tree.join("new.txt").is_file() && !tree.join("draft.txt").exists());
        assert_eq!(
            fs::read_to_string(tree.join("notes.txt")).expect("the committed one"),
            "one\ntwo\nthree\n"
        );
    }
    say(&rig, ANA, "a2", "yes").await;
    say(&rig, EVE, "e2", "yes").await;
    assert_eq!(rig.answer().await, "Done.");
    assert_eq!(rig.answer().await, "Done.");
    for session in [&ana, &eve] {
        let tree = tree(&rig, session, "shop");
        let proof = fs::read_to_string(tree.join("proof.txt")).expect("the proof");
        assert_eq!(proof, "ran\n", "one command ran in it");
        let head = git(&tree, &["symbolic-ref", "--short", "HEAD"]);
        assert_eq!(head.trim_end(), format!("journeyman/{session}"));
        let log = git(&tree, &["log", "--format=%s"]);
        assert_eq!(log, "feat: more\nfeat: begin\n", "{}", rig.transcript());
    }
    assert_eq!(standing(&shop), before, "the person's folder is as it was");
    assert!(!shop.join("new.txt").exists() && !shop.join("proof.txt").exists());
    assert_eq!(worktrees(&shop).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn says_at_once_on_which_branch_it_works_and_what_it_does_not_see() {
    let mut rig = rig(&[calls(&[write("new.txt")]), says("Done."), says("Again.")]);
    let shop = projects(&rig).join("shop");
    fs::write(shop.join("notes.txt"), "mine\n").expect("a change of the person's");
    let session = say(&rig, ANA, "a1", "do it").await;
    let branch = format!("journeyman/{session}");
    let told = notice(&mut rig).await;
    assert!(told.contains(&branch) && told.contains("shop"), "{told}");
    let told = notice(&mut rig).await;
    assert!(told.contains("1 uncommitted changes"), "{told}");
    rig.answer().await;
    say(&rig, ANA, "a2", "/agent").await;
    let status = notice(&mut rig).await;
    assert!(
        status.contains(&format!("Workspace: shop, branch {branch}")),
        "{status}"
    );
    let first = state(&rig, &session).opening.system.clone();
    assert!(
        first.contains(&format!("shop, on your own branch {branch}.")),
        "{first}"
    );
    // Said once: the next turn only looks whether it is there.
    let messages = state(&rig, &session).conversation.messages().len();
    say(&rig, ANA, "a3", "go on").await;
    assert_eq!(rig.answer().await, "Again.");
    let state = state(&rig, &session);
    assert_eq!(state.conversation.messages().len(), messages + 2);
    assert_eq!(
        state.workspace.path,
        tree(&rig, &session, "shop").display().to_string()
    );
    assert_eq!(state.checkout.path, shop.display().to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn undo_and_diff_are_about_the_worktree() {
    let mut rig = rig(&[calls(&[write("new.txt")]), says("Done.")]);
    let session = say(&rig, ANA, "a1", "do it").await;
    rig.answer().await;
    let new = tree(&rig, &session, "shop").join("new.txt");
    say(&rig, ANA, "a2", "/diff").await;
    let diff = rig.message(OutgoingKind::Change).await;
    assert!(diff.contains("new.txt"), "{diff}");
    say(&rig, ANA, "a3", "/undo").await;
    assert!(notice(&mut rig).await.contains("new.txt"));
    assert!(!new.exists());
    say(&rig, ANA, "a4", "/redo").await;
    assert!(notice(&mut rig).await.contains("new.txt"));
    assert!(new.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn goes_on_in_its_worktree_after_a_restart_and_makes_it_again_where_somebody_removed_it() {
    let mut rig = rig(&[
        run_command("echo ran >> proof.txt"),
        calls(&[commit()]),
        says("Done."),
        calls(&[write("more.txt")]),
        says("More."),
    ]);
    let session = say(&rig, ANA, "a1", "do it").await;
    let (code, question) = rig.question().await;
    assert!(question.contains("Workspace: shop"), "{question}");
    rig.restart().await;
    say(&rig, ANA, "a2", &format!("/approve {code}")).await;
    assert_eq!(rig.answer().await, "Done.");
    let (shop, tree) = (projects(&rig).join("shop"), tree(&rig, &session, "shop"));
    assert!(tree.join("proof.txt").exists() && !shop.join("proof.txt").exists());
    git(&tree, &["add", "--all"]);
    git(&tree, &["commit", "--quiet", "--message", "feat: proof"]);
    git(&shop, &["worktree", "remove", &tree.display().to_string()]);
    rig.restart().await;
    say(&rig, ANA, "a3", "go on").await;
    assert_eq!(rig.answer().await, "More.", "{}", rig.transcript());
    let told = |message: &journeyman::agent::conversation::Wire| {
        message.get().contains("is made again from your branch")
    };
    let messages = state(&rig, &session).conversation.messages().to_vec();
    assert_eq!(messages.iter().filter(|message| told(message)).count(), 1);
    assert!(tree.join("proof.txt").exists(), "its branch was taken up");
    assert!(tree.join("more.txt").exists() && !shop.join("more.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_workspace_has_a_worktree_of_its_own_too() {
    let switch = call("switch_workspace", json!({"name": "other"}));
    let mut rig = rig(&[
        calls(&[write("one.txt"), switch, write("two.txt")]),
        says("There."),
        calls(&[write("three.txt")]),
        says("Back."),
        calls(&[write("four.txt")]),
        says("There again."),
    ]);
    let session = say(&rig, ANA, "a1", "go").await;
    assert_eq!(rig.answer().await, "There.", "{}", rig.transcript());
    let (shop, other) = (tree(&rig, &session, "shop"), tree(&rig, &session, "other"));
    assert!(shop.join("one.txt").exists() && other.join("two.txt").exists());
    say(&rig, ANA, "a2", "/workspace shop").await;
    assert_eq!(notice(&mut rig).await, "📁 Workspace: shop");
    say(&rig, ANA, "a3", "on").await;
    assert_eq!(rig.answer().await, "Back.");
    assert!(shop.join("three.txt").exists());
    say(&rig, ANA, "a4", "/undo").await;
    assert!(notice(&mut rig).await.contains("three.txt"));
    assert!(shop.join("one.txt").exists() && other.join("two.txt").exists());
    // A new session of the chat begins where the last one was: in the person's folder of that name, beside it again.
    say(&rig, ANA, "a5", "/workspace other").await;
    notice(&mut rig).await;
    say(&rig, ANA, "a6", "on").await;
    assert_eq!(rig.answer().await, "There again.");
    assert!(other.join("four.txt").exists());
    for name in ["shop", "other"] {
        let folder = projects(&rig).join(name);
        assert_eq!(git(&folder, &["status", "--porcelain"]), "", "{name}");
        assert_eq!(worktrees(&folder).len(), 2, "{name}");
    }
}

/// The person's folder is trusted with all its worktrees, also before there is one.
#[tokio::test(flavor = "multi_thread")]
async fn trust_is_in_the_persons_folder_and_what_its_files_say_is_that_of_the_branch() {
    let mut rig = rig(&[says("Done.")]);
    let shop = projects(&rig).join("shop");
    fs::write(shop.join("AGENTS.md"), "Use tabs.\n").expect("a file");
    git(&shop, &["add", "AGENTS.md"]);
    git(&shop, &["commit", "--quiet", "--message", "docs: rules"]);
    fs::write(shop.join("AGENTS.md"), "Use spaces, perhaps.\n").expect("a draft");
    say(&rig, ANA, "a1", "/trust").await;
    let shown = notice(&mut rig).await;
    let code = shown
        .split("/trust ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next());
    let code = code
        .unwrap_or_else(|| panic!("no code in {shown}"))
        .to_owned();
    say(&rig, ANA, "a2", &format!("/trust {code}")).await;
    assert!(notice(&mut rig).await.contains("shop"));
    let session = say(&rig, ANA, "a3", "do it").await;
    assert_eq!(rig.answer().await, "Done.", "{}", rig.transcript());
    let state = state(&rig, &session);
    let all: String = state
        .conversation
        .messages()
        .iter()
        .map(|m| m.get())
        .collect();
    assert!(all.contains("Use tabs."), "{all}");
}

// --- where there is none ---------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn who_sits_at_a_terminal_works_in_the_folder() {
    let mut rig = rig(&[calls(&[write("new.txt")]), says("Done.")]);
    rig.say("do it").await;
    rig.answer().await;
    assert!(rig.workspace().join("new.txt").exists());
    assert!(!projects(&rig).join(".journeyman").exists());
}

async fn works_in_the_folder(prepare: impl FnOnce(&Path), why: &str) {
    let mut rig = rig(&[calls(&[write("new.txt")]), says("Done."), says("Again.")]);
    prepare(&rig.workspace());
    say(&rig, ANA, "a1", "do it").await;
    let told = notice(&mut rig).await;
    assert!(told.contains("in your folder shop itself"), "{told}");
    assert!(told.contains(why), "{told}");
    assert_eq!(rig.answer().await, "Done.", "{}", rig.transcript());
    let note = rig.state().conversation.messages()[2].get().to_owned();
    assert!(
        note.contains("in the person's folder shop itself") && note.contains(why),
        "{note}"
    );
    assert!(rig.workspace().join("new.txt").exists());
    say(&rig, ANA, "a2", "again").await;
    assert_eq!(rig.answer().await, "Again.");
    let made = |event: &Event| matches!(event, Event::WorktreeMade { .. });
    let records = rig.records();
    assert_eq!(records.iter().filter(|r| made(&r.event)).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_without_a_repository_is_worked_in_itself() {
    let remove = |shop: &Path| fs::remove_dir_all(shop.join(".git")).expect("removed");
    works_in_the_folder(remove, "no git repository of its own").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_within_a_repository_is_worked_in_itself() {
    let around = |shop: &Path| {
        fs::remove_dir_all(shop.join(".git")).expect("removed");
        make_repository(shop.parent().expect("a parent"));
    };
    works_in_the_folder(around, "no git repository of its own").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_without_a_commit_is_worked_in_itself() {
    let empty = |shop: &Path| {
        fs::remove_dir_all(shop.join(".git")).expect("removed");
        git(shop, &["init", "--quiet", "--initial-branch=main"]);
    };
    works_in_the_folder(empty, "no commit yet").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_is_a_linked_worktree_itself_is_left_alone_too() {
    let mut rig = rig(&[
        calls(&[write("new.txt")]),
        calls(&[commit()]),
        says("Done."),
    ]);
    let shop = projects(&rig).join("shop");
    let main = rig.folder.path().join("elsewhere");
    fs::rename(&shop, &main).expect("moved");
    let linked = shop.display().to_string();
    git(
        &main,
        &["worktree", "add", "--quiet", "-b", "side", &linked],
    );
    fs::write(shop.join("side.txt"), "x").expect("a file");
    git(&shop, &["add", "side.txt"]);
    git(&shop, &["commit", "--quiet", "--message", "feat: side"]);
    let session = say(&rig, ANA, "a1", "do it").await;
    assert_eq!(rig.answer().await, "Done.", "{}", rig.transcript());
    let tree = tree(&rig, &session, "shop");
    let log = git(&tree, &["log", "--format=%s"]);
    assert_eq!(log, "feat: more\nfeat: side\nfeat: begin\n");
    assert_eq!(git(&shop, &["status", "--porcelain"]), "");
    assert!(tree.join("new.txt").exists() && !shop.join("new.txt").exists());
}

/// Nothing is done in the person's folder instead: the turn ends, and can be resumed.
#[tokio::test(flavor = "multi_thread")]
async fn a_worktree_that_cannot_be_made_ends_the_turn_and_the_next_try_makes_it() {
    let mut rig = rig(&[calls(&[write("new.txt")]), says("Done.")]);
    let shop = projects(&rig).join("shop");
    // A branch of this name leaves no room for those below it.
    git(&shop, &["branch", "journeyman"]);
    let session = say(&rig, ANA, "a1", "do it").await;
    let told = rig.answer().await;
    assert!(
        told.contains("could not make a worktree of shop") && told.contains("journeyman"),
        "{told}"
    );
    assert!(!shop.join("new.txt").exists() && !tree(&rig, &session, "shop").exists());
    git(&shop, &["branch", "--quiet", "--delete", "journeyman"]);
    say(&rig, ANA, "a2", "/agent-resume").await;
    assert_eq!(rig.answer().await, "Done.", "{}", rig.transcript());
    assert!(tree(&rig, &session, "shop").join("new.txt").exists());
    assert!(!shop.join("new.txt").exists());
}

// --- what its commands reach -----------------------------------------------------------------------------------------

/// bash in a session's worktree, confined as a command of a model.
async fn bash(settings: &Settings, tree: &Path, read: &[PathBuf], text: &str) -> Finished {
    let environment = safe_environment(&[]);
    let sandbox = settings.sandbox(&environment);
    let cancel = CancellationToken::new();
    let processes = Processes::new(Arc::new(environment), sandbox, tree, cancel).reading(read);
    let launch = Launch {
        program: "bash".into(),
        args: vec!["-c".into(), text.into()],
        cwd: tree.to_owned(),
        env: Vec::new(),
        timeout: Duration::from_secs(60),
        stdin: None,
        needs: Default::default(),
        guard_git: true,
        life: Life::Bound,
    };
    processes.run(&CallId("1.1".into()), launch).await
}

fn has_landlock(settings: &Settings) -> bool {
    let found = settings.sandbox(&safe_environment(&[])).has_landlock();
    if !found {
        println!("SKIPPED: this kernel has no Landlock");
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_in_it_reaches_neither_the_persons_folder_nor_what_git_runs() {
    let mut rig = rig(&[says("Hello."), says("Hello.")]);
    if !has_landlock(&rig.settings) {
        return;
    }
    let shop = projects(&rig).join("shop");
    let session = say(&rig, ANA, "a1", "hello").await;
    rig.answer().await;
    let other = say(&rig, EVE, "e1", "hello").await;
    rig.answer().await;
    let (tree, other) = (tree(&rig, &session, "shop"), tree(&rig, &other, "shop"));
    let work = async |text: &str| bash(&rig.settings, &tree, &[], text).await;
    let done =
        work("echo x > own.txt && git add . && git commit -qm 'feat: x' && git log -1 --format=%s")
            .await;
    assert_eq!(done.stdout.text(), "feat: x\n", "{}", done.stderr.text());
    fs::write(shop.join(".git/hooks/pre-commit.sample"), "sample").expect("a file");
    let snapshot = || {
        let common = shop.join(".git");
        let names = ["HEAD", "config", "index", "hooks/pre-commit.sample"];
        let files = names.map(|name| fs::read(common.join(name)).ok());
        let mut hooks: Vec<_> = fs::read_dir(common.join("hooks"))
            .expect("hooks")
            .flatten()
            .map(|e| e.file_name())
            .collect();
        hooks.sort();
        let admin = git(&other, &["rev-parse", "--absolute-git-dir"]);
        let admin = Path::new(admin.trim_end());
        let theirs =
            ["HEAD", "index", "commondir", "gitdir"].map(|name| fs::read(admin.join(name)).ok());
        (
            files,
            hooks,
            theirs,
            fs::read_to_string(shop.join("notes.txt")).ok(),
        )
    };
    let before = snapshot();
    let (main, others) = (shop.display(), other.display());
    let mut attempts = vec![
        format!("echo x > {main}/notes.txt"),
        format!("echo x > {main}/new.txt"),
        format!("ls {main}/../other"),
        format!("echo x > {others}/notes.txt"),
        format!("cd {main} && git add -A"),
        "git config core.fsmonitor evil".into(),
        "git config --worktree core.fsmonitor evil; git config extensions.worktreeConfig true"
            .into(),
        "git -C $(git rev-parse --git-common-dir)/.. reset --hard".into(),
    ];
    let common = "$(git rev-parse --git-common-dir)";
    for name in [
        "hooks/pre-commit",
        "hooks/pre-commit.sample",
        "config",
        "config.worktree",
        "commondir",
        "HEAD",
        "index",
        "info/attributes",
        "modules/x",
        "worktrees/new",
    ] {
        attempts.push(format!("echo evil > {common}/{name}"));
        attempts.push(format!(
            "rm -f {common}/{name} || exit 1; mkdir -p {common}/{name}/x"
        ));
    }
    attempts.push(format!(
        "mv {common}/hooks {common}/old || ln -s /tmp {common}/hooks"
    ));
    attempts.push(format!(
        "for i in {common}/worktrees/*; do echo /tmp > $i/commondir; done; false"
    ));
    for attempt in &attempts {
        work(attempt).await;
        assert_eq!(snapshot(), before, "{attempt}");
        assert!(!shop.join("new.txt").exists(), "{attempt}");
    }
    // What lies in the worktree's own part is put back.
    let pointer = fs::read(tree.join(".git")).expect("a pointer");
    let admin = git(&tree, &["rev-parse", "--absolute-git-dir"]);
    let admin = PathBuf::from(admin.trim_end());
    let own =
        || ["commondir", "gitdir", "config.worktree"].map(|name| fs::read(admin.join(name)).ok());
    let mine = own();
    for attempt in [
        "echo /tmp > $(git rev-parse --git-dir)/commondir",
        "echo /tmp/.git > $(git rev-parse --git-dir)/gitdir",
        "echo '[core]' > $(git rev-parse --git-dir)/config.worktree",
        "echo gitdir: /tmp > .git",
        "rm .git; git init -q; git config core.fsmonitor evil",
    ] {
        let said = work(attempt).await.remark;
        assert!(
            said.is_some_and(|said| said.contains("Put back")),
            "{attempt}"
        );
        assert_eq!(own(), mine, "{attempt}");
        assert_eq!(
            fs::read(tree.join(".git")).ok().as_ref(),
            Some(&pointer),
            "{attempt}"
        );
    }
    assert_eq!(snapshot(), before);
    // Meanwhile the person may change what is the person's: nobody puts that back.
    let slow = work("sleep 1; echo done");
    let person = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        git(&shop, &["config", "user.nickname", "Anita"]);
    };
    let (slow, ()) = tokio::join!(slow, person);
    assert_eq!((slow.remark, slow.stdout.text()), (None, "done\n".into()));
    assert_eq!(git(&shop, &["config", "user.nickname"]), "Anita\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn ignored_folders_that_builds_need_are_there_for_reading_only() {
    let mut rig = rig(&[
        calls(&[call(
            "run_command",
            json!({"command": "cat node_modules/left/index.js"}),
        )]),
        calls(&[write("node_modules/left/index.js")]),
        says("Done."),
    ]);
    let shop = projects(&rig).join("shop");
    fs::write(shop.join(".gitignore"), "node_modules/\n").expect("rules");
    git(&shop, &["add", ".gitignore"]);
    git(&shop, &["commit", "--quiet", "--message", "chore: rules"]);
    fs::create_dir_all(shop.join("node_modules/left")).expect("a folder");
    fs::write(shop.join("node_modules/left/index.js"), "left\n").expect("a file");
    // Not ignored, hence no folder of a build.
    fs::create_dir_all(shop.join(".venv/bin")).expect("a folder");
    let session = say(&rig, ANA, "a1", "look").await;
    assert_eq!(rig.answer().await, "Done.");
    let tree = tree(&rig, &session, "shop");
    assert!(!tree.join(".venv").exists());
    assert_eq!(git(&tree, &["status", "--porcelain"]), "");
    let links = state(&rig, &session);
    let links = journeyman::agent::worktrees::here(&links)
        .expect("one")
        .links
        .clone();
    assert_eq!(links, [shop.join("node_modules").display().to_string()]);
    if has_landlock(&rig.settings) {
        let outputs: Vec<String> = (rig.records().iter())
            .filter_map(|record| match &record.event {
                Event::ToolFinished { outcome, .. } => Some(outcome.output.clone()),
                _ => None,
            })
            .collect();
        assert!(outputs[0].contains("left"), "{outputs:#?}");
        assert!(outputs[1].contains("outside the workspace"), "{outputs:#?}");
        let read: Vec<PathBuf> = links.iter().map(PathBuf::from).collect();
        let run = async |text: &str| bash(&rig.settings, &tree, &read, text).await;
        let seen = run("cat node_modules/left/index.js").await;
        assert_eq!(seen.stdout.text(), "left\n", "{}", seen.stderr.text());
        for attempt in [
            "echo evil > node_modules/left/index.js",
            "echo evil > node_modules/left/x",
            "rm -r node_modules/left/",
        ] {
            run(attempt).await;
            let kept = fs::read_to_string(shop.join("node_modules/left/index.js"));
            assert_eq!(kept.expect("it is there"), "left\n", "{attempt}");
            assert!(!shop.join("node_modules/left/x").exists());
        }
    }
}

// --- to the remote ---------------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn pushes_its_branch_and_sets_the_upstream() {
    let forge = Forge::start().await;
    let hosting = Hosting {
        api: forge.api(),
        token: Some(TOKEN.to_owned()),
        project: None,
    };
    let mut rig = rig_with(
        &[
            calls(&[write("new.txt"), commit()]),
            calls(&[call("git_push", json!({}))]),
            says("Pushed."),
        ],
        |settings| settings.github = hosting,
    );
    let shop = projects(&rig).join("shop");
    git(&shop, &["remote", "add", "origin", &forge.remote()]);
    let session = say(&rig, ANA, "a1", "push it").await;
    let (_, question) = rig.question().await;
    let branch = format!("journeyman/{session}");
    assert!(question.contains(&branch), "{question}");
    say(&rig, ANA, "a2", "yes").await;
    let pushed = rig
        .until(|event| match event {
            Event::ToolFinished { outcome, .. } => Some(outcome.clone()),
            _ => None,
        })
        .await;
    assert_eq!(pushed.status, Status::Done, "{}", pushed.output);
    assert!(
        !pushed.output.contains("upstream could not"),
        "{}",
        pushed.output
    );
    assert_eq!(rig.answer().await, "Pushed.");
    let there = git(&forge.repository(), &["rev-parse", &branch]);
    assert_eq!(there, git(&shop, &["rev-parse", &branch]));
    let upstream = format!("{branch}@{{upstream}}");
    let upstream = git(&shop, &["rev-parse", "--abbrev-ref", &upstream]);
    assert_eq!(upstream.trim_end(), format!("origin/{branch}"));
}

// --- those that nobody needs any more ----------------------------------------------------------------------------------

/// As if the session had not gone on for so many days.
fn age(tree: &Path, days: u64) {
    let used = tree.with_file_name(".used");
    let then = SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
    let file = File::options()
        .append(true)
        .open(used)
        .expect("it is there");
    file.set_modified(then).expect("it is set");
}

#[tokio::test(flavor = "multi_thread")]
async fn takes_old_worktrees_away_and_none_that_holds_something() {
    let mut rig = rig(&[says("Hello.")]);
    let shop = projects(&rig).join("shop");
    let names = [
        "spent",
        "young",
        "changed",
        "untracked",
        "committed",
        "merged",
        "detached",
    ];
    let mut trees = Vec::new();
    for name in names {
        let session = say(&rig, &format!("http:{name}"), name, "hello").await;
        rig.answer().await;
        trees.push((
            name,
            tree(&rig, &session, "shop"),
            format!("journeyman/{session}"),
        ));
    }
    rig.stop().await;
    // Different ones: a commit that is merged is on another branch.
    let commit_in = |tree: &Path, name: &str| {
        let message = format!("feat: {name}");
        git(
            tree,
            &["commit", "--quiet", "--allow-empty", "--message", &message],
        )
    };
    for (name, tree, branch) in &trees {
        age(tree, if *name == "young" { 13 } else { 15 });
        match *name {
            "changed" => fs::write(tree.join("notes.txt"), "x").expect("changed"),
            "untracked" => fs::write(tree.join("new.txt"), "x").expect("written"),
            "committed" => drop(commit_in(tree, name)),
            "detached" => {
                git(tree, &["switch", "--quiet", "--detach"]);
                commit_in(tree, name);
            }
            "merged" => {
                commit_in(tree, name);
                git(&shop, &["merge", "--quiet", branch]);
            }
            _ => {}
        }
    }
    rig.restart().await;
    say(&rig, ANA, "a1", "hello").await;
    rig.answer().await;
    for (name, tree, branch) in &trees {
        let goes = ["spent", "merged"].contains(name);
        assert_eq!(tree.exists(), !goes, "{name}");
        assert_eq!(tree.parent().expect("a folder").exists(), !goes, "{name}");
        let known = worktrees(&shop).contains(&tree.display().to_string());
        assert_eq!(known, !goes, "{name}");
        let branches = git(&shop, &["branch", "--list", branch]);
        assert_eq!(branches.is_empty(), goes, "{name}");
    }
    assert_eq!(git(&shop, &["status", "--porcelain"]), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_so_many_and_none_whose_session_waits_for_an_answer() {
    let mut rig = rig_with(&[run_command("echo x > y"), says("Done.")], |settings| {
        settings.limits.worktrees_max = 3;
    });
    let mut trees = Vec::new();
    for chat in ["http:waits", "http:old", "http:older"] {
        let session = say(&rig, chat, chat, "do it").await;
        rig.question().await;
        if chat != "http:waits" {
            say(&rig, chat, &format!("{chat}-no"), "no").await;
            rig.answer().await;
        }
        trees.push(tree(&rig, &session, "shop"));
    }
    rig.stop().await;
    for (tree, days) in trees.iter().zip([5, 3, 4]) {
        age(tree, days);
    }
    rig.restart().await;
    say(&rig, ANA, "a1", "hello").await;
    rig.question().await;
    let there: Vec<bool> = trees.iter().map(|tree| tree.exists()).collect();
    assert_eq!(
        there,
        [true, true, false],
        "the oldest that nobody waits for"
    );
}

// --- killed --------------------------------------------------------------------------------------------------------

pub fn killer(folder: &Path) -> Option<PathBuf> {
    let (source, library) = (folder.join("kill.c"), folder.join("kill.so"));
    fs::write(&source, include_str!("worktree_kill.c")).expect("written");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .status();
    match built {
        Ok(status) if status.success() => Some(library),
        _ => {
            eprintln!("skipped: no C compiler");
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn is_made_once_however_often_the_server_is_killed_over_it() {
    let tools = tempfile::tempdir().expect("a folder");
    let Some(library) = killer(tools.path()) else {
        return;
    };
    let mut deaths = 0;
    for at in 1.. {
        let after = at % 2 == 0;
        let model = FakeModel::recorded(vec![
            fake_model::calls("write_file", json!({"path": "new.txt", "content": "new\n"})),
            fake_model::says("Done."),
        ])
        .await;
        let mut served = Served::new(&model).await;
        served
            .program
            .config("settings.toml", "worktree = \"own\"\nresume = \"auto\"\n");
        let shop = served.program.workspace();
        fs::write(shop.join(".gitignore"), "node_modules/\n").expect("rules");
        git(&shop, &["add", ".gitignore"]);
        git(&shop, &["commit", "--quiet", "--message", "chore: rules"]);
        fs::create_dir_all(shop.join("node_modules/left")).expect("a folder");
        fs::write(shop.join("notes.txt"), "mine\n").expect("a change");
        let before = standing(&shop);
        let mut command = served.program.command(&["serve"]);
        command
            .env("LD_PRELOAD", &library)
            .env("KILL_AT", at.to_string());
        if after {
            command.env("KILL_AFTER", "1");
        }
        served.begin_as(command).await;
        // Killed before it answers, it is told again, as WhatsApp does.
        served.tries_to_say("wamid.1", "do it").await;
        let is_made = |event: &Event| matches!(event, Event::WorktreeMade { .. });
        let mut is_dead = false;
        while !is_dead && served.happened(is_made) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            is_dead = served.has_ended();
        }
        if !is_dead {
            // Killed all the same: somewhere behind.
            served.signal(Signal::SIGKILL);
        }
        served.ended().await;
        served.begin().await;
        served.says("wamid.1", "do it").await;
        let mut heard = String::new();
        while !heard.ends_with("Done.") {
            heard = served.hears().await.text;
        }
        let folder = served
            .program
            .projects()
            .canonicalize()
            .expect("it is there");
        let first = model.bodies()[0].len();
        assert!(first < 8_000, "{first} bytes");
        let sessions: Vec<_> = fs::read_dir(folder.join(".journeyman/worktrees"))
            .expect("one")
            .flatten()
            .collect();
        assert_eq!(sessions.len(), 1, "step {at}");
        let tree = sessions[0].path().join("shop");
        assert!(tree.join("new.txt").is_file(), "step {at}");
        assert!(tree.join("node_modules/left").is_dir(), "step {at}");
        assert_eq!(
            git(&tree, &["status", "--porcelain"]),
            "?? new.txt\n",
            "step {at}"
        );
        let branches = git(&shop, &["branch", "--list", "journeyman/*"]);
        assert_eq!(branches.lines().count(), 1, "step {at}: {branches}");
        assert_eq!(standing(&shop), before, "step {at}");
        let known = worktrees(&shop.canonicalize().expect("it is there"));
        assert!(
            known.contains(&tree.display().to_string()),
            "step {at}: {known:?}"
        );
        served.signal(Signal::SIGKILL);
        served.ended().await;
        deaths += u32::from(is_dead);
        if !is_dead {
            break;
        }
    }
    println!("{deaths} deaths");
    assert!(deaths >= 15, "only {deaths} steps");
}
