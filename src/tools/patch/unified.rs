//! Unified diffs, as git, `diff -u` and models write them. Pure.
//!
//! The library takes what is exact ([`exact`]); this module finds the files and the hunks, also where a model counted
//! wrong or left the numbers out. What a text edit cannot do (modes, links, binary files) is refused.

use super::hunk::{Hunk, Mark};
use super::names::{git_name, header_name};
use super::{Change, Script, Step};

const EMPTY: &str = "the patch is empty: it has no hunk with changed lines. A unified diff has ---, +++ and @@ lines; or give *** Begin Patch, or edits";

/// Reads the text.
///
/// # Errors
/// The first line that cannot be read, by its number; a file whose change cannot be made here.
pub fn read(patch: &str) -> Result<Script, String> {
    let raw: Vec<&str> = patch.split_inclusive('\n').collect();
    let lines: Vec<&str> = raw
        .iter()
        .map(|l| l.trim_end_matches(['\r', '\n']))
        .collect();
    let mut reader = Reader {
        raw: &raw,
        lines: &lines,
        at: 0,
    };
    let mut script = Script::default();
    while let Some(section) = reader.section()? {
        script.remarks.extend(section.remarks());
        script.steps.push(section.step()?);
    }
    match script.steps.is_empty() {
        true => Err(EMPTY.into()),
        false => Ok(script),
    }
}

/// The text with the hunks applied, if every one stands exactly where and how its header says.
pub fn exact(before: &str, hunks: &str, count: usize) -> Option<String> {
    let patch = diffy::Patch::from_str(hunks).ok()?;
    let lines: Vec<&str> = before.split_inclusive('\n').collect();
    let mut drift = 0_isize;
    let mut fits = |hunk: &diffy::Hunk<'_, str>| {
        let (old, new) = (hunk.old_range(), hunk.new_range());
        // The library searches from the new start: where it is wrong, or a side is empty, it may find another place.
        let starts = old.start() as isize + drift == new.start() as isize;
        let sides = !old.is_empty() && !new.is_empty() && old.start() > 0;
        let wanted = hunk.lines().iter().filter_map(|line| match line {
            diffy::Line::Context(text) | diffy::Line::Delete(text) => Some(*text),
            diffy::Line::Insert(_) => None,
        });
        drift += new.len() as isize - old.len() as isize;
        sides
            && starts
            && lines
                .get(old.start() - 1..old.start() - 1 + old.len())
                .is_some_and(|here| wanted.eq(here.iter().copied()))
    };
    let all = patch.hunks().len() == count && patch.hunks().iter().all(&mut fits);
    all.then(|| diffy::apply(before, &patch).ok()).flatten()
}

struct Reader<'a> {
    raw: &'a [&'a str],
    lines: &'a [&'a str],
    at: usize,
}

/// What stands in a diff about one file.
#[derive(Default)]
struct Section {
    line: usize,
    /// From `diff --git`, where it can be told.
    git: Option<String>,
    old: Option<String>,
    new: Option<String>,
    rename: (Option<String>, Option<String>),
    mode: Option<String>,
    old_mode: Option<String>,
    is_new: bool,
    is_gone: bool,
    refused: Option<&'static str>,
    hunks: Vec<Hunk>,
    miscounted: Vec<usize>,
    exact: String,
}

