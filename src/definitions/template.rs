//! A command's text, taken apart: words, files that it refers to, commands whose output it wants. Pure.
//!
//! Arguments are filled in here, piece by piece, after it is known what is a reference and what is a command: nothing
//! that came from an argument is looked at again. What stands in code (a fenced block, a code span) is text.

use super::arguments::{Arguments, Count, Filled};

/// What is no part of a path, besides blanks.
const NOT_IN_PATHS: &str = "`\"'<>|()[]{}*,;";
/// What belongs to the sentence around a path, not to the path.
const AFTER_PATHS: [char; 4] = ['.', ':', '!', '?'];
/// After these, an `@` may begin a reference; after a letter it is an address.
const BEFORE_PATHS: &str = "([{\"'>,;:*|«“‘¿¡";
/// Endings that make a name without a folder a file's: `@notes.md`, not `@jane.doe`.
const ENDINGS: &[&str] = &[
    "adoc", "bash", "c", "cc", "cfg", "conf", "cpp", "cs", "css", "csv", "dart", "diff", "ex",
    "go", "gradle", "h", "hpp", "html", "ini", "java", "js", "json", "jsx", "kt", "lock", "log",
    "lua", "md", "mdx", "mjs", "patch", "php", "proto", "py", "rb", "rs", "rst", "scss", "sh",
    "sql", "svelte", "swift", "tf", "toml", "ts", "tsx", "txt", "vue", "xml", "yaml", "yml", "zig",
];
/// Marks that make a fence.
const FENCE_MIN: usize = 3;

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    File(Reference),
    Command(Inline),
}

/// `@path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// With the `@`, arguments filled in.
    pub written: String,
    pub path: String,
    /// Whether nothing but a file can be meant. Else it is one where there is such a file, and words where there is none.
    pub certain: bool,
}

/// `` !`command` ``.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inline {
    pub command: String,
    /// An argument stands in it that is more than a plain word: how it would be read, nobody can tell.
    pub spoiled: bool,
}

/// The pieces of a command's text.
pub fn read(text: &str, arguments: &Arguments, count: Count) -> Vec<Piece> {
    let mut reader = Reader::new(text, Some((arguments, count)));
    reader.run();
    if reader.filled == 0 {
        reader.pieces.push(Piece::Text(arguments.appended()));
    }
    reader.finish()
}

/// The commands of a text that are the same whatever it is given.
pub fn commands(text: &str) -> Vec<String> {
    let pieces = read(text, &Arguments::read(""), Count::FromOne).into_iter();
    let commands = pieces.filter_map(|piece| match piece {
        Piece::Command(inline) => Some(inline.command),
        Piece::Text(_) | Piece::File(_) => None,
    });
    commands.filter(|command| !command.contains('$')).collect()
}

/// Those of a file that a text includes: of it, only references to other files count.
pub fn read_included(text: &str) -> Vec<Piece> {
    let mut reader = Reader::new(text, None);
    reader.run();
    reader.finish()
}

/// Whether a file's own references are followed.
pub fn is_markdown(path: &str) -> bool {
    let ending = path
        .rsplit_once('.')
        .map(|(_, ending)| ending.to_ascii_lowercase());
    ending.is_some_and(|ending| ["md", "mdx", "markdown"].contains(&ending.as_str()))
}

