//! Bounding text for a model: every cut is visible and says how much is gone. Pure.

use crate::agent::event::FileChange;
use similar::{ChangeTag, TextDiff};
use std::time::Duration;

/// The diff of one file, as a change carries it.
pub const CHANGE_CHARS_MAX: usize = 3_000;
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

/// `1 file`, `3 files`.
pub fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// What changed in a file, for people and for the journal. `before` is `None` for a file that is new.
pub fn change(path: &str, before: Option<&str>, after: &str) -> FileChange {
    let diff = TextDiff::configure()
        .timeout(DIFF_TIME_MAX)
        .diff_lines(before.unwrap_or(""), after);
    let tally = |tag| {
        diff.iter_all_changes()
            .filter(|change| change.tag() == tag)
            .count()
    };
    let old = before.map_or("/dev/null".to_owned(), |_| format!("a/{path}"));
    let text = diff
        .unified_diff()
        .context_radius(3)
        .header(&old, &format!("b/{path}"))
        .to_string();
    FileChange {
        path: path.to_owned(),
        added: tally(ChangeTag::Insert),
        removed: tally(ChangeTag::Delete),
        diff: head_lines(&text, CHANGE_CHARS_MAX, ""),
    }
}
