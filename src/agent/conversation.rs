//! What the model sees, message by message, each serialised once.
//!
//! Only ever grows at the end, byte for byte, so that a provider's prompt cache hits (invariant 9). The one exception is
//! a compaction, which is an event of its own: [`crate::agent::compaction`] says when and what, this says how.

/// What remains of messages that were left out.
mod past;
/// Texts and pictures.
mod words;

pub use past::Past;
pub use words::{PICTURE, Part, Words, has_pictures};

use crate::agent::event::{Answer, Call, CallId, Fork};
use crate::agent::wording;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use std::sync::Arc;
use words::Content;

/// Characters of a tool's name that providers take.
const TOOL_NAME_CHARS_MAX: usize = 64;

/// English prose has a little more, code a little less. No tokenizer: every model has its own, and the provider's count
/// corrects the guess with every round.
const BYTES_A_TOKEN: u64 = 4;

/// No tokenizer makes fewer tokens of ordinary text than this. Some servers leave cached tokens out of what they report.
const BYTES_A_TOKEN_MAX: u64 = 8;

/// One message in the wire form of chat completions, serialised.
pub type Wire = Arc<RawValue>;

/// The conversation so far. Cloning is cheap: the messages are shared.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    messages: Arc<Vec<Wire>>,
    /// Of each message, what it is.
    kinds: Vec<Kind>,
    bytes: usize,
    measured: Option<Measured>,
    window: Option<u64>,
    past: Past,
}

/// What a message is to whoever has to shorten the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    System,
    /// Stands for messages that were left out.
    Digest,
    /// A person's words.
    Person {
        objective: bool,
    },
    /// The workspace's own files, as they were read.
    Brief,
    Assistant,
    Result {
        call: CallId,
        worth: Worth,
    },
}

/// What a result is worth, once it is old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Worth {
    /// `read_output` shows it again: a reference can stand for it.
    Output,
    /// Such a reference.
    Reference,
    /// A refusal, which must not be forgotten as long as the call is there.
    Word,
    /// What the person answered to a question of the agent.
    Answer,
    /// What a skill says: it stays, also where the messages before and after it go.
    Skill,
    /// Nobody knows whether the call ran.
    Doubt,
}

/// What a provider counted, and for how many bytes of messages.
#[derive(Debug, Clone, Copy)]
struct Measured {
    tokens: u64,
    bytes: usize,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Content<'a>,
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

    /// The same, for a request: it is made of the messages as they are now.
    pub fn shared(&self) -> Arc<Vec<Wire>> {
        self.messages.clone()
    }

    /// To be changed. Copied only while a request still has them.
    fn messages_mut(&mut self) -> &mut Vec<Wire> {
        Arc::make_mut(&mut self.messages)
    }

    /// The conversation that a fork begins with.
    ///
    /// # Errors
    /// Where a text is no JSON.
    pub fn taken_over(fork: &Fork) -> Result<Self, serde_json::Error> {
        let mut conversation = Self {
            kinds: fork.kinds.clone(),
            past: fork.past.clone(),
            ..Self::default()
        };
        for text in &fork.messages {
            let raw = RawValue::from_string(text.clone())?;
            conversation.bytes += raw.get().len();
            conversation.messages_mut().push(Arc::from(raw));
        }
        // One that this program did not write: nothing of it can be left out.
        conversation
            .kinds
            .resize(conversation.messages.len(), Kind::System);
        Ok(conversation)
    }

    /// What a fork takes along of it. Results cannot be read again there: they are in another journal.
    pub fn handed_on(&self) -> (Vec<Kind>, Past) {
        let kinds = self.kinds.iter().map(|kind| match kind {
            Kind::Result {
                call,
                worth: Worth::Output,
            } => Kind::Result {
                call: call.clone(),
                worth: Worth::Word,
            },
            other => other.clone(),
        });
        (kinds.collect(), self.past.clone())
    }

    /// One for each message.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Bytes of all messages: what a request is made of.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Tokens of the next request, as far as that can be known.
    pub fn tokens(&self) -> u64 {
        self.tokens_of(self.bytes)
    }

    /// The same, if there were this many bytes of messages: what the provider counted last, tools and all, and a guess for
    /// what was appended or left out since.
    pub fn tokens_of(&self, bytes: usize) -> u64 {
        let guess = match self.measured {
            None => tokens_in(bytes),
            Some(Measured {
                tokens,
                bytes: then,
            }) => tokens
                .saturating_add(tokens_in(bytes.saturating_sub(then)))
                .saturating_sub(tokens_in(then.saturating_sub(bytes))),
        };
        guess.max(bytes as u64 / BYTES_A_TOKEN_MAX)
    }

    /// The provider counted so many tokens in all that is here; 0 where it did not say.
    pub fn measured(&mut self, tokens: u64) {
        let bytes = self.bytes;
        self.measured = Some(Measured { tokens, bytes }).filter(|_| tokens > 0);
    }

    /// The provider refused what is here as too long. In our own count, whatever a token is to it.
    pub fn overflowed(&mut self) {
        let tokens = self.tokens();
        self.window = Some(self.window.map_or(tokens, |known| known.min(tokens)));
    }

    /// A length that was too long, if one is known.
    pub fn window(&self) -> Option<u64> {
        self.window
    }

    pub fn system(&mut self, content: &str) {
        self.push(Kind::System, &Message::System { content });
    }

    pub fn user(&mut self, content: &str) {
        let content = Content::Text(content);
        let kind = Kind::Person { objective: false };
        self.push(kind, &Message::User { content });
    }

    /// A person's words; those of an objective start a turn.
    pub fn person(&mut self, words: &Words, objective: bool) {
        let content = Content::of(words);
        self.push(Kind::Person { objective }, &Message::User { content });
    }

