//! `journeyman init`: asks for what the program needs, tries each answer, and writes `.env`.
//!
//! Nothing is written before the last answer, and then in one step, for nobody else to read. Secrets are neither shown nor
//! echoed. Without a terminal the answers are lines of stdin, in the order of the questions.

/// Where answers come from.
mod asking;
/// Whether answers are right.
mod trying;
/// The file that they go into.
mod writing;

use super::{CliError, Exit, block_on};
use crate::config::{Settings, home};
use crate::world::clock;
use asking::Asker;
use clap::Args;
use std::path::{Path, PathBuf};
use trying::Trying;
use writing::EnvFile;

/// How often a wrong answer can be corrected.
const TRIES_MAX: usize = 5;
const OPENAI: &str = "https://api.openai.com/v1";
const GRAPH: &str = "https://graph.facebook.com/v23.0";
const GITHUB: &str = "https://api.github.com";
const BIND: &str = "127.0.0.1:8787";

#[derive(Debug, Args)]
pub struct Init {
    /// Try nothing: every answer is taken as it is
    #[arg(long)]
    untried: bool,
}

/// What was answered so far, and with what.
struct Round<'a> {
    asker: Asker,
    file: EnvFile,
    trying: Option<&'a Trying>,
}

impl Init {
    pub fn run(self, config: Option<&Path>) -> Result<Exit, CliError> {
        block_on(self.ask_all(config))?
    }

    async fn ask_all(self, config: Option<&Path>) -> Result<Exit, CliError> {
        let folder = home(config);
        let trying = Trying::new();
        let mut round = Round {
            asker: Asker::new()?,
            file: EnvFile::read(&folder)?,
            trying: (!self.untried).then_some(&trying),
        };
        eprintln!(
            "This writes {}. An empty answer takes what stands in [brackets].\n",
            round.file.path().display()
        );
        round.model().await?;
        round.work()?;
        round.github().await?;
        let whatsapp = round.whatsapp().await?;
        round.file.write()?;
        eprintln!("\nWritten: {}", round.file.path().display());
        next_steps(config, whatsapp)
    }
}

