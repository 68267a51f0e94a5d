//! A small Graph API on loopback: what the demo talks to instead of Meta, and what the tests look into.
//!
//! It answers as Graph does, refuses what Graph refuses for the messages that we send, records every request, and fails
//! when told to. It does not deliver anything, approves every template, and never leaves
//! 127.0.0.1.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::doors::whatsapp::document::CAPTION_CHARS_MAX;
use crate::doors::whatsapp::text::{BUTTON_BODY_CHARS_MAX, MESSAGE_CHARS_MAX};

const SENT_QUEUE_MESSAGES_MAX: usize = 4096;
const RECORDED_REQUESTS_MAX: usize = 10_000;

/// A running stand-in. It ends when `control` is dropped.
#[derive(Debug)]
pub struct Standin {
    /// What `WHATSAPP_API_URL` is set to.
    pub base_url: String,
    /// Every message that was accepted, in order.
    pub sent: mpsc::Receiver<Sent>,
    pub control: Control,
}

/// A message as its receiver would see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The id that the sender got.
    pub id: String,
    /// Phone number or user id; empty for a read mark.
    pub to: String,
    pub kind: SentKind,
    /// The text; for a read mark, the id of the message that was read.
    pub text: String,
    /// `(id, title)` of each reply button.
    pub buttons: Vec<(String, String)>,
    /// The message that it quotes.
    pub reply_to: Option<String>,
}

/// What was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SentKind {
    Text,
    Buttons,
    Read {
        typing: bool,
    },
    /// Its name; the text is the parameter of its body.
    Template(String),
    /// What is in the file; the text is its caption.
    Document {
        name: String,
        content: String,
    },
    /// Empty where it is taken away; the text is the id of the message.
    Reaction(String),
    Other(String),
}

/// One request, whatever became of it.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub path: String,
    /// `Null` where it is not JSON.
    pub body: Value,
    pub status: u16,
}

/// The handle of the test: failures to come, requests that were.
#[derive(Debug)]
pub struct Control {
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    token: String,
    base_url: String,
    sent: mpsc::Sender<Sent>,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    failures: VecDeque<Failure>,
    requests: VecDeque<Recorded>,
    messages: u64,
    /// Uploaded files, by media id.
    files: HashMap<String, String>,
    media: BTreeMap<String, Medium>,
}

/// Something that a person sent: what is said of it, and what comes.
#[derive(Debug, Clone)]
pub struct Medium {
    pub mime: String,
    pub bytes: Vec<u8>,
    /// Where Graph says that it lies; `None`: at this stand-in.
    pub url: Option<String>,
    pub sha256: Option<String>,
}

#[derive(Debug, Clone, Copy)]
struct Failure {
    status: u16,
    code: i64,
    retry_after_s: Option<u64>,
}

/// Starts a stand-in on a free loopback port that takes `token` as bearer.
pub async fn start(token: &str) -> std::io::Result<Standin> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    let base_url = format!("http://{}/v23.0", listener.local_addr()?);
    let (sender, sent) = mpsc::channel(SENT_QUEUE_MESSAGES_MAX);
    let shared = Arc::new(Shared {
        token: token.to_owned(),
        base_url: base_url.clone(),
        sent: sender,
        book: Mutex::default(),
    });
    let app = Router::new().fallback(answer).with_state(shared.clone());
    let server = tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, app).await {
            tracing::error!(%error, "the stand-in for WhatsApp ended");
        }
    });
    Ok(Standin {
        base_url,
        sent,
        control: Control { shared, server },
    })
}

impl Control {
    /// Lets the next `count` requests fail with `status`, and `Retry-After` if given.
    pub fn fail_next(&self, count: usize, status: u16, retry_after_s: Option<u64>) {
        let code = match status {
            429 => 130_429,
            401 => 190,
            500.. => 131_000,
            _ => 131_047,
        };
        self.fail_next_with(count, status, code, retry_after_s);
    }

    /// The same with one of Graph's own codes.
    pub fn fail_next_with(&self, count: usize, status: u16, code: i64, retry_after_s: Option<u64>) {
        let failure = Failure {
            status,
            code,
            retry_after_s,
        };
        let failures = std::iter::repeat_n(failure, count);
        self.shared.book().failures.extend(failures);
    }

