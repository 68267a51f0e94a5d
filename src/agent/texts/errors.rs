//! What went wrong, in a person's language: the program says it in English, and a catalogue knows the most common of it. Pure.

use super::fill;
use std::collections::BTreeMap;

/// Errors by the words that the program has for them, those with the most words first.
#[derive(Debug, Clone, Default)]
pub struct Errors(Vec<Known>);

#[derive(Debug, Clone)]
struct Known {
    /// Around the values; one more than these.
    words: Vec<String>,
    names: Vec<String>,
    told: String,
}

impl Errors {
    /// From templates to templates with the same `{placeholders}`.
    pub fn new(catalogue: BTreeMap<String, String>) -> Self {
        let mut known: Vec<Known> = catalogue.into_iter().map(Known::new).collect();
        known.sort_by_key(|known| usize::MAX - known.words.iter().map(String::len).sum::<usize>());
        Self(known)
    }

    /// The error in that language, where it is known.
    pub fn told(&self, error: &str) -> Option<String> {
        self.0.iter().find_map(|known| known.tells(error))
    }
}

impl Known {
    fn new((said, told): (String, String)) -> Self {
        let mut words = Vec::new();
        let mut names = Vec::new();
        let mut rest = said.as_str();
        while let Some((before, (name, after))) = rest
            .split_once('{')
            .and_then(|(before, after)| Some((before, after.split_once('}')?)))
        {
            words.push(before.to_owned());
            names.push(name.to_owned());
            rest = after;
        }
        words.push(rest.to_owned());
        Self { words, names, told }
    }

    fn tells(&self, error: &str) -> Option<String> {
        let (first, others) = self.words.split_first()?;
        let mut rest = error.strip_prefix(first.as_str())?;
        let mut values = Vec::new();
        for (at, (name, words)) in self.names.iter().zip(others).enumerate() {
            let is_last = at + 1 == self.names.len();
            let (value, after) = match is_last {
                true => (rest.strip_suffix(words.as_str())?, ""),
                false => rest.split_once(words.as_str())?,
            };
            values.push((name.as_str(), value));
            rest = after;
        }
        rest.is_empty().then(|| fill(&self.told, &values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(pairs: &[(&str, &str)]) -> Errors {
        let own = |(said, told): &(&str, &str)| (said.to_string(), told.to_string());
        Errors::new(pairs.iter().map(own).collect())
    }

    #[test]
    fn tells_what_it_knows_and_nothing_else() {
        let errors = errors(&[
            ("too large", "demasiado grande"),
            ("it has {n} bytes of {most}", "tiene {n} bytes de {most}"),
            ("{what} failed", "{what} falló"),
            ("the {what} failed", "el {what} falló"),
        ]);
        for (said, told) in [
            ("too large", Some("demasiado grande")),
            ("it has 3 bytes of 2", Some("tiene 3 bytes de 2")),
            ("git failed", Some("git falló")),
            ("the disk failed", Some("el disk falló")),
            ("too large.", None),
            ("it has 3 bytes", None),
            ("", None),
        ] {
            assert_eq!(errors.told(said).as_deref(), told, "{said}");
        }
    }

    #[test]
    fn a_value_is_never_filled_in_again() {
        let errors = errors(&[("{a} and {b}", "{b} y {a}")]);
        assert_eq!(errors.told("{b} and {a}").as_deref(), Some("{a} y {b}"));
    }
}
