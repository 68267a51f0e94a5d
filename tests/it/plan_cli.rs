//! `journeyman plan` as a person starts it: made, shown, run once, whoever is killed.

use crate::fake_model::{FakeModel, Next, says};
use crate::program::{Program, Run, finish};
use crate::support::PATIENCE;
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

const TASKS: usize = 8;

/// Plans tasks that each leave a line, and from the fifth on wait for a file.
fn drafts(request: &Value) -> Next {
    drafts_that_wait(request, "t4")
}

/// The same; from this one on they wait.
fn drafts_that_wait(request: &Value, from: &str) -> Next {
    let messages = request["messages"].as_array().unwrap();
    let said = messages.last().unwrap()["content"].as_str().unwrap();
    let task: Value = serde_json::from_str(said).unwrap_or_default();
    let Some(id) = task["id"].as_str() else {
        let task = |n: usize| json!({"id": format!("t{n}"), "service": "shell", "command": "run_command", "prompt": "leave a line", "dependsOn": []});
        let tasks: Vec<Value> = (0..TASKS).map(task).collect();
        return says(&json!({"tasks": tasks}).to_string());
    };
    let wait = match id < from {
        true => "",
        false => "; while [ ! -e go ]; do sleep 0.05; done",
    };
    let command = format!("bash -c 'echo {id} >> ran{wait}'");
    let mut answer = task.clone();
    answer["input"] = json!({"command": command, "timeout": 60});
    answer.as_object_mut().unwrap().remove("prompt");
    says(&answer.to_string())
}

async fn run(program: &Program, args: &[&str]) -> Run {
    finish(program.command(args)).await
}

fn ran(program: &Program) -> Vec<String> {
    let ran = fs::read_to_string(program.workspace().join("ran")).unwrap_or_default();
    let mut lines: Vec<String> = ran.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

async fn until(what: impl Fn() -> bool) {
    let began = Instant::now();
    while !what() {
        assert!(began.elapsed() < PATIENCE, "it never came to that");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn listed(program: &Program) -> Value {
    let list = run(program, &["plan", "list", "--json"]).await;
    serde_json::from_str(&list.out).unwrap_or_else(|error| panic!("{error}: {}", list.out))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_plan_goes_on_and_no_task_runs_twice() {
    let model = FakeModel::deciding(drafts).await;
    let program = Program::new(&model.base_url);
    let made = run(&program, &["plan", "new", "leave lines"]).await;
    assert_eq!(made.code, 0, "{}", made.err);
    assert!(
        made.out.contains("t7  shell.run_command  would ask"),
        "{}",
        made.out
    );
    assert!(
        made.out.contains("t6, t7: bash is not on the allowlist"),
        "{}",
        made.out
    );
    assert!(made.out.contains("Nothing has run."), "{}", made.out);
    assert!(ran(&program).is_empty(), "nothing has run");
    let mut first = program.command(&["plan", "run", "--yes"]).spawn().unwrap();
    // Four at once: those that wait began when the others had ended.
    until(|| ran(&program).len() == TASKS).await;
    first.kill().await.unwrap();
    let at_work = listed(&program).await;
    assert_eq!(at_work[0]["status"], "at work", "{at_work}");
    fs::write(program.workspace().join("go"), "").unwrap();
    let session = at_work[0]["session"].as_str().unwrap();
    let resumed = run(&program, &["resume", session, "--yes"]).await;
    assert_eq!(resumed.code, 0, "{}", resumed.err);
    let all: Vec<String> = (0..TASKS).map(|n| format!("t{n}")).collect();
    assert_eq!(ran(&program), all, "each once");
    assert_eq!(listed(&program).await[0]["status"], "done");
    let again = run(&program, &["plan", "run", "--yes"]).await;
    assert_eq!((again.code, ran(&program)), (0, all), "{}", again.err);
    let shown = run(&program, &["plan", "show"]).await;
    assert!(shown.out.contains("does not run again"), "{}", shown.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_whose_rest_is_refused_is_not_done() {
    let model = FakeModel::deciding(|request| drafts_that_wait(request, "t0")).await;
    let program = Program::new(&model.base_url);
    run(&program, &["plan", "new", "leave lines"]).await;
    let first = program.command(&["plan", "run", "--yes"]).spawn().unwrap();
    until(|| ran(&program).len() == 4).await;
    let id = nix::unistd::Pid::from_raw(first.id().unwrap().cast_signed());
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT).unwrap();
    let ended = tokio::time::timeout(PATIENCE, first.wait_with_output()).await;
    assert_ne!(ended.unwrap().unwrap().status.code(), Some(0));
    assert_eq!(listed(&program).await[0]["status"], "stopped");
    let refused = run(&program, &["plan", "run", "--no-approvals"]).await;
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert_eq!(ran(&program).len(), 4, "{}", refused.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_refused_as_a_whole_and_shown_as_a_flowchart() {
    let model = FakeModel::deciding(drafts).await;
    let program = Program::new(&model.base_url);
    run(&program, &["plan", "new", "leave lines"]).await;
    let chart = run(&program, &["plan", "show", "--mermaid"]).await;
    assert!(chart.out.contains("flowchart TD"), "{}", chart.out);
    let refused = run(&program, &["plan", "run", "--no-approvals"]).await;
    assert!(ran(&program).is_empty(), "{}", refused.err);
    assert_eq!(refused.code, 1, "what did not run is not done");
    assert_eq!(
        refused.err.matches("May I run plan").count(),
        1,
        "{}",
        refused.err
    );
    for (words, said) in [("run", "no objective"), ("", "is empty")] {
        let none = run(&program, &["plan", "new", words]).await;
        assert_ne!(none.code, 0);
        assert!(none.err.contains(said), "{}", none.err);
    }
}
