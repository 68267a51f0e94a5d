//! Patterns of commands, as other programs write them: `git add:*`, `npm test`, `*`. They only ever narrow.

use crate::gate::words::plain;

/// What a pattern lets through.
#[derive(Debug, PartialEq, Eq)]
struct Fitting {
    words: Vec<String>,
    /// More words may follow.
    open: bool,
}

/// `None`: nobody knows what is meant, and nothing fits.
fn read(pattern: &str) -> Option<Fitting> {
    let pattern = pattern.trim();
    let begun = pattern
        .strip_suffix(":*")
        .or_else(|| pattern.strip_suffix(" *"));
    let begun = begun.or((pattern == "*").then_some(""));
    let words = match begun {
        Some("") => Vec::new(),
        said => plain(said.unwrap_or(pattern))?,
    };
    let is_said = |word: &String| !word.contains(['*', '?']);
    let open = begun.is_some();
    (words.iter().all(is_said) && (open || !words.is_empty())).then_some(Fitting { words, open })
}

/// Whether a pattern can be read.
pub fn is_pattern(pattern: &str) -> bool {
    read(pattern).is_some()
}

/// Whether a command, word by word, is one that a pattern means.
pub fn fits(pattern: &str, argv: &[String]) -> bool {
    read(pattern).is_some_and(|fitting| {
        argv.starts_with(&fitting.words) && (fitting.open || argv.len() == fitting.words.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_whole_words_from_the_first_on() {
        let fit = |pattern: &str, text: &str| fits(pattern, &shlex::split(text).expect(text));
        for (pattern, text) in [
            ("git:*", "git push --force"),
            ("git add:*", "git add"),
            ("git add *", "git add a.txt"),
            ("npm test", "npm test"),
            ("*", "anything at all"),
            (
                "git commit -m 'two words':*",
                "git commit -m 'two words' -a",
            ),
        ] {
            assert!(fit(pattern, text), "{pattern}: {text}");
        }
        for (pattern, text) in [
            ("git:*", "gitk"),
            ("git add:*", "git commit"),
            ("npm test", "npm test --watch"),
            ("git", "git push"),
            ("git *:*", "git * push"),
            ("", "ls"),
            ("git $X:*", "git $X"),
        ] {
            assert!(!fit(pattern, text), "{pattern}: {text}");
        }
        assert!(is_pattern("git:*") && !is_pattern("") && !is_pattern("a; b"));
    }
}
