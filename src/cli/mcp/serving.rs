//! Journeyman as an MCP server on standard streams: `ask`, `sessions`, `plan`, `outline`.
//!
//! Another agent is no person: it starts and continues sessions of its own, and never answers whether something may run.
//! Such a question comes back with its code, and waits for a person at a terminal. The data folder is taken for one `ask`
//! at a time, so that the person can answer in between.

use crate::agent::event::{Event, Inbound, OutgoingKind};
use crate::agent::state::State;
use crate::cli::assemble::{Assembly, assemble, fixed_workspace, model};
use crate::cli::run::{OWNER, failed, leave};
use crate::cli::{CliError, Exit, block_on, find, log_to_stderr, sessions};
use crate::config::Settings;
use crate::doors::Seen;
use crate::history::inspect;
use crate::hub::Hub;
use crate::outline::{outline, render};
use crate::tools::is_secret;
use crate::world::workspace::Workspace;
use crate::world::{clock, open_workspace};
use clap::Args;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt};
use rmcp::transport::io::stdio;
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

/// Chats of sessions that other agents began.
const CHAT: &str = "mcp:";
const OUTLINE_CHARS_MAX: usize = 20_000;
const SESSIONS_MAX: usize = 50;

#[derive(Debug, Args)]
pub struct Serve {
    /// Folder to work in [default: this one]
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
}

impl Serve {
    pub fn run(self, settings: Settings) -> Result<Exit, CliError> {
        log_to_stderr("warn");
        let workspace = open_workspace(&self.workspace).map_err(CliError::Use)?;
        let server = Server::new(settings, workspace);
        block_on(async {
            let service = server.serve(stdio()).await.map_err(failed)?;
            service.waiting().await.map_err(failed)?;
            Ok(Exit::Done)
        })?
    }
}

/// What is served, whatever it is served over.
pub struct Server {
    settings: Settings,
    workspace: Workspace,
    /// One at a time: each has the data folder for itself.
    asking: tokio::sync::Mutex<()>,
}

impl Server {
    pub fn new(settings: Settings, workspace: Workspace) -> Self {
        Self {
            settings,
            workspace,
            asking: tokio::sync::Mutex::new(()),
        }
    }

    async fn ask(&self, arguments: &Value, stop: &CancellationToken) -> Result<String, CliError> {
        let text = |name: &str| arguments[name].as_str().map(str::trim);
        let message = text("message").filter(|message| !message.is_empty());
        if message.is_some_and(|message| message.starts_with('/')) {
            return Err(CliError::Use("commands are a person's to give".into()));
        }
        let _one = self.asking.lock().await;
        let model = model(&self.settings)?;
        let pick = fixed_workspace(Some(self.workspace.root()))?;
        let assembly = assemble(&self.settings, model, pick)?;
        let told = tokio::select! {
            told = self.talk(&assembly, text("session"), message) => told,
            () = stop.cancelled() => Err(CliError::Failed("stopped by the client; the session can be resumed".into())),
        };
        leave(assembly).await;
        told
    }

    async fn talk(
        &self,
        assembly: &Assembly,
        session: Option<&str>,
        message: Option<&str>,
    ) -> Result<String, CliError> {
        let hub = &assembly.hub;
        let mut seen = hub.surface().observers.watch();
        let message = message.map(|text| Inbound::text(clock::message_id(), OWNER, text));
        let session = match (session, message) {
            (None, None) => return Err(CliError::Use("say what is to be done: message".into())),
            (None, Some(message)) => {
                let chat = format!("{CHAT}{}", clock::message_id());
                let started = hub.start_with(&chat, message).await;
                started.map_err(failed)?.session
            }
            (Some(said), message) => {
                let session = find::session(&self.settings.data_dir, said)?;
                let state = hub.peek(&session).map_err(failed)?;
                if !state.opening.chat.starts_with(CHAT) {
                    return Err(CliError::Use(format!(
                        "session {session} is a person's own"
                    )));
                }
                match (standing(hub, &session, &state)?, message) {
                    (Some(standing), _) => return Ok(standing),
                    (None, None) => {
                        return Err(CliError::Use(format!(
                            "session {session} waits for nothing: say what is to be done"
                        )));
                    }
                    (None, Some(message)) => {
                        hub.deliver_to(&session, message).await.map_err(failed)?;
                        session
                    }
                }
            }
        };
        until_told(&session, &mut seen).await
    }

    fn sessions(&self) -> Result<String, CliError> {
        let rows = sessions::rows(&self.settings)?;
        let shown = rows.iter().take(SESSIONS_MAX);
        let line = |row: &crate::world::store::sessions::SessionRow| {
            format!(
                "{} {} {}: {}",
                row.id, row.status, row.workspace, row.objective
            )
        };
        let lines: Vec<String> = shown.map(line).collect();
        Ok(match lines.is_empty() {
            true => "No sessions yet.".into(),
            false => lines.join("\n"),
        })
    }

