//! A journal decided again, and forked.

use crate::fake_model::{FakeModel, Next, calls, says};
use crate::program::Program;
use crate::support::{journals, records};
use journeyman::agent::event::Event;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn job() -> Vec<Next> {
    vec![
        calls("create_task_plan", json!({"steps": ["look", "run"]})),
        calls("run_command", json!({"command": "git status"})),
        calls("run_command", json!({"command": "echo ran >> log.txt"})),
        calls("run_command", json!({"command": "rm -rf build"})),
        says("Done."),
    ]
}

fn id(path: &Path) -> String {
    let name = path.file_stem().expect("a name");
    name.to_string_lossy().into_owned()
}

async fn done(program: &Program) -> String {
    let run = program.run(&["run", "do the job", "--yes"]).await;
    assert_eq!(run.code, 0, "{}", run.err);
    id(&journals(&program.data())[0])
}

#[tokio::test(flavor = "multi_thread")]
async fn every_decision_of_a_journal_comes_out_the_same() {
    let model = FakeModel::recorded(job()).await;
    let program = Program::new(&model.base_url);
    let id = done(&program).await;
    let asked = model.requests().len();
    let replayed = program.run(&["replay", &id]).await;
    assert_eq!(replayed.code, 0, "{} {}", replayed.out, replayed.err);
    assert!(
        replayed.out.contains("comes out the same"),
        "{}",
        replayed.out
    );
    assert_eq!(model.requests().len(), asked, "the model is not asked");
    let report: Value =
        serde_json::from_str(&program.run(&["replay", &id, "--json"]).await.out).expect("JSON");
    assert_eq!(report["same"], true);
    assert!(report["decisions"].as_u64() > Some(20), "{report}");
    assert_eq!(report["settings"], json!([]), "{report}");
    assert_eq!(report["reworded"], json!([]), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_then_are_used_where_the_journal_tells_them() {
    let model = FakeModel::recorded(job()).await;
    let program = Program::new(&model.base_url).read_only();
    program.config("limits.toml", "rounds_max = 3\napproval_minutes = 7\n");
    let run = program.run(&["run", "do the job", "--yes"]).await;
    assert_eq!(run.code, 4, "{}", run.err);
    let id = id(&journals(&program.data())[0]);
    // Today: other limits, and the write switch is on.
    program.config("limits.toml", "rounds_max = 1\n");
    let mut command = program.command(&["replay", &id, "--json"]);
    command.env("AGENT_WRITE_ENABLED", "true");
    let replayed = crate::program::finish(command).await;
    assert_eq!(replayed.code, 0, "{} {}", replayed.out, replayed.err);
    let report: Value = serde_json::from_str(&replayed.out).expect("JSON");
    let settings = report["settings"].as_array().expect("a list");
    assert!(!settings.is_empty(), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_policy_shows_what_it_would_have_decided() {
    let model = FakeModel::recorded(job()).await;
    let program = Program::new(&model.base_url);
    let id = done(&program).await;
    let file = program.home().join("strict.toml");
    fs::write(&file, "").expect("an empty policy");
    let name = file.to_str().expect("text");
    let same = program.run(&["replay", &id, "--policy", name]).await;
    assert_eq!(same.code, 0, "{} {}", same.out, same.err);
    fs::write(&file, "denylist = ['git']\n").expect("a policy");
    let differs = program.run(&["replay", &id, "--policy", name]).await;
    assert_eq!(differs.code, 1, "{} {}", differs.out, differs.err);
    assert!(differs.out.contains("git status"), "{}", differs.out);
    // Put into the configuration, the same rule is today's policy.
    fs::copy(&file, program.home().join("config/policy.toml")).expect("configured");
    let today = program.run(&["replay", &id]).await;
    assert_eq!(today.code, 1, "{} {}", today.out, today.err);
    assert!(
        today.out.contains("gate_decided") && today.out.contains("deny"),
        "{}",
        today.out
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_or_foreign_journal_is_no_replay_but_a_clear_error() {
    let model = FakeModel::recorded(job()).await;
    let program = Program::new(&model.base_url);
    let id = done(&program).await;
    let path = journals(&program.data())[0].clone();
    let text = fs::read_to_string(&path).expect("text");
    fs::write(&path, text.replace("do the job", "do the jab")).expect("damaged");
    let damaged = program.run(&["replay", &id]).await;
    assert_eq!(damaged.code, 1);
    assert!(damaged.err.contains("damaged at line 2"), "{}", damaged.err);
    fs::write(&path, "{\"type\":\"something else\"}\n").expect("foreign");
    let foreign = program.run(&["replay", &id]).await;
    assert_eq!(foreign.code, 1);
    assert!(
        foreign.err.contains("not a journal line"),
        "{}",
        foreign.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_takes_the_past_along_and_nothing_that_was_allowed() {
    let model = FakeModel::recorded(job()).await;
    let program = Program::new(&model.base_url);
    let parent = done(&program).await;
    let all = records(&journals(&program.data())[0]);
    // Just before the model is asked for the third time: the plan is made, git status was answered.
    let asked = all
        .iter()
        .find(|record| matches!(record.event, Event::ModelAsked { round: 3, .. }))
        .expect("the third round");
    let at = (asked.seq - 1).to_string();
    let forked = program
        .run(&["fork", &parent, "--at", &at, "--json", "another way"])
        .await;
    assert_eq!(forked.code, 0, "{}", forked.err);
    let report: Value = serde_json::from_str(&forked.out).expect("JSON");
    let fork = report["session"].as_str().expect("an id").to_owned();
    let before = model.requests()[2]["messages"].clone();
    let path = program.data().join(format!("agent_sessions/{fork}.jsonl"));
    let Event::SessionStarted(opening) = &records(&path)[0].event else {
        panic!("the first line opens it");
    };
    let past = opening.fork.as_ref().expect("a fork");
    assert_eq!(
        (past.parent.as_str(), past.at),
        (parent.as_str(), asked.seq - 1)
    );
    assert_eq!(past.plan.steps.len(), 2);

    let waits = program.run(&["resume", &fork]).await;
    assert_eq!(
        waits.code, 3,
        "what the parent was allowed is asked again: {}",
        waits.err
    );
    let request = model.requests().last().expect("a request")["messages"].clone();
    let (then, now) = (
        before.as_array().expect("messages"),
        request.as_array().expect("messages"),
    );
    assert_eq!(now[..then.len()], then[..], "the same past");
    assert_eq!(now.last().expect("one")["content"], "another way");
    let ended = program.run(&["resume", &fork, "--yes"]).await;
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert_eq!(program.run(&["audit", "verify"]).await.code, 0);
    let replayed = program.run(&["replay", &fork]).await;
    assert_eq!(replayed.code, 0, "{}{}", replayed.out, replayed.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_where_something_is_open_names_the_nearest_points() {
    let model = FakeModel::recorded(job()).await;
    let program = Program::new(&model.base_url);
    let parent = done(&program).await;
    let all = records(&journals(&program.data())[0]);
    let started = all
        .iter()
        .find(|record| matches!(record.event, Event::ToolStarted { .. }))
        .expect("a call");
    let at = started.seq.to_string();
    let refused = program.run(&["fork", &parent, "--at", &at]).await;
    assert_eq!(refused.code, 2, "{}", refused.out);
    let points: Vec<u64> = refused
        .err
        .split("--at ")
        .skip(1)
        .filter_map(|rest| rest.split([',', '\n']).next()?.trim().parse().ok())
        .collect();
    assert!(
        points.len() == 2 && points[0] < started.seq && started.seq < points[1],
        "{}",
        refused.err
    );
    for point in points {
        let forked = program
            .run(&["fork", &parent, "--at", &point.to_string()])
            .await;
        assert_eq!(forked.code, 0, "{}", forked.err);
    }
    let beyond = program.run(&["fork", &parent, "--at", "99999"]).await;
    assert!(beyond.err.contains("intact lines"), "{}", beyond.err);
}
