//! What has a name in a text, by the grammar and the query of its language. Pure.
//!
//! In a query, `@item` is the whole thing. Its signature is `@name` where there is one, else what goes up to the end of
//! `@last` or to the start of `@body`, else all of it. Captures that begin with `_` are for predicates.

use super::bodies::Short;
use super::languages::{Language, Style};
use super::shown::shown;
use super::{ITEMS_MAX, Item, Over, SIGNATURE_CHARS_MAX, parts, shortened};
use std::cell::Cell;
use std::ops::{ControlFlow, Range};
use std::thread::{self, ScopedJoinHandle};
use tree_sitter::{
    ParseOptions, Parser, QueryCursor, QueryCursorOptions, QueryMatch, StreamingIterator, Tree,
};

/// Matches of a query that are unfinished at once; a text that needs more loses some.
const UNFINISHED_MATCHES_MAX: u32 = 4_096;

/// How a parser is given the text.
const CHUNK_BYTES: usize = 4_096;

pub struct Parsed {
    pub items: Vec<Item>,
    pub has_errors: bool,
}

/// `None` where it takes too long, or would break the parser.
pub fn items(language: &Language, text: &str, is_over: Over<'_>) -> Option<Parsed> {
    let bytes = shown(language.care, text)?;
    let wanted = match language.is_flat {
        true => parts::worth(text.len()),
        false => 1,
    };
    let mut read = read_in_parts(language, &bytes, text, wanted, is_over)
        .or_else(|| read(language, &bytes, text, is_over))?;
    in_reading_order(&mut read.found);
    Some(Parsed {
        items: nest(language, &read.found, text),
        has_errors: read.has_errors,
    })
}

/// Outer ones first; of several matches for one thing, the one with the shortest signature.
fn in_reading_order(found: &mut Vec<Found>) {
    found.sort_by_key(|f| (f.bytes.start, usize::MAX - f.bytes.end, f.signature.len()));
    found.dedup_by(|b, a| a.bytes == b.bytes);
}

/// What a parser and a query made of a text.
struct Read {
    found: Vec<Found>,
    has_errors: bool,
}

fn read(language: &Language, bytes: &[u8], text: &str, is_over: Over<'_>) -> Option<Read> {
    read_without_bodies(language, bytes, is_over)
        .or_else(|| read_whole(language, bytes, text, is_over))
}

fn read_whole(language: &Language, bytes: &[u8], text: &str, is_over: Over<'_>) -> Option<Read> {
    let tree = parse(language, bytes, is_over)?;
    Some(Read {
        found: search(language, &tree, text.as_bytes(), is_over)?,
        has_errors: tree.root_node().has_error(),
    })
}

/// The same from a fraction of the text. `None` where that has errors: what was left out may not have been what it looked like.
fn read_without_bodies(language: &Language, bytes: &[u8], is_over: Over<'_>) -> Option<Read> {
    let short = Short::of(bytes, language.blocks?)?;
    let tree = parse(language, &short.bytes, is_over)?;
    if tree.root_node().has_error() {
        return None;
    }
    let found = search(language, &tree, &short.bytes, is_over)?.into_iter();
    Some(Read {
        found: found.map(|one| one.moved(|at| short.place(at))).collect(),
        has_errors: false,
    })
}

/// The same, by several threads. `None` where the text cannot be cut, or a part has errors: it may have been cut within
/// something.
fn read_in_parts(
    language: &Language,
    bytes: &[u8],
    text: &str,
    wanted: usize,
    is_over: Over<'_>,
) -> Option<Read> {
    if wanted < 2 {
        return None;
    }
    let ranges = parts::cut(text, wanted);
    let (first, others) = ranges.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let one = |range: &Range<usize>| {
        let part = read(
            language,
            &bytes[range.clone()],
            &text[range.clone()],
            is_over,
        )?;
        (!part.has_errors).then_some(part.found)
    };
    let parts = thread::scope(|scope| {
        let start = |range| thread::Builder::new().spawn_scoped(scope, move || one(range));
        let running: Vec<_> = others.iter().map(start).collect::<Result<_, _>>().ok()?;
        let first = one(first);
        let ended = running.into_iter().map(ScopedJoinHandle::join);
        let others = ended.map(|found| found.ok().flatten());
        std::iter::once(first)
            .chain(others)
            .collect::<Option<Vec<_>>>()
    })?;
    let mut found = Vec::new();
    for (part, range) in parts.into_iter().zip(&ranges) {
        let moved = |one: Found| one.moved(|at| at + range.start);
        found.extend(part.into_iter().map(moved));
    }
    found.truncate(ITEMS_MAX);
    Some(Read {
        found,
        has_errors: false,
    })
}

