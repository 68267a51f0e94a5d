//! `search`: where a regular expression or a text matches, by ripgrep's libraries.
//!
//! Looks into no file that is hidden, ignored, binary, or by its name a secret.

/// Files side by side.
mod crew;
/// Lines as they are found, and as they are shown.
mod found;

use super::walk::{Step, Walk, Walked, is_secret};
use super::{Action, Reach, Tool, args, blocking, schema_of, text};
use crate::agent::event::{EffectClass, Outcome};
use crate::gate::{Approved, Touch};
use crate::world::workspace::Open;
use found::{Found, Lines};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
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
    let seeker = || {
        let (matcher, mut searcher) = (&matcher, searcher(context));
        move |path: &str| {
            let file = reach.workspace.open(path, Open::Read).ok()?;
            let mut lines = Lines::of(path);
            let searched = searcher.search_file(matcher, &file, &mut lines);
            lines.is_unread = searched.is_err();
            Some(lines)
        }
    };
    let mut walk = Walk::new(&reach.workspace, args.path.as_deref(), args.glob.as_deref())?;
    if let Some(name) = &args.r#type {
        walk = walk.only(name)?;
    }
    let mut found = Found::default();
    let hear = |lines| found.hear(lines, context > 0);
    let walked = crew::search(seeker, hear, |give| {
        walk.files(&reach.workspace, |path| match is_secret(path) {
            true => Step::On,
            false => give(path),
        })
    })?;
    let unread = found.unread;
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

fn searcher(context: usize) -> Searcher {
    SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(LINE_BYTES_MAX))
        .before_context(context)
        .after_context(context)
        .build()
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
