//! Settings: where each comes from, what it means, and what is accepted.
//!
//! Order: environment, `.env`, `config/*.toml` of the configuration folder, defaults that are compiled in. Never from a
//! workspace: a repository that is worked on must not set a key, an allowlist or a model's address.

/// What models cost.
pub mod models;
/// The services outside.
mod services;
/// Where variables are found.
mod sources;

use crate::agent::language::Language;
use crate::agent::limits::{self, Limits};
use crate::agent::mask::Masks;
use crate::agent::step::{Policy, Resume};
use crate::agent::texts::Catalogues;
use crate::definitions::{self, places};
use crate::doors::people::People;
use crate::doors::whatsapp::sending::Template;
use crate::gate::{BUILT_IN, GatePolicy, GateSettings, PolicyError};
use crate::world::confine::{Mode, Own, ProcessLimits, Sandbox, Wanted};
use crate::world::mcp::config::{Configured, Source, parse};
use crate::world::remote::Hosting;
use crate::world::worktrees::{Habits, Isolation};
use models::{ModelEntry, Models};
use serde::Deserialize;
use services::{github, http_clients, model, transcription, whatsapp};
use sources::{Home, Sources, names};
use std::env;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

const DEFAULT_BIND: &str = "127.0.0.1:8787";

const DEFAULT_ALLOWLIST: &str =
    "pytest,ruff,mypy,make,npm,pip,git,cat,head,tail,wc,ls,find,grep,echo,python,node";

/// Below the configuration folder.
const MCP_FILE: &str = "config/mcp.json";

const SETTINGS: &str = include_str!("../config/settings.toml");

/// Variables with such names hold secrets, whoever set them.
const SECRET_ENDINGS: &[&str] = &["_TOKEN", "_KEY", "_SECRET", "_PASSWORD", "_PASSWD"];

/// A setting that stops the start.
#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("{name} (from {origin}) is {value:?}; accepted: {accepted}")]
    Value {
        name: String,
        origin: Origin,
        value: String,
        accepted: &'static str,
    },
    #[error("{name} is not set; {why}")]
    Missing { name: &'static str, why: String },
    #[error("{path}: {message}")]
    File { path: String, message: String },
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// Where a value was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    Environment,
    File(PathBuf),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Environment => f.write_str("environment"),
            Origin::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// One setting as `doctor` shows it; secrets only say that they are set.
#[derive(Debug, Clone)]
pub struct Shown {
    pub name: &'static str,
    pub value: String,
    pub origin: Origin,
}

/// Everything that can be set.
pub struct Settings {
    pub home: PathBuf,
    pub data_dir: PathBuf,
    pub bind: SocketAddr,
    pub write_enabled: bool,
    pub allowlist: Vec<String>,
    pub projects_root: Option<PathBuf>,
    pub model: Option<ModelSettings>,
    pub whatsapp: Option<WhatsApp>,
    /// Who may use the HTTP channel; none: it is off.
    pub http_clients: Vec<HttpClient>,
    /// Who hears what people say; `None`: nobody.
    pub transcription: Option<ModelSettings>,
    pub github: Hosting,
    pub file: FileSettings,
    pub limits: Limits,
    pub models: Models,
    pub texts: Catalogues,
    /// MCP servers of the owner's.
    pub mcp: Configured,
    /// Every variable, for `doctor`.
    pub shown: Vec<Shown>,
}

/// Which model, and where.
#[derive(Clone)]
pub struct ModelSettings {
    pub name: String,
    pub base_url: String,
    pub key: String,
}

/// The WhatsApp Cloud API.
#[derive(Clone)]
pub struct WhatsApp {
    pub access_token: String,
    pub phone_number_id: String,
    pub verify_token: String,
    pub app_secret: String,
    pub api_url: String,
    /// Digits only.
    pub allowed: Vec<String>,
}

/// A program that speaks over HTTP. Its chats are `http:NAME` and `http:NAME/…`.
#[derive(Clone)]
pub struct HttpClient {
    pub name: String,
    pub secret: String,
}

/// `config/settings.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSettings {
    pub workspace: String,
    pub resume: Resume,
    pub model_stream: bool,
    /// Where a schedule that names no zone is at home: an IANA name, or empty.
    pub timezone: String,
    pub protected_branches: Vec<String>,
    pub environment: Vec<String>,
    pub sandbox: Mode,
    pub sandbox_read: Vec<String>,
    pub sandbox_write: Vec<String>,
    pub sandbox_unix_sockets: bool,
    pub git_hooks: bool,
    pub worktree: Isolation,
    pub worktree_links: Vec<String>,
    /// The template that opens a conversation again, by name; empty: none.
    pub whatsapp_template: String,
    pub whatsapp_template_language: String,
    /// Who has several chats.
    pub people: People,
}

