//! `journeyman chat`: the same conversation as by text message, in this terminal.

use super::assemble::{Assembly, assemble, fixed_workspace, model};
use super::run::OWNER;
use super::{CliError, Exit, block_on, log_to_stderr};
use crate::agent::children;
use crate::agent::event::{Answer, Event, Inbound, OutgoingKind, Record};
use crate::config::Settings;
use crate::doors::Seen;
use crate::doors::terminal::live::{FRAME, Spinner, Streamed};
use crate::doors::terminal::{Style, activity, harmless, output};
use crate::hub::{Hub, PickWorkspace};
use crate::world::clock;
use crate::world::model::Delta;
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
        talk(&settings, fixed_workspace(self.workspace.as_deref())?)
    }
}

/// Talks with the person until they leave.
///
/// # Errors
/// Where no model is configured, or there is nobody to talk to.
pub fn talk(settings: &Settings, workspace: PickWorkspace) -> Result<Exit, CliError> {
    let model = model(settings)?;
    block_on(async {
        let Assembly {
            hub,
            shutdown,
            lock: _lock,
        } = assemble(settings, model, workspace)?;
        let seen = hub.surface().observers.watch();
        let mut session = hub
            .start(CHAT, OWNER)
            .await
            .map_err(|error| CliError::Failed(error.to_string()))?;
        let (typed, lines) = unbounded_channel();
        let printer = start_editor(settings, typed)?;
        let shown = tokio::spawn(show(seen, printer));
        let exit = converse(&hub, &mut session, lines).await;
        shutdown.cancel();
        hub.rest().await;
        hub.forget_checkpoints().await;
        shown.abort();
        println!("Session {session} is kept: journeyman resume {session}");
        exit
    })?
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
    let is_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    // A dumb terminal has no line to print above: there, one line follows the other.
    let printer = is_terminal.then(|| editor.create_external_printer().ok());
    let print: Print = match printer.flatten() {
        Some(mut printer) => Box::new(move |text| drop(printer.print(format!("{text}\n")))),
        None => Box::new(|text| println!("{text}")),
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

/// What the terminal shows, above the line that is being edited.
struct Screen {
    print: Print,
    style: Style,
    streamed: Streamed,
    spinner: Spinner,
}

async fn show(mut seen: UnboundedReceiver<Seen>, print: Print) {
    let style = Style::of(&io::stdout());
    let mut screen = Screen {
        print,
        style,
        streamed: Streamed::default(),
        spinner: Spinner::new(style),
    };
    loop {
        let moves = screen.spinner.moves();
        tokio::select! {
            biased;
            seen = seen.recv() => match seen {
                Some(seen) => screen.take(&seen),
                None => return,
            },
            () = tokio::time::sleep(FRAME), if moves => screen.turn(),
        }
    }
}

/// Of a helper, what it asks is shown.
fn is_said(record: &Record) -> bool {
    matches!(record.event, Event::SendStarted { .. })
}

impl Screen {
    fn take(&mut self, seen: &Seen) {
        match seen {
            Seen::Recorded {
                chat,
                record,
                session,
            } if chat == CHAT && (!children::is_id(session) || is_said(record)) => {
                self.record(record);
            }
            Seen::Recorded { .. } => {}
            Seen::Stopped { why, .. } => self.say(&format!("⚠️ {why}")),
            Seen::Shown { delta, .. } => self.live(delta),
        }
    }

    fn live(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(piece) => {
                if let Some(lines) = self.streamed.take(piece) {
                    self.say(&harmless(&lines));
                }
            }
            Delta::Restart => {
                if self.streamed.forget() {
                    self.say(&self.style.dim("(the answer begins again)"));
                }
            }
            Delta::Output(_) | Delta::Waiting { .. } => {
                if let Some(lines) = output(delta) {
                    self.say(&self.style.dim(lines));
                }
            }
        }
    }

    fn record(&mut self, record: &Record) {
        self.spinner.note(&record.event);
        match &record.event {
            Event::ModelAsked { .. } | Event::ToolStarted { .. } => self.turn(),
            Event::ModelAnswered { answer, .. } => {
                if let Some(rest) = self.streamed.end() {
                    self.say(&harmless(&rest));
                }
                if !answer.calls.is_empty() {
                    self.tell_calls(record, answer);
                }
            }
            Event::SendStarted { text, .. } => {
                let rest = match record.event {
                    Event::SendStarted {
                        kind: OutgoingKind::Final,
                        ..
                    } => self.streamed.rest_of(text),
                    _ => text,
                };
                if !rest.is_empty() {
                    self.say(&self.style.message(rest));
                }
            }
            event => {
                if let Some(line) = activity(event) {
                    self.say(&self.style.dim(&line));
                }
            }
        }
    }

    /// What is called; a remark before it was shown while it was written, where that could be seen.
    fn tell_calls(&mut self, record: &Record, answer: &Answer) {
        let Some(lines) = activity(&record.event) else {
            return;
        };
        let remark = answer.text.trim();
        let was_shown = self.streamed.forget();
        let lines = match lines.strip_prefix(remark) {
            Some(calls) if was_shown => calls.trim_start(),
            Some(_) | None => &lines,
        };
        self.say(&self.style.dim(lines));
    }

    fn turn(&mut self) {
        if let Some(frame) = self.spinner.next_frame() {
            (self.print)(frame);
        }
    }

    fn say(&mut self, text: &str) {
        let text = self.spinner.over(text, false);
        (self.print)(text);
    }
}
