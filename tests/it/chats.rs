//! Several chats of the real server: one is stopped at once, whatever it does; none waits for another; none sees another's.

use crate::fake_model::{FakeModel, Next, calls, says};
use crate::outlive::running;
use crate::serve::Served;
use crate::support::{PATIENCE, is_welcome, journals, records, words};
use crate::webhook::about_from;
use journeyman::agent::event::{EndReason, Event, Record};
use journeyman::doors::whatsapp::standin::Sent;
use journeyman::world::clock;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

const ANA: &str = "5491112345678";
const BETO: &str = "5491187654321";
const CARLA: &str = "14155550100";
const DESK_SECRET: &str = "secret-of-desk-0123456789abcdef";
const OTHER_SECRET: &str = "secret-of-other-0123456789abcdef";
const SOON: Duration = Duration::from_millis(20);

/// The server, and what everybody heard from it.
struct Chats {
    served: Served,
    model: FakeModel,
    heard: Vec<Sent>,
    /// How much of it was looked at, by number.
    read: Vec<(&'static str, usize)>,
    said: usize,
}

impl Chats {
    async fn start(settings: &str) -> Self {
        let model = FakeModel::deciding(work).await;
        let mut served = Served::new(&model).await;
        served.program.config("settings.toml", settings);
        served.environment = vec![
            (
                "ALLOWED_PHONE_NUMBERS".into(),
                format!("{ANA},{BETO},{CARLA}"),
            ),
            (
                "HTTP_CLIENTS".into(),
                format!("desk:{DESK_SECRET},other:{OTHER_SECRET}"),
            ),
        ];
        served.begin().await;
        Self {
            served,
            model,
            heard: Vec::new(),
            read: vec![(ANA, 0), (BETO, 0), (CARLA, 0)],
            said: 0,
        }
    }

    async fn says(&mut self, who: &str, text: &str) {
        self.said += 1;
        let id = format!("wamid.{}", self.said);
        let status = self.served.tries_to_say_as(who, &id, text).await;
        assert_eq!(status, Some(200));
    }

    /// The next message to one of them, whatever the other hears meanwhile.
    async fn hears(&mut self, who: &str) -> Sent {
        let read = self.read.iter().position(|(number, _)| *number == who);
        let read = read.expect("one of them");
        loop {
            let mut to_them = self.heard.iter().filter(|sent| sent.to == who);
            if let Some(sent) = to_them.nth(self.read[read].1).cloned() {
                self.read[read].1 += 1;
                return sent;
            }
            let next = tokio::time::timeout(PATIENCE, self.served.graph.sent.recv()).await;
            let Ok(Some(sent)) = next else {
                let log = self.served.log.lock().expect("no panic");
                panic!("{who} heard nothing more; so far: {:#?}\n{log}", self.heard);
            };
            let text = words(&sent.text).to_owned();
            let sent = Sent { text, ..sent };
            if !is_welcome(&sent.text) && !sent.is_courtesy() {
                self.heard.push(sent);
            }
        }
    }

    async fn asks(&mut self, who: &str, text: &str) -> String {
        self.says(who, text).await;
        self.hears(who).await.text
    }

    /// Denies over HTTP; the status, and whether it was known already.
    async fn denies(&self, secret: &str, code: &str) -> (u16, Value) {
        let url = self.served.url(&format!("/v1/approvals/{code}"));
        let request = reqwest::Client::new().post(url).bearer_auth(secret);
        let request = request.header("content-type", "application/json");
        let request =
            request.body(json!({"decision": "deny", "reason": "not today", "id": "1"}).to_string());
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        let body = answer.text().await.expect("a body");
        (status, serde_json::from_str(&body).expect("JSON"))
    }

    /// The journal of a person's only session, and its id.
    fn session(&self, who: &str) -> (String, PathBuf) {
        let chat = format!("whatsapp:{who}");
        let mut all = journals(&self.served.program.data()).into_iter();
        let theirs = |path: &PathBuf| {
            let first = records(path).swap_remove(0);
            matches!(first.event, Event::SessionStarted(opening) if opening.chat == chat)
        };
        let path = all.find(theirs).expect("a session");
        let id = path.file_stem().expect("a name").to_string_lossy();
        (id.into_owned(), path.clone())
    }

    /// The first line of a person's session that is as wanted, once it is there.
    async fn until(&self, who: &str, wanted: impl Fn(&Event) -> bool) -> Record {
        let path = self.session(who).1;
        let found = async {
            loop {
                let mut lines = records(&path).into_iter();
                if let Some(line) = lines.find(|line| wanted(&line.event)) {
                    return line;
                }
                tokio::time::sleep(SOON).await;
            }
        };
        tokio::time::timeout(PATIENCE, found).await.expect("a line")
    }

