//! What a person sends besides typed text, and what becomes of what was sent to them.

use crate::support::{OWNER, PATIENCE, git};
use crate::together::Chat;
use crate::webhook::{ANA, Front, about};
use journeyman::agent::event::{
    Event, Got, Inbound, OutgoingKind, Reading, Scheduled, Timestamp, Via,
};
use journeyman::agent::state::State;
use journeyman::config::ModelSettings;
use journeyman::doors::Seen;
use journeyman::doors::whatsapp::standin::{Medium, Sent, SentKind, text_webhook};
use journeyman::world::worktrees::Isolation;
use serde_json::{Value, json};
use std::fs;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc::UnboundedReceiver;

/// The body of a webhook with one message of another kind than text.
fn message(id: &str, kind: &str, content: Value) -> Vec<u8> {
    let mut body: Value = serde_json::from_slice(&text_webhook("100", ANA, id, "x")).expect("JSON");
    let message = &mut body["entry"][0]["changes"][0]["value"]["messages"][0];
    message["type"] = json!(kind);
    message[kind] = content;
    body.to_string().into_bytes()
}

fn state(front: &Front) -> State {
    let hub = &front.assembly.hub;
    let sessions = hub.surface().store.sessions().expect("the table");
    hub.peek(&sessions[0].id).expect("the session")
}

/// What the person said last, as the model reads it.
fn last_words(front: &Front) -> String {
    let state = state(front);
    let wires = state.conversation.messages().iter().rev();
    let mut wires = wires.map(|wire| serde_json::from_str::<Value>(wire.get()).expect("JSON"));
    let wire = wires.find(|wire| wire["role"] == "user").expect("words");
    wire["content"].as_str().expect("a text").to_owned()
}

