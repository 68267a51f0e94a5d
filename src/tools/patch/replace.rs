//! Search and replace: one place of one text. Pure.
//!
//! A search text must stand exactly once in its file. It is compared with line ends made equal, and what is put in gets
//! the line ends of the place where it goes, so that a file keeps its own.

use crate::tools::nearest::{excerpt, nearest};

const PLACES_SHOWN_MAX: usize = 5;
const PLACES_COUNTED_MAX: usize = 1_000;

/// `text` with the one place of `search` replaced.
pub fn replace_once(text: &str, search: &str, replace: &str) -> Result<String, String> {
    let (search, replace) = (search.replace("\r\n", "\n"), replace.replace("\r\n", "\n"));
    if search.is_empty() {
        return Err(
            "search is empty; give the text to be replaced, or use write_file for a whole file"
                .into(),
        );
    }
    let plain = Plain::of(text);
    let (mut search, mut replace) = (search.as_str(), replace.as_str());
    let mut places = places(&plain.text, search);
    // A last line without its line end: the model can't see that it is missing.
    if let (true, Some(shorter)) = (places.is_empty(), search.strip_suffix('\n'))
        && !shorter.is_empty()
        && plain.text.ends_with(shorter)
    {
        places.push(plain.text.len() - shorter.len());
        (search, replace) = (shorter, replace.strip_suffix('\n').unwrap_or(replace));
    }
    match places[..] {
        [at] => {
            let (start, end) = (plain.original(at), plain.original(at + search.len()));
            let line_end = plain.line_end(text, start, end);
            Ok(format!(
                "{}{}{}",
                &text[..start],
                replace.replace('\n', line_end),
                &text[end..]
            ))
        }
        [] => Err(missing(&plain.text, search, replace)),
        _ => Err(ambiguous(&plain.text, search, &places)),
    }
}

/// A text with `\r\n` as `\n`, and the way back to the original's offsets.
struct Plain {
    text: String,
    /// Where in `text` the line ends are that lost a `\r`.
    shortened: Vec<usize>,
}

impl Plain {
    fn of(original: &str) -> Self {
        let text = original.replace("\r\n", "\n");
        let removed = original
            .match_indices("\r\n")
            .enumerate()
            .map(|(i, (at, _))| at - i)
            .collect();
        Self {
            text,
            shortened: removed,
        }
    }

    fn original(&self, at: usize) -> usize {
        at + self.shortened.partition_point(|cut| *cut < at)
    }

    /// The line end of the replaced place; of the whole file where the place has none.
    fn line_end(&self, original: &str, start: usize, end: usize) -> &'static str {
        let crlf = match original[start..end].find('\n') {
            Some(at) => original[start..start + at].ends_with('\r'),
            None => self.shortened.len() * 2 > self.text.matches('\n').count(),
        };
        if crlf { "\r\n" } else { "\n" }
    }
}

/// Every place as far as they are counted, overlapping ones too: `aa` stands twice in `aaa`.
fn places(text: &str, search: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut from = 0;
    while found.len() < PLACES_COUNTED_MAX
        && let Some(at) = text[from..].find(search)
    {
        found.push(from + at);
        from += at + text[from + at..].chars().next().map_or(1, char::len_utf8);
    }
    found
}

fn missing(text: &str, search: &str, replace: &str) -> String {
    if let Some(line) = only_line_of(text, replace) {
        return format!(
            "search was not found, but replace already stands at L{line}: the edit may be done already"
        );
    }
    let hint = nearest(text, search).unwrap_or_else(|| "No line of the file is like it.".into());
    format!("search was not found; read_lines shows the file as it is now. {hint}")
}

/// The line of the only place where a text of some length stands.
pub fn only_line_of(text: &str, wanted: &str) -> Option<usize> {
    if wanted.trim().len() < 2 {
        return None;
    }
    match places(text, wanted)[..] {
        [at] => Some(text[..at].matches('\n').count() + 1),
        _ => None,
    }
}

fn ambiguous(text: &str, search: &str, places: &[usize]) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let show = |at: &usize| {
        excerpt(
            &lines,
            text[..*at].matches('\n').count(),
            search.lines().count().min(3),
        )
    };
    let shown: Vec<String> = places.iter().take(PLACES_SHOWN_MAX).map(show).collect();
    let more = match places.len().saturating_sub(PLACES_SHOWN_MAX) {
        0 => String::new(),
        n => format!("\n[{n} more places]"),
    };
    let or_more = if places.len() == PLACES_COUNTED_MAX {
        " or more"
    } else {
        ""
    };
    format!(
        "search stands {} times{or_more} in the file; add lines around it until it fits one place:\n{}{more}",
        places.len(),
        shown.join("\n--\n")
    )
}
