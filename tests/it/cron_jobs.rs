//! Scheduled prompts run once a slot, whatever dies or jumps in between, and nobody's conversation is disturbed.

use crate::fake_model::FakeModel;
use crate::program::{Program, Run as Ended};
use crate::support::{CHAT, OWNER, Rig, call, calls, run_command, says};
use journeyman::agent::event::{Event, Timestamp};
use journeyman::doors::schedule::Ticker;
use journeyman::schedule::jitter::delay;
use journeyman::schedule::misfire::Misfire;
use journeyman::schedule::wish::Terms;
use journeyman::world::store::cron::{Change, Claim, JobState, NewJob, Run};
use journeyman::world::store::{Store, StoreError};
use serde_json::{Value, json};
use std::fs;
use std::sync::Arc;
use std::time::Duration;

pub fn at(text: &str) -> Timestamp {
    serde_json::from_value(json!(text)).expect("an instant")
}

pub fn ticker(rig: &Rig) -> Ticker {
    let hub = rig.assembly.as_ref().expect("it runs").hub.clone();
    Ticker::new(hub)
}

pub fn store(rig: &Rig) -> Arc<Store> {
    let assembly = rig.assembly.as_ref().expect("it runs");
    assembly.hub.surface().store.clone()
}

pub fn daily_at_nine(message: &str) -> NewJob {
    NewJob {
        chat: CHAT.into(),
        owner: OWNER.into(),
        schedule: "0 9 * * *".into(),
        message: message.into(),
        timezone: "Europe/Madrid".into(),
        terms: Terms {
            late_minutes: Some(600),
            ..Terms::default()
        },
    }
}

pub fn add(rig: &Rig, job: &NewJob) -> i64 {
    let added = store(rig).add_job(job, 20, at("2026-11-22T12:00:00Z"));
    added.expect("kept").expect("there is room")
}

fn claim(rig: &Rig, job: i64, slot: Timestamp) -> Result<Vec<Timestamp>, StoreError> {
    let claim = Claim {
        job,
        slots: &[slot],
        outcome: "claimed",
        left: &[],
        until: slot,
        finished: false,
        notices: &[],
    };
    // The ticker looks a moment after the slot.
    store(rig).claim(&claim, Timestamp(slot.0 + 900))
}

pub fn outcomes(rig: &Rig) -> Vec<String> {
    let runs = store(rig).runs(None, 100).expect("the runs");
    runs.into_iter().rev().map(|run| run.outcome).collect()
}

