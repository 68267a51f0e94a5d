//! Paths in words: which parts of a word a program may open, and whether it may.
//!
//! Names are matched as names, never as substrings. Where a path leads is a fact that the world found out; nothing is
//! resolved here.

use crate::gate::bounds::PATH_MAX_BYTES;
use crate::gate::policy::{GatePolicy, matches_glob};
use crate::gate::words::Word;
use crate::gate::{PathFact, Place};

/// A path within a word, to be looked up and judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub path: String,
    /// Only the shell knows the rest: `path` is the folder that is certain.
    pub partial: bool,
}

/// What is wrong with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Secret,
    Outside,
    OwnData,
    GitInternals,
    /// Nobody looked it up: not known to be harmless.
    Unresolved,
}

impl Fault {
    /// Rule, what was seen, what would make it allowed.
    pub fn describe(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Fault::Secret => (
                "secret",
                "names a file that holds secrets",
                "use a file without secrets, such as .env.example, or ask the person",
            ),
            Fault::Outside => (
                "outside-workspace",
                "leads out of the workspace",
                "use a path inside the workspace, or switch the workspace",
            ),
            Fault::OwnData => (
                "own-data",
                "leads into Journeyman's own data",
                "use the tools that show sessions and outputs",
            ),
            Fault::GitInternals => (
                "git-internals",
                "leads into .git, whose hooks and configuration run programs",
                "use git's own commands",
            ),
            Fault::Unresolved => (
                "unresolved-path",
                "could not be looked up",
                "use a plain path inside the workspace",
            ),
        }
    }
}

/// The parts of a word that may be paths. `colons`: also what follows a colon (`host:/path`), for programs nobody described.
pub fn candidates(word: &Word, colons: bool) -> Vec<Candidate> {
    let known = word.known();
    let mut found: Vec<Candidate> = Vec::new();
    let mut add = |part: &str| {
        if part.is_empty() || part == "-" {
            return;
        }
        let candidate = match word.dynamic_from {
            None => Candidate {
                path: part.to_owned(),
                partial: false,
            },
            Some(_) => match part.rfind('/') {
                Some(slash) => Candidate {
                    path: part[..=slash].to_owned(),
                    partial: true,
                },
                None => return,
            },
        };
        if !found.contains(&candidate) {
            found.push(candidate);
        }
    };
    if known.len() > PATH_MAX_BYTES {
        add(known);
        return found;
    }
    if let Some((scheme, rest)) = known.split_once("://")
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    {
        if scheme.eq_ignore_ascii_case("file") {
            add(rest.find('/').map_or(rest, |slash| &rest[slash..]));
        }
        return found;
    }
    add(known);
    if let Some((_, value)) = known.split_once('=') {
        add(value);
        add(value.trim_start_matches('@'));
    }
    if let Some(listed) = known.strip_prefix('@') {
        add(listed);
    }
    if let Some(local) = known.strip_prefix("file:") {
        add(local);
    }
    if colons && !known.contains("://") {
        known
            .split([':', ','])
            .skip(1)
            .filter(|part| part.starts_with(['/', '~']))
            .for_each(&mut add);
    }
    found
}

/// Whether a path as written names a secret, in any of its components.
pub fn names_secret(policy: &GatePolicy, path: &str) -> bool {
    if path.len() > PATH_MAX_BYTES {
        // Nothing opens it; `fault` says that it could not be looked up.
        return false;
    }
    let lower = path.to_ascii_lowercase();
    if lower.starts_with("/proc/") && lower.ends_with("/environ") {
        return true;
    }
    let is_secret = |name: &str| {
        let fits = |patterns: &[String]| patterns.iter().any(|pattern| matches_glob(pattern, name));
        fits(&policy.secrets) && !fits(&policy.not_secrets)
    };
    lower
        .split('/')
        .flat_map(|part| [Some(part), part.rsplit_once(':').map(|(_, name)| name)])
        .flatten()
        .any(is_secret)
}

/// Files that only stand for the process's own streams.
pub fn is_stream(path: &str) -> bool {
    matches!(
        path,
        "/dev/null" | "/dev/stdin" | "/dev/stdout" | "/dev/stderr"
    ) || path
        .strip_prefix("/dev/fd/")
        .is_some_and(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
}

/// What is wrong with using a path, given what is known about it.
pub fn fault(policy: &GatePolicy, path: &str, fact: Option<&PathFact>) -> Option<Fault> {
    if is_stream(path) {
        return None;
    }
    if path.len() > PATH_MAX_BYTES {
        return Some(Fault::Unresolved);
    }
    if names_secret(policy, path) {
        return Some(Fault::Secret);
    }
    if path
        .split('/')
        .any(|part| part.eq_ignore_ascii_case(".git"))
    {
        return Some(Fault::GitInternals);
    }
    let Some(fact) = fact else {
        return Some(Fault::Unresolved);
    };
    match fact.place {
        Place::Outside => Some(Fault::Outside),
        Place::OwnData => Some(Fault::OwnData),
        Place::GitInternals => Some(Fault::GitInternals),
        // A link with a harmless name may lead to a secret.
        Place::Workspace => {
            names_secret(policy, fact.resolved.rsplit('/').next().unwrap_or_default())
                .then_some(Fault::Secret)
        }
    }
}
