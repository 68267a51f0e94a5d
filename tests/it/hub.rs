//! Between the doors and the sessions: duplicates, a failing database, a session that broke.

use crate::support::{OWNER, Rig, run_command, says, texts};
use journeyman::agent::event::{Event, Inbound, OutgoingKind, Reading, Timestamp};
use journeyman::agent::texts::{Catalogues, ENGLISH, SPANISH};
use journeyman::history::load;
use journeyman::hub::DeliverError;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_webhook_many_times_at_once_starts_one_session() {
    let rig = Rig::new(&[says("Done.")]);
    for n in 1..=10 {
        let message = || Inbound::text(format!("wamid.{n}"), OWNER, "/agent fix it");
        let (a, b, c) = tokio::join!(
            rig.deliver(message()),
            rig.deliver(message()),
            rig.deliver(message())
        );
        let fresh = [a, b, c].map(|taken| taken.expect("it is taken").fresh);
        assert_eq!(fresh.iter().filter(|fresh| **fresh).count(), 1, "{fresh:?}");
        assert_eq!(rig.journals().len(), n);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_cannot_be_written_stops_no_session() {
    let mut rig = Rig::new(&[run_command("echo ran > proof.txt"), says("It ran.")]);
    rig.say("make the proof").await;
    rig.question().await;
    let db = rusqlite::Connection::open(rig.settings.data_dir.join("journeyman.db"))
        .expect("the database");
    db.execute_batch("CREATE TRIGGER full BEFORE INSERT ON seen BEGIN SELECT RAISE(FAIL, 'database or disk is full'); END;")
        .expect("a database that fails");
    rig.say("yes").await;
    assert_eq!(rig.answer().await, "It ran.");
    db.execute_batch("DROP TRIGGER full")
        .expect("it works again");
    let written = async {
        loop {
            let seen: u32 = db
                .query_row("SELECT count(*) FROM seen", [], |row| row.get(0))
                .expect("a number");
            if seen == 2 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), written)
        .await
        .expect("the database is brought up to date");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_breaks_says_so_and_is_tried_again_with_the_next_message() {
    let mut rig = Rig::with(&[], |settings| {
        let broken = ENGLISH.replace("nothing_to_cancel", "something_else");
        settings.texts =
            Catalogues::parse(&broken, SPANISH).expect("a catalogue that lacks a text");
    });
    rig.say("/cancel").await;
    rig.stopped().await;
    for _ in 0..3 {
        let refused = rig.try_say("hello", OWNER, Default::default()).await;
        assert!(
            matches!(refused, Err(DeliverError::Session(_))),
            "{refused:?}"
        );
    }
    rig.settings.texts = Catalogues::built_in();
    rig.restart().await;
    rig.say("/agent").await;
    rig.until(|event| matches!(event, Event::MessageTaken { .. }).then_some(()))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_after_new_opens_one_session_and_no_more() {
    let mut rig = Rig::new(&[says("One."), says("Two."), says("Three.")]);
    rig.say("first").await;
    rig.answer().await;
    rig.stop().await;
    // The clock was far ahead when `/new` was said.
    let ahead = Timestamp(32_000_000_000_000);
    let (_, mut journal) = load(&rig.journals()[0], &texts(), |_| {}).expect("the journal");
    let message = Inbound {
        order: 3,
        ..Inbound::text("ahead", OWNER, "/new")
    };
    let line = journal.next(ahead, Event::MessageReceived { message });
    journal.append(line).expect("a line");
    drop(journal);
    rig.restart().await;
    let second = rig.say("second").await.session;
    let third = rig.say("third").await.session;
    assert_eq!(
        second, third,
        "it goes on in the session of the message before"
    );
    assert_eq!(rig.journals().len(), 2);
    let mut orders: Vec<u64> = rig
        .records()
        .iter()
        .filter_map(|record| match &record.event {
            Event::MessageReceived { message } => Some(message.order),
            _ => None,
        })
        .collect();
    orders.sort_unstable();
    orders.dedup();
    assert_eq!(orders.len(), 4, "no place is given twice: {orders:?}");
}

/// Two sessions of one chat wait for an answer each.
async fn two_questions() -> (Rig, String, String) {
    let mut rig = Rig::new(&[run_command("echo ran >> proof.txt"), says("It ran.")]);
    rig.say("the first").await;
    let (first, _) = rig.question().await;
    rig.say("/agent the second").await;
    let (second, _) = rig.question().await;
    (rig, first, second)
}

fn runs(rig: &Rig) -> usize {
    let proof = std::fs::read_to_string(rig.workspace().join("proof.txt"));
    proof.unwrap_or_default().lines().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bare_answer_to_two_questions_answers_none_and_is_asked_which_one() {
    let (mut rig, first, second) = two_questions().await;
    for bare in ["yes", "👍", "no", "/approve", "/deny use make"] {
        rig.say(bare).await;
        let reply = rig
            .until(|event| match event {
                Event::MessageTaken {
                    reading: Reading::Ignored,
                    reply,
                    ..
                } => reply.clone(),
                Event::ApprovalGiven { .. } | Event::ApprovalRefused { .. } => {
                    panic!("{bare} answered a question")
                }
                _ => None,
            })
            .await;
        for code in [&first, &second] {
            let line = format!("{code}: echo ran >> proof.txt");
            assert!(reply.contains(&line), "{reply}");
        }
    }
    assert_eq!(runs(&rig), 0);
    rig.say(&format!("/approve {first}")).await;
    rig.answer().await;
    assert_eq!(runs(&rig), 1);
    // Only one is left: now a bare yes says enough.
    rig.say(&format!("/approve {second}")).await;
    rig.answer().await;
    assert_eq!(runs(&rig), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_new_a_bare_yes_reaches_the_only_question_that_is_open() {
    let mut rig = Rig::new(&[run_command("echo ran >> proof.txt"), says("It ran.")]);
    rig.say("the first").await;
    rig.question().await;
    rig.say("/new").await;
    rig.message(OutgoingKind::Notice).await;
    rig.say("yes").await;
    assert_eq!(rig.answer().await, "It ran.");
    assert_eq!(rig.journals().len(), 1);
}
