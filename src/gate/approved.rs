//! The proof that something was allowed: [`Approved`], minted by [`admit`] and nowhere else.
//!
//! It can't be forged, spent twice or read back from disk: private fields, no `Clone`, no `Deserialize`. A recorded approval is a
//! [`Ticket`], which counts only if what would run is the same to the byte. Whether the ticket is still unspent and unexpired is
//! the session's business.

use crate::agent::event::{Call, WorkspaceRef};
use crate::gate::judge::judge;
use crate::gate::policy::GatePolicy;
use crate::gate::{
    Answerer, ClonePlan, Decision, Destination, Facts, McpTouch, Pattern, Project, PushPlan, Touch,
    Verdict,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Something that the gate let through.
#[derive(Debug)]
pub struct Approved<T> {
    value: T,
    run: Option<Runnable>,
    push: Option<Destination<PushPlan>>,
    github: Option<Destination<Project>>,
    workspace: Option<Destination<WorkspaceRef>>,
    clone: Option<Destination<ClonePlan>>,
    mcp: Option<Box<McpTouch>>,
    answerer: Option<Destination<Answerer>>,
    by: Authority,
}

/// On whose word something was let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    /// Nothing spoke against it.
    Rules,
    /// The person's, for this call or for its pattern.
    Person,
}

/// What exactly may be started under an approved call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Runnable {
    /// A program and its arguments; no shell.
    Argv(Vec<String>),
    /// A text for `bash -c`, approved as it stands.
    Shell(String),
}

/// What a person approved, by its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    pub digest: String,
}

/// Where and for whom a call would run: part of what is approved.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances<'a> {
    pub cwd: &'a str,
    pub owner: &'a str,
}

impl<T> Approved<T> {
    pub fn get(&self) -> &T {
        &self.value
    }

    pub fn into_inner(self) -> T {
        self.value
    }

    /// What may be started; `None` for calls that run no command.
    pub fn runnable(&self) -> Option<&Runnable> {
        self.run.as_ref()
    }

    /// What may be pushed, and where.
    ///
    /// # Errors
    /// Why nothing can be, for the model to read.
    pub fn push(&self) -> Result<&PushPlan, String> {
        known(self.push.as_ref())
    }

    /// The project on GitHub that may be reached.
    ///
    /// # Errors
    /// As [`Approved::push`].
    pub fn project(&self) -> Result<&Project, String> {
        known(self.github.as_ref())
    }

    /// The workspace that may be gone to.
    ///
    /// # Errors
    /// As [`Approved::push`].
    pub fn workspace(&self) -> Result<&WorkspaceRef, String> {
        known(self.workspace.as_ref())
    }

    /// What may be cloned.
    ///
    /// # Errors
    /// As [`Approved::push`].
    pub fn clone_plan(&self) -> Result<&ClonePlan, String> {
        known(self.clone.as_ref())
    }

    /// Who may be asked about sources.
    ///
    /// # Errors
    /// As [`Approved::push`].
    pub fn answerer(&self) -> Result<&Answerer, String> {
        known(self.answerer.as_ref())
    }

    /// Which tool of an MCP server may be called; `None` for calls of ours.
    pub fn mcp(&self) -> Option<&McpTouch> {
        self.mcp.as_deref()
    }

    pub fn by(&self) -> Authority {
        self.by
    }
}

impl Approved<Call> {
    /// The same approval over the call's typed arguments. The error is the model's to read.
    pub fn typed<A: DeserializeOwned>(self) -> Result<Approved<A>, String> {
        let arguments = self
            .value
            .json()
            .map_err(|err| format!("the arguments are not JSON: {err}"))?;
        let value = serde_json::from_value(arguments)
            .map_err(|err| format!("the arguments do not fit {}: {err}", self.value.tool))?;
        Ok(Approved {
            value,
            run: self.run,
            push: self.push,
            github: self.github,
            workspace: self.workspace,
            clone: self.clone,
            mcp: self.mcp,
            answerer: self.answerer,
            by: self.by,
        })
    }
}

