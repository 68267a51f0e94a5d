//! `*** Begin Patch`: the form that several models were trained to write. Pure.
//!
//! Read as they write it: without the last marker, wrapped into a heredoc or a code fence, with blanks around markers,
//! with carriage returns. What was overlooked is in the remarks, as it may mean that the text was cut.

use super::hunk::Hunk;
use super::{Change, Script, Step};
use crate::tools::text;

/// A line that says something about files.
enum Marker<'a> {
    Begin,
    End,
    Add(&'a str),
    Delete(&'a str),
    Update(&'a str),
    MoveTo(&'a str),
    EndOfFile,
}

impl<'a> Marker<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let rest = line.trim().strip_prefix("***")?.trim();
        match rest {
            "Begin Patch" => return Some(Self::Begin),
            "End Patch" => return Some(Self::End),
            "End of File" => return Some(Self::EndOfFile),
            _ => {}
        }
        let (word, path) = rest.split_once(':')?;
        let path = path.trim().trim_matches(['`', '"']);
        match word.trim() {
            "Add File" => Some(Self::Add(path)),
            "Delete File" => Some(Self::Delete(path)),
            "Update File" => Some(Self::Update(path)),
            "Move to" => Some(Self::MoveTo(path)),
            _ => None,
        }
    }
}

/// Whether a text is of this form: its first line that says anything is one of its markers.
pub fn is_one(patch: &str) -> bool {
    let is_diff = |line: &str| {
        ["--- ", "+++ ", "diff --git ", "@@"]
            .iter()
            .any(|mark| line.starts_with(mark))
    };
    patch
        .lines()
        .find_map(|line| match Marker::read(line) {
            Some(_) => Some(true),
            None => is_diff(line).then_some(false),
        })
        .unwrap_or(false)
}

/// Reads the text.
///
/// # Errors
/// The first line that cannot be read, by its number.
pub fn read(patch: &str) -> Result<Script, String> {
    let mut reader = Reader::default();
    for (i, raw) in patch.lines().enumerate() {
        let line = raw.strip_suffix('\r').unwrap_or(raw);
        reader.line(i + 1, line)?;
    }
    if !reader.ended {
        reader.close()?;
        let said = "*** End Patch is missing; the patch was taken as far as it goes";
        reader.script.remarks.push(said.into());
    }
    if reader.script.steps.is_empty() {
        return Err("the patch is empty: no *** Add File, *** Update File or *** Delete File stands between *** Begin Patch and *** End Patch".into());
    }
    Ok(reader.script)
}

#[derive(Default)]
struct Reader {
    script: Script,
    open: Option<Open>,
    begun: bool,
    ended: bool,
}

/// A file that is being read.
struct Open {
    line: usize,
    path: String,
    body: Body,
    /// Empty lines at the end so far: they may belong to it or part it from what follows.
    empty: usize,
}

enum Body {
    Add(Vec<String>),
    Delete,
    Update {
        to: Option<String>,
        hunks: Vec<Hunk>,
    },
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        // In a hunk, one blank makes it a context line that only looks like a marker.
        let in_hunk = matches!(&self.open, Some(Open { body: Body::Update { hunks, .. }, .. }) if !hunks.is_empty());
        let is_context = in_hunk && line.starts_with(' ') && !line.starts_with("  ");
        let marker = match is_context {
            true => None,
            false => Marker::read(line),
        };
        match marker {
            Some(Marker::Begin) => {
                self.close()?;
                (self.begun, self.ended) = (true, false);
            }
            Some(Marker::End) => {
                self.close()?;
                self.ended = true;
            }
            Some(Marker::Add(path)) => self.begin(number, path, Body::Add(Vec::new()))?,
            Some(Marker::Delete(path)) => self.begin(number, path, Body::Delete)?,
            Some(Marker::Update(path)) => {
                let (to, hunks) = (None, Vec::new());
                self.begin(number, path, Body::Update { to, hunks })?;
            }
            Some(Marker::MoveTo(path)) => self.move_to(number, path)?,
            Some(Marker::EndOfFile) => self.end_of_file(number)?,
            None => self.content(number, line)?,
        }
        Ok(())
    }

    fn begin(&mut self, line: usize, path: &str, body: Body) -> Result<(), String> {
        self.close()?;
        self.ended = false;
        if path.is_empty() {
            return Err(format!("line {line} of the patch names no file"));
        }
        self.open = Some(Open {
            line,
            path: path.to_owned(),
            body,
            empty: 0,
        });
        Ok(())
    }

    fn move_to(&mut self, number: usize, path: &str) -> Result<(), String> {
        if let Some(Open {
            body: Body::Update { to, hunks },
            ..
        }) = &mut self.open
            && hunks.is_empty()
            && to.is_none()
            && !path.is_empty()
        {
            *to = Some(path.to_owned());
            return Ok(());
        }
        Err(format!(
            "line {number} of the patch: *** Move to stands once, with a path, right after *** Update File"
        ))
    }

    fn end_of_file(&mut self, number: usize) -> Result<(), String> {
        match &mut self.open {
            Some(Open {
                body: Body::Update { hunks, .. },
                empty,
                ..
            }) if !hunks.is_empty() => {
                if let Some(hunk) = hunks.last_mut() {
                    hunk.trim(std::mem::take(empty));
                    hunk.at_end = true;
                }
                Ok(())
            }
            Some(Open {
                body: Body::Add(_), ..
            }) => Ok(()),
            _ => Err(format!(
                "line {number} of the patch: *** End of File stands after the lines of a change"
            )),
        }
    }

    fn content(&mut self, number: usize, line: &str) -> Result<(), String> {
        let Some(open) = &mut self.open else {
            return self.between(number, line);
        };
        if is_wrapping(line) && !self.begun {
            return Ok(());
        }
        match &mut open.body {
            Body::Add(lines) => match line.strip_prefix('+') {
                Some(text) => {
                    lines.extend(std::iter::repeat_n(
                        String::new(),
                        std::mem::take(&mut open.empty),
                    ));
                    lines.push(text.to_owned());
                }
                None if line.trim().is_empty() => open.empty += 1,
                None if is_wrapping(line) => {}
                None => {
                    return Err(format!(
                        "line {number} of the patch: every line of an added file begins with +: {}",
                        text::line(line, 80)
                    ));
                }
            },
            Body::Delete if line.trim().is_empty() || is_wrapping(line) => {}
            Body::Delete => {
                return Err(format!(
                    "line {number} of the patch: nothing stands after *** Delete File: {}",
                    text::line(line, 80)
                ));
            }
            Body::Update { hunks, .. } => update_line(hunks, &mut open.empty, number, line)?,
        }
        Ok(())
    }

    /// A line that belongs to no file.
    fn between(&mut self, number: usize, line: &str) -> Result<(), String> {
        let before = !self.begun && self.script.steps.is_empty();
        if line.trim().is_empty() || is_wrapping(line) || before || self.ended {
            return Ok(());
        }
        Err(format!(
            "line {number} of the patch belongs to no file; expected *** Add File, *** Update File or *** Delete File: {}",
            text::line(line, 80)
        ))
    }

    fn close(&mut self) -> Result<(), String> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let Open {
            line, path, body, ..
        } = open;
        let change = match body {
            Body::Add(lines) => Change::Add {
                content: lines.iter().map(|line| format!("{line}\n")).collect(),
                executable: false,
            },
            Body::Delete => Change::Delete { hunks: Vec::new() },
            Body::Update { to, mut hunks } => {
                if let Some(last) = hunks.last_mut() {
                    last.trim(open.empty);
                }
                if let Some(empty) = hunks.iter().find(|hunk| hunk.lines.is_empty()) {
                    return Err(format!(
                        "the hunk at line {} of the patch is empty",
                        empty.line
                    ));
                }
                if hunks.is_empty() && to.is_none() {
                    return Err(format!(
                        "line {line} of the patch: the update of {path} has no hunk"
                    ));
                }
                let exact = None;
                Change::Update { to, hunks, exact }
            }
        };
        let name = format!("Line {line} of the patch");
        self.script.steps.push(Step { name, path, change });
        Ok(())
    }
}

