//! What a person sends besides typed text, and what becomes of what was sent to them.

use crate::webhook::{ANA, Front, about};
use journeyman::agent::state::State;
use journeyman::doors::whatsapp::standin::{Sent, text_webhook};
use serde_json::{Value, json};

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

// --- what there is no use for ------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn what_there_is_no_use_for_is_answered_and_no_model_sees_it() {
    let mut front = Front::new(json!([])).await;
    let place = json!({"latitude": -34.6, "longitude": -58.4, "name": "Home"});
    let card = json!([{"name": {"formatted_name": "Bob"}, "phones": [{"phone": "+1555"}]}]);
    for (kind, content, told) in [
        ("location", place, "location"),
        ("contacts", card, "contacts"),
        ("sticker", json!({"id": "1", "mime_type": "image/webp"}), "sticker"),
        ("video", json!({"id": "1", "mime_type": "video/mp4"}), "videos"),
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
    let reply = about("wamid.1", "wamid.of-somebody-else", json!({"body": "this one"}));
    front.signed(reply).await;
    front.hears().await;
    assert_eq!(last_words(&front), "this one");
}
