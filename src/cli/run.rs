//! `journeyman run`: one session, headless, to its end or its next question. `resume` ends its sessions the same way.

use super::assemble::{Assembly, assemble, fixed_workspace, model};
use super::signals::{Signals, Wish};
use super::{CliError, Exit, block_on, log_to_stderr};
use crate::agent::children;
use crate::agent::event::{EndReason, Event, Inbound, OutgoingKind, Reading, Record, Via};
use crate::agent::forms;
use crate::agent::state::State;
use crate::agent::step::goes_on_alone;
use crate::agent::{reading, recovery};
use crate::config::Settings;
use crate::doors::Seen;
use crate::doors::terminal::{Style, activity, harmless, is_aside, output};
use crate::gate::read_reply;
use crate::hub::{Hub, PickWorkspace};
use crate::world::clock;
use crate::world::model::Delta;
use clap::Args;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;

/// The one who sits at the terminal.
pub const OWNER: &str = "local";

#[derive(Debug, Args)]
pub struct Run {
    /// What is to be done
    objective: String,
    /// Folder to work in [default: this one]
    #[arg(long, short, value_name = "DIR")]
    workspace: Option<PathBuf>,
    #[command(flatten)]
    how: How,
}

/// What was said beforehand about calls that may or may not have run. `--yes` says nothing about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    Ask,
    RunAgain,
    GoOn,
}

#[derive(Debug, Default, Args)]
pub struct How {
    /// Approve every question, each shown and journaled as approved by this flag; denials stay denials. It never says
    /// that a call which may have run before an interruption runs again
    #[arg(long, conflicts_with = "no_approvals")]
    yes: bool,
    /// Deny every question at once; the model goes on without
    #[arg(long)]
    no_approvals: bool,
    /// Print every event as a JSON line on stdout
    #[arg(long)]
    json: bool,
    /// The last word is somebody else's to print.
    #[arg(skip)]
    silent: bool,
}

impl How {
    /// Nothing but a result that somebody else prints.
    pub fn silent() -> Self {
        Self {
            silent: true,
            ..Self::default()
        }
    }

    /// Nobody is there to be asked.
    pub fn alone() -> Self {
        Self {
            no_approvals: true,
            ..Self::default()
        }
    }
}

impl Run {
    pub fn run(self, settings: Settings) -> Result<Exit, CliError> {
        log_to_stderr("warn");
        if self.objective.trim().is_empty() {
            return Err(CliError::Use(
                "the objective is empty: say what is to be done".into(),
            ));
        }
        let workspace = fixed_workspace(self.workspace.as_deref())?;
        work_on(&settings, workspace, self.objective, self.how)
    }
}

/// Works on an objective in a session of its own.
///
/// # Errors
/// Where no model is configured, or the session cannot go on.
pub fn work_on(
    settings: &Settings,
    workspace: PickWorkspace,
    objective: String,
    how: How,
) -> Result<Exit, CliError> {
    start_on(settings, workspace, objective, how).map(|(exit, _)| exit)
}

/// The same, and which session that is.
///
/// # Errors
/// As [`work_on`].
pub fn start_on(
    settings: &Settings,
    workspace: PickWorkspace,
    objective: String,
    how: How,
) -> Result<(Exit, String), CliError> {
    let model = model(settings)?;
    block_on(async {
        let assembly = assemble(settings, model, workspace)?;
        let mut seen = assembly.hub.surface().observers.watch();
        let chat = format!("run:{}", clock::message_id());
        let objective = Inbound::text(clock::message_id(), OWNER, objective);
        let started = assembly.hub.start_with(&chat, objective).await;
        let session = started.map_err(failed)?.session;
        let attendant = Attendant::new(&assembly, session.clone(), OWNER.into(), how, Doubt::Ask)?;
        let exit = attendant.stay(&mut seen, Told::default()).await;
        leave(assembly).await;
        attendant.print_rest(&mut seen);
        Ok((exit?, session))
    })?
}

/// The outside did not do what was needed.
pub fn failed(error: impl ToString) -> CliError {
    CliError::Failed(error.to_string())
}

/// Ends at the safe point; what is left is taken up by the next process.
pub async fn leave(assembly: Assembly) {
    assembly.shutdown.cancel();
    assembly.hub.rest().await;
    assembly.hub.forget_checkpoints().await;
}

