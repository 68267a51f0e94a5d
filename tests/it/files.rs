//! Files are deleted and moved as asked: never another one, never twice, and the person can have them back.

use crate::fake_model::{FakeModel, calls as call_of, says as says_text};
use crate::patch::killer;
use crate::program::{Program, finish};
use crate::support::{Rig, call, calls, journals, says};
use crate::tools::{Bench, bench};
use journeyman::agent::event::{Event, OutgoingKind, Status};
use journeyman::gate::Touch;
use journeyman::tools::{self, Action};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

fn delete(path: &str) -> Value {
    json!({"path": path})
}

fn rename(from: &str, to: &str) -> Value {
    json!({"from": from, "to": to})
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// What the journal says before the call that a probe can look for after it.
fn expected(bench: &Bench, tool: &str, arguments: &Value) -> Option<Vec<(String, bool, bool)>> {
    let Action::World {
        expect: Some(expect),
        ..
    } = tools::find(tool).unwrap().action
    else {
        panic!("{tool} is not probeable")
    };
    let files = expect(arguments, &bench.reach.workspace)?.files;
    let told = files.into_iter().map(|f| {
        let is_there = bench.reach.workspace.digest(&f.path);
        assert_eq!(is_there, f.before, "{}", f.path);
        (f.path, f.before.is_some(), f.after.is_some())
    });
    Some(told.collect())
}

#[tokio::test]
async fn deletes_and_moves_files_of_every_kind_and_keeps_their_mode() {
    let bench = bench();
    bench
        .write("old.txt", "one\ntwo\n")
        .write("logo.png", b"\x89PNG\0\0")
        .write("bin/tool", "#!/bin/sh\n");
    chmod(&bench.root().join("bin/tool"), 0o755);
    let asked = delete("./bin/../old.txt");
    let gone = vec![("old.txt".into(), true, false)];
    assert_eq!(expected(&bench, "delete_file", &asked), Some(gone));
    let outcome = bench.call("delete_file", asked).await;
    assert_eq!(outcome.output, "Deleted old.txt (2 lines).");
    let change = &outcome.changes[0];
    assert_eq!(
        (change.path.as_str(), change.added, change.removed),
        ("old.txt", 0, 2)
    );
    assert!(change.diff.contains("-two"), "{}", change.diff);
    assert!(!bench.root().join("old.txt").exists());

    let told = bench.done("delete_file", delete("logo.png")).await;
    assert_eq!(told, "Deleted logo.png (not text).");
    assert!(!bench.root().join("logo.png").exists());

    let asked = rename("bin/tool", "new/deep/tool");
    let both = vec![
        ("bin/tool".into(), true, false),
        ("new/deep/tool".into(), false, true),
    ];
    assert_eq!(expected(&bench, "move_file", &asked), Some(both));
    let outcome = bench.call("move_file", asked).await;
    assert_eq!(outcome.output, "Moved bin/tool to new/deep/tool.");
    let moved = bench.root().join("new/deep/tool");
    assert_eq!(
        (bench.text("new/deep/tool").as_str(), mode(&moved)),
        ("#!/bin/sh\n", 0o755)
    );
    assert!(!bench.root().join("bin/tool").exists());
    assert_eq!(outcome.changes.len(), 1);
    assert!(outcome.changes[0].diff.contains("rename to new/deep/tool"));
}

#[tokio::test]
async fn replaces_nothing_and_touches_no_link_and_no_folder() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("x"), "x").unwrap();
    let bench = bench();
    bench
        .write("a.txt", "a")
        .write("b.txt", "b")
        .write("dir/c.txt", "c")
        .write(".git/config", "g");
    symlink("a.txt", bench.root().join("link")).unwrap();
    symlink("nowhere", bench.root().join("dangling")).unwrap();
    symlink(".git", bench.root().join("innocent")).unwrap();
    symlink(outside.path(), bench.root().join("out")).unwrap();
    for (path, why) in [
        ("missing.txt", "no such file"),
        ("dir", "is a folder"),
        (".", "is a folder"),
        ("link", "symbolic link"),
        ("dangling", "symbolic link"),
        ("out", "symbolic link"),
        ("out/x", "outside"),
        ("../x", "outside"),
        ("/etc/passwd", "outside"),
        (".git/config", "below .git"),
        ("innocent/config", "below .git"),
    ] {
        assert_eq!(expected_of_failing(&bench, path), None, "{path}");
        let text = bench.failed("delete_file", delete(path)).await;
        assert!(text.contains(why), "{path}: {text}");
        let text = bench.failed("move_file", rename(path, "new.txt")).await;
        assert!(text.contains(why), "{path}: {text}");
    }
    for (to, why) in [
        ("b.txt", "exists"),
        ("a.txt", "exists"),
        ("dangling", "exists"),
        ("dir", "names a folder"),
        ("new/", "names a folder"),
        ("../x", "outside"),
        ("out/y", "outside"),
        (".git/hooks/pre-commit", "below .git"),
        ("innocent/y", "below .git"),
        ("sub/.GIT/y", "below .git"),
    ] {
        let text = bench.failed("move_file", rename("a.txt", to)).await;
        assert!(text.contains(why), "{to}: {text}");
    }
    for (name, text) in [("a.txt", "a"), ("b.txt", "b"), ("dir/c.txt", "c")] {
        assert_eq!(bench.text(name), text);
    }
    assert_eq!(bench.text(".git/config"), "g");
    assert!(!bench.root().join("sub").exists() && !bench.root().join("new").exists());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

