//! Checkpoints, `/undo` and `/diff`: the workspace's content is kept and put back, and what is the person's is left alone.

use crate::support::{
    Rig, call, calls, git, journals, make_repository, no_whatsapp, run_command, says,
};
use journeyman::agent::event::{Event, Moment, OutgoingKind, TreeId};
use journeyman::config::Settings;
use journeyman::world::process::{Processes, safe_environment};
use journeyman::world::snapshot::Snapshots;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A folder with snapshots of it.
struct Bench {
    folder: TempDir,
    settings: Settings,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::demo(folder.path(), no_whatsapp());
        let bench = Self { folder, settings };
        fs::create_dir_all(bench.root()).unwrap();
        bench
    }

    fn repository() -> Self {
        let bench = Self::new();
        make_repository(&bench.root());
        bench
    }

    fn root(&self) -> PathBuf {
        let root = self.folder.path().join("shop");
        root.canonicalize().unwrap_or(root)
    }

    fn snapshots(&self) -> Snapshots {
        self.snapshots_of(&self.root())
    }

    fn snapshots_of(&self, root: &Path) -> Snapshots {
        let environment = safe_environment(&[]);
        let sandbox = self.settings.sandbox(&environment);
        let cancel = CancellationToken::new();
        let processes = Processes::new(Arc::new(environment), sandbox, root, cancel);
        let policy = Arc::new(self.settings.policy().unwrap());
        Snapshots::of(&self.settings.data_dir, "s-1", root, &processes, policy)
    }

    async fn tree(&self) -> TreeId {
        self.snapshots().take().await.unwrap().tree
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// That of its one workspace.
    fn shelf(&self) -> PathBuf {
        let shelves = self.settings.data_dir.join("checkpoints/s-1");
        let mut shelves = fs::read_dir(shelves).unwrap().flatten();
        shelves.next().expect("there is one").path()
    }

    /// The names in a tree, wherever its objects are.
    fn names(&self, tree: &TreeId) -> Vec<String> {
        let shelf = self.shelf();
        let repository = match self.root().join(".git").exists() {
            true => self.root(),
            false => shelf,
        };
        let listed = git(&repository, &["ls-tree", "-r", "--name-only", &tree.0]);
        listed.lines().map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn a_snapshot_is_the_same_while_nothing_changed_and_another_one_when_something_did() {
    for bench in [Bench::repository(), Bench::new()] {
        bench.write("a.txt", "one");
        let first = bench.tree().await;
        assert_eq!(bench.tree().await, first);
        bench.write("a.txt", "two");
        let second = bench.tree().await;
        assert_ne!(second, first);
        bench.write("new/b.txt", "");
        assert_ne!(bench.tree().await, second);
        fs::remove_dir_all(bench.root().join("new")).unwrap();
        bench.write("a.txt", "one");
        assert_eq!(bench.tree().await, first, "content counts, not time");
        let script = bench.root().join("a.txt");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        assert_ne!(bench.tree().await, first, "the mode counts");
        fs::remove_file(&script).unwrap();
        symlink("nowhere", &script).unwrap();
        let link = bench.tree().await;
        fs::remove_file(&script).unwrap();
        fs::create_dir(&script).unwrap();
        bench.write("a.txt/inside", "x");
        assert_ne!(bench.tree().await, link);
        assert!(bench.snapshots().tree().await.is_some());
    }
}

#[tokio::test]
async fn a_snapshot_holds_neither_ignored_nor_secret_nor_large_files_and_names_those() {
    let mut bench = Bench::repository();
    bench.settings.limits.checkpoint_file_bytes_max = 1000;
    bench.write(".gitignore", "target/\n!.env\n");
    bench.write("target/out", "x");
    bench.write("forced.log", "tracked");
    bench.write(".env", "KEY=1");
    bench.write("keys/server.pem", "x");
    bench.write("big.bin", vec![0; 1001]);
    bench.write("nested/.keep", "");
    make_repository(&bench.root().join("nested"));
    fs::write(
        bench.root().join(".git/info/exclude"),
        "*.log\nprivate.txt\n",
    )
    .unwrap();
    bench.write("private.txt", "x");
    git(&bench.root(), &["add", "--force", "forced.log"]);
    let snapshot = bench.snapshots().take().await.unwrap();
    let names = bench.names(&snapshot.tree);
    assert_eq!(names, [".gitignore", "forced.log", "notes.txt"]);
    assert_eq!(snapshot.left_out.count, 4, "{:?}", snapshot.left_out);
    let left_out = snapshot.left_out.names.join("\n");
    for part in [
        ".env (secret)",
        "server.pem (secret)",
        "big.bin (more than 1000 bytes)",
        "nested/ (a repository",
    ] {
        assert!(left_out.contains(part), "{left_out}");
    }
    // A file that grows too large is no longer held as it was before.
    bench.write("notes.txt", vec![b'x'; 1001]);
    let snapshot = bench.snapshots().take().await.unwrap();
    assert!(
        !bench
            .names(&snapshot.tree)
            .contains(&"notes.txt".to_owned())
    );
}

#[tokio::test]
async fn nothing_that_the_repository_configures_runs_for_a_snapshot_and_content_is_kept_byte_for_byte()
 {
    let bench = Bench::repository();
    let (root, trace) = (bench.root(), bench.root().join("ran"));
    let script = format!("#!/bin/sh\necho x >> {}\ncat\n", trace.display());
    let evil = bench.folder.path().join("evil");
    fs::write(&evil, &script).unwrap();
    fs::set_permissions(&evil, fs::Permissions::from_mode(0o755)).unwrap();
    for hook in ["post-index-change", "reference-transaction", "pre-commit"] {
        fs::copy(&evil, root.join(".git/hooks").join(hook)).unwrap();
    }
    let evil = evil.display().to_string();
    for (name, value) in [
        ("filter.x.clean", evil.as_str()),
        ("filter.x.smudge", &evil),
        ("filter.x.process", &evil),
        ("core.fsmonitor", &evil),
        ("diff.x.textconv", &evil),
        ("core.autocrlf", "true"),
    ] {
        git(&root, &["config", name, value]);
    }
    fs::remove_file(&trace).ok();
    bench.write(
        ".gitattributes",
        "*.c filter=x diff=x text eol=crlf ident\n*.u working-tree-encoding=UTF-16\n",
    );
    let content = "a\r\nb\n$Id: kept$\r\n";
    bench.write("main.c", content);
    bench.write("text.u", "plain");
    let snapshots = bench.snapshots();
    let tree = snapshots.take().await.unwrap().tree;
    snapshots.keep(1, &tree, &[]).await.unwrap();
    assert!(!trace.exists(), "something of the repository ran");
    let out = git(
        &root,
        &[
            "-c",
            "core.fsmonitor=",
            "cat-file",
            "-p",
            &format!("{tree}:main.c"),
        ],
    );
    assert_eq!(out, content);
}

#[tokio::test]
async fn a_workspace_within_a_repository_or_beside_one_is_snapshot_by_the_rules_that_hold_there() {
    let bench = Bench::repository();
    bench.write(".gitignore", "*.tmp\n/apps/shop/dist\n/apps/other\n");
    bench.write("apps/shop/main.py", "x");
    bench.write("apps/shop/a.tmp", "x");
    bench.write("apps/shop/dist/out", "x");
    bench.write("apps/shop/other", "x");
    let inner = bench.root().join("apps/shop");
    let tree = bench.snapshots_of(&inner).take().await.unwrap().tree;
    let shelf = bench.shelf();
    let names = git(&shelf, &["ls-tree", "-r", "--name-only", &tree.0]);
    assert_eq!(names, "main.py\nother\n");
    let linked = bench.folder.path().join("linked");
    git(
        &bench.root(),
        &["worktree", "add", "-q", &linked.display().to_string()],
    );
    fs::write(linked.join("more.txt"), "x").unwrap();
    let linked = linked.canonicalize().unwrap();
    fs::remove_dir_all(&shelf).unwrap();
    let snapshots = bench.snapshots_of(&linked);
    let tree = snapshots.take().await.unwrap().tree;
    snapshots.keep(1, &tree, &[]).await.unwrap();
    assert_eq!(bench.names(&tree), ["more.txt", "notes.txt"]);
    assert!(git(&bench.root(), &["for-each-ref"]).contains("refs/journeyman/s-1/1"));
}

#[tokio::test]
async fn a_damaged_index_is_made_again_and_a_lock_that_was_left_is_no_obstacle() {
    let bench = Bench::repository();
    let first = bench.tree().await;
    let shelf = bench.shelf();
    fs::write(shelf.join("index"), "no index").unwrap();
    fs::write(shelf.join("index.lock"), "").unwrap();
    fs::remove_file(shelf.join("tree")).unwrap();
    assert_eq!(bench.tree().await, first);
    bench.write("more.txt", "x");
    assert_ne!(bench.tree().await, first);
}

/// Everything below a folder but `.git`: mode and content, or where a link points.
fn manifest(root: &Path) -> BTreeMap<Vec<u8>, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let (path, meta) = (entry.path(), entry.path().symlink_metadata().unwrap());
            if entry.file_name() == ".git" {
                continue;
            }
            let name = path
                .strip_prefix(root)
                .unwrap()
                .as_os_str()
                .as_bytes()
                .to_vec();
            let mode = meta.permissions().mode();
            if meta.is_dir() {
                folders.push(path);
            } else if meta.is_symlink() {
                let target = fs::read_link(path).unwrap();
                found.insert(name, (mode, target.as_os_str().as_bytes().to_vec()));
            } else {
                found.insert(name, (mode, fs::read(path).unwrap()));
            }
        }
    }
    found
}

