//! Requests to the model, and the tools that are offered with them.

use super::{Scene, World};
use crate::agent::event::{Answer, CallId, Event, Usage};
use crate::agent::mcp::Offer;
use crate::definitions::{Kind, Origin};
use crate::gate::Destination;
use crate::tools::{self, Kit};
use crate::world::model::{ModelError, Request};
use crate::world::projects::Projects;
use crate::world::trim;
use crate::world::workspace::Workspace;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// The tools as the model sees them: made with the first request that offers them, the same bytes with every later one.
#[derive(Default)]
pub struct Offers([OnceLock<Box<RawValue>>; 32]);

impl Offers {
    fn pick(&self, kit: Kit) -> &RawValue {
        let bits = [
            kit.write,
            kit.github,
            kit.workspaces,
            kit.schedules,
            kit.commands,
        ];
        let index = bits
            .iter()
            .fold(0, |index, bit| 2 * index + usize::from(*bit));
        self.0[index].get_or_init(|| {
            serde_json::value::to_raw_value(&tools::offered(kit)).expect("BUG: schemas serialise")
        })
    }
}

impl World {
    pub(super) async fn ask_model(&self, request: &Request<'_>, scene: &Scene) -> Event {
        let show = |delta| (scene.show)(delta);
        if let Some(message) = &scene.begun_by {
            self.channels.show_work(&scene.customer.chat, message);
        }
        let messages = self.shown(request.messages).await;
        let request = &Request {
            messages: &messages,
            ..*request
        };
        let asked = self.model.ask(request, self.patience, &show);
        let Some(answered) = scene.cancel.run_until_cancelled(asked).await else {
            return stopped(request.round);
        };
        self.started.call_once(trim::forget_start);
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
        let messages = self.shown(request.messages).await;
        let request = &Request {
            messages: &messages,
            ..*request
        };
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
    pub(super) async fn offered<'a>(
        &'a self,
        write: bool,
        mcp: &Offer,
        scene: &Scene,
    ) -> Cow<'a, RawValue> {
        let kit = match &scene.home {
            Some(home) => *home.notes().kit.get_or_init(|| self.kit(home, scene)).await,
            None => Kit::default(),
        };
        let ours = self.offers.pick(Kit {
            write,
            schedules: scene.can_schedule,
            ..kit
        });
        match write && !mcp.tools.is_empty() {
            true => Cow::Owned(with_theirs(ours, mcp)),
            false => Cow::Borrowed(ours),
        }
    }

    /// What the session's tools are about, besides the workspace. Looked up once: what is offered stays the same.
    async fn kit(&self, home: &Workspace, scene: &Scene) -> Kit {
        let among = |projects: &Arc<Projects>| projects.holds(home.root());
        let projects = self.projects.as_ref().filter(|projects| among(projects));
        let workspaces = projects.is_some_and(|projects| projects.names().len() > 1);
        let github = match &self.hosting.token {
            None => false,
            // One of the others may be on GitHub.
            Some(_) if workspaces => true,
            Some(_) => {
                let processes = self.processes(home, scene.cancel.clone());
                let call = CallId("0".into());
                let remote = self.remote(&processes, &call, home);
                matches!(remote.project().await, Destination::Known(_))
            }
        };
        Kit {
            write: false,
            github,
            workspaces,
            schedules: false,
            commands: self.has_commands(home),
        }
    }
}

/// Our own tools, the same bytes as without them, and behind these the tools of servers.
fn with_theirs(ours: &RawValue, mcp: &Offer) -> Box<RawValue> {
    let start = ours.get().trim_end_matches(']');
    let theirs = mcp.functions().into_iter();
    let theirs: String = theirs.map(|function| format!(",{function}")).collect();
    RawValue::from_string(format!("{start}{theirs}]")).expect("BUG: functions are JSON")
}

impl World {
    /// Whether somebody wrote commands down that a model may load; what comes with the program is for people.
    fn has_commands(&self, home: &Workspace) -> bool {
        let registry = self.trust.definitions(home);
        let mut commands = registry.of(Kind::Command);
        commands.any(|one| one.origin != Origin::BuiltIn && tools::is_for_models(one))
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
