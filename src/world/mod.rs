//! ACTS: everything outside of this program is touched from here, by effects that were recorded before.
//!
//! A failure of the outside is data (an [`Outcome`](crate::agent::event::Outcome), a failed send); only what makes it
//! impossible to go on is an error.

/// What is known of the outside, before and after a call.
mod abroad;
/// Requests to the model.
mod asking;
/// Trees of the workspace.
mod checkpoint;
/// Sessions that a call begins.
pub mod children;
/// Where another agent answers.
pub mod clean_room;
/// Time and fresh names.
pub mod clock;
/// Commands that a team wrote down, expanded.
pub mod commands;
/// What commands may reach.
pub mod confine;
/// Plans, asked of a model.
mod drafting;
/// Speech to text.
pub mod ears;
/// Hooks and configuration, as they were.
mod git_guard;
/// GitHub's API.
pub mod github;
/// Questions about sources.
pub mod inquiries;
/// The truth, on disk.
pub mod journal;
/// Between fork and exec.
mod keeper;
/// Commands of an earlier server.
mod left;
/// One writer a data folder.
pub mod lock;
/// What a decision must know of the outside.
mod looks;
/// MCP servers.
pub mod mcp;
/// What came with messages.
pub mod media;
/// Who answers.
pub mod model;
/// HTTP clients.
pub mod net;
/// What a session has read and written.
pub mod notes;
/// Whole outputs of commands.
pub mod outputs;
/// What a model is shown.
pub mod pictures;
/// Whether an effect happened.
pub mod probe;
/// The one spawn.
pub mod process;
/// The folders of `PROJECTS_ROOT`.
pub mod projects;
/// The repository's remote.
pub mod remote;
/// Facts for the gate.
pub mod resolve;
/// Schedules, as they are kept.
pub mod schedules;
/// Messages to the chat.
pub mod sending;
/// Definitions, as they stand in folders.
pub mod shelf;
/// The workspace's content, as git trees.
pub mod snapshot;
/// What can be asked about.
pub mod sources;
/// What keepers write down.
pub mod spool;
/// SQLite, derived from journals.
pub mod store;
/// Memory that only the start needed.
pub mod trim;
/// What a trusted workspace may let in.
pub mod trust;
/// Agents of others.
pub mod visit;
/// The one file opening.
pub mod workspace;
/// Beside the person's folders.
pub mod worktrees;

pub use asking::Offers;

use crate::agent::children::Share;
use crate::agent::event::{
    Call, CallId, Event, Expectation, Opening, Outcome, Status, WorkspaceRef,
};
use crate::agent::forms::{ServerAnswer, ServerQuestion};
use crate::agent::mask::Masks;
use crate::agent::roles::Role;
use crate::agent::state::{Errand, ErrandWish};
use crate::agent::step::{Effect, Look, Policy};
use crate::doors::Channels;
use crate::gate::{Approved, GatePolicy};
use crate::tools::{self, Action, Helpers, Reach, WishFn};
use confine::Sandbox;
use media::Intake;
use model::{Delta, Model, Patience, Request};
use outputs::Outputs;
use process::{Live, Processes};
use projects::Projects;
use remote::{Hosting, Remote};
use resolve::Surroundings;
use schedules::{Customer, Desk};
use sending::Invitations;
use snapshot::Order;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;
use store::Store;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use trust::Trust;
use visit::Host;
use workspace::Workspace;

/// Everything that effects need.
pub struct World {
    pub model: Model,
    pub store: Arc<Store>,
    pub patience: Patience,
    pub environment: Arc<Vec<(String, String)>>,
    pub surroundings: Surroundings,
    pub sandbox: Arc<Sandbox>,
    pub channels: Channels,
    pub masks: Masks,
    pub policy: Arc<Policy>,
    pub hosting: Arc<Hosting>,
    pub projects: Option<Arc<Projects>>,
    pub data_dir: PathBuf,
    /// Tries for one message, each with the channel's own retries.
    pub send_attempts_max: u32,
    pub invitations: Invitations,
    /// What one outline may cost.
    pub outline: crate::outline::Limits,
    /// Where what is no text comes from.
    pub intake: Intake,
    /// Where schedules are kept.
    pub desk: Desk,
    pub trust: Trust,
    pub mcp: Arc<mcp::Servers>,
    /// What can be asked about, and who answers.
    pub inquiries: Arc<inquiries::Inquiries>,
    /// What an agent of others may take for an answer.
    pub answers: visit::Bounds,
    /// Who works in a git worktree of their own.
    pub worktrees: worktrees::Habits,
    /// The wire form of the tools, for reading only and for all.
    pub offers: Offers,
    /// So many answers came from the model.
    pub answered: AtomicU64,
}

