//! Configurations of MCP servers, in the form that other agents use: `{"mcpServers": {NAME: {…}}}`. Reads texts, opens no
//! file.
//!
//! Two files have them: the owner's `config/mcp.json`, whose word counts, and a workspace's `.mcp.json`, which can make
//! nothing run without a question and sees no variable of ours.

use crate::agent::event::EffectClass;
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The workspace's own file.
pub const WORKSPACE_FILE: &str = ".mcp.json";
/// Stands for all tools of a server that are not named.
const ALL: &str = "*";
const NAME_CHARS_MAX: usize = 24;

/// Values for `${NAME}`.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Whose file it is.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// `${NAME}` and `${NAME:-default}` are filled in.
    Owner(Lookup<'a>),
    Workspace,
}

/// What a file says.
#[derive(Debug, Clone, Default)]
pub struct Configured {
    pub servers: Vec<Config>,
    /// What cannot be used of it, and why, for people.
    pub problems: Vec<String>,
    /// Values that must not be shown.
    pub secrets: Vec<String>,
}

/// One server.
#[derive(Debug, Clone)]
pub struct Config {
    pub name: String,
    pub transport: Transport,
    /// Whether it may use the network. One that is reached by HTTP is not started here.
    pub network: bool,
    /// Whether it may write in the workspace.
    pub write: bool,
    /// From the owner's own file.
    pub is_owners: bool,
    /// SHA-256 of all that is said of it.
    pub origin: String,
    tools: BTreeMap<String, ToolSettings>,
}

/// How it is spoken with.
#[derive(Clone)]
pub enum Transport {
    Stdio {
        command: String,
        args: Vec<String>,
        env: Vec<(String, String)>,
    },
    Http {
        url: String,
        headers: Vec<(String, String)>,
    },
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown())
    }
}

/// What the owner says of one tool.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolSettings {
    /// It runs without a question.
    pub allow: bool,
    /// Twice is as good as once: after a crash it is run again.
    pub rerun: bool,
    /// It is not offered.
    pub hide: bool,
}

/// As it stands in the file. What other agents write there besides is not looked at.
#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: Option<String>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    disabled: bool,
    #[serde(default)]
    network: bool,
    #[serde(default)]
    write: bool,
    #[serde(default)]
    tools: BTreeMap<String, ToolSettings>,
}

impl Config {
    pub fn tool(&self, name: &str) -> ToolSettings {
        let said = self.tools.get(name).or_else(|| self.tools.get(ALL));
        said.copied().unwrap_or_default()
    }

    /// What is known of a tool after a crash.
    pub fn class(&self, name: &str) -> EffectClass {
        match self.tool(name).rerun {
            true => EffectClass::Idempotent,
            false => EffectClass::Opaque,
        }
    }

    /// The same where it may only read: another process, so another origin.
    pub fn only_reading(self) -> Self {
        match self.write {
            true => Self {
                write: false,
                origin: format!("{} only reading", self.origin),
                ..self
            },
            false => self,
        }
    }

    /// What is trusted with it, on one line.
    pub fn shown(&self) -> String {
        let may = [(self.network, "network"), (self.write, "writes")];
        let may = may.iter().filter(|(may, _)| *may);
        let may: String = may.map(|(_, word)| format!(" [{word}]")).collect();
        format!("{}{may}", self.transport.shown())
    }
}

impl Transport {
    /// The whole command with the names and values of its environment, or the address with the names of its headers.
    pub fn shown(&self) -> String {
        let quoted = |word: &String| shlex::try_quote(word).unwrap_or_default().into_owned();
        match self {
            Transport::Stdio { command, args, env } => {
                let env = env
                    .iter()
                    .map(|(name, value)| format!("{name}={}", quoted(value)));
                let words = [command].into_iter().chain(args).map(quoted);
                env.chain(words).collect::<Vec<_>>().join(" ")
            }
            Transport::Http { url, headers } => {
                let names: String = headers.iter().map(|(name, _)| format!(" {name}")).collect();
                format!("{url}{names}")
            }
        }
    }
}

/// Reads a file's text.
///
/// # Errors
/// Where it is no such file at all; what is wrong with one server is a problem of that server.
pub fn parse(text: &str, source: Source<'_>) -> Result<Configured, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
    let servers = value.get("mcpServers").and_then(Value::as_object);
    let servers: &Map<String, Value> =
        servers.ok_or_else(|| "it has no object \"mcpServers\"".to_owned())?;
    let mut found = Configured::default();
    for (name, value) in servers {
        match one(name, value, source, &mut found.secrets) {
            Ok(Some(config)) => found.servers.push(config),
            Ok(None) => {}
            Err(why) => found.problems.push(format!("{name}: {why}")),
        }
    }
    Ok(found)
}

fn one(
    name: &str,
    value: &Value,
    source: Source<'_>,
    secrets: &mut Vec<String>,
) -> Result<Option<Config>, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty()
        || name.len() > NAME_CHARS_MAX
        || !name.chars().all(allowed)
        || name.contains("__")
    {
        return Err(format!(
            "a name has 1 to {NAME_CHARS_MAX} letters, digits, - and _, and no two _ in a row"
        ));
    }
    let entry: Entry = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
    if entry.disabled {
        return Ok(None);
    }
    let is_owners = matches!(source, Source::Owner(_));
    let mut filler = Filler { source, secrets };
    let transport = transport(&entry, &mut filler)?;
    Ok(Some(Config {
        name: name.to_owned(),
        transport,
        network: entry.network,
        write: entry.write,
        is_owners,
        origin: hex::encode(Sha256::digest(format!("{is_owners} {name} {value}"))),
        tools: match is_owners {
            true => entry.tools,
            // A workspace makes nothing run without a question; what it hides stays hidden.
            false => entry.tools.into_iter().map(only_hidden).collect(),
        },
    }))
}

