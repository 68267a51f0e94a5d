//! `journeyman trust`: what a workspace lets in where its owner trusts it, and the owner's word.
//!
//! Written to the database beside a running server, which looks there whenever it matters.

use super::assemble::{make_private, trust};
use super::{CliError, Exit};
use crate::agent::language::Language;
use crate::agent::trust::{TrustAnswer, TrustWish};
use crate::agent::wording::{trust_answer, trust_items};
use crate::config::Settings;
use crate::gate::{Reply, read_reply};
use crate::world::clock;
use crate::world::open_workspace;
use crate::world::store::Store;
use clap::Args;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, Args)]
pub struct Trust {
    /// The workspace
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Take the trust back
    #[arg(long, conflicts_with = "list")]
    revoke: bool,
    /// Only show which workspaces are trusted, as JSON
    #[arg(long)]
    list: bool,
}

impl Trust {
    pub fn run(self, settings: &Settings) -> Result<Exit, CliError> {
        make_private(&settings.data_dir)?;
        let store = Arc::new(Store::new(&settings.data_dir));
        if self.list {
            return list(&store);
        }
        let texts = settings.texts.speaking(Language::English);
        let masks = settings.policy()?.masks;
        let trust = trust(settings, store.clone(), masks);
        if self.revoke && !self.dir.is_dir() {
            return revoke_gone(&store, &self.dir);
        }
        let workspace = open_workspace(&self.dir).map_err(CliError::Use)?;
        let act = |wish| trust.act(&wish, Some(&workspace), "command line", clock::now());
        if self.revoke {
            return told(texts, &act(TrustWish::Revoke));
        }
        let survey = trust.survey(&workspace);
        println!("{}\n{}", survey.path, trust_items(texts, &survey));
        if survey.trusted {
            println!("This workspace is trusted. --revoke takes that back.");
            return Ok(Exit::Done);
        }
        if io::stdin().is_terminal() && !says_yes()? {
            println!("Not trusted.");
            return Ok(Exit::Done);
        }
        let code = survey.code;
        told(texts, &act(TrustWish::Grant { code }))
    }
}

fn says_yes() -> Result<bool, CliError> {
    let failed = |error| CliError::Failed(format!("ask on the terminal: {error}"));
    eprint!("Trust it? [y/N] ");
    io::stderr().flush().map_err(failed)?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(failed)?;
    Ok(read_reply(&line) == Some(Reply::Yes))
}

fn told(texts: &crate::agent::texts::Texts, answer: &TrustAnswer) -> Result<Exit, CliError> {
    let text = trust_answer(texts, answer);
    match answer {
        TrustAnswer::Refused { .. } | TrustAnswer::Differs { .. } => Err(CliError::Failed(text)),
        TrustAnswer::Trusted { .. } => {
            println!("Trusted.");
            Ok(Exit::Done)
        }
        TrustAnswer::Shown { .. }
        | TrustAnswer::Revoked { .. }
        | TrustAnswer::NotTrusted { .. } => {
            println!("{text}");
            Ok(Exit::Done)
        }
    }
}

/// A folder that is not there any more is named by the path that `--list` shows.
fn revoke_gone(store: &Store, dir: &std::path::Path) -> Result<Exit, CliError> {
    let gone = store
        .distrust(&dir.to_string_lossy())
        .map_err(|error| CliError::Failed(error.to_string()))?;
    println!(
        "{}: {}",
        dir.display(),
        if gone {
            "not trusted any more"
        } else {
            "was not trusted"
        }
    );
    Ok(Exit::Done)
}

fn list(store: &Store) -> Result<Exit, CliError> {
    let trusted = store.all_trusted();
    let trusted = trusted.map_err(|error| CliError::Failed(error.to_string()))?;
    let json = serde_json::to_string_pretty(&trusted);
    println!(
        "{}",
        json.map_err(|error| CliError::Failed(error.to_string()))?
    );
    Ok(Exit::Done)
}
