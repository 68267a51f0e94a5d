//! What MCP servers have for people: prompts that they fill in, and resources. A message asks for one by the server's name:
//! `/mcp.SERVER`, `/mcp.SERVER.PROMPT ARGUMENTS`, `/mcp.SERVER URI`. Only servers that count here are asked, and what they
//! say is data of a third party: cleaned, masked, cut.
//!
//! Both only read, as the protocol has it, so neither asks a person; no tool is called from here.

use super::client::Client;
use super::config::{Config, Transport};
use super::{ERROR_CHARS_MAX, Servers, said};
use crate::agent::event::{ListedCommand, ListedResource, Loaded, TheirKind};
use crate::agent::mcp::clean;
use crate::agent::wording::one_line;
use crate::definitions::arguments::Arguments;
use crate::definitions::hidden;
use crate::definitions::loading::cut;
use crate::world::process::Processes;
use crate::world::workspace::Workspace;
use futures_util::future::join_all;
use rmcp::model::{Prompt, PromptArgument};
use serde_json::{Map, Value};
use std::time::Duration;

/// With what the name of such a command begins.
const PREFIX: &str = "mcp";
/// Prompts, and resources, of one server that are listed.
const LISTED_MAX: usize = 30;
const ABOUT_CHARS_MAX: usize = 100;
/// Of a text that a model gets.
const TEXT_CHARS_MAX: usize = 40_000;
/// Descriptions of arguments, where one is missing.
const EXPLAINED_CHARS_MAX: usize = 600;

/// Where somebody asks from.
pub struct Asker<'a> {
    pub workspace: &'a Workspace,
    pub processes: &'a Processes,
    /// The folder is not the session's own, so no server may write in it.
    pub only_reading: bool,
}

/// What is asked of one server.
enum Wish<'a> {
    List,
    Prompt {
        name: &'a str,
        arguments: &'a Arguments,
    },
    Resource {
        uri: &'a str,
    },
}

impl Servers {
    /// What came of a command that is one of a server; `None` where its name is none of theirs.
    pub async fn said(
        &self,
        name: &str,
        arguments: &Arguments,
        asker: &Asker<'_>,
    ) -> Option<Loaded> {
        let (configs, _) = self.configs(asker.workspace);
        if name == PREFIX && !configs.is_empty() {
            return Some(Loaded::Listed {
                commands: self.prompts(asker.workspace).await,
                more: 0,
                servers: configs.into_iter().map(|config| config.name).collect(),
            });
        }
        let (server, prompt) = named(name)?;
        let config = configs.into_iter().find(|config| config.name == server)?;
        let wish = match (prompt, arguments.words().first()) {
            (Some(name), _) => Wish::Prompt { name, arguments },
            (None, Some(uri)) => Wish::Resource { uri },
            (None, None) => Wish::List,
        };
        Some(match self.asked(config, &wish, asker).await {
            Ok(loaded) => loaded,
            Err(why) => Loaded::Failed {
                why: one_line(&clean(&self.masks.apply(why)), ERROR_CHARS_MAX),
            },
        })
    }

    /// Names of the servers that can be asked here.
    pub fn names(&self, workspace: &Workspace) -> Vec<String> {
        let (configs, _) = self.configs(workspace);
        configs.into_iter().map(|config| config.name).collect()
    }

    /// The prompts of servers that are connected now; nothing is started for it, and nobody waits long.
    pub async fn prompts(&self, workspace: &Workspace) -> Vec<ListedCommand> {
        let (configs, _) = self.configs(workspace);
        let limit = Duration::from_secs(self.limits.mcp_offer_seconds);
        let each = configs.iter().map(|config| async move {
            let client = self.slot(config, workspace).connected()?;
            let prompts = tokio::time::timeout(limit, client.prompts()).await;
            let prompts = prompts.ok()?.ok()?;
            let listed = |prompt| self.listed(&config.name, prompt);
            Some(prompts.iter().map(listed).collect::<Vec<_>>())
        });
        let listed = join_all(each).await.into_iter().flatten().flatten();
        listed.take(LISTED_MAX).collect()
    }

