//! Questions about sources that a person asks: `/ask SOURCE… -- QUESTION`. Pure.
//!
//! Such a turn has one call, which no model made, and what that says is the turn's answer. The call goes the way of any
//! other: examined, judged, asked about where the gate says so, written down before and after, made again after a crash.

use crate::agent::event::{By, Call, CallId, Event};
use crate::agent::state::State;
use serde_json::json;

/// What is called.
pub const TOOL: &str = "ask_sources";

/// What stands between sources and question. Telephones write one long dash for two.
const DASHES: [&str; 3] = ["--", "—", "–"];

/// A question, and what was heard of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub sources: Vec<String>,
    pub question: String,
    /// As the call's result has it.
    pub heard: Option<String>,
}

/// What stands behind `/ask`; `None` where a part of it is missing.
pub fn read(said: &str) -> Option<Asked> {
    let dash = said.split_whitespace().find(|word| DASHES.contains(word))?;
    // Slices of one text: their distance is where it stands.
    let at = dash.as_ptr() as usize - said.as_ptr() as usize;
    let sources = said[..at].split_whitespace().map(str::to_owned);
    let asked = Asked {
        sources: sources.collect(),
        question: said[at + dash.len()..].trim().to_owned(),
        heard: None,
    };
    (!asked.sources.is_empty() && !asked.question.is_empty()).then_some(asked)
}

/// What a message becomes that asks.
pub fn ask(asked: Asked, by: By) -> Event {
    Event::SourcesAsked {
        by,
        sources: asked.sources,
        question: asked.question,
    }
}

/// The turn's only call.
pub fn call(state: &State, asked: &Asked) -> Call {
    let arguments = json!({"sources": asked.sources, "question": asked.question});
    Call {
        id: CallId(format!("{}.1", state.rounds + 1)),
        wire_id: String::new(),
        tool: TOOL.to_owned(),
        arguments: arguments.to_string(),
    }
}

/// What the model reads, with what the person says next, about a question that was not its doing. Answers are data.
pub fn for_model(asked: &Asked) -> String {
    let heard = asked.heard.as_deref().unwrap_or("There is no answer.");
    format!(
        "[The person asked about the sources {}: {:?}\n{heard}]",
        asked.sources.join(", "),
        asked.question
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_stand_before_the_dashes_and_the_question_behind_them() {
        let found = |said: &str| {
            let asked = read(said)?;
            Some((asked.sources.join("+"), asked.question))
        };
        let pair = |sources: &str, question: &str| Some((sources.to_owned(), question.to_owned()));
        assert_eq!(found("a b -- why?"), pair("a+b", "why?"));
        assert_eq!(found("a — why?"), pair("a", "why?"));
        assert_eq!(found("a –\nwhy -- not?\n"), pair("a", "why -- not?"));
        assert_eq!(
            found("a -- --help 'x' $& ${q}"),
            pair("a", "--help 'x' $& ${q}")
        );
        for said in ["", "--", "a --", "-- why?", "a why?", "a --why?"] {
            assert_eq!(found(said), None, "{said}");
        }
    }
}
