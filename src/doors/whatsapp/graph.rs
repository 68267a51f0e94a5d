//! The client of the Graph API: sends a message, and says whether it went.
//!
//! It retries what may pass (rate limits, 5xx, no connection) a bounded number of times and hands everything else back
//! as a typed error. It does not cut, convert or queue (see `text`, and the journal's outbox), and neither the token nor
//! a message's text appears in an error or a log.

use crate::doors::whatsapp::document::CAPTION_CHARS_MAX;
use crate::doors::whatsapp::text::{BUTTON_BODY_CHARS_MAX, MESSAGE_CHARS_MAX};
use crate::world::{clock, net};
use chrono::{DateTime, Utc};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::multipart::{Form, Part};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How often and how patiently a request is tried.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// Requests in all, the first one included.
    pub attempts_max: u32,
    /// The first pause; each later one is twice as long.
    pub backoff_ms: u64,
    /// No pause is longer: where `Retry-After` asks for more, whoever sends waits, and not this.
    pub wait_ms_max: u64,
    /// The pause where a person gets too many messages: one in 6 seconds is what WhatsApp gives each.
    pub pair_wait_ms: u64,
    /// One request, from connect to the end of its answer.
    pub timeout_ms: u64,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts_max: 4,
            backoff_ms: 500,
            wait_ms_max: 30_000,
            pair_wait_ms: 6_000,
            timeout_ms: 30_000,
        }
    }
}

/// How long a reaction may take.
const COURTESY_MS_MAX: u64 = 5_000;
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// The one type of text that WhatsApp takes in documents.
const TEXT_TYPE: &str = "text/plain";
const BUTTONS_MAX: usize = 3;
const BUTTON_TITLE_CHARS_MAX: usize = 20;
const BUTTON_ID_CHARS_MAX: usize = 256;

/// Graph's codes for "too fast", which it sends with status 400: app, account, number, and pair of numbers.
const RATE_CODES: [i64; 4] = [4, 80007, 130429, PAIR_RATE_CODE];
const PAIR_RATE_CODE: i64 = 131_056;
const PARAMETER_CHARS_MAX: usize = 60;

/// Why a message did not go, or may not have.
#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    /// What was asked can't be sent as it is. Nothing was sent.
    #[error("the message can't be sent: {0}")]
    Invalid(String),
    /// Graph refused, for good: trying again gives the same.
    #[error("WhatsApp refused the message ({}): {message}", at(*.status, *.code))]
    Refused {
        status: u16,
        code: Option<i64>,
        message: String,
    },
    /// Graph was busy or broken each time.
    #[error("WhatsApp did not take the message after {attempts} attempts ({}): {message}", at(*.status, *.code))]
    GaveUp {
        attempts: u32,
        status: u16,
        code: Option<i64>,
        message: String,
        /// It asked to wait longer than one attempt can.
        wait_ms: Option<u64>,
    },
    /// No connection each time. Nothing was sent.
    #[error("WhatsApp is unreachable after {attempts} attempts: {reason}")]
    Unreachable { attempts: u32, reason: String },
    /// The connection broke, or time ran out, after the request was on its way: it may or may not have been delivered.
    #[error("WhatsApp's answer was lost, the message may or may not have arrived: {reason}")]
    InDoubt { reason: String },
}

fn at(status: u16, code: Option<i64>) -> String {
    code.map_or_else(
        || format!("HTTP {status}"),
        |code| format!("HTTP {status}, code {code}"),
    )
}

/// One of our numbers at the Graph API.
#[derive(Clone)]
pub struct Graph {
    /// Made for the first message: a server that has none to send does without.
    http: Arc<OnceLock<reqwest::Client>>,
    /// Of the number.
    url: String,
    token: String,
    retry: Retry,
}

impl Graph {
    /// `base_url` goes up to and including the version: `WHATSAPP_API_URL`.
    pub fn new(base_url: &str, phone_number_id: &str, token: &str) -> Self {
        let url = format!("{}/{phone_number_id}", base_url.trim_end_matches('/'));
        Self {
            http: Arc::default(),
            url,
            token: token.to_owned(),
            retry: Retry::default(),
        }
    }