    /// What a server has besides tools, without a limit of its own: for the command line.
    pub(super) async fn everything(
        &self,
        config: &Config,
        client: &Client,
    ) -> Result<(Vec<String>, Vec<String>), String> {
        let prompts = client.prompts().await?;
        let resources = client.resources().await?;
        let prompt = |one: &Prompt| self.line(&usage(&config.name, one));
        let prompts = prompts.iter().map(prompt).collect();
        let resources = resources.iter().map(|(uri, _)| self.line(uri)).collect();
        Ok((prompts, resources))
    }

    /// Within one limit for all of it. A server that is late is ended, as with a call.
    async fn asked(
        &self,
        config: Config,
        wish: &Wish<'_>,
        asker: &Asker<'_>,
    ) -> Result<Loaded, String> {
        let config = match asker.only_reading {
            true => config.only_reading(),
            false => config,
        };
        let server = &config.name;
        let slot = self.slot(&config, asker.workspace);
        let guard = match (config.write, &config.transport) {
            (true, Transport::Stdio { .. }) => asker.processes.guard_git()?,
            (false, _) | (_, Transport::Http { .. }) => None,
        };
        let limit = Duration::from_secs(self.limits.mcp_connect_seconds);
        let asking = async {
            let client = slot.client().await;
            let client = client
                .map_err(|why| format!("the MCP server {server} cannot be reached: {why}"))?;
            self.answer(server, &client, wish).await
        };
        let answered = tokio::select! {
            answered = tokio::time::timeout(limit, asking) => answered,
            () = asker.processes.cancelled() => Ok(Err("it was stopped".into())),
        };
        // What it changed about git's settings meanwhile is put back; nobody has to hear of that here.
        drop(guard.as_deref().and_then(crate::world::process::put_back));
        match answered {
            Ok(Ok(loaded)) => {
                slot.worked().await;
                Ok(loaded)
            }
            Ok(Err(why)) => Err(why),
            Err(_) => {
                slot.end().await;
                let seconds = limit.as_secs();
                Err(format!(
                    "the MCP server {server} did not answer within {seconds} s"
                ))
            }
        }
    }

    async fn answer(
        &self,
        server: &str,
        client: &Client,
        wish: &Wish<'_>,
    ) -> Result<Loaded, String> {
        let failed = |why: String| format!("the MCP server {server} did not give it: {why}");
        match wish {
            Wish::List => {
                let prompts = client.prompts().await.map_err(failed)?;
                let resources = client.resources().await.map_err(failed)?;
                let beyond = |count: usize| count.saturating_sub(LISTED_MAX);
                Ok(Loaded::Server {
                    server: server.to_owned(),
                    more: beyond(prompts.len()) + beyond(resources.len()),
                    prompts: (prompts.iter().take(LISTED_MAX))
                        .map(|prompt| self.listed(server, prompt))
                        .collect(),
                    resources: (resources.into_iter().take(LISTED_MAX))
                        .map(|(uri, about)| ListedResource {
                            uri: self.line(&uri),
                            about: self.line(&about),
                        })
                        .collect(),
                })
            }
            Wish::Prompt { name, arguments } => {
                let prompts = client.prompts().await.map_err(failed)?;
                let prompt = found(server, &prompts, name)?;
                let filled = filled(server, prompt, arguments.words())?;
                let answer = client.prompt(&prompt.name, filled).await.map_err(failed)?;
                Ok(self.theirs(server, TheirKind::Prompt, said::prompt(&answer)))
            }
            Wish::Resource { uri } => {
                let answer = client.resource(uri).await.map_err(failed)?;
                Ok(self.theirs(server, TheirKind::Resource, said::contents(&answer)))
            }
        }
    }

    fn theirs(&self, server: &str, of: TheirKind, text: String) -> Loaded {
        let (text, hidden) = hidden::removed(&text);
        let text = self.masks.apply(text.trim().to_owned());
        Loaded::Theirs {
            server: server.to_owned(),
            of,
            text: cut(text, TEXT_CHARS_MAX).0,
            hidden,
        }
    }

    fn listed(&self, server: &str, prompt: &Prompt) -> ListedCommand {
        let about = prompt.description.as_ref().or(prompt.title.as_ref());
        ListedCommand {
            usage: self.line(&usage(server, prompt)),
            about: Some(self.line(about.unwrap_or(&prompt.name))),
        }
    }

