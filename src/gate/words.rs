//! Words as bash joins them: quotes removed, escapes decoded, what bash would still change marked.
//!
//! [`plain`] reads a text that is nothing but one simple command of literal words. What it returns is what runs, without
//! a shell, so a mistake here can't make the judged command differ from the executed one. Everything else goes through
//! the parse tree (`shell.rs`), which uses the same [`WordBuilder`]. Expands nothing.

use crate::gate::bounds::WORDS_MAX;

/// What a text contains besides literal words. Each one makes the command ask: bash would do more than start a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    Operator,
    Background,
    Newline,
    Redirect,
    HereDocument,
    Substitution,
    Expansion,
    Glob,
    Brace,
    Tilde,
    Assignment,
    Compound,
    Function,
    Comment,
    /// A word that bash itself treats specially: `time`, `!`, `coproc`, builtins that exist in no file.
    Keyword,
    ControlCharacter,
    /// Characters that a screen does not show, or shows in another order.
    Invisible,
}

impl Feature {
    /// The rule's stable name and what was seen.
    pub fn describe(self) -> (&'static str, &'static str) {
        match self {
            Feature::Operator => ("operators", "joins commands with an operator"),
            Feature::Background => ("background", "starts a background command with &"),
            Feature::Newline => ("newlines", "is several lines"),
            Feature::Redirect => ("redirects", "redirects input or output"),
            Feature::HereDocument => ("here-documents", "feeds text to a command"),
            Feature::Substitution => ("substitutions", "runs a command inside another"),
            Feature::Expansion => (
                "expansions",
                "uses variables or arithmetic that the shell expands",
            ),
            Feature::Glob => (
                "globs",
                "has a pattern that the shell expands to file names",
            ),
            Feature::Brace => ("braces", "has braces that the shell expands"),
            Feature::Tilde => ("tilde", "has a ~ that the shell expands"),
            Feature::Assignment => ("assignments", "sets variables"),
            Feature::Compound => ("compounds", "is a shell construct rather than one command"),
            Feature::Function => ("functions", "defines a function"),
            Feature::Comment => ("comments", "has a shell comment"),
            Feature::Keyword => ("keywords", "begins with a word of the shell itself"),
            Feature::ControlCharacter => ("control-characters", "contains control characters"),
            Feature::Invisible => (
                "invisible-characters",
                "contains characters that a screen does not show as they are",
            ),
        }
    }
}

/// One word of a simple command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    /// Quotes removed; parts that bash would expand stand here as written.
    pub text: String,
    /// Where in `text` the first part begins that only bash knows.
    pub dynamic_from: Option<usize>,
}

impl Word {
    pub fn literal(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            dynamic_from: None,
        }
    }

    /// The part that is certain.
    pub fn known(&self) -> &str {
        &self.text[..self.dynamic_from.unwrap_or(self.text.len())]
    }

    /// A part of this word, from byte `at` on.
    pub fn tail(&self, at: usize) -> Word {
        Word {
            text: self.text[at..].to_owned(),
            dynamic_from: self.dynamic_from.map(|from| from.saturating_sub(at)),
        }
    }
}

/// Joins the pieces of a word and notes what bash would expand.
#[derive(Debug, Default)]
pub struct WordBuilder {
    word: Word,
    started: bool,
    quoted: bool,
    brace_at: Option<usize>,
    previous: Option<char>,
    pub features: Vec<Feature>,
}

impl WordBuilder {
    /// Something that could be a word began, even if it stays empty (`''`).
    pub fn start_quoted(&mut self) {
        self.started = true;
        self.quoted = true;
        self.previous = None;
    }

    pub fn push_quoted(&mut self, c: char) {
        self.start_quoted();
        self.word.text.push(c);
    }

    pub fn push_bare(&mut self, c: char) {
        let at = self.word.text.len();
        match c {
            '*' | '?' | '[' => self.expands(at, Feature::Glob),
            '~' if at == 0 && !self.started => self.note(Feature::Tilde),
            // bash expands it in words that look like assignments
            '~' if self.word.text.ends_with(['=', ':']) => self.note(Feature::Tilde),
            '{' if self.brace_at.is_none() => self.brace_at = Some(at),
            ',' => self.brace(),
            '.' if self.previous == Some('.') => self.brace(),
            _ => {}
        }
        self.started = true;
        self.previous = Some(c);
        self.word.text.push(c);
    }

    /// A part whose value only bash knows, shown as written.
    pub fn push_dynamic(&mut self, raw: &str, feature: Feature) {
        self.started = true;
        self.expands(self.word.text.len(), feature);
        self.word.text.push_str(raw);
    }

    fn brace(&mut self) {
        if let Some(at) = self.brace_at {
            self.expands(at, Feature::Brace);
        }
    }

    fn expands(&mut self, at: usize, feature: Feature) {
        self.note(feature);
        self.word.dynamic_from = Some(self.word.dynamic_from.map_or(at, |from| from.min(at)));
    }

    fn note(&mut self, feature: Feature) {
        if !self.features.contains(&feature) {
            self.features.push(feature);
        }
    }

    pub fn is_started(&self) -> bool {
        self.started
    }

