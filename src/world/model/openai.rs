//! A model behind any OpenAI-compatible chat-completions address, by async-openai with our own types.
//!
//! One request, no retries: the crate's own retrying is replaced by a plain service, because it would hide the status
//! and the `Retry-After` that [`super::Model::ask`] decides by.

use super::ending::read_to_end;
use super::form::{Form, Forms};
use super::stream::{Assembly, Chunk};
use super::{Delta, ModelError, Request};
use crate::agent::conversation::Wire;
use crate::agent::event::Answer;
use crate::world::net;
use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_openai::middleware::HttpRequestFactory;
use chrono::{DateTime, Utc};
use futures_util::StreamExt;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Bytes of an error's body that are read; more says nothing new.
const ERROR_BODY_BYTES_MAX: usize = 4_000;
/// Shorter "keys" are placeholders for local servers (`none`), and words.
const KEY_BYTES_MIN: usize = 8;

/// Where the model is.
#[derive(Clone)]
pub struct Address {
    /// Up to and without `/chat/completions`.
    pub base_url: String,
    pub key: String,
    /// Whether answers are streamed.
    pub stream: bool,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address")
            .field("base_url", &self.base_url)
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

/// The client. It is made with the first request: most commands never ask a model.
#[derive(Debug)]
pub struct OpenAi {
    address: Address,
    pub(super) forms: Forms,
    client: OnceLock<Client<OpenAIConfig>>,
}

/// The messages come last: a request repeats the one before it, byte for byte, up to where the new ones begin.
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "is_empty_list")]
    tools: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
    messages: &'a [Wire],
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// Not `strict`: that takes a part of JSON Schema only, and what servers of tools write is none of it.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat<'a> {
    JsonSchema { json_schema: NamedSchema<'a> },
}

#[derive(Serialize)]
struct NamedSchema<'a> {
    name: &'a str,
    schema: &'a Value,
}

fn is_empty_list(raw: &&RawValue) -> bool {
    raw.get() == "[]"
}

impl OpenAi {
    pub fn new(address: Address) -> Self {
        Self {
            address,
            forms: Forms::default(),
            client: OnceLock::new(),
        }
    }

    pub(super) async fn ask_once(
        &self,
        request: &Request<'_>,
        form: Form<'_>,
        silence_max: Duration,
        show: &(dyn Fn(Delta) + Sync),
    ) -> Result<Answer, ModelError> {
        let started = Instant::now();
        let stream_options = self.address.stream.then_some(StreamOptions {
            include_usage: true,
        });
        let body = Body {
            model: request.model,
            messages: request.messages,
            tools: request.tools,
            stream: self.address.stream,
            stream_options,
            temperature: form.temperature,
            response_format: form
                .schema
                .map(|(name, schema)| ResponseFormat::JsonSchema {
                    json_schema: NamedSchema { name, schema },
                }),
        };
        let assembly = match self.address.stream {
            true => self.streamed(&body, silence_max, show).await?,
            false => self.whole(&body, silence_max, show).await?,
        };
        let mut answer = assembly.finish(request.round)?;
        answer.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(answer)
    }

    async fn streamed(
        &self,
        body: &Body<'_>,
        silence_max: Duration,
        show: &(dyn Fn(Delta) + Sync),
    ) -> Result<Assembly, ModelError> {
        let silent = || ModelError::Truncated {
            message: format!("nothing came for {} s", silence_max.as_secs()),
        };
        let mut assembly = Assembly::default();
        let client = self.client();
        let chat = client.chat();
        let opened =
            tokio::time::timeout(silence_max, chat.create_stream_byot::<_, Chunk>(body)).await;
        let mut stream = opened
            .map_err(|_| silent())?
            .map_err(|error| self.explain(body.model, error))?;
        while let Some(chunk) = tokio::time::timeout(silence_max, stream.next())
            .await
            .map_err(|_| silent())?
        {
            let chunk = chunk.map_err(|error| self.explain(body.model, error))?;
            if let Some(text) = assembly.take(chunk)? {
                show(Delta::Text(text));
            }
        }
        Ok(assembly)
    }

    async fn whole(
        &self,
        body: &Body<'_>,
        silence_max: Duration,
        show: &(dyn Fn(Delta) + Sync),
    ) -> Result<Assembly, ModelError> {
        let mut assembly = Assembly::default();
        let client = self.client();
        let chat = client.chat();
        let answered = tokio::time::timeout(silence_max, chat.create_byot::<_, Chunk>(body)).await;
        let silent = |_| ModelError::Truncated {
            message: format!("nothing came for {} s", silence_max.as_secs()),
        };
        let chunk = answered
            .map_err(silent)?
            .map_err(|error| self.explain(body.model, error))?;
        if let Some(text) = assembly.take(chunk)? {
            show(Delta::Text(text));
        }
        Ok(assembly)
    }

    fn client(&self) -> &Client<OpenAIConfig> {
        self.client.get_or_init(|| {
            let http = net::client(&self.address.base_url);
            let config = OpenAIConfig::new()
                .with_api_base(&self.address.base_url)
                .with_api_key(&self.address.key);
            let made = Client::build(http.clone(), config); // `with_config` would make a client of its own
            let service = tower::service_fn(move |factory: HttpRequestFactory| {
                let http = http.clone();
                async move {
                    let response = http
                        .execute(factory.build().await?)
                        .await
                        .map_err(OpenAIError::Reqwest)?;
                    if response.status().is_success() {
                        return Ok::<_, OpenAIError>(read_to_end(response));
                    }
                    Err(OpenAIError::Boxed(Box::new(
                        HttpFailure::read(response).await,
                    )))
                }
            });
            made.with_http_service(service)
        })
    }

