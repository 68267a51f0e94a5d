//! A recorded model: the n-th request of a conversation gets the n-th recorded reply.
//!
//! Which reply is due is counted in the conversation itself, so that a restarted program goes on where it was.

use super::{DRAFT, Delta, ModelError, Request};
use crate::agent::event::{Answer, Call, CallId, Usage};
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// A recorded exchange.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scripted {
    replies: Vec<Reply>,
    /// What is answered where a plan is asked for: the first one whose words stand in what is asked.
    #[serde(default)]
    drafts: Vec<DraftReply>,
    /// What is said instead of all else once the person refused something: a recording cannot go another way.
    #[serde(default)]
    refused: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    #[serde(default)]
    text: String,
    #[serde(default)]
    calls: Vec<RecordedCall>,
    /// How long the model seems to think.
    #[serde(default)]
    pause_ms: u64,
}

#[derive(Debug, Clone, Deserialize)]
struct DraftReply {
    when: String,
    #[serde(flatten)]
    reply: Reply,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedCall {
    tool: String,
    arguments: Value,
}

impl Scripted {
    /// Reads a recording.
    ///
    /// # Errors
    /// What is wrong with the JSON, and where.
    pub fn parse(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }

    pub(super) async fn ask_once(
        &self,
        request: &Request<'_>,
        show: &(dyn Fn(Delta) + Sync),
    ) -> Result<Answer, ModelError> {
        if request.round == DRAFT {
            return self.draft(request).await;
        }
        let due = request
            .messages
            .iter()
            .filter(|message| message.get().starts_with(r#"{"role":"assistant""#))
            .count();
        if let Some(text) = self.refused.as_ref().filter(|_| was_refused(request)) {
            show(Delta::Text(text.clone()));
            return Ok(Answer {
                text: text.clone(),
                finish: "stop".into(),
                attempts: 1,
                ..Answer::default()
            });
        }
        let reply = self
            .replies
            .get(due)
            .ok_or(ModelError::ScriptEnded { round: due + 1 })?;
        tokio::time::sleep(Duration::from_millis(reply.pause_ms)).await;
        if !reply.text.is_empty() {
            show(Delta::Text(reply.text.clone()));
        }
        Ok(told(request, due, reply))
    }

    async fn draft(&self, request: &Request<'_>) -> Result<Answer, ModelError> {
        let asked = request.messages.last().map_or("", |message| message.get());
        let mut drafts = self.drafts.iter().enumerate();
        let due = drafts.find(|(_, draft)| asked.contains(&draft.when));
        let (at, draft) = due.ok_or(ModelError::ScriptEnded { round: 0 })?;
        tokio::time::sleep(Duration::from_millis(draft.reply.pause_ms)).await;
        Ok(told(request, at, &draft.reply))
    }
}

fn told(request: &Request<'_>, due: usize, reply: &Reply) -> Answer {
    let bytes: usize = request
        .messages
        .iter()
        .map(|message| message.get().len())
        .sum();
    let calls: Vec<Call> = reply
        .calls
        .iter()
        .enumerate()
        .map(|(i, call)| recorded(request.round, due, i, call))
        .collect();
    let finish = if calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    Answer {
        text: reply.text.clone(),
        reasoning: None,
        calls,
        // A recording has no tokenizer: four bytes a token is the usual rule of thumb.
        usage: Usage {
            input_tokens: bytes as u64 / 4,
            output_tokens: reply.text.len() as u64 / 4,
            cached_tokens: 0,
        },
        cost_micros: None,
        finish: finish.into(),
        attempts: 1,
        duration_ms: reply.pause_ms,
    }
}

fn was_refused(request: &Request<'_>) -> bool {
    let refused = |message: &crate::agent::conversation::Wire| {
        message.get().starts_with(r#"{"role":"tool""#)
            && message.get().contains(r#""Not run: the person refused"#)
    };
    request.messages.iter().any(refused)
}

fn recorded(round: u32, due: usize, position: usize, call: &RecordedCall) -> Call {
    let arguments = match &call.arguments {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Call {
        id: CallId(format!("{round}.{}", position + 1)),
        wire_id: format!("call_{due}_{position}"),
        tool: call.tool.clone(),
        arguments,
    }
}
