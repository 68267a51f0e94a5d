//! Sources: what a question can be about. Each has a name, under which it stands in the clean room.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Characters of a name.
const NAME_CHARS_MAX: usize = 64;
/// What the clean room holds besides sources, and what agents take for instructions or settings.
const TAKEN: [&str; 7] = [
    "prompt.md",
    "opencode.json",
    "opencode.jsonc",
    "AGENTS.md",
    "AGENTS.override.md",
    "CLAUDE.md",
    "GEMINI.md",
];

/// What a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A copy of a repository, fetched by `sources add` and `sources sync`.
    Git,
    File,
    Directory,
}

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub name: String,
    pub kind: Kind,
    /// The address of a repository, else an absolute path.
    pub place: String,
}

/// `sources.toml` of the configuration folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources(BTreeMap<String, Entry>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    kind: Kind,
    place: String,
}

const HEADER: &str =
    "# Sources for `journeyman ask`; written by `journeyman sources add` and `remove`.\n\n";

impl Source {
    /// Whether files stand below it.
    pub fn is_folder(&self) -> bool {
        self.kind != Kind::File
    }
}

impl Sources {
    /// # Errors
    /// What is wrong with the file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let entries: BTreeMap<String, Entry> =
            toml::from_str(text).map_err(|error| error.to_string())?;
        for name in entries.keys() {
            check_name(name)?;
        }
        Ok(Self(entries))
    }

    /// What is written into the file.
    pub fn text(&self) -> String {
        let entries = toml::to_string(&self.0).expect("BUG: names and texts are TOML");
        format!("{HEADER}{entries}")
    }

    pub fn all(&self) -> impl Iterator<Item = Source> {
        self.0.iter().map(|(name, entry)| Source {
            name: name.clone(),
            kind: entry.kind,
            place: entry.place.clone(),
        })
    }

    /// # Errors
    /// The name is not known; those that are.
    pub fn find(&self, name: &str) -> Result<Source, String> {
        self.all()
            .find(|source| source.name == name)
            .ok_or_else(|| {
                let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
                let known = match known.is_empty() {
                    true => "there are none yet; `journeyman sources add` names one".to_owned(),
                    false => format!("there are: {}", known.join(", ")),
                };
                format!("source {name:?} was not found; {known}")
            })
    }

    /// # Errors
    /// The name cannot be one, or is another source's.
    pub fn add(&mut self, source: Source) -> Result<(), String> {
        check_name(&source.name)?;
        if self.0.contains_key(&source.name) {
            return Err(format!(
                "there is a source {} already; `journeyman sources remove {0}` first, or choose another name",
                source.name
            ));
        }
        let (kind, place) = (source.kind, source.place);
        self.0.insert(source.name, Entry { kind, place });
        Ok(())
    }

    /// Whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }
}

/// A name is that of a link in the clean room.
fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let fits = begins && name.chars().all(is_plain) && name.len() <= NAME_CHARS_MAX;
    match fits && !TAKEN.contains(&name) {
        true => Ok(()),
        false => Err(format!(
            "{name:?} cannot name a source: letters, digits, - _ and . (not first), at most {NAME_CHARS_MAX}; none of {}",
            TAKEN.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_found_again_and_names_are_names_of_links() {
        let mut sources = Sources::default();
        let readme = Source {
            name: "readme".into(),
            kind: Kind::File,
            place: "/a b/\"README\".md".into(),
        };
        sources.add(readme.clone()).unwrap();
        assert!(sources.add(readme.clone()).unwrap_err().contains("already"));
        let read = Sources::parse(&sources.text()).unwrap();
        assert_eq!(read, sources);
        assert_eq!(read.find("readme").unwrap(), readme);
        assert_eq!(
            read.find("unknown").unwrap_err(),
            "source \"unknown\" was not found; there are: readme"
        );
        for name in [
            "",
            ".",
            "..",
            ".mcp.json",
            "a/b",
            "prompt.md",
            "CLAUDE.md",
            "opencode.jsonc",
            "ä",
            "a b",
            "-x",
            &"x".repeat(65),
        ] {
            let source = Source {
                name: name.into(),
                ..readme.clone()
            };
            assert!(sources.add(source).is_err(), "{name:?}");
        }
        assert!(Sources::parse("[\"../x\"]\nkind = \"file\"\nplace = \"/x\"").is_err());
        assert!(sources.remove("readme") && !sources.remove("readme"));
    }
}