fn parse(language: &Language, bytes: &[u8], is_over: Over<'_>) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&language.grammar()).ok()?;
    let stopped = Cell::new(false);
    let mut deadline = |_: &tree_sitter::ParseState| {
        stopped.set(stopped.get() || is_over());
        stop_if(stopped.get())
    };
    // Some scanners look for a mark up to the text's end, for every token, between two reports: then the text ends early.
    let mut chunk = |at: usize, _| {
        stopped.set(stopped.get() || is_over());
        let end = (at + CHUNK_BYTES).min(bytes.len());
        match stopped.get() {
            true => &[],
            false => bytes.get(at..end).unwrap_or_default(),
        }
    };
    let options = ParseOptions::new().progress_callback(&mut deadline);
    let tree = parser.parse_with_options(&mut chunk, None, Some(options));
    tree.filter(|_| !stopped.get())
}

fn stop_if(over: bool) -> ControlFlow<()> {
    match over {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

/// A match: the bytes of the thing, and of its signature.
struct Found {
    bytes: Range<usize>,
    signature: Range<usize>,
}

impl Found {
    /// To where its bytes stand in the whole text.
    fn moved(self, place: impl Fn(usize) -> usize) -> Self {
        let moved = |range: Range<usize>| place(range.start)..place(range.end);
        Self {
            bytes: moved(self.bytes),
            signature: moved(self.signature),
        }
    }
}

fn search(language: &Language, tree: &Tree, text: &[u8], is_over: Over<'_>) -> Option<Vec<Found>> {
    let query = language.query()?;
    let mut cursor = QueryCursor::new();
    cursor.set_match_limit(UNFINISHED_MATCHES_MAX);
    let mut stopped = false;
    let mut found: Vec<Found> = Vec::new();
    {
        let mut deadline = |_: &tree_sitter::QueryCursorState| {
            stopped = stopped || is_over();
            stop_if(stopped)
        };
        let options = QueryCursorOptions::new().progress_callback(&mut deadline);
        let mut matches = cursor.matches_with_options(query, tree.root_node(), text, options);
        let names = query.capture_names();
        while let Some(one) = matches.next() {
            found.extend(finding(one, names));
            if found.len() >= ITEMS_MAX {
                break;
            }
        }
    }
    (!stopped).then_some(found)
}

fn finding(one: &QueryMatch<'_, '_>, names: &[&str]) -> Option<Found> {
    let capture = |name: &str| {
        let mut all = one.captures().iter();
        all.find(|c| names[c.index as usize] == name)
            .map(|c| c.node)
    };
    let item = capture("item")?;
    let whole = item.byte_range();
    let signature = match (capture("name"), capture("last"), capture("body")) {
        (Some(name), _, _) => name.byte_range(),
        (None, Some(last), _) => whole.start..last.end_byte(),
        (None, None, Some(body)) => whole.start..body.start_byte(),
        (None, None, None) => whole.clone(),
    };
    Some(Found {
        bytes: whole,
        signature,
    })
}

fn nest(language: &Language, found: &[Found], text: &str) -> Vec<Item> {
    let mut open: Vec<usize> = Vec::new();
    let line_ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let line = |at: usize| line_ends.partition_point(|end| *end < at) + 1;
    let item = |one: &Found| {
        while open.last().is_some_and(|end| *end <= one.bytes.start) {
            open.pop();
        }
        let depth = open.len();
        open.push(one.bytes.end);
        let bytes = text.as_bytes().get(one.signature.clone());
        let text = String::from_utf8_lossy(bytes.unwrap_or_default());
        Item {
            first: line(one.bytes.start),
            // What ends with its line's end ends on that line.
            last: line(one.bytes.end.saturating_sub(1).max(one.bytes.start)),
            depth,
            text: signature(&text, language.style),
        }
    };
    found.iter().map(item).collect()
}

/// In one line, without what opens the body.
fn signature(text: &str, style: Style) -> String {
    let text = match style {
        Style::Plain => text,
        Style::Line => statement(text),
        Style::Attributed => without_attributes(text),
    };
    let mut short = String::new();
    for word in text.split_whitespace() {
        if !short.is_empty() {
            short.push(' ');
        }
        short.push_str(word);
        if short.len() > SIGNATURE_CHARS_MAX * 4 {
            break; // four bytes a character at most
        }
    }
    let short = short.strip_suffix("=>").unwrap_or(&short);
    shortened(short.trim_end_matches(['{', ':', '=', ' ', ';', ',']))
}

/// The first line, and those after it as long as a bracket is open.
fn statement(text: &str) -> &str {
    let mut open = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            '\n' if open == 0 => return &text[..at],
            _ => {}
        }
    }
    text
}

