//! MCP servers: which there are for a workspace, what they offer, and calls of their tools.
//!
//! Nothing is started before a turn asks what there is to offer, and nothing of a workspace's own file before its owner
//! trusted exactly that file. Servers are data: a hint of theirs decides nothing. One that is slow or dead costs a turn a
//! bounded wait, never the session.

/// What they ask the person.
pub mod asking;
/// One connection.
pub mod client;
/// What is configured.
pub mod config;
/// What they have for people: prompts and resources.
mod prompts;
/// What they say.
mod said;
/// One server of one workspace.
mod slot;

use crate::agent::event::{CallId, Outcome, Status};
use crate::agent::limits::Limits;
use crate::agent::mask::Masks;
use crate::agent::mcp::{Offer, full_name};
use crate::agent::wording::one_line;
use crate::gate::McpTouch;
use crate::tools::Reach;
use crate::world::confine::Sandbox;
use crate::world::process::Processes;
use crate::world::trust::{McpRule, Trust};
use crate::world::workspace::Workspace;
use asking::Asking;
use config::{Config, Configured, Transport};
use futures_util::future::join_all;
use said::Gathering;
use serde_json::{Map, Value};
use slot::Slot;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

pub use prompts::Asker;

/// Of what went wrong on the way.
const ERROR_CHARS_MAX: usize = 1_000;

/// Every server of this program.
pub struct Servers {
    configured: Configured,
    trust: Trust,
    masks: Masks,
    limits: Limits,
    environment: Arc<Vec<(String, String)>>,
    sandbox: Arc<Sandbox>,
    /// By where they work, and by their configuration.
    slots: Mutex<HashMap<(PathBuf, String), Arc<Slot>>>,
}

/// What is known of one server, for people.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Survey {
    pub name: String,
    pub what: String,
    pub from: &'static str,
    /// Name, version, revision of the protocol; where it is connected.
    pub about: Option<String>,
    pub tools: Vec<String>,
    /// As a person calls them, without the slash.
    pub prompts: Vec<String>,
    pub resources: Vec<String>,
    pub problem: Option<String>,
}

impl Servers {
    pub fn new(
        configured: Configured,
        trust: Trust,
        masks: Masks,
        limits: Limits,
        environment: Arc<Vec<(String, String)>>,
        sandbox: Arc<Sandbox>,
    ) -> Self {
        Self {
            configured,
            trust,
            masks,
            limits,
            environment,
            sandbox,
            slots: Mutex::default(),
        }
    }

    /// Whether there is anything to look at: servers, or a file that names some.
    pub fn may_be_here(&self, workspace: &Workspace) -> bool {
        let configured = &self.configured;
        !configured.servers.is_empty()
            || !configured.problems.is_empty()
            || !matches!(self.trust.mcp(workspace), McpRule::None)
    }

    /// What a turn offers. Waits for servers, and not for long: one that is late is offered with the next turn.
    pub async fn offer(&self, workspace: &Workspace) -> Offer {
        let (configs, problems) = self.configs(workspace);
        let mut gathering = Gathering::new(&self.limits, &self.masks);
        for problem in problems {
            gathering.problem("MCP", &problem);
        }
        let asked = configs.iter().map(|config| {
            let slot = self.slot(config, workspace);
            // It goes on where nobody waits any more.
            tokio::spawn(async move { slot.client().await?.tools().await })
        });
        let limit = Duration::from_secs(self.limits.mcp_offer_seconds);
        let asked: Vec<_> = asked
            .map(|asked| tokio::time::timeout(limit, asked))
            .collect();
        for (config, answered) in configs.iter().zip(join_all(asked).await) {
            match answered {
                Ok(Ok(Ok(tools))) => gathering.add(config, tools),
                Ok(Ok(Err(why))) => gathering.problem(&config.name, &why),
                Ok(Err(_)) => gathering.problem(&config.name, "a bug of Journeyman"),
                Err(_) => gathering.problem(
                    &config.name,
                    "it is not ready yet; its tools are offered with the next message",
                ),
            }
        }
        gathering.offer
    }

