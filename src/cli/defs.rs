//! `journeyman defs`: what is defined in a workspace, which of it counts, and what is wrong with it.

use super::assemble::trust;
use super::{CliError, Exit};
use crate::config::Settings;
use crate::definitions::{Definition, Origin, Registry};
use crate::world::open_workspace;
use crate::world::store::Store;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, Subcommand)]
pub enum Defs {
    /// List them, by kind and name
    List(Where),
    /// Say what is wrong with them; exit code 1 where something is
    Check(Where),
}

#[derive(Debug, Args)]
pub struct Where {
    #[arg(long)]
    json: bool,
    /// The workspace
    #[arg(default_value = ".")]
    dir: PathBuf,
}

impl Defs {
    pub fn run(self, settings: &Settings) -> Result<Exit, CliError> {
        match self {
            Defs::List(place) => {
                let registry = registry(settings, &place)?;
                match place.json {
                    true => print(
                        &json!({"definitions": listed(&registry), "problems": registry.problems()}),
                    )?,
                    false => registry
                        .all()
                        .iter()
                        .for_each(|one| println!("{}", line(&registry, one))),
                }
                Ok(Exit::Done)
            }
            Defs::Check(place) => check(&registry(settings, &place)?, place.json),
        }
    }
}

fn check(registry: &Registry, json: bool) -> Result<Exit, CliError> {
    let problems = registry.problems();
    match json {
        true => print(&json!({"definitions": registry.all().len(), "problems": problems}))?,
        false => {
            problems
                .iter()
                .for_each(|one| println!("{}: {}", one.path, one.what));
            println!(
                "{} definitions, {} problems",
                registry.all().len(),
                problems.len()
            );
        }
    }
    Ok(if problems.is_empty() {
        Exit::Done
    } else {
        Exit::Failed
    })
}

fn registry(settings: &Settings, place: &Where) -> Result<Registry, CliError> {
    let workspace = open_workspace(&place.dir).map_err(CliError::Use)?;
    let store = Arc::new(Store::new(&settings.data_dir));
    let masks = settings.policy()?.masks;
    Ok(trust(settings, store, masks).definitions(&workspace))
}

fn listed(registry: &Registry) -> Vec<Value> {
    let one = |one: &Arc<Definition>| {
        json!({
            "kind": one.kind,
            "id": one.id,
            "origin": one.origin,
            "path": one.path,
            "bytes": one.bytes,
            "description": one.description(),
            "trusted": one.trusted,
            "hidden_by": registry.hider(one).map(|hider| &hider.path),
        })
    };
    registry.all().iter().map(one).collect()
}

fn line(registry: &Registry, one: &Definition) -> String {
    let kind = format!("{:?}", one.kind).to_lowercase();
    let origin = match one.origin {
        Origin::Workspace => one.path.clone(),
        Origin::User => format!("{} (yours)", one.path),
        Origin::BuiltIn => "built in".to_owned(),
    };
    let said = match (one.trusted, registry.hider(one)) {
        (false, _) => "not loaded: this workspace is not trusted".to_owned(),
        (true, Some(hider)) => format!("hidden by {}", hider.path),
        (true, None) => one.description().unwrap_or_default(),
    };
    format!("{kind:<13}{:<28}{origin}  {said}", one.id)
        .trim_end()
        .to_owned()
}

fn print(value: &Value) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(value);
    println!(
        "{}",
        text.map_err(|error| CliError::Failed(error.to_string()))?
    );
    Ok(())
}
