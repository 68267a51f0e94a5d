//! Markdown's marks to WhatsApp's: `**b**` → `*b*`, `*i*` → `_i_`, `~~s~~` → `~s~`, headings → bold, links → `text (url)`.
//!
//! Line by line, conservative: a mark is converted only where it can't be anything else. Unlike CommonMark, a mark next
//! to a letter or digit stays (`2**3**4`, `__init__`), since here people talk about code.

use super::split::Fence;

/// `markdown` with WhatsApp's marks. Code blocks and code spans stay byte for byte; only the language after an opening
/// fence goes, because WhatsApp would show it as code.
pub fn to_whatsapp(markdown: &str) -> String {
    let mut out = Vec::new();
    let mut fence: Option<Fence> = None;
    let mut context = Context::default();
    for line in markdown.split('\n') {
        if let Some(open) = fence {
            let closes = open.is_closed_by(line);
            out.push(if closes {
                "`".repeat(open.length)
            } else {
                line.to_owned()
            });
            if closes {
                fence = None;
            }
            continue;
        }
        if let Some(opened) = Fence::opened_by(line) {
            out.push("`".repeat(opened.length));
            fence = Some(opened);
            context = Context::default();
            continue;
        }
        out.push(if context.is_indented_code(line) {
            line.to_owned()
        } else {
            prose(line)
        });
    }
    out.join("\n")
}

/// What the lines before say about an indented one: code after a blank line, a paragraph inside of a list.
#[derive(Default)]
struct Context {
    in_list: bool,
    in_code: bool,
    after_text: bool,
}

impl Context {
    fn is_indented_code(&mut self, line: &str) -> bool {
        let blank = line.trim().is_empty();
        let indented = line.starts_with("    ") || line.starts_with('\t');
        let code = !blank && indented && !self.in_list && (self.in_code || !self.after_text);
        if !blank {
            if list_item(line).is_some() {
                self.in_list = !code;
            } else if !line.starts_with(' ') && !line.starts_with('\t') {
                self.in_list = false;
            }
            self.in_code = code;
        }
        self.after_text = !blank && !code;
        code
    }
}

fn prose(line: &str) -> String {
    if let Some(title) = heading(line) {
        let title = inline(title, Bold::Dropped);
        return if title.is_empty() {
            title
        } else {
            format!("*{title}*")
        };
    }
    match list_item(line) {
        // `* item` would start a bold text at the next star; WhatsApp's own list mark is the dash.
        Some((indent, rest)) => format!("{indent}- {}", inline(rest, Bold::Kept)),
        None => inline(line, Bold::Kept),
    }
}

/// The text of `## text ##`.
fn heading(line: &str) -> Option<&str> {
    let hashes = line.len() - line.trim_start_matches('#').len();
    let rest = &line[hashes..];
    if !(1..=6).contains(&hashes) || !(rest.starts_with(' ') || rest.starts_with('\t')) {
        return None;
    }
    let title = rest.trim();
    let bare = title.trim_end_matches('#');
    // `# C#` keeps its sharp: closing hashes stand after a space.
    Some(if bare.is_empty() || bare.ends_with(' ') {
        bare.trim_end()
    } else {
        title
    })
}

/// Indentation and text of `- text`, `* text`, `+ text`.
fn list_item(line: &str) -> Option<(&str, &str)> {
    let trimmed = line.trim_start();
    let indent = &line[..line.len() - trimmed.len()];
    let rest = ["- ", "* ", "+ "]
        .iter()
        .find_map(|mark| trimmed.strip_prefix(mark))?;
    Some((indent, rest))
}

/// Whether bold marks are written: inside of a heading everything is bold already.
#[derive(Clone, Copy, PartialEq)]
enum Bold {
    Kept,
    Dropped,
}

/// One line's marks. Each construct looks at the rest of the line and takes all of itself, or leaves it.
fn inline(line: &str, bold: Bold) -> String {
    let mut out = String::with_capacity(line.len());
    let mut at = 0;
    while let Some(next) = line[at..].chars().next() {
        let rest = &line[at..];
        let before = line[..at].chars().next_back();
        let taken = match next {
            '`' => Some(code_span(rest)),
            '\\' => rest.chars().nth(1).map(|escaped| {
                (
                    1 + escaped.len_utf8(),
                    rest[..1 + escaped.len_utf8()].to_owned(),
                )
            }),
            'h' => bare_url(rest, before),
            '<' => autolink(rest),
            '!' => rest[1..]
                .strip_prefix('[')
                .and_then(|_| link(&rest[1..], None, bold))
                .map(|(taken, text)| (taken + 1, text)),
            '[' => link(rest, before, bold),
            // A run that marks nothing stays whole: half of `**/*.rs` is no mark either.
            '*' | '_' | '~' => emphasis(rest, before, bold).or_else(|| {
                let run = rest.len() - rest.trim_start_matches(next).len();
                Some((run, rest[..run].to_owned()))
            }),
            _ => None,
        };
        let (length, text) = taken.unwrap_or_else(|| (next.len_utf8(), next.to_string()));
        out.push_str(&text);
        at += length;
    }
    out
}

