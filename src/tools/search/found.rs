//! Matches and the lines around them: of one file as they are found, of all as they are shown.

use super::{LINE_CHARS_MAX, LINES_SHOWN_MAX, MATCHES_MAX};
use crate::tools::text;
use crate::tools::walk::Step;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkMatch};
use std::io;

/// Lines of one file beyond those that are shown: enough to know that there are more.
pub const SPARE: usize = 32;

/// What one file has to tell, in its order; no more than could be shown.
pub struct Lines {
    path: String,
    told: Vec<Told>,
    matches: usize,
    /// Not to its end, at least.
    pub is_unread: bool,
}

enum Told {
    Match(String),
    /// Stands before a match that is still to come.
    Before(String),
    After(String),
    Break,
}

impl Lines {
    pub fn of(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            told: Vec::new(),
            matches: 0,
            is_unread: false,
        }
    }

    pub fn len(&self) -> usize {
        self.told.len()
    }

    pub fn says_nothing(&self) -> bool {
        self.told.is_empty() && !self.is_unread
    }

    fn line(&self, mark: char, number: Option<u64>, bytes: &[u8]) -> String {
        let line = String::from_utf8_lossy(bytes);
        format!(
            "{}{mark}{}{mark} {}",
            self.path,
            number.unwrap_or(0), // BUG otherwise: the searcher counts lines
            text::line(line.trim_end(), LINE_CHARS_MAX)
        )
    }

    fn push(&mut self, told: Told) -> bool {
        self.told.push(told);
        self.told.len() < LINES_SHOWN_MAX + SPARE
    }
}

impl Sink for Lines {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.matches += 1;
        let line = self.line(':', found.line_number(), found.bytes());
        Ok(self.push(Told::Match(line)) && self.matches <= MATCHES_MAX)
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> io::Result<bool> {
        let line = self.line('-', around.line_number(), around.bytes());
        Ok(self.push(match around.kind() {
            SinkContextKind::Before => Told::Before(line),
            SinkContextKind::After | SinkContextKind::Other => Told::After(line),
        }))
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        Ok(self.push(Told::Break))
    }
}

/// What is shown of all files.
#[derive(Default)]
pub struct Found {
    pub lines: Vec<String>,
    matches: usize,
    /// What stands before a match that is not known to be shown yet.
    before: Vec<String>,
    /// Why this is not all.
    pub more: Option<String>,
    /// Files that could not be read.
    pub unread: usize,
}

impl Found {
    /// Takes the next file; [`Step::Stop`] where there is no room for more.
    pub fn hear(&mut self, lines: Option<Lines>, in_groups: bool) -> Step {
        let Some(lines) = lines else {
            self.unread += 1;
            return Step::On;
        };
        self.before.clear();
        if in_groups && !self.lines.is_empty() {
            self.before.push("--".into());
        }
        let has_room = lines.told.into_iter().all(|told| self.tell(told));
        self.unread += usize::from(lines.is_unread);
        match has_room {
            true => Step::On,
            false => Step::Stop,
        }
    }

    fn tell(&mut self, told: Told) -> bool {
        match told {
            Told::Match(_) if self.matches == MATCHES_MAX => {
                self.more = Some(format!("more than {MATCHES_MAX} matches"));
                false
            }
            Told::Match(line) => {
                self.matches += 1;
                self.push(line)
            }
            Told::After(line) => self.push(line),
            Told::Before(line) => {
                self.before.push(line);
                true
            }
            Told::Break => {
                self.before.push("--".into());
                true
            }
        }
    }

    /// Whether there is room; if not, the search ends.
    fn push(&mut self, line: String) -> bool {
        if self.lines.len() + self.before.len() >= LINES_SHOWN_MAX {
            self.more = Some(format!("more than {LINES_SHOWN_MAX} lines"));
            return false;
        }
        self.lines.append(&mut self.before);
        self.lines.push(line);
        true
    }
}
