//! What is too long to be read as messages, as a document with a summary.
//!
//! Pure: it chooses the form and makes the summary. A question is never one: whoever approves must have read all of it.

use super::text;
use crate::agent::event::OutgoingKind;

/// The longest caption, by WhatsApp.
pub const CAPTION_CHARS_MAX: usize = 1024;
/// Of these, for the beginning of a long answer, and for its last paragraph.
const BEGINNING_CHARS_MAX: usize = 700;
const ENDING_CHARS_MAX: usize = 300;
/// Files that a caption names.
const FILES_MAX: usize = 12;

/// A document and what stands below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub name: &'static str,
    pub content: String,
    pub caption: String,
}

impl Document {
    /// `None`: it goes as messages, of which it would take `messages`.
    pub fn of(
        kind: OutgoingKind,
        text: &str,
        messages: usize,
        messages_max: usize,
    ) -> Option<Self> {
        match kind {
            OutgoingKind::Question => None,
            OutgoingKind::Notice
            | OutgoingKind::Progress
            | OutgoingKind::Change
            | OutgoingKind::Final => match diff_in(text) {
                Some((before, diff)) if messages > 1 => Some(Self::of_diff(before, diff)),
                _ if messages > messages_max => Some(Self::of_answer(text)),
                _ => None,
            },
        }
    }

    fn of_diff(before: &str, diff: &str) -> Self {
        let before = before.trim();
        let summary = summary(diff);
        // What stands before a change names its files already.
        let is_said = before.contains("(+");
        let caption = match (before, is_said && is_short(before)) {
            (before, true) => before.to_owned(),
            ("", false) => summary,
            (before, false) if is_short(before) && !is_said => format!("{before}\n{summary}"),
            _ => summary,
        };
        Self {
            name: "diff.patch",
            content: format!("{diff}\n"),
            caption,
        }
    }

    fn of_answer(text: &str) -> Self {
        let shown = text::to_whatsapp(text);
        let mut beginning = text::split(&shown, BEGINNING_CHARS_MAX).into_iter();
        let mut caption = beginning.next().unwrap_or_default();
        caption.push_str("\n…");
        // What was done, tested and spent stands at the end of an answer.
        let last = shown.trim_end().rsplit("\n\n").next().unwrap_or_default();
        if last.chars().count() <= ENDING_CHARS_MAX && !last.contains("```") {
            caption.push_str("\n\n");
            caption.push_str(last);
        }
        Self {
            name: "answer.md",
            content: text.to_owned(),
            caption,
        }
    }
}

fn is_short(text: &str) -> bool {
    text.chars().count() <= CAPTION_CHARS_MAX
}

/// What stands before a diff, and the diff, where the text ends with one.
fn diff_in(text: &str) -> Option<(&str, &str)> {
    let (before, rest) = text.split_once("```diff\n")?;
    Some((before, rest.trim_end().strip_suffix("\n```")?))
}

/// The lines of a diff, in all and file by file.
fn summary(diff: &str) -> String {
    let mut files: Vec<(&str, usize, usize)> = Vec::new();
    for line in diff.lines() {
        if let Some(path) = line.strip_prefix("+++ ") {
            files.push((path.trim_start_matches("b/"), 0, 0));
        } else if let Some(file) = files.last_mut() {
            file.1 += usize::from(line.starts_with('+'));
            // The next file's first line.
            file.2 += usize::from(line.starts_with('-') && !line.starts_with("--- "));
        }
    }
    let (added, removed) = files
        .iter()
        .fold((0, 0), |sum, file| (sum.0 + file.1, sum.1 + file.2));
    let named = files.iter().take(FILES_MAX);
    let mut lines: Vec<String> = named
        .map(|(path, added, removed)| format!("{} (+{added} −{removed})", shortened(path)))
        .collect();
    if files.len() > FILES_MAX {
        lines.push(format!("… {}", files.len()));
    }
    format!("✏️ +{added} −{removed}\n{}", lines.join("\n"))
}

/// The end of a long path says more than its beginning.
fn shortened(path: &str) -> String {
    const CHARS_MAX: usize = 50;
    let chars = path.chars().count();
    match chars > CHARS_MAX {
        true => format!(
            "…{}",
            path.chars().skip(chars - CHARS_MAX).collect::<String>()
        ),
        false => path.to_owned(),
    }
}
