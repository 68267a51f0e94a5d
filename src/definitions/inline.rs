//! Which commands a text may run: one plain command that looks and changes nothing, from a short list. Pure.
//!
//! Nobody is asked about them, so what is not understood word by word is refused. What is let through arrives here as
//! what it means, not as a text: only git is a program, the others are done by this one.

/// What of git only looks.
mod git;
/// What `ls` is asked for.
mod listing;

pub use listing::{Listing, Order};

use crate::gate::plain;
use chrono::format::{Item, StrftimeItems};

/// How a refusal begins.
pub const NOT_ALLOWED: &str = "not allowed";
const ALLOWED: &str = "allowed are git status, diff, log, branch and remote where they only look, and ls, cat, echo, \
                       pwd and date: one plain command, without operators, variables or patterns";
/// How `date` says it without a format.
const DATE: &str = "%a %b %e %H:%M:%S %Z %Y";

/// A command that may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowed {
    Echo(String),
    Pwd,
    /// In the local zone or in UTC, in a format that can be written.
    Date {
        utc: bool,
        format: String,
    },
    /// Files of the project, one after the other.
    Cat(Vec<String>),
    Ls(Listing),
    /// Arguments of git, with what keeps them from more than looking.
    Git(Vec<String>),
}

/// What a command's text means.
///
/// # Errors
/// Why it is not run, and what would be.
pub fn read(text: &str) -> Result<Allowed, String> {
    meaning(text).map_err(|why| format!("{NOT_ALLOWED}: {why}; {ALLOWED}"))
}

/// Why a command is not run in which an argument stands that is no plain word.
pub fn spoiled() -> String {
    format!(
        "{NOT_ALLOWED}: an argument in it is more than a plain word (letters, digits, _./:@+=,-^%)"
    )
}

fn meaning(text: &str) -> Result<Allowed, String> {
    let Some(words) = plain(text) else {
        return Err("it is not one plain command".into());
    };
    let Some((program, words)) = words.split_first() else {
        return Err("it is empty".into());
    };
    match program.as_str() {
        "echo" => echo(words),
        "pwd" => pwd(words),
        "date" => date(words),
        "cat" => cat(words),
        "ls" => listing::read(words).map(Allowed::Ls),
        "git" => git::read(words).map(Allowed::Git),
        other => Err(format!("{other} is not on the list")),
    }
}

fn echo(words: &[String]) -> Result<Allowed, String> {
    let words = match words {
        [flag, rest @ ..] if flag == "-n" || flag == "-E" => rest,
        [flag, ..] if flag == "-e" => return Err("echo -e is not done here".into()),
        words => words,
    };
    Ok(Allowed::Echo(words.join(" ")))
}

fn pwd(words: &[String]) -> Result<Allowed, String> {
    match words {
        [] => Ok(Allowed::Pwd),
        [flag] if flag == "-P" || flag == "-L" => Ok(Allowed::Pwd),
        _ => Err("pwd takes nothing".into()),
    }
}

fn date(words: &[String]) -> Result<Allowed, String> {
    let (mut utc, mut format) = (false, DATE.to_owned());
    for word in words {
        match word.strip_prefix('+') {
            Some(wanted) => format = wanted.to_owned(),
            None if word == "-u" || word == "--utc" => utc = true,
            None => return Err(format!("date takes -u and +FORMAT, not {word}")),
        }
    }
    let is_wrong = |item: Item<'_>| matches!(item, Item::Error);
    if StrftimeItems::new(&format).any(is_wrong) {
        return Err(format!("date cannot write {format}"));
    }
    Ok(Allowed::Date { utc, format })
}

fn cat(words: &[String]) -> Result<Allowed, String> {
    let paths = match words {
        [dashes, paths @ ..] if dashes == "--" => paths,
        paths => paths,
    };
    match paths.iter().find(|path| path.starts_with('-')) {
        Some(flag) => Err(format!("cat takes files of the project, not {flag}")),
        None if paths.is_empty() => Err("cat takes files of the project".into()),
        None => Ok(Allowed::Cat(paths.to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_looks_may_run() {
        assert_eq!(read("echo 'a  b' c"), Ok(Allowed::Echo("a  b c".into())));
        assert_eq!(read(" pwd "), Ok(Allowed::Pwd));
        let format = DATE.to_owned();
        assert_eq!(read("date"), Ok(Allowed::Date { utc: false, format }));
        let format = "%Y-%m-%d".to_owned();
        assert_eq!(
            read("date -u +%Y-%m-%d"),
            Ok(Allowed::Date { utc: true, format })
        );
        assert_eq!(
            read("cat a b"),
            Ok(Allowed::Cat(vec!["a".into(), "b".into()]))
        );
        assert!(matches!(read("ls -la src"), Ok(Allowed::Ls(_))));
        assert!(matches!(read("git status"), Ok(Allowed::Git(_))));
    }

    #[test]
    fn everything_else_is_not_allowed_and_it_is_said_what_is() {
        let tricks = [
            "",
            "rm -rf /",
            "curl http://x",
            "echo a; rm b",
            "echo a && ls",
            "ls | sh",
            "echo $(id)",
            "echo `id`",
            "echo a > b",
            "cat < /etc/passwd",
            "echo a\nrm b",
            "X=1 git status",
            "PATH=. ls",
            "env ls",
            "git\tpush",
            "'r'm -rf /",
            "r\\m x",
            "\"git\" push",
            "ls *",
            "ls ~",
            "echo $HOME",
            "date -s now",
            "date +%!",
            "date -f x",
            "cat",
            "cat -n x",
            "/bin/ls",
            "./git status",
            "sudo ls",
            "time ls",
            "! ls",
            "echo a &",
            "echo -e x",
            "pwd x",
            "echo \u{202e}x",
            "$'\\x72m' x",
            "command ls",
            "exec ls",
            "git",
            "ls 'unbalanced",
        ];
        for trick in tricks {
            let why = read(trick).expect_err(trick);
            assert!(
                why.starts_with("not allowed: ") && why.contains("; allowed are git status"),
                "{trick}: {why}"
            );
        }
    }
}