    pub fn with_retry(self, retry: Retry) -> Self {
        Self { retry, ..self }
    }

    /// Sends one text message; its id. `reply_to` quotes an earlier message.
    pub async fn send_text(
        &self,
        to: &str,
        text: &str,
        reply_to: Option<&str>,
    ) -> Result<String, GraphError> {
        at_most("text", text, MESSAGE_CHARS_MAX)?;
        let mut body = message(to, "text", json!({ "body": text, "preview_url": false }));
        if let Some(id) = reply_to {
            body["context"] = json!({ "message_id": id });
        }
        self.post_message(&body).await
    }

    /// Sends a text with one to three reply buttons `(id, title)`; the message's id.
    pub async fn send_buttons(
        &self,
        to: &str,
        text: &str,
        buttons: &[(&str, &str)],
    ) -> Result<String, GraphError> {
        at_most("text above buttons", text, BUTTON_BODY_CHARS_MAX)?;
        if buttons.is_empty() || buttons.len() > BUTTONS_MAX {
            return Err(GraphError::Invalid(format!(
                "{} buttons, WhatsApp takes 1 to {BUTTONS_MAX}",
                buttons.len()
            )));
        }
        for (id, title) in buttons {
            at_most("button id", id, BUTTON_ID_CHARS_MAX)?;
            at_most("button title", title, BUTTON_TITLE_CHARS_MAX)?;
        }
        let buttons: Vec<Value> = buttons
            .iter()
            .map(|(id, title)| json!({ "type": "reply", "reply": { "id": id, "title": title } }))
            .collect();
        let interactive =
            json!({ "type": "button", "body": { "text": text }, "action": { "buttons": buttons } });
        self.post_message(&message(to, "interactive", interactive))
            .await
    }

    /// Uploads a text file; its media id.
    pub async fn upload_text(&self, name: &str, bytes: &[u8]) -> Result<String, GraphError> {
        let answer = self.post("media", Content::File { name, bytes }).await?;
        let id = answer["id"].as_str().filter(|id| !id.is_empty());
        id.map(str::to_owned).ok_or_else(|| GraphError::InDoubt {
            reason: "the answer names no media id".to_owned(),
        })
    }

    /// Sends an uploaded file with a caption; the message's id.
    pub async fn send_document(
        &self,
        to: &str,
        media: &str,
        name: &str,
        caption: &str,
    ) -> Result<String, GraphError> {
        at_most("caption", caption, CAPTION_CHARS_MAX)?;
        let document = json!({ "id": media, "filename": name, "caption": caption });
        self.post_message(&message(to, "document", document)).await
    }

    /// Puts an emoji on a received message, or takes it away where it is empty. A courtesy: tried once, and not for long.
    pub async fn react(&self, to: &str, message_id: &str, emoji: &str) -> Result<(), GraphError> {
        let once = Retry {
            attempts_max: 1,
            timeout_ms: COURTESY_MS_MAX,
            ..self.retry
        };
        let reaction = json!({ "message_id": message_id, "emoji": emoji });
        let body = message(to, "reaction", reaction);
        let graph = self.clone().with_retry(once);
        graph.post_message(&body).await.map(drop)
    }

    /// Sends a template with one parameter in its body; its id.
    pub async fn send_template(
        &self,
        to: &str,
        name: &str,
        language: &str,
        parameter: &str,
    ) -> Result<String, GraphError> {
        // WhatsApp refuses newlines, tabs and rows of spaces in a parameter.
        let words: Vec<&str> = parameter.split_whitespace().collect();
        let text: String = words.join(" ").chars().take(PARAMETER_CHARS_MAX).collect();
        at_most("parameter of a template", &text, PARAMETER_CHARS_MAX)?;
        let parameters = [json!({ "type": "text", "text": text })];
        let template = json!({
            "name": name,
            "language": { "code": language, "policy": "deterministic" },
            "components": [{ "type": "body", "parameters": parameters }],
        });
        self.post_message(&message(to, "template", template)).await
    }

