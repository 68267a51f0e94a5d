//! What a person reads when the model's server misbehaves, and what is sent to it.

use crate::fake_model::{FakeModel, Next, calls, error, says};
use crate::program::{Program, Run};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

async fn run(model: &FakeModel) -> Run {
    Program::new(&model.base_url)
        .run(&["run", "list the files", "--no-approvals"])
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_tools_runs_streamed_and_not() {
    for streamed in [true, false] {
        let model = FakeModel::start(
            vec![calls("list_files", json!({})), says("Two files.")],
            None,
        )
        .await;
        let program = Program::new(&model.base_url);
        program.config("settings.toml", &format!("model_stream = {streamed}\n"));
        let run = program.run(&["run", "list the files"]).await;
        assert_eq!((run.code, run.out.trim()), (0, "Two files."), "{}", run.err);
        let requests = model.requests();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0]["stream"], json!(streamed));
        let results = requests[1]["messages"]
            .as_array()
            .expect("messages")
            .iter()
            .filter(|m| m["role"] == "tool")
            .count();
        assert_eq!(results, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_a_wrong_model_and_a_long_context_are_explained_at_once() {
    let table = [
        (
            error(401, "Incorrect API key provided", "invalid_api_key"),
            "OPENAI_API_KEY",
        ),
        (
            error(404, "The model `m` does not exist", "model_not_found"),
            "AGENT_MODEL",
        ),
        (
            error(
                400,
                "This model's maximum context length is 8192 tokens",
                "context_length_exceeded",
            ),
            "/new",
        ),
        (
            error(
                400,
                "request (9000 tokens) exceeds the available context size (8192 tokens)",
                "exceed_context_size_error",
            ),
            "/new",
        ),
        (
            error(429, "You exceeded your current quota", "insufficient_quota"),
            "quota",
        ),
    ];
    for (next, expected) in table {
        let model = FakeModel::start(vec![next], None).await;
        let run = run(&model).await;
        assert_eq!(run.code, 1, "{}", run.err);
        assert!(run.out.contains(expected), "{expected}: {}", run.out);
        assert_eq!(model.requests().len(), 1, "trying again would not help");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_host_is_named() {
    let program = Program::new("http://127.0.0.1:9/v1");
    program.config("limits.toml", "model_attempts_max = 2\n");
    let run = program.run(&["run", "hello"]).await;
    assert_eq!(run.code, 1);
    assert!(
        run.out.contains("127.0.0.1:9") && run.out.contains("OPENAI_BASE_URL"),
        "{}",
        run.out
    );
    assert!(run.out.contains("/agent-resume"), "{}", run.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_limits_are_waited_out_as_the_server_says() {
    let limited = Next::Fails(429, Some(1), json!({"error": {"message": "slow down"}}));
    let model = FakeModel::start(vec![limited, says("Hello.")], None).await;
    let started = Instant::now();
    let run = run(&model).await;
    assert_eq!((run.code, run.out.trim()), (0, "Hello."));
    assert!(started.elapsed() >= Duration::from_secs(1));
    let requests = model.requests();
    assert_eq!(requests[0], requests[1], "the same request again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_off_is_asked_again_and_nothing_of_it_is_believed() {
    let half =
        r#"data: {"choices":[{"index":0,"delta":{"content":"Half of"},"finish_reason":null}]}"#;
    let half = format!("{half}\n\n");
    let frame = "data: {\"error\":{\"message\":\"slot gone\",\"code\":500}}\n\n".to_owned();
    for broken in [
        Next::Breaks(half.clone()),
        Next::Raw(half.clone()),
        Next::Raw(format!("{half}data: [DONE]\n\n")),
        Next::Raw(frame),
    ] {
        let model = FakeModel::start(vec![broken.clone(), says("Whole.")], None).await;
        let run = run(&model).await;
        assert_eq!(
            (run.code, run.out.trim()),
            (0, "Whole."),
            "{broken:?}: {}",
            run.err
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_keeps_failing_ends_the_turn_resumable() {
    let model = FakeModel::start(vec![], Some(Next::Fails(500, None, json!("oops")))).await;
    let program = Program::new(&model.base_url);
    program.config("limits.toml", "model_attempts_max = 2\n");
    let run = program.run(&["run", "hello"]).await;
    assert_eq!(run.code, 1);
    assert!(
        run.out.contains("500") && run.out.contains("/agent-resume"),
        "{}",
        run.out
    );
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_arguments_and_unknown_tools_go_back_to_the_model() {
    let bad = Next::Says(
        String::new(),
        vec![
            ("read_lines".into(), json!("{\"path\": ")),
            ("fly".into(), json!({})),
        ],
    );
    let model = FakeModel::start(vec![bad, says("Sorry.")], None).await;
    let run = run(&model).await;
    assert_eq!((run.code, run.out.trim()), (0, "Sorry."), "{}", run.err);
    let second = &model.requests()[1]["messages"];
    let messages = second.as_array().expect("messages");
    let results: Vec<&str> = messages
        .iter()
        .filter(|m| m["role"] == "tool")
        .map(|m| m["content"].as_str().expect("text"))
        .collect();
    assert!(
        results[0].contains("not valid JSON") && results[1].contains("no tool \"fly\""),
        "{results:?}"
    );
    let repeated = &messages
        .iter()
        .find(|m| m["role"] == "assistant")
        .expect("the answer")["tool_calls"][0]["function"]["arguments"];
    assert!(
        serde_json::from_str::<Value>(repeated.as_str().expect("text")).is_ok(),
        "the history stays valid JSON"
    );
}

/// Invariant 9, and the promise about size.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_request_is_small_and_each_one_begins_with_the_one_before() {
    let look = || {
        calls(
            "read_lines",
            json!({"path": "notes.txt", "start": 1, "end": 3}),
        )
    };
    let model = FakeModel::start(vec![look(), look(), look(), says("Read.")], None).await;
    assert_eq!(run(&model).await.code, 0);
    let requests = model.requests();
    let first = requests[0].to_string().len();
    assert!(first < 8_000, "{first} bytes");
    for pair in requests.windows(2) {
        assert_eq!(pair[0]["tools"].to_string(), pair[1]["tools"].to_string());
        let (before, after) = (
            pair[0]["messages"].to_string(),
            pair[1]["messages"].to_string(),
        );
        assert!(after.starts_with(before.trim_end_matches(']')), "{after}");
    }
}
