//! Plans, asked of a model: what is asked, and what becomes of the answers, says [`crate::plan::Draft`].
//!
//! No tools are offered, calls that an answer brings all the same are not looked at, and nothing here can run one.

use super::{Scene, World};
use crate::agent::conversation::Conversation;
use crate::agent::event::{Answer, DraftCost, Drafted};
use crate::agent::step::{DraftBounds, Toolset};
use crate::plan::{Catalog, Draft, Graph, Next, Request as Asked};
use crate::world::model::{DRAFT, Form, ModelError, Request};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// What is to be drafted.
pub(super) struct Wish<'a> {
    pub objective: &'a str,
    pub model: &'a str,
    pub tools: &'a Toolset,
    pub bounds: DraftBounds,
}

impl World {
    /// A plan, or why there is none; and what it cost.
    pub(super) async fn draft(&self, wish: Wish<'_>, scene: &Scene) -> (Drafted, DraftCost) {
        let catalog = self.catalog(wish.tools, scene).await;
        let mut draft = Draft::begin(wish.objective, &catalog);
        let mut cost = DraftCost::default();
        let drafted = loop {
            let asked = match draft.next() {
                Next::Ask(asked) => asked,
                Next::Done(graph) => break made(graph, &catalog),
                Next::Failed(why) => break Drafted::Failed { why },
            };
            if let Some(why) = used_up(&cost, wish.bounds) {
                let why = why.to_owned();
                break Drafted::Failed { why };
            }
            let answering = self.answer(&asked, wish.model);
            match scene.cancel.run_until_cancelled(answering).await {
                None => break Drafted::Stopped,
                Some(Err(error)) => {
                    let why = error.to_string();
                    break Drafted::Failed { why };
                }
                Some(Ok(answer)) => {
                    self.count(&mut cost, &answer, wish.model);
                    draft.answered(&answer.text);
                }
            }
        };
        (drafted, cost)
    }

    /// In words and by its form; what comes is checked all the same.
    async fn answer(&self, asked: &Asked, model: &str) -> Result<Answer, ModelError> {
        let mut conversation = Conversation::default();
        conversation.system(&asked.system);
        conversation.user(&asked.user);
        let none = RawValue::from_string("[]".to_owned()).expect("BUG: a list is JSON");
        let request = Request {
            round: DRAFT,
            model,
            messages: conversation.messages(),
            tools: &none,
        };
        let form = Form {
            temperature: Some(asked.temperature),
            schema: Some((asked.name, &asked.schema)),
        };
        let answered = self.model.ask_for(&request, form, self.patience).await;
        answered.map_err(|(error, _)| error)
    }

    /// The price of one answer that nobody knows makes the price of all unknown.
    fn count(&self, cost: &mut DraftCost, answer: &Answer, model: &str) {
        let price = self.policy.price_of(model);
        let micros = price.and_then(|price| price.cost(answer.usage));
        let before = match cost.answers {
            0 => Some(0),
            _ => cost.cost_micros,
        };
        cost.answers += 1;
        cost.usage.add(answer.usage);
        cost.cost_micros = before.zip(micros).map(|(before, more)| before + more);
    }

    /// The commands that tasks may name: what the session is offered, and nothing else.
    async fn catalog(&self, wanted: &Toolset, scene: &Scene) -> Catalog {
        let (tools, offer) = self.commands_of(wanted, scene).await;
        Catalog::of_tools(self.policy.limits.plans(), tools, &offer)
    }
}

/// Why nothing more may be asked.
fn used_up(cost: &DraftCost, bounds: DraftBounds) -> Option<&'static str> {
    if cost.usage.total() >= bounds.tokens {
        return Some("The tokens of this turn are used up (tokens_max).");
    }
    let left = bounds.micros?;
    let spent = match cost.answers {
        0 => 0,
        _ => match cost.cost_micros {
            Some(micros) => micros,
            None => {
                return Some("There is a limit in money, and nobody knows what this model costs.");
            }
        },
    };
    (spent >= left).then_some("The money of this turn, session or month is used up (/cost).")
}

fn made(graph: Graph, catalog: &Catalog) -> Drafted {
    let tool = |task: &crate::plan::Task| {
        let command = catalog.get(&task.service, &task.command)?;
        Some((task.id.clone(), command.tool.clone()))
    };
    let tools: BTreeMap<String, String> = graph.tasks.iter().filter_map(tool).collect();
    Drafted::Made {
        digest: graph.digest(),
        task_graph: graph,
        tools,
    }
}
