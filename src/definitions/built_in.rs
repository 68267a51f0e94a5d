//! The definitions that come with the program: texts of `prompts/`, compiled in. Pure.

use super::Origin;
use super::front_matter::split;
use super::places::placed;
use super::registry::Definition;
use std::sync::{Arc, OnceLock};

/// Path and text.
const TEXTS: [(&str, &str); 6] = [
    (
        "prompts/commands/commit.command.md",
        include_str!("../../prompts/commands/commit.command.md"),
    ),
    (
        "prompts/commands/explain.command.md",
        include_str!("../../prompts/commands/explain.command.md"),
    ),
    (
        "prompts/commands/fix-tests.command.md",
        include_str!("../../prompts/commands/fix-tests.command.md"),
    ),
    (
        "prompts/commands/plan.command.md",
        include_str!("../../prompts/commands/plan.command.md"),
    ),
    (
        "prompts/commands/pr.command.md",
        include_str!("../../prompts/commands/pr.command.md"),
    ),
    (
        "prompts/commands/review.command.md",
        include_str!("../../prompts/commands/review.command.md"),
    ),
];

/// All of them.
pub fn definitions() -> &'static [Arc<Definition>] {
    static ALL: OnceLock<Vec<Arc<Definition>>> = OnceLock::new();
    ALL.get_or_init(|| {
        TEXTS
            .iter()
            .filter_map(|(path, text)| definition(path, text))
            .collect()
    })
}

/// The text of one, by its path.
pub fn text(path: &str) -> Option<&'static str> {
    let (_, text) = TEXTS.iter().find(|(known, _)| *known == path)?;
    Some(text)
}

fn definition(path: &str, text: &str) -> Option<Arc<Definition>> {
    let placed = placed(Origin::BuiltIn, path)?.ok()?;
    Some(Arc::new(Definition {
        kind: placed.kind,
        id: placed.id,
        origin: Origin::BuiltIn,
        path: path.to_owned(),
        rank: placed.rank,
        trusted: true,
        front: split(text).0,
        warnings: Vec::new(),
        digest: String::new(),
        bytes: text.len() as u64,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_and_says_what_it_is_for() {
        assert_eq!(definitions().len(), TEXTS.len());
        for one in definitions() {
            assert_eq!(one.front.warning, None, "{}", one.id);
            assert!(
                one.description().is_some_and(|text| text.len() > 10),
                "{}",
                one.id
            );
            assert!(
                text(&one.path).is_some_and(|text| text.contains("$ARGUMENTS")),
                "{}",
                one.id
            );
        }
    }
}
