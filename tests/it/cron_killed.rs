//! The real server is killed around a scheduled run: the history says so, and nothing runs twice.

use crate::fake_model::{FakeModel, says};
use crate::program::finish;
use crate::serve::Served;
use crate::support::{PATIENCE, journals};
use journeyman::agent::event::Event;
use nix::sys::signal::Signal;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The command line beside the server.
pub async fn cron(served: &Served, arguments: &[&str]) -> String {
    let mut command = served.program.command(&[&["cron"], arguments].concat());
    served.furnish(&mut command);
    let run = finish(command).await;
    assert_eq!(run.code, 0, "{}", run.err);
    run.out
}

/// Waits until the history shows this, by looking straight into the database: as soon as it is there.
pub async fn until_history(served: &Served, sql: &str) {
    let path = served.program.data().join("journeyman.db");
    let found = async {
        loop {
            let db = rusqlite::Connection::open(&path).expect("the database");
            if db
                .prepare(sql)
                .is_ok_and(|mut rows| rows.exists([]).unwrap_or(false))
            {
                return;
            }
            drop(db);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, found).await;
    if found.is_err() {
        let history = cron(served, &["history"]).await;
        let log = served.log.lock().expect("no panic").clone();
        let journals = journals(&served.program.data());
        let last = journals.last().map(fs::read_to_string);
        panic!("never: {sql}\n{history}\n{log}\n{last:?}");
    }
}

fn received(served: &Served, text: &str) -> usize {
    served.happened(
        |event| matches!(event, Event::MessageReceived { message } if message.text == text),
    )
}

pub async fn killed(served: &mut Served) {
    served.signal(Signal::SIGKILL);
    served.ended().await;
    served.begin().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_to_be_resumed_goes_on_after_kill_9_and_its_history_says_so() {
    let gone = Arc::new(AtomicBool::new(false));
    let model = {
        let gone = gone.clone();
        // However busy the machine is, the answer comes after the kill.
        let wait = move || {
            let until = Instant::now() + PATIENCE;
            while !gone.load(Ordering::Relaxed) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        let late = move |_: &serde_json::Value| {
            tokio::task::block_in_place(&wait); // what else this thread was to do, another one does
            says("Watered.")
        };
        FakeModel::deciding(late).await
    };
    let mut served = Served::new(&model).await;
    served.begin().await;
    served.greets().await;
    let terms = ["--tz", "UTC", "--interrupted", "resume"];
    cron(
        &served,
        &[&["add", "@yearly", "water the plants"][..], &terms].concat(),
    )
    .await;
    cron(&served, &["run", "1"]).await;
    assert_eq!(served.hears().await.text, "⏰ Schedule 1: water the plants");
    let asked = |event: &Event| matches!(event, Event::ModelAsked { .. });
    while served.happened(asked) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    served.signal(Signal::SIGKILL);
    served.ended().await;
    gone.store(true, Ordering::Relaxed);
    served.begin().await;
    let told = served.hears().await.text;
    assert!(told.contains("interrupted"), "{told}");
    let told = served.hears().await.text;
    assert!(told.contains("Going on"), "{told}");
    assert_eq!(served.hears().await.text, "Watered.");
    until_history(&served, "SELECT 1 FROM cron_runs WHERE outcome = 'done'").await;
    let history = cron(&served, &["history", "1"]).await;
    assert!(history.contains("done (interrupted 1 times)"), "{history}");
    assert_eq!(received(&served, "water the plants"), 1);
    assert_eq!(journals(&served.program.data()).len(), 2);
}

/// Killed as soon as the claim is seen in the database, and as soon as the run is noted, before or while its session begins.
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_between_claim_and_run_repeats_and_loses_nothing() {
    let model = FakeModel::deciding(|_| says("Watered.")).await;
    let mut served = Served::new(&model).await;
    served.begin().await;
    cron(
        &served,
        &["add", "@yearly", "water the plants", "--tz", "UTC"],
    )
    .await;
    for (times, seen) in [
        "outcome = 'claimed'",
        "outcome = 'running'",
        "session IS NOT NULL",
    ]
    .into_iter()
    .enumerate()
    {
        cron(&served, &["run", "1"]).await;
        let latest = "slot = (SELECT max(slot) FROM cron_runs)";
        until_history(
            &served,
            &format!("SELECT 1 FROM cron_runs WHERE {seen} AND {latest}"),
        )
        .await;
        killed(&mut served).await;
        let ended = format!(
            "SELECT 1 FROM cron_runs WHERE outcome NOT IN ('claimed', 'running') AND {latest}"
        );
        until_history(&served, &ended).await;
        let history = cron(&served, &["history", "1"]).await;
        assert_eq!(
            received(&served, "water the plants"),
            times + 1,
            "{history}"
        );
        assert_eq!(
            journals(&served.program.data()).len(),
            times + 1,
            "{history}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_schedule_says_waits_for_whatsapps_window_and_its_run_has_ended() {
    let model = FakeModel::deciding(|_| says("Watered.")).await;
    let mut served = Served::new(&model).await;
    served.begin().await;
    cron(
        &served,
        &["add", "@yearly", "water the plants", "--tz", "UTC"],
    )
    .await;
    cron(&served, &["run", "1"]).await;
    until_history(&served, "SELECT 1 FROM cron_runs WHERE outcome = 'done'").await;
    assert!(
        served.graph.sent.try_recv().is_err(),
        "nobody has written yet"
    );
    let held = |event: &Event| {
        let Event::SendFinished {
            error, retry_at, ..
        } = event
        else {
            return false;
        };
        let why = error.as_deref().unwrap_or_default();
        why.contains("24 hours") && retry_at.is_some()
    };
    assert_eq!(served.happened(held), 1);
}

#[test]
fn the_window_is_open_for_a_day_after_the_person_wrote() {
    let closed = journeyman::doors::closed_until_heard;
    let hours = |hours: u64| Some(hours * 3_600_000);
    assert_eq!(closed("whatsapp:1", hours(23)), None);
    assert!(closed("whatsapp:1", hours(24)).is_some());
    assert!(closed("whatsapp:1", None).is_some());
    assert_eq!(closed("terminal:local", None), None);
}
