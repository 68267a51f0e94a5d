//! A hunk as it is read from a patch, line by line, whatever form the patch has. Pure; where it fits is not its business.

use crate::tools::text;

/// One connected change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hunk {
    /// Its line in the patch, from 1.
    pub line: usize,
    /// Texts of `@@` lines: each names a line above the change, from the outside in.
    pub anchors: Vec<String>,
    /// The line of the old file that the header names, from 1. Without old lines: the line that it comes after.
    pub stated: Option<usize>,
    pub lines: Vec<Line>,
    /// It says that it ends where the file ends.
    pub at_end: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub mark: Mark,
    pub text: String,
    /// `\ No newline at end of file` follows.
    pub no_newline: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Keep,
    Remove,
    Insert,
}

impl Hunk {
    /// Takes a line of the patch, with its mark. An empty one is an empty context line whose blank was lost.
    ///
    /// # Errors
    /// The line has no mark.
    pub fn take(&mut self, number: usize, raw: &str) -> Result<(), String> {
        let (mark, text) = match raw.chars().next() {
            None => (Mark::Keep, ""),
            Some(' ') => (Mark::Keep, &raw[1..]),
            Some('-') => (Mark::Remove, &raw[1..]),
            Some('+') => (Mark::Insert, &raw[1..]),
            Some('\\') => {
                if let Some(last) = self.lines.last_mut() {
                    last.no_newline = true;
                }
                return Ok(());
            }
            Some(_) => {
                return Err(format!(
                    "line {number} of the patch begins with none of ' ', '-', '+' or '@@': {}",
                    text::line(raw, 80)
                ));
            }
        };
        self.lines.push(Line {
            mark,
            text: text.strip_prefix('\u{feff}').unwrap_or(text).to_owned(),
            no_newline: false,
        });
        Ok(())
    }

    /// Takes away empty lines at the end that stand there only to part it from what follows.
    pub fn trim(&mut self, empty: usize) {
        let kept = self.lines.len().saturating_sub(empty);
        self.lines.truncate(kept);
    }

    /// Reads what follows the `@@` of a header: line numbers, or a text that names a line.
    pub fn head(&mut self, rest: &str) -> Option<(usize, usize)> {
        let rest = rest.trim();
        let numbers = rest.split("@@").next().unwrap_or(rest);
        let Some((old, new)) = ranges(numbers) else {
            let anchor = rest.strip_suffix("@@").unwrap_or(rest).trim();
            if !anchor.is_empty() {
                self.anchors.push(anchor.to_owned());
            }
            return None;
        };
        self.stated = Some(old.0);
        Some((old.1, new.1))
    }

    /// The lines that must be there.
    pub fn old_lines(&self) -> Vec<&str> {
        let old = self.lines.iter().filter(|line| line.mark != Mark::Insert);
        old.map(|line| line.text.as_str()).collect()
    }

    /// The lines that will be there.
    pub fn new_lines(&self) -> Vec<&str> {
        let new = self.lines.iter().filter(|line| line.mark != Mark::Remove);
        new.map(|line| line.text.as_str()).collect()
    }
}

/// `-12,3 +14,4`: start and length of both sides.
fn ranges(text: &str) -> Option<((usize, usize), (usize, usize))> {
    let (old, new) = text.trim().split_once(' ')?;
    let number = |text: &str| Some(text.parse::<u32>().ok()? as usize);
    let range = |text: &str| match text.split_once(',') {
        Some((start, len)) => Some((number(start)?, number(len)?)),
        None => Some((number(text)?, 1)),
    };
    Some((
        range(old.strip_prefix('-')?)?,
        range(new.trim().strip_prefix('+')?)?,
    ))
}