/// The configuration folder.
pub fn home(config: Option<&Path>) -> PathBuf {
    Home::find(config).folder
}

impl Settings {
    /// Reads everything.
    ///
    /// # Errors
    /// [`ConfigError`]: the name, where it came from, and what is accepted.
    pub fn load(config: Option<&Path>) -> Result<Self, ConfigError> {
        let home = Home::find(config);
        let mut sources = Sources::read(&home.folder)?;
        let data_dir = sources.path("DATA_DIR").unwrap_or(home.data);
        let bind = sources.parsed(
            "BIND_ADDR",
            DEFAULT_BIND,
            "an address with port, such as 127.0.0.1:8787",
            |text| text.parse().ok(),
        )?;
        let write_enabled = sources.parsed(
            "AGENT_WRITE_ENABLED",
            "false",
            "true or false",
            |text| match text.to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" => Some(true),
                "false" | "0" | "no" => Some(false),
                _ => None,
            },
        )?;
        let allowlist = sources.parsed(
            "AGENT_SHELL_ALLOWLIST",
            DEFAULT_ALLOWLIST,
            "names of programs, comma-separated, without paths or spaces",
            names,
        )?;
        let projects_root = sources.folder("PROJECTS_ROOT")?;
        let model = model(&mut sources)?;
        let whatsapp = whatsapp(&mut sources)?;
        let http_clients = http_clients(&mut sources)?;
        let transcription = transcription(&mut sources, model.as_ref())?;
        let github = github(&mut sources)?;
        let mut texts = Catalogues::built_in();
        texts.wanted = sources.parsed(
            "AGENT_LANG",
            "",
            "en or es, or nothing",
            |code| match code {
                "" => Some(None),
                code => Language::named(code).map(Some),
            },
        )?;
        let mcp = mcp(&home.folder, &sources)?;
        let shown = std::mem::take(&mut sources.shown);
        Ok(Self {
            data_dir,
            bind,
            write_enabled,
            allowlist,
            projects_root,
            model,
            whatsapp,
            http_clients,
            transcription,
            github,
            file: file_settings(&home.folder)?,
            limits: limits(&home.folder)?,
            models: Models::load(&home.folder)?,
            texts,
            mcp,
            shown,
            home: home.folder,
        })
    }

    /// What the demo brings itself: everything below `folder`, nothing of this machine's configuration.
    pub fn demo(folder: &Path, whatsapp: WhatsApp) -> Self {
        let nowhere = folder.join("config");
        Self {
            home: nowhere.clone(),
            data_dir: folder.join("data"),
            bind: SocketAddr::from(([127, 0, 0, 1], 0)),
            write_enabled: true,
            allowlist: names(DEFAULT_ALLOWLIST).expect("BUG: the default allowlist is one"),
            projects_root: Some(folder.join("projects")),
            model: Some(ModelSettings {
                name: "recording".into(),
                base_url: String::new(),
                key: String::new(),
            }),
            whatsapp: Some(whatsapp),
            http_clients: Vec::new(),
            transcription: None,
            github: Hosting::default(),
            // What was done is shown in the project's folder itself.
            file: FileSettings {
                worktree: Isolation::Shared,
                ..file_settings(&nowhere)
                    .expect("BUG: the compiled-in settings parse, a test says so")
            },
            limits: Limits {
                together_ms: 0, // its person waits for every answer
                ..limits(&nowhere).expect("BUG: the compiled-in limits parse, a test says so")
            },
            models: Models::load(&nowhere)
                .expect("BUG: the compiled-in models parse, a test says so"),
            texts: Catalogues::built_in(),
            mcp: Configured::default(),
            shown: Vec::new(),
        }
    }

    /// The policy that decides: gate rules, limits, how to resume.
    ///
    /// # Errors
    /// [`ConfigError::Policy`] with file, line and rule.
    pub fn policy(&self) -> Result<Policy, ConfigError> {
        Ok(Policy {
            gate: self.gate(self.write_enabled)?,
            limits: Limits {
                context_tokens: self
                    .model_entry()
                    .and_then(|entry| entry.context_tokens)
                    .unwrap_or(self.limits.context_tokens),
                ..self.limits.clone()
            },
            resume: self.file.resume,
            masks: Masks::new(self.secrets()),
            price: self.model_entry().and_then(|entry| entry.price),
            aliases: self.models.aliases(),
            model: self
                .model
                .as_ref()
                .map(|model| model.name.clone())
                .unwrap_or_default(),
        })
    }

    /// Who works in a git worktree of their own.
    pub fn worktrees(&self) -> Habits {
        Habits {
            links: self.file.worktree_links.clone(),
            sessions_max: self.limits.worktrees_max,
            idle_days_max: self.limits.worktree_days_max,
        }
    }

    /// What opens a conversation on WhatsApp again.
    pub fn whatsapp_template(&self) -> Option<Template> {
        let (name, language) = (
            &self.file.whatsapp_template,
            &self.file.whatsapp_template_language,
        );
        (!name.is_empty()).then(|| Template {
            name: name.clone(),
            language: language.clone(),
        })
    }

    /// What is known of the configured model.
    pub fn model_entry(&self) -> Option<&ModelEntry> {
        self.models.find(&self.model.as_ref()?.name)
    }

    /// Every secret that this program holds or inherited: hidden wherever a command prints one.
    fn secrets(&self) -> Vec<String> {
        let whatsapp = self.whatsapp.iter().flat_map(|whatsapp| {
            let secrets = [
                &whatsapp.access_token,
                &whatsapp.app_secret,
                &whatsapp.verify_token,
            ];
            secrets.map(Clone::clone)
        });
        let model = self.model.iter().chain(&self.transcription);
        let model = model.map(|model| model.key.clone());
        let is_secret = |name: &str| SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending));
        let inherited = env::vars()
            .filter(|(name, _)| is_secret(name))
            .map(|(_, value)| value);
        let github = self.github.token.iter().cloned();
        let http = self.http_clients.iter().map(|client| client.secret.clone());
        let mcp = self.mcp.secrets.iter().cloned();
        let services = whatsapp.chain(model).chain(github).chain(http).chain(mcp);
        let all = services.chain(inherited);
        all.collect()
    }

    /// What says how this program behaves, and is never changed by what it runs.
    pub fn settled(&self) -> Vec<PathBuf> {
        let folders = places::folders(definitions::Origin::User);
        let folders = folders.iter().map(|searched| searched.folder);
        let folders = ["config"].into_iter().chain(folders);
        folders.map(|folder| self.home.join(folder)).collect()
    }

    /// What confines commands that get this environment.
    pub fn sandbox(&self, environment: &[(String, String)]) -> Arc<Sandbox> {
        let (file, limits) = (&self.file, &self.limits);
        let wanted = Wanted {
            mode: file.sandbox,
            read: file.sandbox_read.clone(),
            write: file.sandbox_write.clone(),
            unix_sockets: file.sandbox_unix_sockets,
            limits: ProcessLimits {
                processes_max: limits.command_processes_max,
                open_files_max: limits.command_open_files_max,
                file_bytes_max: limits.command_file_bytes_max,
                memory_bytes_max: limits.command_memory_bytes_max,
            },
        };
        let own = Own {
            hidden: vec![
                self.data_dir.clone(),
                self.home.join(".env"),
                self.home.join(MCP_FILE),
            ],
            settled: self.settled(),
        };
        Sandbox::new(&wanted, &own, environment)
    }

    /// The gate's rules: the built-in file, then the one of the configuration folder. Strictest wins.
    ///
    /// # Errors
    /// As [`Settings::policy`].
    pub fn gate(&self, write_enabled: bool) -> Result<GatePolicy, ConfigError> {
        let path = self.home.join("config/policy.toml");
        let own = read_optional(&path)?.filter(|text| text != BUILT_IN);
        let name = path.display().to_string();
        let mut files = vec![("built-in policy.toml", BUILT_IN)];
        files.extend(own.as_deref().map(|text| (name.as_str(), text)));
        let settings = GateSettings {
            allowlist: self.allowlist.clone(),
            write_enabled,
            protected_branches: self.file.protected_branches.clone(),
        };
        Ok(GatePolicy::load(&files, settings)?)
    }
}

