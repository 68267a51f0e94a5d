//! What a chat asks of the commands in files, and of MCP servers: their names, and the text of one.

use super::Loader;
use crate::agent::brief::OURSELVES;
use crate::agent::charter::Charter;
use crate::agent::event::{CallId, CommandWish, Event, ListedCommand, Loaded};
use crate::definitions::allowed::{Allowed, allowed};
use crate::definitions::arguments::Arguments;
use crate::definitions::loading::{self, AGENT, Caller, LoadError, cut};
use crate::definitions::{Definition, Kind};
use crate::world::mcp::Asker;
use crate::world::workspace::Workspace;
use crate::world::{Scene, World};
use serde_json::Value;

/// Lines of the list; the rest is counted. Fixed, as these two are: it is one message of a chat.
const LISTED_MAX: usize = 30;
const ABOUT_CHARS_MAX: usize = 100;
const NEAREST_MAX: usize = 3;
/// Letters in which a name may differ from what was meant.
const EDITS_MAX: usize = 3;

impl World {
    pub(in crate::world) async fn load_command(
        &self,
        message: String,
        wish: &CommandWish,
        scene: &Scene,
    ) -> Event {
        let place = scene.workspace.as_ref().or(scene.checkout.as_ref());
        let loaded = match (place, wish) {
            (Some(place), CommandWish::Load { name, arguments }) => {
                let arguments = Arguments::read(arguments);
                match self.of_server(place, name, &arguments, scene).await {
                    Some(loaded) => loaded,
                    None => self.command(place, &message, name, &arguments, scene).await,
                }
            }
            (Some(place), CommandWish::List) => self.commands(place, scene).await,
            (None, _) => Loaded::Failed {
                why: "the workspace cannot be opened".into(),
            },
        };
        Event::CommandLoaded { message, loaded }
    }

    /// What an MCP server has to say, where the name is one of theirs.
    async fn of_server(
        &self,
        place: &Workspace,
        name: &str,
        arguments: &Arguments,
        scene: &Scene,
    ) -> Option<Loaded> {
        if !self.has_mcp(scene) {
            return None;
        }
        let asker = Asker {
            workspace: place,
            processes: &self.processes(place, scene.cancel.clone()),
            only_reading: scene.workspace.is_none(),
        };
        self.mcp.said(name, arguments, &asker).await
    }

    /// Servers are for sessions that began with them, and only while writing is on.
    fn has_mcp(&self, scene: &Scene) -> bool {
        scene.opening.mcp && self.policy.gate.write_enabled()
    }

    async fn command(
        &self,
        place: &Workspace,
        message: &str,
        name: &str,
        arguments: &Arguments,
        scene: &Scene,
    ) -> Loaded {
        let loader = Loader {
            trust: &self.trust,
            workspace: place,
            processes: &self.processes(place, scene.cancel.clone()),
            own: &self.surroundings.own,
            call: &CallId(format!("command-{message}")),
            caller: Caller::Person,
            agent: scene.agent.as_deref(),
        };
        match loader.load(name, arguments).await {
            Ok(loaded) => self.text(place, loaded),
            Err(LoadError::NotFound { .. }) => Loaded::Unknown {
                nearest: self.nearest(place, name),
            },
            Err(LoadError::NotTrusted { path, .. }) => Loaded::Untrusted { path },
            Err(error) => Loaded::Failed {
                why: error.to_string(),
            },
        }
    }

    /// Its text, with what it lays down for a turn. Where an agent is to act that nobody can be sure of, nothing begins.
    fn text(&self, place: &Workspace, loaded: loading::Loaded) -> Loaded {
        let command = loaded.command;
        let chars_max = self.trust.shelf.bounds.texts.chars_max;
        match self.charter(place, &command) {
            Ok(charter) => Loaded::Text {
                path: command.path,
                text: cut(command.content, chars_max).0,
                charter: (!charter.is_empty()).then(|| Box::new(charter)),
            },
            Err(why) => Loaded::Failed { why },
        }
    }

    fn charter(&self, place: &Workspace, command: &loading::Command) -> Result<Charter, String> {
        let Allowed { tools, runs } = allowed(&command.frontmatter);
        let said = |key: &str| command.frontmatter.get(key).and_then(Value::as_str);
        let aliases = &self.policy.aliases;
        let model = said("model").map(str::to_ascii_lowercase);
        let agent = said("agent").map(str::trim);
        let agent = agent.filter(|name| ![AGENT, OURSELVES, ""].contains(name));
        Ok(Charter {
            command: command.name.clone(),
            tools,
            runs: runs.into_iter().collect(),
            model: model.filter(|model| aliases.contains_key(model)),
            role: agent
                .map(|name| self.trust.agent(name, place, aliases))
                .transpose()?,
        })
    }

    fn nearest(&self, place: &Workspace, name: &str) -> Vec<String> {
        let registry = self.trust.definitions(place);
        let names = registry.of(Kind::Command).map(|one| one.id.as_str());
        let mut scored: Vec<_> = names
            .map(|known| (strsim::levenshtein(name, known), known))
            .filter(|(edits, _)| *edits <= EDITS_MAX)
            .collect();
        scored.sort_unstable();
        let nearest = scored.into_iter().take(NEAREST_MAX);
        nearest.map(|(_, known)| format!("/{known}")).collect()
    }

    /// Those of files, the prompts of servers that are connected anyway, and who else can be asked.
    async fn commands(&self, place: &Workspace, scene: &Scene) -> Loaded {
        let registry = self.trust.definitions(place);
        let agent = scene.agent.as_deref();
        let is_for_people =
            |one: &&std::sync::Arc<Definition>| Caller::Person.refusal(&one.front, agent).is_none();
        let all: Vec<_> = registry.of(Kind::Command).filter(is_for_people).collect();
        let mut commands: Vec<_> = all.iter().take(LISTED_MAX).map(|one| listed(one)).collect();
        let mut servers = Vec::new();
        if self.has_mcp(scene) {
            commands.extend(self.mcp.prompts(place).await);
            servers = self.mcp.names(place);
        }
        Loaded::Listed {
            more: all.len().saturating_sub(LISTED_MAX),
            commands,
            servers,
        }
    }
}

fn listed(one: &Definition) -> ListedCommand {
    let hint = one.front.text(&["argument-hint", "argumentHint"]);
    let usage = format!("{} {}", one.id, hint.unwrap_or_default());
    let about = one.description().unwrap_or_default();
    ListedCommand {
        usage: usage.trim_end().chars().take(ABOUT_CHARS_MAX).collect(),
        about: one
            .trusted
            .then(|| about.chars().take(ABOUT_CHARS_MAX).collect()),
    }
}
