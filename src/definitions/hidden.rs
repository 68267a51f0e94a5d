//! Characters that a person who reads a definition does not see, and a model does. Pure.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// A text without them, and how many there were.
pub fn removed(text: &str) -> (Cow<'_, str>, usize) {
    let places = places(text);
    if places.is_empty() {
        return (Cow::Borrowed(text), 0);
    }
    let kept = text
        .char_indices()
        .filter(|(at, _)| places.binary_search(at).is_err());
    (Cow::Owned(kept.map(|(_, c)| c).collect()), places.len())
}

/// What there is to say about a text that has some.
pub fn warning(text: &str) -> Option<String> {
    let places = places(text);
    let first = places.first()?;
    let line = text[..*first].lines().count().max(1);
    let names: BTreeSet<String> = places
        .iter()
        .filter_map(|at| text[*at..].chars().next())
        .map(|c| format!("U+{:04X}", u32::from(c)))
        .collect();
    let names: Vec<String> = names.into_iter().take(5).collect();
    Some(format!(
        "{} hidden characters ({}), the first near line {line}: they are removed",
        places.len(),
        names.join(", ")
    ))
}

fn places(text: &str) -> Vec<usize> {
    if text.is_ascii() && !text.bytes().any(|byte| is_hidden(char::from(byte))) {
        return Vec::new();
    }
    let mut places = Vec::new();
    let (mut before, mut chars) = (' ', text.char_indices().peekable());
    while let Some((at, c)) = chars.next() {
        let after = chars.peek().map_or(' ', |(_, c)| *c);
        // A byte order mark, and what joins letters of other scripts and emoji.
        let joins = matches!(c, '\u{200c}' | '\u{200d}') && is_joined(before) && is_joined(after);
        let fine = (at == 0 && c == '\u{feff}') || joins;
        if is_hidden(c) && !fine {
            places.push(at);
        }
        before = c;
    }
    places
}

fn is_joined(c: char) -> bool {
    !c.is_ascii() && !is_hidden(c)
}

/// Whether it shows nothing, controls something or turns the direction around.
pub fn is_hidden(c: char) -> bool {
    let is_control = c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    is_control
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_goes_and_is_told() {
        let text = "ok\nrun \u{202e}evil\u{202c} \u{e0041}\u{e0042}now\u{1b}[31m\u{200b}";
        let (clean, count) = removed(text);
        assert_eq!((&*clean, count), ("ok\nrun evil now[31m", 6));
        let told = warning(text).unwrap();
        assert!(
            told.starts_with("6 hidden characters (U+001B, ") && told.contains("line 2"),
            "{told}"
        );
    }

    #[test]
    fn what_languages_and_emoji_need_stays() {
        for text in [
            "plain\r\n\ttext",
            "\u{feff}mark",
            "می\u{200c}خواهم",
            "👩\u{200d}💻 ❤\u{fe0f}",
            "",
        ] {
            assert_eq!(removed(text), (Cow::Borrowed(text), 0));
            assert_eq!(warning(text), None);
        }
        assert_eq!(removed("a\u{200d}b").1, 1, "between letters that need none");
    }
}
