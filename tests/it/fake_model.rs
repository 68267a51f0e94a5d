//! An OpenAI-compatible server on loopback that says what a test tells it to, quirks included.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What the next request gets.
#[derive(Debug, Clone)]
pub enum Next {
    /// A streamed (or whole, if asked so) answer: text and calls.
    Says(String, Vec<(String, Value)>),
    /// Server-sent events, word for word; without the end that is not in here.
    Raw(String),
    /// A status with `Retry-After` and a body.
    Fails(u16, Option<u64>, Value),
    /// The connection breaks off after this much of a stream.
    Breaks(String),
    /// The beginning of an answer, and then nothing more.
    Hangs(String),
}

pub fn says(text: &str) -> Next {
    Next::Says(text.into(), Vec::new())
}

pub fn calls(tool: &str, arguments: Value) -> Next {
    Next::Says(String::new(), vec![(tool.into(), arguments)])
}

pub fn error(status: u16, message: &str, code: &str) -> Next {
    Next::Fails(
        status,
        None,
        json!({"error": {"message": message, "code": code}}),
    )
}

#[derive(Clone)]
pub struct FakeModel {
    pub base_url: String,
    shared: Arc<Shared>,
}

struct Shared {
    next: Mutex<VecDeque<Next>>,
    requests: Mutex<Vec<Value>>,
    /// Given once the list is used up.
    rest: Option<Next>,
    /// The n-th answer of a conversation, however often it is asked for: what a killed program needs.
    recorded: Vec<Next>,
    /// Decides by what the request says, where the rest does not.
    decide: Option<Decide>,
    bodies: Mutex<Vec<String>>,
    hanging: Arc<AtomicUsize>,
}

/// An answer that hangs, as long as somebody still listens.
struct Hanging(Arc<AtomicUsize>);

impl Drop for Hanging {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

type Decide = Box<dyn Fn(&Value) -> Next + Send + Sync>;

impl FakeModel {
    pub async fn start(next: Vec<Next>, rest: Option<Next>) -> Self {
        Self::serve(next, rest, Vec::new(), None).await
    }

    /// Answers by what the conversation already has, as a recording does.
    pub async fn recorded(recorded: Vec<Next>) -> Self {
        Self::serve(Vec::new(), None, recorded, None).await
    }

    /// Answers by what the request says, and counts four bytes a token: for conversations of which something is left out.
    pub async fn deciding(decide: impl Fn(&Value) -> Next + Send + Sync + 'static) -> Self {
        Self::serve(Vec::new(), None, Vec::new(), Some(Box::new(decide))).await
    }

    async fn serve(
        next: Vec<Next>,
        rest: Option<Next>,
        recorded: Vec<Next>,
        decide: Option<Decide>,
    ) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let base_url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let shared = Arc::new(Shared {
            next: Mutex::new(next.into()),
            requests: Mutex::default(),
            rest,
            recorded,
            decide,
            bodies: Mutex::default(),
            hanging: Arc::default(),
        });
        let app = Router::new().fallback(answer).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { base_url, shared }
    }

    /// How many answers hang, their beginning given.
    pub fn hanging(&self) -> usize {
        self.shared.hanging.load(Ordering::SeqCst)
    }

    /// Every request body so far, parsed.
    pub fn requests(&self) -> Vec<Value> {
        self.shared.requests.lock().expect("no panic").clone()
    }

    /// The same, byte for byte.
    pub fn bodies(&self) -> Vec<String> {
        self.shared.bodies.lock().expect("no panic").clone()
    }
}

async fn answer(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let streamed = request["stream"] == json!(true);
    let text = String::from_utf8_lossy(&body).into_owned();
    let tokens = match shared.decide {
        Some(_) => body.len() as u64 / 4,
        None => 100,
    };
    shared.bodies.lock().expect("no panic").push(text);
    let decided = shared.decide.as_ref().map(|decide| decide(&request));
    let messages = request["messages"].as_array();
    let answered = messages.map_or(0, |messages| {
        messages.iter().filter(|m| m["role"] == "assistant").count()
    });
    let number = {
        let mut requests = shared.requests.lock().expect("no panic");
        requests.push(request);
        requests.len()
    };
    let next = shared
        .next
        .lock()
        .expect("no panic")
        .pop_front()
        .or(decided)
        .or_else(|| shared.recorded.get(answered).cloned())
        .or_else(|| shared.rest.clone());
    match next {
        None => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "the test has no more answers",
        )
            .into_response(),
        Some(Next::Says(text, calls)) if streamed => events(stream(number, tokens, &text, &calls)),
        Some(Next::Says(text, calls)) => whole(number, tokens, &text, &calls),
        Some(Next::Raw(text)) => events(text),
        Some(Next::Fails(status, retry_after, body)) => {
            let mut response = (
                StatusCode::from_u16(status).expect("a status"),
                body.to_string(),
            )
                .into_response();
            if let Some(seconds) = retry_after {
                response.headers_mut().insert("retry-after", seconds.into());
            }
            response
        }
        Some(Next::Hangs(text)) => {
            let chunk =
                json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]});
            let beginning =
                futures_util::stream::iter([Ok::<_, Infallible>(format!("data: {chunk}\n\n"))]);
            let hanging = shared.hanging.clone();
            let rest = futures_util::stream::once(async move {
                hanging.fetch_add(1, Ordering::SeqCst);
                let _hanging = Hanging(hanging);
                std::future::pending().await
            });
            (
                [("content-type", "text/event-stream")],
                Body::from_stream(beginning.chain(rest)),
            )
                .into_response()
        }
        Some(Next::Breaks(text)) => {
            let broken =
                futures_util::stream::iter([Ok(text), Err(std::io::Error::other("broken off"))]);
            (
                [("content-type", "text/event-stream")],
                Body::from_stream(broken),
            )
                .into_response()
        }
    }
}

fn events(text: String) -> Response {
    ([("content-type", "text/event-stream")], text).into_response()
}

fn tool_calls(number: usize, calls: &[(String, Value)]) -> Vec<Value> {
    let call = |(i, (name, arguments)): (usize, &(String, Value))| {
        let arguments = arguments
            .as_str()
            .map(str::to_owned)
            .unwrap_or_else(|| arguments.to_string());
        json!({"index": i, "id": format!("call{number:04}{i}"), "type": "function", "function": {"name": name, "arguments": arguments}})
    };
    calls.iter().enumerate().map(call).collect()
}

fn finish(calls: &[(String, Value)]) -> &'static str {
    if calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    }
}

fn stream(number: usize, tokens: u64, text: &str, calls: &[(String, Value)]) -> String {
    let mut delta = json!({"role": "assistant", "content": text});
    if !calls.is_empty() {
        delta["tool_calls"] = json!(tool_calls(number, calls));
    }
    let chunks = [
        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish(calls)}]}),
        json!({"choices": [], "usage": {"prompt_tokens": tokens, "completion_tokens": 10}}),
    ];
    let lines: String = chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\n\n"))
        .collect();
    format!("{lines}data: [DONE]\n\n")
}

fn whole(number: usize, tokens: u64, text: &str, calls: &[(String, Value)]) -> Response {
    let message =
        json!({"role": "assistant", "content": text, "tool_calls": tool_calls(number, calls)});
    let body = json!({
        "choices": [{"index": 0, "message": message, "finish_reason": finish(calls)}],
        "usage": {"prompt_tokens": tokens, "completion_tokens": 10},
    });
    ([("content-type", "application/json")], body.to_string()).into_response()
}