/// How far the end of the turn has come.
#[derive(Default)]
struct Told {
    reason: Option<EndReason>,
    final_answer: bool,
    /// A chat command was answered at once: there may be no turn at all.
    answered: bool,
}

/// Stays with a session: shows what it does, and answers its questions by flag or by the person.
pub struct Attendant {
    hub: Arc<Hub>,
    session: String,
    owner: String,
    how: How,
    doubt: Doubt,
    style: Style,
    signals: Signals,
}

impl Attendant {
    /// `owner` is in whose name flags and the terminal answer. Within the runtime.
    ///
    /// # Errors
    /// The kernel refuses to tell of signals.
    pub fn new(
        assembly: &Assembly,
        session: String,
        owner: String,
        how: How,
        doubt: Doubt,
    ) -> Result<Self, CliError> {
        Ok(Self {
            hub: assembly.hub.clone(),
            session,
            owner,
            how,
            doubt,
            style: Style::of(&io::stderr()),
            signals: Signals::listen()?,
        })
    }

    /// Goes on with a session where it stopped: at a question, in the middle of a turn, before its last words.
    pub async fn take_up(
        &self,
        state: &State,
        seen: &mut UnboundedReceiver<Seen>,
    ) -> Result<Exit, CliError> {
        let mut told = Told::default();
        let waits_for = state
            .question()
            .map(|(call, question)| (call, question.approval.as_str()));
        let waits_for = waits_for.or_else(|| state.listening().map(|call| (call, "")));
        if let Some((call, code)) = waits_for {
            self.say(
                &self.style.bold(
                    &self
                        .hub
                        .question_text(&self.session, &call.id)
                        .map_err(failed)?,
                ),
            );
            let answered = match code {
                "" => self.answer_in_words().await?,
                code => self.answer(&self.session, code).await?,
            };
            if !answered {
                return Ok(self.leave_waiting(&self.session, code));
            }
        } else if state.turn.is_some() && goes_on_alone(state, &self.hub.surface().policy) {
            self.hub.rouse(&self.session).await.map_err(failed)?;
        } else if reading::can_resume(state) || recovery::halts(state) {
            self.tell(&self.session, "/agent-resume", Via::Text).await?;
        } else if state.turn.is_some() || !state.unread.is_empty() || !state.outbox.is_empty() {
            // Everything was decided; it only has to be said.
            told.reason = state.last_end;
            self.hub.rouse(&self.session).await.map_err(failed)?;
        } else {
            let status = reading::short_status(state, &self.hub.surface().policy);
            return Err(CliError::Use(format!(
                "nothing to resume in session {}: {status}",
                self.session
            )));
        }
        self.stay(seen, told).await
    }

    /// Says something that starts a turn, and stays until that has ended.
    pub async fn say_and_stay(
        &self,
        text: &str,
        seen: &mut UnboundedReceiver<Seen>,
    ) -> Result<Exit, CliError> {
        self.tell(&self.session, text, Via::Text).await?;
        self.stay(seen, Told::default()).await
    }

    async fn stay(
        &self,
        seen: &mut UnboundedReceiver<Seen>,
        mut told: Told,
    ) -> Result<Exit, CliError> {
        let mut interrupts = 0;
        loop {
            let event = tokio::select! {
                event = seen.recv() => event,
                wish = self.signals.next() => {
                    interrupts += 1;
                    if wish == Wish::Leave || interrupts > 1 {
                        return Ok(Exit::Interrupted);
                    }
                    self.tell(&self.session, "/cancel", Via::Text).await?;
                    continue;
                }
            };
            let record = match event {
                Some(Seen::Recorded {
                    session, record, ..
                }) if session == self.session => record,
                Some(Seen::Recorded {
                    session, record, ..
                }) if self.is_child(&session) => {
                    if let Event::ApprovalAsked {
                        approval, question, ..
                    } = &record.event
                    {
                        self.say(&self.style.bold(question));
                        if !self.answer(&session, approval).await? {
                            return Ok(self.leave_waiting(&session, approval));
                        }
                    }
                    continue;
                }
                Some(Seen::Stopped { session, why }) if session == self.session => {
                    return Err(CliError::Failed(why));
                }
                Some(Seen::Shown { session, delta }) if session == self.session => {
                    self.show_output(&delta);
                    continue;
                }
                Some(_) => continue,
                None => return Err(CliError::Failed("the session went away".into())),
            };
            if let Some(exit) = self.show(&record, &mut told).await? {
                return Ok(exit);
            }
        }
    }

