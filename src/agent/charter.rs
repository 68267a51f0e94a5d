//! What a command lays down for the turn that it begins: fewer tools, a model, an agent. Pure.
//!
//! It stands in the journal with the command's text, whole, so that no fold reads a file. Like an agent's definition it only takes
//! tools away. It holds until the next objective, so also where the turn is resumed; a command that steers has none.

use crate::agent::event::Loaded;
use crate::agent::roles::Role;
use crate::agent::state::State;
use crate::definitions::Origin;
use crate::gate::{Restrains, Touch};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Tools to which patterns speak.
const RUNNING: [&str; 2] = ["run_command", "manage_process"];

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charter {
    /// As it is called, without its slash.
    pub command: String,
    /// The tools that it keeps; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<BTreeSet<String>>,
    /// Commands fit one pattern of each of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<Vec<String>>,
    /// A name that `config/models.toml` gives to a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The turn acts as this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

impl Charter {
    pub fn is_empty(&self) -> bool {
        let rest = self.model.is_none() && self.role.is_none();
        self.tools.is_none() && self.runs.is_empty() && rest
    }

    pub fn forbids(&self, tool: &str) -> bool {
        self.tools
            .as_ref()
            .is_some_and(|tools| !super::roles::names(tools, tool))
    }

    /// What a session that the turn begins may use at most. A pattern cannot go along: where there is one, nothing is run there.
    pub fn limit(&self, role: Option<&Role>) -> Role {
        let runs = match self.runs.is_empty() {
            true => &[][..],
            false => &RUNNING[..],
        };
        let most = Role {
            name: self.command.clone(),
            origin: Origin::BuiltIn,
            text: String::new(),
            tools: self.tools.clone(),
            without: runs.iter().map(|tool| (*tool).to_owned()).collect(),
            model: self.model.clone(),
            skills: Vec::new(),
        };
        match role.cloned() {
            Some(role) => Role {
                model: self.model.clone().or_else(|| role.model.clone()),
                ..role.within(&most)
            },
            None => most,
        }
    }

    /// Of two commands that begin a turn together: what both leave, and the first one's word on model and agent.
    fn with(self, other: Self) -> Self {
        let kept = |(a, b): (BTreeSet<String>, BTreeSet<String>)| {
            let both = a.union(&b).cloned();
            both.filter(|tool| super::roles::names(&a, tool) && super::roles::names(&b, tool))
                .collect()
        };
        Self {
            command: format!("{} and /{}", self.command, other.command),
            tools: match (self.tools, other.tools) {
                (Some(a), Some(b)) => Some(kept((a, b))),
                (a, b) => a.or(b),
            },
            runs: self.runs.into_iter().chain(other.runs).collect(),
            model: self.model.or(other.model),
            role: self.role.or(other.role),
        }
    }
}

/// What the commands that these messages call lay down together.
pub fn of<'a>(state: &State, messages: impl Iterator<Item = &'a str>) -> Option<Charter> {
    let charters = messages.filter_map(|id| match state.loaded.get(id) {
        Some(Loaded::Text { charter, .. }) => charter.as_deref().cloned(),
        _ => None,
    });
    charters.reduce(Charter::with)
}

/// What the turn hands on to a session that it begins.
pub fn handed_on(state: &State) -> Option<Arc<Role>> {
    match &state.charter {
        Some(charter) => Some(Arc::new(charter.limit(state.role.as_deref()))),
        None => state.role.clone(),
    }
}

/// The tool as the agent and the command take it away.
pub fn forbidden(state: &State, tool: &str) -> Option<Touch> {
    let role = state.role.as_ref().filter(|role| role.forbids(tool));
    let charter = || state.charter.as_ref().filter(|one| one.forbids(tool));
    let by_role = role.map(|role| Restrains::Agent(role.name.clone()));
    let by = by_role.or_else(|| Some(Restrains::Command(charter()?.command.clone())))?;
    let tool = tool.to_owned();
    Some(Touch::Forbidden { by, tool })
}

/// What a call touches, with what the command says of commands.
pub fn narrowed(state: &State, mut touches: Vec<Touch>) -> Vec<Touch> {
    let charter = state.charter.as_ref().filter(|one| !one.runs.is_empty());
    let runs = touches.iter().any(|one| matches!(one, Touch::Command(_)));
    if let Some(charter) = charter.filter(|_| runs) {
        touches.push(Touch::Only {
            command: charter.command.clone(),
            runs: charter.runs.clone(),
        });
    }
    touches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charter(command: &str, tools: Option<&[&str]>, runs: &[&str]) -> Charter {
        let text = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        Charter {
            command: command.into(),
            tools: tools.map(|tools| text(tools).into_iter().collect()),
            runs: match runs {
                [] => Vec::new(),
                runs => vec![text(runs)],
            },
            ..Charter::default()
        }
    }

    #[test]
    fn of_two_commands_only_what_both_leave_stays() {
        let a = charter(
            "a",
            Some(&["search", "run_command", "mcp__x__*"]),
            &["git:*"],
        );
        let b = charter("b", Some(&["run_command", "mcp__x__y"]), &["git add:*"]);
        let both = a.with(b);
        assert_eq!(both.command, "a and /b");
        assert!(!both.forbids("run_command") && !both.forbids("mcp__x__y"));
        assert!(both.forbids("search") && both.forbids("mcp__x__z"));
        assert_eq!(both.runs, [["git:*"], ["git add:*"]]);
        let one = charter("a", None, &[]).with(charter("b", Some(&["search"]), &[]));
        assert!(one.forbids("run_command") && !one.forbids("search"));
        assert!(charter("a", None, &[]).is_empty() && !one.is_empty());
    }

    #[test]
    fn what_is_handed_on_is_no_more_than_what_the_turn_has() {
        let kept = charter("a", Some(&["search", "run_command"]), &["git:*"]);
        let most = kept.limit(None);
        assert!(
            !most.forbids("search") && most.forbids("write_file") && most.forbids("run_command")
        );
        let role = Role {
            without: ["search".to_owned()].into(),
            ..charter("b", None, &[]).limit(None)
        };
        assert!(kept.limit(Some(&role)).forbids("search"));
    }
}
