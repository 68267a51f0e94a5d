//! One connection to an MCP server: made, asked, ended. What is asked was approved before.

use super::asking::{Asking, Attended, Calls};
use super::config::{Config, Transport};
use crate::agent::event::CallId;
use crate::world::confine::Needs;
use crate::world::net;
use crate::world::process::{Launch, Life, Processes, Talk};
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, FormElicitationCapability,
    GetPromptRequestParams, GetPromptResult, Implementation, PaginatedRequestParams, Prompt,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResult, ServerCapabilities, Tool,
    UrlElicitationCapability,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, RequestContext, RoleClient, RunningService, ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, ErrorData};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Pages of a list.
const PAGES_MAX: usize = 20;
/// A server that lives longer than this is started anew.
const LIFE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Of what a server complained about.
const COMPLAINT_CHARS_MAX: usize = 400;

/// A connection. Dropped, it is closed, and a process of ours is ended.
pub struct Client {
    service: RunningService<RoleClient, Handler>,
    talk: Option<Talk>,
    calls: Calls,
}

/// What a server that asks the person something is answered.
#[derive(Clone)]
pub enum Elicitation {
    /// Whoever the session of the one call that runs asks; no where none runs.
    Person(Calls),
    /// The form as it is, with its defaults: for a person who just says yes.
    Defaults,
}

/// Answers requests of a server.
#[derive(Clone)]
pub struct Handler {
    pub elicitation: Elicitation,
}

impl Client {
    /// Connects. Cancel safe: what was begun ends with it.
    ///
    /// # Errors
    /// Why it could not, for people and models.
    pub async fn connect(
        config: &Config,
        processes: &Processes,
        cwd: &Path,
        message_bytes_max: usize,
    ) -> Result<Self, String> {
        match &config.transport {
            Transport::Stdio { command, args, env } => {
                let launch = Launch {
                    program: command.clone(),
                    args: args.clone(),
                    cwd: cwd.to_owned(),
                    env: env.clone(),
                    timeout: LIFE_MAX,
                    stdin: None,
                    needs: Needs {
                        network: config.network,
                        ..Needs::default()
                    },
                    guard_git: true,
                    life: Life::Talking,
                };
                let processes = match config.write {
                    true => processes.clone(),
                    false => processes.only_reading(),
                };
                match Self::start(&processes, launch.clone(), message_bytes_max, current()).await {
                    Err(_) => Self::start(&processes, launch, message_bytes_max, BEFORE).await,
                    connected => connected,
                }
            }
            Transport::Http { url, headers } => {
                let client = match config.is_owners {
                    true => net::strict_client(url),
                    false => net::public_client(url).await?,
                };
                let calls = Calls::default();
                let handler = Handler {
                    elicitation: Elicitation::Person(calls.clone()),
                };
                let reached =
                    Self::reach(&client, url, headers, handler, message_bytes_max).await?;
                Ok(Self { calls, ..reached })
            }
        }
    }