    /// Something that can be fetched from now on.
    pub fn keep_media(&self, id: &str, medium: Medium) {
        self.shared.book().media.insert(id.to_owned(), medium);
    }

    /// Every request so far, oldest first.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.book().requests.iter().cloned().collect()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Sent {
    /// Whether it says nothing: a read mark, a reaction.
    pub fn is_courtesy(&self) -> bool {
        matches!(self.kind, SentKind::Read { .. } | SentKind::Reaction(_))
    }
}

impl Shared {
    /// A panic while it was held leaves a list that is still a list.
    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let bytes = body;
    let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    let bearer = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let authorized = bearer.strip_prefix("Bearer ") == Some(shared.token.as_str());
    let mut book = shared.book();
    let failure = book.failures.pop_front();
    if method == Method::GET && authorized && failure.is_none() {
        let answer = media(&book, &shared.base_url, uri.path());
        let status = answer.status().as_u16();
        let path = uri.path().to_owned();
        let body = Value::Null;
        book.requests.push_back(Recorded { path, body, status });
        return answer;
    }
    let result = match failure {
        Some(failure) => Err(Refusal::told(failure)),
        None if !authorized => Err(Refusal::new(401, 190, "Invalid OAuth access token.")),
        None if uri.path().ends_with("/media") => take_file(&bytes, &mut book),
        None => accept(&uri, &body, &mut book).map(|(sent, answer)| (Some(sent), answer)),
    };
    let status = result
        .as_ref()
        .map_or_else(|refusal| refusal.status, |_| 200);
    if book.requests.len() == RECORDED_REQUESTS_MAX {
        book.requests.pop_front();
    }
    book.requests.push_back(Recorded {
        path: uri.path().to_owned(),
        body,
        status,
    });
    drop(book);
    match result {
        Ok((sent, answer)) => {
            if sent.is_some_and(|sent| shared.sent.try_send(sent).is_err()) {
                tracing::debug!("nobody takes the stand-in's messages");
            }
            json_response(200, None, &answer)
        }
        Err(refusal) => refusal.into_response(),
    }
}

/// An uploaded text file: nothing is sent by that.
fn take_file(body: &[u8], book: &mut Book) -> Result<(Option<Sent>, Value), Refusal> {
    let text = String::from_utf8_lossy(body);
    let boundary = text.lines().next().unwrap_or_default();
    let part = |name: &str| {
        let named = format!("name=\"{name}\"");
        let part = text.split(boundary).find(|part| part.contains(&named))?;
        let (_, content) = part.split_once("\r\n\r\n")?;
        Some(content.trim_end_matches("\r\n").to_owned())
    };
    let missing = |name: &str| Refusal::parameter(&format!("The parameter {name} is required."));
    part("messaging_product").ok_or_else(|| missing("messaging_product"))?;
    if part("type").as_deref() != Some("text/plain") {
        return Err(Refusal::parameter(
            "Param file must be a file with one of the supported types",
        ));
    }
    let content = part("file").ok_or_else(|| missing("file"))?;
    let id = format!("media.standin.{}", book.files.len() + 1);
    book.files.insert(id.clone(), content);
    Ok((None, json!({ "id": id })))
}

/// In two steps, as Graph gives it: where it lies, and what lies there.
fn media(book: &Book, base_url: &str, path: &str) -> Response {
    let id = path.rsplit('/').next().unwrap_or_default();
    let Some(medium) = book.media.get(id) else {
        return Refusal::new(404, 100, "Object does not exist.").into_response();
    };
    if path.contains("/media/") {
        let mime = [(header::CONTENT_TYPE, medium.mime.clone())];
        return (mime, medium.bytes.clone()).into_response();
    }
    let url = medium.url.clone();
    let described = json!({
        "messaging_product": "whatsapp",
        "id": id,
        "url": url.unwrap_or_else(|| format!("{base_url}/media/{id}")),
        "mime_type": medium.mime,
        "sha256": medium.sha256.clone().unwrap_or_else(|| hex::encode(Sha256::digest(&medium.bytes))),
        "file_size": medium.bytes.len(),
    });
    json_response(200, None, &described)
}

