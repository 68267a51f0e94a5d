//! `journeyman mcp`: which MCP servers there are, and Journeyman as one of them.

/// For other agents.
pub mod serving;

use super::assemble::{make_private, servers, trust};
use super::{CliError, Exit, block_on};
use crate::config::Settings;
use crate::world::mcp::{Servers, Survey};
use crate::world::store::Store;
use crate::world::{open_workspace, process};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, Subcommand)]
pub enum Mcp {
    /// Start the servers of a workspace, and show what they offer and what is wrong with them
    List(List),
    /// Speak MCP on stdin and stdout: other agents ask, and look at sessions, plans and outlines
    Serve(serving::Serve),
}

#[derive(Debug, Args)]
pub struct List {
    /// Folder that they work in [default: this one]
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
    #[arg(long)]
    json: bool,
}

impl Mcp {
    pub fn run(self, settings: Settings) -> Result<Exit, CliError> {
        match self {
            Mcp::List(list) => list.run(&settings),
            Mcp::Serve(serve) => serve.run(settings),
        }
    }
}

impl List {
    fn run(self, settings: &Settings) -> Result<Exit, CliError> {
        let workspace = open_workspace(&self.workspace).map_err(CliError::Use)?;
        let (found, problems) =
            block_on(async { Ok::<_, CliError>(known(settings)?.survey(&workspace).await) })??;
        if self.json {
            let all = serde_json::json!({"servers": found, "problems": problems});
            println!("{all:#}");
        } else {
            print(&found, &problems);
        }
        let is_well = problems.is_empty() && found.iter().all(|one| one.problem.is_none());
        Ok(match is_well {
            true => Exit::Done,
            false => Exit::Failed,
        })
    }
}

/// The servers of the settings; none is started by this.
pub fn known(settings: &Settings) -> Result<Servers, CliError> {
    make_private(&settings.data_dir)?;
    let policy = settings.policy()?;
    let environment = Arc::new(process::safe_environment(&settings.file.environment));
    let sandbox = settings.sandbox(&environment);
    let store = Arc::new(Store::new(&settings.data_dir));
    let trust = trust(settings, store, policy.masks.clone());
    Ok(servers(settings, &policy, trust, environment, sandbox))
}

fn print(found: &[Survey], problems: &[String]) {
    if found.is_empty() && problems.is_empty() {
        println!("No MCP servers. config/mcp.json names them; see docs/mcp.md.");
    }
    for one in found {
        let state = one.about.as_deref().unwrap_or("not connected");
        println!("{} ({}): {state}\n  {}", one.name, one.from, one.what);
        let all = [
            ("tools", &one.tools),
            ("prompts", &one.prompts),
            ("resources", &one.resources),
        ];
        for (what, names) in all.into_iter().filter(|(_, names)| !names.is_empty()) {
            println!("  {what}: {}", names.join(", "));
        }
        if let Some(problem) = &one.problem {
            println!("  problem: {problem}");
        }
    }
    for problem in problems {
        println!("problem: {problem}");
    }
}