/// Where one session's effects happen.
#[derive(Clone)]
pub struct Scene {
    pub session: String,
    /// Where it says what it has to say, and whose it is.
    pub customer: Customer,
    /// The person's name for the folder that it works in.
    pub place: String,
    /// The person's message that began the turn, in its first round.
    pub begun_by: Option<String>,
    /// Whether schedules can be made from here.
    pub can_schedule: bool,
    /// The agent that the person chose.
    pub agent: Option<String>,
    /// `None` where it cannot be opened: then nothing that needs it gets this far.
    pub workspace: Option<Workspace>,
    /// The person's folder, where the session's own worktree of it is not there yet: to be trusted, and nothing else.
    pub checkout: Option<Workspace>,
    /// Where the session started: what it is offered depends on that, and stays what it is when it goes elsewhere.
    pub home: Option<Workspace>,
    /// The session's first line, what it acts as, and what a child of it may spend.
    pub opening: Arc<Opening>,
    pub role: Option<Arc<Role>>,
    pub share: Share,
    /// The person's folder that it works for.
    pub folder: WorkspaceRef,
    /// Ends what runs, when the person says stop.
    pub cancel: CancellationToken,
    pub show: Arc<dyn Fn(Delta) + Send + Sync>,
    /// Says whether a session that a call began waits for a person.
    pub waits: Waits,
    /// Asks the person what an MCP server asks; `None`: nobody is there for that.
    pub asks: Option<Asks>,
}

/// Of a running call: what its MCP server asks the person, and where the answer goes. Dropped: there is none.
pub type Asks = Arc<dyn Fn(&CallId, ServerQuestion, oneshot::Sender<ServerAnswer>) + Send + Sync>;

/// Of a call: whether what it began waits for a person.
pub type Waits = Arc<dyn Fn(&CallId, bool) + Send + Sync>;

/// What a session acts on: the [`World`], or a simulated one that tests can end at any point.
pub trait Outside: Send + Sync {
    /// Performs an effect whose intent is on disk; the event is its outcome.
    fn perform(self: Arc<Self>, effect: Effect, scene: Scene) -> Performance;

    /// Answers a look: at once, without consequences.
    fn look<'a>(
        &'a self,
        look: Look,
        policy: &'a GatePolicy,
        workspace: &'a Result<Workspace, String>,
        journal: &'a Path,
    ) -> Looked<'a>;
}

/// A look under way; its event is the answer.
pub type Looked<'a> = Pin<Box<dyn Future<Output = Event> + Send + 'a>>;

/// An effect under way.
pub type Performance = Pin<Box<dyn Future<Output = Event> + Send>>;

impl Outside for World {
    fn perform(self: Arc<Self>, effect: Effect, scene: Scene) -> Performance {
        Box::pin(async move { self.act(effect, scene).await })
    }

    fn look<'a>(
        &'a self,
        look: Look,
        policy: &'a GatePolicy,
        workspace: &'a Result<Workspace, String>,
        journal: &'a Path,
    ) -> Looked<'a> {
        Box::pin(self.find_out(look, policy, workspace, journal))
    }
}

