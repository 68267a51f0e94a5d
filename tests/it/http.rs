//! The HTTP channel: what a program may say, whose questions it answers, and that its view of a journal has no gap.

use crate::support::{
    PATIENCE, call, calls, journals, make_repository, no_whatsapp, run_command, says,
};
use journeyman::cli::assemble::{Assembly, assemble, project_workspace};
use journeyman::config::{HttpClient, Settings};
use journeyman::doors::front::{self, Terms};
use journeyman::doors::http::caller::{
    CLIENT_HEADER, Line, REPLAY_WINDOW_SECONDS, SIGNATURE_HEADER, TIMESTAMP_HEADER, sign,
};
use journeyman::doors::{http, server};
use journeyman::world::clock;
use journeyman::world::model::Model;
use journeyman::world::model::scripted::Scripted;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const CI: &str = "secret-of-ci-0123456789abcdef";
const SLACK: &str = "secret-of-slack-0123456789abc";

/// A real server on loopback with two clients.
struct Desk {
    url: String,
    http: reqwest::Client,
    settings: Settings,
    replies: Value,
    running: Option<(Assembly, JoinHandle<()>)>,
    folder: TempDir,
}

impl Desk {
    async fn new(replies: &[Value]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = Settings::demo(folder.path(), no_whatsapp());
        settings.whatsapp = None;
        settings.http_clients = [("ci", CI), ("slack", SLACK)]
            .map(|(name, secret)| HttpClient {
                name: name.into(),
                secret: secret.into(),
            })
            .into();
        make_repository(&folder.path().join("projects/shop"));
        let mut desk = Self {
            url: String::new(),
            http: reqwest::Client::new(),
            settings,
            replies: json!({"replies": replies}),
            running: None,
            folder,
        };
        desk.begin().await;
        desk
    }

    async fn begin(&mut self) {
        let script = Scripted::parse(&self.replies.to_string()).expect("a recording");
        let workspace = project_workspace(&self.settings).expect("a workspace");
        let assembly = assemble(&self.settings, Model::Scripted(script), workspace).expect("a hub");
        assembly.hub.recover().expect("what was left is taken up");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        self.url = format!("http://{}", listener.local_addr().expect("an address"));
        let router = server::router(assembly.hub.clone(), None).merge(http::router(
            assembly.hub.clone(),
            self.settings.http_clients.clone(),
        ));
        let terms = Terms::from(&self.settings.limits);
        let served = front::serve(listener, router, terms, assembly.shutdown.clone());
        let served = tokio::spawn(served);
        self.running = Some((assembly, served));
    }

    async fn restart(&mut self) {
        let (assembly, served) = self.running.take().expect("it runs");
        assembly.shutdown.cancel();
        let ended = tokio::time::timeout(PATIENCE, served).await;
        ended
            .expect("streams end with the server")
            .expect("no panic");
        assembly.hub.rest().await;
        drop(assembly);
        self.begin().await;
    }

    fn request(&self, secret: &str, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.url));
        request.header("authorization", format!("Bearer {secret}"))
    }

    async fn post(&self, secret: &str, path: &str, body: &Value) -> (u16, Value) {
        let request = self.request(secret, Method::POST, path);
        let request = request.header("content-type", "application/json");
        answered(request.body(body.to_string())).await
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        answered(self.request(CI, Method::GET, path)).await
    }

    async fn says(&self, text: &str) -> Value {
        let (status, taken) = self.post(CI, "/v1/messages", &json!({"text": text})).await;
        assert_eq!(status, 202, "{taken}");
        taken
    }

    async fn follow(&self, session: &str, query: &str, last: Option<&str>) -> Events {
        let path = format!("/v1/sessions/{session}/events{query}");
        let mut request = self.request(CI, Method::GET, &path);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events {
            response,
            buffer: String::new(),
        }
    }

    /// The lines of the only journal.
    fn journal(&self) -> Vec<String> {
        let paths = journals(&self.settings.data_dir);
        assert_eq!(paths.len(), 1);
        let text = fs::read_to_string(&paths[0]).expect("the journal");
        text.lines().map(str::to_owned).collect()
    }
}

