//! The model: asked with a conversation, answers with text and calls.
//!
//! Two implementations: [`openai::OpenAi`] speaks to any OpenAI-compatible server, [`scripted::Scripted`] plays a
//! recorded exchange (tests, `demo`, `replay`). Retries live here; what an answer means does not.

mod ending; // one answer, read to its end
mod form; // an answer of a given shape
pub mod openai;
pub mod scripted;
mod stream; // one streamed answer, put together

use crate::agent::conversation::Wire;
use crate::agent::event::Answer;
pub use form::Form;
use serde_json::value::RawValue;
use std::time::Duration;
use thiserror::Error;

/// One of the two.
#[derive(Debug)]
pub enum Model {
    OpenAi(Box<openai::OpenAi>),
    Scripted(scripted::Scripted),
}

/// In the place of a round, where a plan is asked for.
pub const DRAFT: u32 = 0;

/// What is asked.
pub struct Request<'a> {
    pub round: u32,
    pub model: &'a str,
    pub messages: &'a [Wire],
    pub tools: &'a RawValue,
}

/// What the person may see while the answer is being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    Text(String),
    /// Lines that a command printed while it runs.
    Output(String),
    /// The answer starts over: what was shown of it is void.
    Restart,
    /// The server asked to wait.
    Waiting {
        seconds: u64,
        why: String,
    },
}

/// Why there is no answer, in words for a person.
#[derive(Debug, Clone, Error)]
pub enum ModelError {
    #[error(
        "The model's server refused the key ({status}): {message} Check OPENAI_API_KEY (and OPENAI_BASE_URL, which it is for)."
    )]
    Key { status: u16, message: String },
    #[error(
        "The model's server does not know {model:?} at this address: {message} Check AGENT_MODEL and OPENAI_BASE_URL."
    )]
    UnknownModel { model: String, message: String },
    #[error(
        "The model's server at {base_url} cannot be reached: {message}. Check OPENAI_BASE_URL, and that the server runs."
    )]
    Unreachable { base_url: String, message: String },
    #[error(
        "The conversation is longer than the model's window: {message} Start afresh with /new, or use a model with a larger window."
    )]
    ContextOverflow { message: String },
    #[error("The model's server is rate limiting ({message}){}.", asked(*retry_after))]
    RateLimited {
        message: String,
        retry_after: Option<Duration>,
    },
    #[error("The account at the model's server has no quota left: {message}")]
    Quota { message: String },
    #[error("The model's server failed ({status}): {message}{}", asked(*retry_after))]
    Server {
        status: u16,
        message: String,
        retry_after: Option<Duration>,
    },
    #[error("The model's answer broke off: {message}")]
    Truncated { message: String },
    #[error("The model's server refused the request ({status}): {message}")]
    Refused { status: u16, message: String },
    #[error("The recorded model has no answer for round {round}.")]
    ScriptEnded { round: usize },
}

impl ModelError {
    /// Stable name for the journal.
    pub fn kind(&self) -> &'static str {
        match self {
            ModelError::Key { .. } => "key",
            ModelError::UnknownModel { .. } => "unknown_model",
            ModelError::Unreachable { .. } => "unreachable",
            ModelError::ContextOverflow { .. } => "context_overflow",
            ModelError::RateLimited { .. } => "rate_limited",
            ModelError::Quota { .. } => "quota",
            ModelError::Server { .. } => "server",
            ModelError::Truncated { .. } => "truncated",
            ModelError::Refused { .. } => "refused",
            ModelError::ScriptEnded { .. } => "script_ended",
        }
    }

    /// Whether it lies in the request: the server is there, takes the key, and would refuse the same again.
    pub fn is_about_the_request(&self) -> bool {
        match self {
            ModelError::ContextOverflow { .. } | ModelError::Refused { .. } => true,
            ModelError::Key { .. }
            | ModelError::UnknownModel { .. }
            | ModelError::Unreachable { .. }
            | ModelError::RateLimited { .. }
            | ModelError::Quota { .. }
            | ModelError::Server { .. }
            | ModelError::Truncated { .. }
            | ModelError::ScriptEnded { .. } => false,
        }
    }

    /// Whether the same request may succeed a little later.
    fn is_transient(&self) -> bool {
        match self {
            ModelError::Unreachable { .. }
            | ModelError::RateLimited { .. }
            | ModelError::Server { .. }
            | ModelError::Truncated { .. } => true,
            ModelError::Key { .. }
            | ModelError::UnknownModel { .. }
            | ModelError::ContextOverflow { .. }
            | ModelError::Quota { .. }
            | ModelError::Refused { .. }
            | ModelError::ScriptEnded { .. } => false,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            ModelError::RateLimited { retry_after, .. }
            | ModelError::Server { retry_after, .. } => *retry_after,
            ModelError::Key { .. }
            | ModelError::UnknownModel { .. }
            | ModelError::Unreachable { .. }
            | ModelError::ContextOverflow { .. }
            | ModelError::Quota { .. }
            | ModelError::Truncated { .. }
            | ModelError::Refused { .. }
            | ModelError::ScriptEnded { .. } => None,
        }
    }
}

fn asked(retry_after: Option<Duration>) -> String {
    retry_after.map_or_else(String::new, |wait| {
        format!(" (it asks to wait {} s)", wait.as_secs_f64().ceil())
    })
}

/// How often and how long to try.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    pub attempts_max: u32,
    pub retry_after_max: Duration,
    pub silence_max: Duration,
}

impl Model {
    /// Asks until there is an answer, an error that stays, or no patience left. `attempts` in either result counts the
    /// requests made.
    ///
    /// # Errors
    /// The last [`ModelError`], with the number of requests.
    pub async fn ask(
        &self,
        request: &Request<'_>,
        patience: Patience,
        show: &(dyn Fn(Delta) + Sync),
    ) -> Result<Answer, (ModelError, u32)> {
        self.ask_as(request, Form::default(), patience, show).await
    }

    /// The same, and the server is to hold the answer to a form.
    async fn ask_as(
        &self,
        request: &Request<'_>,
        form: Form<'_>,
        patience: Patience,
        show: &(dyn Fn(Delta) + Sync),
    ) -> Result<Answer, (ModelError, u32)> {
        let mut attempt = 1;
        loop {
            let answered = match self {
                Model::OpenAi(model) => {
                    let silence_max = patience.silence_max;
                    model.ask_once(request, form, silence_max, show).await
                }
                Model::Scripted(model) => model.ask_once(request, show).await,
            };
            let error = match answered {
                Ok(answer) => {
                    return Ok(Answer {
                        attempts: attempt,
                        ..answer
                    });
                }
                Err(error) => error,
            };
            let wait = error.retry_after().unwrap_or_else(|| backoff(attempt));
            if !error.is_transient()
                || attempt >= patience.attempts_max
                || wait > patience.retry_after_max
            {
                return Err((error, attempt));
            }
            show(Delta::Waiting {
                seconds: wait.as_secs(),
                why: error.to_string(),
            });
            tokio::time::sleep(wait).await;
            show(Delta::Restart);
            attempt += 1;
        }
    }
}

/// 0.25 s, 0.5 s, 1 s, … 8 s.
fn backoff(attempt: u32) -> Duration {
    Duration::from_millis(250 * 2_u64.pow(attempt.saturating_sub(1).min(5)))
}
