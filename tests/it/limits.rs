//! Every limit of a turn stops it, says which one it was, and leaves a turn that goes on.

use crate::support::{OWNER, Rig, call, calls, run_command, says};
use journeyman::agent::event::{EndReason, Event, OutgoingKind, Via};
use journeyman::config::Settings;
use journeyman::config::models::Models;
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

fn look(n: usize) -> Value {
    run_command(&format!("echo {n}"))
}

/// A model that costs a thousand dollars for a million tokens, either way.
fn dear(settings: &mut Settings) {
    let model = "[[model]]\nnames = [\"recording\"]\ninput_usd = 1000\noutput_usd = 1000\n";
    know(settings, model);
}

pub fn know(settings: &mut Settings, models: &str) {
    let folder = settings.data_dir.join("../models-test");
    fs::create_dir_all(folder.join("config")).expect("a folder");
    fs::write(folder.join("config/models.toml"), models).expect("a file");
    settings.models = Models::load(&folder).expect("the models");
}

fn reached(rig: &Rig) -> Vec<String> {
    let limit = |event: &Event| match event {
        Event::LimitReached { limit, .. } => Some(limit.clone()),
        _ => None,
    };
    rig.records()
        .iter()
        .filter_map(|record| limit(&record.event))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn rounds_and_tokens_stop_a_turn_that_goes_on_when_told() {
    let mut rig = Rig::with(&[look(1), look(2), look(3), says("Done.")], |settings| {
        settings.limits.rounds_max = 2;
    });
    rig.say("go").await;
    let end = rig.answer().await;
    assert!(
        end.contains("2 rounds") && end.contains("/agent-resume"),
        "{end}"
    );
    assert_eq!(rig.state().last_end, Some(EndReason::Limit));
    rig.say("/agent-resume").await;
    assert_eq!(rig.answer().await, "Done.");
    assert_eq!(reached(&rig), ["limit_rounds"]);

    let mut rig = Rig::with(&[look(1), says("Done.")], |settings| {
        settings.limits.tokens_max = 10;
    });
    rig.say("go").await;
    let end = rig.answer().await;
    assert!(end.contains("10 tokens"), "{end}");
    rig.say("/agent-resume").await;
    assert_eq!(rig.answer().await, "Done.");
    assert_eq!(reached(&rig), ["limit_tokens"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_beyond_the_cap_of_a_round_are_answered_and_none_is_dropped() {
    let read = |n: u32| {
        call(
            "read_lines",
            json!({"path": "notes.txt", "start": n, "end": n}),
        )
    };
    let mut rig = Rig::with(
        &[calls(&[read(1), read(2), read(3)]), says("Done.")],
        |settings| {
            settings.limits.calls_max = 2;
        },
    );
    rig.say("go").await;
    assert_eq!(rig.answer().await, "Done.");
    let finished = |event: &Event| matches!(event, Event::ToolFinished { .. });
    let records = rig.records();
    assert_eq!(
        records
            .iter()
            .filter(|record| finished(&record.event))
            .count(),
        3
    );
    assert!(rig.transcript().contains("only 2 calls a round"));
}

#[tokio::test(flavor = "multi_thread")]
async fn time_stops_a_command_that_hangs() {
    let hang = call(
        "run_command",
        json!({"command": "sleep 60", "timeout": 100}),
    );
    let mut rig = Rig::with(&[calls(&[hang]), says("Done.")], |settings| {
        settings.limits.turn_seconds_max = 2;
    });
    rig.say("go").await;
    rig.question().await;
    // Waiting for the person does not count.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let began = Instant::now();
    rig.try_say("yes", OWNER, Via::Text)
        .await
        .expect("it is taken");
    let end = rig.answer().await;
    assert!(
        end.contains("2 s of work") && end.contains("/agent-resume"),
        "{end}"
    );
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(rig.state().last_end, Some(EndReason::Limit));
    assert_eq!(reached(&rig), ["limit_time"]);
    rig.say("/agent-resume").await;
    assert_eq!(rig.answer().await, "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn time_stops_a_model_that_hangs() {
    let mut slow = says("never");
    slow["pause_ms"] = json!(60_000);
    let mut rig = Rig::with(&[slow], |settings| settings.limits.turn_seconds_max = 1);
    let began = Instant::now();
    rig.say("go").await;
    let end = rig.answer().await;
    assert!(end.contains("1 s of work"), "{end}");
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(reached(&rig), ["limit_time"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn money_stops_a_turn_and_a_session() {
    let mut rig = Rig::with(&[look(1), says("Done.")], |settings| {
        dear(settings);
        settings.limits.turn_cents_max = 1;
    });
    rig.say("go").await;
    let end = rig.answer().await;
    assert!(
        end.contains("$0.0100") && end.contains("turn_cents_max"),
        "{end}"
    );
    rig.say("/agent-resume").await;
    assert_eq!(rig.answer().await, "Done.");

    let mut rig = Rig::with(&[look(1), says("Done.")], |settings| {
        dear(settings);
        settings.limits.session_cents_max = 1;
    });
    rig.say("go").await;
    assert!(rig.answer().await.contains("one session"));
    rig.say("/agent-resume").await;
    assert!(
        rig.answer().await.contains("one session"),
        "a resume spends nothing more"
    );
    assert_eq!(rig.state().rounds, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_month_counts_all_sessions_also_after_a_restart_and_without_the_database() {
    let mut rig = Rig::with(&[says("One."), says("Two.")], |settings| {
        dear(settings);
        settings.limits.month_cents_max = 1;
    });
    rig.say("go").await;
    assert_eq!(rig.answer().await, "One.");
    rig.say("/new").await;
    rig.message(OutgoingKind::Notice).await;
    rig.stop().await;
    for name in ["journeyman.db", "journeyman.db-wal", "journeyman.db-shm"] {
        let _ = fs::remove_file(rig.settings.data_dir.join(name));
    }
    rig.restart().await;
    rig.say("again").await;
    let end = rig.answer().await;
    assert!(
        end.contains("this month") && end.contains("month_cents_max"),
        "{end}"
    );
    assert_eq!(rig.journals().len(), 2, "it is another session");
    assert_eq!(reached(&rig), ["limit_money_month"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_money_limit_without_a_price_asks_the_model_nothing() {
    let mut rig = Rig::with(&[says("never")], |settings| {
        settings.model.as_mut().expect("a model").name = "nobody-knows-1".into();
        settings.limits.session_cents_max = 100;
    });
    rig.say("go").await;
    let end = rig.answer().await;
    assert!(
        end.contains("nobody-knows-1") && end.contains("config/models.toml"),
        "{end}"
    );
    assert_eq!(reached(&rig), ["limit_no_price"]);
    assert_eq!(rig.state().rounds, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn cost_tells_turn_session_and_month_and_what_is_not_known() {
    let mut rig = Rig::with(&[look(1), says("One."), says("Two.")], dear);
    rig.say("go").await;
    rig.answer().await;
    rig.say("/cost").await;
    let cost = rig.message(OutgoingKind::Notice).await;
    let lines: Vec<&str> = cost.lines().collect();
    assert!(
        lines[0].starts_with("Turn: ") && lines[0].contains(" tokens · $"),
        "{cost}"
    );
    assert!(
        lines[1].starts_with("Session: ") && lines[2].contains("all sessions: "),
        "{cost}"
    );
    let sum = |line: &str| line.split_once(": ").map(|(_, rest)| rest.to_owned());
    assert_eq!(sum(lines[0]), sum(lines[1]), "one turn so far");
    let spent = rig.state().spend;
    assert_eq!(spent.micros, 1_000 * spent.usage.total());
    rig.say("/agent Do it again").await;
    rig.answer().await;
    rig.say("/cost").await;
    let cost = rig.message(OutgoingKind::Notice).await;
    let lines: Vec<&str> = cost.lines().collect();
    assert_ne!(
        sum(lines[1]),
        sum(lines[2]),
        "the month has both sessions: {cost}"
    );

    let mut rig = Rig::with(&[says("One.")], |settings| {
        settings.model.as_mut().expect("a model").name = "nobody-knows-1".into();
    });
    rig.say("go").await;
    rig.answer().await;
    rig.say("/cost").await;
    let cost = rig.message(OutgoingKind::Notice).await;
    assert!(
        cost.contains("cost unknown") && cost.contains("No price is known for nobody-knows-1"),
        "{cost}"
    );
    assert!(!cost.contains("$0"), "{cost}");
    rig.say("/agent").await;
    let status = rig.message(OutgoingKind::Notice).await;
    assert!(status.contains("tokens · cost unknown"), "{status}");
}
