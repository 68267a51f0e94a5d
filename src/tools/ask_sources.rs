//! `ask_sources`: a question about sources of the owner's, to an agent in a clean room. It changes nothing; the answer is data.

use super::{Action, Reach, RunFuture, Tool, args, schema_of};
use crate::agent::event::{Call, EffectClass, Outcome};
use crate::gate::{Approved, Touch};
use crate::world::inquiries::Question;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

pub const TOOL: Tool = Tool {
    name: "ask_sources",
    about: include_str!("../../prompts/tools/ask_sources.md"),
    // Asked again, it only costs again.
    class: EffectClass::Pure,
    schema: schema_of::<Args>,
    touches: |json| Ok(vec![Touch::Sources(args::<Args>(json)?.sources)]),
    action: Action::World { run, expect: None },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[schemars(length(min = 1))]
    sources: Vec<String>,
    #[schemars(length(min = 1))]
    question: String,
}

fn run(call: Approved<Call>, reach: Arc<Reach>) -> RunFuture {
    Box::pin(async move {
        let agent = call.answerer().map(|answerer| answerer.agent.clone());
        let id = call.get().id.clone();
        let asked = agent.and_then(|agent| Ok((agent, call.typed::<Args>()?)));
        match (asked, &reach.helpers) {
            (Ok((agent, call)), Some(helpers)) => {
                let Args { sources, question } = call.get();
                let question = Question {
                    sources,
                    text: question,
                    agent: &agent,
                    call: &id,
                };
                helpers.inquiries.ask(question, helpers.asker()).await
            }
            (Err(why), _) => Outcome::failed(format!("Nobody was asked: {why}.")),
            (Ok(_), None) => Outcome::failed("Nobody can be asked here."),
        }
    })
}