    async fn start(
        processes: &Processes,
        launch: Launch,
        message_bytes_max: usize,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Self, String> {
        let mut talk = processes.converse(&CallId("mcp".into()), launch).await?;
        let Some((stdout, stdin)) = talk.streams.take() else {
            return Err("it has no standard streams".into());
        };
        let transport =
            AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(message_bytes_max);
        let calls = Calls::default();
        let handler = Handler {
            elicitation: Elicitation::Person(calls.clone()),
        };
        match handler.serve_with_lifecycle(transport, lifecycle).await {
            Ok(service) => Ok(Self {
                service,
                talk: Some(talk),
                calls,
            }),
            Err(error) => {
                let complaint = complaint(&talk);
                tokio::spawn(talk.leave());
                Err(format!("it did not connect: {error}{complaint}"))
            }
        }
    }

    /// Connects to an address.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub async fn reach(
        client: &reqwest::Client,
        url: &str,
        headers: &[(String, String)],
        handler: Handler,
        message_bytes_max: usize,
    ) -> Result<Self, String> {
        let mut custom = HashMap::new();
        for (name, value) in headers {
            let name = HeaderName::try_from(name).map_err(|_| format!("{name:?} is no header"))?;
            let mut value = HeaderValue::try_from(value)
                .map_err(|_| format!("the header {name} has no text as its value"))?;
            value.set_sensitive(true);
            custom.insert(name, value);
        }
        let config = StreamableHttpClientTransportConfig::with_uri(url)
            .custom_headers(custom)
            .max_json_response_size(message_bytes_max)
            .max_sse_event_size(message_bytes_max)
            .reinit_on_expired_session(true);
        let connect = |lifecycle| {
            let transport =
                StreamableHttpClientTransport::with_client(client.clone(), config.clone());
            handler.clone().serve_with_lifecycle(transport, lifecycle)
        };
        let connected = match connect(current()).await {
            Err(_) => connect(BEFORE).await,
            connected => connected,
        };
        let service = connected.map_err(|error| format!("it did not connect: {error}"))?;
        Ok(Self {
            service,
            talk: None,
            calls: Calls::default(),
        })
    }

    /// Its tools, in its order.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub async fn tools(&self) -> Result<Vec<Tool>, String> {
        if !self.has(|can| can.tools.is_some()) {
            return Ok(Vec::new());
        }
        let peer = self.service.peer();
        let page = |params| async {
            let page = peer.list_tools(Some(params)).await?;
            Ok((page.tools, page.next_cursor))
        };
        let tools = pages(page).await;
        tools.map_err(|error| format!("it does not list its tools: {error}"))
    }

    /// Its prompts, in its order.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub async fn prompts(&self) -> Result<Vec<Prompt>, String> {
        if !self.has(|can| can.prompts.is_some()) {
            return Ok(Vec::new());
        }
        let peer = self.service.peer();
        let page = |params| async {
            let page = peer.list_prompts(Some(params)).await?;
            Ok((page.prompts, page.next_cursor))
        };
        let prompts = pages(page).await;
        prompts.map_err(|error| format!("it does not list its prompts: {error}"))
    }

    /// URIs of its resources and what they are, then templates of such URIs, where it has some.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub async fn resources(&self) -> Result<Vec<(String, String)>, String> {
        if !self.has(|can| can.resources.is_some()) {
            return Ok(Vec::new());
        }
        let peer = self.service.peer();
        let page = |params| async {
            let page = peer.list_resources(Some(params)).await?;
            Ok((page.resources, page.next_cursor))
        };
        let resources = pages(page).await;
        let resources =
            resources.map_err(|error| format!("it does not list its resources: {error}"))?;
        let page = |params| async {
            let page = peer.list_resource_templates(Some(params)).await?;
            Ok((page.resource_templates, page.next_cursor))
        };
        // Not every server that has resources knows of templates.
        let templates = pages(page).await.unwrap_or_default();
        let about = |title: Option<String>, description: Option<String>, name: String| {
            description.or(title).unwrap_or(name)
        };
        let resources = resources
            .into_iter()
            .map(|one| (one.uri, about(one.title, one.description, one.name)));
        let templates = templates.into_iter().map(|one| {
            (
                one.uri_template,
                about(one.title, one.description, one.name),
            )
        });
        Ok(resources.chain(templates).collect())
    }

    /// A prompt with its arguments.
    ///
    /// # Errors
    /// What the server says against it, or what went wrong on the way.
    pub async fn prompt(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<GetPromptResult, String> {
        let params = GetPromptRequestParams::new(name.to_owned()).with_arguments(arguments);
        let answer = self.service.get_prompt(params).await;
        answer.map_err(|error| self.refusal(&error))
    }

    /// A resource as it is now.
    ///
    /// # Errors
    /// As [`Client::prompt`].
    pub async fn resource(&self, uri: &str) -> Result<ReadResourceResult, String> {
        let params = ReadResourceRequestParams::new(uri.to_owned());
        let answer = self.service.read_resource(params).await;
        answer.map_err(|error| self.refusal(&error))
    }

    fn refusal(&self, error: &ServiceError) -> String {
        match error {
            ServiceError::McpError(error) => error.message.to_string(),
            error => format!("{error}{}", self.complaint()),
        }
    }

    /// Whether it says that it can. One that says nothing is asked.
    fn has(&self, can: impl Fn(&ServerCapabilities) -> bool) -> bool {
        let info = self.service.peer().peer_info();
        info.is_none_or(|info| can(&info.capabilities))
    }

    /// # Errors
    /// What went wrong on the way; what the tool itself says is in the result.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<CallToolResult, ServiceError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        self.service.call_tool(params).await
    }

    /// From here on, as long as what comes back is there, the server may ask what this call has for the person.
    pub fn attend(&self, asking: Arc<Asking>) -> Attended<'_> {
        self.calls.attend(asking)
    }

    pub fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    /// What it said of itself: name, version, and the protocol's revision.
    pub fn about(&self) -> String {
        let Some(info) = self.service.peer().peer_info() else {
            return String::new();
        };
        let named = info.server_info.as_ref();
        let named = named.map(|server| format!("{} {}, ", server.name, server.version));
        format!("{}MCP {}", named.unwrap_or_default(), info.protocol_version)
    }

    /// What it complained about before it ended, if it is a process.
    pub fn complaint(&self) -> String {
        self.talk.as_ref().map(complaint).unwrap_or_default()
    }

    /// Ends the connection, and the process with it.
    pub async fn close(self) {
        let Self { service, talk, .. } = self;
        let _ = tokio::time::timeout(Duration::from_secs(1), service.cancel()).await; // it is over either way
        if let Some(talk) = talk {
            talk.leave().await;
        }
    }
}