    /// Whether it was begun by a call of this session: what it asks, the same person answers.
    fn is_child(&self, session: &str) -> bool {
        session.starts_with(&children::id(&self.session, ""))
    }

    /// Shows a line of the journal; the exit, once there is one.
    async fn show(&self, record: &Record, told: &mut Told) -> Result<Option<Exit>, CliError> {
        if self.how.json {
            self.print_json(record);
        } else if let Some(line) = activity(&record.event) {
            self.say(&self.style.dim(&line));
        }
        match &record.event {
            Event::SendStarted { kind, text, .. } => {
                told.final_answer |= *kind == OutgoingKind::Final;
                self.show_message(*kind, text);
                let asks = matches!(kind, OutgoingKind::Question | OutgoingKind::Notice);
                if asks && self.is_asked_by_server()? {
                    self.answer_server().await?;
                }
            }
            Event::ApprovalAsked {
                approval, question, ..
            } => {
                self.say(&self.style.bold(question));
                if !self.answer(&self.session, approval).await? {
                    return Ok(Some(self.leave_waiting(&self.session, approval)));
                }
            }
            Event::QuestionAsked { question, .. } => {
                self.say(&self.style.bold(question));
                if !self.answer_in_words().await? {
                    return Ok(Some(self.leave_waiting(&self.session, "your answer")));
                }
            }
            Event::TurnEnded { reason, .. } => told.reason = Some(*reason),
            Event::MessageTaken {
                reading: Reading::Command { .. },
                reply: Some(_),
                ..
            } => told.answered = true,
            Event::SendFinished { .. } if told.answered && told.reason.is_none() => {
                let state = self.hub.peek(&self.session).map_err(failed)?;
                let is_all = state.turn.is_none() && state.outbox.is_empty();
                return Ok(is_all.then_some(Exit::Done));
            }
            Event::SendFinished { .. } => {
                return Ok(told.reason.filter(|_| told.final_answer).map(Exit::of));
            }
            _ => {}
        }
        Ok(None)
    }

    /// What was recorded between the exit's decision and the end: whoever reads JSON gets the journal whole.
    pub fn print_rest(&self, seen: &mut UnboundedReceiver<Seen>) {
        while let Ok(event) = seen.try_recv() {
            match event {
                Seen::Recorded {
                    session, record, ..
                } if self.how.json && session == self.session => self.print_json(&record),
                Seen::Recorded { .. } | Seen::Shown { .. } | Seen::Stopped { .. } => {}
            }
        }
    }

    fn show_message(&self, kind: OutgoingKind, text: &str) {
        match kind {
            OutgoingKind::Final if self.how.silent => {}
            OutgoingKind::Final if !self.how.json && io::stdout().is_terminal() => {
                self.print(&harmless(text));
            }
            OutgoingKind::Final if !self.how.json => self.print(text),
            OutgoingKind::Question | OutgoingKind::Final => {}
            kind if is_aside(kind) => self.say(&self.style.message(text)),
            _ => {}
        }
    }

    fn show_output(&self, delta: &Delta) {
        if let Some(lines) = output(delta).filter(|_| !self.how.json) {
            self.say(&self.style.dim(lines));
        }
    }

    fn print_json(&self, record: &Record) {
        let line = serde_json::to_string(record).expect("BUG: every record serialises");
        self.print(&line);
    }

    /// The result. Whoever reads it may go away first (`| head`): that stops nothing either.
    fn print(&self, text: &str) {
        let _ = writeln!(io::stdout(), "{text}");
    }