fn accept(uri: &Uri, body: &Value, book: &mut Book) -> Result<(Sent, Value), Refusal> {
    if !uri.path().ends_with("/messages") {
        return Err(Refusal::new(404, 100, "Unsupported post request."));
    }
    if body["messaging_product"] != "whatsapp" {
        return Err(Refusal::parameter(
            "The parameter messaging_product is required.",
        ));
    }
    let text_of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if body["status"] == "read" {
        let read = text_of(&body["message_id"]);
        let kind = SentKind::Read {
            typing: body["typing_indicator"]["type"] == "text",
        };
        let sent = Sent {
            id: String::new(),
            to: String::new(),
            kind,
            text: read,
            buttons: Vec::new(),
            reply_to: None,
        };
        return Ok((sent, json!({ "success": true })));
    }
    let to = body["to"]
        .as_str()
        .or_else(|| body["recipient"].as_str())
        .filter(|to| !to.is_empty());
    let to = to
        .ok_or_else(|| Refusal::parameter("The parameter to is required."))?
        .to_owned();
    let kind = body["type"].as_str().unwrap_or("text");
    let (kind, text, buttons) = match kind {
        "text" => (
            SentKind::Text,
            bounded(&body["text"]["body"], "text['body']", MESSAGE_CHARS_MAX)?,
            Vec::new(),
        ),
        "interactive" => {
            let interactive = &body["interactive"];
            let text = bounded(
                &interactive["body"]["text"],
                "interactive['body']['text']",
                BUTTON_BODY_CHARS_MAX,
            )?;
            (
                SentKind::Buttons,
                text,
                buttons(&interactive["action"]["buttons"])?,
            )
        }
        "template" => {
            let (kind, text) = template(&body["template"])?;
            (kind, text, Vec::new())
        }
        "document" => {
            let document = &body["document"];
            let media = document["id"].as_str().unwrap_or_default();
            let content = book.files.get(media).cloned();
            let kind = SentKind::Document {
                name: bounded(&document["filename"], "document['filename']", 240)?,
                content: content.ok_or_else(|| Refusal::parameter("Media not found"))?,
            };
            let caption = bounded(
                &document["caption"],
                "document['caption']",
                CAPTION_CHARS_MAX,
            )?;
            (kind, caption, Vec::new())
        }
        "reaction" => {
            let emoji = text_of(&body["reaction"]["emoji"]);
            let of = bounded(
                &body["reaction"]["message_id"],
                "reaction['message_id']",
                512,
            )?;
            (SentKind::Reaction(emoji), of, Vec::new())
        }
        other => (SentKind::Other(other.to_owned()), String::new(), Vec::new()),
    };
    book.messages += 1;
    let id = format!("wamid.standin.{}", book.messages);
    let answer = json!({
        "messaging_product": "whatsapp",
        "contacts": [{ "input": to, "wa_id": to }],
        "messages": [{ "id": id }],
    });
    let reply_to = body["context"]["message_id"].as_str().map(str::to_owned);
    Ok((
        Sent {
            id,
            to,
            kind,
            text,
            buttons,
            reply_to,
        },
        answer,
    ))
}

fn bounded(value: &Value, name: &str, chars_max: usize) -> Result<String, Refusal> {
    let text = value.as_str().unwrap_or_default();
    match text.chars().count() {
        0 => Err(Refusal::parameter(&format!(
            "The parameter {name} is required."
        ))),
        chars if chars > chars_max => Err(Refusal::parameter(&format!(
            "Param {name} must be at most {chars_max} characters long."
        ))),
        _ => Ok(text.to_owned()),
    }
}

/// A template with one parameter in its body.
fn template(template: &Value) -> Result<(SentKind, String), Refusal> {
    let name = bounded(&template["name"], "template['name']", 512)?;
    bounded(
        &template["language"]["code"],
        "template['language']['code']",
        15,
    )?;
    let body = &template["components"][0];
    let text = bounded(&body["parameters"][0]["text"], "body parameter", 1024)?;
    if body["type"] != "body" || text.contains(['\n', '\t']) || text.contains("    ") {
        return Err(Refusal::parameter(
            "Param text cannot have new-line/tab characters or more than 4 consecutive spaces",
        ));
    }
    Ok((SentKind::Template(name), text))
}