/// Everything of a list that comes in pages, as far as they go.
async fn pages<T, F>(page: impl Fn(PaginatedRequestParams) -> F) -> Result<Vec<T>, ServiceError>
where
    F: Future<Output = Result<(Vec<T>, Option<String>), ServiceError>>,
{
    let (mut all, mut cursor) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let (some, next) = page(PaginatedRequestParams::default().with_cursor(cursor)).await?;
        all.extend(some);
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(all)
}

fn complaint(talk: &Talk) -> String {
    let said = crate::agent::mcp::clean(talk.complaints().trim());
    let skipped = said.chars().count().saturating_sub(COMPLAINT_CHARS_MAX);
    let last: String = said.chars().skip(skipped).collect();
    match last.is_empty() {
        true => String::new(),
        false => format!(". It printed: {last}"),
    }
}

/// The current revision of the protocol, and the one before with servers that say that they do not know it.
fn current() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    }
}

/// The one before, for servers that cannot even say that.
const BEFORE: ClientLifecycleMode = ClientLifecycleMode::Initialize;

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::builder().enable_elicitation().build();
        capabilities.elicitation = Some(
            ElicitationCapability::new()
                .with_form(FormElicitationCapability::new())
                .with_url(UrlElicitationCapability::new()),
        );
        ClientConfig::new(
            capabilities,
            Implementation::new("journeyman", env!("CARGO_PKG_VERSION")),
        )
        .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(match (&self.elicitation, request) {
            (Elicitation::Person(calls), request) => calls.answer(request).await,
            (
                Elicitation::Defaults,
                ElicitRequestParams::FormElicitationParams {
                    requested_schema, ..
                },
            ) => {
                let schema = serde_json::to_value(&requested_schema).unwrap_or_default();
                let fields = schema["properties"].as_object().cloned();
                let defaults = fields.unwrap_or_default().into_iter();
                let defaults = defaults
                    .filter_map(|(name, field)| Some((name, field.get("default")?.clone())));
                let content = Value::Object(defaults.collect());
                ElicitResult::new(ElicitationAction::Accept).with_content(content)
            }
            (Elicitation::Defaults, _) => ElicitResult::new(ElicitationAction::Decline),
        })
    }
}
