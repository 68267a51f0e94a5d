//! `git_stash`: changes of tracked files put aside, and taken back. What the person put aside is left alone.

use super::repository::Git;
use super::{Action, Reach, RunFuture, Tool, schema_of};
use crate::agent::event::{Call, EffectClass, Outcome};
use crate::gate::{Approved, Touch};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Before the session and the call in a stash's message.
const MARK: &str = "journeyman ";

pub const TOOL: Tool = Tool {
    name: "git_stash",
    about: include_str!("../../prompts/tools/git_stash.md"),
    // A second pop would take back what an earlier push put aside.
    class: EffectClass::Opaque,
    schema: schema_of::<Args>,
    touches: |_| Ok(vec![Touch::RepositoryWrite]),
    action: Action::World { run, expect: None },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    action: Way,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Way {
    Push,
    Pop,
}

fn run(call: Approved<Call>, reach: Arc<Reach>) -> RunFuture {
    Box::pin(async move {
        let id = call.get().id.clone();
        let git = Git {
            reach: &reach,
            call: &id,
        };
        let done = match call.typed::<Args>().map(|approved| approved.get().action) {
            Ok(Way::Push) => push(&git).await,
            Ok(Way::Pop) => pop(&git).await,
            Err(error) => Err(error),
        };
        let mut outcome = done.map_or_else(Outcome::failed, Outcome::done);
        outcome.consequential = true;
        outcome
    })
}

async fn push(git: &Git<'_>) -> Result<String, String> {
    git.require_repository().await?;
    if !git.has_commits().await {
        return Err("the repository has no commit yet, so there is nothing to go back to".into());
    }
    let status = git.status().await?;
    let (new, changed): (Vec<_>, Vec<_>) = status.iter().partition(|entry| entry.is_untracked());
    if changed.is_empty() {
        return Err("no tracked file changed, so there is nothing to put aside".into());
    }
    let message = format!("{MARK}{}/{}", git.reach.session, git.call);
    git.ask(&["stash", "push", "--quiet", "--message", &message])
        .await?;
    let names: Vec<&str> = changed.iter().map(|entry| entry.path.as_str()).collect();
    let left = match new.len() {
        0 => String::new(),
        new => format!("\nNew files stay where they are: {new}."),
    };
    Ok(format!(
        "Put aside: {}. git_stash pop takes it back.{left}",
        names.join(", ")
    ))
}

async fn pop(git: &Git<'_>) -> Result<String, String> {
    git.require_repository().await?;
    let listed = git.ask(&["stash", "list", "--format=%gd %gs"]).await?;
    let own = format!(": {MARK}{}/", git.reach.session);
    let newest = listed.lines().find(|line| line.contains(&own));
    let Some((name, _)) = newest.and_then(|line| line.split_once(' ')) else {
        return Err("this session has put nothing aside; of what others did, run_command `git stash list` shows, and `git stash apply` takes back".into());
    };
    let popped = git.ask(&["stash", "pop", "--index", "--quiet", name]).await;
    popped.map_err(|why| format!("{why}\nIt is still put aside, as {name}."))?;
    let status = git.ask(&["status", "--short"]).await?;
    Ok(format!("Taken back.\n{}", status.trim_end()))
}