fn buttons(value: &Value) -> Result<Vec<(String, String)>, Refusal> {
    let list = value
        .as_array()
        .filter(|list| (1..=3).contains(&list.len()));
    let list = list.ok_or_else(|| {
        Refusal::parameter("Invalid buttons count. Min allowed buttons: 1, Max allowed buttons: 3")
    })?;
    let one = |button: &Value| {
        let reply = &button["reply"];
        Ok((
            bounded(&reply["id"], "reply['id']", 256)?,
            bounded(&reply["title"], "reply['title']", 20)?,
        ))
    };
    list.iter().map(one).collect()
}

/// An answer in Graph's form of an error.
struct Refusal {
    status: u16,
    code: i64,
    message: String,
    retry_after_s: Option<u64>,
}

impl Refusal {
    fn new(status: u16, code: i64, message: &str) -> Self {
        Self {
            status,
            code,
            message: format!("(#{code}) {message}"),
            retry_after_s: None,
        }
    }

    fn parameter(message: &str) -> Self {
        Self::new(400, 100, message)
    }

    fn told(failure: Failure) -> Self {
        let message = match failure.code {
            130_429 => "Rate limit hit",
            131_047 => "Re-engagement message",
            131_056 => "(Business Account, Consumer Account) pair rate limit hit",
            190 => "Invalid OAuth access token.",
            _ => "Something went wrong",
        };
        Self {
            retry_after_s: failure.retry_after_s,
            ..Self::new(failure.status, failure.code, message)
        }
    }

    fn into_response(self) -> Response {
        let error = json!({ "error": {
            "message": self.message, "type": "OAuthException", "code": self.code, "fbtrace_id": "standin",
        } });
        json_response(self.status, self.retry_after_s, &error)
    }
}

fn json_response(status: u16, retry_after_s: Option<u64>, body: &Value) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (
        status,
        [(header::CONTENT_TYPE, "application/json")],
        body.to_string(),
    )
        .into_response();
    if let Some(seconds) = retry_after_s {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// The body of a webhook with one text message, as Meta would post it: in the newer shape, number and user id.
pub fn text_webhook(phone_number_id: &str, from: &str, message_id: &str, text: &str) -> Vec<u8> {
    webhook(
        phone_number_id,
        from,
        message_id,
        json!({ "type": "text", "text": { "body": text } }),
    )
}

/// The body of a webhook in which `from` pressed the button `(id, title)` of our message `of`.
pub fn button_webhook(
    phone_number_id: &str,
    from: &str,
    message_id: &str,
    of: &str,
    button: (&str, &str),
) -> Vec<u8> {
    let reply =
        json!({ "type": "button_reply", "button_reply": { "id": button.0, "title": button.1 } });
    webhook(
        phone_number_id,
        from,
        message_id,
        json!({ "type": "interactive", "interactive": reply, "context": { "id": of } }),
    )
}

fn webhook(phone_number_id: &str, from: &str, message_id: &str, content: Value) -> Vec<u8> {
    let user_id = format!("US.{from}");
    let mut message = json!({
        "id": message_id,
        "from": from,
        "from_user_id": user_id,
        "timestamp": chrono::Utc::now().timestamp().to_string(),
    });
    if let (Some(message), Value::Object(content)) = (message.as_object_mut(), content) {
        message.extend(content);
    }
    let value = json!({
        "messaging_product": "whatsapp",
        "metadata": { "display_phone_number": "15550001111", "phone_number_id": phone_number_id },
        "contacts": [{ "profile": { "name": "Demo" }, "wa_id": from, "user_id": user_id }],
        "messages": [message],
    });
    let entry = json!({ "id": "0", "changes": [{ "field": "messages", "value": value }] });
    json!({ "object": "whatsapp_business_account", "entry": [entry] })
        .to_string()
        .into_bytes()
}