    /// Marks a received message as read and shows "typing…" until we answer (25 s at most, by WhatsApp).
    pub async fn read_and_typing(&self, message_id: &str) -> Result<(), GraphError> {
        let body = json!({
            "messaging_product": "whatsapp",
            "status": "read",
            "message_id": message_id,
            "typing_indicator": { "type": "text" },
        });
        self.post("messages", Content::Json(&body))
            .await
            .map(|_| ())
    }

    async fn post_message(&self, body: &Value) -> Result<String, GraphError> {
        let answer = self.post("messages", Content::Json(body)).await?;
        let id = answer["messages"][0]["id"]
            .as_str()
            .filter(|id| !id.is_empty());
        // A 2xx: it was taken. Sending it again for want of an id would send it twice.
        id.map(str::to_owned).ok_or_else(|| GraphError::InDoubt {
            reason: "the answer names no message id".to_owned(),
        })
    }

    /// Posts until it is answered for good, or the attempts are used up.
    async fn post(&self, path: &str, content: Content<'_>) -> Result<Value, GraphError> {
        let mut backoff_ms = self.retry.backoff_ms;
        let mut attempt = 1;
        loop {
            let (error, asked_wait_ms) = match self.post_once(path, content, attempt).await {
                Tried::Answered(answer) => return Ok(answer),
                Tried::Final(error) => return Err(error),
                Tried::Passing { error, wait_ms } => (error, wait_ms),
            };
            // Whoever is told to wait longer asks again later, and not before.
            let is_long = asked_wait_ms.is_some_and(|wait_ms| wait_ms > self.retry.wait_ms_max);
            if attempt >= self.retry.attempts_max || is_long {
                return Err(error);
            }
            let wait_ms = clock::jittered(asked_wait_ms.unwrap_or(backoff_ms));
            let wait_ms = wait_ms.min(self.retry.wait_ms_max);
            tracing::warn!(attempt, wait_ms, %error, "a request to WhatsApp will be tried again");
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            backoff_ms = backoff_ms.saturating_mul(2);
            attempt += 1;
        }
    }

