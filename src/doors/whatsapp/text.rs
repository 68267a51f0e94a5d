//! Markdown in, messages that WhatsApp shows well out: its own marks, and parts that fit.
//!
//! Two pure functions and their composition. Code is sacred: nothing between backticks or fences changes, and where a
//! mark is in doubt (`2*3*4`, `a_b_c`, `*.rs`) it stays as it was written. This knows no HTML, no tables, no footnotes.

mod marks;
mod split;

pub use marks::to_whatsapp;
pub use split::split;

/// The longest text message, by WhatsApp.
pub const MESSAGE_CHARS_MAX: usize = 4096;
/// The longest text above reply buttons, by WhatsApp.
pub const BUTTON_BODY_CHARS_MAX: usize = 1024;

/// What a model or a command wrote, as the messages that carry it. Empty for a blank text, which WhatsApp refuses.
pub fn messages(markdown: &str) -> Vec<String> {
    split(&to_whatsapp(markdown), MESSAGE_CHARS_MAX)
}

/// A question for buttons: all of it, the last part short enough to stand above them. `None` for a blank text.
pub fn question(markdown: &str) -> Option<(Vec<String>, String)> {
    let text = to_whatsapp(markdown);
    let mut parts = split(&text, MESSAGE_CHARS_MAX);
    let last = parts.pop()?;
    let mut tail = split(&last, BUTTON_BODY_CHARS_MAX);
    let body = tail.pop()?;
    // What does not fit above the buttons goes before them, in as few messages as it takes.
    parts.extend(tail);
    Some((parts, body))
}
