//! The agents that can be chosen where a workspace is worked in, and one of them, read.

use super::Trust;
use crate::agent::roles::{AgentAnswer, AgentWish, Known, Role};
use crate::agent::step::Alias;
use crate::definitions::front_matter::split;
use crate::definitions::{Definition, Kind, Registry, agents};
use crate::world::workspace::Workspace;
use std::collections::BTreeMap;

/// Of its words; what is longer is cut where one sees it.
const TEXT_CHARS_MAX: usize = 40_000;
/// Skills that come with an agent.
const SKILLS_MAX: usize = 10;

impl Trust {
    /// Looks agents up, as the owner wants it.
    pub fn agents(
        &self,
        wish: &AgentWish,
        workspace: Option<&Workspace>,
        aliases: &BTreeMap<String, Alias>,
    ) -> AgentAnswer {
        let Some(workspace) = workspace else {
            let why = "the workspace cannot be opened".into();
            return AgentAnswer::Refused { why };
        };
        let registry = self.definitions(workspace);
        match wish {
            AgentWish::Off => AgentAnswer::Off,
            AgentWish::Show => AgentAnswer::Listed {
                agents: registry.of(Kind::Agent).map(|one| known(one)).collect(),
            },
            AgentWish::Use { name } => match find(&registry, name) {
                None => AgentAnswer::NotThere {
                    name: name.clone(),
                    names: registry.of(Kind::Agent).map(|one| one.id.clone()).collect(),
                },
                Some(agent) => match self.role(workspace, &registry, agent, aliases) {
                    Ok(role) => AgentAnswer::Chosen {
                        role: Box::new(role),
                    },
                    Err(why) => AgentAnswer::Refused { why },
                },
            },
        }
    }

    /// The agent that a command's text names.
    ///
    /// # Errors
    /// It is not there, or nobody knows what it may use.
    pub fn agent(
        &self,
        name: &str,
        workspace: &Workspace,
        aliases: &BTreeMap<String, Alias>,
    ) -> Result<Role, String> {
        let registry = self.definitions(workspace);
        let agent = find(&registry, name).ok_or_else(|| {
            format!("its front matter is for the agent {name}, and there is none of that name")
        })?;
        self.role(workspace, &registry, agent, aliases)
    }

    fn role(
        &self,
        workspace: &Workspace,
        registry: &Registry,
        agent: &Definition,
        aliases: &BTreeMap<String, Alias>,
    ) -> Result<Role, String> {
        let whole = self.text(workspace, agent)?;
        // What is read now, not what was remembered.
        let (front, body) = split(&whole);
        let agent = Definition {
            front,
            ..agent.clone()
        };
        if let Some(warning) = &agent.front.warning {
            return Err(format!(
                "{}: {warning}; nobody knows what it may use",
                agent.path
            ));
        }
        let powers = agents::powers(&agent).map_err(|why| format!("{}: {why}", agent.path))?;
        let mut text = cut(body.trim());
        let mut skills = Vec::new();
        for id in powers.skills.iter().take(SKILLS_MAX) {
            let Some(skill) = registry.find(Kind::Skill, id).filter(|skill| skill.trusted) else {
                text.push_str(&format!("\n\n[The skill {id} is not here.]"));
                continue;
            };
            let body = self.text(workspace, skill)?;
            text.push_str(&format!(
                "\n\n## Skill: {id}\n\n{}",
                cut(split(&body).1.trim())
            ));
            skills.push(id.clone());
        }
        Ok(Role {
            name: agent.id.clone(),
            origin: agent.origin,
            text,
            tools: powers.tools,
            without: powers.without,
            model: powers
                .model
                .filter(|model| aliases.contains_key(&model.to_ascii_lowercase())),
            skills,
        })
    }
}

/// By its name, or what it calls itself.
fn find<'a>(registry: &'a Registry, name: &str) -> Option<&'a Definition> {
    let by_id = registry.find(Kind::Agent, name);
    let calls_itself = |one: &&std::sync::Arc<Definition>| {
        one.front
            .text(&["name"])
            .is_some_and(|own| own.eq_ignore_ascii_case(name))
    };
    let found = by_id.or_else(|| registry.of(Kind::Agent).find(calls_itself));
    found.map(|one| &**one)
}

fn known(agent: &Definition) -> Known {
    Known {
        name: agent.id.clone(),
        description: agent.description().unwrap_or_default(),
        trusted: agent.trusted,
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!(
            "{}\n[cut here: {TEXT_CHARS_MAX} of {} characters]",
            &text[..end],
            text.chars().count()
        ),
    }
}
