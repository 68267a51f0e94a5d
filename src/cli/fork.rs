//! `journeyman fork`: a new session from an old one's past. It only writes the new journal; `resume` works on it.

use super::find::journal;
use super::run::OWNER;
use super::{CliError, Exit};
use crate::agent::event::{Event, Inbound, Via};
use crate::agent::fork;
use crate::agent::state::State;
use crate::config::Settings;
use crate::history::{Past, walk};
use crate::world::clock;
use crate::world::journal::Journal;
use crate::world::lock::DataLock;
use clap::Args;
use std::path::Path;

#[derive(Debug, Args)]
#[command(
    after_help = "The conversation and the plan go along; grants, approvals, open questions and unfinished calls do not. \
                  Files stay as they are: a fork goes back in what was said, not in what was done. \
                  Go on with: journeyman resume NEW-ID"
)]
pub struct Fork {
    /// Id of the session, or the beginning of one
    session: String,
    /// The last line of the past that is taken along (see `journeyman show ID`) [default: the last possible one]
    #[arg(long, value_name = "SEQ")]
    at: Option<u64>,
    /// What is to be done from there
    objective: Option<String>,
    /// Print the new session as JSON on stdout
    #[arg(long)]
    json: bool,
}

/// The lines at which the session can be forked, around the one that was asked for.
#[derive(Default)]
struct Points {
    before: Option<u64>,
    after: Option<u64>,
}

impl Fork {
    pub fn run(self, settings: &Settings) -> Result<Exit, CliError> {
        let _lock = DataLock::take(&settings.data_dir).map_err(failed)?;
        let path = journal(&settings.data_dir, &self.session)?;
        let parent = self.past(&path, settings)?;
        let session = clock::session_id();
        // A chat goes on with its fork; a headless run is a chat of its own.
        let chat = match parent.opening.chat.strip_prefix("run:") {
            Some(_) => format!("run:{}", clock::message_id()),
            None => parent.opening.chat.clone(),
        };
        let program = concat!("journeyman ", env!("CARGO_PKG_VERSION"));
        let opening = fork::opening(&parent, session.clone(), chat, program.into());
        let fresh = path.with_file_name(format!("{session}.jsonl"));
        let owner = opening.owner.clone();
        let first = Event::SessionStarted(Box::new(opening));
        let (mut journal, _) = Journal::create(&fresh, clock::now(), first).map_err(failed)?;
        if let Some(text) = self.objective.as_deref() {
            let via = if owner == OWNER { Via::Text } else { Via::Flag };
            let message = Inbound {
                via,
                ..Inbound::text(clock::message_id(), owner, text)
            };
            let line = journal.next(clock::now(), Event::MessageReceived { message });
            journal.append(line).map_err(failed)?;
            journal.sync().map_err(failed)?;
        }
        self.report(&session, &parent);
        Ok(Exit::Done)
    }

    /// The state that the fork starts from.
    fn past(&self, path: &Path, settings: &Settings) -> Result<State, CliError> {
        let texts = &settings.texts;
        let wanted = self.at.unwrap_or(u64::MAX);
        let (mut points, mut found) = (Points::default(), None);
        let mut look = |state: &State| {
            if !fork::is_possible(state) {
                return;
            }
            match state.seq {
                seq if seq <= wanted => {
                    points.before = Some(seq);
                    if seq == wanted || self.at.is_none() {
                        found = Some(state.clone());
                    }
                }
                seq => points.after = points.after.or(Some(seq)),
            }
        };
        let past: Past = walk(path, texts, |before, _| {
            if let Some(state) = before {
                look(state);
            }
        })
        .map_err(failed)?;
        look(&past.state);
        // Damage after the point does not matter: the past up to it is intact.
        found.ok_or_else(|| self.no_such_point(&points, &past))
    }

    fn no_such_point(&self, points: &Points, past: &Past) -> CliError {
        let at = self.at.unwrap_or(past.end.seq);
        let nearest: Vec<String> = [points.before, points.after]
            .into_iter()
            .flatten()
            .map(|seq| format!("--at {seq}"))
            .collect();
        let why = match at > past.end.seq {
            true => format!("the journal has {} intact lines", past.end.seq),
            false => "a call, a question or a message is open there".to_owned(),
        };
        CliError::Use(format!(
            "session {} cannot be forked at line {at}: {why}. The nearest points: {}",
            past.state.opening.session,
            nearest.join(", ")
        ))
    }

    fn report(&self, session: &str, parent: &State) {
        let (from, at) = (&parent.opening.session, parent.seq);
        if self.json {
            let report = serde_json::json!({"session": session, "parent": from, "at": at});
            println!("{report}");
            return;
        }
        println!(
            "Session {session} starts from line {at} of {from}. Go on with: journeyman resume {session}"
        );
    }
}

fn failed(error: impl ToString) -> CliError {
    CliError::Failed(error.to_string())
}
