//! The text that comes out of hunks whose places are known. Pure.

use super::hunk::{Hunk, Line, Mark};
use std::borrow::Cow;
use std::ops::Range;

/// A hunk's place: lines of the file, and how the indentation of new lines changes.
pub struct Spot {
    pub lines: Range<usize>,
    pub shift: Shift,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shift {
    None,
    Add(String),
    Remove(String),
}

/// A line, and its end.
pub fn split_end(line: &str) -> (&str, &str) {
    let text = line.strip_suffix('\n').unwrap_or(line);
    let text = match line.len() > text.len() {
        true => text.strip_suffix('\r').unwrap_or(text),
        false => text,
    };
    (text, &line[text.len()..])
}

/// The file's lines with the hunks' changes. Lines that no hunk touches keep every byte.
pub fn assemble(file: &[(&str, &str)], spots: &[(Spot, &Hunk)]) -> String {
    let crlf = file.iter().filter(|(_, end)| *end == "\r\n").count();
    let usual = if crlf * 2 > file.len() { "\r\n" } else { "\n" };
    let mut out: Vec<(Cow<'_, str>, &str)> = Vec::with_capacity(file.len());
    let mut at = 0;
    let mut final_newline = file.last().is_none_or(|(_, end)| !end.is_empty());
    for (spot, hunk) in spots {
        out.extend(
            file[at..spot.lines.start]
                .iter()
                .map(|(t, e)| (Cow::from(*t), *e)),
        );
        at = spot.lines.start;
        for line in &hunk.lines {
            match line.mark {
                Mark::Keep => out.push((Cow::from(file[at].0), file[at].1)),
                Mark::Remove => {}
                Mark::Insert => {
                    let neighbour = file[..at].last().or_else(|| file.get(at));
                    let end = neighbour.map_or("", |(_, end)| *end);
                    let end = if end.is_empty() { usual } else { end };
                    out.push((shifted(&line.text, &spot.shift), end));
                }
            }
            at += usize::from(line.mark != Mark::Insert);
        }
        let said = |line: &Line| line.no_newline;
        if spot.lines.end == file.len() && hunk.lines.iter().any(said) {
            final_newline = !hunk
                .lines
                .iter()
                .any(|line| line.mark != Mark::Remove && line.no_newline);
        }
    }
    out.extend(file[at..].iter().map(|(t, e)| (Cow::from(*t), *e)));
    let last = out.len().saturating_sub(1);
    let mut text = String::new();
    for (i, (line, end)) in out.iter().enumerate() {
        text.push_str(line);
        text.push_str(match (i == last, end.is_empty()) {
            (true, _) if !final_newline => "",
            (_, true) => usual,
            (_, false) => end,
        });
    }
    text
}

fn shifted<'a>(text: &'a str, shift: &Shift) -> Cow<'a, str> {
    match shift {
        _ if text.trim().is_empty() => Cow::from(text),
        Shift::None => Cow::from(text),
        Shift::Add(more) => Cow::from(format!("{more}{text}")),
        Shift::Remove(more) => Cow::from(text.strip_prefix(more.as_str()).unwrap_or(text)),
    }
}
