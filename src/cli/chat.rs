//! `journeyman chat`: the same conversation as by text message, in this terminal.

use super::assemble::{Assembly, assemble, fixed_workspace, model};
use super::run::OWNER;
use super::{CliError, Exit, block_on, log_to_stderr};
use crate::agent::event::{Event, Inbound, Record};
use crate::config::Settings;
use crate::doors::Seen;
use crate::doors::terminal::{Style, activity, output};
use crate::hub::Hub;
use crate::world::clock;
use clap::Args;
use rustyline::error::ReadlineError;
use rustyline::{DefaultEditor, ExternalPrinter};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const CHAT: &str = "terminal:local";

#[derive(Debug, Args)]
pub struct Chat {
    /// Folder to work in [default: this one]
    #[arg(long, short, value_name = "DIR")]
    workspace: Option<PathBuf>,
}

/// What the person did at the prompt.
enum Typed {
    Line(String),
    /// Ctrl-C: once stops the turn, twice leaves.
    Interrupt,
    End,
}

impl Chat {
    pub fn run(self, settings: Settings) -> Result<Exit, CliError> {
        log_to_stderr("warn");
        let (model, workspace) = (
            model(&settings)?,
            fixed_workspace(self.workspace.as_deref())?,
        );
        block_on(async {
            let Assembly {
                hub,
                shutdown,
                lock: _lock,
            } = assemble(&settings, model, workspace)?;
            let seen = hub.surface().observers.watch();
            let mut session = hub
                .start(CHAT, OWNER)
                .await
                .map_err(|error| CliError::Failed(error.to_string()))?;
            let (typed, lines) = unbounded_channel();
            let printer = start_editor(&settings, typed)?;
            let shown = tokio::spawn(show(seen, session.clone(), printer));
            let exit = converse(&hub, &mut session, lines).await;
            shutdown.cancel();
            hub.rest().await;
            hub.forget_checkpoints().await;
            shown.abort();
            println!("Session {session} is kept: journeyman resume {session}");
            exit
        })?
    }
}

/// Hands lines to the chat until the person leaves; `session` is the one that took the last.
async fn converse(
    hub: &Arc<Hub>,
    session: &mut String,
    mut lines: UnboundedReceiver<Typed>,
) -> Result<Exit, CliError> {
    println!(
        "Journeyman. Write what you want done; /help lists commands, Ctrl-C stops the work, twice leaves."
    );
    let mut interrupted = false;
    while let Some(typed) = lines.recv().await {
        let text = match typed {
            Typed::End => break,
            Typed::Interrupt if interrupted => return Ok(Exit::Interrupted),
            Typed::Interrupt => {
                interrupted = true;
                "/cancel".to_owned()
            }
            Typed::Line(line) if line.trim().is_empty() => continue,
            Typed::Line(line) => {
                interrupted = false;
                line
            }
        };
        // After /new or /agent OBJECTIVE the chat's active session is another one.
        let delivered = hub
            .deliver(CHAT, Inbound::text(clock::message_id(), OWNER, text))
            .await;
        match delivered {
            Ok(delivered) => *session = delivered.session,
            Err(error) => eprintln!("not taken by session {session}: {error}"),
        }
    }
    Ok(Exit::Done)
}

type Print = Box<dyn FnMut(String) + Send>;

/// A thread that edits lines, with history; and a way to print above the line that is being edited.
fn start_editor(settings: &Settings, typed: UnboundedSender<Typed>) -> Result<Print, CliError> {
    let failed = |error: ReadlineError| CliError::Failed(format!("open the terminal: {error}"));
    let mut editor = DefaultEditor::new().map_err(failed)?;
    let history = settings.data_dir.join("chat_history");
    let _ = editor.load_history(&history); // there is none at first
    let print: Print = match io::stdout().is_terminal() && io::stdin().is_terminal() {
        true => {
            let mut printer = editor.create_external_printer().map_err(failed)?;
            Box::new(move |text| drop(printer.print(format!("{text}\n"))))
        }
        false => Box::new(|text| println!("{text}")),
    };
    thread::spawn(move || {
        loop {
            let typed_now = match editor.readline("› ") {
                Ok(line) => {
                    let _ = editor.add_history_entry(&line);
                    let _ = editor.save_history(&history); // history is a comfort, not a promise
                    Typed::Line(line)
                }
                Err(ReadlineError::Interrupted) => Typed::Interrupt,
                Err(_) => Typed::End,
            };
            let last = matches!(typed_now, Typed::End);
            if typed.send(typed_now).is_err() || last {
                return;
            }
        }
    });
    Ok(print)
}

async fn show(mut seen: UnboundedReceiver<Seen>, _first: String, mut print: Print) {
    let style = Style::of(&io::stdout());
    while let Some(seen) = seen.recv().await {
        match seen {
            Seen::Recorded { chat, record, .. } if chat == CHAT => {
                if let Some(text) = line(&record, style) {
                    print(text);
                }
            }
            Seen::Stopped { why, .. } => print(format!("⚠️ {why}")),
            Seen::Shown { delta, .. } => {
                if let Some(lines) = output(&delta) {
                    print(style.dim(lines));
                }
            }
            Seen::Recorded { .. } => {}
        }
    }
}

fn line(record: &Record, style: Style) -> Option<String> {
    match &record.event {
        Event::SendStarted { text, .. } => Some(style.message(text)),
        event => activity(event).map(|line| style.dim(&line)),
    }
}
