//! Requests to the model, and the tools that are offered with them.

use super::{Scene, World};
use crate::agent::event::{Answer, CallId, Event, Usage};
use crate::gate::Destination;
use crate::tools;
use crate::world::model::{ModelError, Request};
use serde_json::value::RawValue;
use std::sync::OnceLock;

/// The tools as the model sees them: made with the first request that offers them, the same bytes with every later one.
#[derive(Default)]
pub struct Offers([OnceLock<Box<RawValue>>; 4]);

impl Offers {
    fn pick(&self, write_enabled: bool, github: bool) -> &RawValue {
        let kind = usize::from(write_enabled) * 2 + usize::from(github);
        self.0[kind].get_or_init(|| {
            serde_json::value::to_raw_value(&tools::offered(write_enabled, github))
                .expect("BUG: schemas serialise")
        })
    }
}

impl World {
    pub(super) async fn ask_model(&self, request: &Request<'_>, scene: &Scene) -> Event {
        let show = |delta| (scene.show)(delta);
        let asked = self.model.ask(request, self.patience, &show);
        let Some(answered) = scene.cancel.run_until_cancelled(asked).await else {
            return stopped(request.round);
        };
        match answered {
            Ok(answer) => Event::ModelAnswered {
                round: request.round,
                answer: Answer {
                    cost_micros: self.price.and_then(|price| price.cost(answer.usage)),
                    ..answer
                },
            },
            Err((error, attempts)) => no_answer(request.round, &error, attempts),
        }
    }

    /// Notes are nothing that the person sees being written. Without an answer the turn fails and can be resumed; only
    /// what would be refused again is done without notes.
    pub(super) async fn summarise(&self, request: &Request<'_>, scene: &Scene) -> Event {
        let show = |_| ();
        let asked = self.model.ask(request, self.patience, &show);
        let Some(answered) = scene.cancel.run_until_cancelled(asked).await else {
            return stopped(request.round);
        };
        match answered {
            Ok(answer) => Event::SummaryGiven {
                text: answer.text,
                cost_micros: self.price.and_then(|price| price.cost(answer.usage)),
                usage: answer.usage,
                attempts: answer.attempts,
                error: None,
            },
            Err((error, attempts)) if error.is_about_the_request() => Event::SummaryGiven {
                text: String::new(),
                usage: Usage::default(),
                cost_micros: Some(0),
                attempts,
                error: Some(error.to_string()),
            },
            Err((error, attempts)) => no_answer(request.round, &error, attempts),
        }
    }

    /// The tools of a session's requests.
    pub(super) async fn offered(&self, write_enabled: bool, scene: &Scene) -> &RawValue {
        let github = self.has_project(scene).await;
        self.offers.pick(write_enabled, github)
    }

    /// Whether the session's tools are also those for pull requests. Looked up once: what is offered stays the same.
    async fn has_project(&self, scene: &Scene) -> bool {
        let (Some(workspace), Some(_)) = (&scene.workspace, &self.hosting.token) else {
            return false;
        };
        let looked = async {
            let processes = self.processes(workspace, scene.cancel.clone());
            let call = CallId("0".into());
            let remote = self.remote(&processes, &call, workspace);
            matches!(remote.project().await, Destination::Known(_))
        };
        *workspace.notes().project.get_or_init(|| looked).await
    }
}

fn stopped(round: u32) -> Event {
    Event::ModelFailed {
        round,
        kind: "cancelled".into(),
        message: "stopped".into(),
        attempts: 0,
    }
}

fn no_answer(round: u32, error: &ModelError, attempts: u32) -> Event {
    Event::ModelFailed {
        round,
        kind: error.kind().into(),
        message: error.to_string(),
        attempts,
    }
}
