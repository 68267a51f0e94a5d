//! Schedules by chat and by the model: each wish is met once, asked about where the model has it, and owned by a person.

use crate::support::{OWNER, Rig, call, calls, no_whatsapp, run_command, says};
use journeyman::agent::event::{Event, Inbound, OutgoingKind, Status};
use journeyman::config::{Settings, WhatsApp};
use journeyman::schedule::wish::Answer;
use journeyman::world::store::cron::Job;
use serde_json::{Value, json};
use std::fs;

const NUMBER: &str = "5491112345678";

/// Somebody is served, so that a terminal's schedules have whom to answer.
fn served(settings: &mut Settings) {
    settings.file.timezone = "Europe/Madrid".into();
    settings.whatsapp = Some(WhatsApp {
        allowed: vec![NUMBER.into()],
        ..no_whatsapp()
    });
}

fn rig(replies: &[Value]) -> Rig {
    Rig::with(replies, served)
}

fn jobs(rig: &Rig) -> Vec<Job> {
    let assembly = rig.assembly.as_ref().expect("it runs");
    assembly.hub.surface().store.jobs(None).expect("the jobs")
}

async fn told(rig: &mut Rig, text: &str) -> String {
    rig.say(text).await;
    rig.message(OutgoingKind::Notice).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_adds_lists_rests_runs_and_deletes_its_schedules() {
    let mut rig = rig(&[]);
    let none = told(&mut rig, "/cron").await;
    assert!(none.contains("no schedules"), "{none}");
    let added = told(&mut rig, "/cron add “0 9 * * 1-5” run the tests").await;
    for part in [
        "Schedule 1:",
        "0 9 * * 1-5 (Europe/Madrid)",
        "run the tests",
    ] {
        assert!(added.contains(part), "{added}");
    }
    assert_eq!(added.matches(" 09:00 (+0").count(), 3, "{added}");
    let every = told(
        &mut rig,
        "/cron add every 30m tz=Asia/Kathmandu rounds=3 look",
    )
    .await;
    assert_eq!(every.matches("(+05:45)").count(), 3, "{every}");
    let once = told(&mut rig, "/cron add \"at 2099-12-01 09:00\" /cost").await;
    assert!(once.contains("Tue 2099-12-01 09:00 (+01:00)"), "{once}");
    let all = jobs(&rig);
    assert_eq!(all.len(), 3);
    assert!(
        all.iter()
            .all(|job| job.what.owner == NUMBER && job.what.chat == format!("whatsapp:{NUMBER}"))
    );
    assert_eq!(all[1].what.terms.rounds, Some(3));
    assert!(told(&mut rig, "/cron pause 1").await.contains("paused"));
    let list = told(&mut rig, "/cron list").await;
    assert!(
        list.contains("1: 0 9 * * 1-5") && list.contains("paused: by hand"),
        "{list}"
    );
    assert!(list.contains("/cost") && list.contains("next "), "{list}");
    assert!(told(&mut rig, "/cron resume 1").await.contains("active"));
    assert!(told(&mut rig, "/cron run 2").await.contains("in a moment"));
    let list = told(&mut rig, "/cron").await;
    assert!(list.contains("last: claimed"), "{list}");
    assert!(told(&mut rig, "/cron delete 1").await.contains("deleted"));
    assert!(
        told(&mut rig, "/cron delete 1")
            .await
            .contains("no schedule 1")
    );
    assert_eq!(jobs(&rig).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_is_told_what_is_wrong_and_what_is_accepted() {
    let mut rig = rig(&[]);
    for (said, answer) in [
        (
            "/cron add \"61 * * * *\" look",
            "minute: \"61\" is out of range",
        ),
        ("/cron add \"0 0 31 2 *\" look", "can never fire"),
        (
            "/cron add \"0 9 * * 1\" tz=Mars/Olympus look",
            "zone: \"Mars/Olympus\" is unknown",
        ),
        ("/cron add \"at 2020-01-01 09:00\" look", "is past"),
        ("/cron add \"0 9 * * 1\"", "the message is missing"),
        (
            "/cron add \"0 9 * * 1\" rounds=many look",
            "\"rounds=many\" does not fit",
        ),
        ("/cron water", "/cron add"),
        ("/cron run two", "no number of a schedule"),
        ("/cron pause 7", "no schedule 7"),
    ] {
        let told = told(&mut rig, said).await;
        assert!(told.contains(answer), "{said}: {told}");
    }
    assert!(jobs(&rig).is_empty());
    rig.settings.file.timezone = String::new();
    rig.restart().await;
    let zone = told(&mut rig, "/cron add \"0 9 * * 1\" look").await;
    assert!(zone.contains("zone: none is given"), "{zone}");
    rig.settings.whatsapp = None;
    rig.restart().await;
    let nobody = told(&mut rig, "/cron add \"0 9 * * 1\" tz=UTC look").await;
    assert!(nobody.contains("ALLOWED_PHONE_NUMBERS"), "{nobody}");
}

/// The change is in the database, and the journal is cut at every line from the message on: as if the process had died
/// there, in whatever order the disk took them.
#[tokio::test(flavor = "multi_thread")]
async fn a_wish_is_met_once_wherever_the_process_died() {
    let mut rig = rig(&[]);
    told(&mut rig, "/cron add @daily water the plants").await;
    rig.stop().await;
    let path = rig.journals().remove(0);
    let whole = fs::read_to_string(&path).expect("the journal");
    let lines: Vec<&str> = whole.lines().collect();
    let first = lines
        .iter()
        .position(|line| line.contains("\"message_received\""))
        .expect("the message");
    for keep in first + 1..lines.len() {
        fs::write(&path, lines[..keep].join("\n") + "\n").expect("cut");
        rig.restart().await;
        // What is left is done without anybody's word, where anything is.
        assert!(told(&mut rig, "/cron").await.contains("1: @daily") || keep > first);
        assert_eq!(jobs(&rig).len(), 1, "after {keep} lines");
        let answered = |event: &Event| {
            matches!(
                event,
                Event::CronAnswered {
                    answer: Answer::Added { id: 1, .. }
                }
            )
        };
        let answers = rig.records();
        let answers = answers.iter().filter(|record| answered(&record.event));
        assert_eq!(answers.count(), 1, "after {keep} lines");
        rig.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_asks_before_it_makes_a_schedule_and_shows_when_it_fires() {
    let create = json!({"schedule": "30 8 * * 1", "message": "update the dependencies"});
    let mut rig = rig(&[
        calls(&[call("create_cron", create)]),
        calls(&[call("list_crons", json!({}))]),
        calls(&[call("delete_cron", json!({"id": 1}))]),
        says("Done."),
    ]);
    rig.say("every Monday, please").await;
    let (_, question) = rig.question().await;
    for part in ["update the dependencies", "30 8 * * 1", "Europe/Madrid"] {
        assert!(question.contains(part), "{question}");
    }
    assert_eq!(question.matches(" 08:30 (+0").count(), 3, "{question}");
    assert!(jobs(&rig).is_empty(), "not before the person said so");
    rig.say("yes").await;
    let (_, question) = rig.question().await;
    assert!(
        question.contains("delete") && question.contains("update the dependencies"),
        "{question}"
    );
    assert_eq!(jobs(&rig).len(), 1);
    rig.say("no").await;
    rig.answer().await;
    assert_eq!(jobs(&rig).len(), 1);
    let records = rig.records();
    let results = records.iter().filter_map(|record| match &record.event {
        Event::ToolFinished { outcome, .. } => Some(outcome),
        _ => None,
    });
    let results: Vec<_> = results.collect();
    assert!(
        results[0].output.contains("Schedule 1 is set"),
        "{}",
        results[0].output
    );
    assert!(
        results[1].status == Status::Done && results[1].output.contains("update the dependencies"),
        "{}",
        results[1].output
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_schedule_of_the_model_is_told_to_it_and_asked_of_nobody() {
    let wrong = |schedule: &str| json!({"schedule": schedule, "message": "look"});
    let mut rig = rig(&[
        calls(&[call("create_cron", wrong("0 0 9 * * 1"))]),
        calls(&[call("delete_cron", json!({"id": 4}))]),
        says("I see."),
    ]);
    rig.say("do it").await;
    assert_eq!(rig.answer().await, "I see.");
    let transcript = rig.transcript();
    assert!(transcript.contains("6 fields") && transcript.contains("There is no schedule 4"));
    assert!(!transcript.contains("approval_asked"), "{transcript}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_clock_started_makes_and_changes_no_schedules() {
    let create = json!({"schedule": "@hourly", "message": "look"});
    let mut rig = rig(&[
        calls(&[
            call("create_cron", create),
            call("delete_cron", json!({"id": 1})),
        ]),
        run_command("echo ran > proof.txt"),
        says("I cannot."),
    ]);
    told(&mut rig, "/cron add @daily breed").await;
    let hub = rig.assembly.as_ref().expect("it runs").hub.clone();
    let job = jobs(&rig).remove(0);
    let scheduled = journeyman::agent::event::Scheduled {
        job: job.id,
        slot: job.created_at,
        timezone: job.what.timezone,
        terms: job.what.terms,
    };
    let deliver = async |id: &str, text: &str| {
        let message = Inbound {
            via: journeyman::agent::event::Via::Schedule,
            ..Inbound::text(id, OWNER, text)
        };
        let delivered = hub.start_scheduled("cron-1-x", crate::support::CHAT, &scheduled, message);
        delivered.await.expect("delivered");
    };
    deliver("cron:1:1", "/cron delete 1").await;
    let refused = rig.message(OutgoingKind::Notice).await;
    assert!(refused.contains("changes no schedules"), "{refused}");
    deliver("cron:1:2", "breed").await;
    // The gate is the ordinary one for all else.
    let (code, question) = rig.question().await;
    assert!(question.contains("echo ran"), "{question}");
    rig.say(&format!("/deny {code}")).await;
    rig.answer().await;
    assert_eq!(
        rig.transcript().matches("rule scheduled-session").count(),
        2
    );
    assert_eq!(jobs(&rig).len(), 1);
}
