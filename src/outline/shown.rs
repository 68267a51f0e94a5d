//! What a parser is given to read. The same text, but where a grammar's scanner breaks on some texts, and ends the process. Pure.
//!
//! Scanners keep what is open (indents, literals, here-documents) in 1,024 bytes; some write past them, or read back
//! something else than they wrote, and stop the program. Every place in the text stays what it is.

use crate::gate::letters;
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

/// Indents of YAML begin before this column: the scanner holds about 250 of them, and two can begin in one column.
const YAML_COLUMN_MAX: usize = 100;
/// Blanks in a row in Python, a tab as eight: the scanner holds some 380 indents, each wider than the one before.
const PYTHON_BLANKS_MAX: usize = 300;

/// What a grammar's scanner must not see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "some belong to grammars that can be left out")]
pub enum Care {
    None,
    /// bash: `isdigit` of a character beyond ASCII.
    Letters,
    /// Python: more indents than fit.
    Indents,
    /// YAML: the same, also of `- - -` in one line.
    Columns,
    /// Ruby: here-documents with long names, or many of them.
    HereDocuments,
}

/// `None` where the text cannot be made harmless.
pub fn shown(care: Care, text: &str) -> Option<Cow<'_, [u8]>> {
    match care {
        Care::None => Some(Cow::Borrowed(text.as_bytes())),
        Care::Letters => Some(Cow::Owned(letters(text))),
        Care::Indents => {
            (widest_blank(text) <= PYTHON_BLANKS_MAX).then_some(text.as_bytes().into())
        }
        Care::Columns => Some(Cow::Owned(without_far_indicators(text))),
        Care::HereDocuments => Some(Cow::Owned(without_here_documents(text))),
    }
}

/// The widest run of blanks, as Python's scanner adds them up: over a line's end after a backslash.
fn widest_blank(text: &str) -> usize {
    let (mut widest, mut width, mut before) = (0, 0usize, b' ');
    for byte in text.bytes() {
        match byte {
            b' ' => width += 1,
            b'\t' => width += 8,
            b'\n' | b'\r' if before == b'\\' || (byte == b'\n' && before == b'\r') => {}
            b'\\' => {}
            _ => width = 0,
        }
        widest = widest.max(width);
        before = byte;
    }
    widest
}

/// Far to the right, what would begin a list or a mapping becomes a letter.
fn without_far_indicators(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    let mut column = 0;
    for byte in &mut bytes {
        column += 1;
        match byte {
            b'\n' | b'\r' => column = 0,
            b'-' | b'?' | b':' if column > YAML_COLUMN_MAX => *byte = b'x',
            _ => {}
        }
    }
    bytes
}

/// No `<<` that could begin a here-document is left: `<<~SQL` becomes the symbol `:xxxxx`, and its lines become comments;
/// one without an end is an operator anyway.
fn without_here_documents(text: &str) -> Vec<u8> {
    let mut last_at: HashMap<&str, usize> = HashMap::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        last_at.insert(line.trim(), at);
        at += line.len();
    }
    let mut bytes = text.as_bytes().to_vec();
    let mut names: VecDeque<&str> = VecDeque::new(); // of here-documents whose lines follow
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        match names.front() {
            Some(name) => {
                if line.trim() == *name {
                    names.pop_front();
                }
                comment_out(&mut bytes[at..end]);
            }
            None => {
                let has_end = |name: &str| last_at.get(name).is_some_and(|line| *line >= end);
                mask_openers(line, &mut bytes[at..end], &mut names, &has_end);
            }
        }
        at = end;
    }
    bytes
}

fn comment_out(line: &mut [u8]) {
    for byte in line.iter_mut().filter(|b| !matches!(b, b'\n' | b'\r')) {
        *byte = b'#';
    }
}

fn mask_openers<'t>(
    line: &'t str,
    bytes: &mut [u8],
    names: &mut VecDeque<&'t str>,
    has_end: &dyn Fn(&str) -> bool,
) {
    let mut from = 0;
    while let Some(found) = line[from..].find("<<") {
        let start = from + found;
        from = start + 2;
        let after = line[from..].trim_start_matches(['-', '~']);
        let quote = after.chars().next().filter(|c| "\"'`".contains(*c));
        let word = &after[usize::from(quote.is_some())..];
        let length = match quote {
            Some(quote) => word.find(quote),
            None => word.find(|c: char| !c.is_alphanumeric() && c != '_'),
        };
        let name = &word[..length.unwrap_or(word.len())];
        if name.is_empty() && quote.is_none() {
            continue; // an operator in the scanner's eyes too
        }
        bytes[start..from].fill(b'*');
        if has_end(name) {
            from = line.len() - word.len() + name.len() + usize::from(quote.is_some());
            from = from.min(line.len());
            bytes[start] = b':';
            bytes[start + 1..from].fill(b'x');
            names.push_back(name);
        }
    }
}