struct Reader<'a> {
    text: &'a str,
    /// None in an included file.
    given: Option<(&'a Arguments, Count)>,
    /// Where the text begins that is in no piece yet.
    from: usize,
    at: usize,
    filled: usize,
    pieces: Vec<Piece>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, given: Option<(&'a Arguments, Count)>) -> Self {
        Self {
            text,
            given,
            from: 0,
            at: 0,
            filled: 0,
            pieces: Vec::new(),
        }
    }

    fn run(&mut self) {
        while let Some(c) = self.rest().chars().next() {
            if self.is_at_line_start()
                && let Some(end) = fenced(self.rest())
            {
                self.at += end;
                continue;
            }
            match c {
                '!' => self.command(),
                '@' => self.reference(),
                '`' => self.at += span(self.rest()),
                _ => self.at += c.len_utf8(),
            }
        }
        self.text_until(self.at);
    }

    fn finish(self) -> Vec<Piece> {
        let is_something = |piece: &Piece| *piece != Piece::Text(String::new());
        self.pieces.into_iter().filter(is_something).collect()
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn is_at_line_start(&self) -> bool {
        self.at == 0 || self.text[..self.at].ends_with('\n')
    }

    fn before(&self) -> Option<char> {
        self.text[..self.at].chars().next_back()
    }

    /// What was passed over is text.
    fn text_until(&mut self, end: usize) {
        let filled = self.fill(self.from, end);
        self.filled += filled.times;
        self.pieces.push(Piece::Text(filled.text));
        self.from = end;
    }

    /// A part of the text with its arguments.
    fn fill(&self, from: usize, end: usize) -> Filled {
        let part = &self.text[from..end];
        match self.given {
            Some((arguments, count)) => arguments.fill(part, count),
            None => Filled {
                text: part.to_owned(),
                times: 0,
                plainly: true,
            },
        }
    }

    /// At a `!`.
    fn command(&mut self) {
        let begins = !self
            .before()
            .is_some_and(|c| c.is_alphanumeric() || "_$!\\".contains(c));
        let inner = self.rest().strip_prefix("!`").filter(|_| begins);
        // Several backticks are a code span after an exclamation mark.
        let inner = inner.filter(|inner| !inner.starts_with('`') && self.given.is_some());
        let end = inner.and_then(|inner| {
            let end = inner.find('`')?;
            (!inner[..end].contains("\n\n")).then_some(end)
        });
        let Some(end) = end else {
            self.at += 1;
            return;
        };
        self.text_until(self.at);
        let (from, end) = (self.at + 2, self.at + 2 + end);
        let filled = self.fill(from, end);
        self.filled += filled.times;
        self.pieces.push(Piece::Command(Inline {
            command: filled.text,
            spoiled: !filled.plainly,
        }));
        (self.at, self.from) = (end + 1, end + 1);
    }

    /// At an `@`.
    fn reference(&mut self) {
        let begins = (self.before()).is_none_or(|c| c.is_whitespace() || BEFORE_PATHS.contains(c));
        // Looked at only where one may begin: a long run of them would cost its square.
        let path = begins.then(|| path_in(&self.rest()[1..])).flatten();
        let Some((skip, length, used)) = path else {
            self.at += 1;
            return;
        };
        let start = self.at + 1 + skip;
        let filled = self.fill(start, start + length);
        if filled.text.is_empty() {
            self.at += 1;
            return;
        }
        self.text_until(self.at);
        self.filled += filled.times;
        self.pieces.push(Piece::File(Reference {
            written: format!("@{}", filled.text),
            certain: is_certain(&filled.text),
            path: filled.text,
        }));
        self.at += 1 + used;
        self.from = self.at;
    }
}

/// The length of a fenced block at the start of a line, to the end of the line that closes it.
fn fenced(text: &str) -> Option<usize> {
    let mut lines = text.split_inclusive('\n');
    let first = lines.next()?;
    let (mark, length, info) = fence(first)?;
    if mark == '`' && info.contains('`') {
        return None;
    }
    let mut end = first.len();
    for line in lines {
        end += line.len();
        if fence(line).is_some_and(|(closes, at_least, info)| {
            closes == mark && at_least >= length && info.trim().is_empty()
        }) {
            break;
        }
    }
    Some(end)
}

fn fence(line: &str) -> Option<(char, usize, &str)> {
    let line = line.trim_start_matches([' ', '\t']);
    let mark = line.chars().next().filter(|c| ['`', '~'].contains(c))?;
    let info = line.trim_start_matches(mark);
    let length = line.len() - info.len();
    (length >= FENCE_MIN).then_some((mark, length, info))
}

/// The length of a code span, or of the backticks that begin none.
fn span(text: &str) -> usize {
    let ticks = text.len() - text.trim_start_matches('`').len();
    let paragraph = text.find("\n\n").unwrap_or(text.len());
    let mut at = ticks;
    while let Some(next) = text.get(at..paragraph).and_then(|rest| rest.find('`')) {
        let rest = &text[at + next..paragraph];
        let run = rest.len() - rest.trim_start_matches('`').len();
        at += next + run;
        if run == ticks {
            return at;
        }
    }
    ticks
}

/// A path behind an `@`: where it begins, its length, and how much of the text that is.
fn path_in(text: &str) -> Option<(usize, usize, usize)> {
    let (skip, length, used) = match text.strip_prefix('"') {
        Some(quoted) => {
            let end = quoted
                .find(['"', '\n'])
                .filter(|end| quoted[*end..].starts_with('"'))?;
            (1, end, end + 2)
        }
        None => (0, path_end(text), path_end(text)),
    };
    (length > 0).then_some((skip, length, used))
}

fn path_end(text: &str) -> usize {
    let end = text.find(|c: char| c.is_whitespace() || NOT_IN_PATHS.contains(c));
    text[..end.unwrap_or(text.len())]
        .trim_end_matches(AFTER_PATHS)
        .len()
}

/// Whether a path can be nothing else: it says where it begins, or its name ends as a file's.
fn is_certain(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let ending = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty());
    let is_known = |ending: &str| ENDINGS.contains(&ending.to_ascii_lowercase().as_str());
    let begins = path.starts_with(['.', '/']) || path.starts_with("~/");
    match ending {
        Some((_, ending)) => !folder.is_empty() || is_known(ending),
        None => begins && path.contains('/') && !name.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces, each on a line: words as they are, `@ path`, `? path` where it may be words, `! command`.
    fn shown(pieces: Vec<Piece>) -> String {
        let line = |piece: Piece| match piece {
            Piece::Text(text) => text,
            Piece::File(reference) if reference.certain => format!("@ {}", reference.path),
            Piece::File(reference) => format!("? {}", reference.path),
            Piece::Command(inline) if inline.spoiled => format!("X {}", inline.command),
            Piece::Command(inline) => format!("! {}", inline.command),
        };
        pieces.into_iter().map(line).collect::<Vec<_>>().join("|")
    }

    fn reads(text: &str, given: &str) -> String {
        shown(read(text, &Arguments::read(given), Count::FromOne))
    }

    #[test]
    fn files_commands_and_words_are_told_apart() {
        let text = "See @docs/a.md, (@./b) and @\"with blank.md\": !`git status` @README";
        assert_eq!(
            reads(text, ""),
            "See |@ docs/a.md|, (|@ ./b|) and |@ with blank.md|: |! git status| |? README"
        );
    }

    #[test]
    fn emails_and_mentions_are_no_references() {
        for text in [
            "mail jane@example.com",
            "a@b.md",
            "@ alone",
            "x @",
            "git@github.com:a/b.git",
            "<me@x.md>",
            "@\"not closed.md\n\"",
            "@\"\"",
        ] {
            assert_eq!(reads(text, ""), text);
        }
        assert_eq!(reads("thanks @jane.doe!", ""), "thanks |? jane.doe|!");
        assert_eq!(reads("@angular/core", ""), "? angular/core");
        assert_eq!(reads("in @notes.md.", ""), "in |@ notes.md|.");
    }

    #[test]
    fn what_stands_in_code_is_text() {
        for text in [
            "```\n@a.md !`ls`\n```",
            "~~~~ md\n@a.md\n~~~\n!`ls`\n~~~~",
            "  ```sh\n!`ls`\n",
            "`@a.md` and ``!`ls` ``",
            "word!`ls`",
            "$!`ls`",
            "!``ls``",
        ] {
            assert_eq!(reads(text, ""), text);
        }
        assert_eq!(
            reads("```\n@a.md\n```\n@b.md", ""),
            "```\n@a.md\n```\n|@ b.md"
        );
        assert_eq!(reads("one ` tick @a.md", ""), "one ` tick |@ a.md");
    }

    #[test]
    fn arguments_are_filled_in_and_never_looked_at_again() {
        let given = "@/etc/passwd !`ls` $1";
        assert_eq!(reads("Do $ARGUMENTS", given), format!("Do {given}"));
        assert_eq!(reads("Do", given), format!("Do|\n\nARGUMENTS: {given}"));
        assert_eq!(reads("$1$2", "!`l s`"), "!`ls`");
        assert_eq!(reads("@$1", "src/x.rs"), "@ src/x.rs");
        assert_eq!(reads("!`git log $1`", "main"), "! git log main");
        assert_eq!(reads("!`git log $1`", "'a;b'"), "X git log a;b");
        assert_eq!(reads("!`git log $1`", ""), "! git log $1");
        assert_eq!(reads("@$ARGUMENTS", ""), "@");
    }

    #[test]
    fn no_text_takes_more_than_its_length() {
        for part in ["@", "!`", "`", " @\"", "@a", "```\n", "$", "!", "` `` "] {
            let text = part.repeat(200_000 / part.len());
            assert!(!read(&text, &Arguments::default(), Count::FromZero).is_empty());
        }
    }

    #[test]
    fn a_command_may_not_be_left_open() {
        assert_eq!(reads("!`git status", ""), "!`git status");
        assert_eq!(reads("!`a\nb`", ""), "! a\nb");
        assert_eq!(reads("!`a\n\nb`", ""), "!`a\n\nb`");
    }

    #[test]
    fn of_an_included_file_only_references_count() {
        let text = "$1 !`ls` `@x.md` @b.md";
        assert_eq!(shown(read_included(text)), "$1 !`ls` `@x.md` |@ b.md");
    }
}
