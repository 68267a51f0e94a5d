//! Patches in every form: they land as meant, wholly or not at all, whatever happens, and nothing is guessed in silence.

use crate::fake_model::{FakeModel, Next, calls as call_of, says as says_text};
use crate::program::Program;
use crate::support::{Rig, call, calls, generated, journals, says};
use crate::tools::{Bench, bench, edit, edits};
use journeyman::agent::event::{Event, Status};
use journeyman::gate::Touch;
use journeyman::tools;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

fn patch(text: &str) -> Value {
    json!({"patch": text})
}

/// An envelope around the lines.
fn envelope(body: &str) -> Value {
    patch(&format!("*** Begin Patch\n{body}*** End Patch\n"))
}

fn update(path: &str, body: &str) -> Value {
    envelope(&format!("*** Update File: {path}\n{body}"))
}

/// A diff of one file without its headers.
fn diff(path: &str, hunks: &str) -> Value {
    patch(&format!("--- a/{path}\n+++ b/{path}\n{hunks}"))
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(work)
}

const PY: &str = "class A:\n    def run(self):\n        return 1\n\nclass B:\n    def run(self):\n        return 1\n";

// --- unified diffs -------------------------------------------------------------------------------------------------

#[tokio::test]
async fn applies_what_git_shows() {
    let bench = bench();
    bench
        .write("keep.rs", "one\ntwo\nthree\n")
        .write("old name.txt", "a\nb\nc\nd\ne\nf\n")
        .write("gone.txt", "bye\n")
        .write("ünï.txt", "x\n")
        .write("crlf.txt", "a\r\nb\r\n")
        .write("end", "no newline")
        .repository();
    bench.write("keep.rs", "one\n2\nthree\nfour\n");
    bench
        .write("ünï.txt", "y\n")
        .write("crlf.txt", "a\r\nB\r\n");
    bench
        .write("end", "newline\n")
        .write("new/file.sh", "#!/bin/sh\n");
    bench.write("empty", "");
    fs::set_permissions(
        bench.root().join("new/file.sh"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    fs::remove_file(bench.root().join("gone.txt")).unwrap();
    bench.git(&["mv", "old name.txt", "new name.txt"]);
    bench.write("new name.txt", "a\nb\nC\nd\ne\nf\n");
    bench.git(&["add", "-A"]);
    let text = bench.git(&["diff", "--cached", "-M"]);
    let tree = bench.git(&["write-tree"]);
    bench.git(&["reset", "-q", "--hard"]);
    let told = bench.done("apply_patch", patch(&text)).await;
    assert!(!told.contains("Note"), "{told}");
    assert!(
        told.contains("Moved old name.txt to new name.txt (+1 -1)."),
        "{told}"
    );
    assert!(
        told.contains("Created new/file.sh (+1 -0).") && told.contains("Deleted gone.txt (+0 -1)."),
        "{told}"
    );
    bench.git(&["add", "-A"]);
    assert_eq!(bench.git(&["write-tree"]), tree);
}

#[tokio::test]
async fn says_what_it_overlooked_to_make_a_diff_fit() {
    let check = async |before: &str, hunks: &str, after: &str, note: &str| {
        let bench = bench();
        bench.write("f", before);
        let preview = bench.done("preview_patch", diff("f", hunks)).await;
        assert_eq!(bench.text("f"), before);
        let told = bench.done("apply_patch", diff("f", hunks)).await;
        assert_eq!(bench.text("f"), after, "{told}");
        assert!(
            told.contains(note) && preview.contains(note),
            "{told}\n{preview}"
        );
        assert_eq!(note.is_empty(), !told.contains("Note:"), "{told}");
    };
    check(
        "a\nb\nc\n",
        "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n",
        "a\nB\nc\n",
        "",
    )
    .await;
    check(
        "0\n0\na\nb\nc\n",
        "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n",
        "0\n0\na\nB\nc\n",
        "is at L3, not at L1 as stated",
    )
    .await;
    check(
        "a\nb\nc\n",
        "@@ -1,9 +1,2 @@\n a\n-b\n+B\n c\n",
        "a\nB\nc\n",
        "counts in the header at line 3",
    )
    .await;
    check("a\nb\nc\n", "@@ @@\n a\n-b\n+B\n c\n", "a\nB\nc\n", "").await;
    check(
        "a  \nb\nc\n",
        "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n",
        "a  \nB\nc\n",
        "without regard to blanks at line ends",
    )
    .await;
    check(
        "say “hi” – now\nb\n",
        "@@ -1,2 +1,2 @@\n say \"hi\" - now\n-b\n+B\n",
        "say “hi” – now\nB\n",
        "look-alike",
    )
    .await;
    check(
        "x\n    a\n    b\n",
        "@@ -2,2 +2,3 @@\n a\n-b\n+B\n+  c\n",
        "x\n    a\n    B\n      c\n",
        "indented like the file",
    )
    .await;
    check(
        "a\r\nb\r\n",
        "@@ -1,2 +1,3 @@\n a\n-b\n+B\n+c\n",
        "a\r\nB\r\nc\r\n",
        "",
    )
    .await;
    check("a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n", "a\nB", "").await;
    check(
        "a\nb",
        "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+B\n",
        "a\nB\n",
        "",
    )
    .await;
    check(
        "a\nb\n",
        "@@ -1,2 +1,2 @@\n a\n-b\n+B\n\\ No newline at end of file\n",
        "a\nB",
        "",
    )
    .await;
    check(
        "a\n\nb\n",
        "@@ -1,3 +1,3 @@\n a\n\n-b\n+B\n",
        "a\n\nB\n",
        "",
    )
    .await;
    check(
        "a\nb\n",
        "@@ -1,0 +2,1 @@\n+new\n",
        "a\nnew\nb\n",
        "put after L1 as stated",
    )
    .await;
    check(
        "-- x\n++ y\nz\n",
        "@@ -1,2 +1,2 @@\n--- x\n+++ y\n ++ y\n",
        "++ y\n++ y\nz\n",
        "",
    )
    .await;
}

#[tokio::test]
async fn guesses_nothing_where_a_diff_fits_twice_or_nowhere() {
    let bench = bench();
    bench.write("f.py", PY);
    let twice = "@@ -20,2 +20,2 @@\n     def run(self):\n-        return 1\n+        return 2\n";
    insta::assert_snapshot!(bench.failed("apply_patch", diff("f.py", twice)).await, @r"
    Nothing was changed, in no file. Line 1 of the patch (f.py): hunk 1 (line 3 of the patch): its context stands 2 times in the file; add lines around it, or an @@ line that names the function or class, until it fits one place:
    L2:     def run(self):
    L3:         return 1
    --
    L6:     def run(self):
    L7:         return 1
    ");
    let nowhere = "@@ -1,2 +1,2 @@\n     def walk(self):\n-        return 1\n+        return 2\n";
    let text = bench.failed("apply_patch", diff("f.py", nowhere)).await;
    assert!(
        text.contains("its context was not found") && text.contains("L2:     def run(self):"),
        "{text}"
    );
    let done = "@@ -1,2 +1,2 @@\n-class C:\n+class B:\n     def run(self):\n";
    let text = bench.failed("apply_patch", diff("f.py", done)).await;
    assert!(
        text.contains("already stand at L5: it may be done already"),
        "{text}"
    );
    // Indentation that differs in more than one way can't be carried over to new lines.
    let mixed = "@@ @@\n class B:\n   def run(self):\n-        return 1\n+        return 2\n";
    assert!(
        bench
            .failed("apply_patch", diff("f.py", mixed))
            .await
            .contains("not found")
    );
    assert_eq!(bench.text("f.py"), PY);
}

#[tokio::test]
async fn refuses_patches_that_say_nothing_or_what_text_edits_can_not_do() {
    let bench = bench();
    bench.write("f", "a\nb\n");
    for (text, why) in [
        ("   \n", "the patch is empty"),
        ("--- a/f\n+++ b/f\n", "it has no hunk"),
        ("--- a/f\n+++ b/f\n@@\n", "changes nothing"),
        (
            "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n b\n",
            "changes nothing",
        ),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+a\n", "change nothing"),
        ("@@ -1 +1 @@\n-a\n+b\n", "belongs to no file"),
        ("just words\n", "the patch is empty"),
        (
            "--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
            "--- names f, +++ names g",
        ),
        (
            "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\nwhat\n@@ -9 +9 @@\n-x\n+y\n",
            "line 8 of the patch: the hunk belongs to no file",
        ),
        (
            "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n",
            "the mode of a file",
        ),
        (
            "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+f\n\\ No newline at end of file\n",
            "links and submodules",
        ),
        (
            "diff --git a/f b/f\nGIT binary patch\nliteral 0\n",
            "binary files",
        ),
        (
            "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n",
            "exists already",
        ),
        (
            "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
            "does not name all of its lines",
        ),
        ("*** Begin Patch\n*** End Patch\n", "the patch is empty"),
        (
            "*** Begin Patch\n*** Update File: f\n*** End Patch\n",
            "has no hunk",
        ),
        (
            "*** Begin Patch\n*** Update File: f\n@@\n*** End Patch\n",
            "is empty",
        ),
        (
            "*** Begin Patch\n*** Update File: g\n@@\n-a\n+b\n*** End Patch\n",
            "no such file",
        ),
        (
            "*** Begin Patch\n*** Delete File: g\n*** End Patch\n",
            "no such file",
        ),
        (
            "*** Begin Patch\n*** Add File: f\n+x\n*** End Patch\n",
            "exists already",
        ),
        (
            "*** Begin Patch\n*** Add File: new\nx\n*** End Patch\n",
            "begins with +",
        ),
        (
            "*** Begin Patch\n*** Frobnicate File: f\n*** End Patch\n",
            "belongs to no file",
        ),
        (
            "*** Begin Patch\n*** Update File: f\n@@\n a\nb\n+c\n*** End Patch\n",
            "line 5 of the patch begins with none of",
        ),
        (
            "*** Begin Patch\n*** Update File: f\n*** Move to: f2\n*** Move to: f3\n@@\n-a\n+b\n*** End Patch\n",
            "*** Move to stands once",
        ),
    ] {
        let arguments = patch(text);
        let said = match (tools::find("apply_patch").unwrap().touches)(&arguments) {
            Err(said) => said,
            Ok(_) => bench.failed("apply_patch", arguments).await,
        };
        assert!(said.contains(why), "{text:?}: {said}");
    }
    let touches = tools::find("apply_patch").unwrap().touches;
    assert!(
        touches(&json!({}))
            .unwrap_err()
            .contains("give edits, or patch")
    );
    assert!(
        touches(&json!({"edits": [edit("a", "b", "c")], "patch": "x"}))
            .unwrap_err()
            .contains("not both")
    );
    assert_eq!(bench.text("f"), "a\nb\n");
    assert_eq!(fs::read_dir(bench.root()).unwrap().count(), 1);
}

// --- envelopes -----------------------------------------------------------------------------------------------------

#[tokio::test]
async fn adds_changes_moves_and_deletes_in_one_envelope() {
    let bench = bench();
    bench
        .write("f.py", PY)
        .write("old.txt", "one\ntwo\n")
        .write("gone", "x\n")
        .write("same.bin", "kept\n");
    fs::set_permissions(
        bench.root().join("old.txt"),
        fs::Permissions::from_mode(0o750),
    )
    .unwrap();
    let told = bench
        .done("apply_patch", envelope(
            "*** Update File: f.py\n@@ class B:\n     def run(self):\n-        return 1\n+        return 2\n\n*** Add File: new/deep.txt\n+first\n+\n+*** End Patch\n*** Update File: old.txt\n*** Move to: moved/new.txt\n@@\n-one\n+1\n two\n*** Delete File: gone\n*** Update File: same.bin\n*** Move to: other.bin\n",
        ))
        .await;
    insta::assert_snapshot!(told, @"Patched f.py (+1 -1). Created new/deep.txt (+3 -0). Moved old.txt to moved/new.txt (+1 -1). Deleted gone (+0 -1). Moved same.bin to other.bin (+0 -0).");
    assert_eq!(
        bench.text("f.py"),
        PY.replacen("return 1", "return one", 1)
            .replace("return 1", "return 2")
            .replace("return one", "return 1")
    );
    assert_eq!(bench.text("new/deep.txt"), "first\n\n*** End Patch\n");
    assert_eq!(bench.text("moved/new.txt"), "1\ntwo\n");
    let mode = fs::metadata(bench.root().join("moved/new.txt"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o750);
    for gone in ["old.txt", "gone", "same.bin"] {
        assert!(!bench.root().join(gone).exists(), "{gone}");
    }
    assert_eq!(bench.text("other.bin"), "kept\n");
}

#[tokio::test]
async fn reads_envelopes_as_models_write_them() {
    let check = async |before: &str, text: &str, after: &str, note: &str| {
        let bench = bench();
        bench.write("f", before);
        let told = bench.done("apply_patch", patch(text)).await;
        assert_eq!(bench.text("f"), after, "{text}: {told}");
        assert!(told.contains(note), "{told}");
        assert_eq!(note.is_empty(), !told.contains("Note:"), "{told}");
    };
    let core = "*** Begin Patch\n*** Update File: f\n@@\n a\n-b\n+B\n*** End Patch";
    check("a\nb\n", core, "a\nB\n", "").await;
    check("a\nb\n", &core.replace('\n', "\r\n"), "a\nB\n", "").await;
    check(
        "a\nb\n",
        &format!("apply_patch <<'EOF'\n{core}\nEOF\n"),
        "a\nB\n",
        "",
    )
    .await;
    check("a\nb\n", &format!("```diff\n{core}\n```\n"), "a\nB\n", "").await;
    check(
        "a\nb\n",
        &format!("Here it is:\n\n{core}\n\nThat is all.\n"),
        "a\nB\n",
        "",
    )
    .await;
    check(
        "a\nb\n",
        "*** Begin Patch\n*** Update File: f\n@@\n a\n-b\n+B\n",
        "a\nB\n",
        "*** End Patch is missing",
    )
    .await;
    check(
        "a\nb\n",
        "*** Update File: f\n a\n-b\n+B",
        "a\nB\n",
        "*** End Patch is missing",
    )
    .await;
    check(
        "a\nb\n",
        " *** Begin Patch\n   *** Update File: `f`  \n@@\n a\n-b\n+B\n  *** End Patch  \n",
        "a\nB\n",
        "",
    )
    .await;
    check("a\nb\n", "*** Begin Patch\n*** Update File: f\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n*** End Patch\n", "a\nB\n", "").await;
    // The end: of two places, the marker means the last; without a final newline it stays so.
    check(
        "x\ny\nx\n",
        "*** Begin Patch\n*** Update File: f\n@@\n-x\n+z\n*** End of File\n*** End Patch\n",
        "x\ny\nz\n",
        "",
    )
    .await;
    check(
        "x\ny",
        "*** Begin Patch\n*** Update File: f\n@@\n x\n-y\n+z\n+w\n*** End of File\n*** End Patch\n",
        "x\nz\nw",
        "",
    )
    .await;
    check(
        "x\ny\nz\n",
        "*** Begin Patch\n*** Update File: f\n@@\n-x\n+w\n*** End of File\n*** End Patch\n",
        "w\ny\nz\n",
        "is not at the end of the file",
    )
    .await;
    // No context: the place that is named, or the end, and said.
    check(
        "a\nb\n",
        "*** Begin Patch\n*** Update File: f\n@@\n+c\n*** End Patch\n",
        "a\nb\nc\n",
        "put at the end",
    )
    .await;
    check(
        "a\nb",
        "*** Begin Patch\n*** Update File: f\n@@\n+c\n*** End Patch\n",
        "a\nb\nc",
        "put at the end",
    )
    .await;
    check(
        "a\nb\n",
        "*** Begin Patch\n*** Update File: f\n@@ a\n+c\n*** End Patch\n",
        "a\nc\nb\n",
        "put after L1, which its @@ names",
    )
    .await;
    // Names of places, from the outside in, also where the context repeats the name.
    check(PY, "*** Begin Patch\n*** Update File: f\n@@ class B:\n@@     def run(self):\n-        return 1\n+        return 2\n*** End Patch\n", &PY.replace("class B:\n    def run(self):\n        return 1", "class B:\n    def run(self):\n        return 2"), "").await;
    check(PY, "*** Begin Patch\n*** Update File: f\n@@ class B:\n class B:\n     def run(self):\n-        return 1\n+        return 2\n*** End Patch\n", &PY.replace("class B:\n    def run(self):\n        return 1", "class B:\n    def run(self):\n        return 2"), "").await;
    // Hunks in the wrong order, and one that looks like a marker.
    check(
        "a\nb\nc\n",
        "*** Begin Patch\n*** Update File: f\n@@\n-c\n+C\n@@\n-a\n+A\n*** End Patch\n",
        "A\nb\nC\n",
        "stands above the one before it",
    )
    .await;
    check(
        "*** End Patch\nb\n",
        "*** Begin Patch\n*** Update File: f\n@@\n *** End Patch\n-b\n+B\n*** End Patch\n",
        "*** End Patch\nB\n",
        "",
    )
    .await;
    check(
        "a\n\nb\n",
        "*** Begin Patch\n*** Update File: f\n@@\n a\n\n-b\n+B\n\n\n*** End Patch\n",
        "a\n\nB\n",
        "",
    )
    .await;
    check(
        "",
        "*** Begin Patch\n*** Update File: f\n@@\n+new\n*** End Patch\n",
        "new\n",
        "",
    )
    .await;
}

#[tokio::test]
async fn asks_which_place_an_ambiguous_name_means() {
    let bench = bench();
    bench.write("f.py", PY);
    let text = bench
        .failed(
            "apply_patch",
            update(
                "f.py",
                "@@ def run(self):\n-        return 1\n+        return 2\n",
            ),
        )
        .await;
    assert!(
        text.contains("stands 2 times") && text.contains("L3:") && text.contains("L7:"),
        "{text}"
    );
    let overlap = update(
        "f.py",
        "@@ class A:\n     def run(self):\n-        return 1\n+        return 2\n@@ class A:\n     def run(self):\n-        return 1\n+        return 3\n",
    );
    let text = bench.failed("apply_patch", overlap).await;
    assert!(
        text.contains("its place at L2 is changed by another hunk already"),
        "{text}"
    );
    assert_eq!(bench.text("f.py"), PY);
}

#[tokio::test]
async fn lets_steps_of_one_patch_build_on_each_other() {
    let bench = bench();
    bench.write("f", "a\nb\n").write("dir/x", "1\n");
    let told = bench
        .done("apply_patch", envelope("*** Update File: f\n@@\n-a\n+A\n*** Update File: ./f\n@@\n A\n-b\n+B\n*** Add File: g\n+one\n*** Update File: g\n@@\n-one\n+two\n*** Delete File: dir/x\n*** Add File: dir/x\n+2\n"))
        .await;
    assert_eq!(told, "Patched f (+2 -2), dir/x (+1 -1). Created g (+1 -0).");
    assert_eq!(
        (bench.text("f"), bench.text("g"), bench.text("dir/x")),
        ("A\nB\n".into(), "two\n".into(), "2\n".into())
    );
    let text = bench
        .failed(
            "apply_patch",
            envelope("*** Add File: h\n+1\n*** Add File: h/i\n+2\n"),
        )
        .await;
    assert!(text.contains("a file and a folder at once"), "{text}");
    let text = bench
        .failed(
            "apply_patch",
            envelope("*** Update File: f\n*** Move to: g\n"),
        )
        .await;
    assert!(text.contains("g exists already"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lands_two_patches_of_one_round_to_one_file() {
    let one = envelope("*** Update File: notes.txt\n@@\n-one\n+eins\n");
    let two = edits(&[edit("notes.txt", "two\n", "zwei\n")]);
    let mut rig = Rig::new(&[
        calls(&[call("apply_patch", one), call("apply_patch", two)]),
        says("Done."),
    ]);
    rig.say("say it in German").await;
    assert_eq!(rig.answer().await, "Done.");
    let text = fs::read_to_string(rig.workspace().join("notes.txt")).unwrap();
    assert_eq!(text, "eins\nzwei\nthree\n");
}

// --- what a patch may touch, and what it keeps ---------------------------------------------------------------------

#[test]
fn declares_every_path_of_every_form() {
    let touches =
        |name: &str, arguments: &Value| (tools::find(name).unwrap().touches)(arguments).unwrap();
    let paths = |all: &[&str]| {
        all.iter()
            .map(|p| Touch::Write((*p).to_owned()))
            .collect::<Vec<_>>()
    };
    let all = envelope(
        "*** Add File: a\n+x\n*** Delete File: b\n*** Update File: c\n*** Move to: d\n@@\n-x\n+y\n",
    );
    assert_eq!(touches("apply_patch", &all), paths(&["a", "b", "c", "d"]));
    assert!(touches("preview_patch", &all).contains(&Touch::Read("d".into())));
    let git = patch(
        "diff --git a/r b/s\nrename from r\nrename to s\ndiff --git a/e b/e\nnew file mode 100644\ndiff --git \"a/q\\303\\274\" \"b/q\\303\\274\"\n--- \"a/q\\303\\274\"\n+++ \"b/q\\303\\274\"\n@@ -1 +1 @@\n-x\n+y\n--- a/t\t2026-01-01 00:00\n+++ b/t\t2026-01-01 00:00\n@@ -1 +1 @@\n-x\n+y\n--- a/u\n+++ a/u\n@@ -1 +1 @@\n-x\n+y\n--- /dev/null\n+++ b/v\n@@ -0,0 +1 @@\n+x\n--- a/w\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
    );
    assert_eq!(
        touches("apply_patch", &git),
        paths(&["r", "s", "e", "qü", "t", "a/u", "v", "w"])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn is_denied_as_a_whole_if_one_path_may_not_be_written() {
    let bad = [
        "*** Add File: ok.txt\n+x\n*** Add File: .env\n+KEY=1\n",
        "*** Update File: notes.txt\n*** Move to: .git/hooks/pre-commit\n@@\n-one\n+1\n",
        "*** Update File: notes.txt\n*** Move to: ../out.txt\n",
        "*** Delete File: /etc/passwd\n",
    ];
    let mut asked: Vec<Value> = bad
        .iter()
        .map(|text| call("apply_patch", envelope(text)))
        .collect();
    asked.push(call(
        "apply_patch",
        patch("--- /dev/null\n+++ b/id_rsa\n@@ -0,0 +1 @@\n+x\n"),
    ));
    asked.push(call("preview_patch", envelope("*** Delete File: .env\n")));
    let wanted = asked.len();
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
    assert_eq!(statuses, vec![Status::Denied; wanted]);
    assert!(
        !rig.workspace().join("ok.txt").exists()
            && !rig.workspace().join(".git/hooks/pre-commit").exists()
    );
}

#[tokio::test]
async fn keeps_encoding_mark_ends_and_mode_of_every_file() {
    let check = async |before: &[u8], arguments: Value, after: &[u8]| {
        let bench = bench();
        bench.write("f", before);
        fs::set_permissions(bench.root().join("f"), fs::Permissions::from_mode(0o4755)).unwrap();
        bench.done("apply_patch", arguments).await;
        assert_eq!(bench.read("f"), after);
        let mode = fs::metadata(bench.root().join("f"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o4755);
    };
    let forms = |old: &str, new: &str| {
        [
            edits(&[edit("f", old, new)]),
            update("f", &format!("@@\n-{old}\n+{new}\n")),
            diff("f", &format!("@@ -1 +1 @@\n-{old}\n+{new}\n")),
        ]
    };
    for arguments in forms("café", "thé") {
        check(b"caf\xe9\nx\xff", arguments.clone(), b"th\xe9\nx\xff").await;
        check(
            "\u{feff}café\r\nx".as_bytes(),
            arguments.clone(),
            "\u{feff}thé\r\nx".as_bytes(),
        )
        .await;
        check("café".as_bytes(), arguments, "thé".as_bytes()).await;
    }
    let bench = bench();
    bench
        .write("latin", b"caf\xe9\n")
        .write("wide", b"\xff\xfea\0")
        .write("image", b"\x89PNG\0\x01");
    let text = bench
        .failed("apply_patch", edits(&[edit("latin", "café", "5 €")]))
        .await;
    assert!(
        text.contains("latin is Latin-1, which has no '€'"),
        "{text}"
    );
    let text = bench
        .failed("apply_patch", edits(&[edit("wide", "a", "b")]))
        .await;
    assert!(text.contains("wide is UTF-16"), "{text}");
    let text = bench
        .failed("apply_patch", edits(&[edit("image", "PNG", "b")]))
        .await;
    assert!(text.contains("image is not text"), "{text}");
    assert_eq!(bench.read("latin"), b"caf\xe9\n");
    let shown = bench
        .done("read_lines", json!({"path": "latin", "start": 1, "end": 1}))
        .await;
    assert!(shown.contains("L1: café"), "{shown}");
}

#[tokio::test]
async fn follows_no_link_and_replaces_none() {
    let bench = bench();
    bench.write("real", "a\n").write("folder/x", "a\n");
    symlink("real", bench.root().join("link")).unwrap();
    symlink("nowhere", bench.root().join("broken")).unwrap();
    symlink("folder", bench.root().join("way")).unwrap();
    for body in [
        "*** Update File: link\n@@\n-a\n+b\n",
        "*** Delete File: link\n",
        "*** Add File: broken\n+x\n",
        "*** Update File: real\n*** Move to: link\n",
    ] {
        let text = bench.failed("apply_patch", envelope(body)).await;
        assert!(text.contains("is a symbolic link to"), "{body}: {text}");
    }
    // A folder's link is only a way to the file.
    bench
        .done(
            "apply_patch",
            envelope("*** Update File: way/x\n@@\n-a\n+b\n*** Add File: way/new/y\n+1\n"),
        )
        .await;
    assert_eq!(
        (bench.text("folder/x"), bench.text("folder/new/y")),
        ("b\n".into(), "1\n".into())
    );
    assert!(
        fs::symlink_metadata(bench.root().join("link"))
            .unwrap()
            .is_symlink()
    );
    assert_eq!(bench.text("real"), "a\n");
}

// --- every diff lands as meant -------------------------------------------------------------------------------------

/// Files of few different lines, so that contexts repeat, with mixed line ends.
fn file() -> impl Strategy<Value = String> {
    let line = ("[ab{} ]{0,2}", prop::bool::weighted(0.2));
    (prop::collection::vec(line, 0..14), any::<bool>()).prop_map(|(lines, final_newline)| {
        let end = |crlf: bool| if crlf { "\r\n" } else { "\n" };
        let mut text: String = lines
            .iter()
            .map(|(line, crlf)| format!("{line}{}", end(*crlf)))
            .collect();
        if !final_newline {
            text.truncate(text.trim_end_matches(['\r', '\n']).len());
        }
        text
    })
}

/// Lines that differ, and a file in which some are changed, taken away or added.
fn edited() -> impl Strategy<Value = (String, String)> {
    prop::collection::vec(0..8_u8, 3..40).prop_filter_map("a change", |dice| {
        let old: String = (0..dice.len()).map(|i| format!("  line {i}\n")).collect();
        let new: String = dice
            .iter()
            .enumerate()
            .map(|(i, die)| match die {
                0 => String::new(),
                1 => format!("  LINE {i}\n"),
                2 => format!("  line {i}\n    more {i}\n"),
                _ => format!("  line {i}\n"),
            })
            .collect();
        (old != new && !new.is_empty()).then_some((old, new))
    })
}

fn applied(bench: &Bench, before: &str, arguments: Value) -> (String, String) {
    bench.write("f", before);
    let told = block_on(bench.done("apply_patch", arguments));
    (String::from_utf8(bench.read("f")).unwrap(), told)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..generated() })]

    #[test]
    fn applies_every_diff_to_exactly_the_intended_content(before in file(), after in file(), radius in 1..4_usize) {
        prop_assume!(before != after && !before.is_empty() && !after.is_empty());
        let text = similar::TextDiff::from_lines(&before, &after).unified_diff().context_radius(radius).header("a/f", "b/f").to_string();
        let (found, told) = applied(&bench(), &before, patch(&text));
        prop_assert_eq!(&found, &after, "{}\n{}", text, told);
        prop_assert!(!told.contains("Note"), "{}", told);
    }

    #[test]
    fn finds_moved_places_by_their_context((before, after) in edited(), above in 0..30_usize) {
        let text = similar::TextDiff::from_lines(&before, &after).unified_diff().context_radius(2).header("a/f", "b/f").to_string();
        let head: String = (0..above).map(|i| format!("head {i}\n")).collect();
        let (found, told) = applied(&bench(), &format!("{head}{before}"), patch(&text));
        prop_assert_eq!(found, format!("{head}{after}"));
        prop_assert_eq!(told.contains("as stated"), above > 0, "{}", told);
    }

    #[test]
    fn applies_every_envelope_to_exactly_the_intended_content((before, after) in edited(), radius in 1..4_usize) {
        let diff = similar::TextDiff::from_lines(&before, &after);
        let hunks: String = diff.unified_diff().context_radius(radius).iter_hunks().map(|hunk| {
            let text = hunk.to_string();
            format!("@@\n{}", text.split_once('\n').unwrap().1)
        }).collect();
        let (found, told) = applied(&bench(), &before, update("f", &hunks));
        prop_assert_eq!(found, after, "{}", hunks);
        prop_assert!(!told.contains("Note"), "{}", told);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..generated() })]

    /// What git makes of a diff is what comes out here.
    #[test]
    fn agrees_with_git_apply(before in file(), after in file(), radius in 1..4_usize) {
        prop_assume!(before != after && !before.is_empty() && !after.is_empty());
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("f"), &before).unwrap();
        fs::write(folder.path().join("g"), &after).unwrap();
        let git = |args: &[&str]| Command::new("git").args(args).current_dir(folder.path()).output().unwrap();
        let radius = format!("-U{radius}");
        let text = String::from_utf8(git(&["diff", "--no-index", &radius, "f", "g"]).stdout).unwrap();
        let text = text.replace("b/g", "b/f");
        fs::write(folder.path().join("p"), &text).unwrap();
        let output = git(&["apply", "--whitespace=nowarn", "p"]);
        prop_assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let (found, told) = applied(&bench(), &before, patch(&text));
        prop_assert_eq!(found, fs::read_to_string(folder.path().join("f")).unwrap());
        prop_assert!(!told.contains("Note"), "{}", told);
    }

    /// Whatever the text, it is read or refused: no panic, no file outside of the declared paths.
    #[test]
    fn breaks_on_no_text(lines in prop::collection::vec(prop::sample::select(vec![
        "*** Begin Patch", "*** End Patch", "*** Update File: f", "*** Add File: g", "*** Delete File: f", "*** Move to: h", "*** End of File",
        "@@", "@@ a", "@@ -1,2 +1 @@", "@@ -0,0 +1 @@", "@@ -9,0 +3,2 @@ fn", "--- a/f", "+++ b/f", "+++ /dev/null", "--- /dev/null", "diff --git a/f b/f", " a", "-a", "+b", "", "\\ No newline at end of file", "-- ", "é", "```", "EOF", "rename from f", "rename to g", "new file mode 100644", "deleted file mode 100644",
    ]), 0..12)) {
        let bench = bench();
        bench.write("f", "a\nb\na");
        let arguments = patch(&lines.join("\n"));
        if arguments["patch"] != "" && let Ok(touches) = (tools::find("apply_patch").unwrap().touches)(&arguments) {
            block_on(bench.call("apply_patch", arguments));
            for entry in fs::read_dir(bench.root()).unwrap().flatten() {
                let name = entry.file_name().into_string().unwrap();
                prop_assert!(name == "f" || touches.contains(&Touch::Write(name.clone())), "{name}");
            }
        }
    }
}

// --- killed in the middle ------------------------------------------------------------------------------------------

const BEFORE: [(&str, &str); 4] = [
    ("a.txt", "a\n"),
    ("b/b.txt", "b\n"),
    ("c.txt", "c\n"),
    ("d.txt", "d\n"),
];
const AFTER: [(&str, &str); 4] = [
    ("a.txt", "A\n"),
    ("b/b.txt", "B\n"),
    ("new.txt", "n\n"),
    ("e/d.txt", "D\n"),
];

fn job() -> Vec<Next> {
    let text = "*** Update File: a.txt\n@@\n-a\n+A\n*** Update File: b/b.txt\n@@\n-b\n+B\n*** Delete File: c.txt\n*** Add File: new.txt\n+n\n*** Update File: d.txt\n*** Move to: e/d.txt\n@@\n-d\n+D\n";
    vec![call_of("apply_patch", envelope(text)), says_text("Done.")]
}

/// The files of the workspace, without git's and those that were there before.
fn tree(folder: &Path) -> Vec<(String, String)> {
    let names = ["a.txt", "b/b.txt", "c.txt", "d.txt", "e/d.txt", "new.txt"];
    let read = |name: &&str| {
        Some((
            (*name).to_owned(),
            fs::read_to_string(folder.join(name)).ok()?,
        ))
    };
    names.iter().filter_map(read).collect()
}

fn owned(files: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut files: Vec<_> = files
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect();
    files.sort();
    files
}

fn left_over(folder: &Path) -> Vec<String> {
    let names = |folder: &Path| {
        fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect::<Vec<_>>()
    };
    ["", "b", "e"]
        .iter()
        .flat_map(|sub| names(&folder.join(sub)))
        .filter(|name| name.starts_with(".journeyman-"))
        .collect()
}

/// A library that ends the program at a chosen call; `None`, with a notice, where there is no compiler.
pub fn killer(folder: &Path) -> Option<std::path::PathBuf> {
    let source = folder.join("kill.c");
    let library = folder.join("kill.so");
    fs::write(&source, include_str!("kill.c")).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .status();
    if built.is_ok_and(|status| status.success()) {
        return Some(library);
    }
    eprintln!("skipped: no C compiler");
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn is_whole_after_a_kill_at_every_change_of_the_disk() {
    let tools = tempfile::tempdir().unwrap();
    let Some(library) = killer(tools.path()) else {
        return;
    };
    let model = FakeModel::recorded(job()).await;
    let mut halves = 0;
    for at in 1.. {
        let mut killed = false;
        for mode in ["KILL_BEFORE", "KILL_AFTER"] {
            let program = Program::new(&model.base_url);
            for (name, text) in BEFORE {
                let path = program.workspace().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            let mut command = program.command(&["run", "patch it", "--yes"]);
            command
                .env("LD_PRELOAD", &library)
                .env("KILL_AT", at.to_string())
                .env("KILL_NAMES", ".txt")
                .env(mode, "1");
            let run = crate::program::finish(command).await;
            let context = format!("{mode} {at}: {}", run.err);
            if run.code == 0 {
                assert_eq!(tree(&program.workspace()), owned(&AFTER), "{context}");
                continue;
            }
            killed = true;
            let found = tree(&program.workspace());
            halves += usize::from(found != owned(&BEFORE) && found != owned(&AFTER));
            let id = journals(&program.data())[0]
                .file_stem()
                .unwrap()
                .to_string_lossy()
                .into_owned();
            let resumed = program.run(&["resume", &id, "--yes"]).await;
            assert_eq!(resumed.code, 0, "{context}: {}{}", resumed.out, resumed.err);
            assert_eq!(
                tree(&program.workspace()),
                owned(&AFTER),
                "{context}: {}",
                resumed.out
            );
            assert_eq!(
                left_over(&program.workspace()),
                Vec::<String>::new(),
                "{context}"
            );
            let asked = resumed.out.contains("may or may not");
            assert!(!asked, "{context}: nothing is in doubt: {}", resumed.out);
            assert_eq!(program.run(&["audit", "verify"]).await.code, 0);
        }
        if !killed {
            assert!(
                at > 8 && halves > 4,
                "the patch has that many points: {at}, {halves}"
            );
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn puts_everything_back_if_one_change_fails() {
    let tools = tempfile::tempdir().unwrap();
    let Some(library) = killer(tools.path()) else {
        return;
    };
    let model = FakeModel::recorded(job()).await;
    for at in 1.. {
        let program = Program::new(&model.base_url);
        for (name, text) in BEFORE {
            let path = program.workspace().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut command = program.command(&["run", "patch it", "--yes"]);
        command
            .env("LD_PRELOAD", &library)
            .env("KILL_AT", at.to_string())
            .env("KILL_NAMES", ".txt")
            .env("KILL_FAIL", "1");
        let run = crate::program::finish(command).await;
        assert_eq!(run.code, 0, "{}", run.err);
        assert_eq!(
            left_over(&program.workspace()),
            Vec::<String>::new(),
            "{at}"
        );
        let found = tree(&program.workspace());
        if found == owned(&AFTER) {
            if at > 12 {
                return;
            }
            continue; // a call whose failure does not matter
        }
        assert_eq!(found, owned(&BEFORE), "{at}: {}", run.out);
    }
}

#[test]
#[ignore = "a measurement: cargo test --release --test it -- --ignored --nocapture patch_of_50_files"]
fn takes_little_time_for_a_patch_of_50_files() {
    let bench = bench();
    let lines: String = (0..400).map(|i| format!("line {i} of a file\n")).collect();
    let mut text = String::new();
    for i in 0..50 {
        bench.write(&format!("dir{}/f{i}.txt", i % 5), &lines);
        text.push_str(&format!("*** Update File: dir{}/f{i}.txt\n@@\n line 199 of a file\n-line 200 of a file\n+line two hundred\n", i % 5));
    }
    let started = Instant::now();
    block_on(bench.done("preview_patch", envelope(&text)));
    let planned = started.elapsed();
    let started = Instant::now();
    block_on(bench.done("apply_patch", envelope(&text)));
    println!(
        "50 files: {planned:?} to plan and show, {:?} to apply with fsync",
        started.elapsed()
    );
    assert!(planned.as_millis() < if cfg!(debug_assertions) { 2_000 } else { 50 });
}

/// What one call holds in memory does not grow with the repository.
#[tokio::test]
async fn takes_no_more_than_50_megabytes_of_files_in_one_call() {
    let bench = bench();
    let text = format!("zero\n{}", "a line\n".repeat(1_300_000));
    let edit = |i: usize| {
        bench.write(&format!("{i}.txt"), &text);
        json!({"path": format!("{i}.txt"), "search": "zero\n", "replace": "one\n"})
    };
    let edits: Vec<_> = (0..6).map(edit).collect();
    let refused = bench.failed("apply_patch", json!({"edits": edits})).await;
    assert!(
        refused.contains("more than 50000000 bytes together"),
        "{refused}"
    );
    assert_eq!(bench.read("0.txt"), text.as_bytes());
}
