//! The server of `journeyman mcp serve` under the conformance suite of the Model Context Protocol, which reaches servers
//! over HTTP only and calls tools by names of its own: serves the product's handler on loopback, with those tools beside it.
//! What else the product's server has not, such as prompts, is there only with `--fixtures`, and says nothing of the product
//! but that the rest of it works beside such things.

// The current revision deprecates sampling, logging, and subscriptions of this form; the suite still tests them.
#![allow(deprecated)]

#[path = "mcp_conformance/fixtures.rs"]
mod fixtures;

use axum::Router;
use journeyman::cli::mcp::serving::Server;
use journeyman::config::Settings;
use journeyman::world::open_workspace;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ConstString, ContentBlock,
    ElicitRequestParams, ErrorCode, GetPromptRequestMethod, GetPromptRequestParams,
    GetPromptResponse, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    ReadResourceRequestMethod, ReadResourceRequestParams, ReadResourceResponse, ResourceContents,
    ServerConfig, SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestMethod,
    SubscribeRequestParams, Tool, UnsubscribeRequestMethod, UnsubscribeRequestParams,
};
use rmcp::service::{Peer, RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Value, json};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

pub const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const SILENCE: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

/// Serves the current folder: `PORT [--fixtures]`.
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = std::env::args().nth(1).ok_or("PORT")?.parse()?;
    let product = Server::new(Settings::load(None)?, open_workspace(Path::new("."))?);
    let has_fixtures = std::env::args().nth(2).as_deref() == Some("--fixtures");
    let served = Arc::new(Conformance {
        product,
        has_fixtures,
    });
    let service: StreamableHttpService<_, LocalSessionManager> = StreamableHttpService::new(
        move || Ok(served.clone()),
        Arc::default(),
        StreamableHttpServerConfig::default(),
    );
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    axum::serve(listener, Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}

struct Conformance {
    product: Server,
    has_fixtures: bool,
}

impl ServerHandler for Conformance {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.product.get_info();
        if self.has_fixtures {
            info.capabilities = fixtures::capabilities(info.capabilities);
        }
        info
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut listed = self.product.list_tools(request, context).await?;
        listed.tools.extend(tools());
        if self.has_fixtures {
            listed
                .tools
                .push(tool(fixtures::LOGS, json!({"type": "object"})));
        }
        Ok(listed)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let own = tools().into_iter().find(|tool| tool.name == name);
        own.or_else(|| self.product.get_tool(name))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let told = match &*request.name {
            "test_error_handling" => {
                let text = ContentBlock::text("It fails, as it is meant to.");
                return Ok(CallToolResult::error(vec![text]).into());
            }
            "test_tool_with_progress" => progress(&context).await?,
            fixtures::LOGS if self.has_fixtures => fixtures::log(&context.peer).await?,
            "test_sampling" => sample(&context.peer).await?,
            "test_elicitation" => elicit(&context.peer, person()).await?,
            "test_elicitation_sep1034_defaults" => elicit(&context.peer, defaults()).await?,
            "test_elicitation_sep1330_enums" => elicit(&context.peer, choices()).await?,
            name => match content(name) {
                Some(content) => return Ok(CallToolResult::success(content).into()),
                None => return self.product.call_tool(request, context).await,
            },
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(told)]).into())
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.fixture::<ListPromptsRequestMethod>()?;
        Ok(ListPromptsResult::with_all_items(fixtures::prompts()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.fixture::<GetPromptRequestMethod>()?;
        fixtures::prompt(&request).map(GetPromptResponse::from)
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.fixture::<ListResourcesRequestMethod>()?;
        Ok(ListResourcesResult::with_all_items(fixtures::resources()))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.fixture::<ListResourceTemplatesRequestMethod>()?;
        let templates = vec![fixtures::template()];
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.fixture::<ReadResourceRequestMethod>()?;
        fixtures::resource(&request.uri).map(ReadResourceResponse::from)
    }

    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.fixture::<SubscribeRequestMethod>()
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.fixture::<UnsubscribeRequestMethod>()
    }

    async fn set_level(
        &self,
        _request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.fixture::<SetLevelRequestMethod>()
    }
}