/// Every answer must be one that the description names, for its path, its method and its status.
async fn answered(request: RequestBuilder) -> (u16, Value) {
    let request = request.build().expect("a request");
    let (method, url) = (request.method().clone(), request.url().clone());
    let response = reqwest::Client::new()
        .execute(request)
        .await
        .expect("an answer");
    let status = response.status().as_u16();
    let media = response.headers()["content-type"]
        .to_str()
        .expect("ASCII")
        .to_owned();
    let body = response.text().await.expect("a text");
    let described = described(url.path(), &method);
    if let (Some(described), true) = (described, status != 405) {
        let answer = &described["responses"][status.to_string()];
        assert!(
            answer.is_object(),
            "{method} {url}: {status} is not described"
        );
    }
    if status >= 400 {
        assert_eq!(media, "application/problem+json", "{body}");
    }
    let body: Value = serde_json::from_str(&body).unwrap_or(Value::String(body));
    if status >= 400 {
        assert_eq!(body["status"], json!(status));
        assert!(
            body["detail"]
                .as_str()
                .is_some_and(|detail| detail.len() > 10)
        );
    }
    (status, body)
}

fn description() -> Value {
    serde_json::from_str(http::OPENAPI).expect("JSON")
}

fn described(path: &str, method: &Method) -> Option<Value> {
    let document = description();
    let paths = document["paths"].as_object().expect("paths");
    let fits = |template: &str| {
        let (a, b): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.starts_with('{') || *a == b)
    };
    let (_, found) = paths.iter().find(|(template, _)| fits(template))?;
    found.get(method.as_str().to_ascii_lowercase()).cloned()
}

struct Events {
    response: Response,
    buffer: String,
}

struct Shown {
    id: String,
    event: String,
    data: String,
}

impl Events {
    /// The next event; `None` where the stream ended.
    async fn next(&mut self) -> Option<Shown> {
        let found = async {
            loop {
                if let Some((event, rest)) = self.buffer.split_once("\n\n") {
                    let (event, rest) = (event.to_owned(), rest.to_owned());
                    self.buffer = rest;
                    if !event.starts_with(':') {
                        return Some(shown(&event));
                    }
                    continue;
                }
                let chunk = self.response.chunk().await.ok().flatten()?;
                self.buffer += std::str::from_utf8(&chunk).expect("whole characters");
            }
        };
        let next = tokio::time::timeout(PATIENCE, found).await;
        next.expect("an event in time")
    }

    async fn until(&mut self, event: &str) -> Shown {
        loop {
            let next = self.next().await.expect("the stream goes on");
            if next.event == event {
                return next;
            }
        }
    }

    async fn rest(mut self) -> Vec<Shown> {
        let mut all = Vec::new();
        while let Some(next) = self.next().await {
            all.push(next);
        }
        all
    }
}

fn shown(event: &str) -> Shown {
    let field = |name: &str| {
        let mut lines = event.lines();
        let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        found.unwrap_or_default().to_owned()
    };
    Shown {
        id: field("id"),
        event: field("event"),
        data: field("data"),
    }
}

fn id_of(taken: &Value) -> String {
    taken["session"].as_str().expect("a session").to_owned()
}

