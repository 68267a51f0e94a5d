//! Where definitions stand, and what they are called by their places. Pure: paths in, names out.
//!
//! The order of the rows is the precedence among places of one origin: of two commands with one name, the one that
//! stands in the upper place counts.

use super::{Kind, Origin};
use std::collections::BTreeSet;

/// A name is no longer.
const ID_CHARS_MAX: usize = 128;
/// Stands for the folder that it is in.
const INDEX: &str = "index";

/// One row.
struct Place {
    kind: Kind,
    /// Relative to the workspace, or to the configuration folder.
    folder: &'static str,
    /// Of the file's name.
    ending: &'static str,
    naming: Naming,
    /// Whether folders below count.
    deep: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Naming {
    /// By the file's name.
    File,
    /// By the path below the place: `dir:name`, and `NAME/index.md` is NAME.
    Path,
    /// By the folder that the file is in.
    Folder,
    /// One file, by its whole name.
    Whole,
}

const fn row(
    kind: Kind,
    folder: &'static str,
    ending: &'static str,
    naming: Naming,
    deep: bool,
) -> Place {
    Place {
        kind,
        folder,
        ending,
        naming,
        deep,
    }
}

use Kind::{Agent, Command, Instructions, Skill};
use Naming::{File, Folder, Path, Whole};

const WORKSPACE: &[Place] = &[
    row(Command, ".claude/commands", ".md", Path, true),
    row(Command, ".github/commands", ".command.md", File, false),
    row(Command, ".github/prompts", ".prompt.md", File, false),
    row(Command, ".opencode/command", ".md", Path, true),
    row(Command, ".opencode/commands", ".md", Path, true),
    row(Skill, ".claude/skills", "SKILL.md", Folder, false),
    row(Skill, ".agents/skills", "SKILL.md", Folder, false),
    row(Skill, ".github/skills", "SKILL.md", Folder, true),
    row(Skill, ".github/skills", ".skill.md", File, true),
    row(Agent, ".claude/agents", ".md", File, true),
    row(Agent, ".github/agents", ".agent.md", File, false),
    row(Agent, ".opencode/agent", ".md", File, true),
    row(Agent, ".opencode/agents", ".md", File, true),
    row(Instructions, "", "AGENTS.md", Whole, false),
    row(Instructions, "", "CLAUDE.md", Whole, false),
    row(
        Instructions,
        ".github",
        "copilot-instructions.md",
        Whole,
        false,
    ),
    row(
        Instructions,
        ".github/instructions",
        ".instructions.md",
        File,
        true,
    ),
    // Those of one agent, in a folder of its name.
    row(
        Instructions,
        ".github/agents",
        ".instructions.md",
        Path,
        true,
    ),
];

const USER: &[Place] = &[
    row(Command, "commands", ".command.md", Path, true),
    row(Command, "commands", ".md", Path, true),
    row(Skill, "skills", "SKILL.md", Folder, false),
    row(Skill, "skills", ".skill.md", File, false),
    row(Agent, "agents", ".agent.md", File, false),
    row(Agent, "agents", ".md", File, false),
    row(
        Instructions,
        "instructions",
        ".instructions.md",
        File,
        false,
    ),
];

const BUILT_IN: &[Place] = &[row(Command, "prompts/commands", ".command.md", File, false)];

/// What a path makes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    pub kind: Kind,
    pub id: String,
    /// Among those of its origin; the least counts.
    pub rank: usize,
}

/// What stands at this path, if it is a definition's place; `Err`: it is, but its name is none.
///
/// # Errors
/// What is wrong with the name.
pub fn placed(origin: Origin, path: &str) -> Option<Result<Placed, String>> {
    rows(origin).iter().enumerate().find_map(|(at, place)| {
        let (id, is_index) = named(place, path)?;
        let checked = is_name(&id).then(|| Placed {
            kind: place.kind,
            // `NAME.md` comes before `NAME/index.md`.
            rank: 2 * at + usize::from(is_index),
            id: id.clone(),
        });
        Some(checked.ok_or_else(|| format!("{id:?} is no name: letters, digits, - _ . and no blanks, at most {ID_CHARS_MAX} characters")))
    })
}