fn only_hidden((name, said): (String, ToolSettings)) -> (String, ToolSettings) {
    let hide = said.hide;
    (
        name,
        ToolSettings {
            hide,
            ..ToolSettings::default()
        },
    )
}

fn transport(entry: &Entry, filler: &mut Filler<'_>) -> Result<Transport, String> {
    match (entry.kind.as_deref(), &entry.command, &entry.url) {
        (None | Some("stdio"), Some(command), None) => {
            let mut env = Vec::new();
            for (name, value) in &entry.env {
                env.push((name.clone(), filler.secret(value, is_secret_name(name))?));
            }
            let mut args = Vec::new();
            for word in &entry.args {
                args.push(filler.fill(word)?);
            }
            Ok(Transport::Stdio {
                command: filler.fill(command)?,
                args,
                env,
            })
        }
        (None | Some("http" | "streamable-http"), None, Some(url)) => {
            let mut headers = Vec::new();
            for (name, value) in &entry.headers {
                headers.push((name.clone(), filler.secret(value, true)?));
            }
            let url = filler.fill(url)?;
            match url.starts_with("https://") || url.starts_with("http://") {
                true => Ok(Transport::Http { url, headers }),
                false => Err("its url is neither http nor https".into()),
            }
        }
        (Some("sse"), _, _) => Err(
            "the old sse transport is not supported; most servers have \"type\": \"http\"".into(),
        ),
        _ => Err("a server has either a \"command\", or \"type\": \"http\" and a \"url\"".into()),
    }
}

/// Variables with such names hold secrets.
fn is_secret_name(name: &str) -> bool {
    let endings = ["TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD"];
    let name = name.to_ascii_uppercase();
    endings.iter().any(|ending| name.ends_with(ending))
}

struct Filler<'a> {
    source: Source<'a>,
    secrets: &'a mut Vec<String>,
}

impl Filler<'_> {
    fn secret(&mut self, text: &str, is_secret: bool) -> Result<String, String> {
        let filled = self.fill(text)?;
        if is_secret {
            self.secrets.push(filled.clone());
        }
        Ok(filled)
    }

    /// Other things in braces, such as a shell's, stay as they are.
    fn fill(&mut self, text: &str) -> Result<String, String> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            filled.push_str(before);
            rest = match variable(after) {
                Some((name, default, after)) => {
                    filled.push_str(&self.value(name, default)?);
                    after
                }
                None => {
                    filled.push_str("${");
                    after
                }
            };
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn value(&mut self, name: &str, default: Option<&str>) -> Result<String, String> {
        let Source::Owner(lookup) = self.source else {
            return Err(format!("${{{name}}} is filled in in config/mcp.json only"));
        };
        match (lookup(name), default) {
            (Some(value), _) => {
                self.secrets.push(value.clone());
                Ok(value)
            }
            (None, Some(default)) => Ok(default.to_owned()),
            (None, None) => Err(format!("the variable {name} is not set")),
        }
    }
}

/// Behind `${`: the name of a variable, what stands for it where it is not set, and the rest.
fn variable(text: &str) -> Option<(&str, Option<&str>, &str)> {
    let (inner, after) = text.split_once('}')?;
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let fits = !name.is_empty() && name.chars().all(is_name);
    fits.then_some((name, default, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(text: &str) -> Configured {
        let lookup = |name: &str| (name == "GH").then(|| "t0ken-of-gh".to_owned());
        parse(text, Source::Owner(&lookup)).expect("a configuration")
    }

    #[test]
    fn the_form_of_other_agents_is_read() {
        let read = owners(
            r#"{"mcpServers": {
                "fs": {"command": "npx", "args": ["-y", "a b"], "env": {"LEVEL": "1"}, "alwaysAllow": []},
                "gh": {"type": "http", "url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${GH}"}},
                "off": {"command": "x", "disabled": true}}}"#,
        );
        let shown: Vec<String> = read.servers.iter().map(Config::shown).collect();
        assert_eq!(
            shown,
            [
                "LEVEL=1 npx -y 'a b'",
                "https://x.example/mcp Authorization"
            ]
        );
        assert!(read.secrets.contains(&"t0ken-of-gh".to_owned()));
        assert!(read.problems.is_empty());
    }

    #[test]
    fn a_wrong_server_is_told_and_the_others_stay() {
        let read = owners(
            r#"{"mcpServers": {"a__b": {"command": "x"}, "old": {"type": "sse", "url": "http://x"}, "none": {},
                "unset": {"command": "${NOT_SET}"}, "ok": {"command": "${NOT_SET:-x}"}}}"#,
        );
        assert_eq!(read.servers.len(), 1);
        assert_eq!(read.problems.len(), 4, "{:?}", read.problems);
    }

    #[test]
    fn a_workspace_allows_nothing_and_sees_no_variable() {
        let text = r#"{"mcpServers": {"a": {"command": "x", "tools": {"*": {"allow": true, "rerun": true, "hide": true}}},
            "b": {"command": "${HOME}"}}}"#;
        let read = parse(text, Source::Workspace).expect("a configuration");
        let tool = read.servers[0].tool("t");
        assert!(!tool.allow && !tool.rerun && tool.hide);
        assert_eq!(read.problems.len(), 1);
    }

    #[test]
    fn another_word_is_another_server() {
        let one = owners(r#"{"mcpServers": {"a": {"command": "x"}}}"#);
        let two = owners(r#"{"mcpServers": {"a": {"command": "x", "args": ["y"]}}}"#);
        assert_ne!(one.servers[0].origin, two.servers[0].origin);
    }
}