    fn plan(&self, arguments: &Value) -> Result<String, CliError> {
        let said = arguments["session"].as_str().unwrap_or_default();
        let path = find::journal(&self.settings.data_dir, said)?;
        let (state, _) = inspect(&path, &self.settings.texts, |_| {}).map_err(failed)?;
        let steps = state.plan.steps.iter().enumerate();
        let steps = steps.map(|(at, step)| {
            let status = json!(step.status);
            let status = status.as_str().unwrap_or_default();
            format!("{}. [{status}] {}", at + 1, step.text)
        });
        let steps: Vec<String> = steps.collect();
        Ok(match steps.is_empty() {
            true => "It has no plan.".into(),
            false => steps.join("\n"),
        })
    }

    fn outline(&self, arguments: &Value) -> Result<String, CliError> {
        let path = arguments["path"].as_str().unwrap_or_default();
        let place = self.workspace.locate(path).map_err(failed)?;
        if is_secret(&place) {
            return Err(CliError::Use(format!("{path} is never shown")));
        }
        let text = self.workspace.read_text(&place).map_err(failed)?;
        let limits = self.settings.limits.outline();
        let started = Instant::now();
        let is_over = || started.elapsed() > Duration::from_millis(limits.ms_max);
        let found = outline(&place, &text, limits.bytes_max, &is_over);
        Ok(render(&found, OUTLINE_CHARS_MAX))
    }
}

/// What a session waits for, where it waits for a person; the answer that it gave, where nothing is under way, is not that.
fn standing(hub: &Hub, session: &str, state: &State) -> Result<Option<String>, CliError> {
    if let Some((call, _)) = state.question() {
        let question = hub.question_text(session, &call.id).map_err(failed)?;
        return Ok(Some(for_a_person(session, &question)));
    }
    let is_left = state.turn.as_ref().is_some_and(|turn| turn.interrupted);
    Ok(is_left.then(|| {
        format!(
            "[session {session}] It was interrupted. A person goes on with it: journeyman resume {session}"
        )
    }))
}

fn for_a_person(session: &str, question: &str) -> String {
    format!(
        "[session {session}] Waits for a person, who answers with: journeyman resume {session}\n\n{question}"
    )
}

/// Until the turn's last word, or a question.
async fn until_told(session: &str, seen: &mut UnboundedReceiver<Seen>) -> Result<String, CliError> {
    while let Some(event) = seen.recv().await {
        let record = match event {
            Seen::Recorded {
                session: whose,
                record,
                ..
            } if whose == session => record,
            Seen::Stopped {
                session: whose,
                why,
            } if whose == session => return Err(CliError::Failed(why)),
            Seen::Recorded { .. } | Seen::Stopped { .. } | Seen::Shown { .. } => continue,
        };
        match &record.event {
            Event::SendStarted {
                kind: OutgoingKind::Final,
                text,
                ..
            } => return Ok(format!("[session {session}]\n{text}")),
            Event::ApprovalAsked { question, .. } => return Ok(for_a_person(session, question)),
            Event::QuestionAsked { question, .. } => {
                return Ok(format!(
                    "[session {session}] It asks, and the next message is its answer:\n{question}"
                ));
            }
            Event::ServerAsked { question, .. } => {
                return Ok(format!(
                    "[session {session}] A server of its own asks, and the next message is the answer; - declines:\n{}\n{}",
                    question.message,
                    question.lines()
                ));
            }
            _ => {}
        }
    }
    Err(CliError::Failed("the session went away".into()))
}

fn tools() -> Vec<Tool> {
    let tool = |name: &'static str, about: &'static str, properties: Value, required: Value| {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        let schema = schema.as_object().cloned().unwrap_or_default();
        Tool::new(name, about, schema)
    };
    let text = |about: &str| json!({"type": "string", "description": about});
    vec![
        tool(
            "ask",
            "Lets the coding agent work on a message until it answers or asks. Without a session a new one starts. What needs an approval waits for a person.",
            json!({"message": text("What is to be done, or the answer to its question"), "session": text("Goes on with this one")}),
            json!([]),
        ),
        tool(
            "sessions",
            "Lists the agent's sessions.",
            json!({}),
            json!([]),
        ),
        tool(
            "plan",
            "Shows a session's task plan.",
            json!({"session": text("Its id, or the beginning of it")}),
            json!(["session"]),
        ),
        tool(
            "outline",
            "Shows what stands in a file of the workspace: classes, functions, headings, keys, with their lines.",
            json!({"path": text("Relative to the workspace")}),
            json!(["path"]),
        ),
    ]
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("journeyman", env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let told = match &*request.name {
            "ask" => self.ask(&arguments, &context.ct).await,
            "sessions" => self.sessions(),
            "plan" => self.plan(&arguments),
            "outline" => self.outline(&arguments),
            other => {
                let text = format!("there is no tool {other:?}");
                return Err(ErrorData::invalid_params(text, None));
            }
        };
        let masks = self.settings.policy().map(|policy| policy.masks);
        let masked = |text: String| masks.unwrap_or_default().apply(text);
        let result = match told {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(masked(text))]),
            Err(error) => {
                CallToolResult::error(vec![ContentBlock::text(masked(error.to_string()))])
            }
        };
        Ok(result.into())
    }
}
