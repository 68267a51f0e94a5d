//! `search`: where a regular expression or a text matches, by ripgrep's libraries.
//!
//! Looks into no file that is hidden, ignored, binary, or by its name a secret.

use super::walk::{Step, Walk, Walked, is_secret};
use super::{Action, Reach, Tool, args, blocking, schema_of, text};
use crate::agent::event::{EffectClass, Outcome};
use crate::gate::{Approved, Touch};
use crate::world::workspace::Open;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::io;
use std::sync::Arc;

const MATCHES_MAX: usize = 100;
/// Of matches and context together.
const LINES_SHOWN_MAX: usize = 400;
const LINE_CHARS_MAX: usize = 200;
/// A longer line ends the search of its file.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

pub const TOOL: Tool = Tool {
    name: "search",
    about: include_str!("../../prompts/tools/search.md"),
    class: EffectClass::Pure,
    schema: schema_of::<Args>,
    touches: |json| {
        Ok(vec![Touch::Read(
            args::<Args>(json)?.path.unwrap_or_else(|| ".".into()),
        )])
    },
    action: Action::World {
        run: |call, reach: Arc<Reach>| blocking(call, reach, EffectClass::Pure, run),
        expect: None,
    },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[schemars(length(min = 1))]
    pattern: String,
    literal: Option<bool>,
    ignore_case: Option<bool>,
    path: Option<String>,
    glob: Option<String>,
    /// `rust`, `py`, `ts`
    r#type: Option<String>,
    #[schemars(range(max = 10))]
    context: Option<usize>,
}

fn run(approved: Approved<Args>, reach: &Reach) -> Outcome {
    let args = approved.get();
    search(args, reach).map_or_else(Outcome::failed, Outcome::done)
}

fn search(args: &Args, reach: &Reach) -> Result<String, String> {
    let matcher = matcher(args)?;
    let context = args.context.unwrap_or(0);
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(LINE_BYTES_MAX))
        .before_context(context)
        .after_context(context)
        .build();
    let mut walk = Walk::new(&reach.workspace, args.path.as_deref(), args.glob.as_deref())?;
    if let Some(name) = &args.r#type {
        walk = walk.only(name)?;
    }
    let mut found = Found::default();
    let mut unread = 0;
    let walked = walk.files(&reach.workspace, |path| {
        if is_secret(path) {
            return Step::On;
        }
        let Ok(file) = reach.workspace.open(path, Open::Read) else {
            unread += 1;
            return Step::On;
        };
        found.begin(path, context > 0);
        unread += usize::from(searcher.search_file(&matcher, &file, &mut found).is_err());
        match found.more {
            Some(_) => Step::Stop,
            None => Step::On,
        }
    })?;
    let mut lines = found.lines;
    if let Some(more) = found.more {
        lines.push(format!(
            "[{more}; narrow it by pattern, path, glob or type]"
        ));
    } else if lines.is_empty() {
        lines.push("No matches (hidden, ignored and binary files are not searched).".into());
    }
    if unread > 0 {
        lines.push(format!(
            "[{} could not be read]",
            text::count(unread, "file")
        ));
    }
    if walked == Walked::TooMany {
        lines.push("[the workspace has more files than are searched in one call; narrow it by path, glob or type]".into());
    }
    Ok(lines.join("\n"))
}

fn matcher(args: &Args) -> Result<RegexMatcher, String> {
    let (pattern, literal) = (&args.pattern, args.literal.unwrap_or(false));
    RegexMatcherBuilder::new()
        .line_terminator(Some(b'\n'))
        .fixed_strings(literal)
        .case_insensitive(args.ignore_case.unwrap_or(false))
        .build(pattern)
        .map_err(|e| match literal {
            true => format!("pattern {pattern:?} cannot be searched line by line: {e}"),
            false => format!(
                "pattern {pattern:?} is no regular expression for one line: {e}. With literal: true it is plain text"
            ),
        })
}

/// Matches and the lines around them, as they are found.
#[derive(Default)]
struct Found {
    path: String,
    lines: Vec<String>,
    matches: usize,
    /// What stands before a match that is not known to be shown yet.
    before: Vec<String>,
    /// Why this is not all.
    more: Option<String>,
}

impl Found {
    fn begin(&mut self, path: &str, in_groups: bool) {
        path.clone_into(&mut self.path);
        self.before.clear();
        if in_groups && !self.lines.is_empty() {
            self.before.push("--".into());
        }
    }

    fn line(&self, mark: char, number: Option<u64>, bytes: &[u8]) -> String {
        let line = String::from_utf8_lossy(bytes);
        format!(
            "{}{mark}{}{mark} {}",
            self.path,
            number.unwrap_or(0), // BUG otherwise: the searcher counts lines
            text::line(line.trim_end(), LINE_CHARS_MAX)
        )
    }

    /// Whether there is room; if not, the search ends.
    fn push(&mut self, line: String) -> bool {
        if self.lines.len() + self.before.len() >= LINES_SHOWN_MAX {
            self.more = Some(format!("more than {LINES_SHOWN_MAX} lines"));
            return false;
        }
        self.lines.append(&mut self.before);
        self.lines.push(line);
        true
    }
}

impl Sink for Found {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.matches == MATCHES_MAX {
            self.more = Some(format!("more than {MATCHES_MAX} matches"));
            return Ok(false);
        }
        self.matches += 1;
        let line = self.line(':', found.line_number(), found.bytes());
        Ok(self.push(line))
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> io::Result<bool> {
        let line = self.line('-', around.line_number(), around.bytes());
        match around.kind() {
            SinkContextKind::Before => {
                self.before.push(line);
                Ok(true)
            }
            SinkContextKind::After | SinkContextKind::Other => Ok(self.push(line)),
        }
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.before.push("--".into());
        Ok(true)
    }
}
