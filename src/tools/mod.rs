//! The table of tools. Adding one is one file, one text under `prompts/tools/`, and one line here.
//!
//! A tool says what it touches before it runs ([`Tool::touches`], pure), gets nothing but an [`Approved`] call, and
//! reaches the outside only through its [`Reach`]. Its result is bounded text for a model. It never asks, never judges.

use crate::agent::children::Share;
use crate::agent::event::{
    Call, CallId, EffectClass, Expectation, Opening, Outcome, Status, WorkspaceRef,
};
use crate::agent::plan::Plan;
use crate::agent::roles::Role;
use crate::gate::{Approved, Touch};
use crate::outline;
use crate::schedule::wish::Wish;
use crate::world::inquiries::{Asker, Inquiries};
use crate::world::mcp::Servers;
use crate::world::outputs::Outputs;
use crate::world::process::Processes;
use crate::world::projects::Projects;
use crate::world::remote::{Hosting, Remote};
use crate::world::trust::Trust;
use crate::world::visit::Host;
use crate::world::workspace::Workspace;
use crate::world::{Asks, Waits};
use arguments::{args, schema_of};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

// Looking.
mod ask_sources;
mod get_file_outline;
mod list_files;
mod load_skill;
mod read_lines;
mod read_output;
mod search;
// Changing.
mod apply_patch;
mod delete_file;
mod move_file;
mod preview_patch;
mod write_file;
// Running.
mod manage_process;
mod run_command;
// The repository.
mod git_commit;
mod git_create_branch;
mod git_diff;
mod git_log;
mod git_stash;
mod git_status;
// Its remote.
mod git_create_pr;
mod git_pr_comments;
mod git_pr_reply;
mod git_pr_status;
mod git_push;
// Other workspaces.
mod clone_workspace;
mod get_workspace_info;
mod list_workspaces;
mod switch_workspace;
// What a team wrote down.
mod load_command;
// Helpers.
mod delegate;
// The plan, and the person.
mod create_task_plan;
mod get_task_plan;
mod plan_tasks;
mod request_user_approval;
mod update_task_status;
// What runs by itself.
mod create_cron;
mod delete_cron;
mod list_crons;
// What others bring.
mod mcp;
// What several of them need.
mod arguments; // schemas, and what does not fit them
pub(crate) mod encoding; // bytes to text and back
mod nearest; // where a text that was not found should have been
mod patch; // patches in their three forms
mod repository; // git's answers
mod schedules; // what came of a wish
mod streams; // what a command printed
mod text; // bounded text
mod walk; // the files that a model may see

pub use delegate::end_delegated;
pub use git_commit::find_commit;
pub use load_command::is_for_models;
pub use load_skill::loads as skill_of;
pub use mcp::TOOL as MCP;
pub use run_command::await_kept;
pub use schedules::schedule_outcome;
pub use streams::shown_of_stdout;
pub use text::head_and_tail;
pub use walk::is_secret;

/// The table, in the order in which the model reads it.
static TOOLS: [Tool; 39] = [
    list_files::TOOL,
    search::TOOL,
    get_file_outline::TOOL,
    read_lines::TOOL,
    write_file::TOOL,
    preview_patch::TOOL,
    apply_patch::TOOL,
    delete_file::TOOL,
    move_file::TOOL,
    run_command::TOOL,
    manage_process::TOOL,
    read_output::TOOL,
    load_skill::TOOL,
    ask_sources::TOOL,
    git_status::TOOL,
    git_diff::TOOL,
    git_log::TOOL,
    git_create_branch::TOOL,
    git_stash::TOOL,
    git_commit::TOOL,
    git_push::TOOL,
    git_create_pr::TOOL,
    git_pr_status::TOOL,
    git_pr_comments::TOOL,
    git_pr_reply::TOOL,
    list_workspaces::TOOL,
    switch_workspace::TOOL,
    get_workspace_info::TOOL,
    clone_workspace::TOOL,
    load_command::TOOL,
    delegate::TOOL,
    create_task_plan::TOOL,
    update_task_status::TOOL,
    get_task_plan::TOOL,
    plan_tasks::TOOL,
    request_user_approval::TOOL,
    create_cron::TOOL,
    list_crons::TOOL,
    delete_cron::TOOL,
];

/// Every tool there is.
pub fn all() -> &'static [Tool] {
    &TOOLS
}