impl Round<'_> {
    async fn model(&mut self) -> Result<(), CliError> {
        let found = match self.trying {
            Some(trying) => trying.local_model().await,
            None => None,
        };
        if let Some((name, _)) = found {
            eprintln!("{name} runs on this machine.");
        }
        let nearby = found.map_or(OPENAI, |(_, address)| address);
        for _ in 0..TRIES_MAX {
            let default = self
                .file
                .get("OPENAI_BASE_URL")
                .unwrap_or_else(|| nearby.to_owned());
            let address = self.asker.line("Address of the model's server", &default)?;
            let address = address.trim_end_matches('/').to_owned();
            let key = self.secret(
                "OPENAI_API_KEY",
                "Key of the model's server (none, as for a local one: -)",
            )?;
            let names = match self.trying {
                Some(trying) => trying.models(&address, &key).await,
                None => Vec::new(),
            };
            if !names.is_empty() {
                eprintln!("It has: {}", names.join(", "));
            }
            let first = names.first().cloned().unwrap_or_default();
            let default = self.file.get("AGENT_MODEL").unwrap_or(first);
            let model = self.asker.line("Name of the model", &default)?;
            let tried = match self.trying {
                Some(trying) => trying.model(&address, &key, &model).await,
                None => Ok("not tried".into()),
            };
            let base_url = if address == OPENAI { "" } else { &address };
            self.file.set("OPENAI_BASE_URL", base_url);
            self.file.set("OPENAI_API_KEY", &key);
            self.file.set("AGENT_MODEL", &model);
            if told(tried) {
                return Ok(());
            }
        }
        Err(given_up("the model"))
    }

    fn work(&mut self) -> Result<(), CliError> {
        for _ in 0..TRIES_MAX {
            let default = self.file.get("PROJECTS_ROOT").unwrap_or_default();
            let root = self
                .asker
                .line("Folder that holds your projects", &default)?;
            let Some(root) = PathBuf::from(&root)
                .canonicalize()
                .ok()
                .filter(|root| root.is_dir())
            else {
                eprintln!("✗ {root:?} is no folder");
                continue;
            };
            self.file.set("PROJECTS_ROOT", &root.to_string_lossy());
            let write = self
                .file
                .get("AGENT_WRITE_ENABLED")
                .is_some_and(|value| value == "true");
            eprintln!(
                "It can only read, or also write files and run commands, each judged and asked about (docs/safety.md)."
            );
            let write = self.asker.yes("May it write?", write)?;
            self.file
                .set("AGENT_WRITE_ENABLED", if write { "true" } else { "false" });
            return Ok(());
        }
        Err(given_up("the folder"))
    }

    /// A session works without it, so that nothing answered so far is lost over it.
    async fn github(&mut self) -> Result<(), CliError> {
        let api = self
            .file
            .get("GITHUB_API_URL")
            .unwrap_or_else(|| GITHUB.into());
        for _ in 0..TRIES_MAX {
            let token = self.secret(
                "GITHUB_TOKEN",
                "GitHub token for pushes and pull requests (none: -)",
            )?;
            let tried = match self.trying {
                _ if token.is_empty() => Ok("no GitHub: it commits, and you push".into()),
                Some(trying) => trying.github(&api, &token).await,
                None => Ok("not tried".into()),
            };
            if told(tried) {
                self.file.set("GITHUB_TOKEN", &token);
                return Ok(());
            }
        }
        eprintln!("GitHub stays as it was; `journeyman init` asks again.");
        Ok(())
    }

    /// Whether there is WhatsApp now.
    async fn whatsapp(&mut self) -> Result<bool, CliError> {
        let there = self.file.get("WHATSAPP_ACCESS_TOKEN").is_some();
        if !self.asker.yes(
            "Set up WhatsApp (docs/whatsapp.md says where to find what)?",
            there,
        )? {
            return Ok(there);
        }
        self.number().await?;
        let secret = self.secret("WHATSAPP_APP_SECRET", "App secret")?;
        self.file.set("WHATSAPP_APP_SECRET", &secret);
        let token = self.file.get("WHATSAPP_VERIFY_TOKEN");
        let token = token.unwrap_or_else(|| hex::encode(clock::random::<16>()));
        self.file.set("WHATSAPP_VERIFY_TOKEN", &token);
        let default = self.file.get("ALLOWED_PHONE_NUMBERS").unwrap_or_default();
        let numbers = self.asker.line(
            "Numbers that are served, digits with country code (none: `journeyman pair`)",
            &default,
        )?;
        self.file.set(
            "ALLOWED_PHONE_NUMBERS",
            &numbers.replace(['+', ' ', '-'], ""),
        );
        self.webhook(&token).await?;
        Ok(true)
    }

    async fn number(&mut self) -> Result<(), CliError> {
        let api = self
            .file
            .get("WHATSAPP_API_URL")
            .unwrap_or_else(|| GRAPH.into());
        for _ in 0..TRIES_MAX {
            let token = self.secret("WHATSAPP_ACCESS_TOKEN", "Access token")?;
            let default = self
                .file
                .get("WHATSAPP_PHONE_NUMBER_ID")
                .unwrap_or_default();
            let id = self.asker.line("Phone number ID", &default)?;
            let tried = match self.trying {
                Some(trying) => trying.whatsapp(&api, &token, &id).await,
                None => Ok("not tried".into()),
            };
            self.file.set("WHATSAPP_ACCESS_TOKEN", &token);
            self.file.set("WHATSAPP_PHONE_NUMBER_ID", &id);
            if told(tried) {
                return Ok(());
            }
        }
        Err(given_up("WhatsApp"))
    }

    /// Answers the challenge here as `serve` will, and asks for it at the public address as Meta will.
    async fn webhook(&mut self, token: &str) -> Result<(), CliError> {
        let bind = self.file.get("BIND_ADDR").unwrap_or_else(|| BIND.into());
        let Some(trying) = self.trying else {
            return Ok(());
        };
        for _ in 0..TRIES_MAX {
            let public = self.asker.line(
                "Public https address that leads here, to try it (empty: later)",
                "",
            )?;
            if public.is_empty() || told(trying.webhook(&bind, &public, token).await) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// A secret that is there already is kept by an empty answer, and taken away by `-`.
    fn secret(&mut self, name: &str, question: &str) -> Result<String, CliError> {
        let old = self.file.get(name);
        let answer = self.asker.secret(question, old.is_some())?;
        Ok(match answer.as_str() {
            "" => old.unwrap_or_default(),
            "-" => String::new(),
            _ => answer,
        })
    }
}

/// Shows how a try came out.
fn told(tried: Result<String, String>) -> bool {
    match &tried {
        Ok(good) => eprintln!("✓ {good}"),
        Err(bad) => eprintln!("✗ {bad}. Once more:"),
    }
    tried.is_ok()
}

fn given_up(what: &str) -> CliError {
    CliError::Failed(format!(
        "{what} did not work {TRIES_MAX} times; nothing is written. `journeyman init --untried` takes answers as they are"
    ))
}

fn next_steps(config: Option<&Path>, whatsapp: bool) -> Result<Exit, CliError> {
    Settings::load(config)?;
    eprintln!(
        "Next:\n  journeyman doctor    looks whether everything is there\n  journeyman chat      talks to it in this folder"
    );
    if whatsapp {
        eprintln!(
            "  journeyman serve     serves WhatsApp; at Meta, the callback is https://YOUR-ADDRESS/webhook, its verify token\n                       WHATSAPP_VERIFY_TOKEN in that file, and the field `messages` must be subscribed\n  journeyman pair      lets one more number in"
        );
    }
    Ok(Exit::Done)
}
