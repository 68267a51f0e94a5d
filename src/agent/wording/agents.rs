//! Texts about agents.

use crate::agent::roles::{AgentAnswer, Known, Role};
use crate::agent::state::State;
use crate::agent::texts::Texts;
use crate::agent::wording::one_line;
use crate::tools;

const DESCRIPTION_CHARS_MAX: usize = 120;
/// Agents that are listed.
const LISTED_MAX: usize = 40;

/// What came of a wish about agents.
pub fn agent_answer(state: &State, answer: &AgentAnswer) -> String {
    let texts = &state.texts;
    match answer {
        AgentAnswer::Listed { agents } if agents.is_empty() => texts.say("agents_none", &[]),
        AgentAnswer::Listed { agents } => listed(state, agents),
        AgentAnswer::Chosen { role } => chosen(texts, role),
        AgentAnswer::Off => texts.say("agent_off", &[]),
        AgentAnswer::NotThere { name, names } => {
            let names = names.join(", ");
            texts.say("agent_unknown", &[("name", name), ("names", &names)])
        }
        AgentAnswer::Refused { why } => texts.say("agent_refused", &[("why", why)]),
    }
}

fn listed(state: &State, agents: &[Known]) -> String {
    let texts = &state.texts;
    let role = state.next_role.as_ref().unwrap_or(&state.role);
    let line = |agent: &Known| {
        let about = match agent.trusted {
            true => one_line(&agent.description, DESCRIPTION_CHARS_MAX),
            false => texts.say("agent_untrusted", &[]),
        };
        let is_current = role.as_ref().is_some_and(|role| role.name == agent.name);
        let mark = if is_current { "▸" } else { "•" };
        format!("{mark} {}: {about}", agent.name)
    };
    let mut lines: Vec<String> = agents.iter().take(LISTED_MAX).map(line).collect();
    if let Some(more @ 1..) = agents.len().checked_sub(LISTED_MAX) {
        lines.push(format!("+{more}"));
    }
    texts.say("agents_list", &[("list", &lines.join("\n"))])
}

fn chosen(texts: &Texts, role: &Role) -> String {
    let kept = tools::all().iter().map(|tool| tool.name);
    let kept: Vec<&str> = kept.filter(|name| !role.forbids(name)).collect();
    let tools = match kept.len() == tools::all().len() {
        true => texts.say("agent_all_tools", &[]),
        false => kept.join(", "),
    };
    texts.say("agent_chosen", &[("name", &role.name), ("tools", &tools)])
}
