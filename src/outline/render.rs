//! An outline as text: nested by indentation, folded from the inside out until it fits. Pure.

use super::{Item, Outline};

/// For what is said of folded and left out items.
const CLOSING_CHARS: usize = 160;
/// ` (+20000)`
const COUNT_CHARS: usize = 9;

/// The text, with at most `chars_max` characters (from 400 on). Inner items are folded before outer ones are cut, and the
/// text says so.
pub fn render(outline: &Outline, chars_max: usize) -> String {
    let items = &outline.items;
    let mut lines: Vec<String> = Vec::new();
    if !outline.notes.is_empty() {
        lines.push(format!("[{}]", outline.notes.join("; ")));
    }
    if items.is_empty() {
        lines.push(
            "Nothing in it has a name that an outline shows; read_lines shows the text.".into(),
        );
        return lines.join("\n");
    }
    let used = lines.iter().map(|line| line.chars().count() + 1).sum();
    let shown = choose(items, chars_max.saturating_sub(used));
    let hidden = hidden_in(items, &shown);
    for (at, item) in items.iter().enumerate() {
        if shown[at] {
            lines.push(line(item, hidden[at]));
        }
    }
    lines.extend(closing(items, &shown));
    lines.join("\n")
}

/// Which items fit: all down to one depth, and as many of the next depth as there is room for, from the top.
fn choose(items: &[Item], room: usize) -> Vec<bool> {
    let deepest = items.iter().map(|item| item.depth).max().unwrap_or(0);
    let mut sizes = vec![0; deepest + 1];
    for (at, item) in items.iter().enumerate() {
        sizes[item.depth] += size(items, at);
    }
    if sizes.iter().sum::<usize>() <= room {
        return vec![true; items.len()];
    }
    let mut left = room.saturating_sub(CLOSING_CHARS);
    let mut whole = 0; // depths that are shown whole
    while sizes[whole] <= left {
        left -= sizes[whole];
        whole += 1;
    }
    let mut is_full = false;
    let fits = |at: usize| {
        let depth = items[at].depth;
        if depth == whole && !is_full {
            is_full = size(items, at) > left;
            left = left.saturating_sub(size(items, at));
        }
        depth < whole || (depth == whole && !is_full)
    };
    (0..items.len()).map(fits).collect()
}

/// Characters of its line, the line's end included.
fn size(items: &[Item], at: usize) -> usize {
    let next = items.get(at + 1);
    let count = match next.is_some_and(|next| next.depth > items[at].depth) {
        true => COUNT_CHARS,
        false => 0,
    };
    line(&items[at], 0).chars().count() + count + 1
}

/// How many hidden items stand in each shown one, and in no shown one within it.
fn hidden_in(items: &[Item], shown: &[bool]) -> Vec<usize> {
    let mut hidden = vec![0; items.len()];
    let mut open: Vec<usize> = Vec::new(); // shown ones
    for (at, item) in items.iter().enumerate() {
        open.truncate(item.depth);
        match (shown[at], open.last()) {
            (true, _) => open.push(at),
            (false, Some(outer)) => hidden[*outer] += 1,
            (false, None) => {}
        }
    }
    hidden
}

fn line(item: &Item, hidden: usize) -> String {
    let indent = "  ".repeat(item.depth);
    let range = match item.first == item.last {
        true => format!("[L{}]", item.first),
        false => format!("[L{}-{}]", item.first, item.last),
    };
    let more = match hidden {
        0 => String::new(),
        n => format!(" (+{n})"),
    };
    format!("{indent}{} {range}{more}", item.text)
}

fn closing(items: &[Item], shown: &[bool]) -> Option<String> {
    let hidden = shown.iter().filter(|shown| !**shown).count();
    let cut = items
        .iter()
        .zip(shown)
        .find(|(item, shown)| item.depth == 0 && !**shown);
    match (hidden, cut) {
        (0, _) => None,
        (n, None) => Some(format!(
            "[{n} inner items folded, (+n) where they are; read_lines shows them]"
        )),
        (n, Some((item, _))) => Some(format!(
            "[{n} items left out: inner ones, and all from L{} on; search finds a name]",
            item.first
        )),
    }
}