    async fn post_once(&self, path: &str, content: Content<'_>, attempt: u32) -> Tried {
        let request = self
            .http
            .get_or_init(|| net::client(&self.url))
            .post(format!("{}/{path}", self.url))
            .bearer_auth(&self.token);
        let request = match content {
            Content::Json(body) => request.json(body),
            Content::File { name, bytes } => request.multipart(form(name, bytes)),
        };
        let response = match request
            .timeout(Duration::from_millis(self.retry.timeout_ms))
            .send()
            .await
        {
            Ok(response) => response,
            Err(error) if error.is_connect() => {
                let reason = self.reason(error);
                return Tried::Passing {
                    error: GraphError::Unreachable {
                        attempts: attempt,
                        reason,
                    },
                    wait_ms: None,
                };
            }
            Err(error) if error.is_builder() => {
                return Tried::Final(GraphError::Invalid(self.reason(error)));
            }
            Err(error) => {
                return Tried::Final(GraphError::InDoubt {
                    reason: self.reason(error),
                });
            }
        };
        let status = response.status();
        let wait_ms = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| retry_after_ms(value.to_str().ok()?, Utc::now()));
        let answer = match net::read_up_to(response, ANSWER_BYTES_MAX).await {
            Ok(bytes) => bytes,
            // The status of a failure is known even where its text is lost.
            Err(_) if !status.is_success() => Vec::new(),
            Err(error) => {
                return Tried::Final(GraphError::InDoubt {
                    reason: self.reason(error),
                });
            }
        };
        if status.is_success() {
            return Tried::Answered(serde_json::from_slice(&answer).unwrap_or(Value::Null));
        }
        let (code, message) = self.failure(&answer);
        let status = status.as_u16();
        let pair_wait_ms = (code == Some(PAIR_RATE_CODE)).then_some(self.retry.pair_wait_ms);
        let wait_ms = wait_ms.or(pair_wait_ms);
        if status == 429 || status >= 500 || code.is_some_and(|code| RATE_CODES.contains(&code)) {
            return Tried::Passing {
                error: GraphError::GaveUp {
                    attempts: attempt,
                    status,
                    code,
                    message,
                    wait_ms,
                },
                wait_ms,
            };
        }
        Tried::Final(GraphError::Refused {
            status,
            code,
            message,
        })
    }

    /// Graph's own words about a failure. It repeats a malformed token in them, so that is taken out.
    fn failure(&self, answer: &[u8]) -> (Option<i64>, String) {
        #[derive(Deserialize)]
        struct Failure {
            error: Inner,
        }
        #[derive(Deserialize)]
        struct Inner {
            code: Option<i64>,
            #[serde(default)]
            message: String,
            error_data: Option<Details>,
        }
        #[derive(Deserialize)]
        struct Details {
            details: Option<String>,
        }
        let Ok(Failure { error }) = serde_json::from_slice(answer) else {
            return (None, "no explanation that could be read".to_owned());
        };
        let details = error
            .error_data
            .and_then(|data| data.details)
            .map(|details| format!(": {details}"))
            .unwrap_or_default();
        (
            error.code,
            self.without_token(&format!("{}{details}", error.message)),
        )
    }

    /// What went wrong below HTTP, with its causes, without the address.
    fn reason(&self, error: reqwest::Error) -> String {
        let error = error.without_url();
        let mut reason = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(inner) = cause {
            reason = format!("{reason}: {inner}");
            cause = inner.source();
        }
        self.without_token(&reason)
    }

    fn without_token(&self, text: &str) -> String {
        if self.token.is_empty() {
            text.to_owned()
        } else {
            text.replace(&self.token, "[token]")
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph")
            .field("url", &self.url)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

/// What is posted.
#[derive(Clone, Copy)]
enum Content<'a> {
    Json(&'a Value),
    /// A text file.
    File {
        name: &'a str,
        bytes: &'a [u8],
    },
}

fn form(name: &str, bytes: &[u8]) -> Form {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(TEXT_TYPE));
    let file = Part::bytes(bytes.to_vec()).file_name(name.to_owned());
    Form::new()
        .text("messaging_product", "whatsapp")
        .text("type", TEXT_TYPE)
        .part("file", file.headers(headers))
}

/// How one attempt ended.
enum Tried {
    Answered(Value),
    Final(GraphError),
    /// May pass; the error is what remains if it was the last attempt.
    Passing {
        error: GraphError,
        wait_ms: Option<u64>,
    },
}

fn message(to: &str, kind: &str, content: Value) -> Value {
    let mut body =
        json!({ "messaging_product": "whatsapp", "recipient_type": "individual", "type": kind });
    // Someone who hides the number is addressed by the user id, under another name.
    let key = if to.chars().all(|c| c.is_ascii_digit() || c == '+') {
        "to"
    } else {
        "recipient"
    };
    body[key] = json!(to);
    body[kind] = content;
    body
}

fn at_most(what: &str, text: &str, chars_max: usize) -> Result<(), GraphError> {
    match text.chars().count() {
        0 => Err(GraphError::Invalid(format!("the {what} is empty"))),
        chars if chars > chars_max => Err(GraphError::Invalid(format!(
            "the {what} has {chars} characters, WhatsApp takes {chars_max}"
        ))),
        _ => Ok(()),
    }
}

/// `Retry-After` in milliseconds: seconds, or a date.
fn retry_after_ms(value: &str, now: DateTime<Utc>) -> Option<u64> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(seconds.saturating_mul(1000));
    }
    let at = DateTime::parse_from_rfc2822(value).ok()?;
    Some(u64::try_from((at.with_timezone(&Utc) - now).num_milliseconds()).unwrap_or(0))
}