fn file_settings(home: &Path) -> Result<FileSettings, ConfigError> {
    let path = home.join("config/settings.toml");
    let fail = |error: toml::de::Error| ConfigError::File {
        path: path.display().to_string(),
        message: error.to_string(),
    };
    let mut table: toml::Table =
        toml::from_str(SETTINGS).expect("BUG: the compiled-in settings parse, a test says so");
    if let Some(text) = read_optional(&path)? {
        table.extend(toml::from_str::<toml::Table>(&text).map_err(fail)?);
    }
    let settings: FileSettings = table.try_into().map_err(fail)?;
    let is_name = |name: &&String| !name.contains('/') && !matches!(name.as_str(), "" | "." | "..");
    match settings.worktree_links.iter().find(|name| !is_name(name)) {
        None => Ok(settings),
        Some(wrong) => Err(ConfigError::File {
            path: path.display().to_string(),
            message: format!(
                "worktree_links: {wrong:?} is no name of a folder right below a project"
            ),
        }),
    }
}

/// The owner's MCP servers.
fn mcp(home: &Path, sources: &Sources) -> Result<Configured, ConfigError> {
    let path = home.join(MCP_FILE);
    let Some(text) = read_optional(&path)? else {
        return Ok(Configured::default());
    };
    let lookup = |name: &str| sources.variable(name);
    parse(&text, Source::Owner(&lookup)).map_err(|message| ConfigError::File {
        path: path.display().to_string(),
        message,
    })
}

