//! The HTTP channel: programs write messages, answer questions, and follow what happens.
//!
//! A client's chats are `http:NAME` and, where it says which, `http:NAME/CHAT`. What it does means what the same words mean
//! in any chat: an approval here is `/approve CODE` there. A client sees its own sessions; those of others are not there.

/// Who makes a request.
pub mod caller;
/// A journal as server-sent events.
mod follow;
/// Errors.
pub mod problem;

use crate::agent::event::{Inbound, Via};
use crate::config::HttpClient;
use crate::doors::http::caller::{Caller, Line};
use crate::doors::http::follow::Wanted;
use crate::doors::http::problem::Problem;
use crate::hub::{DeliverError, Hub};
use crate::world::clock;
use crate::world::store::sessions::SessionRow;
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{DefaultBodyLimit, FromRequest, Path, Query, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The description of everything here.
pub const OPENAPI: &str = include_str!("openapi.json");

/// The answer to `GET /v1/sessions`: the last used ones.
const SESSIONS_MAX: usize = 100;
/// Event streams that one client may have open.
const STREAMS_MAX: usize = 32;
const ID_CHARS_MAX: usize = 200;
const CHAT_CHARS_MAX: usize = 64;
const ID_HEADER: &str = "idempotency-key";

/// What the routes need.
#[derive(Clone)]
struct Door {
    hub: Arc<Hub>,
    clients: Arc<[HttpClient]>,
    /// By client: streams that it may still open.
    streams: Arc<HashMap<String, Arc<Semaphore>>>,
}

/// The routes; none where no client is configured.
pub fn router(hub: Arc<Hub>, clients: Vec<HttpClient>) -> Router {
    if clients.is_empty() {
        return Router::new();
    }
    let body_bytes_max = hub.surface().policy.limits.body_bytes_max;
    let streams = clients.iter().map(|client| {
        let open = Arc::new(Semaphore::new(STREAMS_MAX));
        (client.name.clone(), open)
    });
    let door = Door {
        hub,
        streams: Arc::new(streams.collect()),
        clients: clients.into(),
    };
    let openapi = || async { json_text(StatusCode::OK, OPENAPI.to_owned()) };
    Router::new()
        .route("/openapi.json", get(openapi))
        .route("/v1/messages", post(message))
        .route("/v1/approvals/{code}", post(approval))
        .route("/v1/sessions", get(sessions))
        .route("/v1/sessions/{id}/events", get(events))
        .method_not_allowed_fallback(|| async {
            let detail = "this path has other methods: see GET /openapi.json";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
        })
        .fallback(|| async { Problem::not_found("there is no such path: see GET /openapi.json") })
        .layer(DefaultBodyLimit::max(body_bytes_max))
        .with_state(door)
}

/// A request of a known client.
struct Call {
    by: Caller,
    headers: HeaderMap,
    uri: Uri,
    body: Bytes,
}

impl FromRequest<Door> for Call {
    type Rejection = Problem;

    async fn from_request(request: Request, door: &Door) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let (method, uri, headers) = (
            parts.method.clone(),
            parts.uri.clone(),
            parts.headers.clone(),
        );
        let whole = Bytes::from_request(Request::from_parts(parts, body), door).await;
        let body = whole.map_err(|refused| match refused.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Problem::too_large(),
            _ => Problem::invalid("the body did not arrive whole; send it again"),
        })?;
        let line = Line {
            method: method.as_str(),
            path: uri.path_and_query().map_or("/", |path| path.as_str()),
        };
        let by = caller::identify(&door.clients, &headers, line, &body)?;
        Ok(Self {
            by,
            headers,
            uri,
            body,
        })
    }
}

/// The body of `POST /v1/messages`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    text: String,
    id: Option<String>,
    chat: Option<String>,
}

/// The body of `POST /v1/approvals/CODE`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Approval {
    decision: Decision,
    reason: Option<String>,
    id: Option<String>,
    chat: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Decision {
    Approve,
    Always,
    Deny,
}

async fn message(State(door): State<Door>, call: Call) -> Result<Response, Problem> {
    let Message { text, id, chat } = call.json()?;
    // What a control character alone should mean, nobody knows.
    if !text.chars().any(|c| !c.is_whitespace() && !c.is_control()) {
        return Err(Problem::invalid("`text` is empty; say something"));
    }
    let (chat, id) = (call.chat(chat)?, call.message_id(id)?);
    let message = Inbound::text(id, call.by.owner(), text);
    take(&door, &chat, message).await
}

async fn approval(
    State(door): State<Door>,
    code: Result<Path<String>, PathRejection>,
    call: Call,
) -> Result<Response, Problem> {
    let approval: Approval = call.json()?;
    let (chat, id) = (call.chat(approval.chat)?, call.message_id(approval.id)?);
    let reason = approval.reason.as_deref().unwrap_or_default().trim();
    if approval.reason.is_some() && approval.decision != Decision::Deny {
        return Err(Problem::invalid("a `reason` goes with `deny` only"));
    }
    let code = code.map(|Path(code)| code).unwrap_or_default();
    let known = code.len() == 4 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    // Sent again after it was answered, it is still the answer that came.
    let came_before = door.hub.seen_by(&chat, &id)?.is_some();
    let is_open = came_before || known && door.hub.is_asking(&chat, &code)?;
    if !is_open {
        return Err(Problem::not_found(
            "no question with this code is open in this chat: it was answered, it expired, or it is another chat's",
        ));
    }
    let code = code.to_ascii_uppercase();
    let text = match (approval.decision, reason) {
        (Decision::Approve, _) => format!("/approve {code}"),
        (Decision::Always, _) => format!("/approve {code} always"),
        (Decision::Deny, "") => format!("/deny {code}"),
        (Decision::Deny, reason) => format!("/deny {code} {reason}"),
    };
    let message = Inbound {
        via: Via::Button,
        ..Inbound::text(id, call.by.owner(), text)
    };
    take(&door, &chat, message).await
}