fn data(event: &Shown) -> Value {
    serde_json::from_str(&event.data).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_says_something_and_follows_the_answer() {
    let desk = Desk::new(&[says("Hello there.")]).await;
    let taken = desk.says("hello").await;
    assert_eq!(
        (&taken["chat"], &taken["seq"]),
        (&json!("http:ci"), &json!(2))
    );
    let mut events = desk.follow(&id_of(&taken), "", None).await;
    let first = events.next().await.expect("the first line");
    assert_eq!(first.event, "session_started");
    let received = data(&events.next().await.expect("the second"));
    assert_eq!(received["message"]["id"], taken["id"]);
    let sent = data(&events.until("send_started").await);
    assert_eq!(
        (sent["kind"].as_str(), sent["text"].as_str()),
        (Some("final"), Some("Hello there."))
    );
    let finished = data(&events.until("send_finished").await);
    assert_eq!(finished["error"], Value::Null, "nothing is sent anywhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_known_secret_or_a_fresh_signature_over_the_whole_request_is_let_in() {
    let desk = Desk::new(&[says("One."), says("Two.")]).await;
    let body = json!({"text": "hello"}).to_string();
    let now = clock::now().0 / 1_000;
    let line = Line {
        method: "POST",
        path: "/v1/messages",
    };
    let send = async |name: &str, at: String, signature: String, body: &str| {
        let request = desk.http.post(format!("{}/v1/messages", desk.url));
        let request = request
            .header("content-type", "application/json")
            .header(CLIENT_HEADER, name)
            .header(TIMESTAMP_HEADER, at)
            .header(SIGNATURE_HEADER, signature);
        answered(request.body(body.to_owned())).await
    };
    let signed = |at: i64| sign(CI, at, line, body.as_bytes());
    let window = i64::try_from(REPLAY_WINDOW_SECONDS).expect("small");
    let elsewhere = Line {
        path: "/v1/approvals/ABCD",
        ..line
    };
    let wrong = [
        ("ci", now, signed(now).replace("sha256=", ""), &*body),
        ("ci", now, "sha256=".into(), &body),
        ("ci", now, sign(SLACK, now, line, body.as_bytes()), &body),
        ("slack", now, signed(now), &body),
        ("nobody", now, signed(now), &body),
        ("ci", now + 1, signed(now), &body),
        ("ci", now, signed(now), "{\"text\": \"bye\"}"),
        ("ci", now, sign(CI, now, elsewhere, body.as_bytes()), &body),
        ("ci", now - window - 5, signed(now - window - 5), &body),
        ("ci", now + window + 60, signed(now + window + 60), &body),
    ];
    for (name, at, signature, body) in wrong {
        let (status, answer) = send(name, at.to_string(), signature, body).await;
        assert_eq!(status, 401, "{answer}");
    }
    for secret in ["", "wrong", &CI[1..], &format!("{CI} ")[..5]] {
        let (status, _) = desk
            .post(secret, "/v1/messages", &json!({"text": "x"}))
            .await;
        assert_eq!(status, 401);
    }
    let bare = desk.http.get(format!("{}/v1/sessions", desk.url));
    assert_eq!(answered(bare).await.0, 401);
    assert!(
        journals(&desk.settings.data_dir).is_empty(),
        "nothing was done"
    );

    let (status, first) = send("ci", now.to_string(), signed(now), &body).await;
    assert_eq!(status, 202);
    // Played back, it is the same message.
    let (status, again) = send("ci", now.to_string(), signed(now), &body).await;
    assert_eq!((status, &again["duplicate"]), (200, &json!(true)));
    assert_eq!(
        (&again["session"], &again["seq"]),
        (&first["session"], &first["seq"])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_id_is_one_message_also_after_a_restart() {
    let mut desk = Desk::new(&[says("One.")]).await;
    let body = json!({"id": "build-4711", "text": "hello"});
    let (status, first) = desk.post(CI, "/v1/messages", &body).await;
    assert_eq!((status, &first["duplicate"]), (202, &json!(false)));
    for round in 0..2 {
        let (status, again) = desk.post(CI, "/v1/messages", &body).await;
        assert_eq!(status, 200, "{again}");
        assert_eq!(
            (&again["session"], &again["seq"]),
            (&first["session"], &first["seq"])
        );
        let by_header = desk.request(CI, Method::POST, "/v1/messages");
        let by_header = by_header
            .header("content-type", "application/json")
            .header("idempotency-key", "build-4711")
            .body(json!({"text": "hello"}).to_string());
        assert_eq!(answered(by_header).await.0, 200);
        if round == 0 {
            desk.restart().await;
        }
    }
    // Another client's, and another chat's, are others.
    let (status, other) = desk.post(SLACK, "/v1/messages", &body).await;
    assert_eq!((status, &other["chat"]), (202, &json!("http:slack")));
    let below = json!({"id": "build-4711", "text": "hello", "chat": "C012"});
    let (status, other) = desk.post(CI, "/v1/messages", &below).await;
    assert_eq!((status, &other["chat"]), (202, &json!("http:ci/C012")));
    assert_ne!(other["session"], first["session"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_message_is_refused_with_the_reason() {
    let desk = Desk::new(&[]).await;
    for wrong in [
        json!({}),
        json!([]),
        json!({"text": " \n\u{1}"}),
        json!({"text": "x", "id": ""}),
        json!({"text": "x", "id": "with blank"}),
        json!({"text": "x", "id": "x".repeat(201)}),
        json!({"text": "x", "chat": "a/b"}),
        json!({"text": "x", "surprise": 1}),
        json!({"text": 1}),
    ] {
        let (status, answer) = desk.post(CI, "/v1/messages", &wrong).await;
        assert_eq!(
            (status, &answer["code"]),
            (400, &json!("invalid")),
            "{wrong}"
        );
    }
    let form = desk
        .request(CI, Method::POST, "/v1/messages")
        .body("text=x");
    assert_eq!(answered(form).await.0, 415);
    let long = json!({"text": "x".repeat(1_100_000)});
    assert_eq!(desk.post(CI, "/v1/messages", &long).await.0, 413);
    assert_eq!(desk.get("/v1/messages").await.0, 405);
    assert_eq!(desk.get("/v1/nothing").await.0, 404);
    assert!(journals(&desk.settings.data_dir).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_by_its_client_and_by_no_other() {
    let desk = Desk::new(&[
        run_command("frobnicate one"),
        run_command("frobnicate two"),
        says("Done."),
    ])
    .await;
    let taken = desk.says("frobnicate").await;
    let mut events = desk.follow(&id_of(&taken), "", None).await;
    let code = async |events: &mut Events| {
        let asked = data(&events.until("approval_asked").await);
        events.until("send_started").await;
        asked["approval"].as_str().expect("a code").to_owned()
    };
    let first = code(&mut events).await;
    let path = format!("/v1/approvals/{first}");
    let approve = json!({"decision": "approve", "id": "yes-1"});
    for (secret, path, body, status) in [
        (SLACK, &*path, &approve, 404),
        (CI, "/v1/approvals/0000", &approve, 404),
        (CI, "/v1/approvals/%ff", &approve, 404),
        (
            CI,
            &path,
            &json!({"decision": "approve", "chat": "C012"}),
            404,
        ),
        (CI, &path, &json!({"decision": "perhaps"}), 400),
        (
            CI,
            &path,
            &json!({"decision": "approve", "reason": "x"}),
            400,
        ),
    ] {
        assert_eq!(
            desk.post(secret, path, body).await.0,
            status,
            "{path} {body}"
        );
    }
    // Lower case is the same code, as in a chat.
    let lower = path.to_ascii_lowercase();
    let (status, answered) = desk.post(CI, &lower, &approve).await;
    assert_eq!((status, &answered["session"]), (202, &taken["session"]));
    let given = data(&events.until("approval_given").await);
    assert_eq!(
        (&given["approval"], &given["by"]["who"]),
        (&json!(first), &json!("http:ci"))
    );
    let (status, again) = desk.post(CI, &path, &approve).await;
    assert_eq!((status, &again["seq"]), (200, &answered["seq"]));
    assert_eq!(
        desk.post(CI, &path, &json!({"decision": "deny"})).await.0,
        404
    );

    let second = code(&mut events).await;
    let deny = json!({"decision": "deny", "reason": "use pytest, please"});
    let path = format!("/v1/approvals/{second}");
    assert_eq!(desk.post(CI, &path, &deny).await.0, 202);
    let refused = data(&events.until("approval_refused").await);
    assert_eq!(refused["reason"], json!("use pytest, please"));
    events.until("turn_ended").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_before_a_restart_is_answered_always() {
    let mut desk = Desk::new(&[
        run_command("frobnicate one"),
        run_command("frobnicate one"),
        says("Done."),
    ])
    .await;
    let taken = desk.says("frobnicate").await;
    let session = id_of(&taken);
    let mut events = desk.follow(&session, "", None).await;
    let asked = data(&events.until("approval_asked").await);
    let last = events.until("send_finished").await.id;
    desk.restart().await;
    assert!(
        events.next().await.is_none(),
        "the stream ended with the server"
    );
    let mut events = desk.follow(&session, "", Some(&last)).await;
    let path = format!(
        "/v1/approvals/{}",
        asked["approval"].as_str().expect("a code")
    );
    let (status, _) = desk.post(CI, &path, &json!({"decision": "always"})).await;
    assert_eq!(status, 202);
    let given = data(&events.until("approval_given").await);
    assert!(
        given["always"].is_object() || given["always"].is_array(),
        "{given}"
    );
    let end = events.until("turn_ended").await;
    assert_eq!(
        data(&end)["text"],
        json!("Done."),
        "the second one asked nothing"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_sees_its_own_sessions_and_no_others() {
    let desk = Desk::new(&[says("One."), says("Two."), says("Three.")]).await;
    assert_eq!(
        desk.get("/v1/sessions").await,
        (200, json!({"sessions": [], "more": false}))
    );
    let mine = desk.says("first").await;
    let body = json!({"text": "second", "chat": "C012"});
    let (_, below) = desk.post(CI, "/v1/messages", &body).await;
    let (_, other) = desk
        .post(SLACK, "/v1/messages", &json!({"text": "third"}))
        .await;
    let (status, listed) = desk.get("/v1/sessions").await;
    assert_eq!(status, 200);
    let ids: BTreeSet<_> = listed["sessions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|session| session["id"].as_str().expect("an id").to_owned())
        .collect();
    assert_eq!(ids, BTreeSet::from([id_of(&mine), id_of(&below)]));
    assert_eq!(listed["sessions"][0]["workspace"], json!("shop"));
    for id in [
        &*id_of(&other),
        "20261122-000000-abcdef",
        "..%2f..%2fetc",
        "%ff",
    ] {
        let path = format!("/v1/sessions/{id}/events?follow=false");
        assert_eq!(desk.get(&path).await.0, 404, "{id}");
    }
    let resume = format!("/agent-resume {}", id_of(&other));
    let (_, taken) = desk
        .post(CI, "/v1/messages", &json!({"text": resume}))
        .await;
    assert_ne!(taken["session"], other["session"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_starts_at_any_line_and_shows_the_journal_word_for_word() {
    let desk = Desk::new(&[calls(&[call("list_files", json!({}))]), says("Done.")]).await;
    let taken = desk.says("look").await;
    let session = id_of(&taken);
    let mut live = desk.follow(&session, "", None).await;
    live.until("send_finished").await;
    let journal = desk.journal();
    let lines = journal.len();
    let mut ids = Vec::new();
    for from in 1..=lines + 1 {
        let query = format!("?from={from}&follow=false");
        let shown = desk.follow(&session, &query, None).await.rest().await;
        let data: Vec<_> = shown.iter().map(|event| event.data.as_str()).collect();
        assert_eq!(data, journal[from - 1..], "from {from}");
        if from == 1 {
            ids = shown.into_iter().map(|event| event.id).collect();
        }
    }
    for (at, id) in ids.iter().enumerate() {
        for last in [id.as_str(), id.split('-').next().expect("a number")] {
            // It wins over `from`.
            let events = desk
                .follow(&session, "?from=1&follow=false", Some(last))
                .await;
            assert_eq!(events.rest().await.len(), lines - at - 1);
        }
    }
    let path = format!("/v1/sessions/{session}/events");
    for (query, last, status) in [
        (format!("?from={}", lines + 2), None, 409),
        (String::new(), Some(format!("{}-00", lines + 2)), 409),
        (String::new(), Some("2-0123456789ab".to_owned()), 409),
        (String::new(), Some("x".to_owned()), 400),
        ("?from=0".to_owned(), None, 400),
        ("?from=x".to_owned(), None, 400),
        ("?to=3".to_owned(), None, 400),
    ] {
        let mut request = desk.request(CI, Method::GET, &format!("{path}{query}"));
        if let Some(last) = &last {
            request = request.header("last-event-id", last);
        }
        assert_eq!(answered(request).await.0, status, "{query} {last:?}");
    }
}

/// Readers join, leave and come again while a session writes its journal as fast as it can.
#[tokio::test(flavor = "multi_thread")]
async fn readers_who_come_and_go_see_every_line_once() {
    let mut replies: Vec<_> = (0..40)
        .map(|at| calls(&[call("search", json!({"pattern": format!("word {at}")}))]))
        .collect();
    replies.push(says("Done."));
    let mut desk = Desk::new(&[]).await;
    desk.settings.limits.rounds_max = 100;
    desk.replies = json!({"replies": replies});
    desk.restart().await;
    let taken = desk.says("read").await;
    let session = id_of(&taken);
    let reader = async |at: usize| {
        let (mut seen, mut last) = (Vec::new(), None::<String>);
        loop {
            let mut events = desk.follow(&session, "", last.as_deref()).await;
            for _ in 0..at * 7 + 3 {
                let event = events.next().await.expect("it goes on");
                let ended = event.event == "turn_ended";
                last = Some(event.id);
                seen.push(event.data);
                if ended {
                    return seen;
                }
            }
        }
    };
    let seen = futures_util::future::join_all((0..8).map(reader)).await;
    let journal = desk.journal();
    for lines in seen {
        assert_eq!(lines, journal[..lines.len()]);
        assert!(lines.len() > 100);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_has_so_many_streams_and_no_more() {
    let desk = Desk::new(&[says("Hello.")]).await;
    let session = id_of(&desk.says("hello").await);
    let mut open = Vec::new();
    for _ in 0..32 {
        open.push(desk.follow(&session, "", None).await);
    }
    let path = format!("/v1/sessions/{session}/events");
    let (status, told) = desk.get(&path).await;
    assert_eq!((status, &told["code"]), (503, &json!("busy")));
    drop(open);
    let free = async {
        while desk.get(&format!("{path}?follow=false")).await.0 != 200 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, free)
        .await
        .expect("places are free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_is_served_and_names_every_route() {
    let desk = Desk::new(&[]).await;
    let open = desk.http.get(format!("{}/openapi.json", desk.url));
    let (status, served) = answered(open).await;
    assert_eq!((status, &served), (200, &description()));
    assert_eq!(served["openapi"], json!("3.1.0"));
    let health = desk.http.get(format!("{}/healthz", desk.url));
    assert_eq!(answered(health).await, (200, json!("ok\n")));
    let source = include_str!("../../src/doors/http/mod.rs");
    let routes: BTreeSet<_> = source
        .split(".route(\"")
        .skip(1)
        .map(|rest| rest.split('"').next().expect("a path"))
        .chain(["/healthz"])
        .collect();
    let described = served["paths"].as_object().expect("paths");
    assert_eq!(routes, described.keys().map(String::as_str).collect());
    for code in source
        .split("Problem::new(")
        .chain(include_str!("../../src/doors/http/problem.rs").split("Self::new("))
        .skip(1)
    {
        let word = code.split('"').nth(1).expect("a code");
        let known =
            served["components"]["schemas"]["Problem"]["properties"]["code"]["enum"].as_array();
        if word
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        {
            assert!(known.expect("codes").contains(&json!(word)), "{word}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_client_there_is_no_channel() {
    let mut desk = Desk::new(&[]).await;
    desk.settings.http_clients.clear();
    desk.restart().await;
    for path in ["/openapi.json", "/v1/sessions", "/v1/messages"] {
        let answer = desk.http.get(format!("{}{path}", desk.url)).send().await;
        assert_eq!(answer.expect("an answer").status(), 404);
    }
    assert!(desk.folder.path().exists());
}
