//! What MCP servers say, as a turn offers it and as a model reads it. Pure.

use super::config::Config;
use crate::agent::event::{Outcome, Status};
use crate::agent::limits::Limits;
use crate::agent::mask::Masks;
use crate::agent::mcp::{self, Offer, Offered};
use crate::agent::wording::one_line;
use crate::world::workspace::digest_of;
use rmcp::model::{
    CallToolResult, ContentBlock, GetPromptResult, ReadResourceResult, ResourceContents, Role, Tool,
};
use serde_json::Value;

/// Of what is wrong with one server.
const PROBLEM_CHARS_MAX: usize = 600;
/// Of the name of a tool that is told as one that is not offered.
const NAME_CHARS_MAX: usize = 60;

/// Puts the tools of servers together, within limits.
pub struct Gathering<'a> {
    pub offer: Offer,
    limits: &'a Limits,
    masks: &'a Masks,
    bytes: usize,
}

impl<'a> Gathering<'a> {
    pub fn new(limits: &'a Limits, masks: &'a Masks) -> Self {
        Self {
            offer: Offer::default(),
            limits,
            masks,
            bytes: 0,
        }
    }

    pub fn problem(&mut self, server: &str, why: &str) {
        let problem = self.masks.apply(format!("{server}: {why}"));
        let problem = one_line(&mcp::clean(&problem), PROBLEM_CHARS_MAX);
        self.offer.problems.push(problem);
    }

    /// Adds the tools of one server; of those that cannot be offered, the first is told.
    pub fn add(&mut self, config: &Config, tools: Vec<Tool>) {
        let mut left_out: Vec<String> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        for tool in tools {
            let name = tool.name.clone().into_owned();
            if config.tool(&name).hide {
                continue;
            }
            if names.contains(&name) {
                left_out.push(format!("{name} (it is there twice)"));
                continue;
            }
            match self.one(config, tool) {
                Ok(offered) => {
                    self.offer.tools.push(offered);
                    names.push(name);
                }
                Err(why) => left_out.push(format!("{} ({why})", one_line(&name, NAME_CHARS_MAX))),
            }
        }
        if let Some(first) = left_out.first() {
            let more = match left_out.len() {
                1 => String::new(),
                count => format!(", and {} more", count - 1),
            };
            self.problem(&config.name, &format!("not offered: {first}{more}"));
        }
    }

    fn one(&mut self, config: &Config, tool: Tool) -> Result<Offered, String> {
        let limits = self.limits;
        if self.offer.tools.len() >= limits.mcp_tools_max {
            return Err(format!("only {} tools are", limits.mcp_tools_max));
        }
        let said = tool.description.unwrap_or_default();
        let about = self.masks.apply(mcp::clean(said.trim())).trim().to_owned();
        let schema = mcp::clean_schema(Value::Object((*tool.input_schema).clone()))?;
        let bytes = about.len() + schema.to_string().len();
        if bytes > limits.mcp_tool_bytes_max {
            return Err(format!(
                "its description takes {bytes} bytes, {} are the limit",
                limits.mcp_tool_bytes_max
            ));
        }
        if self.bytes + bytes > limits.mcp_offer_bytes_max {
            return Err(format!(
                "all descriptions together take more than {} bytes",
                limits.mcp_offer_bytes_max
            ));
        }
        mcp::check_name(&tool.name)?;
        self.bytes += bytes;
        let is_taken =
            |name: &str| self.offer.find(name).is_some() || crate::tools::find(name).is_some();
        Ok(Offered {
            name: mcp::wire_name(&config.name, &tool.name, is_taken),
            server: config.name.clone(),
            class: config.class(&tool.name),
            allowed: config.tool(&tool.name).allow,
            tool: tool.name.into_owned(),
            about,
            schema,
            writes: config.write,
            origin: config.origin.clone(),
        })
    }
}

/// What a tool answered, for the model: text as it is, everything else in words.
pub fn outcome(result: &CallToolResult, chars_max: usize) -> Outcome {
    let mut parts: Vec<String> = result.content.iter().map(block).collect();
    if let Some(structured) = &result.structured_content
        && parts.is_empty()
    {
        parts.push(structured.to_string());
    }
    let text = match parts.is_empty() {
        true => "[no content]".to_owned(),
        false => parts.join("\n"),
    };
    let status = match result.is_error {
        Some(true) => Status::Failed,
        Some(false) | None => Status::Done,
    };
    let shown = crate::tools::head_and_tail(&text, chars_max);
    let is_cut = shown.len() != text.len();
    let mut outcome = Outcome::new(status, shown);
    outcome.digest = is_cut.then(|| digest_of(text.as_bytes()));
    outcome.whole = is_cut.then_some(text);
    outcome
}

/// What a prompt became: its text, or a dialogue.
pub fn prompt(prompt: &GetPromptResult) -> String {
    if let [only] = prompt.messages.as_slice()
        && only.role == Role::User
    {
        return block(&only.content);
    }
    let messages = prompt.messages.iter().map(|message| {
        let who = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        format!("[{who}]\n{}", block(&message.content))
    });
    messages.collect::<Vec<_>>().join("\n\n")
}

/// What stands in a resource.
pub fn contents(read: &ReadResourceResult) -> String {
    let parts: Vec<String> = read.contents.iter().map(resource).collect();
    parts.join("\n")
}

fn block(block: &ContentBlock) -> String {
    let media = |kind: &str, mime: &str, data: &str| {
        format!(
            "[{kind}, {mime}, about {} bytes: not shown]",
            data.len() / 4 * 3
        )
    };
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => media("image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => media("audio", &audio.mime_type, &audio.data),
        ContentBlock::Resource(embedded) => resource(&embedded.resource),
        ContentBlock::ResourceLink(link) => {
            format!("[link to the resource {} ({})]", link.uri, link.name)
        }
        _ => "[content of a kind that is not known here]".to_owned(),
    }
}

fn resource(contents: &ResourceContents) -> String {
    match contents {
        ResourceContents::TextResourceContents { uri, text, .. } => {
            format!("[resource {uri}]\n{text}")
        }
        ResourceContents::BlobResourceContents { uri, blob, .. } => {
            format!(
                "[resource {uri}, about {} bytes: not shown]",
                blob.len() / 4 * 3
            )
        }
        _ => "[a resource of a kind that is not known here]".to_owned(),
    }
}