fn update_line(
    hunks: &mut Vec<Hunk>,
    empty: &mut usize,
    number: usize,
    line: &str,
) -> Result<(), String> {
    let fresh = || Hunk {
        line: number,
        ..Hunk::default()
    };
    if let Some(rest) = line.strip_prefix("@@") {
        // Several @@ lines in a row name one place, from the outside in.
        if let Some(last) = hunks.last_mut()
            && !last.lines.is_empty()
        {
            last.trim(std::mem::take(empty));
            hunks.push(fresh());
        } else if hunks.is_empty() {
            hunks.push(fresh());
        }
        if let Some(hunk) = hunks.last_mut() {
            hunk.head(rest);
        }
        return Ok(());
    }
    if hunks.is_empty() {
        let is_header = line.starts_with("--- ") || line.starts_with("+++ ");
        if line.is_empty() || is_header {
            return Ok(()); // the headers of a unified diff, which say nothing more
        }
        hunks.push(fresh());
    }
    if is_wrapping(line) {
        return Ok(());
    }
    let Some(hunk) = hunks.last_mut() else {
        return Ok(());
    };
    if hunk.at_end && !line.is_empty() {
        return Err(format!(
            "line {number} of the patch stands after *** End of File; begin a new hunk by @@"
        ));
    }
    if hunk.at_end || (line.is_empty() && hunk.lines.is_empty()) {
        return Ok(());
    }
    *empty = if line.is_empty() { *empty + 1 } else { 0 };
    hunk.take(number, line)
}

/// What a model puts around a patch: a code fence, a heredoc and its end.
fn is_wrapping(line: &str) -> bool {
    let line = line.trim_end();
    line.starts_with("```")
        || ["EOF", "PATCH", "END"].contains(&line)
        || (line.contains("<<") && line.contains("apply_patch"))
}