    fn line(&self, text: &str) -> String {
        one_line(
            &clean(&self.masks.apply(text.trim().to_owned())),
            ABOUT_CHARS_MAX,
        )
    }
}

/// Server and prompt: `mcp.SERVER`, `mcp.SERVER.PROMPT`, and as other agents spell it, `mcp__SERVER__PROMPT`. No server's
/// name has a dot or two `_` in a row.
fn named(name: &str) -> Option<(&str, Option<&str>)> {
    let rest = name.strip_prefix(PREFIX)?;
    let (rest, between) = match (rest.strip_prefix('.'), rest.strip_prefix("__")) {
        (Some(rest), _) => (rest, "."),
        (None, Some(rest)) => (rest, "__"),
        (None, None) => return None,
    };
    Some(match rest.split_once(between) {
        Some((server, prompt)) => (server, Some(prompt)),
        None => (rest, None),
    })
}

/// As a person writes it: a command's name has no blanks, and with a slash it would be a path.
fn spoken(name: &str) -> String {
    name.replace(|c: char| c == '/' || c.is_whitespace(), "_")
}

fn usage(server: &str, prompt: &Prompt) -> String {
    let argument = |one: &PromptArgument| match is_required(one) {
        true => format!(" {}", one.name),
        false => format!(" [{}]", one.name),
    };
    let arguments: String = arguments(prompt).iter().map(argument).collect();
    format!("{PREFIX}.{server}.{}{arguments}", spoken(&prompt.name))
}

fn arguments(prompt: &Prompt) -> &[PromptArgument] {
    prompt.arguments.as_deref().unwrap_or_default()
}

fn is_required(argument: &PromptArgument) -> bool {
    argument.required == Some(true)
}

fn found<'a>(server: &str, prompts: &'a [Prompt], name: &str) -> Result<&'a Prompt, String> {
    let exact = prompts.iter().find(|prompt| prompt.name == name);
    let found = exact.or_else(|| prompts.iter().find(|prompt| spoken(&prompt.name) == name));
    found.ok_or_else(|| {
        format!("the MCP server {server} has no prompt {name}; /mcp.{server} lists what it has")
    })
}

/// The arguments of a prompt: `NAME=VALUE` by their names, the others in their order. What is left over belongs to the last
/// one; behind a prompt that takes none it is for the model, which reads the whole message.
fn filled(server: &str, prompt: &Prompt, words: &[String]) -> Result<Map<String, Value>, String> {
    let wanted = arguments(prompt);
    let mut filled: Map<String, Value> = Map::new();
    let mut plain = Vec::new();
    for word in words {
        let named = word
            .split_once('=')
            .filter(|(name, _)| wanted.iter().any(|one| one.name == *name));
        match named {
            Some((name, value)) => drop(filled.insert(name.to_owned(), value.into())),
            None => plain.push(word.as_str()),
        }
    }
    let open = wanted.iter().filter(|one| !filled.contains_key(&one.name));
    let open: Vec<_> = open.collect();
    for (at, one) in open.iter().enumerate().take(plain.len()) {
        let value = match at + 1 == open.len() {
            true => plain[at..].join(" "),
            false => plain[at].to_owned(),
        };
        filled.insert(one.name.clone(), value.into());
    }
    let missing = |one: &&PromptArgument| is_required(one) && !filled.contains_key(&one.name);
    let missing: Vec<&str> = (wanted.iter().filter(missing))
        .map(|one| one.name.as_str())
        .collect();
    match missing.is_empty() {
        true => Ok(filled),
        false => Err(format!(
            "it needs {}. Write /{}; NAME=VALUE will do, too{}",
            missing.join(", "),
            usage(server, prompt),
            explained(wanted)
        )),
    }
}

fn explained(arguments: &[PromptArgument]) -> String {
    let one = |one: &PromptArgument| Some(format!("; {}: {}", one.name, one.description.as_ref()?));
    let all: String = arguments.iter().filter_map(one).collect();
    one_line(&all, EXPLAINED_CHARS_MAX)
}
