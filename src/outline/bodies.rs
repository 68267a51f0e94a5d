//! Blocks that hold nothing an outline names: most of a text, which then need not be parsed. Pure.
//!
//! Brackets, literals, comments and a few words are enough to tell, without a grammar. Emptied, such a block is still a
//! block: all around it is read as before. Where brackets do not match, nothing is left out.

use std::ops::Range;

/// How a language writes what is no code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "some belong to grammars that can be left out")]
pub enum Blocks {
    /// `#` begins a line for the preprocessor, which may also define something.
    C,
    /// `` `…` `` is a literal.
    Go,
    /// `"""…"""` is a literal.
    Java,
    /// So is `r#"…"#`; a comment may hold another, and `'a` is a lifetime.
    Rust,
}

impl Blocks {
    /// A block with one of these words may hold an item, and so may a block behind one.
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::C => &["typedef"],
            Self::Go => &["interface"],
            Self::Java => &["class", "enum", "interface", "record", "throws"],
            Self::Rust => &[
                "const",
                "enum",
                "extern",
                "fn",
                "impl",
                "macro_rules",
                "mod",
                "static",
                "struct",
                "trait",
                "type",
                "union",
            ],
        }
    }

    /// Members need no word of their own: then statements are what stands in braces behind `)`.
    fn has_bare_members(self) -> bool {
        matches!(self, Self::C | Self::Java)
    }
}

/// Words that make no name of the parenthesis or the braces behind them.
const CONTROL: [&str; 10] = [
    "catch",
    "do",
    "else",
    "finally",
    "for",
    "if",
    "switch",
    "synchronized",
    "try",
    "while",
];

/// The insides of the largest such blocks, in their order. `None` where brackets or quotes do not match.
fn plain(text: &[u8], blocks: Blocks) -> Option<Vec<Range<usize>>> {
    let mut reader = Reader {
        blocks,
        open: Vec::new(),
        parentheses: Vec::new(),
        found: Vec::new(),
        last: Last::Other,
    };
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        at += match no_code(blocks, rest)? {
            0 => reader.read(at, rest)?,
            length => length,
        };
    }
    let is_whole = reader.open.is_empty() && reader.parentheses.is_empty();
    is_whole.then_some(reader.found)
}

/// A text without these insides.
pub struct Short {
    pub bytes: Vec<u8>,
    /// From which of its bytes on how many of the text are missing.
    missing: Vec<(usize, usize)>,
}

impl Short {
    /// `None` where nothing can be left out.
    pub fn of(text: &[u8], blocks: Blocks) -> Option<Self> {
        let insides = plain(text, blocks).filter(|insides| !insides.is_empty())?;
        let mut bytes = Vec::new();
        let mut missing = Vec::new();
        let mut from = 0;
        for inside in insides {
            bytes.extend_from_slice(&text[from..inside.start]);
            from = inside.end;
            missing.push((bytes.len(), from - bytes.len()));
        }
        bytes.extend_from_slice(&text[from..]);
        Some(Self { bytes, missing })
    }

    /// Where a byte of it stands in the text.
    pub fn place(&self, at: usize) -> usize {
        let before = self.missing.partition_point(|(from, _)| *from <= at);
        match before.checked_sub(1) {
            Some(last) => at + self.missing[last].1,
            None => at,
        }
    }
}

/// What was read last, but for blanks and comments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Name,
    /// One of the words that an item may begin with.
    Item,
    /// `)`, and whether a name stands before its `(`.
    Parenthesis(bool),
    Other,
}

/// A block that is open.
struct Open {
    /// Its first byte inside.
    start: usize,
    /// How many blocks were found before it.
    before: usize,
    holds_items: bool,
    /// Nothing else misses what is in it.
    can_be_empty: bool,
}

struct Reader {
    blocks: Blocks,
    open: Vec<Open>,
    /// Whether a name stands before each that is open.
    parentheses: Vec<bool>,
    found: Vec<Range<usize>>,
    last: Last,
}

impl Reader {
    /// Reads a word or a sign: its length.
    fn read(&mut self, at: usize, rest: &[u8]) -> Option<usize> {
        let mut length = 1;
        self.last = match rest[0] {
            blank if blank.is_ascii_whitespace() => self.last,
            b'(' => {
                self.parentheses.push(self.last == Last::Name);
                Last::Other
            }
            b')' => Last::Parenthesis(self.parentheses.pop()?),
            b'{' => {
                self.begins(at + 1);
                Last::Other
            }
            b'}' => {
                self.ends(at)?;
                Last::Other
            }
            b'#' if self.blocks == Blocks::C => {
                self.holds_item();
                length = preprocessed(rest);
                Last::Other
            }
            byte if is_word(byte) => {
                length = rest.iter().take_while(|byte| is_word(**byte)).count();
                self.word(&rest[..length])
            }
            _ => Last::Other,
        };
        Some(length)
    }

    fn begins(&mut self, start: usize) {
        let is_bare = self.blocks.has_bare_members();
        if is_bare && matches!(self.last, Last::Name | Last::Parenthesis(true)) {
            self.holds_item();
        }
        self.open.push(Open {
            start,
            before: self.found.len(),
            holds_items: self.last == Last::Item,
            can_be_empty: !is_bare || matches!(self.last, Last::Parenthesis(_)),
        });
    }

    fn ends(&mut self, end: usize) -> Option<()> {
        let block = self.open.pop()?;
        match block {
            Open {
                holds_items: true, ..
            } => self.holds_item(),
            Open {
                can_be_empty: true, ..
            } => {
                self.found.truncate(block.before);
                self.found.push(block.start..end);
            }
            _ => {}
        }
        Some(())
    }

