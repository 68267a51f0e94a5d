//! What a schedule has to say: each once, whatever dies, in the journal and in the history. And how far its runs may go.

use crate::cron_jobs::{add, at, daily_at_nine, outcomes, store, ticker, until_ended};
use crate::limits::know;
use crate::support::{CHAT, OWNER, Rig, call, calls, opening, run_command, says, texts};
use journeyman::agent::apply::apply;
use journeyman::agent::event::{
    Answer, Call, CallId, Event, Inbound, Opening, OutgoingKind, Reading, Record, Scheduled,
    Timestamp, Via,
};
use journeyman::agent::limits::alarm;
use journeyman::agent::state::State;
use journeyman::agent::wording::cron_fires;
use journeyman::schedule::wish::{Interrupted, Terms};
use journeyman::world::store::cron::NewJob;
use serde_json::json;

fn every_ten_minutes(terms: Terms) -> NewJob {
    NewJob {
        schedule: "every 10m".into(),
        terms: Terms {
            late_minutes: Some(600),
            ..terms
        },
        ..daily_at_nine("prove it")
    }
}

/// How often something was said to the chat that contains this.
fn said(rig: &Rig, part: &str) -> usize {
    let says =
        |event: &Event| matches!(event, Event::SendStarted { text, .. } if text.contains(part));
    let records = rig.records();
    records.iter().filter(|record| says(&record.event)).count()
}