    /// Cancels what a person's session does; how long it took until its journal had the outcome.
    async fn cancels(&mut self, who: &str) -> u64 {
        let said_at = clock::now();
        self.says(who, "/cancel").await;
        let is_outcome = |event: &Event| matches!(event, Event::TurnEnded { reason, .. } if *reason == EndReason::Cancelled);
        let outcome = self.until(who, is_outcome).await;
        outcome.at.since(said_at)
    }
}

/// What the model does, by a word in what it was told last.
fn work(request: &Value) -> Next {
    let messages = request["messages"].as_array().expect("messages");
    let last = messages.last().expect("one");
    if last["role"] == "tool" {
        return says("Done.");
    }
    let text = last["content"].as_str().unwrap_or_default();
    let asks = |word: &str| text.contains(word);
    if asks("stream-it") {
        return Next::Hangs("So far, and then".into());
    }
    if asks("sleep-long") {
        let sleep = json!({"command": "touch begun; sleep 72003.5", "timeout": 300});
        return calls("run_command", sleep);
    }
    if asks("write-it") {
        let file = json!({"path": "ana.txt", "content": "kept-by-ana\n"});
        return calls("write_file", file);
    }
    if asks("prove-it") {
        let command = json!({"command": "echo ran-for-ana >> proof.txt"});
        return calls("run_command", command);
    }
    says("Hello.")
}

fn code(question: &Sent) -> String {
    let (id, _) = question.buttons.first().expect("buttons");
    id.replace("/approve ", "")
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_takes_under_a_second_in_the_middle_of_an_answer_and_lets_go_of_the_model() {
    let mut chats = Chats::start("worktree = \"shared\"\n").await;
    chats.says(ANA, "please stream-it").await;
    while chats.model.hanging() == 0 {
        tokio::time::sleep(SOON).await;
    }
    // Others are answered meanwhile.
    assert_eq!(chats.asks(BETO, "hello").await, "Hello.");
    assert_eq!(chats.model.hanging(), 1);
    let took_ms = chats.cancels(ANA).await;
    assert!(took_ms < 1_000, "{took_ms} ms");
    while !chats.hears(ANA).await.text.contains("Stopped") {}
    let let_go = async {
        while chats.model.hanging() > 0 {
            tokio::time::sleep(SOON).await;
        }
    };
    let let_go = tokio::time::timeout(PATIENCE, let_go).await;
    let_go.expect("the connection is closed");
    assert_eq!(chats.asks(ANA, "hello").await, "Hello.");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_takes_under_a_second_in_a_long_process_and_others_work_meanwhile() {
    let mut chats = Chats::start("worktree = \"own\"\n").await;
    chats.says(ANA, "now sleep-long").await;
    let asked = chats.hears(ANA).await.text;
    assert!(asked.contains("beside your folder"), "{asked}");
    let question = chats.hears(ANA).await;
    assert!(question.text.contains("touch begun"), "{question:?}");
    chats.says(ANA, "yes").await;
    while running("72003.5") == 0 {
        tokio::time::sleep(SOON).await;
    }
    chats.says(BETO, "now write-it").await;
    while chats.hears(BETO).await.text != "Done." {}
    assert_eq!(running("72003.5"), 1, "it goes on meanwhile");
    let took_ms = chats.cancels(ANA).await;
    assert!(took_ms < 1_000, "{took_ms} ms");
    assert_eq!(running("72003.5"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_people_never_see_each_others_sessions_files_or_questions() {
    let mut chats = Chats::start("worktree = \"own\"\n").await;
    chats.says(ANA, "the secret-objective: write-it").await;
    while chats.hears(ANA).await.text != "Done." {}
    chats.says(ANA, "then prove-it").await;
    let question = chats.hears(ANA).await;
    let (code, (session, path)) = (code(&question), chats.session(ANA));
    for (said, answer) in [
        ("yes".into(), "Hello."),
        (format!("/approve {code}"), "Nothing is waiting"),
        (format!("/approve {code} always"), "Nothing is waiting"),
        (format!("/deny {code} not like that"), "Nothing is waiting"),
        (format!("/agent-resume {session}"), "has no session"),
        (
            format!("/agent-resume {session} good-prefix"),
            "has no session",
        ),
        ("/agent".into(), "Status: "),
        ("/cost".into(), "Session: "),
        ("/diff".into(), "Nothing is different"),
        ("/undo".into(), "nothing to undo"),
        ("/redo".into(), "no undo"),
        ("/cancel".into(), "Nothing is running"),
    ] {
        let mut told = chats.asks(BETO, &said).await;
        if told.contains("beside your folder") {
            told = chats.hears(BETO).await.text; // a session's first words are about its branch
        }
        assert!(told.contains(answer), "{said}: {told}");
    }
    // Her question quoted, and a thumb on it: both are words about a message that his chat does not have.
    let quoting = about_from(BETO, "wamid.q", &question.id, json!({"body": "yes"}));
    assert_eq!(chats.served.signed(quoting).await, 200);
    assert_eq!(chats.hears(BETO).await.text, "Hello.");
    let thumb = about_from(BETO, "wamid.t", &question.id, json!({"emoji": "👍"}));
    assert_eq!(chats.served.signed(thumb).await, 200);
    assert_eq!(chats.asks(BETO, "hello again").await, "Hello.");
    let theirs = |request: &Value| {
        let text = request.to_string();
        text.contains("hello again").then_some(text)
    };
    let asked = chats.model.requests();
    let asked = asked.iter().find_map(theirs).expect("his request");
    let to_beto = chats.heard.iter().filter(|sent| sent.to == BETO);
    let to_beto: String = to_beto.map(|sent| sent.text.clone() + "\n").collect();
    for hers in [
        session.as_str(),
        "secret-objective",
        "ran-for-ana",
        "kept-by-ana",
        "ana.txt",
    ] {
        // The id that he wrote himself comes back to him.
        let echoed = to_beto.replace(&format!("has no session {session}"), "");
        assert!(!echoed.contains(hers), "{hers}: {echoed}");
        assert!(!asked.contains(hers), "{hers}: {asked}");
    }
    let by_beto = |line: &Record| matches!(&line.event, Event::MessageReceived { message } if message.from == BETO);
    assert!(!records(&path).iter().any(by_beto));
    // It waits still, and she can answer it.
    assert!(chats.asks(ANA, "yes").await.contains("Approved"));
    assert_eq!(chats.hears(ANA).await.text, "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_person_answers_from_another_of_their_chats_by_code_and_nobody_else_does() {
    let people =
        format!("[people]\nana = [\"whatsapp:{ANA}\", \"whatsapp:{BETO}\", \"http:desk\"]\n");
    let mut chats = Chats::start(&format!("worktree = \"shared\"\n{people}")).await;
    chats.says(ANA, "now prove-it").await;
    let first = code(&chats.hears(ANA).await);
    let session = chats.session(ANA).0;
    let approves = format!("/approve {first}");
    // Nothing but the answer goes from chat to chat, and it says to what.
    assert_eq!(chats.asks(BETO, "yes").await, "Hello.");
    let told = chats.asks(BETO, &format!("/agent-resume {session}")).await;
    assert!(told.contains("has no session"), "{told}");
    assert!(
        chats
            .asks(BETO, "/cancel")
            .await
            .contains("Nothing is running")
    );
    let told = chats.asks(CARLA, &approves).await;
    assert!(told.contains("Nothing is waiting"), "{told}");
    assert_eq!(chats.denies(OTHER_SECRET, &first).await.0, 404);
    let told = chats.asks(BETO, &approves).await;
    assert!(
        told.contains(&first) && told.contains("passed on"),
        "{told}"
    );
    assert!(chats.hears(ANA).await.text.contains("Approved"));
    assert_eq!(chats.hears(ANA).await.text, "Done.");
    let given = |event: &Event| matches!(event, Event::ApprovalGiven { by, .. } if by.who == BETO);
    chats.until(ANA, given).await;
    // Brought again, as channels do, it is the answer that came.
    let id = format!("wamid.{}", chats.said);
    let again = chats.served.tries_to_say_as(BETO, &id, &approves);
    assert_eq!(again.await, Some(200));
    // The id that a program gives is its own affair: a message of hers has the same one.
    chats.served.says("1", "again prove-it").await;
    let second = code(&chats.hears(ANA).await);
    let (status, answer) = chats.denies(DESK_SECRET, &second).await;
    assert_eq!(
        (status, &answer["duplicate"]),
        (202, &json!(false)),
        "{answer}"
    );
    let line = answer["seq"].clone();
    assert!(chats.hears(ANA).await.text.contains("Denied"));
    assert_eq!(chats.hears(ANA).await.text, "Done.");
    let (status, answer) = chats.denies(DESK_SECRET, &second).await;
    assert_eq!(
        (status, &answer["duplicate"]),
        (200, &json!(true)),
        "{answer}"
    );
    assert_eq!(answer["session"], json!(session));
    assert!(line.is_u64() && answer["seq"] == line, "{answer}");
    // Nothing more came to the other phone, not even for what was brought twice.
    assert_eq!(chats.asks(BETO, "hello").await, "Hello.");
}
