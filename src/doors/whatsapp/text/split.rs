//! Cuts a text into parts that fit into a message, where a reader would: at paragraphs, sentences, words.
//!
//! A code block stays whole where it can: the cut goes before it. One that is longer than a message is cut between its
//! lines, closed, and opened again in the next part. Nothing is dropped but white space at the cuts.

/// Longer runs of backticks, and longer words after them, are no fence.
const FENCE_CHARS_MAX: usize = 16;
const FENCE_INFO_CHARS_MAX: usize = 40;
/// A part emptier than one in so many is cut too early, and the next best kind of place is looked for.
const FULL_PART_DIVISOR: usize = 4;
/// Both lines of a fence must leave room for code.
const PART_CHARS_MIN: usize = 64;

/// `text` as parts of at most `chars_max` characters. A blank text has no parts.
pub fn split(text: &str, chars_max: usize) -> Vec<String> {
    assert!(
        chars_max >= PART_CHARS_MIN,
        "BUG: a part of {chars_max} characters has no room for a fence"
    );
    let mut parts = Vec::new();
    let mut rest = without_blank_lines(text).trim_end();
    let mut open: Option<Fence> = None;
    while !rest.trim().is_empty() {
        let opening = open
            .map(|fence| format!("{}\n", fence.marker()))
            .unwrap_or_default();
        let cut = next_cut(rest, open, chars_max - opening.len(), chars_max);
        let (content, tail) = rest.split_at(cut.at);
        parts.push(match cut.open {
            Some(fence) => format!("{opening}{content}\n{}", fence.marker()),
            None => format!("{opening}{}", content.trim_end()),
        });
        (rest, open) = after_cut(tail, cut.open);
    }
    parts
}

/// What the next part starts with.
fn after_cut(tail: &str, open: Option<Fence>) -> (&str, Option<Fence>) {
    let Some(fence) = open else {
        return (
            if tail.starts_with('\n') {
                without_blank_lines(tail)
            } else {
                tail.trim_start_matches(' ')
            },
            None,
        );
    };
    let tail = tail.strip_prefix('\n').unwrap_or(tail);
    let line = tail.split('\n').next().unwrap_or_default();
    // Cut right before its end, the block is closed already: it must not be opened again for nothing.
    if fence.is_closed_by(line) {
        (without_blank_lines(&tail[line.len()..]), None)
    } else {
        (tail, open)
    }
}

/// Blank lines go; the indentation of the first line with something on it says something and stays.
fn without_blank_lines(text: &str) -> &str {
    let mut rest = text;
    while let Some((line, tail)) = rest.split_once('\n') {
        if !line.trim().is_empty() {
            break;
        }
        rest = tail;
    }
    rest
}

/// Where a part ends, and the block that is open there.
#[derive(Clone, Copy)]
struct Cut {
    at: usize,
    chars: usize,
    open: Option<Fence>,
}

/// Kinds of places, best first.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Paragraph,
    Sentence,
    CodeLine,
    Word,
    CodeWord,
    /// Between two characters that are not one on the screen.
    Character,
    /// Inside of what is one on the screen: only where there is nothing else.
    Anywhere,
}

const PLACES: usize = Place::Anywhere as usize + 1;

/// The last place of each kind that still fits into a part.
struct Places {
    room: usize,
    last: [Option<Cut>; PLACES],
}

impl Places {
    fn note(&mut self, place: Place, cut: Cut) {
        if cut.at > 0 && cut.chars + closing_chars(cut.open) <= self.room {
            self.last[place as usize] = Some(cut);
        }
    }

    /// The best kind that fills the part well enough; else the fullest between words; else inside of a word.
    fn best(&self, text: &str) -> Cut {
        let (between_words, inside_words) = self.last.split_at(Place::Character as usize);
        let between_words = || {
            between_words
                .iter()
                .flatten()
                .filter(|cut| !text[..cut.at].trim().is_empty())
        };
        let best = between_words()
            .find(|cut| cut.chars >= self.room / FULL_PART_DIVISOR)
            .or_else(|| between_words().max_by_key(|cut| cut.chars))
            .or_else(|| inside_words.iter().flatten().next());
        *best.expect("BUG: a part has room for one character")
    }
}

