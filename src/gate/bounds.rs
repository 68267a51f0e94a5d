//! What the gate is willing to read: every limit on a hostile command in one place, in units of work rather than of time.
//!
//! A text is weighed by a linear scan before the parser is asked, because some texts cost it a second (deep nesting, thousands of
//! operators). The scan only roughly follows quotes and here-documents: it can refuse, never let through. What it misses meets
//! the [`Budget`], which one judgement spends over all texts, those inside `bash -c` and `eval` too.

use crate::gate::shell::Unreadable;
use std::ops::ControlFlow;
use tree_sitter::{ParseOptions, Parser, Tree};

/// Longer texts are refused unread.
pub const COMMAND_MAX_BYTES: usize = 64 * 1024;
/// Words, operators, quotes and expansions of one text, as the scan counts them: nobody reads more before approving it.
const MARKS_MAX: usize = 1024;
/// A word or a run of blanks counts once more for so many bytes.
const RUN_BYTES_A_MARK: usize = 32;
/// Brackets open at once, where the scan takes them for the shell's.
const NESTING_MAX: usize = 40;
/// Brackets open at once wherever they stand, also in what looks like quotes: what the scan mistakes must stay cheap as well.
const NESTING_ANYWHERE_MAX: usize = 400;
/// Steps of the parser (about a hundred operations each) for all texts of one judgement.
const PARSE_MAX_STEPS: usize = 60;
/// How the parser is given a text, and how much of it altogether, repetitions counted (3 times the longest text).
const READ_CHUNK_BYTES: usize = 512;
const READ_MAX_CHUNKS: usize = 3 * COMMAND_MAX_BYTES / READ_CHUNK_BYTES;
/// Texts that are parsed for one judgement, and their length altogether.
const TEXTS_MAX: usize = 64;
const TEXTS_MAX_BYTES: usize = 2 * COMMAND_MAX_BYTES;
/// Words and commands of one judgement.
pub const WORDS_MAX: usize = 2048;
const COMMANDS_MAX: usize = 256;
/// Paths that one judgement looks up.
pub const PATHS_MAX: usize = 2048;
/// Longer paths can't be opened: they are not looked up either.
pub const PATH_MAX_BYTES: usize = 4096;
/// Findings of one kind that are told; more of them change nothing.
pub const REASONS_MAX: usize = 32;

/// What one judgement may still spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    parse_steps: usize,
    chunks: usize,
    texts: usize,
    bytes: usize,
    words: usize,
    commands: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            parse_steps: PARSE_MAX_STEPS,
            chunks: READ_MAX_CHUNKS,
            texts: TEXTS_MAX,
            bytes: TEXTS_MAX_BYTES,
            words: WORDS_MAX,
            commands: COMMANDS_MAX,
        }
    }
}

impl Budget {
    /// One more text of this length.
    pub fn take_text(&mut self, bytes: usize) -> Result<(), Unreadable> {
        self.texts = spend(self.texts, 1)?;
        self.bytes = spend(self.bytes, bytes)?;
        Ok(())
    }

    /// One more command of so many words.
    pub fn take_command(&mut self, words: usize) -> Result<(), Unreadable> {
        self.commands = spend(self.commands, 1)?;
        self.words = spend(self.words, words)?;
        Ok(())
    }
}

fn spend(left: usize, spent: usize) -> Result<usize, Unreadable> {
    left.checked_sub(spent).ok_or(Unreadable::TooMuch)
}

