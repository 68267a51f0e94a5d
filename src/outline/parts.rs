//! A long text, cut so that its parts can be parsed side by side. Pure.
//!
//! A word or a comment in the first column, after an empty line, begins something new in most sources. Whether it does in this one
//! (and not within a string, a comment, a bracket), a cut cannot know: parts that do not parse by themselves are no parts.

use std::ops::Range;

/// As many as there are processors, but no more.
const PARTS_MAX: usize = 4;
/// Shorter ones are parsed before a thread would have begun.
const PART_BYTES_MIN: usize = 50_000;

/// Into how many parts a text of this length is worth cutting.
pub fn worth(bytes: usize) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    processors.min(PARTS_MAX).min(bytes / PART_BYTES_MIN)
}

/// The text in about equal parts; fewer, down to one, where it has no such lines.
pub fn cut(text: &str, parts: usize) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    for part in 1..parts {
        let about = start.max(text.len() / parts * part);
        let boundary = (about..text.len()).find(|at| text.is_char_boundary(*at));
        let Some(end) = boundary.and_then(|from| beginning(text, from)) else {
            break;
        };
        ranges.push(start..end);
        start = end;
    }
    ranges.push(start..text.len());
    ranges
}

/// The first such line after a place.
fn beginning(text: &str, from: usize) -> Option<usize> {
    let empty_lines = text[from..].match_indices("\n\n");
    let mut starts = empty_lines.map(|(at, _)| {
        let after = text[from + at..].trim_start_matches('\n');
        text.len() - after.len()
    });
    starts.find(|at| begins(&text[*at..]))
}

fn begins(line: &str) -> bool {
    let comments = ["//", "/*", "#", "@"];
    line.starts_with(|c: char| c.is_ascii_alphabetic())
        || comments.iter().any(|mark| line.starts_with(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_text() {
        let text = "fn a() {}\n\n// ä\nfn b() {\n\n    c()\n}\n\nfn d() {}\n\n\nfn e() {}\n";
        for parts in 1..9 {
            let ranges = cut(text, parts);
            let joined: String = ranges.iter().map(|range| &text[range.clone()]).collect();
            assert_eq!(joined, text, "{ranges:?}");
            assert!(ranges.len() <= parts);
        }
        assert_eq!(cut(text, 2).len(), 2);
    }

    #[test]
    fn a_text_without_such_lines_stays_whole() {
        for text in ["", "\n\n", "a\nb\n\n  c\n\n} d", "ä\n\n"] {
            assert_eq!(cut(text, 4).len(), 1, "{text:?}");
        }
    }
}