    fn word(&mut self, word: &[u8]) -> Last {
        let is_one_of = |words: &[&str]| words.iter().any(|other| other.as_bytes() == word);
        if is_one_of(self.blocks.words()) {
            self.holds_item();
            return Last::Item;
        }
        match is_one_of(&CONTROL) {
            true => Last::Other,
            false => Last::Name,
        }
    }

    fn holds_item(&mut self) {
        if let Some(block) = self.open.last_mut() {
            block.holds_items = true;
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The length of the comment or literal that begins here, 0 where there is none. `None` where it does not end.
fn no_code(blocks: Blocks, rest: &[u8]) -> Option<usize> {
    let nests = blocks == Blocks::Rust;
    match rest[0] {
        b'/' if rest.starts_with(b"//") => Some(line(rest)),
        b'/' if rest.starts_with(b"/*") => comment(rest, nests),
        b'"' if blocks == Blocks::Java && rest.starts_with(b"\"\"\"") => until(rest, 3, b"\"\"\""),
        b'"' => string(rest),
        b'`' if blocks == Blocks::Go => until(rest, 1, b"`"),
        b'\'' => Some(character(rest)),
        b'r' | b'b' | b'c' if nests => raw(rest),
        _ => Some(0),
    }
}

fn line(rest: &[u8]) -> usize {
    let end = rest.iter().position(|byte| *byte == b'\n');
    end.unwrap_or(rest.len())
}

/// A line, and those that it goes on in.
fn preprocessed(rest: &[u8]) -> usize {
    let mut length = 0;
    for line in rest.split_inclusive(|byte| *byte == b'\n') {
        length += line.len();
        if !line.trim_ascii_end().ends_with(b"\\") {
            break;
        }
    }
    length
}

fn comment(rest: &[u8], nests: bool) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(two) = rest.get(at..at + 2) {
        match two {
            b"/*" if nests || depth == 0 => depth += 1,
            b"*/" if depth == 1 => return Some(at + 2),
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
    }
    None
}

fn string(rest: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match rest.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// `'a'`, `'\u{61}'`; of anything else (a lifetime, a loop's name) the sign alone.
fn character(rest: &[u8]) -> usize {
    /// `'\u{10ffff}'`
    const LENGTH_MAX: usize = 12;
    let is_end = |at: &usize| rest.get(*at) == Some(&b'\'');
    let end = match rest.get(1) {
        Some(b'\\') => (3..LENGTH_MAX).find(is_end),
        Some(first) => {
            let length = match first {
                0xf0.. => 4,
                0xe0.. => 3,
                0xc0.. => 2,
                _ => 1,
            };
            Some(1 + length).filter(is_end)
        }
        None => None,
    };
    end.map_or(1, |end| end + 1)
}

/// `r"…"`, `br#"…"#`; 0 for a word that begins so.
fn raw(rest: &[u8]) -> Option<usize> {
    let prefix = match rest {
        [b'r', ..] => 1,
        [b'b' | b'c', b'r', ..] => 2,
        _ => return Some(0),
    };
    let marks = &rest[prefix..];
    let hashes = marks.iter().take_while(|byte| **byte == b'#').count();
    if marks.get(hashes) != Some(&b'"') {
        return Some(0);
    }
    let end = [b"\"", "#".repeat(hashes).as_bytes()].concat();
    until(rest, prefix + hashes + 1, &end)
}

/// Up to after these bytes, looked for from a place on.
fn until(rest: &[u8], from: usize, end: &[u8]) -> Option<usize> {
    let inside = rest.get(from..)?;
    let at = inside.windows(end.len()).position(|bytes| bytes == end)?;
    Some(from + at + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(text: &str, blocks: Blocks) -> Option<String> {
        let short = Short::of(text.as_bytes(), blocks)?;
        for (at, byte) in short.bytes.iter().enumerate() {
            assert_eq!(text.as_bytes()[short.place(at)], *byte, "{at}");
        }
        Some(String::from_utf8(short.bytes).expect("whole characters"))
    }

    #[test]
    fn only_what_holds_no_item_is_left_out() {
        let rust = "fn a<'b>(c: &'b str) { d('{', \"}\", r#\"\"}\"#, b'}') /* { /* } */ */ }\nmod e { fn f() { g() } }\n";
        assert_eq!(
            short(rust, Blocks::Rust).as_deref(),
            Some("fn a<'b>(c: &'b str) {}\nmod e { fn f() {} }\n")
        );
        let c = "#define A(b) { \\\n  b\n\nint c(void) { if (d) { e(); } }\nstruct f { int g; };\nint h(void) { struct i { int j; } k; }\n";
        assert_eq!(
            short(c, Blocks::C).as_deref(),
            Some(c.replace("{ if (d) { e(); } }", "{}").as_str())
        );
        let java =
            "class A { void b() { new C() { void d() throws E { f(); } }; } void g() { h(); } }";
        assert_eq!(
            short(java, Blocks::Java).as_deref(),
            Some(java.replace("{ h(); }", "{}").as_str())
        );
    }

    #[test]
    fn what_does_not_match_is_left_as_it_is() {
        for text in [
            "fn a() {",
            "fn a() {}}",
            "fn a() { \" }",
            "/* { }",
            "r##\"{}\"#",
            "(",
            "{)}",
        ] {
            assert!(short(text, Blocks::Rust).is_none(), "{text}");
        }
    }
}
