//! Bounding text for a model: every cut is visible and says how much is gone. Pure.

use crate::agent::event::FileChange;
use similar::{ChangeTag, TextDiff};
use std::time::Duration;

/// The diff of one file, as a change carries it.
pub const CHANGE_CHARS_MAX: usize = 3_000;
const LINES_MAX: u64 = 200;
const LINE_CHARS_MAX: usize = 1_000;
/// Of a whole range; one of long lines ends earlier, visibly.
const RESULT_CHARS_MAX: usize = 40_000;
/// Diffs of huge files are cut short in quality, not in time.
const DIFF_TIME_MAX: Duration = Duration::from_millis(500);

/// At most `max` characters of one line.
pub fn line(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((end, _)) => format!(
            "{} [{} more characters]",
            &text[..end],
            text[end..].chars().count()
        ),
    }
}

/// Head and tail of a text of more than `max` characters, with the middle counted. The marker is extra.
pub fn head_and_tail(text: &str, max: usize) -> String {
    let chars = text.chars().count();
    if chars <= max {
        return text.to_owned();
    }
    let at = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(i, _)| i);
    let (head, tail) = (at(max / 2), at(chars - (max - max / 2)));
    format!(
        "{}\n[{} characters omitted]\n{}",
        &text[..head],
        chars - max,
        &text[tail..]
    )
}

/// Whole lines from the start, as many as fit; the marker says how many are gone and, by `hint`, how to see them.
pub fn head_lines(text: &str, max: usize, hint: &str) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let (mut kept, mut chars, mut lines) = (0, 0, 0);
    for line in text.split_inclusive('\n') {
        chars += line.chars().count();
        if chars > max {
            break;
        }
        kept += line.len();
        lines += 1;
    }
    let omitted = text.split_inclusive('\n').count() - lines;
    format!("{}[{omitted} lines omitted{hint}]", &text[..kept])
}

/// Lines `start` to `end` of what `name` holds, counted from 1 and numbered, 200 at most. `tool` is the one that shows more.
///
/// # Errors
/// A sentence for the model where the range is none, too long, or past the end.
pub fn numbered(
    tool: &str,
    name: &str,
    content: &str,
    start: u64,
    end: u64,
) -> Result<String, String> {
    if start < 1 {
        return Err("start is 0, but lines count from 1".into());
    }
    if end < start {
        return Err(format!("end ({end}) is before start ({start})"));
    }
    if end - start >= LINES_MAX {
        let last = start.saturating_add(LINES_MAX - 1);
        return Err(format!(
            "more than {LINES_MAX} lines; read {start} to {last} first"
        ));
    }
    let lines: Vec<&str> = content.lines().collect();
    let total = lines.len() as u64;
    if total == 0 {
        return Ok(format!("{name} is empty."));
    }
    if start > total {
        let lines = count(lines.len(), "line");
        return Err(format!(
            "start ({start}) is past the end: {name} has {lines}"
        ));
    }
    let mut shown = Vec::new();
    let mut chars = 0;
    for (number, text) in (1..)
        .zip(&lines)
        .skip(start as usize - 1)
        .take((end - start + 1) as usize)
    {
        let line = format!("L{number}: {}", line(text, LINE_CHARS_MAX));
        chars += line.chars().count();
        if chars > RESULT_CHARS_MAX {
            shown.push(format!(
                "[the result is full; {tool}({name:?}, {number}, {end}) shows the rest]"
            ));
            return Ok(shown.join("\n"));
        }
        shown.push(line);
    }
    if end >= total {
        shown.push(format!("[end of file: {}]", count(lines.len(), "line")));
    }
    Ok(shown.join("\n"))
}

/// `1 file`, `3 files`.
pub fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// What changed in a file, for people and for the journal. Each side is a path and a text; `None` where there is no file.
pub fn change(before: Option<(&str, &str)>, after: Option<(&str, &str)>) -> FileChange {
    let text = |side: Option<(&str, &str)>| side.map_or("", |(_, text)| text).to_owned();
    let (old, new) = (text(before), text(after));
    let diff = TextDiff::configure()
        .timeout(DIFF_TIME_MAX)
        .diff_lines(&old, &new);
    let tally = |tag| {
        diff.iter_all_changes()
            .filter(|change| change.tag() == tag)
            .count()
    };
    let name = |side: Option<(&str, &str)>, prefix: &str| match side {
        Some((path, _)) => format!("{prefix}/{path}"),
        None => "/dev/null".to_owned(),
    };
    let mut text = diff
        .unified_diff()
        .context_radius(3)
        .header(&name(before, "a"), &name(after, "b"))
        .to_string();
    if let (Some((from, _)), Some((to, _))) = (before, after)
        && from != to
    {
        text = format!("rename from {from}\nrename to {to}\n{text}");
    }
    FileChange {
        path: after.or(before).map_or("", |(path, _)| path).to_owned(),
        added: tally(ChangeTag::Insert),
        removed: tally(ChangeTag::Delete),
        diff: head_lines(&text, CHANGE_CHARS_MAX, ""),
    }
}