pub fn find(name: &str) -> Option<&'static Tool> {
    let own = ALIASES.iter().find(|(alias, _)| *alias == name);
    let name = own.map_or(name, |(_, own)| own);
    TOOLS.iter().find(|tool| tool.name == name)
}

/// What does the work of an approved call: the tool of this name, or the one that stands for all of other servers.
pub fn acting<T>(name: &str, call: &Approved<T>) -> Option<&'static Tool> {
    find(name).or_else(|| call.mcp().map(|_| &MCP))
}

/// Whether a call begins a session that works by itself: several of these run side by side.
pub fn delegates(call: &Call) -> bool {
    call.tool == delegate::TOOL.name
}

/// Names that models know from elsewhere.
const ALIASES: [(&str, &str); 1] = [("loadSkill", load_skill::TOOL.name)];

/// Only where there are skills.
const FOR_SKILLS: [&str; 1] = [load_skill::TOOL.name];

/// Only for a project on GitHub: other sessions do not pay for their schemas.
const FOR_GITHUB: [&str; 4] = [
    git_create_pr::TOOL.name,
    git_pr_status::TOOL.name,
    git_pr_comments::TOOL.name,
    git_pr_reply::TOOL.name,
];

/// Only where schedules can be made: in chats that are served, and not in sessions that a schedule started.
const FOR_SCHEDULES: [&str; 3] = [
    create_cron::TOOL.name,
    list_crons::TOOL.name,
    delete_cron::TOOL.name,
];

/// Only where there is another workspace to go to.
const FOR_WORKSPACES: [&str; 4] = [
    list_workspaces::TOOL.name,
    switch_workspace::TOOL.name,
    get_workspace_info::TOOL.name,
    clone_workspace::TOOL.name,
];

/// What a session may need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Kit {
    /// To write and to execute: without, only tools that do neither.
    pub write: bool,
    /// Pull requests.
    pub github: bool,
    /// Other workspaces.
    pub workspaces: bool,
    /// Schedules: where some can be made.
    pub schedules: bool,
    /// Commands that somebody wrote down, for models too: from when there are some.
    pub commands: bool,
    /// Skills: where there are some.
    pub skills: bool,
    /// Sources that can be asked about.
    pub sources: bool,
    /// Worktrees, in which helpers can work.
    pub helpers: bool,
    /// Several steps.
    pub steps: bool,
}

/// The tools that there are for a session.
pub fn of(kit: Kit) -> impl Iterator<Item = &'static Tool> {
    TOOLS
        .iter()
        .filter(move |tool| kit.write || tool.class == EffectClass::Pure)
        .filter(move |tool| kit.github || !FOR_GITHUB.contains(&tool.name))
        .filter(move |tool| kit.workspaces || !FOR_WORKSPACES.contains(&tool.name))
        .filter(move |tool| kit.commands || tool.name != load_command::TOOL.name)
        .filter(move |tool| kit.helpers || tool.name != delegate::TOOL.name)
        .filter(move |tool| kit.steps || tool.name != plan_tasks::TOOL.name)
        .filter(move |tool| kit.sources || tool.name != ask_sources::TOOL.name)
        .filter(move |tool| kit.skills || !FOR_SKILLS.contains(&tool.name))
        .filter(move |tool| kit.schedules || !FOR_SCHEDULES.contains(&tool.name))
}

/// The tools that a model is offered, in the shape of OpenAI's functions.
pub fn offered(kit: Kit) -> Vec<Value> {
    let function = |tool: &Tool| json!({"name": tool.name, "description": tool.about.trim(), "parameters": arguments::sent(tool)});
    of(kit)
        .map(|tool| json!({"type": "function", "function": function(tool)}))
        .collect()
}

/// Whether the arguments fit the tool's schema. Every misfit is named, with its JSON pointer and what was expected.
pub fn validate(tool: &Tool, arguments: &Value) -> Result<(), String> {
    static VALIDATORS: [OnceLock<jsonschema::Validator>; TOOLS.len()] =
        [const { OnceLock::new() }; TOOLS.len()];
    let at = TOOLS
        .iter()
        .position(|other| other.name == tool.name)
        .expect("BUG: a tool that is not in the table");
    arguments::check(
        tool,
        VALIDATORS[at].get_or_init(|| arguments::validator(tool)),
        arguments,
    )
}