/// Waits for a line of a journal.
async fn until(seen: &mut UnboundedReceiver<Seen>, wanted: impl Fn(&Event) -> bool) -> Event {
    let found = async {
        loop {
            match seen.recv().await.expect("the hub is there") {
                Seen::Recorded { record, .. } if wanted(&record.event) => {
                    return record.event.clone();
                }
                Seen::Stopped { why, .. } => panic!("the session stopped: {why}"),
                Seen::Recorded { .. } | Seen::Shown { .. } => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, found)
        .await
        .expect("it happens")
}

// --- what there is no use for ------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn what_there_is_no_use_for_is_answered_and_no_model_sees_it() {
    let mut front = Front::new(json!([])).await;
    let place = json!({"latitude": -34.6, "longitude": -58.4, "name": "Home"});
    let card = json!([{"name": {"formatted_name": "Bob"}, "phones": [{"phone": "+1555"}]}]);
    for (kind, content, told) in [
        ("location", place, "location"),
        ("contacts", card, "contacts"),
        (
            "sticker",
            json!({"id": "1", "mime_type": "image/webp"}),
            "sticker",
        ),
        (
            "video",
            json!({"id": "1", "mime_type": "video/mp4"}),
            "videos",
        ),
        ("unsupported", json!({}), "keeps for people"),
        ("order", json!({}), "\"order\""),
    ] {
        let id = format!("wamid.{kind}");
        assert_eq!(front.signed(message(&id, kind, content)).await, 200);
        let Sent { text, .. } = front.hears().await;
        assert!(text.contains(told), "{kind}: {text}");
        assert!(text.contains("Send me text"), "{text}");
    }
    let state = state(&front);
    assert!(state.turn.is_none() && state.conversation.messages().len() == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_whatsapp_says_about_the_chat_itself_is_no_message() {
    let mut front = Front::new(json!([{"text": "Hello."}])).await;
    let moved = json!({"body": "Ana changed the number", "type": "user_changed_number"});
    assert_eq!(front.signed(message("wamid.1", "system", moved)).await, 200);
    front.says("wamid.2", "hello").await;
    assert_eq!(front.hears().await.text, "Hello.");
}

// --- replies -----------------------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_tells_the_model_which_message_it_is_about() {
    let replies = json!([{"text": "Use red."}, {"text": "Blue then."}, {"text": "As before."}, {"text": "Fine."}]);
    let mut front = Front::new(replies).await;
    front.says("wamid.1", "red or blue?").await;
    let red = front.hears().await;
    front.says("wamid.2", "think again").await;
    front.hears().await;
    let reply = about("wamid.3", &red.id, json!({"body": "why that?"}));
    front.signed(reply).await;
    front.hears().await;
    let words = last_words(&front);
    assert!(words.contains("message of yours:]\nUse red.\n"), "{words}");
    assert!(words.ends_with("why that?"), "{words}");
    let own = about("wamid.4", "wamid.1", json!({"body": "I meant green"}));
    front.signed(own).await;
    front.hears().await;
    let words = last_words(&front);
    assert!(words.contains("of their own:]\nred or blue?\n"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_to_what_nobody_knows_is_read_as_it_stands() {
    let mut front = Front::new(json!([{"text": "Hello."}])).await;
    let reply = about(
        "wamid.1",
        "wamid.of-somebody-else",
        json!({"body": "this one"}),
    );
    front.signed(reply).await;
    front.hears().await;
    assert_eq!(last_words(&front), "this one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_to_a_part_is_understood_though_the_rest_came_later() {
    let mut chat = Chat::new(0);
    chat.says(0, "m1", "/agent");
    chat.decides(0);
    let (kind, text) = (OutgoingKind::Notice, "Nothing runs.".to_owned());
    for (at, error, id, parts, retry_at) in [
        (10, Some("later"), "wamid.1", 1, Some(Timestamp(20))),
        (20, None, "wamid.2", 0, None),
    ] {
        let (send, text) = (1, text.clone());
        if at == 20 {
            chat.happens(at, Event::SendDue { send });
        }
        chat.happens(at, Event::SendStarted { send, kind, text });
        let ended = Event::SendFinished {
            send,
            error: error.map(str::to_owned),
            ids: vec![id.into()],
            retry_at,
            parts,
            closed: None,
        };
        chat.happens(at, ended);
    }
    let message = Inbound {
        about: Some("wamid.1".into()),
        ..Inbound::text("m2", OWNER, "the second one")
    };
    chat.happens(30, Event::MessageReceived { message });
    chat.decides(30);
    assert!(
        chat.last().contains("message of yours:]"),
        "{}",
        chat.last()
    );
}

// --- what did not arrive -----------------------------------------------------------------------------------------------

/// The body of a webhook in which WhatsApp says what became of our message `id`.
fn status(id: &str, state: &str, error: Option<(i64, &str)>) -> Vec<u8> {
    let mut body: Value = serde_json::from_slice(&text_webhook("100", ANA, id, "x")).expect("JSON");
    let value = &mut body["entry"][0]["changes"][0]["value"];
    let mut status = json!({"id": id, "status": state, "timestamp": "1", "recipient_id": ANA});
    if let Some((code, title)) = error {
        status["errors"] = json!([{"code": code, "title": title, "message": title}]);
    }
    value.as_object_mut().expect("an object").remove("messages");
    value["statuses"] = json!([status]);
    body.to_string().into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_whatsapp_could_not_deliver_is_sent_again_once_and_then_told() {
    let mut front = Front::new(json!([{"text": "Hello."}])).await;
    front.says("wamid.1", "hello").await;
    let first = front.hears().await;
    assert_eq!(first.text, "Hello.");
    let failed = |id: &str| status(id, "failed", Some((131_016, "Service unavailable")));
    assert_eq!(
        front.signed(status(&first.id, "delivered", None)).await,
        200
    );
    for _ in 0..3 {
        assert_eq!(front.signed(failed(&first.id)).await, 200);
    }
    let again = front.hears().await;
    assert_eq!(again.text, "Hello.");
    assert_ne!(again.id, first.id);
    assert_eq!(front.signed(failed(&again.id)).await, 200);
    front.says("wamid.2", "/agent").await;
    let status = front.hears().await.text;
    assert!(
        status.contains("did not deliver: 1,")
            && status.contains("Service unavailable (code 131016)"),
        "{status}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_will_not_arrive_is_not_tried_again_and_told_by_the_session_that_sent_it() {
    let mut front = Front::new(json!([{"text": "Hello."}])).await;
    front.says("wamid.1", "/agent one").await;
    let first = front.hears().await;
    front.says("wamid.2", "/agent two").await;
    front.hears().await;
    let mut seen = front.assembly.hub.surface().observers.watch();
    let failed = status(
        &first.id,
        "failed",
        Some((131_026, "Message undeliverable")),
    );
    assert_eq!(front.signed(failed).await, 200);
    let unknown = status("wamid.never", "failed", None);
    assert_eq!(front.signed(unknown).await, 200);
    let hub = &front.assembly.hub;
    let sessions = hub.surface().store.sessions().expect("the table");
    let session = |objective: &str| {
        let found = sessions.iter().find(|row| row.objective == objective);
        found.expect("a session").id.clone()
    };
    let (one, two) = (session("one"), session("two"));
    let told = |session: &str| {
        let state = hub.peek(session).expect("the session");
        (
            state.deliveries.lost,
            state.deliveries.why,
            state.outbox.len(),
        )
    };
    for _ in 0..2 {
        until(&mut seen, |event| {
            matches!(
                event,
                Event::MessageTaken {
                    reading: Reading::NotDelivered { again: false },
                    ..
                }
            )
        })
        .await;
    }
    let why = |why: &str| (1, why.to_owned(), 0);
    assert_eq!(told(&one), why("Message undeliverable (code 131026)"));
    assert_eq!(told(&two), why("WhatsApp gave no reason (code 0)"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_too_late_for_the_window_waits_and_the_person_is_asked_once() {
    let template = |settings: &mut journeyman::config::Settings| {
        settings.file.whatsapp_template = "news".into();
    };
    let mut front = Front::with(json!([{"text": "Hello."}]), template).await;
    front.says("wamid.1", "hello").await;
    let first = front.hears().await;
    for _ in 0..2 {
        let failed = status(
            &first.id,
            "failed",
            Some((131_047, "Re-engagement message")),
        );
        assert_eq!(front.signed(failed).await, 200);
    }
    let asked = front.hears().await;
    assert_eq!(asked.kind, SentKind::Template("news".into()));
    front.says("wamid.2", "/cost").await;
    assert_eq!(front.hears().await.text, "Hello.");
    assert!(
        front.hears().await.text.contains("Month"),
        "nobody is asked twice"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_about_another_number_costs_nothing() {
    let front = Front::new(json!([])).await;
    let body = String::from_utf8(status("wamid.x", "failed", None)).expect("text");
    let body = body.replace(ANA, "5490000000000").into_bytes();
    assert_eq!(front.signed(body).await, 200);
    assert!(front.assembly.hub.surface().store.is_absent());
}

// --- documents ---------------------------------------------------------------------------------------------------------

const NOTES: &[u8] = b"milk\neggs\n";

fn notes() -> Medium {
    Medium {
        mime: "text/plain".into(),
        bytes: NOTES.to_vec(),
        url: None,
        sha256: None,
    }
}

/// The webhook of a document that the stand-in has as `id`.
fn document(message_id: &str, id: &str, name: &str, caption: &str) -> Vec<u8> {
    let content =
        json!({"id": id, "mime_type": "text/plain", "filename": name, "caption": caption});
    message(message_id, "document", content)
}

/// The path in the model's words about a file.
fn path_in(words: &str) -> String {
    let path = words.split("sent a file: ").nth(1).expect(words);
    path.split(" in the workspace")
        .next()
        .expect(words)
        .to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_lies_in_the_inbox_and_the_model_knows_where() {
    let replies =
        json!([{"text": "Milk and eggs."}, {"text": "The same."}, {"text": "Other ones."}]);
    let mut front = Front::new(replies).await;
    let control = &front.graph.control;
    control.keep_media("7", notes());
    let other = Medium {
        bytes: b"bread".to_vec(),
        ..notes()
    };
    control.keep_media("8", other);
    let said = document("wamid.1", "7", "../my list.txt", "what is on it?");
    assert_eq!(front.signed(said.clone()).await, 200);
    assert_eq!(front.signed(said).await, 200);
    assert_eq!(front.hears().await.text, "Milk and eggs.");
    let words = last_words(&front);
    assert!(
        words.starts_with("what is on it?\n\n[The person sent a file: inbox/my_list-"),
        "{words}"
    );
    assert!(words.contains("(text/plain, 10 bytes)"), "{words}");
    let first = path_in(&words);
    let shop = front.workspace();
    assert_eq!(fs::read(shop.join(&first)).expect("the file"), NOTES);
    assert_eq!(
        git(&shop, &["status", "--porcelain"]),
        "",
        "git does not see it"
    );
    front
        .signed(document("wamid.2", "7", "my list.txt", ""))
        .await;
    assert_eq!(front.hears().await.text, "The same.");
    assert_eq!(
        path_in(&last_words(&front)),
        first,
        "the same content is kept once"
    );
    fs::write(shop.join(&first), "mine").expect("written");
    front
        .signed(document("wamid.3", "8", "my list.txt", "and this?"))
        .await;
    assert_eq!(front.hears().await.text, "Other ones.");
    assert_ne!(path_in(&last_words(&front)), first);
    assert_eq!(fs::read(shop.join(&first)).expect("the file"), b"mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_beside_the_persons_folder_has_its_inbox_there() {
    let own = |settings: &mut journeyman::config::Settings| settings.file.worktree = Isolation::Own;
    let mut front = Front::with(json!([{"text": "Read."}]), own).await;
    front.graph.control.keep_media("7", notes());
    front
        .signed(document("wamid.1", "7", "notes.txt", "read it"))
        .await;
    while front.hears().await.text != "Read." {}
    let path = path_in(&last_words(&front));
    let state = state(&front);
    let place = std::path::Path::new(&state.workspace.path);
    assert_ne!(place, front.workspace());
    assert_eq!(fs::read(place.join(&path)).expect("the file"), NOTES);
    assert!(!front.workspace().join("inbox").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_the_project_that_is_called_inbox_is_left_alone() {
    let mut front = Front::new(json!([{"text": "Read."}])).await;
    fs::create_dir(front.workspace().join("inbox")).expect("a folder");
    front.graph.control.keep_media("7", notes());
    front
        .signed(document("wamid.1", "7", "notes.txt", "read it"))
        .await;
    front.hears().await;
    let path = path_in(&last_words(&front));
    assert!(path.starts_with("inbox-journeyman/"), "{path}");
    let inbox = fs::read_dir(front.workspace().join("inbox")).expect("it is there");
    assert_eq!(inbox.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_what_it_should_be_is_not_kept_and_that_is_told() {
    let small = |settings: &mut journeyman::config::Settings| settings.limits.media_bytes_max = 100;
    let replies: Vec<Value> = (0..6).map(|_| json!({"text": "A pity."})).collect();
    let mut front = Front::with(json!(replies), small).await;
    let inner = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let inner_url = format!("http://{}/secret", inner.local_addr().expect("an address"));
    for (id, medium, told) in [
        (
            "elsewhere",
            Medium {
                url: Some(inner_url),
                ..notes()
            },
            "not its own",
        ),
        (
            "file",
            Medium {
                url: Some("file:///etc/passwd".into()),
                ..notes()
            },
            "not its own",
        ),
        (
            "large",
            Medium {
                bytes: vec![b'x'; 101],
                ..notes()
            },
            "larger than 100 bytes",
        ),
        (
            "html",
            Medium {
                mime: "text/html".into(),
                ..notes()
            },
            "came as text/html",
        ),
        (
            "altered",
            Medium {
                sha256: Some("0".repeat(64)),
                ..notes()
            },
            "SHA-256 differs",
        ),
    ] {
        front.graph.control.keep_media(id, medium);
        let said = document(&format!("wamid.{id}"), id, "list.txt", "look");
        assert_eq!(front.signed(said).await, 200);
        let text = front.hears().await.text;
        assert!(
            text.contains("could not take list.txt") && text.contains(told),
            "{id}: {text}"
        );
        assert_eq!(front.hears().await.text, "A pity.");
        let words = last_words(&front);
        assert!(
            words.contains("could not be had") && words.contains(told),
            "{words}"
        );
    }
    assert!(!front.workspace().join("inbox").exists());
    let asked = tokio::time::timeout(std::time::Duration::from_millis(50), inner.accept()).await;
    assert!(asked.is_err(), "nobody else is asked");
    let paths = front.graph.control.requests();
    let by_path = paths.iter().any(|request| request.path.contains(".."));
    assert!(!by_path);
    front
        .signed(document("wamid.path", "../100/messages", "x.txt", ""))
        .await;
    assert!(front.hears().await.text.contains("could not be read"));
}

#[tokio::test(flavor = "multi_thread")]
async fn whatsapp_being_busy_for_a_moment_loses_no_document() {
    let mut front = Front::new(json!([{"text": "Read."}])).await;
    front.graph.control.keep_media("7", notes());
    // The read mark may take one of these.
    front.graph.control.fail_next(2, 503, None);
    front
        .signed(document("wamid.1", "7", "notes.txt", "read it"))
        .await;
    assert_eq!(front.hears().await.text, "Read.");
    assert!(last_words(&front).contains("inbox/notes-"));
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_and_answers_pass_a_document_that_is_on_its_way_and_work_does_not() {
    let command = json!({"tool": "run_command", "arguments": {"command": "frobnicate now"}});
    let done = json!({"text": "Done."});
    let mut front = Front::new(json!([{"calls": [command]}, done, done, done])).await;
    front.says("wamid.1", "frobnicate").await;
    assert!(front.hears().await.text.contains("frobnicate now"));
    let mut seen = front.assembly.hub.surface().observers.watch();
    // Graph does not know it yet, so that it is asked again after a second.
    front
        .signed(document("wamid.2", "7", "notes.txt", "yes"))
        .await;
    front.says("wamid.3", "use it").await;
    front.says("wamid.4", "no").await;
    front.graph.control.keep_media("7", notes());
    let mut taken = Vec::new();
    while taken.len() < 3 {
        let event = until(&mut seen, |event| {
            matches!(
                event,
                Event::MessageTaken { .. } | Event::ApprovalRefused { .. }
            )
        });
        taken.push(match event.await {
            Event::MessageTaken { message, .. } => message,
            Event::ApprovalRefused { by, .. } => by.message.expect("a message said so"),
            _ => unreachable!("nothing else is waited for"),
        });
    }
    assert_eq!(taken, ["wamid.4", "wamid.2", "wamid.3"]);
}

// --- voice -------------------------------------------------------------------------------------------------------------

/// A server that hears these words, one after the other, and what it was sent.
async fn hearing(words: &'static [&'static str]) -> (String, Arc<Mutex<Vec<Vec<u8>>>>) {
    let heard: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let sounds = heard.clone();
    let answer = move |body: axum::body::Bytes| {
        let sounds = sounds.clone();
        async move {
            let mut sounds = sounds.lock().expect("nobody panics under it");
            let text = words[sounds.len()];
            sounds.push(body.to_vec());
            json!({"text": text}).to_string()
        }
    };
    let routes = axum::Router::new().route("/v1/audio/transcriptions", axum::routing::post(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (url, heard)
}

fn voice(message_id: &str) -> Vec<u8> {
    let content = json!({"id": "9", "mime_type": "audio/ogg; codecs=opus", "voice": true});
    message(message_id, "audio", content)
}

async fn talking(replies: Value, base_url: String) -> Front {
    let front = Front::with(replies, |settings| {
        settings.transcription = Some(ModelSettings {
            name: "whisper-1".into(),
            base_url,
            key: "a-key-of-its-own".into(),
        });
    });
    let front = front.await;
    let sound = Medium {
        mime: "audio/ogg".into(),
        bytes: b"OggS of Ana".to_vec(),
        url: None,
        sha256: None,
    };
    front.graph.control.keep_media("9", sound);
    front
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_is_as_good_as_typed_and_read_back() {
    let (url, sounds) = hearing(&["Frobnicate.", "Yes!", "/agent"]).await;
    let command = json!({"tool": "run_command", "arguments": {"command": "frobnicate now"}});
    let mut front = talking(json!([{"calls": [command]}, {"text": "Done."}]), url).await;
    assert_eq!(front.signed(voice("wamid.1")).await, 200);
    assert_eq!(front.hears().await.text, "🎤 I heard: Frobnicate.");
    assert!(front.hears().await.text.contains("frobnicate now"));
    assert_eq!(last_words(&front), "Frobnicate.");
    front.signed(voice("wamid.2")).await;
    assert_eq!(front.hears().await.text, "🎤 I heard: Yes!");
    assert!(front.hears().await.text.contains("Approved"));
    while front.hears().await.text != "Done." {}
    front.signed(voice("wamid.3")).await;
    assert_eq!(front.hears().await.text, "🎤 I heard: /agent");
    assert!(front.hears().await.text.contains("Status: idle"));
    let sounds = sounds.lock().expect("nobody panics under it");
    let sent = String::from_utf8_lossy(&sounds[0]);
    assert!(
        sent.contains("name=\"model\"\r\n\r\nwhisper-1\r\n"),
        "{sent}"
    );
    assert!(
        sent.contains("filename=\"message.ogg\"") && sent.contains("OggS of Ana\r\n--"),
        "{sent}"
    );
    let rows = front
        .assembly
        .hub
        .surface()
        .store
        .sessions()
        .expect("the table");
    assert_eq!(rows[0].objective, "Frobnicate.");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_hears_that_is_said_and_nothing_is_fetched() {
    let mut front = Front::new(json!([])).await;
    front.signed(voice("wamid.1")).await;
    let text = front.hears().await.text;
    assert!(
        text.contains("could not listen") && text.contains("TRANSCRIPTION_MODEL"),
        "{text}"
    );
    let requests = front.graph.control.requests();
    assert!(
        requests.iter().all(|request| !request.path.ends_with("/9")),
        "{requests:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_is_no_message() {
    let (url, _) = hearing(&[" "]).await;
    let mut front = talking(json!([]), url).await;
    front.signed(voice("wamid.1")).await;
    assert!(front.hears().await.text.contains("no words were heard"));
    assert!(state(&front).turn.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spoken_yes_goes_to_the_question_and_what_else_is_said_to_the_last_session() {
    let (url, sounds) = hearing(&["Yes!", "Yes!", "What is new?", "What is new?"]).await;
    let command = json!({"tool": "run_command", "arguments": {"command": "frobnicate now"}});
    let replies = json!([{"calls": [command]}, {"text": "Done."}, {"calls": [command]}]);
    let mut front = talking(replies, url).await;
    front.says("wamid.1", "frobnicate").await;
    front.hears().await;
    front.says("wamid.2", "no").await;
    while front.hears().await.text != "Done." {}
    let scheduled = Scheduled {
        job: 1,
        slot: Timestamp(0),
        timezone: "UTC".into(),
        terms: Default::default(),
    };
    let hub = front.assembly.hub.clone();
    let chat = format!("whatsapp:{ANA}");
    let slot = Inbound {
        via: Via::Schedule,
        ..Inbound::text("slot-1", ANA, "frobnicate")
    };
    let run = hub.start_scheduled("cron-1-0", &chat, &scheduled, slot);
    run.await.expect("it starts");
    while !front.hears().await.text.contains("frobnicate now") {}
    assert_eq!(front.signed(voice("wamid.4")).await, 200);
    assert_eq!(front.signed(voice("wamid.4")).await, 200);
    let mut heard = Vec::new();
    while heard.last().is_none_or(|last| last != "Done.") {
        heard.push(front.hears().await.text);
    }
    let times = |words: &str| heard.iter().filter(|text| text.contains(words)).count();
    assert_eq!(
        (times("I heard: Yes!"), times("Approved")),
        (1, 1),
        "{heard:?}"
    );
    let slot = Inbound {
        via: Via::Schedule,
        ..Inbound::text("slot-2", ANA, "frobnicate")
    };
    let run = hub.start_scheduled("cron-1-1", &chat, &scheduled, slot);
    run.await.expect("it starts");
    while !front.hears().await.text.contains("frobnicate now") {}
    front.signed(voice("wamid.6")).await;
    while !front.hears().await.text.contains("I heard: What is new?") {}
    while !front.hears().await.text.contains("frobnicate now") {}
    let heard = || sounds.lock().expect("nobody panics").len();
    while heard() < 4 {
        tokio::task::yield_now().await;
    }
    let asked = hub.peek("cron-1-1").expect("the session").conversation;
    let asked = asked.messages().iter().map(|wire| wire.get().to_owned());
    assert!(!asked.collect::<String>().contains("What is new?"));
    front.says("wamid.5", "/cost").await;
    let cost = front.hears().await.text;
    assert!(
        cost.contains("heard in this session: 2 · price unknown"),
        "{cost}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hearing_costs_is_counted_where_its_price_is_known() {
    let mut state = Chat::new(0);
    for (id, cost_micros) in [("m1", Some(9_000)), ("m2", None)] {
        state.speaks(0, id);
        let text = "/cost".to_owned();
        let got = Got::Words { text, cost_micros };
        let message = id.to_owned();
        state.happens(10, Event::MediaFetched { message, got });
        let month = Event::SpendSeen {
            month: state.state.now.month(),
            elsewhere: Some(Default::default()),
        };
        state.happens(10, month);
        let told = state.decides(10);
        let told = serde_json::to_string(&told).expect("a line");
        let money = match cost_micros {
            Some(_) => "heard in this session: 1 · $0.0090",
            None => "heard in this session: 2 · at least $0.0090 (1 of unknown price)",
        };
        assert!(told.contains(money), "{told}");
    }
    assert_eq!(state.state.spend.micros, 9_000);
}
