//! The definitions of a workspace, its user and this program, by kind and name: which one counts, which it hides, and
//! what is wrong with them. Pure.

use super::{FrontMatter, Kind, Origin, agents, hidden, instructions, skills};
use serde::Serialize;
use std::sync::Arc;

/// One definition without its text, which is read when it is needed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Definition {
    pub kind: Kind,
    pub id: String,
    pub origin: Origin,
    /// Relative to the workspace, to the configuration folder, or to this program's source.
    pub path: String,
    /// Among those of its origin; the least counts.
    #[serde(skip)]
    pub rank: usize,
    /// Whether it may be loaded. Of one that may not, nothing but its name was read.
    pub trusted: bool,
    #[serde(skip)]
    pub front: FrontMatter,
    /// What is wrong with its text.
    #[serde(skip)]
    pub warnings: Vec<String>,
    /// SHA-256 of its bytes; empty where it was not read.
    #[serde(skip)]
    pub digest: String,
    pub bytes: u64,
}

impl Definition {
    /// What it is for, in its own words.
    pub fn description(&self) -> Option<String> {
        let text = self.front.text(&["description"])?;
        Some(hidden::removed(&text).0.into_owned())
    }
}

/// Something that its writer should know.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    pub path: String,
    pub what: String,
}

/// Everything that was found.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    /// By kind and name, the one that counts before those that it hides.
    definitions: Vec<Arc<Definition>>,
    problems: Vec<Problem>,
}

impl Registry {
    pub fn new(mut definitions: Vec<Arc<Definition>>, mut problems: Vec<Problem>) -> Self {
        // What nobody trusts hides nothing.
        let order = |one: &Definition| (!one.trusted, one.origin, one.rank);
        definitions.sort_by(|a, b| {
            let key = |one: &Definition| (one.kind, order(one));
            (a.kind, &a.id)
                .cmp(&(b.kind, &b.id))
                .then_with(|| key(a).cmp(&key(b)))
        });
        let twins = definitions.windows(2).filter(|pair| {
            let same = |a: &Definition, b: &Definition| {
                (a.kind, &a.id, a.origin) == (b.kind, &b.id, b.origin)
            };
            same(&pair[0], &pair[1])
        });
        problems.extend(twins.map(|pair| Problem {
            path: pair[1].path.clone(),
            what: format!("hidden by {}, which has the same name", pair[0].path),
        }));
        let wrong = definitions
            .iter()
            .filter(|one| one.trusted)
            .flat_map(|one| {
                let problem = |what| Problem {
                    path: one.path.clone(),
                    what,
                };
                check(one).into_iter().map(problem)
            });
        problems.extend(wrong);
        problems.sort();
        problems.dedup();
        Self {
            definitions,
            problems,
        }
    }

    /// The one that counts. One that may not be loaded is found as well, where no other has its name.
    pub fn find(&self, kind: Kind, id: &str) -> Option<&Arc<Definition>> {
        let at = self
            .definitions
            .partition_point(|one| (one.kind, one.id.as_str()) < (kind, id));
        self.definitions
            .get(at)
            .filter(|one| one.kind == kind && one.id == id)
    }

    /// The one at this path of the workspace.
    pub fn at(&self, path: &str) -> Option<&Arc<Definition>> {
        let is_it = |one: &&Arc<Definition>| one.origin == Origin::Workspace && one.path == path;
        self.definitions.iter().find(is_it)
    }

    /// Those that count, by name.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Arc<Definition>> {
        let counts = move |(at, one): &(usize, &Arc<Definition>)| {
            one.kind == kind && (*at == 0 || !same_name(&self.definitions[at - 1], one))
        };
        let all = self.definitions.iter().enumerate();
        all.filter(counts).map(|(_, one)| one)
    }

    /// All of them, also those that are hidden.
    pub fn all(&self) -> &[Arc<Definition>] {
        &self.definitions
    }

    /// What hides a definition, if something does.
    pub fn hider(&self, hidden: &Definition) -> Option<&Arc<Definition>> {
        let first = self.find(hidden.kind, &hidden.id)?;
        (**first != *hidden).then_some(first)
    }

    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

fn check(one: &Definition) -> Vec<String> {
    match one.kind {
        Kind::Skill => skills::problems(one),
        Kind::Instructions => instructions::problems(one),
        Kind::Agent => agents::problems(one),
        Kind::Command => Vec::new(),
    }
}

fn same_name(a: &Definition, b: &Definition) -> bool {
    (a.kind, &a.id) == (b.kind, &b.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(id: &str, origin: Origin, rank: usize, trusted: bool) -> Arc<Definition> {
        Arc::new(Definition {
            kind: Kind::Command,
            id: id.into(),
            origin,
            path: format!("{origin:?}/{rank}/{id}.md"),
            rank,
            trusted,
            front: FrontMatter::default(),
            warnings: Vec::new(),
            digest: String::new(),
            bytes: 0,
        })
    }

    #[test]
    fn the_workspace_counts_more_than_the_user_and_the_user_more_than_the_program() {
        let built_in = definition("review", Origin::BuiltIn, 0, true);
        let user = definition("review", Origin::User, 0, true);
        let (first, second) = (
            definition("review", Origin::Workspace, 0, true),
            definition("review", Origin::Workspace, 4, true),
        );
        let all = vec![
            built_in.clone(),
            second.clone(),
            user.clone(),
            first.clone(),
        ];
        let registry = Registry::new(all, Vec::new());
        assert_eq!(registry.find(Kind::Command, "review"), Some(&first));
        assert_eq!(registry.find(Kind::Skill, "review"), None);
        assert_eq!(registry.of(Kind::Command).count(), 1);
        assert_eq!(registry.hider(&user), Some(&first));
        assert_eq!(registry.hider(&first), None);
        let hidden: Vec<_> = registry.problems().iter().map(|one| &one.path).collect();
        assert_eq!(
            hidden,
            [&second.path],
            "only what one origin has twice is a problem"
        );
        let registry = Registry::new(vec![built_in, user.clone()], Vec::new());
        assert_eq!(registry.find(Kind::Command, "review"), Some(&user));
    }

    #[test]
    fn what_nobody_trusts_hides_nothing_and_is_found_where_it_is_alone() {
        let own = definition("review", Origin::BuiltIn, 0, true);
        let foreign = definition("review", Origin::Workspace, 0, false);
        let alone = definition("deploy", Origin::Workspace, 0, false);
        let registry = Registry::new(vec![foreign, own.clone(), alone.clone()], Vec::new());
        assert_eq!(registry.find(Kind::Command, "review"), Some(&own));
        assert_eq!(registry.find(Kind::Command, "deploy"), Some(&alone));
    }
}