/// Judges the call again and lets it through if nothing speaks against it, or the person has already answered what does.
///
/// The error is the verdict that stands in the way. A denial stands whatever the person said.
pub fn admit(
    policy: &GatePolicy,
    grants: &[Pattern],
    call: &Call,
    touches: &[Touch],
    facts: &Facts,
    circumstances: Circumstances<'_>,
    ticket: Option<&Ticket>,
) -> Result<Approved<Call>, Verdict> {
    let verdict = judge(policy, touches, facts);
    let is_answered = match verdict.decision {
        Decision::Allow => true,
        Decision::Ask => {
            let is_granted = verdict
                .pattern
                .as_ref()
                .is_some_and(|pattern| grants.contains(pattern));
            is_granted
                || ticket.is_some_and(|ticket| {
                    ticket.digest == digest(call, circumstances.cwd, circumstances.owner, &verdict)
                })
        }
        Decision::Deny => false,
    };
    if !is_answered {
        return Err(verdict);
    }
    Ok(Approved {
        run: runnable(touches, &verdict),
        push: pushes(touches).then(|| facts.push.clone()).flatten(),
        github: reaches_github(touches)
            .then(|| facts.github.clone())
            .flatten(),
        workspace: goes_elsewhere(touches)
            .then(|| facts.workspace.clone())
            .flatten(),
        clone: clones(touches).then(|| facts.clone.clone()).flatten(),
        mcp: touches.iter().find_map(called).cloned().map(Box::new),
        answerer: asks_others(touches)
            .then(|| facts.answerer.clone())
            .flatten(),
        by: match verdict.decision {
            Decision::Ask => Authority::Person,
            Decision::Allow | Decision::Deny => Authority::Rules,
        },
        value: call.clone(),
    })
}

/// What would run, for whom and where, as SHA-256 in hex: what an approval is bound to.
pub fn digest(call: &Call, cwd: &str, owner: &str, verdict: &Verdict) -> String {
    let arguments = call
        .json()
        .map_or_else(|_| Value::String(call.arguments.clone()), canonical);
    let commands: Vec<&Vec<String>> = verdict
        .commands
        .iter()
        .map(|command| &command.argv)
        .collect();
    let bound = json!([call.tool, arguments, commands, verdict.shell, cwd, owner]);
    hex::encode(Sha256::digest(bound.to_string()))
}

fn pushes(touches: &[Touch]) -> bool {
    touches.iter().any(|touch| matches!(touch, Touch::Push(_)))
}

fn reaches_github(touches: &[Touch]) -> bool {
    let reaches = |touch: &Touch| matches!(touch, Touch::GitHubRead | Touch::GitHubWrite);
    touches.iter().any(reaches)
}

fn goes_elsewhere(touches: &[Touch]) -> bool {
    let goes = |touch: &Touch| matches!(touch, Touch::Workspace(_));
    touches.iter().any(goes)
}

fn clones(touches: &[Touch]) -> bool {
    touches.iter().any(|touch| matches!(touch, Touch::Clone(_)))
}

fn asks_others(touches: &[Touch]) -> bool {
    touches
        .iter()
        .any(|touch| matches!(touch, Touch::Sources(_)))
}

fn called(touch: &Touch) -> Option<&McpTouch> {
    let Touch::Mcp(mcp) = touch else { return None };
    Some(mcp)
}

fn known<T>(destination: Option<&Destination<T>>) -> Result<&T, String> {
    match destination {
        Some(Destination::Known(known)) => Ok(known.as_ref()),
        Some(Destination::Nowhere { why }) => Err(why.clone()),
        None => Err("where it goes could not be looked up".to_owned()),
    }
}

fn runnable(touches: &[Touch], verdict: &Verdict) -> Option<Runnable> {
    let text = touches.iter().find_map(|touch| match touch {
        Touch::Command(text) => Some(text),
        Touch::Read(_) | Touch::Write(_) | Touch::RepositoryRead | Touch::RepositoryWrite => None,
        Touch::Push(_) | Touch::GitHubRead | Touch::GitHubWrite => None,
        Touch::Workspace(_) | Touch::Clone(_) | Touch::Schedule(_) | Touch::Mcp(_) => None,
        Touch::Sources(_) | Touch::Forbidden { .. } | Touch::Only { .. } => None,
    })?;
    match (verdict.shell, verdict.commands.first()) {
        (false, Some(command)) => Some(Runnable::Argv(command.argv.clone())),
        _ => Some(Runnable::Shell(text.clone())),
    }
}

/// The same value with the keys of every object in order, however the model wrote it.
fn canonical(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map
                .into_iter()
                .map(|(key, value)| (key, canonical(value)))
                .collect();
            entries.sort_by(|(left, _), (right, _)| left.cmp(right));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(canonical).collect()),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
    }
}
