//! Hides secrets in what is stored or shown: values that this program itself holds, and what looks like a token.
//!
//! It works on texts on their way out (outputs, diffs, questions, verdicts). What the person and the model write stands
//! in the journal as it is: a session goes on byte for byte from there.

use crate::agent::event::Outcome;
use crate::gate::Verdict;
use crate::tools::shown_of_stdout;
use regex::{Captures, Regex};
use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

const MASKED: &str = "[masked]";
/// Shorter values would mask ordinary words.
const VALUE_BYTES_MIN: usize = 8;

/// Tokens of well-known services and private keys. ASCII's own idea of a word keeps the automaton small and quick.
static SHAPES: LazyLock<Regex> = LazyLock::new(|| {
    let tokens = [
        r"\bgh[pousr]_[A-Za-z0-9]{20,}",
        r"\bgithub_pat_[A-Za-z0-9_]{20,}",
        r"\bgl(?:pat|ptt|dt|rt|soat|cbt|ft|agent)-[A-Za-z0-9_-]{20,}",
        r"\bsk-[A-Za-z0-9_-]{20,}",
        r"\b(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9+/=]{16,}",
        r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
        r"\bxapp-[A-Za-z0-9-]{20,}",
        r"\bnpm_[A-Za-z0-9]{36}",
        r"\bpypi-[A-Za-z0-9_-]{50,}",
        r"\bhf_[A-Za-z0-9]{30,}",
        r"\bdop_v1_[0-9a-f]{64}",
        r"\bya29\.[A-Za-z0-9_-]{20,}",
        r"\bEAA[A-Za-z0-9]{60,}",
        r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
        r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}",
        r"\bAGE-SECRET-KEY-1[0-9A-Z]{50,}",
        r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
        r"\bAIza[0-9A-Za-z_-]{35}",
        r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    ];
    let keys = [
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.)*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
        // The rest of one whose beginning was cut off.
        r"(?:[A-Za-z0-9+/=]+\r?\n)+-----END [A-Z ]*PRIVATE KEY-----",
    ];
    let shapes = format!("(?-u:{})|{}", tokens.join("|"), keys.join("|"));
    Regex::new(&shapes).expect("BUG: the shapes are a valid expression, a test says so")
});

/// `https://user:password@host`, `Authorization: Bearer …`, `"x-api-key": "…"`: only the secret part goes.
static EMBEDDED: LazyLock<Regex> = LazyLock::new(|| {
    let address = r"(?P<address>://[^/\x00-\x20:@]*:)[^\x00-\x20/]+@";
    let is = r"['\x22]?\s*[:=]\s*['\x22]?";
    let scheme = format!(r"authorization{is}(?:bearer|basic|token)\s+");
    let key = format!(
        r"\b(?:x-api-key|api-key|x-auth-token|private-token|aws_secret_access_key|aws_session_token){is}"
    );
    let header = format!(r"(?P<header>(?i-u:{scheme}|{key}))[^\x00-\x20'\x22]{{4,}}");
    let shapes = format!("{address}|{header}");
    Regex::new(&shapes).expect("BUG: the shapes are a valid expression, a test says so")
});

/// What is hidden.
#[derive(Clone, Default)]
pub struct Masks {
    values: Vec<String>,
}

impl fmt::Debug for Masks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Masks({} values)", self.values.len())
    }
}

