//! What the person reads while there is work, and what was done in the end: from what happened, at a pace that can be read.

use crate::support::{Rig, call, calls, run_command, says, texts};
use journeyman::agent::apply::apply;
use journeyman::agent::event::{Event, OutgoingKind, Record, Timestamp};
use journeyman::agent::state::State;
use serde_json::json;

fn write(path: &str, content: &str) -> serde_json::Value {
    calls(&[call(
        "write_file",
        json!({"path": path, "content": content}),
    )])
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_ends_with_what_was_changed_tested_and_committed() {
    let edit = json!({"path": "notes.txt", "search": "two\n", "replace": "zwei\n"});
    let commit = call("git_commit", json!({"message": "feat: two files"}));
    let mut rig = Rig::new(&[
        write("a.txt", "one\ntwo\n"),
        calls(&[call("apply_patch", json!({"edits": [edit]}))]),
        run_command("false; python3 -m unittest nothing_here"),
        calls(&[commit]),
        says("All is **well**."),
    ]);
    rig.say("change two files").await;
    let (_, question) = rig.question().await;
    assert!(question.contains("unittest"));
    rig.say("yes").await;
    let answer = rig.message(OutgoingKind::Final).await;
    let lines: Vec<&str> = answer.lines().collect();
    let head = crate::support::git(&rig.workspace(), &["rev-parse", "--short", "HEAD"]);
    assert_eq!(
        lines,
        [
            "All is **well**.",
            "",
            "✏️ Files changed: 2 (+3 −1) · ❌ `false; python3 -m unittest nothing_here` failed (exit 1)",
            &format!("📌 {}", head.trim()),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_a_question_ends_with_nothing() {
    let mut rig = Rig::new(&[run_command("ls"), says("One file.")]);
    rig.say("what is here?").await;
    assert_eq!(rig.message(OutgoingKind::Final).await, "One file.");
}

fn plan(done: usize) -> serde_json::Value {
    let steps = json!({"steps": ["look", "write", "test"]});
    match done {
        0 => calls(&[call("create_task_plan", steps)]),
        step => calls(&[call(
            "update_task_status",
            json!({"step": step, "status": "done"}),
        )]),
    }
}

/// The plan moves three times within a moment: one message says so, and the answer makes up for the others.
#[tokio::test(flavor = "multi_thread")]
async fn progress_is_told_once_in_a_while_and_as_it_stands_last() {
    let mut rig = Rig::new(&[plan(0), plan(1), plan(2), plan(3), says("Done.")]);
    rig.say("do three things").await;
    let told = rig.message(OutgoingKind::Progress).await;
    assert_eq!(told, "🔧 Round 2: 1/3 steps done\nNow: write");
    assert_eq!(rig.answer().await, "Done.");
    rig.stop().await;
    let records = rig.records();
    let progress = |event: &Event| {
        matches!(
            event,
            Event::SendStarted {
                kind: OutgoingKind::Progress,
                ..
            }
        )
    };
    let superseded = |event: &Event| matches!(event, Event::SendSuperseded { .. });
    let count = |wanted: &dyn Fn(&Event) -> bool| {
        records
            .iter()
            .filter(|record| wanted(&record.event))
            .count()
    };
    assert_eq!((count(&progress), count(&superseded)), (1, 2));
    // Had nothing come after it, the second would have gone out 20 seconds after the first.
    let at = |wanted: &dyn Fn(&Event) -> bool| {
        let mut records = records.iter();
        records
            .position(|record| wanted(&record.event))
            .expect("it happened")
    };
    let state = folded(&records[..at(&superseded)]);
    let first = records[at(&progress)].at;
    let waits = state.outbox.front().expect("the second");
    assert_eq!(waits.due, Some(Timestamp(first.0 + 20_000)));
    assert!(waits.text.contains("2/3"), "{}", waits.text);
}

fn folded(records: &[Record]) -> State {
    let mut state = State::begin(&records[0], &texts()).expect("an opening");
    for record in &records[1..] {
        apply(&mut state, record).expect("it was legal");
    }
    state
}