impl World {
    async fn act(&self, effect: Effect, scene: Scene) -> Event {
        match effect {
            Effect::AskModel {
                round,
                model,
                messages,
                tools,
            } => {
                let tools = &self.offered(&tools, &scene).await;
                let request = Request {
                    round,
                    model: &model,
                    messages: &messages,
                    tools,
                };
                self.ask_model(&request, &scene).await
            }
            Effect::Summarise {
                round,
                model,
                messages,
                tools,
                ..
            } => {
                // Not to be called; without them the provider's cache would not know the rest.
                let tools = &self.offered(&tools, &scene).await;
                let request = Request {
                    round,
                    model: &model,
                    messages: &messages,
                    tools,
                };
                self.summarise(&request, &scene).await
            }
            Effect::Draft {
                graph,
                objective,
                call,
                model,
                tools,
                bounds,
            } => {
                let wish = drafting::Wish {
                    objective: &objective,
                    model: &model,
                    tools: &tools,
                    bounds,
                };
                let (drafted, cost) = self.draft(wish, &scene).await;
                Event::GraphDrafted {
                    graph,
                    to_judge: call.is_some(),
                    call,
                    drafted,
                    cost,
                }
            }
            Effect::RunTool {
                call,
                tool,
                watched,
                expect,
                ..
            } => {
                let expect = expect.map(|expect| *expect);
                self.run_tool(call, &tool, watched, expect, &scene).await
            }
            Effect::Await { call } => self.await_tool(&call, &scene).await,
            Effect::Send { outgoing } => self.send(&outgoing, &scene).await,
            Effect::Checkpoint {
                number,
                moment,
                last,
                drop,
            } => self.checkpoint(number, moment, last, drop, &scene).await,
            Effect::PutBack {
                number,
                swaps,
                from,
                force,
                ..
            } => {
                let order = Order {
                    number,
                    swaps,
                    from,
                    force,
                };
                self.put_back(order, &scene).await
            }
            Effect::Diff { start } => self.diff(start, &scene).await,
            Effect::Fetch { message, media } => self.fetch(message, &media, &scene).await,
            Effect::LoadCommand { message, wish } => {
                self.load_command(message, &wish, &scene).await
            }
            Effect::Errand { errand } => self.meet(&errand, &scene),
            Effect::MakeWorktree {
                owner,
                checkout,
                again,
            } => self.make_worktree(&owner, &checkout, again, &scene).await,
            Effect::Carry {
                carry,
                owner,
                checkout,
                tree,
                ..
            } => self.carry(carry, &owner, &checkout, &tree, &scene).await,
            Effect::Stop => Event::StopAsked,
        }
    }

    async fn run_tool(
        &self,
        call: Approved<Call>,
        tool: &str,
        watched: bool,
        expect: Option<Expectation>,
        scene: &Scene,
    ) -> Event {
        let id = call.get().id.clone();
        let started = Instant::now();
        let Some(reach) = self.reach(scene, expect) else {
            let outcome = Outcome::failed("The workspace cannot be opened.");
            return Event::ToolFinished { call: id, outcome };
        };
        let workspace = reach.workspace.clone();
        let outcome = match tools::acting(tool, &call).map(|tool| &tool.action) {
            Some(Action::World { run, .. }) => run(call, reach).await,
            Some(Action::Schedule(wish)) => self.schedule(call, *wish, scene),
            _ => Outcome::failed(format!("BUG: {tool} does not act on the world")),
        };
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut outcome = Outcome {
            duration_ms,
            ..outcome
        };
        if watched {
            outcome.tree = self.tree(&scene.session, &workspace).await;
        }
        self.finished(id, outcome, scene)
    }

    /// Meets a wish about schedules or trust: however often, it happens once.
    fn meet(&self, errand: &Errand, scene: &Scene) -> Event {
        let key = format!("{} {}", scene.session, errand.message);
        let (store, customer) = (&self.store, &scene.customer);
        match &errand.wish {
            ErrandWish::Cron(wish) => Event::CronAnswered {
                answer: self.desk.act(store, &key, wish, customer, errand.at),
            },
            ErrandWish::Agents(wish) => {
                let place = scene.workspace.as_ref().or(scene.checkout.as_ref());
                Event::AgentsAnswered {
                    answer: self.trust.agents(wish, place, &self.policy.aliases),
                }
            }
            ErrandWish::Trust(wish) => {
                let by = format!("{} in {}", customer.owner, customer.chat);
                let place = scene.workspace.as_ref().or(scene.checkout.as_ref());
                Event::TrustAnswered {
                    answer: self.trust.act(wish, place, &by, errand.at),
                }
            }
        }
    }