    /// The finished word, if one was begun; the builder is ready for the next one. Features are kept.
    pub fn take(&mut self) -> Option<(Word, bool)> {
        let word = std::mem::take(&mut self.word);
        let (started, quoted) = (self.started, self.quoted);
        (self.started, self.quoted, self.brace_at, self.previous) = (false, false, None, None);
        started.then_some((word, quoted))
    }
}

/// Words that bash treats as grammar where a command begins.
const RESERVED: &[&str] = &[
    "!", "[[", "]]", "{", "}", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for",
    "function", "if", "in", "select", "then", "time", "until", "while",
];

/// The argv of a text that is one simple command of literal words, and nothing else; `None` for any other text.
pub fn plain(text: &str) -> Option<Vec<String>> {
    let text = text.trim_matches([' ', '\t', '\n']);
    let mut words: Vec<String> = Vec::new();
    let mut builder = WordBuilder::default();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if words.len() > WORDS_MAX {
            // The scan for absurd texts says why not.
            return None;
        }
        match c {
            ' ' | '\t' => {
                if let Some((word, _)) = builder.take() {
                    words.push(word.text);
                }
            }
            '\\' => match chars.next()? {
                '\n' => {}
                // At the end of a trimmed text nobody can tell what was escaped.
                escaped if escaped.is_control() => return None,
                escaped => builder.push_quoted(escaped),
            },
            '\'' => {
                builder.start_quoted();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        inner => builder.push_quoted(inner),
                    }
                }
            }
            '"' => double_quoted(&mut chars, &mut builder)?,
            '$' => match chars.peek() {
                Some('\'') => {
                    chars.next();
                    let mut raw = String::new();
                    loop {
                        match chars.next()? {
                            '\'' => break,
                            '\\' => raw.extend(['\\', chars.next()?]),
                            inner => raw.push(inner),
                        }
                    }
                    builder.start_quoted();
                    for inner in ansi_c(&raw)?.chars() {
                        builder.push_quoted(inner);
                    }
                }
                None | Some(' ' | '\t') => builder.push_quoted('$'),
                Some(_) => return None,
            },
            '|' | '&' | ';' | '<' | '>' | '(' | ')' | '`' | '\n' => return None,
            '#' if !builder.is_started() => return None,
            _ if c.is_control() || is_invisible(c) => return None,
            _ => builder.push_bare(c),
        }
    }
    if let Some((word, _)) = builder.take() {
        words.push(word.text);
    }
    let first = words.first()?;
    let is_plain = builder.features.is_empty()
        && !first.is_empty()
        && !RESERVED.contains(&first.as_str())
        && !is_assignment(first)
        && !words
            .iter()
            .any(|word| word.contains('\0') || word.chars().any(is_invisible));
    is_plain.then_some(words)
}

fn double_quoted(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    builder: &mut WordBuilder,
) -> Option<()> {
    builder.start_quoted();
    loop {
        match chars.next()? {
            '"' => return Some(()),
            '`' => return None,
            // A dollar before the closing quote or a blank stands for itself.
            '$' => match chars.peek()? {
                '"' | ' ' => builder.push_quoted('$'),
                _ => return None,
            },
            '\\' => match chars.next()? {
                '\n' => {}
                escaped @ ('$' | '`' | '"' | '\\') => builder.push_quoted(escaped),
                other => {
                    builder.push_quoted('\\');
                    builder.push_quoted(other);
                }
            },
            inner => builder.push_quoted(inner),
        }
    }
}

/// `NAME=`, `NAME+=`, `NAME[…]=` at the start of a word.
pub fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else {
        return false;
    };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split_once('[').map_or(name, |(array, _)| array);
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Characters that mislead whoever reads the command before approving it.
pub fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{e0000}'..='\u{e007f}' | '\u{80}'..='\u{9f}')
}

/// What stands between `$'` and `'`, decoded; `None` where the result is not text or bash would cut it.
pub fn ansi_c(raw: &str) -> Option<String> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        match chars.next()? {
            'a' => bytes.push(7),
            'b' => bytes.push(8),
            'e' | 'E' => bytes.push(27),
            'f' => bytes.push(12),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'v' => bytes.push(11),
            quoted @ ('\\' | '\'' | '"' | '?') => bytes.push(quoted as u8),
            first @ '0'..='7' => {
                let rest = digits(&mut chars, 8, 2);
                let value = u32::from_str_radix(&format!("{first}{rest}"), 8).ok()?;
                bytes.push((value & 0xff) as u8);
            }
            'x' => bytes.push(u8::from_str_radix(&digits(&mut chars, 16, 2), 16).ok()?),
            wide @ ('u' | 'U') => {
                let value = u32::from_str_radix(
                    &digits(&mut chars, 16, if wide == 'u' { 4 } else { 8 }),
                    16,
                )
                .ok()?;
                bytes.extend_from_slice(char::from_u32(value)?.encode_utf8(&mut [0; 4]).as_bytes());
            }
            'c' => {
                let control = chars.next()?;
                bytes.push((control as u32 & 0x1f) as u8);
            }
            other => {
                bytes.push(b'\\');
                bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.contains('\0')).then_some(text)
}

fn digits(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, radix: u32, most: usize) -> String {
    let mut found = String::new();
    while found.len() < most
        && let Some(c) = chars.next_if(|c| c.is_digit(radix))
    {
        found.push(c);
    }
    found
}