fn limits(home: &Path) -> Result<Limits, ConfigError> {
    let path = home.join("config/limits.toml");
    let fail = |error: toml::de::Error| ConfigError::File {
        path: path.display().to_string(),
        message: error.to_string(),
    };
    let mut table: toml::Table = toml::from_str(limits::DEFAULTS)
        .expect("BUG: the compiled-in limits parse, a test says so");
    if let Some(text) = read_optional(&path)? {
        table.extend(toml::from_str::<toml::Table>(&text).map_err(fail)?);
    }
    let limits: Limits = table.try_into().map_err(fail)?;
    match limits.flaw() {
        None => Ok(limits),
        Some(message) => Err(ConfigError::File {
            path: path.display().to_string(),
            message,
        }),
    }
}

fn read_optional(path: &Path) -> Result<Option<String>, ConfigError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ConfigError::File {
            path: path.display().to_string(),
            message: error.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::sources::numbers;
    use super::*;

    #[test]
    fn the_compiled_in_files_parse() {
        let nowhere = Path::new("/nonexistent");
        assert!(file_settings(nowhere).is_ok() && limits(nowhere).is_ok());
    }

    #[test]
    fn limits_that_let_nobody_in_stop_the_start() {
        let home = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(home.path().join("config")).expect("a folder");
        for (line, told) in [
            ("http_requests_max = 0", "http_requests_max is 0"),
            ("http_body_seconds_max = 0", "http_body_seconds_max is 0"),
            ("http_bodies_bytes_max = 9", "less than one body"),
        ] {
            std::fs::write(home.path().join("config/limits.toml"), line).expect("written");
            let error = limits(home.path()).expect_err(line).to_string();
            assert!(
                error.contains(told) && error.contains("limits.toml"),
                "{error}"
            );
        }
    }

    #[test]
    fn lists_are_checked() {
        assert_eq!(
            numbers("+54 911-1234, 34600000000"),
            Some(vec!["549111234".into(), "34600000000".into()])
        );
        assert_eq!(numbers("call me"), None);
        assert_eq!(names("git, ls"), Some(vec!["git".into(), "ls".into()]));
        assert_eq!(names("/bin/ls"), None);
    }
}
