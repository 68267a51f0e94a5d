//! A server on loopback as GitHub Enterprise is one: real repositories by `git http-backend`, and below `/api/v3` as much
//! of the API as pull requests need. It asks for a token, and keeps what everybody sent.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::Semaphore;

pub const TOKEN: &str = "token-of-ana-that-goes-nowhere-else";

/// One request, as it came.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// `Authorization`, decoded where it is basic.
    pub credentials: String,
    pub body: Value,
}

/// What the API answers next, instead of what it would: status, headers, body.
pub type Failure = (u16, Vec<(&'static str, String)>, Value);

#[derive(Clone)]
pub struct Forge {
    pub url: String,
    shared: Arc<Shared>,
}

struct Shared {
    folder: TempDir,
    requests: Mutex<Vec<Request>>,
    failures: Mutex<VecDeque<Failure>>,
    pulls: Mutex<Vec<Value>>,
    comments: Mutex<Vec<Value>>,
    /// Everything is sent elsewhere.
    redirect: Option<String>,
    /// A write that was done keeps its answer until it may go: (arrived, go).
    hold: Option<(Semaphore, Semaphore)>,
    pass: AtomicUsize,
}

impl Forge {
    pub async fn start() -> Self {
        Self::serve(None, false).await
    }

    pub async fn redirecting(to: &str) -> Self {
        Self::serve(Some(to.to_owned()), false).await
    }

    pub async fn holding() -> Self {
        Self::serve(None, true).await
    }

    async fn serve(redirect: Option<String>, hold: bool) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let shared = Arc::new(Shared {
            folder: tempfile::tempdir().expect("a folder"),
            requests: Mutex::default(),
            failures: Mutex::default(),
            pulls: Mutex::default(),
            comments: Mutex::default(),
            redirect,
            hold: hold.then(|| (Semaphore::new(0), Semaphore::new(0))),
            pass: AtomicUsize::new(0),
        });
        let forge = Self { url, shared };
        forge.make_repository();
        let app = Router::new()
            .fallback(answer)
            .with_state(forge.shared.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        forge
    }

    /// Bare, with a hook that protects `main`.
    fn make_repository(&self) {
        let folder = self.repository();
        crate::support::git(
            self.shared.folder.path(),
            &[
                "init",
                "--quiet",
                "--bare",
                "--initial-branch=main",
                &folder.display().to_string(),
            ],
        );
        let hook = "#!/bin/sh\nwhile read old new ref; do\n  test \"$ref\" != refs/heads/main || { echo 'main is protected here'; exit 1; }\ndone\n";
        let path = folder.join("hooks/pre-receive");
        fs::write(&path, hook).expect("a hook");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
    }

    pub fn repository(&self) -> PathBuf {
        self.shared.folder.path().join("ana/shop.git")
    }

    pub fn remote(&self) -> String {
        format!("{}/ana/shop.git", self.url)
    }

    pub fn api(&self) -> String {
        format!("{}/api/v3", self.url)
    }

    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().expect("no panic").clone()
    }

    /// Requests whose method and path begin so: `POST /api/v3`.
    pub fn count(&self, start: &str) -> usize {
        let begins = |it: &&Request| format!("{} {}", it.method, it.path).starts_with(start);
        self.requests().iter().filter(begins).count()
    }

    /// Pushes that came with their commits.
    pub fn pushes(&self) -> usize {
        self.count("POST /ana/shop.git/git-receive-pack")
    }

    /// As a person does on GitHub.
    pub fn close_pull(&self) {
        let mut pulls = self.shared.pulls.lock().expect("no panic");
        pulls.last_mut().expect("a pull request")["state"] = json!("closed");
    }

    pub fn pulls(&self) -> Vec<Value> {
        self.shared.pulls.lock().expect("no panic").clone()
    }

    pub fn comments(&self) -> Vec<Value> {
        self.shared.comments.lock().expect("no panic").clone()
    }

    pub fn fail_next(&self, failure: Failure) {
        self.shared
            .failures
            .lock()
            .expect("no panic")
            .push_back(failure);
    }

    /// A write was done, and whoever asked for it does not know yet.
    pub async fn arrived(&self) {
        let (arrived, _) = self.shared.hold.as_ref().expect("a holding forge");
        arrived.acquire().await.expect("open").forget();
    }

    /// So many writes are answered at once, and not told about.
    pub fn let_pass(&self, writes: usize) {
        self.shared.pass.store(writes, Ordering::SeqCst);
    }

    pub fn go(&self) {
        let (_, go) = self.shared.hold.as_ref().expect("a holding forge");
        go.add_permits(1000);
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let credentials = credentials(&headers);
    let is_api = uri.path().starts_with("/api/v3/");
    shared.requests.lock().expect("no panic").push(Request {
        method: method.to_string(),
        path: uri.to_string(),
        credentials: credentials.clone(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    });
    if let Some(to) = &shared.redirect {
        let to = format!("{to}{uri}");
        return (StatusCode::MOVED_PERMANENTLY, [("location", to)]).into_response();
    }
    if is_api && credentials != format!("Bearer {TOKEN}") {
        return (
            StatusCode::UNAUTHORIZED,
            json!({"message": "Bad credentials"}).to_string(),
        )
            .into_response();
    }
    if !is_api && credentials != format!("x-access-token:{TOKEN}") {
        return (
            StatusCode::UNAUTHORIZED,
            [("www-authenticate", "Basic realm=\"forge\"")],
        )
            .into_response();
    }
    let response = match is_api {
        true => api(&shared, &method, &uri, &body),
        false => backend(shared.folder.path(), &method, &uri, &headers, &body).await,
    };
    let writes = method != Method::GET && !uri.path().ends_with("git-upload-pack");
    let passes = || {
        shared
            .pass
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            })
            .is_ok()
    };
    if let (Some((arrived, go)), true) = (&shared.hold, writes && !passes()) {
        arrived.add_permits(1);
        go.acquire().await.expect("open").forget();
    }
    response
}

fn credentials(headers: &HeaderMap) -> String {
    let sent = headers
        .get("authorization")
        .and_then(|it| it.to_str().ok())
        .unwrap_or_default();
    match sent.strip_prefix("Basic ") {
        Some(basic) => decoded(basic),
        None => sent.to_owned(),
    }
}

/// Base64, as far as credentials need it.
fn decoded(text: &str) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bits = 0u32;
    let mut count = 0;
    let mut bytes = Vec::new();
    for letter in text.bytes().filter(|byte| *byte != b'=') {
        let value = LETTERS.iter().position(|it| *it == letter).expect("base64");
        bits = (bits << 6) | u32::try_from(value).expect("six bits");
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    String::from_utf8(bytes).expect("text")
}

/// git's own server, by CGI.
async fn backend(
    root: &Path,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: &[u8],
) -> Response {
    let header = |name: &str| {
        headers
            .get(name)
            .and_then(|it| it.to_str().ok())
            .unwrap_or_default()
            .to_owned()
    };
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", uri.path())
        .env("QUERY_STRING", uri.query().unwrap_or_default())
        .env("REQUEST_METHOD", method.as_str())
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("HTTP_GIT_PROTOCOL", header("git-protocol"))
        .env("REMOTE_USER", "ana")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("git runs");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(body).await.expect("written");
    drop(input);
    let output = child.wait_with_output().await.expect("ended").stdout;
    let end = output
        .windows(4)
        .position(|it| it == b"\r\n\r\n")
        .expect("headers");
    let mut response = Response::builder();
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        let (name, value) = line.split_once(": ").expect("a header");
        response = match name {
            "Status" => response.status(value[..3].parse::<u16>().expect("a status")),
            name => response.header(name, value),
        };
    }
    response
        .body(Body::from(output[end + 4..].to_vec()))
        .expect("a response")
}

