//! `search`: where a regular expression matches, by ripgrep's libraries.
//!
//! Looks into no file that is hidden, ignored, binary, or by its name a secret.

use super::walk::{Step, Walk, Walked, is_secret};
use super::{Action, Reach, Tool, args, blocking, schema_of, text};
use crate::agent::event::{EffectClass, Outcome};
use crate::gate::{Approved, Touch};
use crate::world::workspace::Open;
use grep_regex::RegexMatcherBuilder;
use grep_searcher::sinks::Lossy;
use grep_searcher::{BinaryDetection, SearcherBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

const MATCHES_MAX: usize = 100;
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
    /// Regular expression (Rust syntax), matched line by line
    #[schemars(length(min = 1))]
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
}

fn run(approved: Approved<Args>, reach: &Reach) -> Outcome {
    let args = approved.get();
    search(args, reach).map_or_else(Outcome::failed, Outcome::done)
}

fn search(args: &Args, reach: &Reach) -> Result<String, String> {
    let matcher = RegexMatcherBuilder::new()
        .line_terminator(Some(b'\n'))
        .build(&args.pattern);
    let matcher = matcher.map_err(|e| {
        format!(
            "pattern {:?} is no regular expression for one line: {e}. Write \\( for a plain (",
            args.pattern
        )
    })?;
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(LINE_BYTES_MAX))
        .build();
    let walk = Walk::new(&reach.workspace, args.path.as_deref(), args.glob.as_deref())?;
    let mut found: Vec<String> = Vec::new();
    let mut unread = 0;
    let walked = walk.files(&reach.workspace, |path| {
        if is_secret(path) {
            return Step::On;
        }
        let Ok(file) = reach.workspace.open(path, Open::Read) else {
            unread += 1;
            return Step::On;
        };
        let sink = Lossy(|number, line| {
            found.push(format!(
                "{path}:{number}: {}",
                text::line(line.trim_end(), LINE_CHARS_MAX)
            ));
            Ok(found.len() <= MATCHES_MAX) // one more than is shown, to know that there are more
        });
        unread += usize::from(searcher.search_file(&matcher, &file, sink).is_err());
        if found.len() > MATCHES_MAX {
            Step::Stop
        } else {
            Step::On
        }
    })?;
    if found.len() > MATCHES_MAX {
        found.truncate(MATCHES_MAX);
        found.push(format!(
            "[more than {MATCHES_MAX} matches; narrow it by pattern, path or glob]"
        ));
    } else if found.is_empty() {
        found.push("No matches (hidden, ignored and binary files are not searched).".into());
    }
    if unread > 0 {
        found.push(format!(
            "[{} could not be read]",
            text::count(unread, "file")
        ));
    }
    if walked == Walked::TooMany {
        found.push("[the workspace has more files than are searched in one call; narrow it by path or glob]".into());
    }
    Ok(found.join("\n"))
}
