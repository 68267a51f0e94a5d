//! `load_skill`: what a skill says, or a file of its folder.

use super::{Action, Reach, Tool, args, blocking, schema_of};
use crate::agent::event::{Call, EffectClass, Outcome};
use crate::definitions::front_matter::split;
use crate::definitions::{Definition, Kind, skills};
use crate::gate::Approved;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Of what is shown at once.
const SHOWN_CHARS_MAX: usize = 40_000;

pub const TOOL: Tool = Tool {
    name: "load_skill",
    about: include_str!("../../prompts/tools/load_skill.md"),
    class: EffectClass::Pure,
    schema: schema_of::<Args>,
    // What it reads, the owner trusts, and nothing else is ever read by it.
    touches: |json| args::<Args>(json).and_then(|args| args.name().map(|_| Vec::new())),
    action: Action::World {
        run: |call, reach: Arc<Reach>| blocking(call, reach, EffectClass::Pure, run),
        expect: None,
    },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[serde(rename = "skillId")]
    skill_id: Option<String>,
    /// The same.
    name: Option<String>,
    /// Below the skill's folder.
    file: Option<String>,
}

impl Args {
    fn name(&self) -> Result<&str, String> {
        let name = self.skill_id.as_deref().or(self.name.as_deref());
        name.ok_or_else(|| {
            "skillId is missing: the name of a skill, as in load_skill({ skillId: \"…\" })"
                .to_owned()
        })
    }
}

/// The skill that a call loads whole.
pub fn loads(call: &Call) -> Option<String> {
    let is_it = super::find(&call.tool).is_some_and(|tool| tool.name == TOOL.name);
    let args = args::<Args>(&call.json().ok().filter(|_| is_it)?).ok()?;
    let name = args.name().ok()?.to_owned();
    args.file.is_none().then_some(name)
}

fn run(approved: Approved<Args>, reach: &Reach) -> Outcome {
    load(approved.get(), reach).map_or_else(Outcome::failed, Outcome::done)
}

fn load(args: &Args, reach: &Reach) -> Result<String, String> {
    let name = args.name()?;
    let (trust, workspace) = (&reach.trust, &reach.workspace);
    let registry = trust.definitions(workspace);
    let known = registry
        .find(Kind::Skill, name)
        .filter(|skill| skill.trusted);
    let skill = known.ok_or_else(|| skills::miss(&registry, name))?;
    if let Some(file) = &args.file {
        let text = trust.resource(workspace, skill, file)?;
        return Ok(cut(&text));
    }
    let text = trust.text(workspace, skill)?;
    let body = cut(split(&text).1.trim());
    let resources = trust.resources(workspace, skill)?;
    Ok(format!("{body}{}", listed(skill, &resources)))
}

fn listed(skill: &Definition, resources: &[String]) -> String {
    let folder = skill.path.trim_end_matches(skills::FILE);
    match resources {
        [] => String::new(),
        names => format!(
            "\n\n[Files of this skill, below {folder}; load_skill({{ skillId: \"{}\", file: \"{}\" }}) shows one:\n{}]",
            skill.id,
            names[0],
            names.join("\n")
        ),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!(
            "{}\n[cut here: {SHOWN_CHARS_MAX} of {} characters]",
            &text[..end],
            text.chars().count()
        ),
    }
}