impl Masks {
    /// `values`: secrets that this program knows. The longest goes first, so that none is hidden by half.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut values: Vec<String> = values
            .into_iter()
            .filter(|value| value.len() >= VALUE_BYTES_MIN)
            .collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self { values }
    }

    /// The text without its secrets.
    pub fn apply(&self, text: String) -> String {
        let mut text = text;
        for value in self
            .values
            .iter()
            .filter(|value| text.contains(value.as_str()))
            .collect::<Vec<_>>()
        {
            text = text.replace(value.as_str(), MASKED);
        }
        let text = replaced(&SHAPES, text, |_| MASKED.to_owned());
        replaced(&EMBEDDED, text, |found| match found.name("address") {
            Some(address) => format!("{}{MASKED}@", address.as_str()),
            None => format!(
                "{}{MASKED}",
                found.name("header").map_or("", |header| header.as_str())
            ),
        })
    }

    /// A verdict as it is recorded: the words of its commands without secrets.
    pub fn verdict(&self, mut verdict: Verdict) -> Verdict {
        for command in &mut verdict.commands {
            for word in &mut command.argv {
                *word = self.apply(std::mem::take(word));
            }
        }
        for reason in &mut verdict.reasons {
            reason.text = self.apply(std::mem::take(&mut reason.text));
        }
        verdict
    }

    /// An outcome as the model reads it and the journal keeps it.
    pub fn outcome(&self, mut outcome: Outcome) -> Outcome {
        if let (None, Some(printed)) = (&outcome.whole, &mut outcome.printed)
            && let Some(stdout) = shown_of_stdout(&outcome.output, printed.bytes)
        {
            printed.bytes = self.apply(stdout.to_owned()).len();
        }
        outcome.output = self.apply(outcome.output);
        outcome.whole = outcome.whole.map(|whole| match &mut outcome.printed {
            // What is masked is longer or shorter than it was.
            Some(printed) if whole.is_char_boundary(printed.bytes) => {
                let (stdout, stderr) = whole.split_at(printed.bytes);
                let stdout = self.apply(stdout.to_owned());
                printed.bytes = stdout.len();
                stdout + &self.apply(stderr.to_owned())
            }
            _ => self.apply(whole),
        });
        for change in &mut outcome.changes {
            change.diff = self.apply(std::mem::take(&mut change.diff));
        }
        outcome
    }
}

fn replaced(shapes: &Regex, text: String, by: impl Fn(&Captures<'_>) -> String) -> String {
    match shapes.replace_all(&text, by) {
        Cow::Borrowed(_) => text,
        Cow::Owned(masked) => masked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &str) -> String {
        Masks::new(["the-very-secret".to_owned(), "short".to_owned()]).apply(text.to_owned())
    }

    #[test]
    fn hides_what_the_program_holds_and_what_looks_like_a_token() {
        for (text, expected) in [
            ("key=the-very-secret!", "key=[masked]!"),
            ("a short word stays", "a short word stays"),
            ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "[masked]"),
            ("x sk-proj-0123456789abcdefghij y", "x [masked] y"),
            ("AKIAIOSFODNN7EXAMPLE", "[masked]"),
            (
                "git clone https://ana:hunter22@host/r.git",
                "git clone https://ana:[masked]@host/r.git",
            ),
            (
                "Authorization: Bearer abc.def-ghi",
                "Authorization: Bearer [masked]",
            ),
            (
                "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb",
                "a\n[masked]\nb",
            ),
            ("-----BEGIN PRIVATE KEY-----\ncut off", "[masked]"),
            (
                "[900 bytes omitted]\nMIIEabc/+=\nxyz=\n-----END PRIVATE KEY-----\nb",
                "[900 bytes omitted]\n[masked]\nb",
            ),
            ("sk_live_0123456789abcdefghij", "[masked]"),
            ("npm_0123456789abcdefghijABCDEFGHIJ012345", "[masked]"),
            ("url=https://:pa@ss@host/x", "url=https://:[masked]@host/x"),
            (
                "{\"Authorization\": \"Bearer abc.def-ghi\"}",
                "{\"Authorization\": \"Bearer [masked]\"}",
            ),
            ("-H 'X-Api-Key: 0123abcd'", "-H 'X-Api-Key: [masked]'"),
            (
                "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG",
                "AWS_SECRET_ACCESS_KEY=[masked]",
            ),
        ] {
            assert_eq!(masked(text), expected);
        }
    }

    #[test]
    fn leaves_ordinary_text_alone() {
        for text in [
            "fn main() {}",
            "http://127.0.0.1:8080/webhook",
            "task-0123456789",
            "risk-free",
            "commit 0b206409ba2745",
            "git push git@github.com:me/x.git",
            "sk_alive npm_config_cache pypi-server hf_token EAAx",
            "https://example.com:8080/a?to=me@example.com",
            "fn set_api_key(api_key: &str)",
            "aGVsbG8=\n-----END CERTIFICATE-----",
        ] {
            assert_eq!(masked(text), text);
        }
    }
}
