//! What the chat says: a catalogue of named texts with `{placeholders}`. Text lives under `prompts/`, never in code.

use std::collections::BTreeMap;

/// One language's catalogue.
#[derive(Debug, Clone)]
pub struct Texts {
    texts: BTreeMap<String, String>,
}

/// The catalogue that is compiled in.
pub const ENGLISH: &str = include_str!("../../prompts/chat.en.toml");

impl Texts {
    /// Reads a catalogue; the error names what is wrong with it.
    pub fn parse(toml_text: &str) -> Result<Self, toml::de::Error> {
        Ok(Self {
            texts: toml::from_str(toml_text)?,
        })
    }

    /// The text `name` with its placeholders filled in, in a single pass: values are never expanded again.
    ///
    /// # Panics
    /// Where no such text exists; `tests/it/tidy.rs` checks every name that the source uses.
    pub fn say(&self, name: &str, values: &[(&str, &str)]) -> String {
        let template = self
            .texts
            .get(name)
            .unwrap_or_else(|| panic!("BUG: no text {name}"));
        fill(template, values)
    }
}

/// Fills `{name}` placeholders in one pass; an unknown placeholder stays as it is.
pub fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        let after = &rest[open + 1..];
        let known = after.find('}').and_then(|close| {
            let value = values.iter().find(|(name, _)| *name == &after[..close])?.1;
            Some((close, value))
        });
        match known {
            Some((close, value)) => {
                out.push_str(value);
                rest = &after[close + 1..];
            }
            None => {
                out.push('{');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_once_and_leaves_unknown_placeholders() {
        assert_eq!(
            fill("{a}-{b}-{c}", &[("a", "{b}"), ("b", "2")]),
            "{b}-2-{c}"
        );
        assert_eq!(fill("{ {a}", &[("a", "1")]), "{ 1");
    }

    #[test]
    fn the_compiled_in_catalogue_parses() {
        assert!(Texts::parse(ENGLISH).is_ok());
    }
}