/// What is the person's in the repository: branches, stash, index.
fn persons(root: &Path) -> Vec<String> {
    let refs = git(root, &["for-each-ref"]);
    let refs = refs
        .lines()
        .filter(|line| !line.contains("refs/journeyman/"));
    let index =
        journeyman::world::workspace::digest_of(&fs::read(root.join(".git/index")).unwrap());
    let head = fs::read_to_string(root.join(".git/HEAD")).unwrap();
    let stash = git(root, &["stash", "list"]);
    let config = fs::read_to_string(root.join(".git/config")).unwrap();
    refs.map(str::to_owned)
        .chain([index, head, stash, config])
        .collect()
}

fn write(path: &str, content: &str) -> Value {
    calls(&[call(
        "write_file",
        json!({"path": path, "content": content, "overwrite": true}),
    )])
}

async fn notice(rig: &mut Rig, said: &str) -> String {
    rig.say(said).await;
    rig.message(OutgoingKind::Notice).await
}

const CHANGES: &str = r#"
set -e
printf 'new' > made.txt
mkdir -p 'a folder/b'; printf 'x' > 'a folder/b/c d.txt'
printf 'n' > "$(printf 'line\nbreak')"
printf 'l' > "$(printf 'latin\351')"
: > empty.txt
rm gone.txt
mv old.txt renamed.txt
chmod 755 plain.txt
chmod 644 script.sh
printf 'a\nb\n' > crlf.txt
rm link; ln -s /etc link
rm file; mkdir file; printf 'x' > file/inside
rm -r dir; printf 'x' > dir
printf 'changed' > private.txt
printf 'x' > ignored.txt
"#;

