//! `journeyman diff`, `undo`, `redo`: the commands of the chat, said to a session at rest. It goes on with nothing else.

use super::assemble::{assemble, fixed_workspace};
use super::run::{failed, leave};
use super::{CliError, Exit, block_on, find, log_to_stderr};
use crate::agent::event::{Event, Inbound, Record, Restored};
use crate::agent::state::State;
use crate::agent::step::{Policy, goes_on_alone};
use crate::agent::{reading, recovery};
use crate::config::Settings;
use crate::doors::Seen;
use crate::doors::terminal::harmless;
use crate::history::inspect;
use crate::world::clock;
use crate::world::model::Model;
use crate::world::model::scripted::Scripted;
use clap::Args;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Sessions that are looked at for the last one of this folder.
const LOOKED_AT_MAX: usize = 200;
/// A number alone that is shorter than the beginning of any id that a person would give.
const ROUNDS_DIGITS_MAX: usize = 3;

#[derive(Debug, Args)]
pub struct Diff {
    /// Id of the session, or the beginning of one [default: the last one that worked in this folder]
    session: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "journeyman undo 3 goes back over three rounds of the last session of this folder; journeyman redo takes that back. \
                  Files that are no longer as the session left them stop it, and are named."
)]
pub struct Undo {
    /// Id of the session, or the beginning of one [default: the last one that worked in this folder]
    session: Option<String>,
    /// So many rounds that changed files [default: 1]
    rounds: Option<usize>,
    /// Also files that are no longer as the session left them
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
pub struct Redo {
    /// Id of the session, or the beginning of one [default: the last one that worked in this folder]
    session: Option<String>,
    /// Also files that are no longer as the undo left them
    #[arg(long)]
    force: bool,
}

impl Diff {
    pub fn run(&self, settings: &Settings) -> Result<Exit, CliError> {
        say(settings, self.session.as_deref(), "/diff")
    }
}

impl Undo {
    pub fn run(&self, settings: &Settings) -> Result<Exit, CliError> {
        let (session, rounds) = self.meant();
        let force = if self.force { " force" } else { "" };
        say(settings, session, &format!("/undo {rounds}{force}"))
    }