/// As if the process had died between the journal's line and the note that it is told.
fn forget_that_it_was_told(rig: &Rig) {
    let db = rusqlite::Connection::open(rig.settings.data_dir.join("journeyman.db"));
    let forgot = db
        .expect("the database")
        .execute("UPDATE cron_notices SET told = 0", []);
    assert!(forgot.expect("forgotten") > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overlap_is_said_once_for_the_run_that_is_in_the_way() {
    let mut rig = Rig::new(&[run_command("echo ran > proof.txt"), says("It ran.")]);
    add(&rig, &every_ten_minutes(Terms::default()));
    let mut first = ticker(&rig);
    first
        .tick(at("2026-11-22T12:10:01Z"))
        .await
        .expect("a tick");
    let (code, _) = rig.question().await;
    for now in ["2026-11-22T12:20:01Z", "2026-11-22T12:30:01Z"] {
        first.tick(at(now)).await.expect("a tick");
    }
    rig.message(OutgoingKind::Notice).await;
    forget_that_it_was_told(&rig);
    rig.restart().await;
    let mut second = ticker(&rig);
    second
        .tick(at("2026-11-22T12:40:01Z"))
        .await
        .expect("a tick");
    rig.say(&format!("/approve {code}")).await;
    rig.answer().await;
    until_ended(&rig, &mut second, "2026-11-22T12:41:00Z").await;
    assert_eq!(outcomes(&rig), ["done", "overlap", "overlap", "overlap"]);
    assert_eq!(said(&rig, "due again"), 1, "{}", rig.transcript());
    assert_eq!(said(&rig, "⏰ Schedule 1: prove it"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn times_that_were_missed_are_counted_said_once_and_stand_in_the_history() {
    let mut rig = Rig::new(&[says("Done.")]);
    add(&rig, &every_ten_minutes(Terms::default()));
    let mut first = ticker(&rig);
    until_ended(&rig, &mut first, "2026-11-22T13:05:00Z").await;
    rig.answer().await;
    assert_eq!(
        outcomes(&rig),
        ["missed", "missed", "missed", "missed", "missed", "done"]
    );
    let missed =
        "5 time(s) were missed and are left out, the last on Sun 2026-11-22 13:50 (+01:00)";
    while said(&rig, missed) == 0 {
        first
            .tick(at("2026-11-22T13:06:00Z"))
            .await
            .expect("a tick");
    }
    forget_that_it_was_told(&rig);
    rig.restart().await;
    ticker(&rig)
        .tick(at("2026-11-22T13:07:00Z"))
        .await
        .expect("a tick");
    rig.stop().await;
    assert_eq!(said(&rig, missed), 1);
    assert_eq!(rig.journals().len(), 1, "the run says it itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_skips_what_it_misses_says_so_without_a_run() {
    let mut rig = Rig::new(&[]);
    let terms = Terms {
        misfire: journeyman::schedule::misfire::Misfire::Skip,
        ..Terms::default()
    };
    add(&rig, &every_ten_minutes(terms));
    ticker(&rig)
        .tick(at("2026-11-22T12:35:00Z"))
        .await
        .expect("a tick");
    let told = rig.message(OutgoingKind::Notice).await;
    assert!(told.contains("3 time(s) were missed"), "{told}");
    assert_eq!(outcomes(&rig), ["missed", "missed", "missed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_pauses_itself_says_so_once() {
    let mut rig = Rig::with(
        &vec![calls(&[call("list_files", json!({}))]); 10],
        |settings| settings.limits.cron_failures_max = 2,
    );
    let terms = Terms {
        rounds: Some(1),
        ..Terms::default()
    };
    add(&rig, &every_ten_minutes(terms));
    let mut first = ticker(&rig);
    for now in [
        "2026-11-22T12:10:01Z",
        "2026-11-22T12:20:01Z",
        "2026-11-22T12:30:01Z",
    ] {
        until_ended(&rig, &mut first, now).await;
    }
    first
        .tick(at("2026-11-22T12:31:00Z"))
        .await
        .expect("a tick");
    assert_eq!(
        outcomes(&rig),
        ["limit", "limit"],
        "paused before the third"
    );
    assert_eq!(
        said(&rig, "limit of 1 rounds"),
        2,
        "fewer than the configuration's"
    );
    forget_that_it_was_told(&rig);
    rig.restart().await;
    ticker(&rig)
        .tick(at("2026-11-22T12:32:00Z"))
        .await
        .expect("a tick");
    rig.stop().await;
    assert_eq!(said(&rig, "failed 2 times in a row and is paused"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_limits_what_one_run_may_cost() {
    let price = "[[model]]\nnames = [\"recording\"]\ninput_usd = 1000\noutput_usd = 1000\n";
    let rig = Rig::with(
        &vec![calls(&[call("list_files", json!({}))]); 4],
        |settings| know(settings, price),
    );
    let terms = Terms {
        cents: Some(1),
        ..Terms::default()
    };
    add(&rig, &every_ten_minutes(terms));
    until_ended(&rig, &mut ticker(&rig), "2026-11-22T12:10:01Z").await;
    assert_eq!(outcomes(&rig), ["limit"]);
    assert_eq!(
        said(&rig, "its schedule's limit of $0.01"),
        1,
        "{}",
        rig.transcript()
    );
}

/// A session that the clock started, folded from events at given seconds.
fn folded(events: Vec<(i64, Event)>) -> State {
    let scheduled = Scheduled {
        job: 7,
        slot: Timestamp(0),
        timezone: "UTC".into(),
        terms: Terms {
            interrupted: Some(Interrupted::Resume),
            minutes: Some(5),
            ..Terms::default()
        },
    };
    let opening = Opening {
        scheduled: Some(Box::new(scheduled)),
        ..opening(OWNER)
    };
    let record = |seq: usize, (at, event): (i64, Event)| Record {
        seq: seq as u64 + 1,
        at: Timestamp(at * 1_000),
        event,
        prev: String::new(),
        hash: String::new(),
    };
    let first = record(0, (0, Event::SessionStarted(Box::new(opening))));
    let mut state = State::begin(&first, &texts()).expect("an opening");
    for (i, event) in events.into_iter().enumerate() {
        apply(&mut state, &record(i + 1, event)).expect("it is legal");
    }
    state
}

fn asking(tool: &str, arguments: &str) -> Vec<(i64, Event)> {
    let message = Inbound::text("m", OWNER, "look");
    let call = Call {
        id: CallId("1.1".into()),
        wire_id: "w".into(),
        tool: tool.into(),
        arguments: arguments.into(),
    };
    let answer = Answer {
        calls: vec![call],
        finish: "tool_calls".into(),
        ..Answer::default()
    };
    vec![
        (1, Event::MessageReceived { message }),
        (
            1,
            Event::MessageTaken {
                message: "m".into(),
                reading: Reading::Objective,
                reply: None,
                quote: None,
                attached: None,
                image: None,
                with: Vec::new(),
            },
        ),
        (
            2,
            Event::ModelAsked {
                round: 1,
                messages: 2,
                model: "m".into(),
            },
        ),
        (3, Event::ModelAnswered { round: 1, answer }),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_limits_how_long_one_run_works_and_waiting_for_a_person_does_not_count() {
    let rig = Rig::new(&[]);
    let policy = &rig.assembly.as_ref().expect("it runs").hub.surface().policy;
    let mut events = asking("request_user_approval", r#"{"question": "Which branch?"}"#);
    events.truncate(3); // the model is asked, and has not answered
    let (when, reached) = alarm(&folded(events.clone()), policy).expect("an alarm");
    assert_eq!(when, Timestamp((1 + 5 * 60) * 1_000), "from its message on");
    let Event::LimitReached { text, .. } = &reached else {
        panic!("{reached:?}");
    };
    assert!(text.contains("limit of 5 min of work"), "{text}");
    let call = CallId("1.1".into());
    events = asking("request_user_approval", r#"{"question": "Which branch?"}"#);
    let question = "Which branch?".into();
    events.push((11, Event::QuestionAsked { call, question }));
    assert_eq!(alarm(&folded(events), policy), None, "it waits");
}

#[test]
fn a_question_of_a_schedule_is_said_once_more_and_no_third_time() {
    let mut events = asking("request_user_approval", r#"{"question": "Which branch?"}"#);
    events.push((
        10,
        Event::QuestionAsked {
            call: CallId("1.1".into()),
            question: "Which branch?".into(),
        },
    ));
    let state = folded(events.clone());
    let half_an_hour_later = Timestamp((10 + 1_800) * 1_000);
    assert_eq!(
        state.next_alarm(),
        Some((half_an_hour_later, Event::Reminded))
    );
    events.push((1_810, Event::Reminded));
    let state = folded(events);
    assert_eq!(state.next_alarm(), None);
    let reminder = state.outbox.back().expect("a message");
    let message = Inbound {
        via: Via::Schedule,
        ..Inbound::text("m", OWNER, "water\nthe plants")
    };
    assert_eq!(
        cron_fires(&state, &message).as_deref(),
        Some("⏰ Schedule 7: water the plants\n(It was due on Thu 1970-01-01 00:00 (+00:00).)"),
        "half an hour late"
    );
    assert_eq!(reminder.kind, OutgoingKind::Question);
    assert_eq!(
        reminder.text,
        "⏳ Schedule 7 still waits for your answer:\nWhich branch?"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reminder_wakes_a_sleeping_session() {
    let mut rig = Rig::with(
        &[run_command("echo ran > proof.txt"), says("It ran.")],
        |s| {
            s.limits.approval_minutes = 2;
        },
    );
    let mut job = every_ten_minutes(Terms::default());
    job.chat = CHAT.into();
    add(&rig, &job);
    ticker(&rig)
        .tick(at("2026-11-22T12:10:01Z"))
        .await
        .expect("a tick");
    let (code, _) = rig.question().await;
    let due = store(&rig).due(i64::MAX).expect("asked");
    assert_eq!(due.len(), 1, "the database knows when it is to be woken");
    let state = rig.state();
    let (when, alarm) = state.next_alarm().expect("an alarm");
    assert_eq!(alarm, Event::Reminded, "before it expires");
    let (_, question) = state.question().expect("a question");
    assert_eq!(question.approval, code);
    assert!(when < question.expires_at);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bare_yes_answers_a_schedules_question_only_where_that_was_said_last() {
    let mut rig = Rig::new(&[
        says("Hello."),
        run_command("echo ran > proof.txt"),
        says("It ran."),
    ]);
    let mine = rig.say("hello").await.session;
    rig.answer().await;
    // The recording goes by conversation: the scheduled session asks with its second reply.
    add(&rig, &every_ten_minutes(Terms::default()));
    ticker(&rig)
        .tick(at("2026-11-22T12:10:01Z"))
        .await
        .expect("a tick");
    rig.answer().await;
    let runs = store(&rig).runs(None, 1).expect("the runs");
    let scheduled = runs[0].session.clone().expect("a session");
    let hub = rig.assembly.as_ref().expect("it runs").hub.clone();
    let again = Inbound::text("again", OWNER, "prove it again");
    hub.deliver_to(&scheduled, again).await.expect("delivered");
    rig.question().await;
    assert_eq!(rig.say("yes").await.session, scheduled);
    assert_eq!(rig.answer().await, "It ran.");
    assert_ne!(mine, scheduled);
}
