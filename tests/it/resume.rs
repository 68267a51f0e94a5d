//! A session that stopped goes on exactly where it was, and what may have run is never run again unasked.

use crate::fake_model::{FakeModel, Next, calls, says};
use crate::outlive::keeper;
use crate::program::Program;
use crate::support::{journals, records, texts};
use journeyman::agent::event::{
    Answer, Call, CallId, Event, Inbound, Opening, Outcome, Reading, Timestamp, WorkspaceRef,
};
use journeyman::history::inspect;
use journeyman::world::journal::{FORMAT, Journal};
use nix::sys::signal::{Signal, kill};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

fn id(program: &Program) -> String {
    let path = journals(&program.data())[0].clone();
    let name = path.file_stem().expect("a name");
    name.to_string_lossy().into_owned()
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let wait = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, wait)
        .await
        .unwrap_or_else(|_| panic!("{what} never came"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_to_everything_is_no_word_on_what_may_have_run() {
    let command = "echo ran >> proof.txt; sleep 5";
    let run = calls("run_command", json!({"command": command}));
    let model = FakeModel::recorded(vec![run, says("I see.")]).await;
    let program = Program::new(&model.base_url);
    let mut child = program.start(&["run", "prove it", "--yes"]);
    let proof = program.workspace().join("proof.txt");
    until("the proof", || proof.exists()).await;
    child.kill().await.expect("killed");
    kill(keeper(&program.data()), Signal::SIGKILL).expect("killed");
    let id = id(&program);
    for _ in 0..2 {
        let doubt = program.run(&["resume", &id, "--yes"]).await;
        assert_eq!(doubt.code, 3, "{}", doubt.err);
        let place = program.workspace().canonicalize().expect("a folder");
        for part in [
            command,
            "may or may not have happened",
            &format!("Workspace: {}", place.display()),
            "Began: 2",
            "Known: its keeper is gone",
            "--run-again",
            "--go-on",
        ] {
            assert!(doubt.err.contains(part), "{part}: {}", doubt.err);
        }
    }
    let ended = program.run(&["resume", &id, "--yes", "--go-on"]).await;
    assert_eq!(
        (ended.code, ended.out.trim()),
        (0, "I see."),
        "{}",
        ended.err
    );
    assert_eq!(fs::read_to_string(proof).expect("the proof"), "ran\n");
}

/// A run that is killed while the model is asked for the second time.
async fn killed_while_asking(model: &FakeModel) -> Program {
    let program = Program::new(&model.base_url);
    let mut child = program.start(&["run", "look around"]);
    until("the second request", || model.requests().len() == 2).await;
    child.kill().await.expect("killed");
    program
}

fn asks_twice() -> Vec<Next> {
    let plan = calls("create_task_plan", json!({"steps": ["look", "say"]}));
    vec![plan, Next::Fails(429, Some(20), json!({})), says("Done.")]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_sees_the_same_bytes_after_a_kill() {
    let model = FakeModel::start(asks_twice(), None).await;
    let program = killed_while_asking(&model).await;
    let path = journals(&program.data())[0].clone();
    let before = inspect(&path, &texts(), |_| {}).expect("intact").0;
    let resumed = program.run(&["resume", &id(&program)]).await;
    assert_eq!(
        (resumed.code, resumed.out.trim()),
        (0, "Done."),
        "{}",
        resumed.err
    );
    let bodies = model.bodies();
    assert_eq!(bodies.len(), 3);
    assert_eq!(bodies[1], bodies[2], "byte for byte");
    let mut after = None;
    inspect(&path, &texts(), |record| {
        if let Event::ModelAsked { round, .. } = record.event {
            after = Some(round);
        }
    })
    .expect("intact");
    assert_eq!(
        after,
        Some(before.rounds + 1),
        "the round in doubt is counted by its number"
    );
    let state = inspect(&path, &texts(), |_| {}).expect("intact").0;
    assert_eq!(state.plan, before.plan);
    assert_eq!(
        state.spend.usage.input_tokens, 200,
        "what was spent before still counts"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn with_resume_auto_the_command_line_goes_on_without_a_word() {
    let model = FakeModel::start(asks_twice(), None).await;
    let program = killed_while_asking(&model).await;
    program.config("settings.toml", "resume = \"auto\"\n");
    let resumed = program.run(&["resume", &id(&program)]).await;
    assert_eq!(
        (resumed.code, resumed.out.trim()),
        (0, "Done."),
        "{}",
        resumed.err
    );
    let all = records(&journals(&program.data())[0]);
    let by: Vec<&str> = all
        .iter()
        .filter_map(|record| match &record.event {
            Event::Resumed { by } => Some(by.who.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(by, ["configuration"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_failed_or_hit_a_limit_go_on() {
    let plan = calls("create_task_plan", json!({"steps": ["look"]}));
    let refused = Next::Fails(400, None, json!({"error": {"message": "no"}}));
    let model = FakeModel::start(vec![plan, refused, says("Done.")], None).await;
    let program = Program::new(&model.base_url);
    program.config("limits.toml", "rounds_max = 1\n");
    assert_eq!(program.run(&["run", "look"]).await.code, 4);
    let id = id(&program);
    assert_eq!(
        program.run(&["resume", &id]).await.code,
        1,
        "the model refuses"
    );
    let resumed = program.run(&["resume", &id]).await;
    assert_eq!(
        (resumed.code, resumed.out.trim()),
        (0, "Done."),
        "{}",
        resumed.err
    );
    let nothing = program.run(&["resume", &id]).await;
    assert_eq!(nothing.code, 2);
    assert!(nothing.err.contains("nothing to resume"), "{}", nothing.err);
}

// --- how long it takes ---------------------------------------------------------------------------------------------

fn opening(session: &str, workspace: &Path) -> Event {
    Event::SessionStarted(Box::new(Opening {
        format: FORMAT,
        program: "test".into(),
        session: session.into(),
        chat: "run:test".into(),
        owner: "local".into(),
        workspace: WorkspaceRef {
            name: "shop".into(),
            path: workspace.to_string_lossy().into_owned(),
        },
        system: "You work.".into(),
        prompt_digest: String::new(),
        policy_digest: String::new(),
        model: "m".into(),
        sandbox: String::new(),
        brief: None,
        mcp: false,
        scheduled: None,
        sources: Vec::new(),
        worktrees: None,
        language: Default::default(),
        welcome: false,
        together_ms: 0,
        fork: None,
        child: None,
    }))
}

/// A session with so many rounds, three lines each, whose process died then.
fn long_session(path: &Path, session: &str, workspace: &Path, rounds: u32) {
    let at = Timestamp(1_790_000_000_000);
    let (mut journal, _) =
        Journal::create(path, at, opening(session, workspace)).expect("a journal");
    let mut write = |event| {
        let line = journal.next(at, event);
        journal.append(line).expect("a line");
    };
    let message = Inbound::text("m1", "local", "work");
    write(Event::MessageReceived { message });
    write(Event::MessageTaken {
        message: "m1".into(),
        reading: Reading::Objective,
        reply: None,
        quote: None,
        attached: None,
        image: None,
        with: Vec::new(),
    });
    for round in 1..=rounds {
        let call = Call {
            id: CallId(format!("{round}.1")),
            wire_id: format!("call{round}"),
            tool: "get_task_plan".into(),
            arguments: "{}".into(),
        };
        let id = call.id.clone();
        write(Event::ModelAsked {
            round,
            messages: 2 * round as usize,
            model: "m".into(),
        });
        let answer = Answer {
            calls: vec![call],
            finish: "tool_calls".into(),
            ..Answer::default()
        };
        write(Event::ModelAnswered { round, answer });
        write(Event::ToolFinished {
            call: id,
            outcome: Outcome::done("x".repeat(500)),
        });
    }
    journal.sync().expect("on disk");
}

/// Target in a release build: 1 s.
#[test]
#[ignore = "measures; says most with --release"]
fn reading_100_000_lines_takes_less_than_a_second() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("long.jsonl");
    long_session(&path, "long", folder.path(), 33_333);
    let started = Instant::now();
    let (state, end) = inspect(&path, &texts(), |_| {}).expect("intact");
    let took = started.elapsed();
    assert_eq!((end.seq, state.rounds), (100_002, 33_333));
    println!(
        "{} lines, {} MB, folded in {took:?}",
        end.seq,
        end.bytes / 1_000_000
    );
    assert!(
        cfg!(debug_assertions) || took < Duration::from_secs(1),
        "{took:?}"
    );
}

/// Target in a release build: 200 ms.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures; says most with --release"]
async fn a_session_of_1_000_rounds_asks_the_model_within_200_ms() {
    let model = FakeModel::start(vec![], Some(says("Done."))).await;
    let program = Program::new(&model.base_url);
    let folder = program.data().join("agent_sessions");
    fs::create_dir_all(&folder).expect("a folder");
    program.config(
        "limits.toml",
        "rounds_max = 2000\nturn_seconds_max = 10000000000\n",
    );
    long_session(
        &folder.join("long.jsonl"),
        "long",
        &program.workspace(),
        1_000,
    );
    let started = Instant::now();
    let mut child = program.start(&["resume", "long"]);
    until("the request", || !model.requests().is_empty()).await;
    let took = started.elapsed();
    println!("from the start of the process to the model's request: {took:?}");
    assert!(child.wait().await.expect("it ends").success());
    assert!(
        cfg!(debug_assertions) || took < Duration::from_millis(200),
        "{took:?}"
    );
}
