//! Settings: where each comes from, what it means, and what is accepted.
//!
//! Order: environment, `.env`, `config/*.toml` of the configuration folder, defaults that are compiled in. Never from a
//! workspace: a repository that is worked on must not set a key, an allowlist or a model's address.

use crate::agent::limits::{self, Limits};
use crate::agent::mask::Masks;
use crate::agent::step::{Policy, Resume};
use crate::agent::texts::{self, Texts};
use crate::gate::{BUILT_IN, GatePolicy, GateSettings, PolicyError};
use crate::world::confine::{Mode, Own, ProcessLimits, Sandbox, Wanted};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";
const DEFAULT_GRAPH_URL: &str = "https://graph.facebook.com/v23.0";
const DEFAULT_BIND: &str = "127.0.0.1:8787";
const DEFAULT_ALLOWLIST: &str =
    "pytest,ruff,mypy,make,npm,pip,git,cat,head,tail,wc,ls,find,grep,echo,python,node";
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
    pub file: FileSettings,
    pub limits: Limits,
    pub texts: Texts,
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

/// `config/settings.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSettings {
    pub workspace: String,
    pub resume: Resume,
    pub model_stream: bool,
    pub protected_branches: Vec<String>,
    pub environment: Vec<String>,
    pub sandbox: Mode,
    pub sandbox_read: Vec<String>,
    pub sandbox_write: Vec<String>,
    pub sandbox_unix_sockets: bool,
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
        let shown = std::mem::take(&mut sources.shown);
        Ok(Self {
            data_dir,
            bind,
            write_enabled,
            allowlist,
            projects_root,
            model,
            whatsapp,
            file: file_settings(&home.folder)?,
            limits: limits(&home.folder)?,
            texts: Texts::parse(texts::ENGLISH)
                .expect("BUG: the compiled-in catalogue parses, a test says so"),
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
            file: file_settings(&nowhere)
                .expect("BUG: the compiled-in settings parse, a test says so"),
            limits: limits(&nowhere).expect("BUG: the compiled-in limits parse, a test says so"),
            texts: Texts::parse(texts::ENGLISH)
                .expect("BUG: the compiled-in catalogue parses, a test says so"),
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
            limits: self.limits.clone(),
            resume: self.file.resume,
            masks: Masks::new(self.secrets()),
            model: self
                .model
                .as_ref()
                .map(|model| model.name.clone())
                .unwrap_or_default(),
        })
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
        let model = self.model.iter().map(|model| model.key.clone());
        let is_secret = |name: &str| SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending));
        let inherited = env::vars()
            .filter(|(name, _)| is_secret(name))
            .map(|(_, value)| value);
        whatsapp.chain(model).chain(inherited).collect()
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
            hidden: vec![self.data_dir.clone(), self.home.join(".env")],
            settled: vec![self.home.join("config")],
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

struct Home {
    folder: PathBuf,
    data: PathBuf,
}

impl Home {
    /// `--config`, else `JOURNEYMAN_HOME`, else the checkout that this program was built from when run in it, else XDG.
    fn find(config: Option<&Path>) -> Self {
        let beside = |folder: PathBuf| Self {
            data: folder.join("data"),
            folder,
        };
        if let Some(folder) = config
            .map(Path::to_owned)
            .or_else(|| env::var_os("JOURNEYMAN_HOME").map(PathBuf::from))
        {
            return beside(absolute(folder));
        }
        // Compiled in rather than recognised by its looks, which a workspace could imitate.
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR"));
        if env::current_dir().is_ok_and(|here| here.starts_with(checkout)) {
            return beside(checkout.to_owned());
        }
        let user = |variable: &str, fallback: &str| {
            let home = || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(fallback);
            env::var_os(variable)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
                .unwrap_or_else(home)
                .join("journeyman")
        };
        Self {
            folder: user("XDG_CONFIG_HOME", ".config"),
            data: user("XDG_DATA_HOME", ".local/share"),
        }
    }
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

struct Sources {
    env_path: PathBuf,
    dotenv: BTreeMap<String, String>,
    shown: Vec<Shown>,
}

impl Sources {
    fn read(home: &Path) -> Result<Self, ConfigError> {
        let env_path = home.join(".env");
        let mut dotenv = BTreeMap::new();
        if env_path.is_file() {
            let fail = |error: dotenvy::Error| ConfigError::File {
                path: env_path.display().to_string(),
                message: error.to_string(),
            };
            for pair in dotenvy::from_path_iter(&env_path).map_err(fail)? {
                let (name, value) = pair.map_err(fail)?;
                dotenv.insert(name, value);
            }
        }
        Ok(Self {
            env_path,
            dotenv,
            shown: Vec::new(),
        })
    }

    /// The value and where it was found. An empty one counts as not set, but for lists (`AGENT_SHELL_ALLOWLIST`).
    fn get(&mut self, name: &'static str, secret: bool) -> Option<(String, Origin)> {
        let keep_empty = name == "AGENT_SHELL_ALLOWLIST";
        let wanted = |value: &String| keep_empty || !value.trim().is_empty();
        let from_environment = env::var(name)
            .ok()
            .filter(wanted)
            .map(|value| (value, Origin::Environment));
        let from_file = || {
            Some((
                self.dotenv.get(name).filter(|value| wanted(value))?.clone(),
                Origin::File(self.env_path.clone()),
            ))
        };
        let found = from_environment
            .or_else(from_file)
            .map(|(value, origin)| (value.trim().to_owned(), origin));
        if let Some((value, origin)) = &found {
            let value = if secret {
                "set".to_owned()
            } else {
                value.clone()
            };
            self.shown.push(Shown {
                name,
                value,
                origin: origin.clone(),
            });
        }
        found
    }