#[tokio::test]
async fn undo_takes_back_all_that_a_shell_command_did_and_redo_brings_it_again() {
    for in_repository in [true, false] {
        let mut rig = Rig::new(&[run_command("bash change.sh"), says("Done.")]);
        let root = rig.workspace();
        for (name, content) in [
            ("change.sh", CHANGES),
            (".gitignore", "ignored.txt\n"),
            ("gone.txt", "gone"),
            ("old.txt", "old"),
            ("plain.txt", "plain"),
            ("script.sh", "script"),
            ("crlf.txt", "a\r\nb\r\n"),
            ("file", "a file"),
            ("private.txt", "mine"),
        ] {
            fs::write(root.join(name), content).unwrap();
        }
        fs::create_dir(root.join("dir")).unwrap();
        fs::write(root.join("dir/inside"), "x").unwrap();
        symlink("plain.txt", root.join("link")).unwrap();
        let mode = |name: &str, mode| {
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        mode("script.sh", 0o755);
        mode("private.txt", 0o600);
        if in_repository {
            git(&root, &["config", "core.autocrlf", "true"]);
            fs::write(root.join("notes.txt"), "stashed").unwrap();
            git(&root, &["stash", "-q"]);
            git(&root, &["add", "plain.txt"]);
        } else {
            fs::remove_dir_all(root.join(".git")).unwrap();
        }
        let mine = in_repository.then(|| persons(&root));
        let before = manifest(&root);
        rig.say("go").await;
        rig.question().await;
        rig.say("yes").await;
        assert_eq!(rig.answer().await, "Done.");
        let mut changed = manifest(&root);
        let told = notice(&mut rig, "/undo").await;
        assert!(
            told.contains("Put back") && told.contains("made.txt"),
            "{told}"
        );
        let ignored = changed.remove(&b"ignored.txt"[..]).unwrap();
        let mut now = manifest(&root);
        assert_eq!(now.remove(&b"ignored.txt"[..]), Some(ignored.clone()));
        assert_eq!(now, before);
        rig.restart().await;
        let told = notice(&mut rig, "/redo").await;
        assert!(told.contains("taken back"), "{told}");
        let mut now = manifest(&root);
        now.remove(&b"ignored.txt"[..]);
        assert_eq!(now, changed);
        assert_eq!(in_repository.then(|| persons(&root)), mine);
        if in_repository {
            git(&root, &["gc", "--quiet", "--prune=now"]);
        }
        let told = notice(&mut rig, "/undo").await;
        let mut now = manifest(&root);
        now.remove(&b"ignored.txt"[..]);
        // git's own cleaning keeps what can be undone.
        assert_eq!(now, before, "{told}");
        let told = notice(&mut rig, "/undo").await;
        assert!(told.contains("nothing to undo"), "{told}");
    }
}

#[tokio::test]
async fn undo_goes_back_several_rounds_and_leaves_alone_what_the_person_did() {
    let mut rig = Rig::new(&[
        write("a.txt", "1"),
        write("b.txt", "1"),
        write("a.txt", "2"),
        says("Done."),
        says("I see."),
    ]);
    let root = rig.workspace();
    let text = |name: &str| fs::read_to_string(root.join(name)).ok();
    rig.say("go").await;
    rig.answer().await;
    fs::write(root.join("notes.txt"), "mine").unwrap();
    let told = notice(&mut rig, "/undo 4").await;
    assert!(told.contains("Only 3"), "{told}");
    notice(&mut rig, "/undo").await;
    assert_eq!(text("a.txt").as_deref(), Some("1"));
    fs::write(root.join("b.txt"), "mine too").unwrap();
    let told = notice(&mut rig, "/undo 2").await;
    assert!(
        told.contains("b.txt") && told.contains("/undo 2 force"),
        "{told}"
    );
    assert!(
        !told.contains("a.txt") && !told.contains("notes.txt"),
        "{told}"
    );
    assert_eq!(text("a.txt").as_deref(), Some("1"), "nothing was touched");
    let told = notice(&mut rig, "/undo 2 force").await;
    assert_eq!((text("a.txt"), text("b.txt")), (None, None), "{told}");
    assert_eq!(text("notes.txt").as_deref(), Some("mine"));
    notice(&mut rig, "/redo").await;
    assert_eq!(
        text("b.txt").as_deref(),
        Some("mine too"),
        "what was overwritten is kept"
    );
    rig.say("and now?").await;
    assert_eq!(rig.answer().await, "I see.");
    let heard: String = rig
        .state()
        .conversation
        .messages()
        .iter()
        .map(|m| m.get().to_owned())
        .collect();
    assert!(
        heard.contains("put the workspace back to before your last 2 round(s)"),
        "{heard}"
    );
}

#[tokio::test]
async fn a_file_whose_time_or_permissions_alone_changed_is_undone_without_force() {
    let mut rig = Rig::new(&[write("a.txt", "1"), write("b.txt", "1"), says("Done.")]);
    let root = rig.workspace();
    rig.say("go").await;
    rig.answer().await;
    let file = fs::File::options().write(true).open(root.join("a.txt"));
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.unwrap().set_modified(old).unwrap();
    fs::set_permissions(root.join("b.txt"), fs::Permissions::from_mode(0o600)).unwrap();
    let told = notice(&mut rig, "/undo 2").await;
    assert!(told.contains("Put back"), "{told}");
    assert!(!root.join("a.txt").exists() && !root.join("b.txt").exists());
    let told = notice(&mut rig, "/redo").await;
    assert!(told.contains("taken back"), "{told}");
    assert!(root.join("a.txt").exists() && root.join("b.txt").exists());
}

#[tokio::test]
async fn a_round_that_waits_for_the_person_is_undone_as_one_and_without_force() {
    let command = json!({"command": "sh -c 'echo made > made.txt'"});
    let round = calls(&[
        call("write_file", json!({"path": "a.txt", "content": "1"})),
        call("run_command", command),
    ]);
    let mut rig = Rig::new(&[write("first.txt", "1"), round, says("Done.")]);
    let root = rig.workspace();
    let text = |name: &str| fs::read_to_string(root.join(name)).ok();
    rig.say("go").await;
    rig.question().await;
    let kept = |event: &Event| match event {
        Event::Checkpoint(taken) if taken.number == 3 && taken.moment == Moment::After => {
            Some(taken.moment)
        }
        _ => None,
    };
    assert_eq!(rig.until(kept).await, Moment::After);
    fs::write(root.join("notes.txt"), "mine").unwrap();
    rig.say("yes").await;
    rig.answer().await;
    assert_eq!(text("made.txt").as_deref(), Some("made\n"));
    let told = notice(&mut rig, "/undo").await;
    assert!(
        told.contains("a.txt") && told.contains("made.txt"),
        "{told}"
    );
    assert_eq!((text("a.txt"), text("made.txt")), (None, None));
    let mine = (text("notes.txt"), text("first.txt"));
    assert_eq!(mine, (Some("mine".into()), Some("1".into())));
    let told = notice(&mut rig, "/undo 2").await;
    assert!(told.contains("Only 1"), "{told}");
    notice(&mut rig, "/redo").await;
    assert_eq!(text("made.txt").as_deref(), Some("made\n"));
}

#[tokio::test]
async fn an_undo_never_writes_over_what_no_checkpoint_holds() {
    let mut rig = Rig::new(&[run_command("bash drop.sh"), says("Done.")]);
    let root = rig.workspace();
    fs::write(root.join("local.json"), "old").unwrap();
    let drop = "rm local.json; echo local.json > .gitignore";
    fs::write(root.join("drop.sh"), drop).unwrap();
    rig.say("go").await;
    rig.question().await;
    rig.say("yes").await;
    rig.answer().await;
    fs::write(root.join("local.json"), "mine, and ignored").unwrap();
    for asked in ["/undo", "/undo 1 force"] {
        let told = notice(&mut rig, asked).await;
        assert!(told.contains("local.json"), "{told}");
        let mine = fs::read_to_string(root.join("local.json")).unwrap();
        assert_eq!(mine, "mine, and ignored");
    }
}

#[tokio::test]
async fn an_undo_of_several_rounds_stops_at_what_the_person_did_between_them() {
    let add = |line: &str| run_command(&format!("bash -c 'echo {line} >> f.txt'"));
    let mut rig = Rig::new(&[add("one"), says("One."), add("two"), says("Two.")]);
    let file = rig.workspace().join("f.txt");
    for (round, said) in ["go", "on"].into_iter().enumerate() {
        rig.say(said).await;
        rig.question().await;
        rig.say("yes").await;
        rig.answer().await;
        if round == 0 {
            fs::write(&file, "one\nmine\n").unwrap();
        }
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "one\nmine\ntwo\n");
    let told = notice(&mut rig, "/undo 2").await;
    assert!(told.contains("Nothing was touched"), "{told}");
    notice(&mut rig, "/undo").await;
    assert_eq!(fs::read_to_string(&file).unwrap(), "one\nmine\n");
}

#[tokio::test]
async fn an_undo_of_a_gitignore_is_one_and_can_be_taken_back() {
    let script =
        "printf 'dist/\\n' > .gitignore; printf new > a.txt; mkdir dist; printf x > dist/out";
    let mut rig = Rig::new(&[run_command("bash build.sh"), says("Done.")]);
    let root = rig.workspace();
    let a = || fs::read_to_string(root.join("a.txt")).unwrap();
    fs::write(root.join("a.txt"), "old").unwrap();
    fs::write(root.join("build.sh"), script).unwrap();
    rig.say("go").await;
    rig.question().await;
    rig.say("yes").await;
    rig.answer().await;
    let told = notice(&mut rig, "/undo").await;
    assert!(told.contains("Put back"), "{told}");
    assert_eq!((a(), root.join("dist/out").exists()), ("old".into(), true));
    let told = notice(&mut rig, "/redo").await;
    let is = (a(), root.join("dist/out").exists());
    assert_eq!(is, ("new".into(), true), "{told}");
}

#[tokio::test]
async fn rounds_that_only_read_cost_no_checkpoint_and_an_undo_waits_for_the_end_of_the_turn() {
    let mut rig = Rig::new(&[
        run_command("ls"),
        run_command("git status"),
        calls(&[call("list_files", json!({}))]),
        run_command("echo x > y.txt"),
        says("Done."),
    ]);
    rig.say("go").await;
    rig.question().await;
    let told = notice(&mut rig, "/undo").await;
    assert!(told.contains("/cancel first"), "{told}");
    let is_one = |event: &Event| matches!(event, Event::Checkpoint(_));
    assert!(!rig.records().iter().any(|record| is_one(&record.event)));
    rig.say("/diff").await;
    let told = rig.message(OutgoingKind::Change).await;
    assert!(told.contains("Nothing is different"), "{told}");
    rig.say("yes").await;
    rig.answer().await;
    rig.say("/diff").await;
    let told = rig.message(OutgoingKind::Change).await;
    assert!(
        told.contains("1 file changed") && told.contains("+x"),
        "{told}"
    );
}

#[tokio::test]
async fn a_diff_hides_secrets_and_is_bounded() {
    let token = format!("ghp_{}", "a".repeat(36));
    let mut rig = Rig::new(&[
        write("t.txt", &format!("{token}\n{}", "line\n".repeat(9000))),
        says("Done."),
    ]);
    rig.say("go").await;
    rig.answer().await;
    rig.say("/diff").await;
    let told = rig.message(OutgoingKind::Change).await;
    assert!(
        !told.contains(&token) && told.contains("[masked]"),
        "{told}"
    );
    assert!(told.contains("more lines]") && told.len() < 15_000);
}

#[tokio::test]
async fn an_undo_that_was_cut_short_is_finished_by_the_next_process() {
    let mut rig = Rig::new(&[write("a.txt", "1"), write("b.txt", "1"), says("Done.")]);
    let root = rig.workspace();
    rig.say("go").await;
    rig.answer().await;
    notice(&mut rig, "/undo 2").await;
    rig.stop().await;
    let path = &journals(&rig.settings.data_dir)[0];
    let journal = fs::read_to_string(path).unwrap();
    let at = journal.find("\"event\":\"put_back_started\"").unwrap();
    let end = at + journal[at..].find('\n').unwrap() + 1;
    fs::write(path, &journal[..end]).unwrap();
    for name in ["journeyman.db", "journeyman.db-wal", "journeyman.db-shm"] {
        fs::remove_file(rig.settings.data_dir.join(name)).ok();
    }
    fs::write(root.join("b.txt"), "1").unwrap();
    rig.restart().await;
    let told = notice(&mut rig, "/agent").await;
    assert!(told.contains("Put back"), "{told}");
    assert!(!root.join("a.txt").exists() && !root.join("b.txt").exists());
    rig.message(OutgoingKind::Notice).await; // what /agent says
    notice(&mut rig, "/redo").await;
    assert!(root.join("a.txt").exists() && root.join("b.txt").exists());
}

#[tokio::test]
async fn a_round_without_a_checkpoint_runs_is_told_and_cannot_be_undone() {
    let mut rig = Rig::new(&[write("a.txt", "1"), says("Done.")]);
    fs::write(rig.settings.data_dir.join("checkpoints"), "in the way").unwrap();
    rig.say("go").await;
    let told = rig.message(OutgoingKind::Notice).await;
    assert!(told.contains("cannot be taken back"), "{told}");
    rig.answer().await;
    assert!(rig.workspace().join("a.txt").exists());
    let told = notice(&mut rig, "/undo").await;
    assert!(told.contains("no checkpoint from before"), "{told}");
}

#[tokio::test]
async fn old_checkpoints_go_and_the_first_one_stays() {
    let mut replies: Vec<Value> = (0..5).map(|n| write("a.txt", &n.to_string())).collect();
    replies.push(says("Done."));
    let mut rig = Rig::with(&replies, |settings| settings.limits.checkpoints_max = 4);
    rig.say("go").await;
    rig.answer().await;
    notice(&mut rig, "/undo").await;
    let refs = git(
        &rig.workspace(),
        &["for-each-ref", "--format=%(refname)", "refs/journeyman"],
    );
    let numbers: Vec<&str> = refs
        .lines()
        .filter_map(|name| name.rsplit('/').next())
        .collect();
    assert!(numbers.len() <= 5 && numbers.contains(&"1"), "{numbers:?}");
    let told = notice(&mut rig, "/undo 5").await;
    assert!(told.contains("Only"), "{told}");
}

fn names_kept(root: &Path) -> String {
    git(
        root,
        &["for-each-ref", "--format=%(refname)", "refs/journeyman"],
    )
}

#[tokio::test]
async fn checkpoints_of_an_ended_session_go_once_they_are_too_old_and_an_undo_says_so() {
    let replies = [write("a.txt", "1"), says("Done.")];
    let mut rig = Rig::with(&replies, |settings| settings.limits.checkpoint_days_max = 1);
    // Without it, the tree before the round would be that of the last commit, which git keeps.
    fs::write(rig.workspace().join("mine.txt"), "not committed").unwrap();
    rig.say("go").await;
    rig.answer().await;
    let hub = rig.assembly.as_ref().expect("it runs").hub.clone();
    hub.rest().await;
    hub.forget_checkpoints().await;
    assert_ne!(names_kept(&rig.workspace()), "");
    let folder = rig.settings.data_dir.join("checkpoints");
    age(&folder, Duration::from_secs(25 * 60 * 60));
    hub.forget_checkpoints().await;
    assert_eq!(names_kept(&rig.workspace()), "");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    git(&rig.workspace(), &["prune", "--expire=now"]);
    let told = notice(&mut rig, "/undo").await;
    assert!(told.contains("not kept any more"), "{told}");
    assert!(rig.workspace().join("a.txt").exists());
}

#[tokio::test]
async fn checkpoints_of_a_session_that_waits_stay_however_old_they_are() {
    let replies = [
        write("a.txt", "1"),
        run_command("echo ran > proof.txt"),
        says("Done."),
    ];
    let mut rig = Rig::with(&replies, |settings| settings.limits.checkpoint_days_max = 1);
    rig.say("go").await;
    rig.question().await;
    let hub = rig.assembly.as_ref().expect("it runs").hub.clone();
    hub.rest().await;
    age(
        &rig.settings.data_dir.join("checkpoints"),
        Duration::from_secs(25 * 60 * 60),
    );
    hub.forget_checkpoints().await;
    assert_ne!(names_kept(&rig.workspace()), "");
}

/// Makes every file in a folder so much older.
fn age(folder: &Path, by: Duration) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => age(&entry.path(), by),
            kind if kind.is_file() => {
                let file = fs::File::options().append(true).open(entry.path()).unwrap();
                file.set_modified(SystemTime::now() - by).unwrap();
            }
            _ => {}
        }
    }
}

