//! How a session looks in a terminal: lines for people, colours only where they are wanted.

/// What moves.
pub mod live;

use crate::agent::event::{Event, OutgoingKind, TaskCall};
use crate::plan::Standing;
use crate::world::model::Delta;
use std::io::IsTerminal;

/// Escape sequences, or none.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    colour: bool,
}

impl Style {
    /// Colours on a terminal, unless `NO_COLOR` is set or the terminal is a dumb one.
    pub fn of(stream: &impl IsTerminal) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            colour: stream.is_terminal() && !refused && !dumb,
        }
    }

    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// A task of a plan, by where it stands.
    pub fn standing(self, standing: Standing, text: &str) -> String {
        match standing {
            Standing::WouldRun | Standing::Done => self.wrap("32", text),
            Standing::WouldAsk => self.wrap("33", text),
            Standing::WouldBeDenied | Standing::Failed => self.wrap("31", text),
            Standing::Running => self.wrap("36", text),
            Standing::Planned | Standing::Aborted => self.dim(text),
        }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        let text = harmless(text);
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text
        }
    }

    /// A message, with the lines of a diff in it coloured.
    pub fn message(self, text: &str) -> String {
        if !self.colour || !text.contains("\n@@ ") {
            return harmless(text);
        }
        let mut in_diff = false;
        let lines = text.lines().map(|line| {
            if line.starts_with("```") {
                in_diff = !in_diff;
                return self.dim(line);
            }
            match line.chars().next() {
                Some('+') if in_diff => self.wrap("32", line),
                Some('-') if in_diff => self.wrap("31", line),
                Some('@') if in_diff => self.wrap("36", line),
                _ => harmless(line),
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Words of a model or a file, which must not move the cursor or worse: control characters are shown as `\u{1b}`.
pub fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if c.is_control() => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// One short line about what is being done, for events that are worth one.
pub fn activity(event: &Event) -> Option<String> {
    match event {
        Event::ModelAnswered { answer, .. } if !answer.calls.is_empty() => {
            let call = |call: &crate::agent::event::Call| {
                format!("→ {} {}", call.tool, shortened(&call.arguments))
            };
            let remark = Some(answer.text.trim().to_owned()).filter(|text| !text.is_empty());
            let lines = remark.into_iter().chain(answer.calls.iter().map(call));
            Some(lines.collect::<Vec<_>>().join("\n"))
        }
        Event::TasksCalled { tasks, .. } => {
            let task = |(task, called): (&String, &TaskCall)| match called {
                TaskCall::Called { arguments, .. } => {
                    format!("→ {task} {}", shortened(arguments))
                }
                TaskCall::Unfit { why } => format!("← {task}: {}", shortened(why)),
            };
            Some(tasks.iter().map(task).collect::<Vec<_>>().join("\n"))
        }
        Event::ToolFinished { outcome, .. } => {
            let first = outcome.output.lines().next().unwrap_or_default();
            Some(format!("← {}", shortened(first)))
        }
        Event::Compacted {
            tokens_before,
            tokens_after,
            ..
        } => Some(format!(
            "✂ the conversation was shortened: about {tokens_before} → {tokens_after} tokens"
        )),
        Event::Interrupted { .. } => Some("⚡ taken up after an interruption".into()),
        _ => None,
    }
}

/// What a command prints while it runs.
pub fn output(delta: &Delta) -> Option<&str> {
    match delta {
        Delta::Output(lines) => Some(lines.trim_end()),
        Delta::Text(_) | Delta::Restart | Delta::Waiting { .. } => None,
    }
}

/// Whether a message is a remark beside the work rather than its result.
pub fn is_aside(kind: OutgoingKind) -> bool {
    match kind {
        OutgoingKind::Notice | OutgoingKind::Progress | OutgoingKind::Change => true,
        OutgoingKind::Question | OutgoingKind::Final => false,
    }
}

fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(CHARS_MAX)
        .collect();
    if text.chars().count() > CHARS_MAX {
        format!("{line}…")
    } else {
        line
    }
}
