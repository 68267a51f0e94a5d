//! What stands behind a command's name, and where its text wants it: `$ARGUMENTS`, `$1`. Pure.
//!
//! A text is filled in once, and what was filled in is never looked at again.

/// The placeholder for all of them.
const ALL: &str = "ARGUMENTS";
/// What introduces them at the end of a text that has no place for them.
const APPENDED: &str = "ARGUMENTS:";

/// From which number the arguments of a command are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// `$0` is the first one: commands in `.claude`.
    FromZero,
    /// `$1` is the first one: everywhere else.
    FromOne,
}

impl Count {
    /// That of the commands at this path.
    pub fn of(path: &str) -> Self {
        match path.starts_with(".claude/") {
            true => Count::FromZero,
            false => Count::FromOne,
        }
    }
}

/// What a command was given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arguments {
    text: String,
    words: Vec<String>,
}

/// A text in which placeholders were filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filled {
    pub text: String,
    /// How many there were.
    pub times: usize,
    /// Whether nothing came in that could mean something else to a shell than to its reader, wherever it stands.
    pub plainly: bool,
}

impl Arguments {
    /// From what a person wrote behind the name: words as a shell takes them apart, at blanks where quotes do not close.
    pub fn read(text: &str) -> Self {
        let text = text.trim().to_owned();
        let words = shlex::split(&text);
        let words = words.unwrap_or_else(|| text.split_whitespace().map(str::to_owned).collect());
        Self { text, words }
    }

    /// From the command line: several are words already, a single one is a text.
    pub fn of_words(words: &[String]) -> Self {
        match words {
            [text] => Self::read(text),
            words => Self {
                text: words.join(" "),
                words: words.to_vec(),
            },
        }
    }

    /// One by one.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The text with its placeholders filled in. One for a word that is not there stays.
    pub fn fill(&self, text: &str, count: Count) -> Filled {
        let mut filled = Filled {
            text: String::with_capacity(text.len()),
            times: 0,
            plainly: true,
        };
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            filled.text.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            match self.value(after, count) {
                Some((value, length)) => {
                    filled.text.push_str(value);
                    filled.times += 1;
                    filled.plainly &= value.chars().all(is_plain);
                    rest = &after[length..];
                }
                None => {
                    filled.text.push('$');
                    rest = after;
                }
            }
        }
        filled.text.push_str(rest);
        filled
    }

    /// For the end of a text that has no placeholder; empty where nothing was given.
    pub fn appended(&self) -> String {
        match self.text.is_empty() {
            true => String::new(),
            false => format!("\n\n{APPENDED} {}", self.text),
        }
    }

    /// What the placeholder stands for whose `$` was just read, and its length without it.
    fn value(&self, after: &str, count: Count) -> Option<(&str, usize)> {
        if let Some(rest) = after.strip_prefix(ALL) {
            let (index, length) = subscript(rest);
            if let Some(index) = index {
                return Some((self.words.get(index)?, ALL.len() + length));
            }
            return (!begins_with_word(rest)).then_some((&self.text, ALL.len()));
        }
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 || begins_with_word(&after[digits..]) {
            return None;
        }
        let number: usize = after[..digits].parse().ok()?;
        let index = match count {
            Count::FromZero => number,
            Count::FromOne => number.checked_sub(1)?,
        };
        Some((self.words.get(index)?, digits))
    }
}

/// `[2]`, counted from 0.
fn subscript(text: &str) -> (Option<usize>, usize) {
    let inner = text.strip_prefix('[').and_then(|text| text.split_once(']'));
    let index = inner.and_then(|(number, _)| Some((number.parse().ok()?, number.len() + 2)));
    match index {
        Some((index, length)) => (Some(index), length),
        None => (None, 0),
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_./:@+=,-^%".contains(c)
}

fn begins_with_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, given: &str, count: Count) -> String {
        Arguments::read(given).fill(text, count).text
    }

    #[test]
    fn claude_counts_from_zero_and_the_others_from_one() {
        let given = "high \"two words\" last";
        assert_eq!(
            filled("$0|$1|$ARGUMENTS[2]", given, Count::FromZero),
            "high|two words|last"
        );
        assert_eq!(
            filled("$1|$2|$3", given, Count::FromOne),
            "high|two words|last"
        );
        assert_eq!(Count::of(".claude/commands/a/b.md"), Count::FromZero);
        assert_eq!(Count::of(".github/commands/a.command.md"), Count::FromOne);
    }

    #[test]
    fn all_of_them_are_the_text_as_it_was_written() {
        let text = filled("Fix $ARGUMENTS now", "  a \"b c\"  d ", Count::FromOne);
        assert_eq!(text, "Fix a \"b c\"  d now");
        assert_eq!(filled("Fix [$ARGUMENTS]", "", Count::FromOne), "Fix []");
    }

    #[test]
    fn what_is_missing_stays_literal() {
        assert_eq!(filled("$0 $1", "a", Count::FromOne), "$0 a");
        assert_eq!(filled("$0 $1 $9", "a", Count::FromZero), "a $1 $9");
        for text in [
            "$",
            "$$",
            "$x",
            "$1st",
            "$ARGUMENTSX",
            "${1}",
            "$99999999999999999999999",
        ] {
            assert_eq!(filled(text, "a b", Count::FromOne), text);
        }
    }

    #[test]
    fn what_was_filled_in_is_not_filled_again() {
        let given = "$1 $ARGUMENTS $0";
        assert_eq!(filled("$ARGUMENTS", given, Count::FromZero), given);
        assert_eq!(filled("$0-$0", given, Count::FromZero), "$1-$1");
    }

    #[test]
    fn quotes_that_do_not_close_are_no_quotes() {
        assert_eq!(filled("$1|$2", "don't go", Count::FromOne), "don't|go");
    }

    #[test]
    fn the_words_of_a_command_line_stay_what_they_are() {
        let words = ["a b".to_owned(), "c".to_owned()];
        let given = Arguments::of_words(&words);
        assert_eq!(
            given.fill("$1|$2|$ARGUMENTS", Count::FromOne).text,
            "a b|c|a b c"
        );
        let given = Arguments::of_words(&["'a b' c".to_owned()]);
        assert_eq!(given.fill("$1|$2", Count::FromOne).text, "a b|c");
    }
}
