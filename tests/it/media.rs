//! What a person sends besides typed text, and what becomes of what was sent to them.

use crate::support::PATIENCE;
use crate::webhook::{ANA, Front, about};
use journeyman::agent::event::{Event, Reading};
use journeyman::agent::state::State;
use journeyman::doors::Seen;
use journeyman::doors::whatsapp::standin::{Sent, text_webhook};
use serde_json::{Value, json};
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
async fn a_status_about_another_number_costs_nothing() {
    let front = Front::new(json!([])).await;
    let body = String::from_utf8(status("wamid.x", "failed", None)).expect("text");
    let body = body.replace(ANA, "5490000000000").into_bytes();
    assert_eq!(front.signed(body).await, 200);
    assert!(front.assembly.hub.surface().store.is_absent());
}