    /// Pictures in what the model sees.
    pub fn pictures(&self) -> usize {
        let pictures = |wire: &Wire| wire.get().matches(PICTURE).count();
        self.messages.iter().map(pictures).sum()
    }

    /// Another system prompt, from the next request on.
    pub fn replace_system(&mut self, content: &str) {
        let wire = wire(&Message::System { content });
        if let (Some(Kind::System), Some(first)) = (self.kinds.first(), self.messages.first()) {
            self.bytes = self.bytes - first.get().len() + wire.get().len();
            self.messages_mut()[0] = wire;
        }
    }

    /// What the workspace's own files say since the session began.
    pub fn brief(&mut self, content: &str) {
        let content = Content::Text(content);
        self.push(Kind::Brief, &Message::User { content });
    }

    /// The model's reply. Malformed arguments are repeated as `{}`: providers refuse a history that is not JSON.
    pub fn assistant(&mut self, answer: &Answer) {
        let tool_calls = answer.calls.iter().map(wire_call).collect();
        let content =
            Some(answer.text.as_str()).filter(|text| !text.is_empty() || answer.calls.is_empty());
        let message = Message::Assistant {
            content,
            reasoning_content: answer.reasoning.as_deref(),
            tool_calls,
        };
        self.push(Kind::Assistant, &message);
    }

    pub fn tool(&mut self, call: &Call, worth: Worth, content: &str) {
        let kind = Kind::Result {
            call: call.id.clone(),
            worth,
        };
        let message = Message::Tool {
            tool_call_id: &call.wire_id,
            content,
        };
        self.push(kind, &message);
    }

    /// Puts a reference in the place of a call's result; `false` where there is none to replace.
    pub fn refer(&mut self, call: &CallId) -> bool {
        let wanted = Kind::Result {
            call: call.clone(),
            worth: Worth::Output,
        };
        let Some(at) = self.kinds.iter().position(|kind| *kind == wanted) else {
            return false;
        };
        let wire = reference(call, &self.messages[at]);
        self.bytes = self.bytes - self.messages[at].get().len() + wire.get().len();
        self.messages_mut()[at] = wire;
        self.kinds[at] = Kind::Result {
            call: call.clone(),
            worth: Worth::Reference,
        };
        true
    }

    /// What would remain if the messages before `end` went.
    pub fn past_before(&self, end: usize, notes: Option<&str>) -> Past {
        let mut past = self.past.clone();
        past.take(&self.kinds[..end], &self.messages[..end], notes);
        past
    }

    /// Puts `digest` in the place of the messages before `end`, the system prompt excepted, and remembers of them what
    /// must not be lost. `false` where that would part a call from its result.
    pub fn digest(&mut self, end: usize, digest: &str, notes: Option<&str>) -> bool {
        if end < 2 || !self.is_boundary(end) {
            return false;
        }
        self.past = self.past_before(end, notes);
        let content = Content::Text(digest);
        let digest = wire(&Message::User { content });
        self.messages_mut().splice(1..end, [digest]);
        self.kinds.splice(1..end, [Kind::Digest]);
        self.bytes = self.messages.iter().map(|wire| wire.get().len()).sum();
        true
    }

    /// Whether a call and its result are never on two sides of this place.
    pub fn is_boundary(&self, at: usize) -> bool {
        match self.kinds.get(at) {
            Some(kind) => !matches!(kind, Kind::Result { .. }),
            None => at == self.kinds.len(),
        }
    }

    fn push(&mut self, kind: Kind, message: &Message<'_>) {
        let wire = wire(message);
        self.bytes += wire.get().len();
        self.messages_mut().push(wire);
        self.kinds.push(kind);
    }
}

/// A guess at the tokens in so many bytes.
pub fn tokens_in(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_A_TOKEN)
}

/// A message that asks the model for something beside the conversation.
pub fn request(content: &str) -> Wire {
    let content = Content::Text(content);
    wire(&Message::User { content })
}

/// What stands for the result in `wire`: the same pairing, a few words.
pub fn reference(call: &CallId, result: &Wire) -> Wire {
    let read = past::read_back(result);
    wire(&Message::Tool {
        tool_call_id: &read.tool_call_id,
        content: &wording::reference(call, &read.content.unwrap_or_default()),
    })
}

fn wire(message: &Message<'_>) -> Wire {
    Arc::from(to_raw_value(message).expect("BUG: strings and lists always serialise"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::event::Image;

    #[test]
    fn a_request_keeps_its_messages_and_costs_no_copy_once_it_is_over() {
        let mut conversation = Conversation::default();
        conversation.system("You are an agent.");
        let request = conversation.shared();
        conversation.user("Go on.");
        assert_eq!((request.len(), conversation.messages().len()), (1, 2));
        drop(request);
        // Room for one more, so that growing it alone moves nothing.
        conversation.messages_mut().reserve(1);
        let before = conversation.messages().as_ptr();
        drop(conversation.shared());
        conversation.user("And on.");
        assert_eq!(conversation.messages().as_ptr(), before);
    }

    #[test]
    fn only_what_a_person_showed_is_looked_through_for_pictures() {
        let image = Image {
            session: "s".into(),
            sha256: "ab".repeat(32),
            mime: "image/png".into(),
        };
        let words = Words {
            text: "Look.".into(),
            images: vec![image],
        };
        let mut conversation = Conversation::default();
        conversation.system("You are an agent.");
        conversation.person(&words, true);
        conversation.user(PICTURE);
        let shows = conversation
            .messages()
            .iter()
            .map(|wire| has_pictures(wire.get()));
        assert_eq!(shows.collect::<Vec<_>>(), [false, true, false]);
    }
}