    /// The same for a call of a model.
    fn schedule(&self, call: Approved<Call>, wish: WishFn, scene: &Scene) -> Outcome {
        let call = call.into_inner();
        let key = format!("{} {}", scene.session, call.id);
        let (store, customer) = (&self.store, &scene.customer);
        let wish = match wish(&call.json().unwrap_or_default()) {
            Ok(wish) => wish,
            Err(why) => return Outcome::failed(why),
        };
        let answer = self.desk.act(store, &key, &wish, customer, clock::now());
        Outcome {
            consequential: wish.changes(),
            ..tools::schedule_outcome(&wish, &answer)
        }
    }

    /// What a tool may use; `None` where the workspace cannot be opened.
    fn reach(&self, scene: &Scene, expect: Option<Expectation>) -> Option<Arc<Reach>> {
        let workspace = scene.workspace.clone()?;
        let outputs = Outputs::of(&self.data_dir, &scene.session);
        let (show, masks) = (scene.show.clone(), self.masks.clone());
        let live = move |lines| show(Delta::Output(masks.apply(lines)));
        let processes = self.processes(&workspace, scene.cancel.clone());
        Some(Arc::new(Reach {
            session: scene.session.clone(),
            processes: processes.spooling(outputs.clone()).shown(Live::lines(live)),
            workspace,
            outputs,
            hosting: self.hosting.clone(),
            trust: self.trust.clone(),
            own: self.surroundings.own.as_slice().into(),
            projects: self.projects.clone(),
            expect,
            agent: scene.agent.clone(),
            outline: self.outline,
            mcp: Some(self.mcp.clone()),
            helpers: Some(self.helpers(scene)),
            asks: scene.asks.clone(),
        }))
    }

    /// Who can be asked for help from here, and in whose name.
    fn helpers(&self, scene: &Scene) -> Helpers {
        Helpers {
            inquiries: self.inquiries.clone(),
            opening: scene.opening.clone(),
            role: scene.role.clone(),
            checkout: scene.folder.clone(),
            share: scene.share,
            host: Host {
                environment: self.environment.clone(),
                sandbox: self.sandbox.clone(),
                bounds: self.answers,
                cancel: scene.cancel.clone(),
            },
            waits: scene.waits.clone(),
        }
    }

    fn finished(&self, call: CallId, outcome: Outcome, scene: &Scene) -> Event {
        let mut outcome = self.masks.outcome(outcome);
        if let Some(whole) = outcome.whole.take() {
            let outputs = Outputs::of(&self.data_dir, &scene.session);
            let digest = || workspace::digest_of(whole.as_bytes());
            outcome.digest.get_or_insert_with(digest);
            outcome.output.push_str(&keep(&outputs, &call, &whole));
        }
        Event::ToolFinished { call, outcome }
    }

    fn processes(&self, workspace: &Workspace, cancel: CancellationToken) -> Processes {
        Processes::new(
            self.environment.clone(),
            self.sandbox.clone(),
            workspace.root(),
            cancel,
        )
        .reading(workspace.links())
    }

    fn remote<'a>(
        &'a self,
        processes: &'a Processes,
        call: &'a CallId,
        workspace: &'a Workspace,
    ) -> Remote<'a> {
        Remote {
            processes,
            call,
            root: workspace.root(),
            hosting: &self.hosting,
        }
    }
}

/// Puts a long output beside the journal; what the model reads about where it is.
fn keep(outputs: &Outputs, call: &CallId, whole: &str) -> String {
    let lines = whole.lines().count();
    match outputs.keep(call, whole) {
        Ok(()) => format!("\n[{lines} lines in all; read_output(\"{call}\", 1, 200) shows them]"),
        Err(error) => format!("\n[the whole output could not be kept: {error}]"),
    }
}

/// What a panic in an effect is recorded as: nobody knows how far it came.
pub fn broken_tool(call: CallId) -> Event {
    let text = "The tool broke (a bug of Journeyman). It may or may not have had effects: check before you go on.";
    Event::ToolFinished {
        call,
        outcome: Outcome {
            consequential: true,
            ..Outcome::new(Status::Unknown, text)
        },
    }
}

/// Opens the folder that a session works in.
///
/// # Errors
/// A sentence that names the folder and what is wrong with it.
pub fn open_workspace(path: &Path) -> Result<Workspace, String> {
    Workspace::at(path)
        .map_err(|error| format!("The workspace {} cannot be opened: {error}", path.display()))
}