    /// Calls a tool, once. Never fails: what went wrong is the outcome.
    pub async fn call(
        &self,
        touch: &McpTouch,
        arguments: Map<String, Value>,
        call: &CallId,
        reach: &Reach,
    ) -> Outcome {
        let name = full_name(&touch.server, &touch.tool);
        let (configs, _) = self.configs(&reach.workspace);
        let config = configs
            .into_iter()
            .find(|config| config.name == touch.server);
        let Some(config) = config.filter(|config| config.origin == touch.origin) else {
            return Outcome::failed(format!(
                "Not called: the MCP server {} is not configured any more as it was when {name} was offered.",
                touch.server
            ));
        };
        let slot = self.slot(&config, &reach.workspace);
        let limit = Duration::from_secs(self.limits.mcp_connect_seconds);
        let client = tokio::select! {
            client = tokio::time::timeout(limit, slot.client()) => client,
            () = reach.processes.cancelled() => {
                return Outcome::new(Status::Cancelled, "Not called: stopped before the MCP server was connected.");
            }
        };
        let late = |_| Err(format!("it did not connect within {} s", limit.as_secs()));
        let client = match client.unwrap_or_else(late) {
            Ok(client) => client,
            Err(why) => {
                return Outcome::failed(format!(
                    "Not called: the MCP server {} cannot be reached: {why}. Go on without it, or try again later.",
                    touch.server
                ));
            }
        };
        let guard = match config.write {
            true => reach.processes.guard_git(),
            false => Ok(None),
        };
        let guard = match guard {
            Ok(guard) => guard,
            Err(why) => return Outcome::failed(format!("Not called: {why}.")),
        };
        let asking = Arc::new(Asking {
            server: touch.server.clone(),
            call: call.clone(),
            asks: reach.asks.clone(),
            masks: self.masks.clone(),
            so_far: Mutex::default(),
        });
        let limit = Duration::from_secs(self.limits.mcp_call_seconds);
        let answered = {
            let _attended = client.attend(asking.clone());
            tokio::select! {
                answered = client.call(&touch.tool, arguments) => Some(Ok(answered)),
                () = asking.out_of_time(limit) => Some(Err(())),
                () = reach.processes.cancelled() => None,
            }
        };
        let mut outcome = match answered {
            Some(Ok(Ok(result))) => {
                slot.worked().await;
                said::outcome(&result, self.limits.mcp_result_chars_max)
            }
            // An answer of the server: it refused, or failed.
            Some(Ok(Err(rmcp::service::ServiceError::McpError(error)))) => {
                Outcome::failed(format!(
                    "The MCP server {} answered with an error: {}",
                    touch.server,
                    crate::tools::head_and_tail(&error.message, self.limits.mcp_result_chars_max)
                ))
            }
            Some(Ok(Err(error))) => {
                let error = one_line(&format!("{error}{}", client.complaint()), ERROR_CHARS_MAX);
                Outcome::new(
                    Status::Unknown,
                    format!(
                        "The MCP server {} broke off in the middle of the call: {error}. It may or may not have had effects: check before you go on.",
                        touch.server
                    ),
                )
            }
            Some(Err(())) => {
                stopped(
                    &config,
                    client,
                    &slot,
                    Status::Unknown,
                    &format!("{name} did not answer within {} s.", limit.as_secs()),
                )
                .await
            }
            None => {
                stopped(
                    &config,
                    client,
                    &slot,
                    Status::Cancelled,
                    "Stopped before it answered, by the person or by a limit of the turn.",
                )
                .await
            }
        };
        outcome.output.push_str(&asking.remarks());
        if let Some(remark) = guard.as_deref().and_then(crate::world::process::put_back) {
            outcome.output.push_str(&format!("\n{remark}"));
        }
        outcome
    }

