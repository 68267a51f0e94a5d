//! One connection to an MCP server: made, asked, ended. What is asked was approved before.

use super::config::{Config, Transport};
use crate::agent::event::CallId;
use crate::world::confine::Needs;
use crate::world::net;
use crate::world::process::{Launch, Life, Processes, Talk};
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ElicitRequestParams,
    ElicitResult, ElicitationAction, Implementation, PaginatedRequestParams, ProtocolVersion, Tool,
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
use std::time::Duration;

/// Pages of a list of tools.
const PAGES_MAX: usize = 20;
/// A server that lives longer than this is started anew.
const LIFE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Of what a server complained about.
const COMPLAINT_CHARS_MAX: usize = 400;

/// A connection. Dropped, it is closed, and a process of ours is ended.
pub struct Client {
    service: RunningService<RoleClient, Handler>,
    talk: Option<Talk>,
}

/// What a server that asks the person something is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elicitation {
    Decline,
    /// The form as it is, with its defaults: for a person who just says yes.
    Defaults,
}

/// Answers requests of a server.
#[derive(Debug, Clone, Copy)]
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
                let handler = Handler {
                    elicitation: Elicitation::Decline,
                };
                Self::reach(&client, url, headers, handler, message_bytes_max).await
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
        let handler = Handler {
            elicitation: Elicitation::Decline,
        };
        match handler.serve_with_lifecycle(transport, lifecycle).await {
            Ok(service) => Ok(Self {
                service,
                talk: Some(talk),
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
            handler.serve_with_lifecycle(transport, lifecycle)
        };
        let connected = match connect(current()).await {
            Err(_) => connect(BEFORE).await,
            connected => connected,
        };
        let service = connected.map_err(|error| format!("it did not connect: {error}"))?;
        Ok(Self {
            service,
            talk: None,
        })
    }

    /// Its tools, in its order.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub async fn tools(&self) -> Result<Vec<Tool>, String> {
        let has_tools = |info: &rmcp::model::ServerPeerInfo| info.capabilities.tools.is_some();
        if !self
            .service
            .peer()
            .peer_info()
            .is_none_or(|info| has_tools(&info))
        {
            return Ok(Vec::new());
        }
        let (mut tools, mut cursor) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.service.peer().list_tools(Some(params)).await;
            let page = page.map_err(|error| format!("it does not list its tools: {error}"))?;
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(tools)
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
        let Self { service, talk } = self;
        let _ = tokio::time::timeout(Duration::from_secs(1), service.cancel()).await; // it is over either way
        if let Some(talk) = talk {
            talk.leave().await;
        }
    }
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
        ClientConfig::new(
            ClientCapabilities::builder().enable_elicitation().build(),
            Implementation::new("journeyman", env!("CARGO_PKG_VERSION")),
        )
        .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    /// No server asks a person anything past the gate.
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        match (self.elicitation, request) {
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
                Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content))
            }
            (Elicitation::Decline | Elicitation::Defaults, _) => {
                Ok(ElicitResult::new(ElicitationAction::Decline))
            }
        }
    }
}
