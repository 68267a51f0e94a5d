//! Where variables are found: the configuration folder, its `.env`, the environment. Parsing of single values.

use super::{ConfigError, Origin, Shown};
use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

pub(super) struct Home {
    pub(super) folder: PathBuf,
    pub(super) data: PathBuf,
}

impl Home {
    /// `--config`, else `JOURNEYMAN_HOME`, else the checkout that this program was built from when run in it, else XDG.
    pub(super) fn find(config: Option<&Path>) -> Self {
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

pub(super) struct Sources {
    env_path: PathBuf,
    dotenv: BTreeMap<String, String>,
    pub(super) shown: Vec<Shown>,
}

impl Sources {
    pub(super) fn read(home: &Path) -> Result<Self, ConfigError> {
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
    pub(super) fn get(&mut self, name: &'static str, secret: bool) -> Option<(String, Origin)> {
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

    /// A variable that another setting names.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        env::var(name)
            .ok()
            .or_else(|| self.dotenv.get(name).cloned())
    }

    pub(super) fn parsed<T>(
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

    pub(super) fn path(&mut self, name: &'static str) -> Option<PathBuf> {
        self.get(name, false)
            .map(|(value, _)| absolute(PathBuf::from(value)))
    }

    pub(super) fn folder(&mut self, name: &'static str) -> Result<Option<PathBuf>, ConfigError> {
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

    pub(super) fn url(
        &mut self,
        name: &'static str,
        default: &'static str,
    ) -> Result<String, ConfigError> {
        let accepted = "an address that begins with http:// or https://";
        let clean = |text: &str| {
            if text.is_empty() && default.is_empty() {
                return Some(String::new());
            }
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

pub(super) fn names(text: &str) -> Option<Vec<String>> {
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

pub(super) fn numbers(text: &str) -> Option<Vec<String>> {
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
