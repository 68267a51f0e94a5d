//! Requests to the model, and the tools that are offered with them.

use super::{Scene, World};
use crate::agent::event::{Answer, CallId, Event, Usage};
use crate::agent::mcp::Offer;
use crate::agent::step::Toolset;
use crate::definitions::{Kind, Origin};
use crate::gate::Destination;
use crate::tools::{self, Kit, Tool};
use crate::world::model::{ModelError, Request};
use crate::world::projects::Projects;
use crate::world::trim;
use crate::world::workspace::Workspace;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// After so many answers, what came before is over: the start, and the first round.
const ANSWERS_FORGOTTEN: u64 = 2;

/// The tools as the model sees them: made with the first request that offers them, the same bytes with every later one.
#[derive(Default)]
pub struct Offers(Mutex<HashMap<(Kit, Taken), Arc<RawValue>>>);

/// Tools that an agent, or a command, takes away.
type Taken = Vec<&'static str>;

/// So many different offers are remembered.
const OFFERS_MAX: usize = 200;

impl Offers {
    fn pick(&self, kit: Kit, wanted: &Toolset) -> Arc<RawValue> {
        let names = tools::all().iter().map(|tool| tool.name);
        let taken: Taken = names.filter(|name| wanted.forbids(name)).collect();
        // Each change is one insertion: a panic elsewhere cannot have left it half done.
        let mut made = (self.0.lock()).unwrap_or_else(|poisoned| poisoned.into_inner());
        if made.len() >= OFFERS_MAX {
            made.clear();
        }
        let key = (kit, taken);
        if let Some(known) = made.get(&key) {
            return known.clone();
        }
        let is_kept = |offer: &Value| {
            let name = offer["function"]["name"].as_str();
            name.is_none_or(|name| !key.1.contains(&name))
        };
        let offers: Vec<Value> = tools::offered(kit).into_iter().filter(is_kept).collect();
        let offers = serde_json::value::to_raw_value(&offers).expect("BUG: schemas serialise");
        let offers: Arc<RawValue> = offers.into();
        made.insert(key, offers.clone());
        offers
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
        if self.answered.fetch_add(1, Ordering::Relaxed) < ANSWERS_FORGOTTEN {
            trim::forget_start();
        }
        match answered {
            Ok(answer) => Event::ModelAnswered {
                round: request.round,
                answer: Answer {
                    cost_micros: self
                        .policy
                        .price_of(request.model)
                        .and_then(|price| price.cost(answer.usage)),
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
                cost_micros: self
                    .policy
                    .price_of(request.model)
                    .and_then(|price| price.cost(answer.usage)),
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
    pub(super) async fn offered(&self, wanted: &Toolset, scene: &Scene) -> Arc<RawValue> {
        let kit = self.kit_of(wanted, scene).await;
        let ours = self.offers.pick(kit, wanted);
        match wanted.write && !wanted.mcp.tools.is_empty() {
            true => with_theirs(&ours, wanted).into(),
            false => ours,
        }
    }

    /// The same, to make a plan of.
    pub(super) async fn commands_of(
        &self,
        wanted: &Toolset,
        scene: &Scene,
    ) -> (Vec<&'static Tool>, Offer) {
        let kit = self.kit_of(wanted, scene).await;
        let has = |name: &str| !wanted.forbids(name);
        let ours = tools::of(kit).filter(|tool| has(tool.name)).collect();
        let theirs = wanted.mcp.tools.iter().filter(|tool| has(&tool.name));
        let theirs = theirs.filter(|_| wanted.write).cloned().collect();
        let offer = Offer {
            tools: theirs,
            problems: Vec::new(),
        };
        (ours, offer)
    }

    async fn kit_of(&self, wanted: &Toolset, scene: &Scene) -> Kit {
        let kit = match &scene.home {
            Some(home) => *home.notes().kit.get_or_init(|| self.kit(home, scene)).await,
            None => Kit::default(),
        };
        Kit {
            commands: self.has_had_commands(scene),
            write: wanted.write,
            skills: wanted.skills,
            schedules: scene.can_schedule,
            helpers: wanted.steps && kit.helpers,
            steps: wanted.steps,
            ..kit
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
            github,
            workspaces,
            sources: self.inquiries.has_sources(),
            helpers: projects.is_some(),
            ..Kit::default()
        }
    }
}

/// Our own tools, the same bytes as without them, and behind these the tools of servers.
fn with_theirs(ours: &RawValue, wanted: &Toolset) -> Box<RawValue> {
    let is_kept = |offer: &Value| {
        let name = offer["function"]["name"].as_str().unwrap_or_default();
        !wanted.forbids(name)
    };
    let theirs = wanted.mcp.functions().into_iter().filter(is_kept);
    let theirs = theirs.map(|function| function.to_string());
    let ours = ours.get().trim_start_matches('[').trim_end_matches(']');
    let all = [ours.to_owned()].into_iter().chain(theirs);
    let all: Vec<String> = all.filter(|part| !part.is_empty()).collect();
    RawValue::from_string(format!("[{}]", all.join(","))).expect("BUG: functions are JSON")
}

impl World {
    /// Whether the session ever saw commands that a model may load. The first one may be written, or be trusted, while it
    /// works: then the tools grow once.
    fn has_had_commands(&self, scene: &Scene) -> bool {
        let Some(home) = &scene.home else {
            return false;
        };
        let known = &home.notes().commands;
        if !known.load(Ordering::Relaxed) {
            let here = scene.workspace.as_ref().unwrap_or(home);
            known.store(self.has_commands(here), Ordering::Relaxed);
        }
        known.load(Ordering::Relaxed)
    }

    /// Whether somebody wrote commands down that a model may load; what comes with the program is for people.
    fn has_commands(&self, home: &Workspace) -> bool {
        if !self.trust.may_have_commands(home) {
            return false;
        }
        let registry = self.trust.definitions(home);
        let mut commands = registry.of(Kind::Command);
        commands.any(|one| one.origin != Origin::BuiltIn && tools::is_for_models(one, None))
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
