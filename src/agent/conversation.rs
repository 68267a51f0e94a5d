//! What the model sees, message by message, each serialised once.
//!
//! Only ever grows at the end within a turn, byte for byte, so that a provider's prompt cache hits (invariant 9).

use crate::agent::event::{Answer, Call};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use std::sync::Arc;

/// Characters of a tool's name that providers take.
const TOOL_NAME_CHARS_MAX: usize = 64;

/// One message in the wire form of chat completions, serialised.
pub type Wire = Arc<RawValue>;

/// The conversation so far. Cloning is cheap: the messages are shared.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    messages: Vec<Wire>,
    bytes: usize,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message<'a> {
    System {
        content: &'a str,
    },
    User {
        content: &'a str,
    },
    Assistant {
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: Cow<'a, str>,
    arguments: &'a str,
}

impl Conversation {
    pub fn messages(&self) -> &[Wire] {
        &self.messages
    }

    /// The conversation of another session, from the texts of its messages.
    ///
    /// # Errors
    /// Where a text is no JSON.
    pub fn taken_over(texts: &[String]) -> Result<Self, serde_json::Error> {
        let mut conversation = Self::default();
        for text in texts {
            let raw = RawValue::from_string(text.clone())?;
            conversation.bytes += raw.get().len();
            conversation.messages.push(Arc::from(raw));
        }
        Ok(conversation)
    }

    /// Bytes of all messages: what a request is made of, and a floor for its tokens.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn system(&mut self, content: &str) {
        self.push(&Message::System { content });
    }

    pub fn user(&mut self, content: &str) {
        self.push(&Message::User { content });
    }

    /// The model's reply. Malformed arguments are repeated as `{}`: providers refuse a history that is not JSON.
    pub fn assistant(&mut self, answer: &Answer) {
        let tool_calls = answer.calls.iter().map(wire_call).collect();
        let content =
            Some(answer.text.as_str()).filter(|text| !text.is_empty() || answer.calls.is_empty());
        self.push(&Message::Assistant {
            content,
            reasoning_content: answer.reasoning.as_deref(),
            tool_calls,
        });
    }

    pub fn tool(&mut self, call: &Call, content: &str) {
        self.push(&Message::Tool {
            tool_call_id: &call.wire_id,
            content,
        });
    }

    fn push(&mut self, message: &Message<'_>) {
        let raw = to_raw_value(message).expect("BUG: strings and lists always serialise");
        self.bytes += raw.get().len();
        self.messages.push(Arc::from(raw));
    }
}

fn wire_call(call: &Call) -> WireCall<'_> {
    let well_formed =
        serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&call.arguments).is_ok();
    let arguments = if well_formed {
        call.arguments.as_str()
    } else {
        "{}"
    };
    WireCall {
        id: &call.wire_id,
        r#type: "function",
        function: WireFunction {
            name: tool_name(&call.tool),
            arguments,
        },
    }
}

/// The name as providers take it back. Models invent `functions.list_files` and worse; such a name would have every later
/// request of the session refused.
fn tool_name(invented: &str) -> Cow<'_, str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !invented.is_empty()
        && invented.len() <= TOOL_NAME_CHARS_MAX
        && invented.chars().all(allowed)
    {
        return Cow::Borrowed(invented);
    }
    let clean: String = invented
        .chars()
        .take(TOOL_NAME_CHARS_MAX)
        .map(|c| if allowed(c) { c } else { '_' })
        .collect();
    Cow::Owned(if clean.is_empty() {
        "unnamed".into()
    } else {
        clean
    })
}