    fn explain(&self, model: &str, error: OpenAIError) -> ModelError {
        match error {
            OpenAIError::Boxed(boxed) => match boxed.downcast::<HttpFailure>() {
                Ok(failure) => failure.without(&self.address.key).explain(model),
                Err(other) => ModelError::Truncated {
                    message: other.to_string(),
                },
            },
            OpenAIError::Reqwest(error) if error.is_connect() || error.is_request() => {
                ModelError::Unreachable {
                    base_url: self.address.base_url.clone(),
                    message: root_cause(&error),
                }
            }
            OpenAIError::Reqwest(error) => ModelError::Truncated {
                message: root_cause(&error),
            },
            OpenAIError::StreamError(error) => ModelError::Truncated {
                message: error.to_string(),
            },
            OpenAIError::JSONDeserialize(error, _) => ModelError::Truncated {
                message: format!("it is not what was expected: {error}"),
            },
            OpenAIError::ApiError(error) => ModelError::Server {
                status: error.status_code.as_u16(),
                message: error.api_error.message,
                retry_after: None,
            },
            OpenAIError::InvalidArgument(message)
            | OpenAIError::FileSaveError(message)
            | OpenAIError::FileReadError(message) => ModelError::Refused { status: 0, message },
        }
    }
}

/// The innermost reason, which is the one that says something ("connection refused").
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// A response that is no success, with everything that is needed to explain it.
#[derive(Debug, thiserror::Error)]
#[error("HTTP {status}")]
struct HttpFailure {
    status: u16,
    retry_after: Option<Duration>,
    message: String,
    code: String,
}

impl HttpFailure {
    async fn read(mut response: reqwest::Response) -> Self {
        let status = response.status().as_u16();
        let header = |name: &str| response.headers().get(name)?.to_str().ok();
        let retry_after = header("retry-after-ms")
            .and_then(|ms| Some(Duration::from_millis(ms.trim().parse().ok()?)))
            .or_else(|| retry_after(header("retry-after")?, Utc::now()));
        let body = beginning(&mut response).await;
        let json: Value = serde_json::from_str(&body).unwrap_or(Value::String(body));
        let error = json.get("error").unwrap_or(&json);
        let code = ["code", "type"]
            .iter()
            .filter_map(|field| error.get(field)?.as_str())
            .collect::<Vec<_>>()
            .join(" ");
        Self {
            status,
            retry_after,
            message: error_message(error),
            code,
        }
    }

    /// Some servers repeat the key that they refuse; it must not get into a chat or the journal.
    fn without(self, key: &str) -> Self {
        let message = match key.len() < KEY_BYTES_MIN {
            true => self.message,
            false => self.message.replace(key, "[the key]"),
        };
        Self { message, ..self }
    }

    fn explain(self, model: &str) -> ModelError {
        let Self {
            status,
            retry_after,
            message,
            code,
        } = self;
        match status {
            401 | 403 => ModelError::Key { status, message },
            404 => ModelError::UnknownModel {
                model: model.to_owned(),
                message,
            },
            429 if code.contains("insufficient_quota") => ModelError::Quota { message },
            429 => ModelError::RateLimited {
                message,
                retry_after,
            },
            400 | 413 | 422 if is_overflow(&code, &message) => {
                ModelError::ContextOverflow { message }
            }
            400 if code.contains("model_not_found") => ModelError::UnknownModel {
                model: model.to_owned(),
                message,
            },
            408 | 500.. => ModelError::Server {
                status,
                message,
                retry_after,
            },
            _ => ModelError::Refused { status, message },
        }
    }
}

/// As much of the body as is worth reading. A status without a readable one still says enough.
async fn beginning(response: &mut reqwest::Response) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < ERROR_BODY_BYTES_MAX
        && let Ok(Some(chunk)) = response.chunk().await
    {
        bytes.extend_from_slice(&chunk);
    }
    bytes.truncate(ERROR_BODY_BYTES_MAX);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `Retry-After`: seconds (some write `1.5`), or a date.
fn retry_after(value: &str, now: DateTime<Utc>) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = DateTime::parse_from_rfc2822(value).ok()?;
    Some((at.with_timezone(&Utc) - now).to_std().unwrap_or_default())
}

/// OpenAI says `context_length_exceeded`, llama.cpp `exceed_context_size_error`; others only say it in words.
fn is_overflow(code: &str, message: &str) -> bool {
    let message = message.to_lowercase();
    let in_words = [
        "context length",
        "context window",
        "context size",
        "maximum context",
        "too many tokens",
        "prompt is too long",
    ];
    code.contains("context") || in_words.iter().any(|words| message.contains(words))
}

/// The text of an error in any of the shapes that servers use.
pub(super) fn error_message(error: &Value) -> String {
    let text = error
        .get("message")
        .and_then(Value::as_str)
        .or_else(|| error.as_str())
        .unwrap_or_default()
        .trim();
    match (text.is_empty(), error) {
        (false, _) => text.to_owned(),
        (true, Value::String(_) | Value::Null) => "no reason given".into(),
        (true, other) => other.to_string(),
    }
}
