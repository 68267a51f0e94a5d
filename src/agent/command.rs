//! What a person's message says: a chat command, or plain words. Pure text in, meaning out.

use crate::agent::event::{Inbound, Via};
use crate::gate::read_reply;

/// A message, understood as far as that is possible without knowing the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said<'a> {
    Empty,
    Plain(&'a str),
    Command(ChatCommand<'a>),
    /// A slash word that means nothing: the nearest names are offered.
    Unknown(&'a str),
}

/// The commands of the chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatCommand<'a> {
    Help,
    Status,
    /// `/agent OBJECTIVE`: a fresh session with this objective.
    Start(&'a str),
    /// `/agent-resume [ID [good-prefix]]`.
    Resume {
        id: Option<&'a str>,
        /// Also from the good part of a damaged journal.
        good_prefix: bool,
    },
    Cancel,
    New,
    Approve {
        code: &'a str,
        always: bool,
    },
    Deny {
        code: &'a str,
        reason: Option<&'a str>,
    },
    Audit,
    /// What there is besides the commands of the chat.
    Commands,
    Cost,
    /// `/undo [N] [force]`.
    Undo {
        rounds: Result<usize, &'a str>,
        force: bool,
    },
    /// `/redo [force]`.
    Redo {
        force: bool,
    },
    Diff,
    /// `/bring`: the person's uncommitted changes come along.
    Bring,
    /// `/merge [committed]`.
    Merge {
        committed: bool,
    },
    /// `/workspaces`, `/workspace NAME`.
    Workspaces {
        name: Option<&'a str>,
    },
    /// `/cron …`: what stands behind it.
    Cron(&'a str),
    /// `/plan …`: what stands behind it.
    Plan(&'a str),
    /// `/ask …`: what stands behind it.
    Ask(&'a str),
    /// `/trust …`: what stands behind it.
    Trust(&'a str),
    /// `/agents …`: what stands behind it.
    Agents(&'a str),
}

const NAMES: &[&str] = &[
    "/agent",
    "/agent-resume",
    "/agents",
    "/approve",
    "/ask",
    "/audit",
    "/bring",
    "/cancel",
    "/commands",
    "/cost",
    "/cron",
    "/deny",
    "/diff",
    "/help",
    "/merge",
    "/new",
    "/plan",
    "/redo",
    "/stop",
    "/trust",
    "/undo",
    "/workspace",
    "/workspaces",
];

/// Reads a message.
pub fn read(text: &str) -> Said<'_> {
    let text = text.trim();
    if text.is_empty() {
        return Said::Empty;
    }
    if !text.starts_with('/') || text.starts_with("//") {
        return Said::Plain(text);
    }
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let argument = Some(rest).filter(|rest| !rest.is_empty());
    Said::Command(match (name.to_ascii_lowercase().as_str(), argument) {
        ("/help", _) => ChatCommand::Help,
        ("/agent", None) => ChatCommand::Status,
        ("/agent", Some(objective)) => ChatCommand::Start(objective),
        ("/agent-resume", _) => resume(rest),
        ("/cancel" | "/stop", _) => ChatCommand::Cancel,
        ("/new", _) => ChatCommand::New,
        ("/approve", _) => approve(rest),
        ("/deny", _) => deny(rest),
        ("/audit", _) => ChatCommand::Audit,
        ("/commands", _) => ChatCommand::Commands,
        ("/cost", _) => ChatCommand::Cost,
        ("/diff", _) => ChatCommand::Diff,
        ("/bring", _) => ChatCommand::Bring,
        ("/merge", _) => ChatCommand::Merge {
            committed: rest.eq_ignore_ascii_case("committed"),
        },
        ("/cron", _) => ChatCommand::Cron(rest),
        ("/plan", _) => ChatCommand::Plan(rest),
        ("/ask", _) => ChatCommand::Ask(rest),
        ("/trust", _) => ChatCommand::Trust(rest),
        ("/agents", _) => ChatCommand::Agents(rest),
        ("/undo", _) => undo(rest),
        ("/workspaces", _) => ChatCommand::Workspaces { name: None },
        ("/workspace", name) => ChatCommand::Workspaces { name },
        ("/redo", _) => ChatCommand::Redo {
            force: rest.eq_ignore_ascii_case("force"),
        },
        // A path such as `/etc/hosts is wrong` is plain text, not a command.
        _ if name[1..].contains('/') => return Said::Plain(text),
        _ => return Said::Unknown(name),
    })
}

fn resume(rest: &str) -> ChatCommand<'_> {
    let (id, more) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    ChatCommand::Resume {
        id: Some(id).filter(|id| !id.is_empty()),
        good_prefix: more.trim().eq_ignore_ascii_case("good-prefix"),
    }
}

/// Whether a message answers a question and leaves open which one: a bare yes or no, `/approve` or `/deny` without a code.
pub fn answers_unnamed(message: &Inbound) -> bool {
    if message.about.is_some() || message.via == Via::Reaction {
        return false;
    }
    match read(&message.text) {
        Said::Plain(text) => read_reply(text).is_some(),
        Said::Command(ChatCommand::Approve { code, .. }) => code.is_empty(),
        Said::Command(ChatCommand::Deny { code, .. }) => !looks_like_code(code),
        Said::Empty | Said::Command(_) | Said::Unknown(_) => false,
    }
}

/// `/deny use pytest`: then all of it is the reason.
pub fn looks_like_code(word: &str) -> bool {
    word.len() == 4
        && word
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

fn approve(rest: &str) -> ChatCommand<'_> {
    let (code, more) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    ChatCommand::Approve {
        code,
        always: more.trim().eq_ignore_ascii_case("always"),
    }
}

fn deny(rest: &str) -> ChatCommand<'_> {
    let (code, more) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    ChatCommand::Deny {
        code,
        reason: Some(more.trim()).filter(|reason| !reason.is_empty()),
    }
}

/// A number of rounds from 1, or the word that is none.
fn undo(rest: &str) -> ChatCommand<'_> {
    let (mut rounds, mut force) = (Ok(1), false);
    for word in rest.split_whitespace() {
        match word.parse::<usize>() {
            _ if word.eq_ignore_ascii_case("force") => force = true,
            Ok(number @ 1..) => rounds = Ok(number),
            _ => rounds = Err(word),
        }
    }
    ChatCommand::Undo { rounds, force }
}

/// The names of commands that look most like `name`.
pub fn nearest(name: &str) -> Vec<&'static str> {
    let mut scored: Vec<_> = NAMES
        .iter()
        .map(|known| (strsim::levenshtein(name, known), *known))
        .filter(|(edits, _)| *edits <= 3)
        .collect();
    scored.sort();
    scored.into_iter().take(3).map(|(_, known)| known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_commands_from_words_and_paths() {
        assert_eq!(read("  "), Said::Empty);
        assert_eq!(
            read("/etc/hosts is wrong"),
            Said::Plain("/etc/hosts is wrong")
        );
        assert_eq!(
            read("/agent fix it"),
            Said::Command(ChatCommand::Start("fix it"))
        );
        assert_eq!(read("/STOP"), Said::Command(ChatCommand::Cancel));
        assert_eq!(
            read("/deny K7 use pytest"),
            Said::Command(ChatCommand::Deny {
                code: "K7",
                reason: Some("use pytest")
            })
        );
        assert_eq!(read("/helpp"), Said::Unknown("/helpp"));
        assert_eq!(
            read("/undo"),
            Said::Command(ChatCommand::Undo {
                rounds: Ok(1),
                force: false
            })
        );
        assert_eq!(
            read("/undo 2 force"),
            Said::Command(ChatCommand::Undo {
                rounds: Ok(2),
                force: true
            })
        );
        assert_eq!(
            read("/undo all"),
            Said::Command(ChatCommand::Undo {
                rounds: Err("all"),
                force: false
            })
        );
        assert_eq!(nearest("/helpp"), ["/help"]);
        assert_eq!(nearest("/agent-resum")[0], "/agent-resume");
    }
}