/// Ticks at the same time until no run is open: the work itself takes as long as it takes.
pub async fn until_ended(rig: &Rig, ticker: &mut Ticker, now: &str) {
    let ended = async {
        loop {
            ticker.tick(at(now)).await.expect("a tick");
            if store(rig).open_runs().expect("the runs").is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let ended = tokio::time::timeout(crate::support::PATIENCE, ended).await;
    assert!(
        ended.is_ok(),
        "it goes on: {:?}\n{}",
        outcomes(rig),
        rig.transcript()
    );
}

/// How often this text reached a session.
fn received(rig: &Rig, text: &str) -> usize {
    let records = rig.records();
    let is_it =
        |event: &Event| matches!(event, Event::MessageReceived { message } if message.text == text);
    records.iter().filter(|record| is_it(&record.event)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_runs_once_in_a_session_of_its_own_and_again_after_no_restart() {
    let mut rig = Rig::new(&[says("Watered."), says("Watered again.")]);
    add(&rig, &daily_at_nine("water the plants"));
    let mut first = ticker(&rig);
    first
        .tick(at("2026-11-23T07:59:59Z"))
        .await
        .expect("a tick");
    assert!(outcomes(&rig).is_empty() && rig.journals().is_empty());
    until_ended(&rig, &mut first, "2026-11-23T08:00:02Z").await;
    assert_eq!(outcomes(&rig), ["done"]);
    assert_eq!(rig.answer().await, "Watered.");
    let runs = store(&rig).runs(None, 1).expect("the runs");
    assert_eq!(runs[0].slot, at("2026-11-23T08:00:00Z"));
    assert_eq!(
        runs[0].session.as_deref(),
        Some("cron-1-20261123-080000-000")
    );
    rig.restart().await;
    let mut second = ticker(&rig);
    until_ended(&rig, &mut second, "2026-11-23T08:00:09Z").await;
    until_ended(&rig, &mut second, "2026-11-23T12:00:00Z").await;
    assert_eq!(received(&rig, "water the plants"), 1);
    until_ended(&rig, &mut second, "2026-11-24T08:00:00Z").await;
    assert_eq!(outcomes(&rig), ["done", "done"]);
    assert_eq!(rig.journals().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spread_start_waits_for_its_moment_also_after_a_restart_and_by_hand_for_nothing() {
    let mut rig = Rig::new(&[says("Watered."), says("Watered again.")]);
    let mut job = daily_at_nine("water the plants");
    job.terms.jitter = Some(60);
    let id = add(&rig, &job);
    let slot = at("2026-11-23T08:00:00Z");
    let moment = slot.0 + delay(id, slot.0, 60).num_milliseconds();
    assert!(
        moment > slot.0 + 60_000,
        "the test needs a moment to wait for"
    );
    let mut first = ticker(&rig);
    for now in [slot.0 + 1_000, moment - 1] {
        first.tick(Timestamp(now)).await.expect("a tick");
        assert_eq!(outcomes(&rig), ["claimed"]);
    }
    rig.restart().await;
    let mut second = ticker(&rig);
    second.tick(Timestamp(moment - 1)).await.expect("a tick");
    assert_eq!(outcomes(&rig), ["claimed"], "it goes on waiting");
    let now = serde_json::to_value(Timestamp(moment)).expect("an instant");
    until_ended(&rig, &mut second, now.as_str().expect("an instant")).await;
    assert_eq!(outcomes(&rig), ["done"]);
    let runs = store(&rig).runs(None, 1).expect("the runs");
    assert_eq!((runs[0].slot, runs[0].interruptions), (slot, 0));
    let by_hand = Change::Run { id, owner: None };
    let later = Timestamp(moment + 60_000);
    let run = store(&rig).change_once("by hand", &by_hand, later);
    run.expect("claimed");
    let now = serde_json::to_value(Timestamp(later.0 + 1)).expect("an instant");
    until_ended(&rig, &mut second, now.as_str().expect("an instant")).await;
    assert_eq!(outcomes(&rig), ["done", "done"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_at_any_point_between_claim_and_delivery_loses_and_repeats_nothing() {
    let slot = at("2026-11-23T08:00:00Z");
    let now = "2026-11-23T08:00:02Z";
    for point in [
        "claimed",
        "started",
        "half a first line",
        "opened",
        "delivered",
        "delivered, as if only claimed",
    ] {
        let mut rig = Rig::new(&[says("Watered."), says("Twice!")]);
        let id = add(&rig, &daily_at_nine("water the plants"));
        let claimed = claim(&rig, id, slot);
        assert_eq!(claimed.expect("claimed"), [slot]);
        let again = claim(&rig, id, slot);
        assert_eq!(again.expect("asked"), [], "a slot is claimed once");
        let run: Run = store(&rig).open_runs().expect("the runs").remove(0);
        let session = "cron-1-20261123-080000-000";
        let folder = rig.settings.data_dir.join("agent_sessions");
        if point == "started" || point == "half a first line" {
            store(&rig).run_started(&run, session, slot).expect("noted");
        }
        if point.starts_with("delivered") {
            ticker(&rig).tick(at(now)).await.expect("a tick");
            rig.answer().await;
        }
        if point == "half a first line" {
            let unborn = folder.join(format!("{session}.unborn"));
            fs::write(unborn, "{\"seq\":1").expect("left behind");
        }
        if point == "opened" {
            ticker(&rig).tick(at(now)).await.expect("a tick");
            rig.answer().await;
            rig.stop().await;
            let path = folder.join(format!("{session}.jsonl"));
            let text = fs::read_to_string(&path).expect("the journal");
            let first = text.lines().next().expect("a line");
            fs::write(&path, format!("{first}\n")).expect("cut");
            let db = rusqlite::Connection::open(rig.settings.data_dir.join("journeyman.db"));
            db.expect("the database")
                .execute_batch("DELETE FROM seen; DELETE FROM sessions")
                .expect("forgotten");
        }
        rig.restart().await;
        if point == "delivered, as if only claimed" {
            let db = rusqlite::Connection::open(rig.settings.data_dir.join("journeyman.db"));
            db.expect("the database")
                .execute(
                    "UPDATE cron_runs SET outcome = 'claimed', session = NULL",
                    [],
                )
                .expect("put back");
        }
        let mut next = ticker(&rig);
        until_ended(&rig, &mut next, now).await;
        assert_eq!(outcomes(&rig), ["done"], "{point}");
        assert_eq!(received(&rig, "water the plants"), 1, "{point}");
        assert_eq!(rig.journals().len(), 1, "{point}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_missed_while_nothing_ran_is_made_up_for_as_the_job_says() {
    for (misfire, expected) in [(Misfire::Skip, 0), (Misfire::Once, 1), (Misfire::All, 3)] {
        let rig = Rig::new(&[says("One."), says("Two."), says("Three.")]);
        let job = NewJob {
            schedule: "0 * * * *".into(),
            terms: Terms {
                misfire,
                late_minutes: Some(180),
                ..Terms::default()
            },
            ..daily_at_nine("look")
        };
        add(&rig, &job);
        until_ended(&rig, &mut ticker(&rig), "2026-11-23T08:30:00Z").await;
        let done: Vec<_> = outcomes(&rig).into_iter().filter(|o| o == "done").collect();
        assert_eq!(done.len(), expected, "{misfire:?}");
        // Twenty slots since the job was made: the last ten that are left stand in the history.
        assert_eq!(outcomes(&rig).len(), 10 + expected, "{misfire:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_repeats_no_slot_and_loses_none() {
    let rig = Rig::new(&[says("One."), says("Two."), says("Three.")]);
    add(&rig, &daily_at_nine("look"));
    let mut ticker = ticker(&rig);
    until_ended(&rig, &mut ticker, "2026-11-23T08:00:02Z").await;
    // Back by an hour: nine o'clock comes again.
    until_ended(&rig, &mut ticker, "2026-11-23T07:00:00Z").await;
    until_ended(&rig, &mut ticker, "2026-11-23T08:00:02Z").await;
    assert_eq!(outcomes(&rig), ["done"]);
    // A year ahead by mistake, past nine, and back: the days in between come when they come.
    until_ended(&rig, &mut ticker, "2027-11-23T23:00:00Z").await;
    until_ended(&rig, &mut ticker, "2026-11-23T09:00:00Z").await;
    let done = |rig: &Rig| outcomes(rig).iter().filter(|o| *o == "done").count();
    assert_eq!(done(&rig), 1);
    until_ended(&rig, &mut ticker, "2026-11-24T08:00:02Z").await;
    assert_eq!(done(&rig), 2);
    // That it was taken for missed a year too early does not keep a slot from running.
    until_ended(&rig, &mut ticker, "2027-11-23T08:00:02Z").await;
    assert_eq!(done(&rig), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_goes_on_makes_the_next_slot_be_skipped_and_waits_for_its_answer() {
    let mut rig = Rig::new(&[run_command("echo ran > proof.txt"), says("It ran.")]);
    let job = NewJob {
        schedule: "every 10m".into(),
        ..daily_at_nine("prove it")
    };
    add(&rig, &job);
    let mut ticker = ticker(&rig);
    ticker
        .tick(at("2026-11-22T12:10:01Z"))
        .await
        .expect("a tick");
    rig.question().await;
    assert!(
        !rig.workspace().join("proof.txt").exists(),
        "the gate asks as ever"
    );
    ticker
        .tick(at("2026-11-22T12:20:01Z"))
        .await
        .expect("a tick");
    assert_eq!(outcomes(&rig), ["running", "overlap"]);
    rig.say("yes").await;
    assert_eq!(rig.answer().await, "It ran.");
    until_ended(&rig, &mut ticker, "2026-11-22T12:21:00Z").await;
    assert_eq!(outcomes(&rig), ["done", "overlap"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduled_session_does_not_take_over_the_conversation() {
    let mut rig = Rig::new(&[says("One."), says("Two.")]);
    let mine = rig.say("hello").await.session;
    rig.answer().await;
    add(&rig, &daily_at_nine("water the plants"));
    until_ended(&rig, &mut ticker(&rig), "2026-11-23T08:00:02Z").await;
    assert_eq!(rig.answer().await, "One.");
    assert_eq!(rig.say("and now?").await.session, mine);
    assert_eq!(rig.answer().await, "Two.");
}

#[tokio::test(flavor = "multi_thread")]
async fn five_failures_in_a_row_pause_a_job() {
    let rig = Rig::with(
        &vec![calls(&[call("list_files", json!({}))]); 10],
        |settings| {
            settings.limits.rounds_max = 1;
        },
    );
    let id = add(&rig, &daily_at_nine("look"));
    let mut ticker = ticker(&rig);
    for day in 23..=29 {
        until_ended(&rig, &mut ticker, &format!("2026-11-{day}T08:00:02Z")).await;
    }
    assert_eq!(outcomes(&rig), vec!["limit"; 5]);
    let job = store(&rig).job(id).expect("looked up").expect("a job");
    assert_eq!((job.state.as_str(), job.failures), ("paused", 0));
    assert!(job.why.contains("5 times"), "{}", job.why);
}

#[tokio::test(flavor = "multi_thread")]
async fn people_see_and_change_their_own_schedules_only_and_have_twenty() {
    let rig = Rig::new(&[]);
    let mine = add(&rig, &daily_at_nine("mine"));
    let other = NewJob {
        owner: "bruno".into(),
        ..daily_at_nine("his")
    };
    let his = add(&rig, &other);
    let (store, now) = (store(&rig), at("2026-11-22T13:00:00Z"));
    let jobs = |owner| store.jobs(owner).expect("the jobs").len();
    assert_eq!(
        (jobs(Some(OWNER)), jobs(Some("bruno")), jobs(None)),
        (1, 1, 2)
    );
    let delete = |id| store.set_job_state(id, Some(OWNER), JobState::Deleted, now);
    assert!(!delete(his).expect("asked"));
    assert!(delete(mine).expect("asked"));
    assert!(!delete(mine).expect("asked"), "once");
    let kept = store.job(mine).expect("looked up").expect("kept");
    assert_eq!(kept.state, "deleted");
    for _ in 0..20 {
        let added = store.add_job(&daily_at_nine("mine"), 20, now);
        assert!(added.expect("asked").is_some());
    }
    let added = store.add_job(&daily_at_nine("mine"), 20, now);
    assert_eq!(
        added.expect("asked"),
        None,
        "deleted ones do not count, twenty do"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_is_claimed_once_and_a_rebuilt_index_leaves_jobs_and_runs_alone() {
    let rig = Rig::new(&[]);
    let (id, slot) = (
        add(&rig, &daily_at_nine("look")),
        at("2026-11-23T08:00:00Z"),
    );
    let claim = || claim(&rig, id, slot);
    assert_eq!(claim().expect("claimed"), [slot]);
    assert_eq!(claim().expect("asked"), []);
    let before = (store(&rig).jobs(None), store(&rig).runs(None, 9));
    store(&rig).forget_derived().expect("emptied");
    let after = (store(&rig).jobs(None), store(&rig).runs(None, 9));
    assert_eq!(before.0.expect("jobs"), after.0.expect("jobs"));
    assert_eq!(before.1.expect("runs"), after.1.expect("runs"));
}

pub async fn cron(program: &Program, arguments: &[&str]) -> Ended {
    let mut command = program.command(&[&["cron"], arguments].concat());
    for (name, value) in [
        ("WHATSAPP_ACCESS_TOKEN", "token"),
        ("WHATSAPP_PHONE_NUMBER_ID", "100"),
        ("WHATSAPP_VERIFY_TOKEN", "verify-me"),
        ("WHATSAPP_APP_SECRET", "secret"),
        ("ALLOWED_PHONE_NUMBERS", "5491112345678,5491187654321"),
    ] {
        command.env(name, value);
    }
    crate::program::finish(command).await
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_are_kept_by_the_command_line_and_survive_a_rebuilt_index() {
    let model = FakeModel::recorded(vec![]).await;
    let program = Program::new(&model.base_url);
    let refused = cron(&program, &["add", "0 9 * * *", "look", "--tz", "UTC"]).await;
    assert!(
        refused.code == 2 && refused.err.contains("--to"),
        "{}",
        refused.err
    );
    let refused = cron(
        &program,
        &["add", "0 9 * * *", "look", "--tz", "UTC", "--to", "1"],
    )
    .await;
    assert!(
        refused.code == 2 && refused.err.contains("not served"),
        "{}",
        refused.err
    );
    let to = ["--tz", "Europe/Madrid", "--to", "5491112345678"];
    let refused = cron(
        &program,
        &[&["add", "0 0 31 2 *", "look"][..], &to].concat(),
    )
    .await;
    assert!(
        refused.code == 2 && refused.err.contains("never fire"),
        "{}",
        refused.err
    );
    let added = cron(
        &program,
        &[&["add", "30 8 * * 1", "look"][..], &to, &["--json"]].concat(),
    )
    .await;
    let added: Value = serde_json::from_str(&added.out).expect("JSON");
    assert_eq!(
        (&added["id"], added["next"].as_array().map(Vec::len)),
        (&json!(1), Some(3))
    );
    assert_eq!(cron(&program, &["pause", "1"]).await.code, 0);
    assert_eq!(cron(&program, &["run", "1"]).await.code, 0);
    assert_eq!(program.run(&["index", "rebuild"]).await.code, 0);
    let listed = cron(&program, &["list", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed.out).expect("JSON");
    assert_eq!(listed[0]["message"], "look");
    assert_eq!(listed[0]["state"], "paused");
    let history = cron(&program, &["history", "1", "--json"]).await;
    let history: Value = serde_json::from_str(&history.out).expect("JSON");
    assert_eq!(history[0]["outcome"], "claimed");
    assert_eq!(cron(&program, &["resume", "1"]).await.code, 0);
    assert_eq!(cron(&program, &["delete", "1"]).await.code, 0);
    assert_eq!(cron(&program, &["delete", "1"]).await.code, 2);
    assert_eq!(cron(&program, &["list"]).await.out, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_held_schedules_is_never_replaced_in_silence() {
    let model = FakeModel::recorded(vec![]).await;
    let program = Program::new(&model.base_url);
    let to = ["--tz", "UTC", "--to", "5491112345678"];
    let added = cron(&program, &[&["add", "@daily", "look"][..], &to].concat()).await;
    assert_eq!(added.code, 0, "{}", added.err);
    let db = program.data().join("journeyman.db");
    fs::write(&db, "this is no database, whatever it is").expect("damaged");
    for part in ["journeyman.db-wal", "journeyman.db-shm"] {
        let _ = fs::remove_file(program.data().join(part));
    }
    let listed = cron(&program, &["list"]).await;
    assert_eq!(listed.code, 1);
    assert!(
        listed.err.contains("user_cron_jobs") && listed.err.contains("backup"),
        "{}",
        listed.err
    );
    assert!(
        fs::read_to_string(&db)
            .expect("untouched")
            .starts_with("this is no")
    );
}