/// A folder in which definitions may stand, and whether folders below it count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Searched {
    pub folder: &'static str,
    /// A folder right below it may hold one.
    pub below: bool,
    /// And those below that one.
    pub deep: bool,
}

/// The folders of an origin, each once.
pub fn folders(origin: Origin) -> Vec<Searched> {
    let mut found: Vec<Searched> = Vec::new();
    for place in rows(origin).iter().filter(|place| place.naming != Whole) {
        let (below, deep) = (place.deep || place.naming == Folder, place.deep);
        match found.iter_mut().find(|one| one.folder == place.folder) {
            Some(one) => {
                one.below |= below;
                one.deep |= deep;
            }
            None => found.push(Searched {
                folder: place.folder,
                below,
                deep,
            }),
        }
    }
    found
}

/// Those of them in which commands may stand.
pub fn command_folders(origin: Origin) -> BTreeSet<&'static str> {
    let commands = rows(origin).iter().filter(|place| place.kind == Command);
    commands.map(|place| place.folder).collect()
}

/// The single files of an origin.
pub fn files(origin: Origin) -> Vec<String> {
    let whole = rows(origin).iter().filter(|place| place.naming == Whole);
    whole
        .map(|place| match place.folder {
            "" => place.ending.to_owned(),
            folder => format!("{folder}/{}", place.ending),
        })
        .collect()
}

/// Where a command of this name would stand in a workspace, the first place first.
pub fn command_paths(id: &str) -> Vec<String> {
    let inner = id.replace(':', "/");
    let commands = WORKSPACE.iter().filter(|place| place.kind == Command);
    commands
        .flat_map(
            |Place {
                 folder,
                 ending,
                 naming,
                 ..
             }| {
                let index = format!("{folder}/{inner}/{INDEX}{ending}");
                let own = format!("{folder}/{inner}{ending}");
                [Some(own), Some(index).filter(|_| *naming == Path)]
            },
        )
        .flatten()
        .collect()
}

fn rows(origin: Origin) -> &'static [Place] {
    match origin {
        Origin::Workspace => WORKSPACE,
        Origin::User => USER,
        Origin::BuiltIn => BUILT_IN,
    }
}

/// The name that the place gives, and whether it is that of a folder's index.
fn named(place: &Place, path: &str) -> Option<(String, bool)> {
    let inner = match place.folder {
        "" => path,
        folder => path.strip_prefix(folder)?.strip_prefix('/')?,
    };
    let (above, name) = inner.rsplit_once('/').unwrap_or(("", inner));
    let is_in_reach = place.deep || above.is_empty();
    match place.naming {
        Whole => (inner == place.ending).then(|| (inner.to_owned(), false)),
        File => {
            let stem = name.strip_suffix(place.ending)?;
            (is_in_reach && !stem.is_empty()).then(|| (stem.to_owned(), false))
        }
        Folder => {
            let (further, folder) = above.rsplit_once('/').unwrap_or(("", above));
            let fits = name == place.ending && !folder.is_empty();
            (fits && (place.deep || further.is_empty())).then(|| (folder.to_owned(), false))
        }
        Path => {
            let stem = inner.strip_suffix(place.ending)?;
            let index = stem
                .strip_suffix(INDEX)
                .and_then(|stem| stem.strip_suffix('/'));
            // Only those below an agent's folder: one beside the agents belongs to none.
            let alone = place.kind == Instructions && above.is_empty();
            let id = index.unwrap_or(stem).replace('/', ":");
            (!alone && !stem.is_empty()).then_some((id, index.is_some()))
        }
    }
}

