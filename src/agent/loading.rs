//! Messages that call a command which is written in a file: its text is loaded, and is what they say from then on. Pure.
//!
//! Such a message waits among the unread ones, as one does whose file is still at its channel. What was loaded is never
//! read as a chat command nor as an answer: it starts or steers work, whatever stands in it.

use crate::agent::brief::without_tag;
use crate::agent::command::{self, ChatCommand, Said};
use crate::agent::event::{
    CommandWish, Event, Inbound, ListedCommand, ListedResource, Loaded, TheirKind, Via,
};
use crate::agent::state::State;
use crate::agent::step::{Decision, Effect};

/// The element in which a model reads what an MCP server said.
const THEIRS: &str = "mcp-text";

/// What a message asks of the commands in files. Only words of the owner do, and of a schedule in their name.
pub fn wish(state: &State, message: &Inbound) -> Option<CommandWish> {
    let says = matches!(message.via, Via::Text | Via::Schedule | Via::Button);
    let is_theirs = message.from == state.opening.owner;
    let is_text = message.unreadable.is_none() && message.media.is_none();
    if !says || !is_theirs || !is_text || message.undelivered.is_some() {
        return None;
    }
    match command::read(&message.text) {
        Said::Unknown(name) => {
            let rest = message.text.trim().strip_prefix(name).unwrap_or_default();
            Some(CommandWish::Load {
                name: name.trim_start_matches('/').to_owned(),
                arguments: rest.trim().to_owned(),
            })
        }
        Said::Command(ChatCommand::Help | ChatCommand::Commands) => Some(CommandWish::List),
        Said::Command(_) | Said::Empty | Said::Plain(_) => None,
    }
}

/// Whether everything of the message is there: what it calls is loaded.
pub fn is_here(state: &State, message: &Inbound) -> bool {
    state.loaded.contains_key(&message.id) || wish(state, message).is_none()
}

/// Whether what is being loaded belongs to a message that a stop took along.
pub fn is_for_nobody(state: &State) -> bool {
    let waits = |id: &String| state.unread.iter().any(|message| message.id == *id);
    state.fetching.as_ref().is_some_and(|id| !waits(id))
}

pub fn due(state: &State, message: &Inbound) -> Option<Decision> {
    let wish = wish(state, message)?;
    Some(Decision::Perform(Box::new(Effect::LoadCommand {
        message: message.id.clone(),
        wish,
    })))
}

/// Whether it is the text of a command, or of an MCP server.
pub fn is_text(state: &State, message: &Inbound) -> bool {
    matches!(
        state.loaded.get(&message.id),
        Some(Loaded::Text { .. } | Loaded::Theirs { .. })
    )
}

/// What the model reads in the place of the message.
pub fn words(state: &State, message: &Inbound) -> Option<String> {
    let said = message.text.trim();
    match state.loaded.get(&message.id)? {
        Loaded::Text { path, text, .. } => {
            let values = [("said", said), ("path", path), ("text", text)];
            Some(state.texts.say("command_model", &values))
        }
        Loaded::Theirs {
            server, of, text, ..
        } => {
            let text = without_tag(text, THEIRS);
            let values = [("said", said), ("server", server), ("text", &text)];
            let name = match of {
                TheirKind::Prompt => "mcp_prompt_model",
                TheirKind::Resource => "mcp_resource_model",
            };
            Some(state.texts.say(name, &values))
        }
        Loaded::Unknown { .. }
        | Loaded::Untrusted { .. }
        | Loaded::Failed { .. }
        | Loaded::Listed { .. }
        | Loaded::Server { .. } => None,
    }
}

/// What the person is told in the place of a text.
pub fn failure(state: &State, message: &Inbound, name: &str) -> String {
    let say = |text: &str, values: &[(&str, &str)]| state.texts.say(text, values);
    match state.loaded.get(&message.id) {
        Some(Loaded::Untrusted { path }) => {
            say("command_untrusted", &[("name", name), ("path", path)])
        }
        Some(Loaded::Failed { why }) => say("command_failed", &[("name", name), ("why", why)]),
        Some(Loaded::Unknown { nearest }) => unknown(state, name, nearest),
        Some(Loaded::Listed { .. }) => list(state, message),
        Some(Loaded::Server {
            server,
            prompts,
            resources,
            more,
        }) => of_server(state, server, prompts, resources, *more),
        Some(Loaded::Text { .. } | Loaded::Theirs { .. }) | None => unknown(state, name, &[]),
    }
}

fn unknown(state: &State, name: &str, others: &[String]) -> String {
    let names = command::nearest(name).into_iter().map(str::to_owned);
    let names: Vec<String> = names.chain(others.iter().cloned()).collect();
    let nearest = match names.is_empty() {
        true => String::new(),
        false => state.texts.say("nearest", &[("names", &names.join(", "))]),
    };
    let values = [("name", name), ("nearest", nearest.as_str())];
    state.texts.say("unknown_command", &values)
}

/// The commands that there are, a line each; empty where there are none.
pub fn list(state: &State, message: &Inbound) -> String {
    let Some(Loaded::Listed {
        commands,
        more,
        servers,
    }) = state.loaded.get(&message.id)
    else {
        return String::new();
    };
    let mut lines = lines(state, commands);
    if *more > 0 {
        let more = more.to_string();
        lines.push(state.texts.say("commands_more", &[("more", &more)]));
    }
    let server = |name: &String| state.texts.say("mcp_server", &[("server", name)]);
    lines.extend(servers.iter().map(server));
    lines.join("\n")
}

fn lines(state: &State, commands: &[ListedCommand]) -> Vec<String> {
    let line = |one: &ListedCommand| {
        let about = one.about.clone();
        let about = about.unwrap_or_else(|| state.texts.say("commands_untrusted", &[]));
        format!("/{} — {about}", one.usage)
    };
    commands.iter().map(line).collect()
}

/// What one MCP server has, a line each.
fn of_server(
    state: &State,
    server: &str,
    prompts: &[ListedCommand],
    resources: &[ListedResource],
    more: usize,
) -> String {
    let resource = |one: &ListedResource| format!("/mcp.{server} {} — {}", one.uri, one.about);
    let mut lines = lines(state, prompts);
    lines.extend(resources.iter().map(resource));
    if lines.is_empty() {
        return state.texts.say("mcp_server_empty", &[("server", server)]);
    }
    if more > 0 {
        let more = more.to_string();
        lines.push(state.texts.say("mcp_server_more", &[("more", &more)]));
    }
    let values = [("server", server), ("lines", &lines.join("\n"))];
    state.texts.say("mcp_server_has", &values)
}

/// What is written down where the loading itself broke.
pub fn broken(message: String, why: &str) -> Event {
    let loaded = Loaded::Failed {
        why: why.to_owned(),
    };
    Event::CommandLoaded { message, loaded }
}