    /// What `mcp list` says: every server is connected for it.
    pub async fn survey(&self, workspace: &Workspace) -> (Vec<Survey>, Vec<String>) {
        let (configs, problems) = self.configs(workspace);
        let each = configs.iter().map(|config| {
            let slot = self.slot(config, workspace);
            async move {
                let connected = slot.client().await;
                let about = connected.as_ref().ok().map(|client| client.about());
                let mut gathering = Gathering::new(&self.limits, &self.masks);
                let (mut prompts, mut resources) = (Vec::new(), Vec::new());
                match connected {
                    Ok(client) => {
                        match client.tools().await {
                            Ok(tools) => gathering.add(config, tools),
                            Err(why) => gathering.problem(&config.name, &why),
                        }
                        match self.everything(config, &client).await {
                            Ok(all) => (prompts, resources) = all,
                            Err(why) => gathering.problem(&config.name, &why),
                        }
                    }
                    Err(why) => gathering.problem(&config.name, &why),
                }
                let offer = gathering.offer;
                Survey {
                    name: config.name.clone(),
                    what: self.masks.apply(config.shown()),
                    from: match config.is_owners {
                        true => "config/mcp.json",
                        false => config::WORKSPACE_FILE,
                    },
                    about,
                    tools: offer.tools.into_iter().map(|tool| tool.tool).collect(),
                    prompts,
                    resources,
                    problem: (!offer.problems.is_empty()).then(|| offer.problems.join("; ")),
                }
            }
        });
        (join_all(each).await, problems)
    }

    /// What counts in a workspace now, and what does not, with the reason.
    fn configs(&self, workspace: &Workspace) -> (Vec<Config>, Vec<String>) {
        let mut configs = self.configured.servers.clone();
        let mut problems = self.configured.problems.clone();
        match self.trust.mcp(workspace) {
            McpRule::None => {}
            McpRule::Off(why) => problems.push(format!(
                "servers of {} are not started: {why}",
                config::WORKSPACE_FILE
            )),
            McpRule::Trusted(theirs) => {
                problems.extend(theirs.problems);
                for config in theirs.servers {
                    match configs.iter().any(|ours| ours.name == config.name) {
                        true => problems.push(format!(
                            "{} of {} is left out: config/mcp.json has a server of that name",
                            config.name,
                            config::WORKSPACE_FILE
                        )),
                        false => configs.push(config),
                    }
                }
            }
        }
        let most = self.limits.mcp_servers_max;
        for config in configs.iter().skip(most) {
            problems.push(format!(
                "{} is left out: {most} servers are the limit",
                config.name
            ));
        }
        configs.truncate(most);
        (configs, problems)
    }

    fn slot(&self, config: &Config, workspace: &Workspace) -> Arc<Slot> {
        // One that is reached over HTTP is the same wherever one works.
        let root = match &config.transport {
            Transport::Stdio { .. } => workspace.root().to_owned(),
            Transport::Http { .. } => PathBuf::new(),
        };
        let make = || {
            let processes = Processes::new(
                self.environment.clone(),
                self.sandbox.clone(),
                workspace.root(),
                CancellationToken::new(),
            );
            let processes = processes.reading(workspace.links());
            let root = workspace.root().to_owned();
            Slot::new(config.clone(), processes, root, self.limits.clone())
        };
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (root, config.origin.clone());
        if !slots.contains_key(&key) {
            slots.retain(|_, slot| !slot.is_forgettable());
        }
        slots.entry(key).or_insert_with(make).clone()
    }
}

/// Nobody waits for the answer any more: what the server still does ends with it.
async fn stopped(
    config: &Config,
    client: Arc<client::Client>,
    slot: &Slot,
    status: Status,
    why: &str,
) -> Outcome {
    drop(client);
    slot.end().await;
    let rest = match config.transport {
        Transport::Stdio { .. } => "The server was ended.",
        Transport::Http { .. } => "It may go on at the server.",
    };
    Outcome::new(
        status,
        format!("{why} {rest} It may or may not have had effects: check before you go on."),
    )
}