/// A call that will fail promises nothing; below `.git` the gate has refused before.
fn expected_of_failing(bench: &Bench, path: &str) -> Option<Vec<(String, bool, bool)>> {
    match path.contains("config") {
        true => None,
        false => expected(bench, "delete_file", &delete(path)),
    }
}

#[tokio::test]
async fn a_file_that_somebody_changed_since_it_was_read_stays() {
    let bench = bench();
    bench.write("a.txt", "one\n");
    let lines = json!({"path": "a.txt", "start": 1, "end": 1});
    bench.done("read_lines", lines).await;
    bench.write("a.txt", "the person's\n");
    for text in [
        bench.failed("delete_file", delete("a.txt")).await,
        bench.failed("move_file", rename("a.txt", "b.txt")).await,
    ] {
        assert!(text.contains("changed by somebody else"), "{text}");
    }
    assert_eq!(bench.text("a.txt"), "the person's\n");
}

#[tokio::test]
async fn the_gate_sees_every_path_of_a_delete_and_of_a_move() {
    let touches = |name: &str, arguments: Value| (tools::find(name).unwrap().touches)(&arguments);
    let write = |path: &str| Touch::Write(path.into());
    assert_eq!(touches("delete_file", delete("a")).unwrap(), [write("a")]);
    assert_eq!(
        touches("move_file", rename("a", "b/c")).unwrap(),
        [write("a"), write("b/c")]
    );
    let asked = [
        call("delete_file", delete(".env")),
        call("delete_file", delete(".git/config")),
        call("delete_file", delete("/etc/passwd")),
        call("move_file", rename(".env", "env.txt")),
        call("move_file", rename("notes.txt", ".git/hooks/pre-commit")),
        call("move_file", rename("notes.txt", "../notes.txt")),
        call("move_file", rename("../other.txt", "other.txt")),
    ];
    let mut rig = Rig::new(&[calls(&asked), says("Understood.")]);
    fs::write(rig.workspace().join(".env"), "KEY=0\n").unwrap();
    rig.say("break out").await;
    assert_eq!(rig.answer().await, "Understood.");
    let statuses: Vec<Status> = rig
        .records()
        .iter()
        .filter_map(|record| match &record.event {
            Event::ToolFinished { outcome, .. } => Some(outcome.status),
            _ => None,
        })
        .collect();
    assert_eq!(statuses, vec![Status::Denied; asked.len()]);
    assert!(rig.workspace().join(".env").exists() && rig.workspace().join("notes.txt").exists());
}

#[tokio::test]
async fn undo_brings_deleted_and_moved_files_back() {
    let round = [
        call("delete_file", delete("logo.png")),
        call("move_file", rename("run.sh", "bin/run.sh")),
    ];
    let mut rig = Rig::new(&[calls(&round), says("Done.")]);
    let root = rig.workspace();
    fs::write(root.join("logo.png"), b"\x89PNG\0\0").unwrap();
    fs::write(root.join("run.sh"), "#!/bin/sh\n").unwrap();
    chmod(&root.join("run.sh"), 0o755);
    rig.say("tidy up").await;
    assert_eq!(rig.answer().await, "Done.");
    assert!(!root.join("logo.png").exists() && root.join("bin/run.sh").exists());
    rig.say("/undo").await;
    let told = rig.message(OutgoingKind::Notice).await;
    assert!(told.contains("Put back"), "{told}");
    assert_eq!(fs::read(root.join("logo.png")).unwrap(), b"\x89PNG\0\0");
    assert_eq!(mode(&root.join("run.sh")), 0o755);
    assert!(!root.join("bin/run.sh").exists());
}

/// Whatever was done before the kill is found and not done again, the rest is done: nobody is asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_every_change_of_the_disk_neither_repeats_nor_forgets_one() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = killer(folder.path()) else {
        return;
    };
    let job = vec![
        call_of("delete_file", delete("a.txt")),
        call_of("move_file", rename("b.txt", "c/b.txt")),
        says_text("Done."),
    ];
    let model = FakeModel::recorded(job).await;
    let mut kills = 0;
    for at in 1..=3 {
        for when in ["KILL_BEFORE", "KILL_AFTER"] {
            let program = Program::new(&model.base_url);
            let root = program.workspace();
            fs::write(root.join("a.txt"), "a").unwrap();
            fs::write(root.join("b.txt"), "b").unwrap();
            let mut command = program.command(&["run", "tidy up", "--yes"]);
            command
                .env("LD_PRELOAD", &library)
                .env("KILL_AT", at.to_string())
                .env("KILL_NAMES", ".txt")
                .env(when, "1");
            let run = finish(command).await;
            let context = format!("{when} {at}: {}", run.err);
            if run.code != 0 {
                kills += 1;
                let journal = &journals(&program.data())[0];
                let id = journal.file_stem().unwrap().to_string_lossy();
                let resumed = program.run(&["resume", &id, "--yes"]).await;
                assert_eq!(resumed.code, 0, "{context}: {}{}", resumed.out, resumed.err);
                let asked = resumed.out.contains("may or may not");
                assert!(!asked, "{context}: nothing is in doubt: {}", resumed.out);
            }
            assert!(!root.join("a.txt").exists() && !root.join("b.txt").exists());
            assert_eq!(
                fs::read_to_string(root.join("c/b.txt")).unwrap(),
                "b",
                "{context}"
            );
            assert_eq!(program.run(&["audit", "verify"]).await.code, 0);
        }
    }
    assert_eq!(kills, 4, "a delete and a move, before and after");
}