impl Reader<'_> {
    fn section(&mut self) -> Result<Option<Section>, String> {
        while self.at < self.lines.len() {
            let line = self.lines[self.at];
            if line.starts_with("diff --git ") || self.is_header(self.at) {
                return self.file().map(Some);
            }
            if line.starts_with("@@") {
                return Err(format!(
                    "line {} of the patch: the hunk belongs to no file; --- and +++ lines with its path must stand before it",
                    self.at + 1
                ));
            }
            self.at += 1; // a title, a commit message, a code fence
        }
        Ok(None)
    }

    /// `---` and `+++` on two lines.
    fn is_header(&self, at: usize) -> bool {
        self.lines[at].starts_with("--- ")
            && self
                .lines
                .get(at + 1)
                .is_some_and(|next| next.starts_with("+++ "))
    }

    fn file(&mut self) -> Result<Section, String> {
        let mut section = Section {
            line: self.at + 1,
            ..Section::default()
        };
        while self.at < self.lines.len() {
            let line = self.lines[self.at];
            if let Some(names) = line.strip_prefix("diff --git ") {
                if section.line != self.at + 1 {
                    break; // the next file
                }
                section.git = git_name(names);
            } else if self.is_header(self.at) {
                section.old = Some(header_name(&line[4..]));
                section.new = Some(header_name(&self.lines[self.at + 1][4..]));
                self.at += 2;
                self.hunks(&mut section)?;
                break;
            } else if line.starts_with("@@") {
                return Err(format!(
                    "line {} of the patch: a hunk without --- and +++ lines before it",
                    self.at + 1
                ));
            } else {
                section.extended(line);
            }
            self.at += 1;
        }
        Ok(section)
    }

    fn hunks(&mut self, section: &mut Section) -> Result<(), String> {
        let first = self.at;
        while let Some(rest) = self
            .lines
            .get(self.at)
            .and_then(|line| line.strip_prefix("@@"))
        {
            let mut hunk = Hunk {
                line: self.at + 1,
                ..Hunk::default()
            };
            let counts = hunk.head(rest);
            self.at += 1;
            self.body(&mut hunk, counts)?;
            let (old, new) = (hunk.old_lines().len(), hunk.new_lines().len());
            if counts.is_some_and(|counts| counts != (old, new)) {
                section.miscounted.push(hunk.line);
            }
            if !hunk.lines.iter().any(|line| line.mark != Mark::Keep) {
                return Err(format!(
                    "the hunk at line {} of the patch changes nothing: it has no line with - or +",
                    hunk.line
                ));
            }
            section.hunks.push(hunk);
        }
        section.exact = self.raw[first..self.at].concat();
        Ok(())
    }

    fn body(&mut self, hunk: &mut Hunk, counts: Option<(usize, usize)>) -> Result<(), String> {
        let (mut old, mut new, mut empty) = (0, 0, 0);
        while let Some(line) = self.lines.get(self.at) {
            let full = counts.is_some_and(|(o, n)| old >= o && new >= n);
            // Two lines that look like headers can be a removed and an added line: the header's counts tell.
            let is_content = match counts {
                Some(counts) => !full && (!self.is_file(self.at) || counts == (old + 1, new + 1)),
                None => !self.is_file(self.at),
            };
            let ends = line.starts_with("@@")
                || line.starts_with("diff --git ")
                || line.starts_with("```")
                || (self.is_header(self.at) && !is_content)
                || (full && !line.starts_with([' ', '+', '-', '\\']))
                || (full && (*line == "-- " || *line == "--"));
            if ends {
                break;
            }
            empty = if line.is_empty() { empty + 1 } else { 0 };
            hunk.take(self.at + 1, line)?;
            old += usize::from(!line.starts_with(['+', '\\']));
            new += usize::from(!line.starts_with(['-', '\\']));
            self.at += 1;
        }
        // Those that the header counts are context; others only part the hunk from what follows.
        let counted = counts.map_or(0, |(o, _)| o.saturating_sub(old - empty));
        hunk.trim(empty.saturating_sub(counted));
        Ok(())
    }

    /// A header that a hunk follows.
    fn is_file(&self, at: usize) -> bool {
        self.lines
            .get(at + 2)
            .is_some_and(|line| line.starts_with("@@"))
    }
}