/// The parse tree of a text that is valid and not absurd.
pub fn parse(text: &str, budget: &mut Budget) -> Result<Tree, Unreadable> {
    weigh(text)?;
    let mut parser = Parser::new();
    parser
        .set_language(&tree_sitter_bash::LANGUAGE.into())
        .map_err(|_| Unreadable::Unparsable)?;
    let letters = letters(text);
    let bytes = letters.as_slice();
    let mut is_over = false;
    let mut within_limit = |state: &tree_sitter::ParseState| {
        budget.parse_steps = budget.parse_steps.saturating_sub(1);
        is_over = budget.parse_steps == 0;
        // Recovering from errors is what costs most, and what has errors is refused anyway.
        match is_over || state.has_error() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    // Some texts are scanned to their end for every token, between two steps: then the text ends early, and does not parse.
    let chunks_left = &mut budget.chunks;
    let mut chunk = |at: usize, _| {
        *chunks_left = chunks_left.saturating_sub(1);
        let end = (at + READ_CHUNK_BYTES).min(bytes.len());
        match *chunks_left {
            0 => &[],
            _ => bytes.get(at..end).unwrap_or_default(),
        }
    };
    let options = ParseOptions::new().progress_callback(&mut within_limit);
    let tree = parser.parse_with_options(&mut chunk, None, Some(options));
    match tree {
        _ if is_over || budget.chunks == 0 => Err(Unreadable::TooMuch),
        Some(tree) if !tree.root_node().has_error() => Ok(tree),
        Some(_) | None => Err(Unreadable::Unparsable),
    }
}

/// The text as tree-sitter-bash may see it. The grammar's scanner asks C's `isdigit` about any character, which ends the
/// process for some (U+1F600 after a `{`). In the shell they are all letters of words; as letters they keep every place in
/// the text, and can only make it look like more.
pub fn letters(text: &str) -> Vec<u8> {
    text.bytes()
        .map(|byte| if byte.is_ascii() { byte } else { b'x' })
        .collect()
}

/// A cheap look at how much there is to parse, and how deep.
fn weigh(text: &str) -> Result<(), Unreadable> {
    let bytes = text.as_bytes();
    if deepest(bytes) > NESTING_ANYWHERE_MAX {
        return Err(Unreadable::TooDeep);
    }
    let mut scan = Scan {
        bytes,
        at: 0,
        marks: 0,
        depth: 0,
        pending: Vec::new(),
    };
    while scan.at < bytes.len() {
        scan.step();
        if scan.marks > MARKS_MAX {
            return Err(Unreadable::TooMuch);
        }
        if scan.depth > NESTING_MAX {
            return Err(Unreadable::TooDeep);
        }
    }
    Ok(())
}

/// Brackets open at once, as if nothing were quoted.
fn deepest(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    for byte in bytes {
        match byte {
            b'(' | b'{' | b'[' => depth += 1,
            b')' | b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    marks: usize,
    depth: usize,
    /// Here-documents whose bodies begin on the next line: delimiter, and whether their text is literal.
    pending: Vec<(Vec<u8>, bool)>,
}

impl Scan<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// One mark of the text: a word's plain part, a quoted part, an operator.
    fn step(&mut self) {
        let byte = self.bytes[self.at];
        self.at += 1;
        match byte {
            b' ' | b'\t' => return self.skip_run(|byte| matches!(byte, b' ' | b'\t')),
            b'\\' => self.at += 1,
            b'\'' => self.skip_past(b'\''),
            b'"' => self.double_quoted(),
            b'$' if self.peek(0) == b'\'' => {
                self.at += 1;
                self.ansi_quoted();
            }
            b'(' | b'{' | b'[' => self.depth += 1,
            b')' | b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b'<' if self.peek(0) == b'<' && self.peek(1) != b'<' => self.here_document(),
            b'<' if self.peek(0) == b'<' => self.at += 2,
            b'\n' => self.bodies(),
            b'#' if self.at < 2 || self.bytes[self.at - 2].is_ascii_whitespace() => {
                self.skip_past(b'\n');
                self.at -= usize::from(self.at < self.bytes.len());
            }
            b'|' | b'&' | b';' | b'<' | b'>' | b'$' | b'`' => {}
            _ => {
                const ENDS: &[u8] = b" \t\n\\'\"$(){}[]<>|&;`";
                self.skip_run(|byte| !ENDS.contains(&byte));
            }
        }
        self.marks += 1;
    }

    /// A run of one kind of character. A long one counts for several marks: the parser reads it again and again.
    fn skip_run(&mut self, belongs: impl Fn(u8) -> bool) {
        let rest = &self.bytes[self.at..];
        let length = rest
            .iter()
            .position(|byte| !belongs(*byte))
            .unwrap_or(rest.len());
        self.at += length;
        self.marks += length / RUN_BYTES_A_MARK;
    }

    fn skip_past(&mut self, byte: u8) {
        let rest = &self.bytes[self.at.min(self.bytes.len())..];
        self.at += rest
            .iter()
            .position(|other| *other == byte)
            .map_or(rest.len(), |found| found + 1);
    }

    fn ansi_quoted(&mut self) {
        while self.at < self.bytes.len() {
            let byte = self.bytes[self.at];
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'\'' => return,
                _ => {}
            }
        }
    }

    /// Up to the closing quote, or to an expansion: what is inside that is counted like the rest of the text.
    fn double_quoted(&mut self) {
        while self.at < self.bytes.len() {
            let byte = self.bytes[self.at];
            match byte {
                b'"' => {
                    self.at += 1;
                    return;
                }
                b'\\' => self.at += 2,
                b'`' => return,
                b'$' if matches!(self.peek(1), b'(' | b'{') => return,
                b'$' => {
                    self.marks += 1;
                    self.at += 1;
                }
                _ => self.at += 1,
            }
        }
    }

    fn here_document(&mut self) {
        self.at += 1 + usize::from(self.peek(1) == b'-');
        while matches!(self.peek(0), b' ' | b'\t') {
            self.at += 1;
        }
        let from = self.at;
        while !matches!(
            self.peek(0),
            0 | b' ' | b'\t' | b'\n' | b';' | b'|' | b'&' | b'<' | b'>' | b'(' | b')'
        ) {
            self.at += 1;
        }
        let written = &self.bytes[from.min(self.bytes.len())..self.at.min(self.bytes.len())];
        let plain: Vec<u8> = written
            .iter()
            .copied()
            .filter(|byte| !matches!(byte, b'\'' | b'"' | b'\\'))
            .collect();
        let is_literal = plain.len() < written.len();
        self.pending.push((plain, is_literal));
    }

    /// The bodies of the here-documents that were announced on the line that ends here.
    fn bodies(&mut self) {
        for (delimiter, is_literal) in std::mem::take(&mut self.pending) {
            while self.at < self.bytes.len() {
                let from = self.at;
                self.skip_past(b'\n');
                let line = self.bytes[from..self.at].trim_ascii();
                if line == delimiter {
                    break;
                }
                if !is_literal {
                    self.marks += line
                        .iter()
                        .filter(|byte| matches!(byte, b'$' | b'`'))
                        .count();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What cost up to half a second is refused before the parser has taken a step or read a byte.
    #[test]
    fn absurd_texts_never_reach_the_parser() {
        for unit in [
            "${x",
            "${!",
            "${#",
            "[[ a == ",
            "function f ",
            "ls | ",
            "<<E ",
            "while a; do ",
            "$(",
            "a \\\n",
            "|& ",
            "time ",
        ] {
            let mut budget = Budget::default();
            let filled = unit.repeat(65_000 / unit.len());
            for text in [format!("echo {filled}"), format!("# it's\n{filled}")] {
                let refused = parse(&text, &mut budget).err();
                assert!(
                    matches!(refused, Some(Unreadable::TooDeep | Unreadable::TooMuch)),
                    "{unit:?}"
                );
            }
            assert_eq!(budget, Budget::default(), "{unit:?}");
        }
    }

    #[test]
    fn all_texts_of_a_judgement_share_one_budget() {
        let mut budget = Budget::default();
        let text = "ls | wc; ".repeat(100);
        let parsed = (0..TEXTS_MAX)
            .take_while(|_| parse(&text, &mut budget).is_ok())
            .count();
        assert!((1..TEXTS_MAX).contains(&parsed), "{parsed} texts");
    }
}
