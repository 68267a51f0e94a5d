//! Kill it at any line of its journal, start it again: nothing is lost, nothing runs twice, doubts are asked about.
//!
//! The real program, real files, real git, SIGKILL.

use crate::fake_model::{FakeModel, Next, calls, says};
use crate::program::Program;
use crate::support::{git, journals, records, words};
use journeyman::agent::event::{Event, OutgoingKind, Record};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};

const OBJECTIVE: &str = "do the job";

fn job() -> Vec<Next> {
    let patch = json!({"edits": [{"path": "notes.txt", "search": "two\n", "replace": "zwei\n"}]});
    vec![
        calls(
            "create_task_plan",
            json!({"steps": ["write", "patch", "run", "commit"]}),
        ),
        calls("write_file", json!({"path": "new.txt", "content": "new\n"})),
        calls("apply_patch", patch),
        calls("run_command", json!({"command": "echo ran >> log.txt"})),
        calls("git_commit", json!({"message": "feat: do the job"})),
        says("Done."),
    ]
}

/// Starts the job and kills it after `lines` lines of its journal; `false` where it ended before.
async fn killed_after(program: &Program, lines: usize) -> bool {
    let mut command = program.command(&["run", OBJECTIVE, "--yes", "--json"]);
    let mut child = command
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    for _ in 0..lines {
        if out.next_line().await.expect("a line").is_none() {
            return false;
        }
    }
    child.kill().await.expect("killed");
    true
}

/// What a torn write leaves: the beginning of a line that never counted.
fn tear(data: &Path, bytes: usize) {
    let line = br#"{"seq":999,"at":"2026-01-01T00:00:00.000Z","event":"model_asked","round":1"#;
    let path = &journals(data)[0];
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(path)
        .expect("the journal");
    file.write_all(&line[..bytes]).expect("torn");
}

async fn resume_to_the_end(program: &Program, id: &str) {
    for _ in 0..4 {
        let run = program.run(&["resume", id, "--yes", "--run-again"]).await;
        match run.code {
            0 => return,
            2 => {
                assert!(run.err.contains("nothing to resume"), "{}", run.err);
                return;
            }
            _ => {}
        }
    }
    panic!(
        "it never ends: {:#?}",
        records(&journals(&program.data())[0])
    );
}

fn count(records: &[Record], wanted: impl Fn(&Event) -> bool) -> usize {
    records
        .iter()
        .filter(|record| wanted(&record.event))
        .count()
}

/// The promises, whatever happened before.
fn check(program: &Program, context: &str) {
    let records = records(&journals(&program.data())[0]);
    let show = || {
        records
            .iter()
            .map(|record| format!("{} {:?}\n", record.seq, record.event))
            .collect::<String>()
    };
    if count(&records, |event| {
        matches!(event, Event::MessageReceived { .. })
    }) == 0
    {
        return; // killed before the message was on disk, hence before anybody was told that it was taken
    }
    let file = |name: &str| fs::read_to_string(program.workspace().join(name)).unwrap_or_default();
    assert_eq!(file("new.txt"), "new\n", "{context}: {}", show());
    assert_eq!(
        file("notes.txt"),
        "one\nzwei\nthree\n",
        "{context}: {}",
        show()
    );
    let runs = file("log.txt").lines().count();
    let doubts = count(
        &records,
        |event| matches!(event, Event::ApprovalAsked { question, .. } if question.contains("may or may not")),
    );
    // The keeper goes on, and the commit names its call: nothing is in doubt.
    assert_eq!((runs, doubts), (1, 0), "{context}: {}", show());
    let commits = git(&program.workspace(), &["log", "--format=%s"]);
    assert_eq!(
        commits
            .lines()
            .filter(|subject| *subject == "feat: do the job")
            .count(),
        1,
        "{context}: {}",
        show()
    );
    let committed = git(
        &program.workspace(),
        &["show", "--name-only", "--format=", "HEAD"],
    );
    assert!(
        committed.lines().any(|name| name == "new.txt"),
        "{context}: the commit lacks the new file: {committed} {}",
        show()
    );
    let objectives = count(
        &records,
        |event| matches!(event, Event::MessageReceived { message } if message.text == OBJECTIVE),
    );
    assert_eq!(objectives, 1, "{context}");
    let finals: Vec<&str> = records
        .iter()
        .filter_map(|record| match &record.event {
            Event::SendStarted {
                kind: OutgoingKind::Final,
                text,
                ..
            } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert!(
        finals
            .last()
            .is_some_and(|text| words(text).ends_with("Done.")),
        "{context}: {finals:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn survives_a_kill_after_every_line_of_the_journal() {
    let model = FakeModel::recorded(job()).await;
    for lines in 1.. {
        let program = Program::new(&model.base_url);
        let killed = killed_after(&program, lines).await;
        if killed && lines % 2 == 1 {
            tear(&program.data(), 1 + lines % 60);
        }
        let id = journals(&program.data())[0]
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if killed {
            resume_to_the_end(&program, &id).await;
        }
        check(&program, &format!("killed after line {lines}"));
        let verified = program.run(&["audit", "verify"]).await;
        assert_eq!(verified.code, 0, "{}", verified.out);
        if !killed {
            assert!(lines > 30, "the job has that many lines");
            return;
        }
    }
}
