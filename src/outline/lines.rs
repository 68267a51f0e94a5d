//! What can be told from lines alone: headings of Markdown, and definitions in texts without a grammar. Pure.

use super::{ITEMS_MAX, Item, shortened};
use regex::Regex;
use std::sync::LazyLock;

/// A longer line defines nothing that a person wrote.
const LINE_BYTES_MAX: usize = 2_000;
/// Columns that a tab is worth at most.
const TAB_COLUMNS: usize = 4;

pub fn is_markdown(name: &str) -> bool {
    let ends = [".md", ".markdown", ".mdx"];
    ends.iter().any(|end| name.ends_with(end))
}

/// Something at a level: a smaller one stands around a larger one.
struct Found {
    level: usize,
    line: usize,
    text: String,
}

/// Headings, each down to the next one of its level. What stands in a code fence or in front matter is none.
pub fn headings(text: &str) -> Vec<Item> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found: Vec<Found> = Vec::new();
    let mut fence: Option<(char, usize)> = None;
    let start = front_matter(&lines);
    for (at, line) in lines.iter().enumerate().skip(start) {
        if found.len() >= ITEMS_MAX {
            break;
        }
        if indent(line) > 3 {
            continue; // a code block, or part of a list
        }
        let body = line.trim();
        let mark = body.chars().next().unwrap_or(' ');
        let run = body.chars().take_while(|c| *c == mark).count();
        if let Some((open, length)) = fence {
            if mark == open && run >= length && body.chars().all(|c| c == mark) {
                fence = None;
            }
            continue;
        }
        // Backticks behind the opening ones make it code in a line.
        let opens = mark == '~' || (mark == '`' && !body[run..].contains('`'));
        if opens && run >= 3 {
            fence = Some((mark, run));
            continue;
        }
        let above = match at > start {
            true => lines[at - 1],
            false => "",
        };
        found.extend(heading(body, above, at));
    }
    nest(found, lines.len())
}

/// How many lines stand before the text: settings between `---`, at the very top.
fn front_matter(lines: &[&str]) -> usize {
    let is_end = |line: &&str| matches!(line.trim_end(), "---" | "...");
    match lines.first().map(|line| line.trim_end()) {
        Some("---") => lines[1..].iter().position(is_end).map_or(0, |at| at + 2),
        _ => 0,
    }
}

fn indent(line: &str) -> usize {
    let blanks = line.chars().take_while(|c| matches!(c, ' ' | '\t'));
    blanks
        .map(|c| if c == '\t' { TAB_COLUMNS } else { 1 })
        .sum()
}

/// The heading that a line is (`## Use`), or that it makes of the one above (`Use`, `---`).
fn heading(body: &str, above: &str, at: usize) -> Option<Found> {
    let level = body.chars().take_while(|c| *c == '#').count();
    if (1..=6).contains(&level) && body[level..].starts_with([' ', '\t']) {
        let text = body[level..].trim();
        let bare = text.trim_end_matches('#');
        let closes = bare.is_empty() || bare.ends_with([' ', '\t']);
        let text = if closes { bare.trim_end() } else { text };
        return (!text.is_empty()).then(|| Found {
            level,
            line: at + 1,
            text: text.to_owned(),
        });
    }
    let level = match body.as_bytes().first() {
        Some(b'=') if body.bytes().all(|b| b == b'=') => 1,
        Some(b'-') if body.bytes().all(|b| b == b'-') => 2,
        _ => return None,
    };
    let text = above.trim();
    let is_text = !text.is_empty()
        && indent(above) <= 3
        && !text.starts_with(['#', '-', '=', '>', '|', '*', '+', '`', '~']);
    is_text.then(|| Found {
        level,
        line: at,
        text: text.to_owned(),
    })
}

/// Lines that look as if they defined something, in most languages that there are.
pub fn definitions(text: &str) -> Vec<Item> {
    static DEFINES: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(concat!(
            r"^\s*(?:(?:pub|pub\(\w+\)|public|private|protected|internal|export|default|static|async|unsafe|abstract|final|",
            r"open|override|local|inline|sealed|data|const)\s+)*",
            r"(?:class|def|defp|defmodule|defmacro|function|func|fun|fn|interface|protocol|struct|enum|module|trait|type|",
            r"impl|sub|proc|procedure|object|extension|namespace|package|resource|message|service|rpc|table|view|",
            r"(?i:create(?:\s+or\s+replace)?\s+\w+))\s+[\w\x22'$]",
        ))
        .expect("BUG: the expression is valid, a test uses it")
    });
    let lines: Vec<&str> = text.lines().collect();
    let defines = |line: &str| line.len() <= LINE_BYTES_MAX && DEFINES.is_match(line);
    let found = (1..)
        .zip(&lines)
        .filter(|(_, line)| defines(line))
        .take(ITEMS_MAX)
        .map(|(number, line)| Found {
            level: indent(line),
            line: number,
            text: line.trim().trim_end_matches(['{', ' ', ':']).to_owned(),
        })
        .collect();
    nest(found, lines.len())
}

/// Ranges and depths from levels: each ends before the next one that is not deeper.
fn nest(found: Vec<Found>, lines: usize) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::with_capacity(found.len());
    let mut open: Vec<(usize, usize)> = Vec::new(); // level, position
    for Found { level, line, text } in found {
        while let Some((_, at)) = open.pop_if(|(above, _)| *above >= level) {
            items[at].last = (line - 1).max(items[at].first);
        }
        open.push((level, items.len()));
        items.push(Item {
            first: line,
            last: lines.max(line),
            depth: open.len() - 1,
            text: shortened(&text),
        });
    }
    items
}