/// Answers only when the message is on disk.
async fn take(door: &Door, chat: &str, message: Inbound) -> Result<Response, Problem> {
    let id = message.id.clone();
    let delivered = door.hub.deliver(chat, message).await?;
    let (status, seq) = match delivered.seq {
        Some(seq) => (StatusCode::ACCEPTED, Some(seq)),
        None => {
            let (hub, session, id) = (door.hub.clone(), delivered.session.clone(), id.clone());
            let chat = chat.to_owned();
            let line = blocking(move || hub.line_of(&chat, &session, &id)).await?;
            (StatusCode::OK, line)
        }
    };
    let body = json!({
        "id": id,
        "chat": chat,
        "session": delivered.session,
        "seq": seq,
        "duplicate": !delivered.fresh,
    });
    Ok(json_text(status, body.to_string()))
}

async fn sessions(State(door): State<Door>, call: Call) -> Result<Response, Problem> {
    let store = door.hub.surface().store.clone();
    let chat = call.by.owner();
    let mut rows = blocking(move || Ok(store.sessions_of(&chat, SESSIONS_MAX + 1)?)).await?;
    let more = rows.len() > SESSIONS_MAX;
    rows.truncate(SESSIONS_MAX);
    let sessions: Vec<Value> = rows.into_iter().map(shown).collect();
    let body = json!({"sessions": sessions, "more": more});
    Ok(json_text(StatusCode::OK, body.to_string()))
}

fn shown(row: SessionRow) -> Value {
    let workspace = std::path::Path::new(&row.workspace).file_name();
    json!({
        "id": row.id,
        "chat": row.chat,
        "workspace": workspace.map(|name| name.to_string_lossy()).unwrap_or_default(),
        "objective": row.objective,
        "status": row.status,
        "rounds": row.rounds,
        "started_at": row.started_at,
        "updated_at": row.updated_at,
    })
}

async fn events(
    State(door): State<Door>,
    id: Result<Path<String>, PathRejection>,
    call: Call,
) -> Result<Response, Problem> {
    let id = id.map(|Path(id)| id).unwrap_or_default();
    let (chat, path) = door.hub.journal_of(&id)?;
    if !call.by.owns(&chat) {
        return Err(DeliverError::NoSession(id).into());
    }
    let Query(wanted) = Query::<Wanted>::try_from_uri(&call.uri).map_err(|_| {
        Problem::invalid("`from` is the number of a line, from 1; `follow` is true or false; there is nothing else")
    })?;
    let open = door.streams.get(&call.by.name);
    let place = open.and_then(|open| open.clone().try_acquire_owned().ok());
    let Some(place) = place else {
        return Err(Problem::busy(format!(
            "{STREAMS_MAX} streams of yours are open already; close one first"
        )));
    };
    let surface = door.hub.surface();
    // Before the first look into the journal, or a line in between would be missed.
    let told = surface.observers.followers.follow(&id);
    let last = call.headers.get("last-event-id");
    let start = wanted.start(last)?;
    let begun = blocking(move || Ok(follow::begin(path, start, told))).await??;
    Ok(begun.into_response(place, wanted.follow, surface.shutdown.clone()))
}

impl Call {
    fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let media = self
            .headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let media = media
            .and_then(|value| value.split(';').next())
            .unwrap_or_default();
        if !media.trim().eq_ignore_ascii_case("application/json") {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "not_json",
                "send JSON, with `Content-Type: application/json`",
            ));
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| Problem::invalid(format!("the body is not what is expected: {error}")))
    }

    fn chat(&self, chat: Option<String>) -> Result<String, Problem> {
        let Some(chat) = chat else {
            return Ok(self.by.owner());
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || "._@+-".contains(c);
        match (1..=CHAT_CHARS_MAX).contains(&chat.len()) && chat.chars().all(fits) {
            true => Ok(format!("{}/{chat}", self.by.owner())),
            false => Err(Problem::invalid(format!(
                "`chat` is 1 to {CHAT_CHARS_MAX} letters, digits and `._@+-`"
            ))),
        }
    }

    /// What makes the message one and the same when it comes again. A signed request that is played back is the same, too.
    fn message_id(&self, id: Option<String>) -> Result<String, Problem> {
        let header = self.headers.get(ID_HEADER);
        let header = header.map(|value| value.to_str().unwrap_or_default().to_owned());
        let fits = |id: &String| {
            let all_seen = id.bytes().all(|byte| byte.is_ascii_graphic());
            (1..=ID_CHARS_MAX).contains(&id.len()) && all_seen
        };
        if !id.iter().chain(&header).all(fits) {
            return Err(Problem::invalid(format!(
                "an id is 1 to {ID_CHARS_MAX} ASCII characters without blanks"
            )));
        }
        let signed = || (self.by.signature.as_ref()).map(|digits| format!("signed-{digits}"));
        Ok(id
            .or(header)
            .or_else(signed)
            .unwrap_or_else(clock::message_id))
    }
}

impl Caller {
    /// Its chat, and who answers in all of its chats.
    fn owner(&self) -> String {
        format!("http:{}", self.name)
    }

    fn owns(&self, chat: &str) -> bool {
        let rest = chat.strip_prefix(&self.owner());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Off the threads that serve: it may read long files.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DeliverError> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    let broke = |_| DeliverError::Session("a look into the data folder broke".into());
    Ok(done.map_err(broke).flatten()?)
}

fn json_text(status: StatusCode, text: String) -> Response {
    let mut response = (status, text).into_response();
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