    fn say(&self, text: &str) {
        // Nobody may be reading stderr; that stops nothing.
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// Answers by flag or by the person; `false` where nobody is here to answer.
    async fn answer(&self, session: &str, code: &str) -> Result<bool, CliError> {
        if self.is_doubt(session, code)? {
            return self.answer_doubt(session, code).await;
        }
        if self.how.yes {
            self.say(&format!("approved by --yes ({code})"));
            self.tell(session, &format!("/approve {code}"), Via::Flag)
                .await?;
            return Ok(true);
        }
        if self.how.no_approvals {
            self.say(&format!("denied by --no-approvals ({code})"));
            self.tell(
                session,
                &format!("/deny {code} this run allows no approvals"),
                Via::Flag,
            )
            .await?;
            return Ok(true);
        }
        self.answer_by_hand(session).await
    }

    /// Whether the question is about a call that may or may not have run.
    fn is_doubt(&self, session: &str, code: &str) -> Result<bool, CliError> {
        let state = self.hub.peek(session).map_err(failed)?;
        let open = state.question().map(|(_, question)| question);
        Ok(open.is_some_and(|question| question.approval == code && question.in_doubt))
    }

    /// Running something twice is never the word of a flag that says yes to everything.
    async fn answer_doubt(&self, session: &str, code: &str) -> Result<bool, CliError> {
        let (flag, text) = match self.doubt {
            Doubt::RunAgain => ("--run-again", format!("/approve {code}")),
            Doubt::GoOn => ("--go-on", format!("/deny {code}")),
            Doubt::Ask if self.how.no_approvals => ("--no-approvals", format!("/deny {code}")),
            Doubt::Ask => {
                let answered = self.answer_by_hand(session).await?;
                if !answered {
                    self.say("It may or may not have run, so --yes does not answer this: add --run-again or --go-on");
                }
                return Ok(answered);
            }
        };
        self.say(&format!("answered by {flag} ({code})"));
        self.tell(session, &text, Via::Flag).await?;
        Ok(true)
    }

    async fn answer_by_hand(&self, session: &str) -> Result<bool, CliError> {
        while let Some(line) = self.ask_person().await {
            self.tell(session, &line, Via::Text).await?;
            let settles = read_reply(&line).is_some()
                || ["/approve", "/deny", "/cancel", "/stop"]
                    .iter()
                    .any(|word| line.starts_with(word));
            if settles {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A call goes on meanwhile: where nobody is there, its server is told no.
    async fn answer_server(&self) -> Result<(), CliError> {
        let line = match self.how.yes || self.how.no_approvals {
            true => None,
            false => self.ask_person().await,
        };
        match line {
            Some(line) => self.tell(&self.session, &line, Via::Text).await,
            None => self.tell(&self.session, forms::DECLINES, Via::Flag).await,
        }
    }

    fn is_asked_by_server(&self) -> Result<bool, CliError> {
        let state = self.hub.peek(&self.session).map_err(failed)?;
        Ok(state.server_question().is_some())
    }

    async fn answer_in_words(&self) -> Result<bool, CliError> {
        if self.how.yes || self.how.no_approvals {
            self.tell(
                &self.session,
                "Nobody is here to answer. Go on as you think best, on the safe side.",
                Via::Flag,
            )
            .await?;
            return Ok(true);
        }
        let Some(line) = self.ask_person().await else {
            return Ok(false);
        };
        self.tell(&self.session, &line, Via::Text).await?;
        Ok(true)
    }

    /// A line of the person at the terminal; Ctrl-C means stop. `None` where nobody is there.
    async fn ask_person(&self) -> Option<String> {
        if !io::stdin().is_terminal() {
            return None;
        }
        let _ = write!(io::stderr(), "> ");
        tokio::select! {
            line = read_line() => line,
            () = self.signals.stop() => Some("/cancel".into()),
        }
    }

    async fn tell(&self, session: &str, text: &str, via: Via) -> Result<(), CliError> {
        let message = Inbound {
            via,
            ..Inbound::text(clock::message_id(), self.owner.clone(), text)
        };
        self.hub
            .deliver_to(session, message)
            .await
            .map(drop)
            .map_err(failed)
    }

    fn leave_waiting(&self, session: &str, what: &str) -> Exit {
        self.say(&format!(
            "Session {session} waits for {what}. Answer with: journeyman resume {session}"
        ));
        Exit::Waiting
    }
}

/// SIGTERM: the session is left at its next safe point, and can be resumed.
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut term) => drop(term.recv().await),
        Err(_) => std::future::pending().await,
    }
}

/// Ctrl-C or SIGTERM.
pub async fn interrupted() {
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated() => {}
    }
}

/// A line from the terminal; `None` at its end.
pub async fn read_line() -> Option<String> {
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        match io::stdin().lock().read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim().to_owned()),
        }
    });
    read.await.ok().flatten()
}
