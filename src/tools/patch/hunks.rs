//! Where the hunks of a patch fit in a text, and the text that comes out. Pure.
//!
//! Exact places come first. Where there is none, blanks at line ends, look-alike characters and at last indentation may
//! differ; whatever was overlooked is in the remarks. Two places that fit equally well are an error: nothing is guessed.
//! Context lines keep the bytes of the file, and new lines get the line end of their neighbours.

use super::assemble::{Shift, Spot, assemble, split_end};
use super::hunk::Hunk;
use super::replace;
use crate::tools::nearest::{excerpt, nearest};
use std::cell::Cell;
use std::ops::Range;

const PLACES_SHOWN_MAX: usize = 5;
const PLACES_COUNTED_MAX: usize = 1_000;

/// How alike a place is, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Likeness {
    Exact,
    LineEnds,
    LookAlikes,
    Indentation,
}

const LADDER: [Likeness; 4] = [
    Likeness::Exact,
    Likeness::LineEnds,
    Likeness::LookAlikes,
    Likeness::Indentation,
];

impl Likeness {
    fn holds(self, file: &str, wanted: &str) -> bool {
        match self {
            Likeness::Exact => file == wanted,
            Likeness::LineEnds => file.trim_end() == wanted.trim_end(),
            Likeness::LookAlikes => plain(file.trim_end()) == plain(wanted.trim_end()),
            Likeness::Indentation => file.trim() == wanted.trim(),
        }
    }

    fn remark(self) -> Option<&'static str> {
        match self {
            Likeness::Exact => None,
            Likeness::LineEnds => Some("fits only without regard to blanks at line ends"),
            Likeness::LookAlikes => Some(
                "fits only with look-alike characters (quotes, dashes, blanks) taken as the same",
            ),
            Likeness::Indentation => Some(
                "fits only with another indentation; its new lines were indented like the file",
            ),
        }
    }
}

struct Search<'a> {
    file: &'a [(&'a str, &'a str)],
    taken: Vec<Range<usize>>,
    /// The end of the last hunk's place.
    cursor: usize,
    /// By how many lines the last hunk was not where its header said.
    drift: isize,
    /// Lines that were compared so far.
    compared: Cell<usize>,
}

/// Lines that one file's hunks may compare: seconds at most, also for a file and a hunk of nothing but empty lines.
const COMPARED_MAX: usize = 50_000_000;

/// The text with all hunks applied, and remarks about what was overlooked.
///
/// # Errors
/// The hunks that do not fit, with the nearest places and their line numbers.
pub fn apply(whole: &str, hunks: &[Hunk]) -> Result<(String, Vec<String>), String> {
    let (mark, body) = match whole.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", whole),
    };
    let file: Vec<(&str, &str)> = body.split_inclusive('\n').map(split_end).collect();
    let mut search = Search {
        file: &file,
        taken: Vec::new(),
        cursor: 0,
        drift: 0,
        compared: Cell::new(0),
    };
    let (mut spots, mut remarks, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for (i, hunk) in hunks.iter().enumerate() {
        let name = format!("hunk {} (line {} of the patch)", i + 1, hunk.line);
        match search.place(hunk, body) {
            Ok((spot, said)) => {
                remarks.extend(said.into_iter().map(|said| format!("{name} {said}")));
                spots.push((spot, hunk));
            }
            Err(error) => errors.push(format!("{name}: {error}")),
        }
    }
    if !errors.is_empty() {
        return Err(errors.join("\n"));
    }
    // Of two insertions at one place, the first in the patch stays the first.
    spots.sort_by_key(|(spot, _)| (spot.lines.start, spot.lines.end));
    Ok((format!("{mark}{}", assemble(&file, &spots)), remarks))
}