/// Without `@Override`, `@Path("/a")`, `[HttpGet]`, `#[Route]` at the beginning; `[Symbol.iterator]()` is none.
fn without_attributes(text: &str) -> &str {
    let mut rest = text;
    while (rest.starts_with('@') && !rest.starts_with("@interface"))
        || rest.starts_with('[')
        || rest.starts_with("#[")
    {
        let after = past_attribute(rest).trim_start();
        match after.chars().next() {
            Some(c) if c.is_alphabetic() || matches!(c, '_' | '@' | '[' | '#') => rest = after,
            _ => return rest,
        }
    }
    rest
}

fn past_attribute(text: &str) -> &str {
    let is_annotation = text.starts_with('@');
    let mut open = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => open += 1,
            ']' if open == 1 && !is_annotation => return &text[at + 1..],
            ')' | ']' => open = open.saturating_sub(1),
            c if is_annotation && open == 0 && c.is_whitespace() => return &text[at..],
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::super::languages;
    use super::*;

    fn in_one(language: &Language, text: &str) -> Option<Vec<Item>> {
        let read = read_whole(language, text.as_bytes(), text, &|| false)?;
        Some(in_order(language, read, text))
    }

    fn without_bodies(language: &Language, text: &str) -> Option<Vec<Item>> {
        let read = read_without_bodies(language, text.as_bytes(), &|| false)?;
        Some(in_order(language, read, text))
    }

    fn in_order(language: &Language, mut read: Read, text: &str) -> Vec<Item> {
        in_reading_order(&mut read.found);
        nest(language, &read.found, text)
    }

    fn in_parts(language: &Language, text: &str, parts: usize) -> Option<Vec<Item>> {
        let read = read_in_parts(language, text.as_bytes(), text, parts, &|| false)?;
        Some(in_order(language, read, text))
    }

    /// What may open and close around a cut.
    const PIECES: &[(&str, &[&str])] = &[
        (
            "a.rs",
            &[
                "fn a() {\n    b()\n}\n",
                "\n\n",
                "mod c {\n",
                "}\n",
                "r#\"\n",
                "\"#;\n",
                "/*\n",
                "*/\n",
                "/// d\n",
                "struct E {\n    f: u8,\n}\n",
                "const G: &str = \"\n",
                "#[test]\n",
                "impl E {\n",
                "use h::{\n",
                "};\n",
            ],
        ),
        (
            "a.py",
            &[
                "def a(b):\n    return b\n",
                "\n\n",
                "class C:\n    def d(self):\n        pass\n",
                "\"\"\"\n",
                "'''\n",
                "E = [\n",
                "]\n",
                "@f\n",
                "if g:\n",
                "else:\n",
                "    h()\n",
                "I = 1\n",
                "try:\n",
                "x = \\\n",
                "async ",
            ],
        ),
        (
            "a.ts",
            &[
                "function a(b: number) {\n  return b;\n}\n",
                "\n\n",
                "class C {\n  d() {}\n",
                "}\n",
                "`\n",
                "`;\n",
                "/*\n",
                "*/\n",
                "const e = (\n",
                ");\n",
                "interface F { g: string }\n",
                "export default ",
                "@h\n",
                "else ",
                "j\n",
            ],
        ),
        (
            "a.go",
            &[
                "func a() {\n\tb()\n}\n",
                "\n\n",
                "package c\n",
                "type D struct {\n",
                "}\n",
                "`\n",
                "/*\n",
                "*/\n",
                "var (\n",
                "\te = 1\n",
                ")\n",
                "// f\n",
                "const g = `\n",
                "else {\n",
                "if h {\n",
            ],
        ),
    ];

    #[test]
    fn in_parts_it_is_what_it_is_in_one_or_nothing() {
        let mut random = 1u64;
        let mut next = |below: usize| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(random >> 33).unwrap() % below
        };
        for (name, pieces) in PIECES {
            let Some(language) = languages::of(name, "") else {
                continue; // a build without this grammar
            };
            assert!(language.is_flat, "{name}");
            let mut compared = 0;
            for _ in 0..1_500 {
                let count = 2 + next(12);
                let mut text = String::new();
                for _ in 0..count {
                    text.push_str(pieces[next(pieces.len() * 3).saturating_sub(pieces.len() * 2)]);
                    text.push_str(["", "\n"][next(2)]);
                }
                if let Some(items) = in_parts(language, &text, 2 + next(3)) {
                    assert_eq!(Some(items), in_one(language, &text), "{text}");
                    compared += 1;
                }
            }
            assert!(compared > 50, "{name}: {compared}");
        }
    }

    /// Every file below a folder: how many could be read without bodies, and the bytes of all.
    fn same_without_bodies(folder: &std::path::Path) -> (usize, usize) {
        let mut counted = (0, 0);
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() && !path.is_symlink() {
                let (read, bytes) = same_without_bodies(&path);
                counted = (counted.0 + read, counted.1 + bytes);
                continue;
            }
            let name = path.to_string_lossy().to_ascii_lowercase();
            let Ok(text) = std::fs::read_to_string(&path) else {
                continue;
            };
            let Some(language) = languages::of(&name, &text).filter(|l| l.blocks.is_some()) else {
                continue;
            };
            if let Some(items) = without_bodies(language, &text) {
                let whole = in_one(language, &text).expect("a tree");
                assert_eq!(items, whole, "{}", path.display());
                counted = (counted.0 + 1, counted.1 + text.len());
            }
        }
        counted
    }

    #[test]
    fn our_own_sources_are_the_same_without_bodies() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let (files, _) = same_without_bodies(&root.join("src/agent"));
        assert!(files > 50, "{files}");
    }

    /// `OUTLINE_CORPUS=FOLDER cargo test --release --lib -- --ignored a_corpus`: any sources of others.
    #[test]
    #[ignore = "needs a folder with sources"]
    fn a_corpus_is_the_same_without_bodies() {
        let folder = std::env::var_os("OUTLINE_CORPUS").expect("OUTLINE_CORPUS");
        println!("{:?}", same_without_bodies(folder.as_ref()));
    }

    #[test]
    fn bodies_that_hold_items_are_read() {
        let cases = [
            (
                "a.rs",
                "fn a() {\n    if b {\n        fn c() { d() }\n    }\n}\nconst E: F = F { g: '{', h: \"}\" };\nstruct I<'a> {\n    j: &'a str,\n}\n",
            ),
            (
                "a.go",
                "package a\n\nfunc b() {\n\ttype c interface {\n\t\td()\n\t}\n}\n\nfunc e() {\n\tf(`}`, '{')\n}\n",
            ),
            (
                "a.java",
                "class A {\n  void b() throws C {\n    d(new E() {\n      public void f() throws G { h(); }\n    });\n  }\n  void i() { if (j) { k(); } else { l(\"\"\"\n } \"\"\"); } }\n}\nenum M {\n  N(1) { int o() { return 1; } },\n  P { int q() { return 2; } };\n  static final int R = 1;\n}\n",
            ),
            (
                "a.c",
                "#include <a.h>\n#define B(c) { \\\n  d\nstruct e { int (*f)(void); };\nint g(void)\n{\n  struct h { int i; } j;\n  k(\"}\", '{');\n}\nint l(struct e *m)\n{\n#define N 1\n  if (m) { struct e *o = m; }\n}\nstatic int p[] = { 1, 2 };\n",
            ),
        ];
        for (name, text) in cases {
            let Some(language) = languages::of(name, text) else {
                continue; // a build without this grammar
            };
            let items = without_bodies(language, text);
            assert!(items.is_some(), "{name}");
            assert_eq!(items, in_one(language, text), "{name}");
        }
    }

    #[test]
    fn a_cut_within_a_string_is_none() {
        let language = languages::of("a.py", "").expect("Python");
        let text = "A = \"\"\"\n\ndef b(): pass\n\ndef c(): pass\n\ndef d(): pass\n\n\"\"\"\n";
        assert!(in_parts(language, text, 2).is_none());
    }
}
