//! Instructions: to which files and to which agent they apply. Pure.

use super::{Definition, Origin};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::Value;

const KEYS: [&str; 2] = ["applyTo", "apply-to"];
/// As many globs as anybody writes by hand.
const GLOBS_MAX: usize = 100;
/// What stands for everything.
const ALL: [&str; 4] = ["**", "**/*", "*", "/**"];
const ENDING: &str = ".instructions.md";
const OF_AGENTS: &str = ".github/agents/";

/// Where instructions apply.
#[derive(Debug, Clone)]
pub enum Scope {
    /// Nobody said where.
    Nowhere,
    Everywhere,
    /// From when on such a file is read or edited.
    Files(GlobSet),
}

impl Scope {
    pub fn fits(&self, path: &str) -> bool {
        match self {
            Scope::Nowhere => false,
            Scope::Everywhere => true,
            Scope::Files(globs) => globs.is_match(path),
        }
    }
}

/// Where they apply.
///
/// # Errors
/// A glob that is none.
pub fn scope(one: &Definition) -> Result<Scope, String> {
    let is_scoped = one.path.ends_with(ENDING);
    let globs = globs(one);
    if globs.iter().any(|glob| ALL.contains(&glob.as_str())) || !is_scoped {
        return Ok(Scope::Everywhere);
    }
    if globs.is_empty() {
        // A person's own, and those of one agent, are meant for all that is done with them.
        let is_meant = one.origin == Origin::User || agent(one).is_some();
        return Ok(if is_meant {
            Scope::Everywhere
        } else {
            Scope::Nowhere
        });
    }
    if globs.len() > GLOBS_MAX {
        return Err(format!(
            "applyTo has {} globs; at most {GLOBS_MAX}",
            globs.len()
        ));
    }
    let mut set = GlobSetBuilder::new();
    for glob in &globs {
        let anywhere = match glob.contains('/') {
            true => glob
                .trim_start_matches("./")
                .trim_start_matches('/')
                .to_owned(),
            false => format!("**/{glob}"),
        };
        let built = GlobBuilder::new(&anywhere).literal_separator(true).build();
        set.add(built.map_err(|error| format!("applyTo {glob:?} is no glob: {}", error.kind()))?);
    }
    let set = set
        .build()
        .map_err(|error| format!("applyTo: {}", error.kind()))?;
    Ok(Scope::Files(set))
}

/// The agent that they are for, where they are for one.
pub fn agent(one: &Definition) -> Option<&str> {
    let below = one.path.strip_prefix(OF_AGENTS)?;
    below.split_once('/').map(|(agent, _)| agent)
}

/// What is wrong with them.
pub fn problems(one: &Definition) -> Vec<String> {
    match scope(one) {
        Ok(Scope::Nowhere) => vec!["it has no applyTo: it applies to nothing".to_owned()],
        Ok(Scope::Everywhere | Scope::Files(_)) => Vec::new(),
        Err(why) => vec![why],
    }
}

fn globs(one: &Definition) -> Vec<String> {
    let value = KEYS.iter().find_map(|key| one.front.keys.get(*key));
    let texts: Vec<&str> = match value {
        Some(Value::String(text)) => vec![text.as_str()],
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
            Vec::new()
        }
    };
    texts.into_iter().flat_map(split).collect()
}

/// At commas outside of braces.
fn split(text: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0_u32);
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    let parts = parts.iter().map(|part| part.trim().to_owned());
    parts.filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions::{Kind, front_matter};

    fn instructions(path: &str, front: &str) -> Definition {
        Definition {
            kind: Kind::Instructions,
            id: "x".into(),
            origin: Origin::Workspace,
            path: path.into(),
            rank: 0,
            trusted: true,
            front: front_matter::split(&format!("---\n{front}\n---\n")).0,
            warnings: Vec::new(),
            digest: String::new(),
            bytes: 0,
        }
    }

    #[test]
    fn instructions_apply_to_the_files_that_they_name() {
        let fits = |front: &str, path: &str| {
            let one = instructions(".github/instructions/x.instructions.md", front);
            scope(&one).expect(front).fits(path)
        };
        for (front, path, expected) in [
            ("applyTo: '**/*.ts,**/*.tsx'", "src/a/b.tsx", true),
            ("applyTo: '**/*.ts,**/*.tsx'", "src/a/b.js", false),
            ("applyTo: '*.ts'", "src/a.ts", true),
            ("applyTo: 'src/*.ts'", "src/deep/a.ts", false),
            ("applyTo: 'src/**/*.{ts,tsx}, docs/**'", "docs/a/b.md", true),
            ("applyTo: ['a/*.py', 'b/*.py']", "b/x.py", true),
            ("applyTo: '**'", "anything", true),
            ("description: none", "anything", false),
        ] {
            assert_eq!(fits(front, path), expected, "{front} {path}");
        }
    }

    #[test]
    fn a_glob_that_is_none_is_a_problem() {
        let path = ".github/instructions/x.instructions.md";
        assert!(problems(&instructions(path, "applyTo: 'src/[a'"))[0].contains("is no glob"));
        assert!(problems(&instructions(path, "a: b"))[0].contains("no applyTo"));
        assert!(problems(&instructions(path, "applyTo: '*.rs'")).is_empty());
        assert!(problems(&instructions("AGENTS.md", "a: b")).is_empty());
        let of_agent = instructions(".github/agents/tester/style.instructions.md", "a: b");
        assert_eq!(
            (agent(&of_agent), problems(&of_agent)),
            (Some("tester"), Vec::new())
        );
    }
}