impl Search<'_> {
    fn place(&mut self, hunk: &Hunk, body: &str) -> Result<(Spot, Vec<String>), String> {
        let old = hunk.old_lines();
        let anchors = self.anchors(hunk)?;
        let (spot, mut said) = match old.is_empty() {
            true => self.insertion(hunk, &anchors)?,
            false => self.change(hunk, &old, &anchors, body)?,
        };
        if let (Some(stated), false) = (hunk.stated, old.is_empty()) {
            let at = spot.lines.start + 1;
            let drift = at as isize - stated as isize;
            if drift != self.drift {
                said.push(format!("is at L{at}, not at L{stated} as stated"));
            }
            self.drift = drift;
        }
        self.cursor = spot.lines.end;
        self.taken.push(spot.lines.clone());
        Ok((spot, said))
    }

    /// Nothing to be found: new lines for a place that a header or an anchor names, or for the end.
    fn insertion(&self, hunk: &Hunk, anchors: &[usize]) -> Result<(Spot, Vec<String>), String> {
        let end = self.file.len();
        let (at, said) = match (hunk.stated, anchors) {
            (_, []) if hunk.stated.is_none() || end == 0 || hunk.at_end => (
                end,
                (end > 0).then(|| "has no context; its lines were put at the end".to_owned()),
            ),
            (Some(stated), _) if stated > end => {
                return Err(format!(
                    "it has no context, and L{stated} is past the end: the file has {end} lines. Add context lines"
                ));
            }
            (Some(stated), _) => (
                stated,
                Some(format!(
                    "has no context; its lines were put after L{stated} as stated"
                )),
            ),
            (None, [one]) => (
                one + 1,
                Some(format!(
                    "has no context; its lines were put after L{}, which its @@ names",
                    one + 1
                )),
            ),
            (None, many) => {
                return Err(format!(
                    "it has no context, and its @@ names several lines; add context lines:\n{}",
                    self.show(many, 1)
                ));
            }
        };
        let inside = |taken: &Range<usize>| taken.start < at && at < taken.end;
        if self.taken.iter().any(inside) {
            return Err(format!(
                "its lines would go between lines that another hunk changes, after L{at}; make one hunk of both"
            ));
        }
        let spot = Spot {
            lines: at..at,
            shift: Shift::None,
        };
        Ok((spot, said.into_iter().collect()))
    }

    fn change(
        &self,
        hunk: &Hunk,
        old: &[&str],
        anchors: &[usize],
        body: &str,
    ) -> Result<(Spot, Vec<String>), String> {
        for likeness in LADDER {
            let places = self.places(old, likeness);
            if self.compared.get() > COMPARED_MAX {
                return Err(
                    "its place takes too long to find; use fewer and shorter hunks, or edits"
                        .into(),
                );
            }
            if places.is_empty() {
                continue;
            }
            let at = self.choose(hunk, old.len(), anchors, &places)?;
            let shift = match likeness {
                Likeness::Indentation => self.shift(at, old).unwrap_or(Shift::None),
                _ => Shift::None,
            };
            let mut said: Vec<String> = likeness.remark().map(str::to_owned).into_iter().collect();
            if hunk.at_end && at + old.len() != self.file.len() {
                said.push("is not at the end of the file, as it says".into());
            }
            if hunk.stated.is_none() && at < self.cursor {
                said.push("stands above the one before it".into());
            }
            let lines = at..at + old.len();
            let overlaps =
                |taken: &Range<usize>| lines.start < taken.end && taken.start < lines.end;
            if self.taken.iter().any(overlaps) {
                return Err(format!(
                    "its place at L{} is changed by another hunk already; make one hunk of both",
                    at + 1
                ));
            }
            return Ok((Spot { lines, shift }, said));
        }
        Err(missing(body, hunk, old))
    }

    /// Where the lines stand, as alike as asked for.
    fn places(&self, old: &[&str], likeness: Likeness) -> Vec<usize> {
        let last = (self.file.len() + 1).saturating_sub(old.len());
        let fits = |at: &usize| {
            let alike = |(wanted, (line, _)): (&&str, &(&str, &str))| {
                self.compared.set(self.compared.get() + 1);
                likeness.holds(line, wanted)
            };
            self.compared.get() <= COMPARED_MAX && old.iter().zip(&self.file[*at..]).all(alike)
        };
        let shifts =
            |at: &usize| likeness != Likeness::Indentation || self.shift(*at, old).is_some();
        (0..last)
            .filter(|at| fits(at) && shifts(at))
            .take(PLACES_COUNTED_MAX)
            .collect()
    }

    /// The one place that is meant.
    fn choose(
        &self,
        hunk: &Hunk,
        len: usize,
        anchors: &[usize],
        places: &[usize],
    ) -> Result<usize, String> {
        let at_end = self.file.len() - len;
        if hunk.at_end && places.contains(&at_end) {
            return Ok(at_end);
        }
        if let Some(stated) = hunk.stated {
            let expected = (stated as isize - 1 + self.drift).max(0) as usize;
            if places.contains(&expected) {
                return Ok(expected);
            }
        }
        let mut meant: Vec<usize> = match anchors {
            [] => places
                .iter()
                .copied()
                .filter(|at| *at >= self.cursor)
                .collect(),
            _ => anchors
                .iter()
                .filter_map(|anchor| places.iter().copied().find(|at| at >= anchor))
                .collect(),
        };
        meant.dedup();
        match (&meant[..], places) {
            ([one], _) | ([], [one]) => Ok(*one),
            ([], many) | (many, _) => Err(format!(
                "its context stands {} times in the file; add lines around it, or an @@ line that names the function or class, until it fits one place:\n{}",
                many.len(),
                self.show(many, len)
            )),
        }
    }

    /// The lines that the hunk's anchors can mean; empty where it has none.
    fn anchors(&self, hunk: &Hunk) -> Result<Vec<usize>, String> {
        let mut from: Vec<usize> = Vec::new();
        for (i, anchor) in hunk.anchors.iter().enumerate() {
            let starts = match i {
                0 => vec![0],
                _ => from.iter().map(|line| line + 1).collect(),
            };
            let named = |how: fn(&str, &str) -> bool| {
                let mut lines: Vec<usize> = match i {
                    0 => (0..self.file.len())
                        .filter(|at| how(self.file[*at].0, anchor))
                        .collect(),
                    _ => starts
                        .iter()
                        .filter_map(|start| {
                            (*start..self.file.len()).find(|at| how(self.file[*at].0, anchor))
                        })
                        .collect(),
                };
                lines.dedup();
                lines
            };
            from = named(|line, anchor| line.trim() == anchor.trim());
            if from.is_empty() {
                from = named(|line, anchor| line.contains(anchor.trim()));
            }
            if from.is_empty() {
                // A section name that git cut, or one from another state of the file: the context alone must do.
                if hunk.stated.is_some() || !hunk.old_lines().is_empty() {
                    return Ok(Vec::new());
                }
                return Err(format!("no line of the file is like its @@ {anchor}"));
            }
        }
        Ok(from)
    }

    /// How the file's indentation differs from the patch's, if it does so in every line alike.
    fn shift(&self, at: usize, old: &[&str]) -> Option<Shift> {
        let mut shift: Option<Shift> = None;
        for (wanted, (line, _)) in old.iter().zip(&self.file[at..]) {
            if wanted.trim().is_empty() {
                continue;
            }
            let indent = |text: &str| text[..text.len() - text.trim_start().len()].to_owned();
            let (here, there) = (indent(line), indent(wanted));
            let this = match (here.strip_suffix(&there), there.strip_suffix(&here)) {
                (Some(""), _) => Shift::None,
                (Some(more), _) => Shift::Add(more.to_owned()),
                (_, Some(more)) => Shift::Remove(more.to_owned()),
                (None, None) => return None,
            };
            if shift.get_or_insert_with(|| this.clone()) != &this {
                return None;
            }
        }
        shift
    }

    fn show(&self, places: &[usize], len: usize) -> String {
        let lines: Vec<&str> = self.file.iter().map(|(line, _)| *line).collect();
        let shown: Vec<String> = places
            .iter()
            .take(PLACES_SHOWN_MAX)
            .map(|at| excerpt(&lines, *at, len.min(3)))
            .collect();
        let more = match places.len().saturating_sub(PLACES_SHOWN_MAX) {
            0 => String::new(),
            n => format!("\n[{n} more places]"),
        };
        format!("{}{more}", shown.join("\n--\n"))
    }
}

/// Characters that models write for one another.
fn plain(text: &str) -> String {
    let same = |c: char| match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    };
    text.chars().map(same).collect()
}

fn missing(body: &str, hunk: &Hunk, old: &[&str]) -> String {
    let new = hunk.new_lines().join("\n");
    if let Some(line) = replace::only_line_of(&body.replace("\r\n", "\n"), &new) {
        return format!(
            "its context was not found, but its new lines already stand at L{line}: it may be done already"
        );
    }
    let hint =
        nearest(body, &old.join("\n")).unwrap_or_else(|| "No line of the file is like it.".into());
    format!("its context was not found; read_lines shows the file as it is now. {hint}")
}