fn api(shared: &Shared, method: &Method, uri: &Uri, body: &[u8]) -> Response {
    if let Some((status, headers, body)) = shared.failures.lock().expect("no panic").pop_front() {
        let mut response = (
            StatusCode::from_u16(status).expect("a status"),
            body.to_string(),
        )
            .into_response();
        for (name, value) in headers {
            response
                .headers_mut()
                .insert(name, value.parse().expect("a header"));
        }
        return response;
    }
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let Some(path) = uri.path().strip_prefix("/api/v3/repos/ana/shop") else {
        return not_found();
    };
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let mut pulls = shared.pulls.lock().expect("no panic");
    let mut comments = shared.comments.lock().expect("no panic");
    let number = |text: &str| text.parse::<usize>().unwrap_or(0);
    let answer = match (method.as_str(), parts.as_slice()) {
        ("GET", []) => json!({"default_branch": "main"}),
        ("GET", ["pulls"]) => {
            let all = uri.query().is_some_and(|query| query.contains("state=all"));
            let shown = pulls.iter().filter(|pull| all || pull["state"] == "open");
            shown.cloned().collect()
        }
        ("POST", ["pulls"]) => {
            let at = pulls.len() + 1;
            let pull = json!({
                "number": at, "state": "open", "title": body["title"], "body": body["body"], "draft": body["draft"],
                "html_url": format!("http://forge/ana/shop/pull/{at}"), "labels": [], "requested_reviewers": [],
                "head": {"ref": body["head"], "sha": "abc", "user": {"login": "ana"}}, "base": {"ref": body["base"]},
                "mergeable_state": "clean",
            });
            pulls.push(pull.clone());
            pull
        }
        ("GET", ["pulls", at]) if number(at) == pulls.len() && !pulls.is_empty() => {
            pulls[number(at) - 1].clone()
        }
        ("PATCH", ["pulls", at]) if (1..=pulls.len()).contains(&number(at)) => {
            let pull = &mut pulls[number(at) - 1];
            for (name, value) in body.as_object().into_iter().flatten() {
                pull[name] = value.clone();
            }
            pull.clone()
        }
        ("POST", ["issues", at, "labels"]) => {
            let names = body["labels"].as_array().cloned().unwrap_or_default();
            pulls[number(at) - 1]["labels"] = names
                .into_iter()
                .map(|name| json!({"name": name}))
                .collect();
            json!([])
        }
        ("POST", ["pulls", at, "requested_reviewers"]) => {
            let names = body["reviewers"].as_array().cloned().unwrap_or_default();
            pulls[number(at) - 1]["requested_reviewers"] = names
                .into_iter()
                .map(|name| json!({"login": name}))
                .collect();
            json!({})
        }
        ("GET", ["commits", "abc", "check-runs"]) => {
            json!({"check_runs": [{"name": "tests", "status": "completed", "conclusion": "failure", "html_url": "http://forge/run/1"}]})
        }
        ("GET", ["commits", "abc", "status"]) => {
            json!({"statuses": [{"state": "success", "context": "lint", "target_url": "http://forge/lint"}]})
        }
        ("GET", ["pulls", _, "reviews"]) => {
            json!([{"state": "CHANGES_REQUESTED", "user": {"login": "bob"}, "body": "please test it"}])
        }
        ("GET", [place, _, "comments"]) => {
            let there = comments.iter().filter(|it| it["place"] == json!(place));
            there.cloned().collect()
        }
        ("POST", ["issues", _, "comments"]) => commented(&mut comments, "issues", &body),
        ("POST", ["pulls", _, "comments", _, "replies"]) => {
            commented(&mut comments, "pulls", &body)
        }
        _ => return not_found(),
    };
    answer.to_string().into_response()
}

fn commented(comments: &mut Vec<Value>, place: &str, body: &Value) -> Value {
    let id = comments.len() + 1;
    let comment = json!({
        "id": id, "place": place, "user": {"login": "ana"}, "body": body["body"], "path": "a.rs", "line": 3,
        "html_url": format!("http://forge/comment/{id}"),
    });
    comments.push(comment.clone());
    comment
}

fn not_found() -> Response {
    (
        StatusCode::NOT_FOUND,
        json!({"message": "Not Found"}).to_string(),
    )
        .into_response()
}