    /// A short number alone is one of rounds.
    fn meant(&self) -> (Option<&str>, usize) {
        let alone = self.session.as_deref().filter(|said| {
            self.rounds.is_none()
                && said.len() <= ROUNDS_DIGITS_MAX
                && said.parse::<usize>().is_ok()
        });
        match alone.and_then(|said| said.parse().ok()) {
            Some(rounds) => (None, rounds),
            None => (self.session.as_deref(), self.rounds.unwrap_or(1)),
        }
    }
}

impl Redo {
    pub fn run(&self, settings: &Settings) -> Result<Exit, CliError> {
        let text = if self.force { "/redo force" } else { "/redo" };
        say(settings, self.session.as_deref(), text)
    }
}

/// Says a command to a session, and shows what comes of it.
fn say(settings: &Settings, session: Option<&str>, text: &str) -> Result<Exit, CliError> {
    log_to_stderr("warn");
    let path = match session {
        Some(said) => find::journal(&settings.data_dir, said)?,
        None => last_of_this_folder(settings)?,
    };
    // Nothing is asked of a model.
    let nobody = Scripted::parse(r#"{"replies":[]}"#).map_err(failed)?;
    let here = fixed_workspace(None)?;
    block_on(async {
        let assembly = assemble(settings, Model::Scripted(nobody), here)?;
        let (state, _) = inspect(&path, &settings.texts, |_| {}).map_err(failed)?;
        require_rest(&state, &assembly.hub.surface().policy)?;
        assembly.hub.index().map_err(failed)?;
        let mut seen = assembly.hub.surface().observers.watch();
        let message = Inbound::text(clock::message_id(), state.opening.owner.clone(), text);
        let id = message.id.clone();
        let session = &state.opening.session;
        let delivered = assembly.hub.deliver_to(session, message).await;
        delivered.map_err(failed)?;
        let mut answer = Answer::default();
        let exit = loop {
            match seen.recv().await {
                Some(Seen::Recorded {
                    session: of,
                    record,
                    ..
                }) if of == *session => {
                    if let Some(exit) = answer.follow(&record, &id) {
                        break Ok(exit);
                    }
                }
                Some(Seen::Stopped { session: of, why }) if of == *session => {
                    break Err(CliError::Failed(why));
                }
                Some(_) => {}
                None => break Err(CliError::Failed("the session went away".into())),
            }
        };
        leave(assembly).await;
        exit
    })?
}

/// What would go on beside the command needs `resume`, and its model.
fn require_rest(state: &State, policy: &Policy) -> Result<(), CliError> {
    let halted = recovery::halts(state) || state.turn.as_ref().is_some_and(|turn| turn.interrupted);
    let rests = state.turn.is_none() || state.waits_for_person() || halted;
    if rests && !goes_on(state, policy) && state.unread.is_empty() {
        return Ok(());
    }
    let session = &state.opening.session;
    let status = reading::short_status(state, policy);
    Err(CliError::Use(format!(
        "session {session} is not at rest ({status}): journeyman resume {session} goes on with it first"
    )))
}

fn goes_on(state: &State, policy: &Policy) -> bool {
    state.turn.is_some() && !state.waits_for_person() && goes_on_alone(state, policy)
}

/// How far the answer has come.
#[derive(Default)]
struct Answer {
    exit: Option<Exit>,
    shown: bool,
}

impl Answer {
    /// The exit, once all is said.
    fn follow(&mut self, record: &Record, asked: &str) -> Option<Exit> {
        match &record.event {
            // An answer at once: there is nothing to undo, or it cannot be.
            Event::MessageTaken {
                message,
                reply: Some(_),
                ..
            } if message == asked => self.exit = Some(Exit::Failed),
            Event::Checkpoint(taken) if taken.error.is_some() => self.exit = Some(Exit::Failed),
            Event::PutBack { restored } => {
                self.exit = Some(match restored {
                    Restored::Done { .. } => Exit::Done,
                    Restored::Conflict { .. } | Restored::Failed { .. } => Exit::Failed,
                });
            }
            Event::DiffShown { text } => {
                self.exit = Some(Exit::Done);
                self.shown = !text.is_empty();
                if self.shown {
                    print(text);
                }
            }
            Event::SendStarted { text, .. } if self.exit.is_some() && !self.shown => print(text),
            Event::SendFinished { .. } => return self.exit,
            _ => {}
        }
        None
    }
}

/// Whoever reads it may go away first (`| head`): that stops nothing.
fn print(text: &str) {
    let text = match io::stdout().is_terminal() {
        true => harmless(text),
        false => text.to_owned(),
    };
    let _ = writeln!(io::stdout(), "{text}");
}

fn last_of_this_folder(settings: &Settings) -> Result<PathBuf, CliError> {
    let here = Path::new(".").canonicalize().map_err(failed)?;
    let paths = find::journals(&settings.data_dir)?;
    let is_here = |path: &&PathBuf| {
        let past = inspect(path, &settings.texts, |_| {});
        past.is_ok_and(|(state, _)| {
            [&state.checkout, &state.workspace]
                .iter()
                .any(|place| Path::new(&place.path) == here)
        })
    };
    let last = paths.iter().rev().take(LOOKED_AT_MAX).find(is_here);
    last.cloned().ok_or_else(|| {
        CliError::Use(format!(
            "no session worked in {}; name one: `journeyman sessions` lists them",
            here.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_number_alone_counts_rounds_and_anything_else_names_the_session() {
        let undo = |session: Option<&str>, rounds| Undo {
            session: session.map(str::to_owned),
            rounds,
            force: false,
        };
        assert_eq!(undo(None, None).meant(), (None, 1));
        assert_eq!(undo(Some("3"), None).meant(), (None, 3));
        assert_eq!(undo(Some("20261122"), None).meant(), (Some("20261122"), 1));
        assert_eq!(undo(Some("2026"), Some(2)).meant(), (Some("2026"), 2));
        assert_eq!(undo(Some("2"), Some(2)).meant(), (Some("2"), 2));
    }
}
