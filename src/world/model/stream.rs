//! One answer, put together from the chunks of a stream or from a whole response. Wire quirks are taken care of here.

use super::ModelError;
use crate::agent::event::{Answer, Call, CallId, Usage};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A streamed chunk, read leniently: servers add fields, leave out others and send errors in between.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Chunk {
    choices: Vec<Choice>,
    usage: Option<WireUsage>,
    error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Choice {
    /// `message` in a whole response.
    #[serde(alias = "message")]
    delta: Delta,
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Delta {
    content: Option<String>,
    /// DeepSeek, llama.cpp and vLLM; others call it `reasoning`.
    #[serde(alias = "reasoning")]
    reasoning_content: Option<String>,
    tool_calls: Option<Vec<ToolDelta>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ToolDelta {
    index: Option<usize>,
    id: Option<String>,
    function: FunctionDelta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

/// An answer in the making.
#[derive(Debug, Default)]
pub struct Assembly {
    text: String,
    reasoning: String,
    calls: BTreeMap<usize, (String, String, String)>,
    usage: Usage,
    finish: Option<String>,
}

impl Assembly {
    /// Takes the next chunk; returns the text that it added.
    ///
    /// # Errors
    /// An error frame, which some servers send in mid-stream after status 200.
    pub fn take(&mut self, chunk: Chunk) -> Result<Option<String>, ModelError> {
        if let Some(error) = chunk.error {
            return Err(ModelError::Server {
                status: 200,
                message: super::openai::error_message(&error),
                retry_after: None,
            });
        }
        if let Some(usage) = chunk.usage {
            self.usage = Usage {
                input_tokens: usage.prompt_tokens,
                output_tokens: usage.completion_tokens,
                cached_tokens: usage
                    .prompt_tokens_details
                    .and_then(|details| details.cached_tokens)
                    .unwrap_or(0),
            };
        }
        // We ask for one choice; a second one would be someone else's answer.
        let Some(choice) = chunk.choices.into_iter().next() else {
            return Ok(None);
        };
        if let Some(finish) = choice.finish_reason {
            self.finish = Some(finish);
        }
        self.reasoning
            .push_str(choice.delta.reasoning_content.as_deref().unwrap_or(""));
        for (position, call) in choice
            .delta
            .tool_calls
            .unwrap_or_default()
            .into_iter()
            .enumerate()
        {
            self.take_call(position, call);
        }
        let text = choice.delta.content.filter(|text| !text.is_empty());
        if let Some(text) = &text {
            self.text.push_str(text);
        }
        Ok(text)
    }

    fn take_call(&mut self, position: usize, delta: ToolDelta) {
        let index = delta
            .index
            .unwrap_or_else(|| self.index_without_number(position, delta.id.as_deref()));
        let (id, name, arguments) = self.calls.entry(index).or_default();
        if let Some(new) = delta.id.filter(|new| !new.is_empty()) {
            *id = new;
        }
        if let Some(new) = delta.function.name {
            name.push_str(&new);
        }
        arguments.push_str(delta.function.arguments.as_deref().unwrap_or(""));
    }

    /// Servers that leave the index out: a new id is a new call, no id goes on with the last one.
    fn index_without_number(&self, position: usize, id: Option<&str>) -> usize {
        let known = id.and_then(|id| {
            self.calls
                .iter()
                .find(|(_, call)| call.0 == id)
                .map(|(index, _)| *index)
        });
        let last = self.calls.last_key_value().map(|(index, _)| *index);
        match (known, id, last) {
            (Some(index), _, _) => index,
            (None, Some(_), Some(last)) => last + 1,
            (None, None, Some(last)) => last,
            (None, _, None) => position,
        }
    }

    /// The whole answer.
    ///
    /// # Errors
    /// [`ModelError::Truncated`] where the server never said that it was finished.
    pub fn finish(self, round: u32) -> Result<Answer, ModelError> {
        let Some(finish) = self.finish else {
            return Err(ModelError::Truncated {
                message: "the stream ended without a finish_reason".into(),
            });
        };
        let mut seen = std::collections::HashSet::new();
        let call = |(position, (id, tool, arguments)): (usize, (String, String, String))| {
            // Results are paired by id: one that is missing or used twice gets ours instead.
            let wire_id = if id.is_empty() || !seen.insert(id.clone()) {
                format!("call{round:05}{position:02}")
            } else {
                id
            };
            Call {
                id: CallId(format!("{round}.{}", position + 1)),
                wire_id,
                tool,
                arguments,
            }
        };
        let calls = self.calls.into_values().enumerate().map(call).collect();
        let reasoning = Some(self.reasoning).filter(|reasoning| !reasoning.is_empty());
        Ok(Answer {
            text: self.text,
            reasoning,
            calls,
            usage: self.usage,
            cost_micros: None,
            finish,
            attempts: 1,
            duration_ms: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assemble(chunks: &[&str]) -> Result<Answer, ModelError> {
        let mut assembly = Assembly::default();
        for chunk in chunks {
            assembly.take(serde_json::from_str(chunk).expect("a chunk"))?;
        }
        assembly.finish(1)
    }

    #[test]
    fn parallel_calls_arrive_interleaved() {
        let answer = assemble(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read_lines","arguments":""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"search","arguments":"{\"p"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":"\":1}"}}]},"finish_reason":null}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}],"extra":1}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":5}}}"#,
        ])
        .expect("an answer");
        let calls: Vec<_> = answer
            .calls
            .iter()
            .map(|call| (call.tool.as_str(), call.arguments.as_str()))
            .collect();
        assert_eq!(calls, [("read_lines", "{}"), ("search", r#"{"p":1}"#)]);
        assert_eq!(
            answer.usage,
            Usage {
                input_tokens: 7,
                output_tokens: 3,
                cached_tokens: 5
            }
        );
    }

    #[test]
    fn a_stream_without_an_end_is_no_answer() {
        let error =
            assemble(&[r#"{"choices":[{"delta":{"content":"half"}}]}"#]).expect_err("truncated");
        assert_eq!(error.kind(), "truncated");
    }

    #[test]
    fn an_error_frame_in_mid_stream_is_an_error() {
        let error = assemble(&[r#"{"error":{"message":"slot unavailable","code":500}}"#])
            .expect_err("an error");
        assert!(error.to_string().contains("slot unavailable"), "{error}");
    }

    #[test]
    fn calls_without_ids_or_numbers_are_kept_apart() {
        let answer = assemble(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"a","arguments":"{}"}},{"id":"x","function":{"name":"b","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
        ])
        .expect("an answer");
        let calls: Vec<_> = answer
            .calls
            .iter()
            .map(|call| (call.tool.as_str(), call.wire_id.as_str()))
            .collect();
        assert_eq!(calls, [("a", "call0000100"), ("b", "x")]);
    }
}