/// The end of the next part of `text`, which starts inside of `open` and has `room`.
fn next_cut(text: &str, open: Option<Fence>, room: usize, chars_max: usize) -> Cut {
    let mut places = Places {
        room,
        last: [None; PLACES],
    };
    let mut here = Cut {
        at: 0,
        chars: 0,
        open,
    };
    let mut block_start = None;
    for line in text.split_inclusive('\n') {
        let (content, ended) = line
            .strip_suffix('\n')
            .map_or((line, false), |content| (content, true));
        let opened = if here.open.is_none() {
            Fence::opened_by(content)
        } else {
            None
        };
        let closes = here.open.is_some_and(|fence| fence.is_closed_by(content));
        let start = here;
        if opened.is_some() {
            block_start = Some(start);
            places.note(Place::Paragraph, start);
        }
        if opened.is_some() || closes {
            // Never inside of a fence's own lines.
            here = start.past(content, if closes { None } else { opened });
        } else {
            here = note_line(&mut places, content, start);
        }
        if closes {
            block_start = None;
        }
        if here.chars > room {
            break;
        }
        if opened.is_none() {
            places.note(line_end(&text[here.at..], content, here.open, closes), here);
        }
        if ended {
            here = here.past("\n", here.open);
        }
    }
    if here.at == text.len() && here.chars + closing_chars(here.open) <= room {
        return here;
    }
    // A block that fits into a message goes into the next one whole.
    match block_start.filter(|start| start.at > 0 && block_chars(&text[start.at..]) <= chars_max) {
        Some(start) if !text[..start.at].trim().is_empty() => Cut {
            open: None,
            ..start
        },
        _ => places.best(text),
    }
}

/// What kind of place the end of a line is; `tail` is what follows the line.
fn line_end(tail: &str, line: &str, open: Option<Fence>, closed_block: bool) -> Place {
    if open.is_some() {
        return Place::CodeLine;
    }
    let next = tail
        .strip_prefix('\n')
        .and_then(|tail| tail.split('\n').next());
    let blank_around = line.trim().is_empty() || next.is_some_and(|next| next.trim().is_empty());
    if closed_block || blank_around {
        Place::Paragraph
    } else {
        Place::Sentence
    }
}

/// Notes the places inside of one line and returns its end.
fn note_line(places: &mut Places, line: &str, start: Cut) -> Cut {
    let mut here = start;
    let mut in_span = false;
    let mut before = '\n';
    for (at, c) in line.char_indices() {
        if here.chars > places.room {
            break;
        }
        if c == '`' {
            in_span = !in_span && line[at + 1..].contains('`');
        }
        let place = match c {
            ' ' | '\t' if here.open.is_some() || in_span => Place::CodeWord,
            ' ' | '\t' if matches!(before, '.' | '!' | '?' | '…' | ':' | ';') => Place::Sentence,
            ' ' | '\t' => Place::Word,
            _ if joins(c) || before == '\u{200d}' => Place::Anywhere,
            _ => Place::Character,
        };
        if at > 0 {
            places.note(place, here);
        }
        here = Cut {
            at: start.at + at + c.len_utf8(),
            chars: here.chars + 1,
            open: here.open,
        };
        before = c;
    }
    here
}

impl Cut {
    fn past(self, text: &str, open: Option<Fence>) -> Self {
        Self {
            at: self.at + text.len(),
            chars: self.chars + text.chars().count(),
            open,
        }
    }
}

/// Characters that are shown as one with the character before them.
fn joins(c: char) -> bool {
    matches!(c, '\u{200d}' | '\u{fe0e}' | '\u{fe0f}' | '\u{300}'..='\u{36f}' | '\u{20e3}' | '\u{1f3fb}'..='\u{1f3ff}')
}

/// How long the block is that `text` starts with, both fences included.
fn block_chars(text: &str) -> usize {
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next() else { return 0 };
    let Some(fence) = Fence::opened_by(first.trim_end_matches('\n')) else {
        return 0;
    };
    let mut chars = first.chars().count();
    for line in lines {
        if fence.is_closed_by(line) {
            return chars + line.trim_end().chars().count();
        }
        chars += line.chars().count();
    }
    chars + closing_chars(Some(fence))
}

fn closing_chars(open: Option<Fence>) -> usize {
    open.map_or(0, |fence| 1 + fence.length)
}

/// The fence of a code block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fence {
    mark: char,
    pub(super) length: usize,
}

impl Fence {
    /// The block that a line opens: three or more backticks or tildes, with or without a language.
    pub(super) fn opened_by(line: &str) -> Option<Self> {
        let trimmed = line.trim_start();
        let mark = trimmed.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let info = trimmed.trim_start_matches(mark);
        let length = trimmed.len() - info.len();
        // Three backticks around something on one line are a span.
        let opens = (3..=FENCE_CHARS_MAX).contains(&length)
            && !info.contains('`')
            && info.chars().count() <= FENCE_INFO_CHARS_MAX;
        opens.then_some(Self { mark, length })
    }

    pub(super) fn is_closed_by(self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.length && line.chars().all(|c| c == self.mark)
    }

    fn marker(self) -> String {
        self.mark.to_string().repeat(self.length)
    }
}
