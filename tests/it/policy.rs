//! `journeyman policy`: what a rule means, and what a changed policy would have decided.

use crate::fake_model::{FakeModel, calls, says};
use crate::program::Program;
use serde_json::{Value, json};
use std::fs;

#[tokio::test(flavor = "multi_thread")]
async fn explains_rules_in_words() {
    let program = Program::new("");
    let told = program
        .run(&["policy", "explain", "git-force-push-protected"])
        .await;
    assert_eq!(told.code, 0, "{}", told.err);
    for part in [
        "denies when the command is git push",
        "protected branch",
        "such as: git push --force origin main",
        "instead: ",
    ] {
        assert!(told.out.contains(part), "{}", told.out);
    }
    let shell = program
        .run(&["policy", "explain", "operators", "--json"])
        .await;
    let shell: Value = serde_json::from_str(&shell.out).expect("JSON");
    assert_eq!(shell[0]["rule"], "operators");
    assert!(
        shell[0]["when"]
            .as_str()
            .is_some_and(|when| when.contains("pipe"))
    );
    let names = program.run(&["policy", "explain"]).await;
    assert!(
        names.out.lines().any(|name| name == "denylist"),
        "{}",
        names.out
    );
    let wrong = program.run(&["policy", "explain", "operator"]).await;
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.err.contains("the nearest is operators"),
        "{}",
        wrong.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn backtest_says_what_a_changed_policy_would_have_decided() {
    let run = |command: &str| calls("run_command", json!({"command": command}));
    let script = vec![run("ls"), run("echo hello"), run("rm x"), says("Done.")];
    let model = FakeModel::start(script, None).await;
    let program = Program::new(&model.base_url);
    assert_eq!(
        program.run(&["run", "look", "--no-approvals"]).await.code,
        0
    );
    let file = program.home().join("new.toml");
    let path = file.to_str().expect("a path").to_owned();

    fs::write(&file, "").expect("written");
    let same = program
        .run(&["policy", "backtest", "--policy", &path])
        .await;
    assert_eq!(
        (same.code, same.out.as_str()),
        (
            0,
            "0 of 3 commands in 1 journals would be decided differently\n"
        ),
        "{}",
        same.err
    );

    fs::write(&file, "denylist = ['echo']\n").expect("written");
    let changed = program
        .run(&["policy", "backtest", "--policy", &path, "--json"])
        .await;
    let report: Value = serde_json::from_str(&changed.out).expect("JSON");
    assert_eq!(
        (&report["commands"], &report["journals"]),
        (&json!(3), &json!(1))
    );
    let different = report["different"].as_array().expect("a list");
    assert_eq!(different.len(), 1, "{report}");
    assert_eq!(
        (
            &different[0]["command"],
            &different[0]["was"],
            &different[0]["would_be"]
        ),
        (&json!("echo hello"), &json!("allow"), &json!("deny"))
    );
    let data = program.data();
    let named = program
        .run(&[
            "policy",
            "backtest",
            "--policy",
            &path,
            "--journals",
            data.to_str().expect("a path"),
        ])
        .await;
    assert!(
        named.out.contains("allow -> deny  echo hello"),
        "{}",
        named.out
    );

    fs::write(&file, "nonsense = 1\n").expect("written");
    let bad = program
        .run(&["policy", "backtest", "--policy", &path])
        .await;
    assert_eq!(bad.code, 2);
    assert!(bad.err.contains("new.toml:1"), "{}", bad.err);
}
