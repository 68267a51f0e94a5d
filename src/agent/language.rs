//! Which language the chat speaks. Told by the words of a message, of which a short one says nothing. Pure.

use serde::{Deserialize, Serialize};

/// A language that there is a catalogue of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Language {
    #[default]
    #[serde(rename = "en")]
    English,
    #[serde(rename = "es")]
    Spanish,
}

/// Words that the other language does not have, and that people use in short requests. Sorted; without accents.
const ENGLISH: &[&str] = &[
    "add", "all", "and", "any", "are", "can", "change", "check", "could", "create", "does",
    "every", "file", "files", "fix", "for", "from", "give", "have", "hello", "hey", "hi", "how",
    "in", "is", "it", "list", "look", "make", "my", "new", "of", "on", "out", "please", "remove",
    "rename", "run", "show", "tell", "thanks", "that", "the", "there", "this", "to", "update",
    "want", "what", "where", "which", "why", "with", "would", "write", "you", "your",
];
const SPANISH: &[&str] = &[
    "agrega",
    "agregar",
    "al",
    "anda",
    "arregla",
    "arreglame",
    "arreglar",
    "archivo",
    "archivos",
    "borra",
    "buen",
    "buenas",
    "buenos",
    "busca",
    "cambia",
    "carpeta",
    "codigo",
    "como",
    "con",
    "corre",
    "crea",
    "cual",
    "cuales",
    "de",
    "decime",
    "del",
    "dia",
    "dias",
    "donde",
    "el",
    "ejecuta",
    "en",
    "es",
    "esa",
    "ese",
    "escribe",
    "escribi",
    "esta",
    "este",
    "esto",
    "favor",
    "gracias",
    "hace",
    "haceme",
    "hacer",
    "hay",
    "haz",
    "hola",
    "la",
    "las",
    "lista",
    "los",
    "mi",
    "mira",
    "mostra",
    "mostrame",
    "muestra",
    "muestrame",
    "necesito",
    "nuevo",
    "nueva",
    "para",
    "podes",
    "podrias",
    "por",
    "porque",
    "proba",
    "prueba",
    "pruebas",
    "puedes",
    "que",
    "quiero",
    "quita",
    "revisa",
    "sobre",
    "su",
    "tengo",
    "todas",
    "todos",
    "un",
    "una",
];

/// Countries whose people mostly speak Spanish.
const SPANISH_CALLING_CODES: &[&str] = &[
    "34", "502", "503", "504", "505", "506", "507", "51", "52", "53", "54", "56", "57", "58",
    "591", "593", "595", "598",
];

/// More of a message says nothing new.
const WORDS_MAX: usize = 200;

impl Language {
    /// The language of a code such as `es`.
    pub fn named(code: &str) -> Option<Self> {
        match code.to_ascii_lowercase().as_str() {
            "en" => Some(Self::English),
            "es" => Some(Self::Spanish),
            _ => None,
        }
    }

    pub fn code(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Spanish => "es",
        }
    }

    /// What is spoken where a phone number is at home, where nobody has said a word yet.
    pub fn of_number(digits: &str) -> Option<Self> {
        let spanish = SPANISH_CALLING_CODES
            .iter()
            .any(|code| digits.starts_with(code));
        spanish.then_some(Self::Spanish)
    }

    /// What a message is written in; `None`: it does not say, or it is a command.
    pub fn of(text: &str) -> Option<Self> {
        if text.trim_start().starts_with('/') {
            return None;
        }
        let (mut english, mut spanish) = (0, 0);
        for word in words(text) {
            english += usize::from(ENGLISH.contains(&word.as_str()));
            spanish += usize::from(SPANISH.contains(&word.as_str()));
        }
        // No English word is written with these.
        spanish += usize::from(text.contains(['ñ', 'Ñ', '¿', '¡'])) * 2;
        match english.cmp(&spanish) {
            std::cmp::Ordering::Less => Some(Self::Spanish),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(Self::English),
        }
    }
}

/// Words of people: what stands in a path, a name or a mark is none.
fn words(text: &str) -> impl Iterator<Item = String> {
    let spoken = |word: &&str| !word.contains(['/', '_', '`', '=', '<', '>', '@']);
    let bare = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        word.chars()
            .flat_map(char::to_lowercase)
            .map(unaccented)
            .collect()
    };
    text.split_whitespace()
        .take(WORDS_MAX)
        .filter(spoken)
        .map(bare)
}

fn unaccented(c: char) -> char {
    match c {
        'á' => 'a',
        'é' => 'e',
        'í' => 'i',
        'ó' => 'o',
        'ú' | 'ü' => 'u',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_tells_its_language_by_its_words() {
        for text in [
            "arreglá los tests",
            "Hola!",
            "¿anda?",
            "corré cargo test y mostrame qué falla",
            "por favor cambia el nombre de src/main.rs",
            "Necesito que revises este archivo: the_parser.rs",
            "mañana",
            "fix del bug en el login",
        ] {
            assert_eq!(Language::of(text), Some(Language::Spanish), "{text}");
        }
        for text in [
            "fix the tests",
            "Hi",
            "please rename la_casa.py",
            "why does cargo test fail in `el.rs`?",
            "Add a test for the parser",
            "list files",
        ] {
            assert_eq!(Language::of(text), Some(Language::English), "{text}");
        }
        for text in [
            "",
            "/help",
            "/agent arreglá los tests",
            "ok",
            "cargo build",
            "👍",
            "src/el/la.rs",
            "no",
        ] {
            assert_eq!(Language::of(text), None, "{text}");
        }
    }

    #[test]
    fn a_number_tells_its_country() {
        assert_eq!(
            Language::of_number("5491112345678"),
            Some(Language::Spanish)
        );
        assert_eq!(Language::of_number("5521912345678"), None);
        assert_eq!(Language::of_number("14155550100"), None);
    }

    #[test]
    fn no_word_is_of_both() {
        assert!(ENGLISH.iter().all(|word| !SPANISH.contains(word)));
    }
}