/// One row of the table.
pub struct Tool {
    pub name: &'static str,
    /// For the model: `prompts/tools/NAME.md`.
    pub about: &'static str,
    pub class: EffectClass,
    /// JSON Schema of the arguments, without noise: it is sent with every request.
    pub schema: fn() -> Value,
    /// What the call would touch. Called with arguments that fit the schema; an error is the model's to read.
    pub touches: fn(&Value) -> Result<Vec<Touch>, String>,
    pub action: Action,
}

/// Where the work of a tool is done.
pub enum Action {
    /// In the world, under an approved call.
    World {
        run: RunFn,
        /// What a probe can look for after a crash; computed before the intent is written. Probeable tools have it.
        expect: Option<ExpectFn>,
    },
    /// In the session's own plan: the next plan, and the text that the model reads.
    Plan(PlanFn),
    /// In the session itself, by asking the model for a plan: what it is for. Nothing of it runs.
    Draft(fn(&Value) -> String),
    /// In the session itself: it goes to the workspace that its call names.
    Switch,
    /// At the desk where schedules are kept, under an approved call.
    Schedule(WishFn),
    /// A question to the person, whose next plain message is the result.
    Question(fn(&Value) -> String),
}

pub type RunFn = fn(Approved<Call>, Arc<Reach>) -> RunFuture;
pub type RunFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;
pub type PlanFn = fn(&Plan, &Value) -> Result<(Option<Plan>, String), String>;
pub type WishFn = fn(&Value) -> Result<Wish, String>;
pub type ExpectFn = fn(&Value, &Workspace) -> Option<Expectation>;

/// Everything of the outside that a tool may use.
pub struct Reach {
    /// Whose call it is; named in commits.
    pub session: String,
    pub workspace: Workspace,
    pub processes: Processes,
    pub outputs: Outputs,
    /// What the journal says that the call will have done, where that was written down before.
    pub expect: Option<Expectation>,
    pub hosting: Arc<Hosting>,
    /// Whether the workspace's own hooks run.
    pub trust: Trust,
    /// This program's own files, never shown.
    pub own: Arc<[PathBuf]>,
    /// Where other workspaces are.
    pub projects: Option<Arc<Projects>>,
    /// What one outline may cost.
    pub outline: outline::Limits,
    /// The agent that the person chose.
    pub agent: Option<String>,
    /// Servers whose tools are called; `None`: there are none here.
    pub mcp: Option<Arc<Servers>>,
    /// Who can be asked for help; `None`: nobody here.
    pub helpers: Option<Helpers>,
    /// Asks the person what an MCP server asks; `None`: nobody is there for that.
    pub asks: Option<Asks>,
}

/// Who can be asked for help, in whose name, and at which cost.
pub struct Helpers {
    pub inquiries: Arc<Inquiries>,
    pub opening: Arc<Opening>,
    pub role: Option<Arc<Role>>,
    /// The person's folder that the session works for.
    pub checkout: WorkspaceRef,
    pub share: Share,
    pub host: Host,
    /// Says whether what a call began waits for a person.
    pub waits: Waits,
}

impl Helpers {
    pub fn asker(&self) -> Asker<'_> {
        Asker {
            opening: &self.opening,
            role: self.role.as_deref(),
            share: self.share,
            host: self.host.clone(),
            waits: self.waits.clone(),
        }
    }
}

impl Reach {
    /// The workspace's remote, under a call.
    pub fn remote<'a>(&'a self, call: &'a CallId) -> Remote<'a> {
        Remote {
            processes: &self.processes,
            call,
            root: self.workspace.root(),
            hosting: &self.hosting,
        }
    }
}

/// Runs a tool that works on files, off the async threads. A panic goes on to whoever started the effect.
fn blocking<A>(
    call: Approved<Call>,
    reach: Arc<Reach>,
    class: EffectClass,
    work: fn(Approved<A>, &Reach) -> Outcome,
) -> RunFuture
where
    A: DeserializeOwned + Send + 'static,
{
    Box::pin(async move {
        let mut outcome = match call.typed::<A>() {
            Err(error) => Outcome::failed(error),
            Ok(approved) => match tokio::task::spawn_blocking(move || work(approved, &reach)).await
            {
                Ok(outcome) => outcome,
                Err(broken) => match broken.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => Outcome::new(
                        Status::Unknown,
                        "The program was stopped while the tool ran.",
                    ),
                },
            },
        };
        outcome.consequential = class != EffectClass::Pure;
        outcome
    })
}
