//! A model on loopback that answers at once, in the stream format of chat completions, and notes what comes in.

use crate::program::Usage;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use futures_util::{StreamExt, stream};
use std::collections::HashSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// The server; it ends with this process.
pub struct Loopback {
    pub url: String,
    shared: Arc<Shared>,
}

struct Shared {
    /// Answers that are calls; the next one is a text.
    calls: usize,
    silent_from: usize,
    /// From the last frame to the end of the answer's body: many servers write them apart.
    end_after: Duration,
    /// Whose usage is noted with every request; 0 for nobody's.
    watched: AtomicU32,
    noted: Mutex<Vec<Arrival>>,
    came: Condvar,
}

/// One request.
#[derive(Clone)]
pub struct Arrival {
    /// When it was there as a whole.
    pub at: Instant,
    /// When the answer was on its way.
    pub answered: Instant,
    pub body: Bytes,
    pub usage: Option<Usage>,
    from: SocketAddr,
}

impl Arrival {
    /// Everything up to the end of the last message: what a provider's cache may recognise next time.
    pub fn prefix(&self) -> &[u8] {
        let end = b"]}";
        self.body
            .strip_suffix(end)
            .expect("a request ends with its messages")
    }
}

impl Loopback {
    /// Calls `echo hi 1`, `echo hi 2` and so on, for the same call again and again would be stopped; so many times, then says that it is done.
    pub fn answering(calls: usize) -> Self {
        Self::start(calls, usize::MAX, Duration::ZERO)
    }

    /// Never answers request number `from` and those after it.
    pub fn silent_from(from: usize) -> Self {
        Self::start(usize::MAX, from, Duration::ZERO)
    }

    /// Ends its answers a little after their last frame.
    pub fn ending_late(calls: usize) -> Self {
        Self::start(calls, usize::MAX, Duration::from_millis(1))
    }

    fn start(calls: usize, silent_from: usize, end_after: Duration) -> Self {
        let (watched, noted, came) = (AtomicU32::new(0), Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared {
            calls,
            silent_from,
            end_after,
            watched,
            noted,
            came,
        });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind to loopback");
        listener
            .set_nonblocking(true)
            .expect("a listener for tokio");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let router = Router::new()
            .route("/v1/chat/completions", post(chat))
            .route("/graph/{*rest}", any(graph))
            .with_state(shared.clone())
            .into_make_service_with_connect_info::<SocketAddr>();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                axum::serve(listener, router).await.expect("serve");
            });
        });
        Self { url, shared }
    }

    pub fn watch(&self, process: u32) {
        self.shared.watched.store(process, Ordering::Relaxed);
    }

    pub fn arrivals(&self) -> Vec<Arrival> {
        self.shared.noted.lock().expect("noted").clone()
    }

    pub fn connections(&self) -> usize {
        let arrivals = self.arrivals();
        arrivals
            .iter()
            .map(|arrival| arrival.from)
            .collect::<HashSet<_>>()
            .len()
    }

    pub fn wait_for(&self, requests: usize) {
        let noted = self.shared.noted.lock().expect("noted");
        let waited = self
            .shared
            .came
            .wait_timeout_while(noted, PATIENCE, |noted| noted.len() < requests);
        assert!(
            !waited.expect("noted").1.timed_out(),
            "request {requests} came"
        );
    }
}

async fn chat(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    body: Bytes,
) -> Response {
    let at = Instant::now();
    let watched = shared.watched.load(Ordering::Relaxed);
    let usage = (watched != 0).then(|| Usage::of(watched)).flatten();
    let number = {
        let mut noted = shared.noted.lock().expect("noted");
        noted.push(Arrival {
            at,
            answered: Instant::now(),
            body,
            usage,
            from,
        });
        shared.came.notify_all();
        noted.len()
    };
    if number >= shared.silent_from {
        std::future::pending::<()>().await;
    }
    let frames = if number <= shared.calls {
        call(number)
    } else {
        text()
    };
    let end_after = shared.end_after;
    let end = stream::once(async move {
        if !end_after.is_zero() {
            tokio::time::sleep(end_after).await;
        }
        Ok(Bytes::new())
    });
    let body = Body::from_stream(stream::iter(frames).chain(end));
    shared.noted.lock().expect("noted")[number - 1].answered = Instant::now();
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

type Frames = Vec<Result<Bytes, Infallible>>;

fn call(number: usize) -> Frames {
    let delta = format!(
        r#"{{"role":"assistant","content":null,"tool_calls":[{{"index":0,"id":"call_{number}","type":"function","function":{{"name":"run_command","arguments":"{{\"command\":\"echo hi {number}\"}}"}}}}]}}"#
    );
    frames(&delta, "tool_calls")
}

fn text() -> Frames {
    frames(r#"{"role":"assistant","content":"Done."}"#, "stop")
}

fn frames(delta: &str, finish: &str) -> Frames {
    let frame = |data: String| Ok(Bytes::from(format!("data: {data}\n\n")));
    let chunk = |choices: String, usage: &str| {
        frame(format!(
            r#"{{"id":"c","object":"chat.completion.chunk","created":1,"model":"instant","choices":{choices}{usage}}}"#
        ))
    };
    vec![
        chunk(
            format!(r#"[{{"index":0,"delta":{delta},"finish_reason":null}}]"#),
            "",
        ),
        chunk(
            format!(r#"[{{"index":0,"delta":{{}},"finish_reason":"{finish}"}}]"#),
            "",
        ),
        chunk(
            "[]".into(),
            r#","usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}"#,
        ),
        frame("[DONE]".into()),
    ]
}

/// Everything that is sent to a chat arrives.
async fn graph() -> impl IntoResponse {
    (
        [(CONTENT_TYPE, "application/json")],
        r#"{"success":true,"messages":[{"id":"wamid.out"}]}"#,
    )
}
