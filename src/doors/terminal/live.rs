//! What moves in a terminal: an answer while it is written, and the line that says that there is work.
//!
//! Both stand above the line that is being edited, and are only text: whoever prints it knows the terminal. Without colours
//! nothing moves: a screen reader would read out every frame.

use super::{Style, harmless};
use crate::agent::event::Event;
use std::time::{Duration, Instant};

/// How often the line changes.
pub const FRAME: Duration = Duration::from_millis(250);
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// To the beginning of the line above the edited one, and nothing left on it.
const OVER_LAST_LINE: &str = "\x1b[1A\r\x1b[2K";

/// An answer while it is written: shown line by line, and not once more when it is there.
#[derive(Debug, Default)]
pub struct Streamed {
    /// What has come since the last whole line.
    line: String,
    shown: String,
}

impl Streamed {
    /// The whole lines that are there with this piece of text.
    pub fn take(&mut self, piece: &str) -> Option<String> {
        self.line.push_str(piece);
        let (lines, rest) = self.line.rsplit_once('\n')?;
        let (lines, rest) = (lines.to_owned(), rest.to_owned());
        self.shown.push_str(&lines);
        self.shown.push('\n');
        self.line = rest;
        Some(lines)
    }

    /// What is left of it at its end.
    pub fn end(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.line);
        self.shown.push_str(&rest);
        (!rest.is_empty()).then_some(rest)
    }

    /// The answer starts over; whether something of it was shown.
    pub fn forget(&mut self) -> bool {
        let was_shown = !self.shown.is_empty();
        *self = Self::default();
        was_shown
    }

    /// What of a message was not shown while it was written.
    pub fn rest_of<'a>(&mut self, text: &'a str) -> &'a str {
        let shown = std::mem::take(self).shown;
        let shown = shown.trim();
        match text.trim_start().strip_prefix(shown) {
            Some(rest) if !shown.is_empty() => rest.trim(),
            Some(_) | None => text,
        }
    }
}

/// The line that says that there is work.
#[derive(Debug)]
pub struct Spinner {
    style: Style,
    at_work: Option<(String, Instant)>,
    frame: usize,
    /// It stands above the edited line.
    shown: bool,
}

impl Spinner {
    pub fn new(style: Style) -> Self {
        Self {
            style,
            at_work: None,
            frame: 0,
            shown: false,
        }
    }

    /// Takes note of what is done now.
    pub fn note(&mut self, event: &Event) {
        match event {
            Event::ModelAsked { .. } | Event::SummaryAsked { .. } => self.begin("thinking"),
            Event::ToolStarted { tool, .. } => self.begin(tool),
            Event::ModelAnswered { .. }
            | Event::ModelFailed { .. }
            | Event::SummaryGiven { .. }
            | Event::ToolFinished { .. }
            | Event::ApprovalAsked { .. }
            | Event::QuestionAsked { .. }
            | Event::ServerAsked { .. }
            | Event::TurnEnded { .. } => self.at_work = None,
            _ => {}
        }
    }

    fn begin(&mut self, what: &str) {
        self.at_work = Some((harmless(what), Instant::now()));
    }

    /// Whether it moves.
    pub fn moves(&self) -> bool {
        self.style.colour && self.at_work.is_some()
    }

    /// The next frame, in the place of the last; `None` where there is nothing to show.
    pub fn next_frame(&mut self) -> Option<String> {
        let (what, since) = self.at_work.as_ref().filter(|_| self.style.colour)?;
        let frame = FRAMES[self.frame % FRAMES.len()];
        self.frame += 1;
        let line = format!(
            "{frame} {what}, {} s (Ctrl-C stops it)",
            since.elapsed().as_secs()
        );
        let line = self.style.dim(&line);
        Some(self.over(&line, true))
    }

    /// A text to be printed, in the place of the line.
    pub fn over(&mut self, text: &str, stays: bool) -> String {
        match std::mem::replace(&mut self.shown, stays) {
            true => format!("{OVER_LAST_LINE}{text}"),
            false => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_shown_once_line_by_line() {
        let mut streamed = Streamed::default();
        assert_eq!(streamed.take("It is"), None);
        assert_eq!(
            streamed.take(" done.\n\nAnd").as_deref(),
            Some("It is done.\n")
        );
        assert_eq!(streamed.take(" tested."), None);
        assert_eq!(streamed.end().as_deref(), Some("And tested."));
        let told = "It is done.\n\nAnd tested.\n\n✏️ Files changed: 1";
        assert_eq!(streamed.rest_of(told), "✏️ Files changed: 1");
        assert_eq!(streamed.rest_of("Stopped."), "Stopped.");
    }

    #[test]
    fn what_was_written_and_is_not_the_message_stands_beside_it() {
        let mut streamed = Streamed::default();
        streamed.take("I begin\nwith");
        assert!(streamed.forget());
        assert!(!streamed.forget());
        assert_eq!(streamed.end(), None);
        streamed.take("Another text\n");
        assert_eq!(streamed.rest_of("Stopped."), "Stopped.");
    }
}
