//! Pictures that a person sends: shown to a model that sees, and told where none does.

use crate::fake_model::{FakeModel, Next, calls, says};
use crate::webhook::{ANA, Front};
use journeyman::agent::conversation::{Conversation, Words};
use journeyman::agent::event::Image;
use journeyman::config::{ModelSettings, Settings};
use journeyman::doors::whatsapp::standin::{Medium, text_webhook};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR and so on";
/// The same, as it stands in a request.
const PNG_URL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUiBhbmQgc28gb24=";

fn picture(mime: &str, bytes: &[u8]) -> Medium {
    Medium {
        mime: mime.into(),
        bytes: bytes.to_vec(),
        url: None,
        sha256: None,
    }
}

/// The webhook of a picture that the stand-in has as `id`.
fn image(message_id: &str, id: &str, mime: &str, caption: &str) -> Vec<u8> {
    let body = text_webhook("100", ANA, message_id, "x");
    let mut body: Value = serde_json::from_slice(&body).expect("JSON");
    let message = &mut body["entry"][0]["changes"][0]["value"]["messages"][0];
    message["type"] = json!("image");
    message["image"] = json!({"id": id, "mime_type": mime, "caption": caption});
    body.to_string().into_bytes()
}

async fn seeing(model: &FakeModel, adjust: impl FnOnce(&mut Settings)) -> Front {
    let base_url = model.base_url.clone();
    Front::with(json!([]), |settings| {
        settings.model = Some(ModelSettings {
            name: "gpt-5.1".into(),
            base_url,
            key: "none".into(),
        });
        adjust(settings);
    })
    .await
}

/// The contents of the person's messages in a request.
fn shown(request: &Value) -> Vec<Value> {
    let messages = request["messages"].as_array().expect("messages");
    let persons = messages.iter().filter(|message| message["role"] == "user");
    persons.map(|message| message["content"].clone()).collect()
}

