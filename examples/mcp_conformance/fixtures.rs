//! What the conformance suite asks of a server that has prompts, resources, completion and logging. Journeyman's has none
//! of it, so nothing of this is in the product.

use crate::{PIXEL, failed};
use rmcp::ErrorData;
use rmcp::model::{
    ContentBlock, GetPromptRequestParams, GetPromptResult, LoggingLevel,
    LoggingMessageNotificationParam, Prompt, PromptArgument, PromptMessage, ReadResourceResult,
    Resource, ResourceContents, ResourceTemplate, Role, ServerCapabilities,
};
use rmcp::service::{Peer, RoleServer};
use serde_json::json;
use std::time::Duration;

/// The tool that writes into the client's log.
pub const LOGS: &str = "test_tool_with_logging";
const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";
const WATCHED: &str = "test://watched-resource";
const TEMPLATE: &str = "test://template/{id}/data";

/// The product's, and those of the fixtures. Completion then has nothing to propose, as rmcp answers it.
pub fn capabilities(of_product: ServerCapabilities) -> ServerCapabilities {
    let mut all = of_product;
    all.prompts = Some(Default::default());
    all.completions = Some(Default::default());
    all.logging = Some(Default::default());
    all.resources = Some(Default::default());
    if let Some(resources) = &mut all.resources {
        resources.subscribe = Some(true);
    }
    all
}

pub fn prompts() -> Vec<Prompt> {
    let argument = |name: &str| PromptArgument::new(name).with_required(true);
    let prompt = |name: &str, arguments: &[&str]| {
        let arguments: Vec<_> = arguments.iter().map(|name| argument(name)).collect();
        let arguments = Some(arguments).filter(|all| !all.is_empty());
        Prompt::new(name, Some("For the conformance suite."), arguments)
    };
    vec![
        prompt("test_simple_prompt", &[]),
        prompt("test_prompt_with_arguments", &["arg1", "arg2"]),
        prompt("test_prompt_with_embedded_resource", &["resourceUri"]),
        prompt("test_prompt_with_image", &[]),
    ]
}

pub fn prompt(request: &GetPromptRequestParams) -> Result<GetPromptResult, ErrorData> {
    let value = |name: &str| {
        let all = request.arguments.as_ref();
        all.and_then(|all| all.get(name)?.as_str())
            .unwrap_or_default()
    };
    let text = |text: String| PromptMessage::new_text(Role::User, text);
    let messages = match request.name.as_str() {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.".into())],
        "test_prompt_with_arguments" => vec![text(format!(
            "Prompt with arguments: arg1='{}', arg2='{}'",
            value("arg1"),
            value("arg2")
        ))],
        "test_prompt_with_embedded_resource" => {
            let embedded = ResourceContents::text("A text.", value("resourceUri"));
            let embedded = ContentBlock::resource(embedded.with_mime_type("text/plain"));
            let asked = text("Please process the embedded resource above.".into());
            vec![PromptMessage::new(Role::User, embedded), asked]
        }
        "test_prompt_with_image" => {
            let image = ContentBlock::image(PIXEL, "image/png");
            let asked = text("Please analyze the image above.".into());
            vec![PromptMessage::new(Role::User, image), asked]
        }
        _ => return Err(ErrorData::invalid_params("there is no such prompt", None)),
    };
    Ok(GetPromptResult::new(messages))
}

pub fn resources() -> Vec<Resource> {
    let resource = |uri: &str, mime: &str| {
        let name = uri.trim_start_matches("test://").to_owned();
        let resource = Resource::new(uri, name).with_description("For the conformance suite.");
        resource.with_mime_type(mime)
    };
    vec![
        resource(TEXT, "text/plain"),
        resource(BINARY, "image/png"),
        resource(WATCHED, "text/plain"),
    ]
}

pub fn template() -> ResourceTemplate {
    ResourceTemplate::new(TEMPLATE, "template").with_mime_type("application/json")
}

pub fn resource(uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let (before, after) = TEMPLATE.split_once("{id}").unwrap_or_default();
    let id = uri
        .strip_prefix(before)
        .and_then(|rest| rest.strip_suffix(after));
    let contents = match (uri, id) {
        (_, Some(id)) => {
            let data =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            ResourceContents::text(data.to_string(), uri).with_mime_type("application/json")
        }
        (BINARY, _) => ResourceContents::blob(PIXEL, uri).with_mime_type("image/png"),
        (TEXT | WATCHED, _) => ResourceContents::text("A text.", uri).with_mime_type("text/plain"),
        _ => {
            return Err(ErrorData::resource_not_found(
                "there is no such resource",
                None,
            ));
        }
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

pub async fn log(peer: &Peer<RoleServer>) -> Result<String, ErrorData> {
    for step in ["started", "processing data", "completed"] {
        let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(step));
        peer.notify_logging_message(message).await.map_err(failed)?;
        // The suite wants them apart.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok("All of it is logged.".into())
}
