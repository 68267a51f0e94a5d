//! Answers: typed at a terminal, where secrets show as stars, else lines of stdin.

use crate::cli::CliError;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{ColorMode, Config, Editor, Helper};
use std::borrow::Cow;
use std::io::{self, BufRead, IsTerminal};

pub(super) enum Asker {
    Terminal(Box<Editor<Stars, MemHistory>>),
    Lines(io::Lines<io::StdinLock<'static>>),
}

/// Shows a star for each letter of a secret.
pub(super) struct Stars {
    secret: bool,
}

impl Highlighter for Stars {
    fn highlight<'l>(&self, line: &'l str, _at: usize) -> Cow<'l, str> {
        match self.secret {
            true => Cow::Owned("*".repeat(line.chars().count())),
            false => Cow::Borrowed(line),
        }
    }

    fn highlight_char(&self, _line: &str, _at: usize, _kind: CmdKind) -> bool {
        self.secret
    }
}

impl Completer for Stars {
    type Candidate = String;
}

impl Hinter for Stars {
    type Hint = String;
}

impl Validator for Stars {}
impl Helper for Stars {}

impl Asker {
    pub(super) fn new() -> Result<Self, CliError> {
        if !io::stdin().is_terminal() {
            return Ok(Self::Lines(io::stdin().lock().lines()));
        }
        // Without it nothing is highlighted where NO_COLOR is set, and the secret would show.
        let config = Config::builder().color_mode(ColorMode::Forced).build();
        let mut editor = Editor::with_history(config, MemHistory::new()).map_err(unreadable)?;
        editor.set_helper(Some(Stars { secret: false }));
        Ok(Self::Terminal(Box::new(editor)))
    }

    /// The answer, or the default for an empty one.
    pub(super) fn line(&mut self, question: &str, default: &str) -> Result<String, CliError> {
        let prompt = match default {
            "" => format!("{question}: "),
            default => format!("{question} [{default}]: "),
        };
        let answer = self.read(&prompt, false)?;
        Ok(match answer.is_empty() {
            true => default.to_owned(),
            false => answer,
        })
    }

    pub(super) fn secret(&mut self, question: &str, kept: bool) -> Result<String, CliError> {
        let prompt = match kept {
            true => format!("{question} [kept]: "),
            false => format!("{question}: "),
        };
        self.read(&prompt, true)
    }

    pub(super) fn yes(&mut self, question: &str, default: bool) -> Result<bool, CliError> {
        let answer = self.line(question, if default { "yes" } else { "no" })?;
        Ok(matches!(
            answer.to_lowercase().as_str(),
            "y" | "yes" | "s" | "si" | "sí"
        ))
    }

    fn read(&mut self, prompt: &str, secret: bool) -> Result<String, CliError> {
        let line = match self {
            Self::Lines(lines) => {
                eprintln!("{prompt}");
                let line = lines.next().ok_or(ReadlineError::Eof);
                line.and_then(|line| line.map_err(ReadlineError::Io))
            }
            Self::Terminal(editor) => {
                editor.set_helper(Some(Stars { secret }));
                editor.readline(prompt)
            }
        };
        line.map(|line| line.trim().to_owned()).map_err(unreadable)
    }
}

fn unreadable(error: ReadlineError) -> CliError {
    match error {
        ReadlineError::Eof | ReadlineError::Interrupted => {
            CliError::Use("the answers ended early; nothing is written".into())
        }
        error => CliError::Failed(format!("read an answer: {error}; nothing is written")),
    }
}
