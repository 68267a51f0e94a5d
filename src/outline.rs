//! What stands in a file, by name and lines: classes, functions, headings, keys. Pure.
//!
//! tree-sitter reads what it has a grammar for ([`languages`]), also where the text has syntax errors; Markdown and
//! other texts are read by their lines ([`lines`]). An outline never fails: it says what it left out. It opens no file
//! and knows no clock: whoever asks brings the text, and says when it has taken too long.

/// What need not be parsed.
mod bodies;
/// Grammars, and what is asked of them.
mod languages;
/// Texts without a grammar.
mod lines;
/// What has a name, by a grammar.
mod parsed;
/// Long texts, cut.
mod parts;
/// As much as fits.
mod render;
/// What a parser is given to read.
mod shown;

pub use render::render;

/// Items of one file; a generated one has more than anybody reads.
pub const ITEMS_MAX: usize = 20_000;
const SIGNATURE_CHARS_MAX: usize = 120;

/// Asked again and again while a parser works, by each of its threads: whether it has taken too long.
pub type Over<'a> = &'a (dyn Fn() -> bool + Sync);

/// What one outline may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A longer text is read by its lines only.
    pub bytes_max: usize,
    /// Milliseconds; then a parser is stopped, and the text is read by its lines.
    pub ms_max: u64,
}

/// What stands in one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Outline {
    /// What it was read as: `rust`, `markdown`, `text`.
    pub language: &'static str,
    /// In the order of the file.
    pub items: Vec<Item>,
    /// What a reader should know: what could not be parsed, a text too long to be parsed.
    pub notes: Vec<&'static str>,
}

/// One thing that has a name.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Item {
    /// First and last line, from 1.
    pub first: usize,
    pub last: usize,
    /// How many items it stands in.
    pub depth: usize,
    /// Its signature, heading or key, in one line of about 120 characters at most.
    pub text: String,
}

/// The outline of a text; the path only says what it is written in. `is_over` stops a parser.
pub fn outline(path: &str, text: &str, bytes_max: usize, is_over: Over<'_>) -> Outline {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let mut notes = Vec::new();
    let (language, items) = match languages::of(&name, text) {
        _ if lines::is_markdown(&name) => ("markdown", lines::headings(text)),
        None => ("text", lines::definitions(text)),
        Some(_) if text.len() > bytes_max => {
            notes.push("too long to be parsed, so read by its lines");
            ("text", lines::definitions(text))
        }
        Some(language) => match parsed::items(language, text, is_over) {
            Some(parsed) => {
                if parsed.has_errors {
                    notes.push("parts of it could not be parsed");
                }
                (language.name, parsed.items)
            }
            None => {
                notes.push("too nested or too slow to be parsed, so read by its lines");
                ("text", lines::definitions(text))
            }
        },
    };
    if items.len() >= ITEMS_MAX {
        notes.push("only its first 20,000 items are here");
    }
    Outline {
        language,
        items,
        notes,
    }
}

/// At most so many characters of a signature; the cut is visible.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(SIGNATURE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