fn kept(front: &Front) -> Vec<PathBuf> {
    let outputs = front.assembly.hub.surface().world.data_dir.join("outputs");
    let sessions = fs::read_dir(outputs).expect("outputs").flatten();
    let files = sessions.flat_map(|folder| fs::read_dir(folder.path()).expect("a folder"));
    let files = files.flatten().map(|file| file.path());
    files
        .filter(|file| file.extension().is_some_and(|ending| ending == "picture"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_sees_is_shown_the_picture_under_its_caption() {
    let model = FakeModel::start(
        vec![says("A red button."), says("Done."), says("Gone.")],
        None,
    );
    let model = model.await;
    let mut front = seeing(&model, |_| {}).await;
    front
        .graph
        .control
        .keep_media("7", picture("image/png", PNG));
    front
        .signed(image("wamid.1", "7", "image/png", "make it like this"))
        .await;
    assert_eq!(front.hears().await.text, "A red button.");
    let content = &shown(&model.requests()[0])[0];
    let words = content[0]["text"].as_str().expect("a text");
    assert!(
        words.starts_with("make it like this\n\n[The person sent a file: inbox/image-"),
        "{words}"
    );
    assert_eq!(
        content[1],
        json!({"type": "image_url", "image_url": {"url": PNG_URL}})
    );
    // What the model sees grows at its end only.
    front.says("wamid.2", "go on").await;
    assert_eq!(front.hears().await.text, "Done.");
    let bodies = model.bodies();
    let first = bodies[0].strip_suffix("]}").expect("messages come last");
    assert!(bodies[1].starts_with(first));
    // Altered, it is a sentence; nothing fails.
    for file in kept(&front) {
        fs::write(file, "mine").expect("written");
    }
    front.says("wamid.3", "and now").await;
    assert_eq!(front.hears().await.text, "Gone.");
    let content = &shown(&model.requests()[2])[0];
    assert_eq!(content[1]["type"], "text");
    assert!(
        content[1]["text"]
            .as_str()
            .expect("a text")
            .contains("not there any more")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_that_steers_or_answers_is_shown_too() {
    let asks = calls(
        "request_user_approval",
        json!({"question": "Which colour?"}),
    );
    let model = FakeModel::start(vec![asks, says("As on the picture.")], None).await;
    let mut front = seeing(&model, |_| {}).await;
    front
        .graph
        .control
        .keep_media("7", picture("image/png", PNG));
    front.says("wamid.1", "paint the button").await;
    assert!(front.hears().await.text.contains("Which colour?"));
    front
        .signed(image("wamid.2", "7", "image/png", "this one"))
        .await;
    assert_eq!(front.hears().await.text, "As on the picture.");
    let request = &model.requests()[1];
    let messages = request["messages"].as_array().expect("messages");
    let [.., result, words] = &messages[..] else {
        panic!("{messages:?}")
    };
    assert!(
        result["content"]
            .as_str()
            .expect("a text")
            .starts_with("this one")
    );
    assert_eq!(words["content"][1]["image_url"]["url"], PNG_URL);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sends_a_picture_to_a_model_that_sees_none_is_told() {
    let mut front = Front::new(json!([])).await;
    front
        .signed(image("wamid.1", "7", "image/png", "look"))
        .await;
    let text = front.hears().await.text;
    assert!(text.contains("recording is not known to see any"), "{text}");
    assert!(
        front
            .graph
            .control
            .requests()
            .iter()
            .all(|request| !request.path.ends_with("/7"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_says_that_it_is_a_picture_is_refused() {
    let small = |settings: &mut Settings| settings.limits.image_bytes_max = 100;
    let model = FakeModel::start(Vec::new(), Some(Next::Raw(String::new()))).await;
    let mut front = seeing(&model, small).await;
    for (id, mime, bytes, told) in [
        (
            "script",
            "image/png",
            &b"#!/bin/sh"[..],
            "its bytes say otherwise",
        ),
        ("svg", "image/svg+xml", b"<svg/>", "only JPEG, PNG and WebP"),
        (
            "large",
            "image/png",
            &[PNG, &[0; 100]].concat(),
            "larger than 100 bytes",
        ),
        ("page", "image/png", b"", "came as text/html"),
    ] {
        let came_as = if id == "page" { "text/html" } else { mime };
        front.graph.control.keep_media(id, picture(came_as, bytes));
        front
            .signed(image(&format!("wamid.{id}"), id, mime, ""))
            .await;
        let text = front.hears().await.text;
        assert!(
            text.contains("could not look") && text.contains(told),
            "{id}: {text}"
        );
    }
    assert!(model.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_shows_only_so_many_pictures_and_says_so() {
    let one = |settings: &mut Settings| settings.limits.images_max = 1;
    let model = FakeModel::start(vec![says("One."), says("Still one.")], None).await;
    let mut front = seeing(&model, one).await;
    let jpeg = b"\xff\xd8\xff\xe0\0\x10JFIF";
    front
        .graph
        .control
        .keep_media("7", picture("image/png", PNG));
    front
        .graph
        .control
        .keep_media("8", picture("image/jpeg", jpeg));
    front
        .signed(image("wamid.1", "7", "image/png", "one"))
        .await;
    assert_eq!(front.hears().await.text, "One.");
    front
        .signed(image("wamid.2", "8", "image/jpeg", "two"))
        .await;
    assert!(
        front
            .hears()
            .await
            .text
            .contains("1 are in this conversation already")
    );
    assert_eq!(front.hears().await.text, "Still one.");
    let contents = shown(&model.requests()[1]);
    let second = contents[1].as_str().expect("a text alone");
    assert!(
        second.starts_with("two\n\n[The person sent a file: inbox/image-"),
        "{second}"
    );
}

#[test]
fn a_compaction_keeps_the_words_that_came_with_a_picture() {
    let image = Image {
        session: "s".into(),
        sha256: "07".into(),
        mime: "image/png".into(),
    };
    let words = Words {
        text: "like {\"type\":\"stored_image\", this".into(),
        images: vec![image],
    };
    let mut conversation = Conversation::default();
    conversation.system("You are.");
    conversation.person(&words, true);
    conversation.user("and \"{\\\"type\\\":\\\"stored_image\\\",\" is no picture");
    assert_eq!(conversation.pictures(), 1);
    assert!(conversation.digest(2, "Before that: much.", None));
    assert_eq!(conversation.pictures(), 0);
    let past = conversation.past_before(1, None);
    let said: Vec<&str> = past.said.iter().map(|said| said.text.as_str()).collect();
    assert_eq!(said, ["like {\"type\":\"stored_image\", this"]);
}
