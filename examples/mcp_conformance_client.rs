//! The client of `journeyman` under the conformance suite of the Model Context Protocol, which appends the address of its
//! server: connects, lists the tools, calls each with arguments that its schema asks for, and leaves.

use journeyman::world::mcp::client::{Client, Elicitation, Handler};
use journeyman::world::net::strict_client;
use serde_json::{Map, Value, json};
use std::process::ExitCode;

const MESSAGE_BYTES_MAX: usize = 8_000_000;

#[tokio::main]
async fn main() -> ExitCode {
    let Some(url) = std::env::args().next_back() else {
        return ExitCode::from(2);
    };
    match converse(&url).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn converse(url: &str) -> Result<(), String> {
    let handler = Handler {
        elicitation: Elicitation::Defaults,
    };
    let client = Client::reach(&strict_client(url), url, &[], handler, MESSAGE_BYTES_MAX).await?;
    eprintln!("{}", client.about());
    for tool in client.tools().await? {
        let answered = client.call(&tool.name, arguments(&tool.input_schema)).await;
        eprintln!("{}: {answered:?}", tool.name);
    }
    client.close().await;
    Ok(())
}

/// The simplest value for each field.
fn arguments(schema: &Map<String, Value>) -> Map<String, Value> {
    let fields = schema.get("properties").and_then(Value::as_object);
    let fields = fields.into_iter().flatten();
    let value = |field: &Value| match field["type"].as_str() {
        Some("number" | "integer") => json!(2),
        Some("boolean") => json!(true),
        _ => json!("text"),
    };
    fields
        .map(|(name, field)| (name.clone(), value(field)))
        .collect()
}
