//! Answers of a given shape, from servers that know what that is and from those that do not.

use crate::fake_model::{FakeModel, Next, error, says};
use journeyman::agent::conversation::Conversation;
use journeyman::world::model::openai::{Address, OpenAi};
use journeyman::world::model::{Form, Model, ModelError, Patience, Request};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::time::Duration;

fn client(server: &FakeModel) -> Model {
    Model::OpenAi(Box::new(OpenAi::new(Address {
        base_url: server.base_url.clone(),
        key: "none".into(),
        stream: true,
    })))
}

async fn ask(model: &Model) -> Result<(String, u32), ModelError> {
    let mut conversation = Conversation::default();
    conversation.system("Answer with JSON.");
    conversation.user("{}");
    let none = RawValue::from_string("[]".into()).unwrap();
    let request = Request {
        round: 1,
        model: "m",
        messages: conversation.messages(),
        tools: &none,
    };
    let schema = json!({"type": "object", "properties": {"id": {"type": "string"}}});
    let form = Form {
        temperature: Some(0.2),
        schema: Some(("command_input", &schema)),
    };
    let patience = Patience {
        attempts_max: 1,
        retry_after_max: Duration::ZERO,
        silence_max: Duration::from_secs(30),
    };
    let answered = model.ask_for(&request, form, patience).await;
    answered
        .map(|answer| (answer.text, answer.attempts))
        .map_err(|(error, _)| error)
}

/// What of the form each request had.
fn forms(server: &FakeModel) -> Vec<(bool, bool)> {
    let has = |request: &Value| {
        (
            request.get("response_format").is_some(),
            request.get("temperature").is_some(),
        )
    };
    server.requests().iter().map(has).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_told_the_shape_and_the_temperature() {
    let server = FakeModel::start(vec![says(r#"{"id": "a"}"#)], None).await;
    let answer = ask(&client(&server)).await.unwrap();
    assert_eq!(answer, (r#"{"id": "a"}"#.to_owned(), 1));
    let request = &server.requests()[0];
    assert_eq!(request["temperature"], json!(0.2));
    assert_eq!(
        request["response_format"],
        json!({"type": "json_schema", "json_schema": {
            "name": "command_input",
            "schema": {"type": "object", "properties": {"id": {"type": "string"}}},
        }})
    );
    assert!(request.get("tools").is_none(), "nothing to call");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_a_shape_is_asked_without_it_and_not_again_with_it() {
    let refusing = |field: &'static str, message: &'static str, status: u16| {
        move |request: &Value| match request.get(field) {
            Some(_) => error(status, message, "invalid_request_error"),
            None => says("{}"),
        }
    };
    let words = "This response_format type is unavailable now";
    let server = FakeModel::deciding(refusing("response_format", words, 400)).await;
    let model = client(&server);
    assert_eq!(ask(&model).await.unwrap(), ("{}".to_owned(), 2));
    assert_eq!(ask(&model).await.unwrap(), ("{}".to_owned(), 1));
    assert_eq!(forms(&server), [(true, true), (false, true), (false, true)]);

    let words = "Unsupported value: 'temperature' does not support 0.2 with this model.";
    let server = FakeModel::deciding(refusing("temperature", words, 400)).await;
    assert_eq!(ask(&client(&server)).await.unwrap().1, 2);
    assert_eq!(forms(&server), [(true, true), (true, false)]);

    let words = "Failed to parse grammar";
    let server = FakeModel::deciding(refusing("response_format", words, 500)).await;
    assert_eq!(ask(&client(&server)).await.unwrap().1, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_has_nothing_to_do_with_the_form_is_told_and_not_remembered() {
    let refused = error(422, "no such project", "invalid_request_error");
    let rest: Vec<Next> = vec![refused.clone(), refused.clone(), refused, says("{}")];
    let server = FakeModel::start(rest, None).await;
    let model = client(&server);
    let told = ask(&model).await.unwrap_err();
    assert_eq!(told.kind(), "refused");
    assert_eq!(
        forms(&server),
        [(true, true), (false, true), (false, false)]
    );
    ask(&model).await.unwrap();
    assert_eq!(forms(&server)[3], (true, true));

    let server = FakeModel::start(vec![error(503, "overloaded", "server_error")], None).await;
    assert_eq!(ask(&client(&server)).await.unwrap_err().kind(), "server");
    assert_eq!(server.requests().len(), 1);
}
