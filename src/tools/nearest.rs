//! Where a text that was not found probably should have been: the places of a file that share most with it. Pure.

use std::collections::{BTreeMap, HashMap};

/// So many lines of the searched text are compared, and shown per candidate.
const LINES_MAX: usize = 12;
const CANDIDATES_MAX: usize = 3;
const LINE_CHARS_MAX: usize = 160;

/// The best places, most alike first, each as `L42: text` lines.
pub fn nearest(content: &str, search: &str) -> Option<String> {
    let wanted: Vec<&str> = search.lines().take(LINES_MAX).collect();
    let lines: Vec<&str> = content.lines().collect();
    let votes = vote(&lines, &wanted);
    let best = votes.values().copied().max()?;
    let mut places: Vec<(usize, usize)> = votes
        .into_iter()
        .filter(|(_, score)| score * 2 >= best)
        .collect();
    places.sort_by_key(|(start, score)| (usize::MAX - score, *start));
    let mut shown: Vec<usize> = Vec::new();
    for (start, _) in places {
        let far = |other: &usize| start.abs_diff(*other) >= wanted.len().max(1);
        if shown.len() < CANDIDATES_MAX && shown.iter().all(far) {
            shown.push(start);
        }
    }
    let show = |start: &usize| excerpt(&lines, *start, wanted.len());
    let candidates = shown.iter().map(show).collect::<Vec<_>>().join("\n--\n");
    let same = |(a, b): (&&str, &&str)| a.trim() == b.trim();
    let blanks = shown.first().is_some_and(|&at| {
        wanted.len() <= lines.len() - at && lines[at..].iter().zip(&wanted).all(same)
    });
    let why = if blanks {
        "; the first differs only in blanks or indentation"
    } else {
        ""
    };
    Some(format!("Most alike{why}:\n{candidates}"))
}

/// `L42: text` lines, from a 0-based start.
pub fn excerpt(lines: &[&str], start: usize, count: usize) -> String {
    let end = (start + count.clamp(1, LINES_MAX)).min(lines.len());
    let show = |at: usize| {
        format!(
            "L{}: {}",
            at + 1,
            super::text::line(lines[at], LINE_CHARS_MAX)
        )
    };
    (start..end).map(show).collect::<Vec<_>>().join("\n")
}

/// Every line and every word that both texts share votes for the start that would bring them together.
fn vote(lines: &[&str], wanted: &[&str]) -> BTreeMap<usize, usize> {
    let mut by_line: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut by_word: HashMap<&str, Vec<usize>> = HashMap::new();
    for (j, line) in wanted.iter().enumerate() {
        by_line.entry(line.trim()).or_default().push(j);
        for word in words(line) {
            let lines = by_word.entry(word).or_default();
            // A word counts once per line, or a line of one word over and over would take forever.
            if lines.last() != Some(&j) {
                lines.push(j);
            }
        }
    }
    by_line.remove("");
    let mut votes: BTreeMap<usize, usize> = BTreeMap::new();
    let mut add = |i: usize, at: Option<&Vec<usize>>, weight: usize| {
        for start in at.into_iter().flatten().filter_map(|j| i.checked_sub(*j)) {
            *votes.entry(start).or_default() += weight;
        }
    };
    for (i, line) in lines.iter().enumerate() {
        add(i, by_line.get(line.trim()), 5);
        words(line).for_each(|word| add(i, by_word.get(word), 1));
    }
    votes
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| word.len() >= 2)
}