impl Conformance {
    /// Without fixtures every such method is one that the product does not have.
    fn fixture<M: ConstString>(&self) -> Result<(), ErrorData> {
        match self.has_fixtures {
            true => Ok(()),
            false => Err(ErrorData::method_not_found::<M>()),
        }
    }
}

fn tools() -> Vec<Tool> {
    let names = [
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_error_handling",
        "test_tool_with_progress",
        "test_sampling",
        "test_elicitation",
        "test_elicitation_sep1034_defaults",
        "test_elicitation_sep1330_enums",
    ];
    let plain = names.map(|name| tool(name, json!({"type": "object"})));
    let dialect = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}}
        }},
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "additionalProperties": false
    });
    let mut tools = Vec::from(plain);
    tools.push(tool("json_schema_2020_12_tool", dialect));
    tools
}

fn tool(name: &'static str, schema: Value) -> Tool {
    let schema = schema.as_object().cloned().unwrap_or_default();
    Tool::new(name, "For the conformance suite.", schema)
}

/// Of the tools that always answer the same.
fn content(name: &str) -> Option<Vec<ContentBlock>> {
    let image = ContentBlock::image(PIXEL, "image/png");
    let text = ResourceContents::text("A text.", "test://resource").with_mime_type("text/plain");
    let resource = ContentBlock::resource(text);
    Some(match name {
        "test_simple_text" => vec![ContentBlock::text("A text.")],
        "test_image_content" => vec![image],
        "test_audio_content" => vec![ContentBlock::audio(SILENCE, "audio/wav")],
        "test_embedded_resource" => vec![resource],
        "test_multiple_content_types" => vec![ContentBlock::text("Three kinds:"), image, resource],
        _ => return None,
    })
}

async fn progress(context: &RequestContext<RoleServer>) -> Result<String, ErrorData> {
    if let Some(token) = context.meta.get_progress_token() {
        for done in [0.0, 50.0, 100.0] {
            let now = ProgressNotificationParam::new(token.clone(), done).with_total(100.0);
            context.peer.notify_progress(now).await.map_err(failed)?;
        }
    }
    Ok("All of it is done.".into())
}

async fn sample(peer: &Peer<RoleServer>) -> Result<String, ErrorData> {
    let asked = json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": "Say something."}}],
        "maxTokens": 100
    });
    let asked = serde_json::from_value(asked).map_err(failed)?;
    let said = peer.create_message(asked).await.map_err(failed)?;
    Ok(format!("It said: {:?}", said.message))
}

async fn elicit(peer: &Peer<RoleServer>, properties: Value) -> Result<String, ErrorData> {
    let form = json!({"type": "object", "properties": properties});
    let asked = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "Please fill this in.".into(),
        requested_schema: serde_json::from_value(form).map_err(failed)?,
    };
    let told = peer.create_elicitation(asked).await.map_err(failed)?;
    Ok(format!("{:?}: {:?}", told.action, told.content))
}

fn person() -> Value {
    json!({"username": {"type": "string"}, "email": {"type": "string"}})
}

fn defaults() -> Value {
    json!({
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true}
    })
}

fn choices() -> Value {
    let names = ["option1", "option2", "option3"];
    let titled = [
        json!({"const": "value1", "title": "First"}),
        json!({"const": "value2", "title": "Second"}),
        json!({"const": "value3", "title": "Third"}),
    ];
    json!({
        "untitledSingle": {"type": "string", "enum": names},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": names, "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": names}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}}
    })
}

fn failed(error: impl Error) -> ErrorData {
    ErrorData::new(ErrorCode::INTERNAL_ERROR, error.to_string(), None)
}