/// Aim: under 150 ms with 10 of 50,000 files changed. Prints the figures beside those of `git status`.
#[tokio::test]
#[ignore = "a measurement: cargo test --test it -- --ignored --nocapture snapshot_of_fifty"]
async fn a_snapshot_of_fifty_thousand_files_takes_about_as_long_as_git_status() {
    let bench = Bench::repository();
    for file in 0..50_000 {
        bench.write(
            &format!("d{}/s{}/f{file}.txt", file % 20, file % 500),
            format!("{file}\n").repeat(30),
        );
    }
    git(&bench.root(), &["add", "--all"]);
    git(&bench.root(), &["commit", "-q", "-m", "feat: many"]);
    let clock = |name: &str, started: Instant| {
        let took = started.elapsed();
        println!("{name:32} {:6.1} ms", took.as_secs_f64() * 1000.0);
        took
    };
    let started = Instant::now();
    bench.tree().await;
    clock("first", started);
    let mut best = Duration::MAX;
    for round in 0..5 {
        for file in 0..10 {
            bench.write(
                &format!("d{}/s{}/f{file}.txt", file % 20, file % 500),
                format!("{round} {file}"),
            );
        }
        let started = Instant::now();
        bench.tree().await;
        best = best.min(clock("10 files changed", started));
        let started = Instant::now();
        bench.tree().await;
        clock("nothing changed", started);
        let started = Instant::now();
        git(&bench.root(), &["status", "--short"]);
        clock("git status", started);
    }
    assert!(best < Duration::from_secs(2), "{best:?}");
}