    fn parsed<T>(
        &mut self,
        name: &'static str,
        default: &str,
        accepted: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, ConfigError> {
        let found = self.get(name, false);
        if found.is_none() {
            self.shown.push(Shown {
                name,
                value: default.to_owned(),
                origin: Origin::Default,
            });
        }
        let (value, origin) = found.unwrap_or_else(|| (default.to_owned(), Origin::Default));
        parse(&value).ok_or(ConfigError::Value {
            name: name.into(),
            origin,
            value,
            accepted,
        })
    }

    fn path(&mut self, name: &'static str) -> Option<PathBuf> {
        self.get(name, false)
            .map(|(value, _)| absolute(PathBuf::from(value)))
    }

    fn folder(&mut self, name: &'static str) -> Result<Option<PathBuf>, ConfigError> {
        let Some((value, origin)) = self.get(name, false) else {
            return Ok(None);
        };
        match PathBuf::from(&value).canonicalize() {
            Ok(path) if path.is_dir() => Ok(Some(path)),
            _ => Err(ConfigError::Value {
                name: name.into(),
                origin,
                value,
                accepted: "an existing folder",
            }),
        }
    }

    fn url(&mut self, name: &'static str, default: &'static str) -> Result<String, ConfigError> {
        let accepted = "an address that begins with http:// or https://";
        let clean = |text: &str| {
            let text = text.trim_end_matches('/');
            let (scheme, rest) = text.split_once("://")?;
            (matches!(scheme, "http" | "https")
                && !rest.is_empty()
                && !rest.contains(char::is_whitespace))
            .then(|| text.to_owned())
        };
        self.parsed(name, default, accepted, clean)
    }
}

fn names(text: &str) -> Option<Vec<String>> {
    let names: Vec<String> = text
        .split(',')
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    names
        .iter()
        .all(|name| !name.contains(|c: char| c.is_whitespace() || c == '/'))
        .then_some(names)
}

fn model(sources: &mut Sources) -> Result<Option<ModelSettings>, ConfigError> {
    let base_url = sources.url("OPENAI_BASE_URL", DEFAULT_BASE_URL)?;
    let key = sources.get("OPENAI_API_KEY", true).map(|(key, _)| key);
    let Some((name, _)) = sources.get("AGENT_MODEL", false) else {
        return Ok(None);
    };
    let key = match key {
        Some(key) => key,
        None if base_url != DEFAULT_BASE_URL => "none".into(),
        None => {
            return Err(ConfigError::Missing {
                name: "OPENAI_API_KEY",
                why: format!(
                    "{DEFAULT_BASE_URL} needs one; for a local server set OPENAI_BASE_URL"
                ),
            });
        }
    };
    Ok(Some(ModelSettings {
        name,
        base_url,
        key,
    }))
}

fn whatsapp(sources: &mut Sources) -> Result<Option<WhatsApp>, ConfigError> {
    let api_url = sources.url("WHATSAPP_API_URL", DEFAULT_GRAPH_URL)?;
    let allowed = sources.parsed(
        "ALLOWED_PHONE_NUMBERS",
        "",
        "phone numbers in digits with country code, comma-separated",
        numbers,
    )?;
    let secrets = [
        "WHATSAPP_ACCESS_TOKEN",
        "WHATSAPP_VERIFY_TOKEN",
        "WHATSAPP_APP_SECRET",
    ];
    let [access_token, verify_token, app_secret] =
        secrets.map(|name| sources.get(name, true).map(|(value, _)| value));
    let phone_number_id = sources
        .get("WHATSAPP_PHONE_NUMBER_ID", false)
        .map(|(value, _)| value);
    if [&access_token, &verify_token, &app_secret, &phone_number_id]
        .iter()
        .all(|value| value.is_none())
    {
        return Ok(None);
    }
    let need = |name: &'static str, value: Option<String>| {
        value.ok_or_else(|| ConfigError::Missing {
            name,
            why: "WhatsApp needs all of its variables (see .env.example)".into(),
        })
    };
    if allowed.is_empty() {
        return Err(ConfigError::Missing {
            name: "ALLOWED_PHONE_NUMBERS",
            why: "without it nobody would be served".into(),
        });
    }
    Ok(Some(WhatsApp {
        access_token: need("WHATSAPP_ACCESS_TOKEN", access_token)?,
        phone_number_id: need("WHATSAPP_PHONE_NUMBER_ID", phone_number_id)?,
        verify_token: need("WHATSAPP_VERIFY_TOKEN", verify_token)?,
        app_secret: need("WHATSAPP_APP_SECRET", app_secret)?,
        api_url,
        allowed,
    }))
}

fn numbers(text: &str) -> Option<Vec<String>> {
    let digits = |number: &str| {
        number
            .trim()
            .trim_start_matches('+')
            .replace([' ', '-'], "")
    };
    let numbers: Vec<String> = text
        .split(',')
        .map(digits)
        .filter(|number| !number.is_empty())
        .collect();
    let plausible = |number: &String| {
        (6..=15).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    numbers.iter().all(plausible).then_some(numbers)
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
    table.try_into().map_err(fail)
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
    table.try_into().map_err(fail)
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
    use super::*;

    #[test]
    fn the_compiled_in_files_parse() {
        let nowhere = Path::new("/nonexistent");
        assert!(file_settings(nowhere).is_ok() && limits(nowhere).is_ok());
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
