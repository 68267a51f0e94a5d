//! What the chat says: catalogues of named texts with `{placeholders}`. Text lives under `prompts/`, never in code.

/// What went wrong.
mod errors;

use crate::agent::language::Language;
use errors::Errors;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One language's catalogue.
#[derive(Debug, Clone)]
pub struct Texts {
    texts: BTreeMap<String, String>,
    /// Why the gate asks, by its rules; none where the gate's own words will do.
    reasons: BTreeMap<String, String>,
    errors: Errors,
}

/// The catalogues that are compiled in.
pub const ENGLISH: &str = include_str!("../../prompts/chat.en.toml");
pub const SPANISH: &str = include_str!("../../prompts/chat.es.toml");

const SPANISH_REASONS: &str = include_str!("../../prompts/reasons.es.toml");
const SPANISH_ERRORS: &str = include_str!("../../prompts/errors.es.toml");
/// The placeholder for what went wrong.
const WHY: &str = "why";
/// How names of texts end that a model reads.
const FOR_MODELS: &str = "_model";

/// The catalogue of every language.
#[derive(Debug, Clone)]
pub struct Catalogues {
    /// What every chat is spoken to in; `None`: the language of the person's first message.
    pub wanted: Option<Language>,
    english: Arc<Texts>,
    spanish: Arc<Texts>,
}

impl Catalogues {
    /// Reads them; the error names what is wrong.
    pub fn parse(english: &str, spanish: &str) -> Result<Self, toml::de::Error> {
        Ok(Self {
            wanted: None,
            english: Arc::new(Texts::parse(english)?),
            spanish: Arc::new(Texts {
                reasons: toml::from_str(SPANISH_REASONS)?,
                errors: Errors::new(toml::from_str(SPANISH_ERRORS)?),
                ..Texts::parse(spanish)?
            }),
        })
    }

    /// Those that are compiled in.
    pub fn built_in() -> Self {
        Self::parse(ENGLISH, SPANISH)
            .expect("BUG: the compiled-in catalogues parse, a test says so")
    }

    pub fn speaking(&self, language: Language) -> &Arc<Texts> {
        match language {
            Language::English => &self.english,
            Language::Spanish => &self.spanish,
        }
    }
}

impl Texts {
    /// Reads a catalogue; the error names what is wrong with it.
    pub fn parse(toml_text: &str) -> Result<Self, toml::de::Error> {
        Ok(Self {
            texts: toml::from_str(toml_text)?,
            reasons: BTreeMap::new(),
            errors: Errors::default(),
        })
    }

    /// Why a rule of the gate asks, in this language, where that is known.
    pub fn reason(&self, rule: &str) -> Option<&str> {
        self.reasons.get(rule).map(String::as_str)
    }

    /// The text `name` with its placeholders filled in, in a single pass: values are never expanded again. What went wrong
    /// (`why`) is said in the catalogue's language, where that is known; to a model it is said as it is.
    ///
    /// # Panics
    /// Where no such text exists; `tests/it/tidy.rs` checks every name that the source uses.
    pub fn say(&self, name: &str, values: &[(&str, &str)]) -> String {
        let template = self
            .texts
            .get(name)
            .unwrap_or_else(|| panic!("BUG: no text {name}"));
        let said: Vec<(&str, Cow<'_, str>)> = values
            .iter()
            .map(|(value, said)| (*value, self.told(name, value, said)))
            .collect();
        let values: Vec<(&str, &str)> =
            said.iter().map(|(name, value)| (*name, &**value)).collect();
        fill(template, &values)
    }

    fn told<'a>(&self, text: &str, name: &str, value: &'a str) -> Cow<'a, str> {
        let is_error = name == WHY && !text.ends_with(FOR_MODELS);
        let known = is_error.then(|| self.errors.told(value)).flatten();
        known.map_or(Cow::Borrowed(value), Cow::Owned)
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
    use std::collections::BTreeSet;

    #[test]
    fn fills_once_and_leaves_unknown_placeholders() {
        assert_eq!(
            fill("{a}-{b}-{c}", &[("a", "{b}"), ("b", "2")]),
            "{b}-2-{c}"
        );
        assert_eq!(fill("{ {a}", &[("a", "1")]), "{ 1");
    }

    #[test]
    fn what_went_wrong_is_said_in_the_language_of_the_chat() {
        let texts = Catalogues::built_in();
        let why = "it is larger than 5 bytes (media_bytes_max in config/limits.toml)";
        for (language, part) in [
            (Language::English, why),
            (Language::Spanish, "ocupa más de 5 bytes"),
        ] {
            let told = texts
                .speaking(language)
                .say("image_failed", &[("why", why)]);
            assert!(told.contains(part), "{told}");
        }
    }

    fn placeholders(text: &str) -> BTreeSet<&str> {
        let parts = text.split('{').skip(1);
        let names = parts.filter_map(|part| Some(part.split_once('}')?.0));
        names
            .filter(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
            .collect()
    }

    #[test]
    fn errors_have_the_same_placeholders_in_every_language() {
        let errors: BTreeMap<String, String> = toml::from_str(SPANISH_ERRORS).unwrap();
        for (said, told) in &errors {
            assert_eq!(placeholders(said), placeholders(told), "{said}");
        }
    }

    /// Also that they parse.
    #[test]
    fn every_language_says_the_same_with_the_same_placeholders() {
        let (english, spanish) = (
            Texts::parse(ENGLISH).unwrap(),
            Texts::parse(SPANISH).unwrap(),
        );
        let keys = |texts: &Texts| texts.texts.keys().cloned().collect::<BTreeSet<_>>();
        let differ: Vec<_> = keys(&english)
            .symmetric_difference(&keys(&spanish))
            .cloned()
            .collect();
        assert!(differ.is_empty(), "only in one catalogue: {differ:?}");
        for (name, text) in &english.texts {
            assert_eq!(
                placeholders(text),
                placeholders(&spanish.texts[name]),
                "{name}"
            );
        }
    }

    #[test]
    fn what_the_model_reads_is_english_in_every_language() {
        let (english, spanish) = (
            Texts::parse(ENGLISH).unwrap(),
            Texts::parse(SPANISH).unwrap(),
        );
        let for_model = english
            .texts
            .iter()
            .filter(|(name, _)| name.ends_with("_model"));
        for (name, text) in for_model {
            assert_eq!(*text, spanish.texts[name], "{name}");
        }
    }

    #[test]
    fn the_commands_in_the_help_are_the_same_in_every_language() {
        let commands = |catalogue: &str| {
            let help = Texts::parse(catalogue).unwrap().say("help", &[]);
            let words =
                help.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ',' | ';' | '.'));
            // What stands for a name is a word of the language.
            let is_own = |word: &&str| !word[1..].starts_with(char::is_uppercase);
            words
                .filter(|word| word.starts_with('/'))
                .filter(is_own)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(commands(ENGLISH), commands(SPANISH));
    }

    #[test]
    fn titles_of_buttons_are_as_short_as_whatsapp_wants_them() {
        for catalogue in [ENGLISH, SPANISH] {
            for (name, title) in Texts::parse(catalogue).unwrap().texts {
                let too_long = name.starts_with("button_") && title.chars().count() > 20;
                assert!(!too_long, "{name} is {title:?}");
            }
        }
    }
}