impl Section {
    /// Lines between `diff --git` and `---`.
    fn extended(&mut self, line: &str) {
        let rest = |prefix: &str| {
            line.strip_prefix(prefix)
                .map(|rest| header_name(rest.trim()))
        };
        if let Some(mode) = rest("new file mode ") {
            (self.is_new, self.mode) = (true, Some(mode));
        } else if let Some(mode) = rest("deleted file mode ") {
            (self.is_gone, self.mode) = (true, Some(mode));
        } else if let Some(mode) = rest("old mode ") {
            self.old_mode = Some(mode);
        } else if let Some(mode) = rest("new mode ") {
            self.mode = Some(mode);
        } else if let Some(path) = rest("rename from ") {
            self.rename.0 = Some(path);
        } else if let Some(path) = rest("rename to ") {
            self.rename.1 = Some(path);
        } else if line.starts_with("copy from ") {
            self.refused = Some("copies are not made from a diff; use write_file for the new file");
        } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
            self.refused = Some("binary files can't be patched here");
        }
    }

    fn remarks(&self) -> Vec<String> {
        let said = |line: &usize| {
            format!(
                "the counts in the header at line {line} of the patch are wrong; all of its lines were taken"
            )
        };
        self.miscounted.iter().map(said).collect()
    }

    fn step(self) -> Result<Step, String> {
        let name = format!("Line {} of the patch", self.line);
        let fail = |why: &str| Err(format!("line {} of the patch: {why}", self.line));
        if let Some(why) = self.refused {
            return fail(why);
        }
        if self
            .mode
            .as_deref()
            .is_some_and(|mode| !mode.starts_with("100"))
        {
            return fail("links and submodules can't be patched here");
        }
        if self.old_mode.is_some() && self.old_mode != self.mode {
            return fail("the mode of a file is not changed by a patch; leave the mode lines out");
        }
        let (old, new) = self.names();
        if let (Some(from), Some(to)) = self.rename {
            let (to, hunks) = (Some(to), self.hunks);
            let exact = (!hunks.is_empty()).then_some(self.exact);
            return Ok(Step {
                name,
                path: from,
                change: Change::Update { to, hunks, exact },
            });
        }
        match (old, new) {
            (None, Some(path)) => {
                let change = Change::Add {
                    content: added(&self.hunks),
                    executable: self.mode.as_deref() == Some("100755"),
                };
                if self.hunks.iter().any(|hunk| !hunk.old_lines().is_empty()) {
                    return fail("a new file has only added lines, but there are others");
                }
                Ok(Step { name, path, change })
            }
            (Some(path), None) => {
                let hunks = self.hunks;
                let change = Change::Delete { hunks };
                Ok(Step { name, path, change })
            }
            (Some(old), Some(new)) if old != new => fail(&format!(
                "--- names {old}, +++ names {new}; give the same path twice, or rename from and rename to lines"
            )),
            (Some(_), Some(_)) if self.hunks.is_empty() => fail(EMPTY),
            (Some(path), Some(_)) => {
                let (to, hunks, exact) = (None, self.hunks, Some(self.exact));
                Ok(Step {
                    name,
                    path,
                    change: Change::Update { to, hunks, exact },
                })
            }
            (None, None) => fail("no path can be told from its headers"),
        }
    }

    /// The names of both sides without git's prefixes; `None` where there is no file.
    fn names(&self) -> (Option<String>, Option<String>) {
        let (old, new) = match (&self.old, &self.new) {
            (Some(old), Some(new)) => (old.as_str(), new.as_str()),
            _ => {
                let path = self.git.clone();
                let old = path.clone().filter(|_| !self.is_new);
                return (old, path.filter(|_| !self.is_gone));
            }
        };
        let is_none = |name: &str| name == "/dev/null";
        let bare = |name: &str, prefixes: [&str; 2]| {
            let cut = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
            cut.map(str::to_owned)
        };
        let both = (bare(old, ["a/", "i/"]), bare(new, ["b/", "w/"]));
        let (old_cut, new_cut) = match both {
            (Some(a), Some(b)) => (a, b),
            (Some(a), None) if is_none(new) => (a, new.to_owned()),
            (None, Some(b)) if is_none(old) => (old.to_owned(), b),
            _ => (old.to_owned(), new.to_owned()),
        };
        let there = |name: String| (!is_none(&name)).then_some(name);
        (
            there(old_cut).filter(|_| !self.is_new),
            there(new_cut).filter(|_| !self.is_gone),
        )
    }
}

fn added(hunks: &[Hunk]) -> String {
    let lines = || hunks.iter().flat_map(|hunk| &hunk.lines);
    let mut content: String = lines().map(|line| format!("{}\n", line.text)).collect();
    if lines().last().is_some_and(|line| line.no_newline) {
        content.pop();
    }
    content
}