fn is_name(id: &str) -> bool {
    let is_part = |part: &str| {
        let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
        !part.is_empty() && !part.starts_with(['.', '-']) && part.chars().all(fits)
    };
    id.chars().count() <= ID_CHARS_MAX && id.split(':').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(origin: Origin, path: &str, expected: Option<(Kind, &str)>) {
        let found =
            placed(origin, path).map(|placed| placed.map(|placed| (placed.kind, placed.id)));
        let expected = expected.map(|(kind, id)| Ok((kind, id.to_owned())));
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn a_place_names_what_stands_there() {
        for (path, expected) in [
            (".claude/commands/review.md", Some((Command, "review"))),
            (".claude/commands/git/sync.md", Some((Command, "git:sync"))),
            (".claude/commands/git/index.md", Some((Command, "git"))),
            (".claude/commands/index.md", Some((Command, "index"))),
            (".claude/commands/notes.txt", None),
            (".claude/commandsx/a.md", None),
            (".github/commands/pr.command.md", Some((Command, "pr"))),
            (".github/commands/pr.md", None),
            (".github/commands/a/pr.command.md", None),
            (".github/prompts/fix.prompt.md", Some((Command, "fix"))),
            (".opencode/command/a.md", Some((Command, "a"))),
            (".claude/skills/pdf/SKILL.md", Some((Skill, "pdf"))),
            (".claude/skills/SKILL.md", None),
            (".claude/skills/pdf/references/SKILL.md", None),
            (".agents/skills/pdf/SKILL.md", Some((Skill, "pdf"))),
            (".github/skills/office/pdf/SKILL.md", Some((Skill, "pdf"))),
            (
                ".github/skills/rest-api.skill.md",
                Some((Skill, "rest-api")),
            ),
            (".claude/agents/tester.md", Some((Agent, "tester"))),
            (
                ".github/agents/architect.agent.md",
                Some((Agent, "architect")),
            ),
            (
                ".github/agents/architect/style.instructions.md",
                Some((Instructions, "architect:style")),
            ),
            (".github/agents/style.instructions.md", None),
            (
                ".github/instructions/ts.instructions.md",
                Some((Instructions, "ts")),
            ),
            (
                ".github/copilot-instructions.md",
                Some((Instructions, "copilot-instructions.md")),
            ),
            ("AGENTS.md", Some((Instructions, "AGENTS.md"))),
            ("docs/AGENTS.md", None),
            ("src/main.rs", None),
        ] {
            check(Origin::Workspace, path, expected);
        }
        check(
            Origin::User,
            "commands/a/b.command.md",
            Some((Command, "a:b")),
        );
        check(Origin::User, "commands/b.md", Some((Command, "b")));
        check(Origin::User, ".claude/commands/b.md", None);
    }

    #[test]
    fn a_name_is_no_place_for_blanks_or_worse() {
        for name in [
            "a b",
            "-rf",
            ".hidden",
            "a\u{202e}b",
            "a\nb",
            "a`b`",
            &"x".repeat(200),
        ] {
            let path = format!(".claude/commands/{name}.md");
            assert!(
                matches!(placed(Origin::Workspace, &path), Some(Err(_))),
                "{name:?}"
            );
        }
    }

    #[test]
    fn the_first_two_places_that_are_searched_are_those_of_the_format() {
        let paths = command_paths("git:sync");
        assert_eq!(
            paths[..2],
            [
                ".claude/commands/git/sync.md",
                ".claude/commands/git/sync/index.md"
            ]
        );
        for path in command_paths("sync")
            .iter()
            .filter(|path| !path.contains("/index"))
        {
            check(Origin::Workspace, path, Some((Command, "sync")));
        }
    }

    #[test]
    fn every_folder_is_searched_once_and_as_deep_as_its_places_go() {
        let found = folders(Origin::Workspace);
        let skills: Vec<_> = found
            .iter()
            .filter(|one| one.folder == ".github/skills")
            .collect();
        assert_eq!(
            skills,
            [&Searched {
                folder: ".github/skills",
                below: true,
                deep: true
            }]
        );
        assert!(found.contains(&Searched {
            folder: ".claude/skills",
            below: true,
            deep: false
        }));
        assert_eq!(
            files(Origin::Workspace),
            ["AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md"]
        );
    }
}