/// A run of backticks up to the next run of the same length, or just the run.
fn code_span(rest: &str) -> (usize, String) {
    let ticks = rest.len() - rest.trim_start_matches('`').len();
    let mut at = ticks;
    while let Some(found) = rest[at..].find('`') {
        let start = at + found;
        let run = rest[start..].len() - rest[start..].trim_start_matches('`').len();
        at = start + run;
        if run == ticks {
            return (at, rest[..at].to_owned());
        }
    }
    (ticks, rest[..ticks].to_owned())
}

fn bare_url(rest: &str, before: Option<char>) -> Option<(usize, String)> {
    if before.is_some_and(char::is_alphanumeric)
        || !(rest.starts_with("http://") || rest.starts_with("https://"))
    {
        return None;
    }
    let end = rest
        .find(|c: char| c.is_whitespace() || matches!(c, '<' | '>' | ')' | ']' | '"'))
        .unwrap_or(rest.len());
    // `**see https://x.org**`: the marks at the end are not the address's.
    let url = rest[..end].trim_end_matches(['*', '~', '.', ',']);
    Some((url.len(), url.to_owned()))
}

fn autolink(rest: &str) -> Option<(usize, String)> {
    let end = rest.find('>')?;
    let url = &rest[1..end];
    let is_url =
        url.starts_with("http://") || url.starts_with("https://") || url.starts_with("mailto:");
    (is_url && !url.contains(char::is_whitespace)).then(|| (end + 1, url.to_owned()))
}

/// `[text](url "title")` → `text (url)`. After a letter or a bracket it is an index and a call: `handlers[i](event)`.
fn link(rest: &str, before: Option<char>, bold: Bold) -> Option<(usize, String)> {
    if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ']' | ')')) {
        return None;
    }
    let label_end = closing(rest, '[', ']')?;
    let target = rest[label_end + 1..]
        .strip_prefix('(')
        .map(|_| &rest[label_end + 1..])?;
    let target_end = closing(target, '(', ')')?;
    let inside = target[1..target_end].trim();
    let url = inside.split_whitespace().next()?;
    let title = inside[url.len()..].trim();
    if !(title.is_empty() || title.starts_with(['"', '\''])) {
        return None;
    }
    let url = url.trim_start_matches('<').trim_end_matches('>');
    let label = inline(&rest[1..label_end], bold);
    let text = if label.is_empty() || label == url {
        url.to_owned()
    } else {
        format!("{label} ({url})")
    };
    Some((label_end + 1 + target_end + 1, text))
}

/// Where the bracket that opens `text` closes.
fn closing(text: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth -= 1;
            if depth == 0 {
                return Some(at);
            }
        }
    }
    None
}

/// Bold, italic and struck text: marks at the edges of words around something that reads as text.
fn emphasis(rest: &str, before: Option<char>, bold: Bold) -> Option<(usize, String)> {
    if before.is_some_and(is_word) {
        return None;
    }
    for (mark, left, right) in [
        ("***", "*_", "_*"),
        ("**", "*", "*"),
        ("__", "*", "*"),
        ("~~", "~", "~"),
        ("*", "_", "_"),
    ] {
        let Some(inside) = rest.strip_prefix(mark) else {
            continue;
        };
        // A longer run than the mark is another mark, or none.
        let run = rest.len() - rest.trim_start_matches(&mark[..1]).len();
        if run != mark.len() {
            continue;
        }
        let end = mark_end(inside, mark)?;
        let content = &inside[..end];
        // `__init__` is a name, not a bold word.
        if mark == "__" && !content.contains(' ') {
            return None;
        }
        let is_bold = left.starts_with('*');
        let text = inline(content, if is_bold { Bold::Dropped } else { bold });
        let text = match (is_bold, bold) {
            (true, Bold::Dropped) if mark == "***" => format!("_{text}_"),
            (true, Bold::Dropped) => text,
            _ => format!("{left}{text}{right}"),
        };
        return Some((mark.len() + end + mark.len(), text));
    }
    None
}

/// Where the text ends that `mark` opened, code spans stepped over.
fn mark_end(inside: &str, mark: &str) -> Option<usize> {
    let first = inside.chars().next()?;
    // Text starts with a letter, a quote, code or another mark; `*.rs` and `* x` do not.
    if !(first.is_alphanumeric() || "\"'`“‘«¡¿([*_~/@#$+-".contains(first) || !first.is_ascii())
        || first.is_whitespace()
    {
        return None;
    }
    let mark_char = mark.chars().next()?;
    let mut at = 0;
    while let Some(c) = inside[at..].chars().next() {
        if c == '`' {
            at += code_span(&inside[at..]).0;
            continue;
        }
        if c != mark_char {
            at += c.len_utf8();
            continue;
        }
        let run = inside[at..].len() - inside[at..].trim_start_matches(mark_char).len();
        let before = inside[..at].chars().next_back();
        let after = inside[at + run..].chars().next();
        let ends = before.is_some_and(|c| !c.is_whitespace()) && !after.is_some_and(is_word);
        // `**bold *both***`: the last marks of a longer run are ours.
        if ends && (run == mark.len() || (run > mark.len() && mark.len() > 1)) {
            return Some(at + run - mark.len());
        }
        at += run;
    }
    None
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
