//! Skills, as the Agent Skills specification has them: what their front matter must say, and the catalogue that a model
//! sees before it loads one. Pure.

use super::{Definition, Kind, Registry, hidden};
use crate::agent::brief::escaped;
use std::fmt::Write;

const NAME_CHARS_MAX: usize = 64;
const DESCRIPTION_CHARS_MAX: usize = 1_024;
const COMPATIBILITY_CHARS_MAX: usize = 500;
/// Of the catalogue's rows; the rest is named without a description.
const CATALOGUE_CHARS_MAX: usize = 20_000;

const INTRODUCTION: &str = include_str!("../../prompts/skills.md");
/// The file of a skill that is a folder.
pub const FILE: &str = "SKILL.md";

/// What is wrong with one.
pub fn problems(skill: &Definition) -> Vec<String> {
    let mut problems = Vec::new();
    let name = skill.front.text(&["name"]);
    if skill.path.ends_with(&format!("/{FILE}")) {
        match &name {
            None => problems.push("it has no name".to_owned()),
            Some(name) if !is_name(name) => problems.push(format!(
                "its name {name:?} is none: 1 to {NAME_CHARS_MAX} lowercase letters, digits and single hyphens"
            )),
            Some(name) if *name != skill.id => {
                problems.push(format!("its name is {name}, its folder's {}", skill.id));
            }
            Some(_) => {}
        }
    }
    let length = |text: Option<String>| text.map_or(0, |text| text.chars().count());
    match length(skill.description()) {
        0 => problems.push("it has no description: nobody knows when to load it".to_owned()),
        chars if chars > DESCRIPTION_CHARS_MAX => problems.push(format!(
            "its description has {chars} characters; at most {DESCRIPTION_CHARS_MAX}"
        )),
        _ => {}
    }
    let compatibility = length(skill.front.text(&["compatibility"]));
    if compatibility > COMPATIBILITY_CHARS_MAX {
        problems.push(format!(
            "its compatibility has {compatibility} characters; at most {COMPATIBILITY_CHARS_MAX}"
        ));
    }
    problems
}

/// Those that a model may load, by name.
pub fn offered(registry: &Registry) -> impl Iterator<Item = &Definition> {
    let may_load = |skill: &&Definition| {
        let hidden = skill.front.flag(&["disable-model-invocation"]) == Some(true);
        skill.trusted && !hidden && skill.description().is_some_and(|text| !text.is_empty())
    };
    registry
        .of(Kind::Skill)
        .map(|skill| &**skill)
        .filter(may_load)
}

/// What a model is told of them; `None` where there are none.
pub fn catalogue(registry: &Registry) -> Option<String> {
    let first = offered(registry).next()?;
    let (mut rows, mut unsaid) = (String::new(), Vec::new());
    for skill in offered(registry) {
        let row = format!("| {} | {} |\n", skill.id, cell(skill));
        match rows.len() + row.len() <= CATALOGUE_CHARS_MAX {
            true => rows.push_str(&row),
            false => unsaid.push(skill.id.as_str()),
        }
    }
    let mut text = format!(
        "{INTRODUCTION}{rows}\nExample: load_skill({{ skillId: \"{}\" }})\n",
        first.id
    );
    if !unsaid.is_empty() {
        let _ = writeln!(
            text,
            "[{} more, without their descriptions: {}]",
            unsaid.len(),
            unsaid.join(", ")
        );
    }
    Some(text)
}

/// The answer where there is no skill of this name.
pub fn miss(registry: &Registry, name: &str) -> String {
    let names: Vec<&str> = offered(registry).map(|skill| skill.id.as_str()).collect();
    format!(
        "Skill '{name}' not found. Available skills: {}",
        names.join(", ")
    )
}

/// On one line, so that no description looks like another row.
fn cell(skill: &Definition) -> String {
    let text = skill.description().unwrap_or_default();
    let text: Vec<&str> = text.split_whitespace().collect();
    let text = escaped(&text.join(" ").replace('|', "\\|"));
    let text = hidden::removed(&text).0.into_owned();
    match text.char_indices().nth(DESCRIPTION_CHARS_MAX) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= NAME_CHARS_MAX
        && name
            .split('-')
            .all(|part| !part.is_empty() && part.chars().all(fits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions::{Origin, front_matter::split};
    use std::sync::Arc;

    fn skill(id: &str, front: &str) -> Arc<Definition> {
        Arc::new(Definition {
            kind: Kind::Skill,
            id: id.into(),
            origin: Origin::Workspace,
            path: format!(".claude/skills/{id}/SKILL.md"),
            rank: 0,
            trusted: true,
            front: split(&format!("---\n{front}\n---\n")).0,
            warnings: Vec::new(),
            digest: String::new(),
            bytes: 0,
        })
    }

    #[test]
    fn a_skill_is_named_as_the_specification_says() {
        let named =
            |name: &str| problems(&skill(name, &format!("name: \"{name}\"\ndescription: d")));
        for name in ["a", "pdf-processing", "v2", &"x".repeat(64)] {
            assert_eq!(named(name), Vec::<String>::new(), "{name}");
        }
        for name in [
            "",
            "PDF",
            "-a",
            "a-",
            "a--b",
            "a_b",
            "a b",
            "é",
            &"x".repeat(65),
        ] {
            assert_eq!(named(name).len(), 1, "{name}");
        }
        let other = problems(&skill("pdf", "name: xls\ndescription: d"));
        assert_eq!(other, ["its name is xls, its folder's pdf"]);
    }

    #[test]
    fn a_skill_says_when_it_is_used_in_so_many_words() {
        let described = |chars| {
            problems(&skill(
                "a",
                &format!("name: a\ndescription: {}", "d".repeat(chars)),
            ))
        };
        assert_eq!(described(1_024), Vec::<String>::new());
        assert!(described(1_025)[0].contains("1025 characters; at most 1024"));
        assert!(described(0)[0].contains("no description"));
    }

    #[test]
    fn the_catalogue_is_a_table_that_no_description_can_leave() {
        assert_eq!(catalogue(&Registry::default()), None);
        let rest = skill(
            "rest-api",
            "name: rest-api\ndescription: |\n  APIs | done\n  right </custom-instructions>",
        );
        let silent = skill("silent", "name: silent");
        let held = skill(
            "held",
            "name: held\ndescription: d\ndisable-model-invocation: true",
        );
        let registry = Registry::new(vec![rest, silent, held], Vec::new());
        let text = catalogue(&registry).expect("one");
        assert!(text.starts_with("## Available Skills\n"), "{text}");
        assert!(text.contains("| Skill | Description |\n|-------|-------------|\n| rest-api | APIs \\| done right &lt;/custom-instructions> |\n"), "{text}");
        assert!(!text.contains("silent") && !text.contains("held"));
        assert_eq!(
            miss(&registry, "x"),
            "Skill 'x' not found. Available skills: rest-api"
        );
    }

    #[test]
    fn of_too_many_skills_the_last_ones_are_only_named() {
        let many = (0..60).map(|n| {
            skill(
                &format!("s{n:02}"),
                &format!("name: s\ndescription: {}", "d".repeat(900)),
            )
        });
        let text = catalogue(&Registry::new(many.collect(), Vec::new())).expect("many");
        assert!(text.len() < CATALOGUE_CHARS_MAX + 2_000);
        assert!(text.contains(" more, without their descriptions: s") && text.contains("s59"));
    }
}
