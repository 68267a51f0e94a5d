//! A question to another agent in a clean room: which program answers it, what it is told, what it may look at. Pure.
//!
//! The room is a folder of its own with nothing but links to sources; `world/clean_room.rs` makes it.

/// What was answered.
pub mod answer;
/// Programs that answer.
pub mod backend;
/// What may be looked at.
pub mod source;
/// The words of the question.
pub mod template;

/// Fills every pattern in one pass from left to right: what a value brings in is never looked at again.
pub(crate) fn substitute(text: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, pattern, value)) = first(rest, values) {
        filled.push_str(&rest[..at]);
        filled.push_str(value);
        rest = &rest[at + pattern.len()..];
    }
    filled + rest
}

fn first<'a>(text: &str, values: &[(&'a str, &'a str)]) -> Option<(usize, &'a str, &'a str)> {
    let found = values
        .iter()
        .filter_map(|(pattern, value)| Some((text.find(pattern)?, *pattern, *value)));
    found.min_by_key(|(at, ..)| *at)
}
