//! What a person relies on when they write to the agent.

use crate::support::{CHAT, OWNER, Rig, call, calls, git, run_command, says};
use journeyman::agent::event::{Event, Inbound, OutgoingKind, Reading, Status, Via};
use serde_json::json;
use std::fs;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn fixes_tests_and_commits_with_every_step_on_disk() {
    let patch = json!({"edits": [{"path": "notes.txt", "search": "two\n", "replace": "zwei\n"}]});
    let mut rig = Rig::new(&[
        calls(&[
            call("search", json!({"pattern": "two"})),
            call(
                "read_lines",
                json!({"path": "notes.txt", "start": 1, "end": 3}),
            ),
        ]),
        calls(&[call("apply_patch", patch)]),
        calls(&[call(
            "git_commit",
            json!({"message": "fix: say it in German"}),
        )]),
        says("Done."),
    ]);
    rig.say("say two in German").await;
    let change = rig.message(OutgoingKind::Change).await;
    assert!(
        change.contains("-two") && change.contains("+zwei"),
        "{change}"
    );
    assert_eq!(rig.answer().await, "Done.");
    assert_eq!(
        fs::read_to_string(rig.workspace().join("notes.txt")).expect("the file"),
        "one\nzwei\nthree\n"
    );
    assert!(git(&rig.workspace(), &["log", "-1", "--format=%s"]).contains("fix: say it in German"));
    assert!(git(&rig.workspace(), &["status", "--porcelain"]).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn asks_before_running_what_is_unknown_and_runs_it_after_yes() {
    let mut rig = Rig::new(&[run_command("echo ran > proof.txt"), says("It ran.")]);
    rig.say("make the proof").await;
    let (code, question) = rig.question().await;
    assert!(
        question.contains("echo ran > proof.txt") && question.contains(&code),
        "{question}"
    );
    assert!(
        !rig.workspace().join("proof.txt").exists(),
        "nothing runs before the answer"
    );
    rig.say("sí, dale").await;
    assert_eq!(rig.answer().await, "It ran.");
    assert_eq!(
        fs::read_to_string(rig.workspace().join("proof.txt")).expect("the proof"),
        "ran\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_and_its_reason_reach_the_model_word_for_word() {
    let mut rig = Rig::new(&[run_command("echo ran > proof.txt"), says("Understood.")]);
    rig.say("make the proof").await;
    let (code, _) = rig.question().await;
    rig.say(&format!("/deny {code} use the other folder")).await;
    assert_eq!(rig.answer().await, "Understood.");
    assert!(!rig.workspace().join("proof.txt").exists());
    let told = rig
        .state()
        .conversation
        .messages()
        .iter()
        .any(|message| message.get().contains("use the other folder"));
    assert!(told, "the model reads the reason");
}

#[tokio::test(flavor = "multi_thread")]
async fn words_that_are_no_answer_steer_and_leave_the_question_open() {
    let mut rig = Rig::new(&[run_command("echo ran > proof.txt"), says("Understood.")]);
    rig.say("make the proof").await;
    let (code, _) = rig.question().await;
    rig.say("yes but be careful").await;
    let notice = rig.message(OutgoingKind::Notice).await;
    assert!(
        notice.contains(&code) && notice.contains("still open"),
        "{notice}"
    );
    assert!(!rig.workspace().join("proof.txt").exists());
    rig.say("no").await;
    rig.answer().await;
    assert!(!rig.workspace().join("proof.txt").exists());
    let heard = rig
        .state()
        .conversation
        .messages()
        .iter()
        .any(|message| message.get().contains("yes but be careful"));
    assert!(heard, "the model reads what was said meanwhile");
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_else_cannot_answer() {
    let mut rig = Rig::new(&[run_command("echo ran > proof.txt"), says("Done.")]);
    rig.say("make the proof").await;
    rig.question().await;
    rig.try_say("yes", "mallory", Via::Text)
        .await
        .expect("taken, and refused");
    let reading = rig
        .until(|event| match event {
            Event::MessageTaken { reading, .. } if *reading != Reading::Objective => {
                Some(reading.clone())
            }
            _ => None,
        })
        .await;
    assert_eq!(reading, Reading::Refused);
    assert!(!rig.workspace().join("proof.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn always_allows_the_pattern_until_the_session_ends() {
    let mut rig = Rig::new(&[
        run_command("frobnicate fast"),
        run_command("frobnicate fast --again"),
        says("Twice."),
    ]);
    rig.say("frobnicate twice").await;
    let (code, question) = rig.question().await;
    assert!(
        question.contains("always allows `frobnicate fast`"),
        "{question}"
    );
    rig.say(&format!("/approve {code} always")).await;
    assert_eq!(rig.answer().await, "Twice.");
    let asked = rig
        .records()
        .iter()
        .filter(|record| matches!(record.event, Event::ApprovalAsked { .. }))
        .count();
    assert_eq!(asked, 1, "the second one is covered");
}

#[tokio::test(flavor = "multi_thread")]
async fn always_is_refused_where_it_would_grant_a_shell() {
    let mut rig = Rig::new(&[run_command("echo a > b"), says("Done.")]);
    rig.say("go").await;
    let (code, _) = rig.question().await;
    rig.say(&format!("/approve {code} always")).await;
    assert!(
        rig.message(OutgoingKind::Notice)
            .await
            .contains("not possible")
    );
    rig.say("yes").await;
    rig.answer().await;
    assert!(rig.workspace().join("b").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_denylist_needs_no_question_and_says_what_to_do_instead() {
    let mut rig = Rig::new(&[run_command("rm notes.txt"), says("I cannot.")]);
    rig.say("remove it").await;
    assert_eq!(rig.answer().await, "I cannot.");
    assert!(rig.workspace().join("notes.txt").exists());
    let denied = rig
        .records()
        .into_iter()
        .find_map(|record| match record.event {
            Event::ToolFinished { outcome, .. } if outcome.status == Status::Denied => {
                Some(outcome.output)
            }
            _ => None,
        });
    let text = denied.expect("a denial");
    assert!(
        text.contains("denylist") && text.contains("Instead"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_call_once_refused_is_answered_from_the_first_until_the_person_speaks() {
    let ask = || run_command("echo ran > proof.txt");
    let mut rig = Rig::new(&[ask(), ask(), says("I give up."), ask(), says("It ran.")]);
    rig.say("make the proof").await;
    rig.question().await;
    rig.say("no").await;
    assert_eq!(rig.answer().await, "I give up.");
    let asked = |rig: &Rig| {
        let asks = |event: &Event| matches!(event, Event::ApprovalAsked { .. });
        rig.records()
            .iter()
            .filter(|record| asks(&record.event))
            .count()
    };
    assert_eq!(asked(&rig), 1, "the person is not asked twice");
    assert!(rig.transcript().contains("Refused before"));
    rig.say("all right, do it").await;
    rig.question().await;
    rig.say("yes").await;
    assert_eq!(rig.answer().await, "It ran.");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_middle_of_a_long_output_can_be_read_later() {
    let more = json!({"call": "1.1", "start": 2500, "end": 2501});
    let mut rig = Rig::new(&[
        run_command("seq 1 5000"),
        calls(&[call("read_output", more)]),
        calls(&[call(
            "read_output",
            json!({"call": "../1.1", "start": 1, "end": 2}),
        )]),
        says("Read."),
    ]);
    rig.say("count").await;
    rig.question().await;
    rig.say("yes").await;
    assert_eq!(rig.answer().await, "Read.");
    let messages = rig.state().conversation;
    let result = |n: usize| messages.messages()[n].get().to_owned();
    assert!(
        result(3).contains(r#"5000 lines in all; read_output(\"1.1\", 1, 200)"#),
        "{}",
        result(3)
    );
    assert!(
        result(5).contains(r"L2500: 2500\nL2501: 2501"),
        "{}",
        result(5)
    );
    assert!(
        result(7).contains("there is no output of a call"),
        "{}",
        result(7)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn follow_ups_keep_their_context_and_new_starts_afresh() {
    let mut rig = Rig::new(&[says("Hello."), says("Again.")]);
    rig.say("hello").await;
    assert_eq!(rig.answer().await, "Hello.");
    rig.say("and again").await;
    assert_eq!(rig.answer().await, "Again.");
    assert_eq!(rig.journals().len(), 1);
    rig.say("/new").await;
    rig.message(OutgoingKind::Notice).await;
    rig.say("hello").await;
    assert_eq!(rig.answer().await, "Hello.");
    assert_eq!(rig.journals().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_never_goes_back_to_an_older_session() {
    let mut rig = Rig::new(&[says("Hello.")]);
    for text in ["hello", "/agent another", "/new", "hello again"] {
        rig.say(text).await;
        match text {
            "/new" => drop(rig.message(OutgoingKind::Notice).await),
            _ => assert_eq!(rig.answer().await, "Hello."),
        }
    }
    assert_eq!(rig.journals().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_questions_code_answers_that_question_and_no_other() {
    let mut rig = Rig::new(&[run_command("echo ran >> proof.txt"), says("Done.")]);
    let first = rig.say("prove it").await.session;
    let (old, _) = rig.question().await;
    rig.say("/agent prove it").await;
    let (new, _) = rig.question().await;
    assert_ne!(
        old, new,
        "the same command in another session is another question"
    );
    let answered = rig.say(&format!("/approve {old}")).await;
    assert_eq!(answered.session, first);
    assert_eq!(rig.answer().await, "Done.");
    rig.say(&format!("/approve {old}")).await;
    let notice = rig.message(OutgoingKind::Notice).await;
    assert!(notice.contains("Nothing is waiting"), "{notice}");
    assert_eq!(
        fs::read_to_string(rig.workspace().join("proof.txt")).expect("the proof"),
        "ran\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_waits_through_a_restart_and_its_old_answer_works() {
    let mut rig = Rig::new(&[run_command("echo ran > proof.txt"), says("It ran.")]);
    rig.say("prove it").await;
    let (code, _) = rig.question().await;
    rig.restart().await;
    assert!(!rig.workspace().join("proof.txt").exists());
    rig.say(&format!("/approve {code}")).await;
    assert_eq!(rig.answer().await, "It ran.");
    assert!(rig.workspace().join("proof.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vanished_workspace_is_said_and_the_chat_goes_on() {
    let mut rig = Rig::new(&[calls(&[call("list_files", json!({}))]), says("It is gone.")]);
    fs::remove_dir_all(rig.workspace()).expect("removed");
    rig.say("look").await;
    assert_eq!(rig.answer().await, "It is gone.");
    assert!(
        rig.transcript().contains("cannot be opened"),
        "{}",
        rig.transcript()
    );
    rig.say("/help").await;
    assert!(rig.message(OutgoingKind::Notice).await.contains("/cancel"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_message_three_times_is_one_turn() {
    let mut rig = Rig::new(&[says("Hello."), says("Twice!")]);
    let message = Inbound::text("wamid.1", OWNER, "hello");
    assert!(rig.deliver(message.clone()).await.expect("taken").fresh);
    assert!(!rig.deliver(message.clone()).await.expect("known").fresh);
    assert_eq!(rig.answer().await, "Hello.");
    assert!(!rig.deliver(message.clone()).await.expect("known").fresh);
    rig.restart().await;
    assert!(
        !rig.deliver(message)
            .await
            .expect("known after a restart")
            .fresh
    );
    let received = rig
        .records()
        .iter()
        .filter(|record| matches!(record.event, Event::MessageReceived { .. }))
        .count();
    assert_eq!(received, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_message_is_known_even_when_the_database_is_gone() {
    let mut rig = Rig::new(&[says("Hello.")]);
    let message = Inbound::text("wamid.1", OWNER, "hello");
    rig.deliver(message.clone()).await.expect("taken");
    rig.answer().await;
    rig.stop().await;
    for name in ["journeyman.db", "journeyman.db-wal", "journeyman.db-shm"] {
        let _ = fs::remove_file(rig.settings.data_dir.join(name));
    }
    rig.restart().await;
    assert!(!rig.deliver(message).await.expect("known").fresh);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_during_work_steers_at_the_next_round() {
    let mut rig = Rig::new(&[
        json!({"pause_ms": 300, "calls": [call("list_files", json!({}))]}),
        says("As you wish."),
    ]);
    rig.say("look around").await;
    rig.until(|event| matches!(event, Event::ModelAsked { .. }).then_some(()))
        .await;
    rig.say("only the notes, please").await;
    assert_eq!(rig.answer().await, "As you wish.");
    let messages: Vec<String> = rig
        .state()
        .conversation
        .messages()
        .iter()
        .map(|message| message.get().to_owned())
        .collect();
    let at = |needle: &str| {
        messages
            .iter()
            .position(|message| message.contains(needle))
            .expect(needle)
    };
    assert!(
        at("only the notes") > at("tool_call_id"),
        "after the round's results: {messages:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_takes_under_a_second_while_a_command_runs_and_kills_it() {
    let mut rig = Rig::new(&[
        run_command("sleep 30 ; echo late > late.txt"),
        says("Never."),
    ]);
    rig.say("wait").await;
    rig.question().await;
    rig.say("yes").await;
    rig.until(|event| matches!(event, Event::ToolStarted { .. }).then_some(()))
        .await;
    let started = Instant::now();
    rig.say("/cancel").await;
    assert!(rig.answer().await.contains("Stopped"));
    assert!(
        started.elapsed() < Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );
    assert!(rig.state().turn.is_none());
    let cancelled = rig.records().iter().any(
        |record| matches!(&record.event, Event::ToolFinished { outcome, .. } if outcome.output.contains("cancel") || outcome.status == Status::Cancelled),
    );
    assert!(cancelled, "{}", rig.transcript());
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_takes_under_a_second_while_the_model_thinks_and_resume_goes_on() {
    let mut rig = Rig::new(&[json!({"pause_ms": 3000, "text": "Late."})]);
    rig.say("think").await;
    rig.until(|event| matches!(event, Event::ModelAsked { .. }).then_some(()))
        .await;
    let started = Instant::now();
    rig.say("stop").await;
    assert!(rig.answer().await.contains("Stopped"));
    assert!(started.elapsed() < Duration::from_secs(1));
    rig.say("/agent-resume").await;
    assert_eq!(rig.answer().await, "Late.");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_answer_while_a_question_is_open_and_never_reach_the_model() {
    let mut rig = Rig::new(&[run_command("frobnicate"), says("Done.")]);
    rig.say("go").await;
    let (code, _) = rig.question().await;
    rig.say("/agent").await;
    let status = rig.message(OutgoingKind::Notice).await;
    assert!(
        status.contains("waiting for your answer") && status.contains(&code),
        "{status}"
    );
    rig.say("/hlep").await;
    assert!(rig.message(OutgoingKind::Notice).await.contains("/help"));
    rig.say("/help").await;
    assert!(
        rig.message(OutgoingKind::Notice)
            .await
            .contains("/agent-resume")
    );
    rig.say("no").await;
    rig.answer().await;
    let slashes = rig
        .state()
        .conversation
        .messages()
        .iter()
        .filter(|message| message.get().contains("/hlep"))
        .count();
    assert_eq!(slashes, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_free_question_takes_the_next_message_word_for_word() {
    let ask = calls(&[call(
        "request_user_approval",
        json!({"question": "Which colour?"}),
    )]);
    let mut rig = Rig::new(&[ask, says("Noted.")]);
    rig.say("paint it").await;
    assert!(
        rig.message(OutgoingKind::Question)
            .await
            .contains("Which colour?")
    );
    rig.say("yes, but dark green").await;
    assert_eq!(rig.answer().await, "Noted.");
    let heard = rig
        .state()
        .conversation
        .messages()
        .iter()
        .any(|message| message.get().contains(r#""content":"yes, but dark green"#));
    assert!(heard, "{}", rig.transcript());
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_of_the_model_are_told_to_it_and_stop_nothing() {
    let mut rig = Rig::new(&[
        calls(&[call("no_such_tool", json!({}))]),
        calls(&[call("read_lines", json!("{not json"))]),
        calls(&[call(
            "read_lines",
            json!({"path": "notes.txt", "start": "one"}),
        )]),
        says("I see."),
    ]);
    rig.say("go").await;
    assert_eq!(rig.answer().await, "I see.");
    let outputs: Vec<String> = rig
        .records()
        .into_iter()
        .filter_map(|record| match record.event {
            Event::ToolFinished { outcome, .. } => Some(outcome.output),
            _ => None,
        })
        .collect();
    assert!(
        outputs[0].contains("no_such_tool") && outputs[0].contains("read_lines"),
        "{}",
        outputs[0]
    );
    assert!(outputs[1].contains("not valid JSON"), "{}", outputs[1]);
    assert!(outputs[2].contains("/start"), "{}", outputs[2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_ends_the_turn_says_so_and_resume_goes_on() {
    let look = || calls(&[call("list_files", json!({}))]);
    let mut rig = Rig::with(&[look(), look(), look(), says("At last.")], |settings| {
        settings.limits.rounds_max = 2
    });
    rig.say("look around").await;
    let answer = rig.answer().await;
    assert!(
        answer.contains("2 rounds") && answer.contains("/agent-resume"),
        "{answer}"
    );
    rig.say("/agent-resume").await;
    assert_eq!(rig.answer().await, "At last.");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_past_the_cap_are_told_not_dropped() {
    let many: Vec<_> = (0..10).map(|_| call("list_files", json!({}))).collect();
    let mut rig = Rig::new(&[calls(&many), says("Enough.")]);
    rig.say("look").await;
    assert_eq!(rig.answer().await, "Enough.");
    let over = rig
        .state()
        .conversation
        .messages()
        .iter()
        .filter(|message| message.get().contains("only 8 calls a round"))
        .count();
    assert_eq!(over, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_write_switch_nothing_is_written_even_if_the_model_tries() {
    let write = calls(&[call(
        "write_file",
        json!({"path": "new.txt", "content": "x"}),
    )]);
    let mut rig = Rig::with(
        &[write, run_command("git status"), says("I can only read.")],
        |settings| settings.write_enabled = false,
    );
    rig.say("write").await;
    assert_eq!(rig.answer().await, "I can only read.");
    assert!(!rig.workspace().join("new.txt").exists());
    assert!(rig.transcript().contains("write-switch"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_question_is_a_refusal_and_the_work_goes_on() {
    let mut rig = Rig::with(
        &[run_command("frobnicate"), says("Then not.")],
        |settings| settings.limits.approval_minutes = 0,
    );
    rig.say("go").await;
    assert_eq!(rig.answer().await, "Then not.");
    assert!(rig.transcript().contains("approval_expired"));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_chats_never_share_a_session() {
    let mut rig = Rig::new(&[says("Hello.")]);
    rig.say("hello").await;
    rig.answer().await;
    let hub = rig.assembly.as_ref().expect("it runs").hub.clone();
    let other = hub
        .deliver("terminal:other", Inbound::text("x1", "bob", "hi"))
        .await
        .expect("taken");
    rig.answer().await;
    let peeked = hub.peek(&other.session).expect("a session");
    assert_eq!(
        (peeked.opening.chat.as_str(), peeked.opening.owner.as_str()),
        ("terminal:other", "bob")
    );
    assert_ne!(CHAT, peeked.opening.chat);
    assert_eq!(rig.journals().len(), 2);
}
