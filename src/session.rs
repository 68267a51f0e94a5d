//! The loop: the only place where deciding and acting meet.
//!
//! One actor a session owns its state and its journal and is the journal's only appender. Doors hand it facts and wait
//! for its word that they are on disk. A session that waits for a person ends here: no task, no connection.

use crate::agent::apply::{Illegal, apply};
use crate::agent::carry;
use crate::agent::charter;
use crate::agent::children;
use crate::agent::event::{
    CallId, CheckpointTaken, Event, Inbound, Moment, Record, Restored, Timestamp,
};
use crate::agent::forms::{ServerAnswer, ServerQuestion};
use crate::agent::graphs;
use crate::agent::limits;
use crate::agent::loading;
use crate::agent::media;
use crate::agent::recovery;
use crate::agent::roles::{self, AgentAnswer};
use crate::agent::state::{ErrandWish, Outgoing, Pending, Stage, State, Stop};
use crate::agent::step::{Decision, Effect, Look, Policy, step};
use crate::agent::trust::TrustAnswer;
use crate::agent::worktrees::{self, Made};
use crate::doors::people::People;
use crate::doors::{self, Observers};
use crate::schedule::wish::Answer;
use crate::world::journal::{Journal, JournalError};
use crate::world::schedules::Customer;
use crate::world::store::Store;
use crate::world::workspace::Workspace;
use crate::world::worktrees::Isolation;
use crate::world::{Asks, Outside, Scene, World, broken_tool, clock, open_workspace};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// A session stays awake for what is due within this; for anything later it is woken.
const AWAKE_MAX: Duration = Duration::from_secs(60);

/// Lines of a running session that the database may be behind: a few rounds.
const UNPROJECTED_LINES_MAX: usize = 64;

/// How often a session that is at work looks whether a message that was held back can go.
const HELD_LOOK: Duration = Duration::from_secs(5);

/// How soon a database that could not be written is tried again.
const PROJECT_AGAIN: Duration = Duration::from_secs(1);

/// Why this process must not go on with a session.
#[derive(Debug, Error)]
pub enum SessionError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("BUG: {0}")]
    Illegal(#[from] Illegal),
}

/// A message for a session, and who waits for it to be on disk.
pub struct Delivery {
    pub message: Inbound,
    /// Whether the database must know of it before the door hears that it is taken: where another one like it may come.
    pub index_first: bool,
    /// Its line in the journal; `None`: it was there before.
    pub ack: oneshot::Sender<Result<Option<u64>, String>>,
}

/// What a session works with.
#[derive(Clone)]
pub struct Surface {
    pub world: Arc<World>,
    /// Where effects happen: `world`, or one that a test can end at any point.
    pub outside: Arc<dyn Outside>,
    pub policy: Arc<Policy>,
    pub store: Arc<Store>,
    pub observers: Observers,
    /// Who answers for whom.
    pub people: Arc<People>,
    /// Whether sessions that come through a door from outside leave the person's folders alone.
    pub isolation: Isolation,
    /// Set once: no new effects, end at the next safe point.
    pub shutdown: CancellationToken,
}

/// One session, awake.
pub struct Session {
    pub state: State,
    journal: Journal,
    unprojected: Vec<Record>,
    surface: Surface,
    /// Where it works, or why that cannot be opened: then only tools fail, and say so.
    workspace: Result<Workspace, String>,
    /// Where it started.
    home: Option<Workspace>,
    running: JoinSet<Event>,
    /// What running calls say before they end: whether what they began waits for a person.
    word: (mpsc::UnboundedSender<Word>, mpsc::UnboundedReceiver<Word>),
    /// What each running task is, for the case that it panics.
    tasks: HashMap<Id, Doing>,
    cancel: CancellationToken,
    /// Where the answer to what an MCP server asks goes.
    asking: Option<(CallId, oneshot::Sender<ServerAnswer>)>,
    /// Ends the load that is under way, of what a message calls.
    load: CancellationToken,
}

/// What a running call says before it ends.
enum Word {
    Waits(CallId, bool),
    Asks(CallId, ServerQuestion, oneshot::Sender<ServerAnswer>),
}

#[derive(Debug, Clone)]
enum Doing {
    Model(u32),
    Tool(CallId),
    Send(u64),
    Checkpoint(u64, Moment),
    PutBack,
    Diff,
    Errand,
    Fetch(String),
    Load(String),
    Worktree(String),
    Carry,
    Draft(String, Option<CallId>),
}

impl Session {
    /// `unprojected`: lines of the journal that the database does not know yet.
    pub fn new(state: State, journal: Journal, unprojected: Vec<Record>, surface: Surface) -> Self {
        let workspace = open(&state);
        // What is offered depends on the folder itself, also where the session works beside it.
        let is_home = state.workspace == state.opening.workspace;
        let home = match is_home && state.opening.worktrees.is_none() {
            true => workspace.clone().ok(),
            false => open_workspace(Path::new(&state.opening.workspace.path)).ok(),
        };
        let ended = |call: &CallId| {
            let stage = state.pending(call).map(|pending| &pending.stage);
            stage.is_none_or(|stage| matches!(stage, Stage::Finished(_)))
        };
        let session = &state.opening.session;
        let world = &surface.world;
        world.forget_others(session, |call| !ended(call));
        let (running, tasks, cancel) = (JoinSet::new(), HashMap::new(), CancellationToken::new());
        Self {
            state,
            journal,
            unprojected,
            surface,
            workspace,
            home,
            running,
            word: mpsc::unbounded_channel(),
            tasks,
            cancel,
            asking: None,
            load: CancellationToken::new(),
        }
    }

    /// Decides and acts until nothing is left to do but to wait for a person.
    ///
    /// `park` is asked then; `false` means that a fact is on its way.
    ///
    /// # Errors
    /// [`SessionError`]: the journal cannot be written, or history contradicts itself. Nothing more is done then.
    pub async fn run(
        &mut self,
        inbox: &mut mpsc::Receiver<Delivery>,
        park: impl Fn(&mpsc::Receiver<Delivery>) -> bool,
    ) -> Result<(), SessionError> {
        if let Some(event) = recovery::on_start(&self.state) {
            self.record(event)?;
        }
        loop {
            self.ring_alarm()?;
            match step(&self.state, &self.surface.policy) {
                Decision::Record(event) => self.record(*event)?,
                Decision::Look(look) => match self.look(look, inbox).await? {
                    Some(fact) => self.record(fact)?,
                    None => return self.drain().await,
                },
                Decision::Perform(_) if self.surface.shutdown.is_cancelled() => {
                    return self.drain().await;
                }
                Decision::Perform(effect) => {
                    if let Effect::Send { .. } = *effect {
                        self.project(); // whoever reads a question may answer it at once
                    }
                    self.record(effect.intent())?; // in the journal before the effect
                    self.start(*effect);
                }
                Decision::Wait => {
                    // Effects that were just started go first: the model waits for nobody's derived rows.
                    tokio::task::yield_now().await;
                    if self.must_project() {
                        self.project();
                    }
                    let soon = self.alarm_in().is_some_and(|wait| wait < AWAKE_MAX);
                    if self.running.is_empty() && !soon && park(inbox) {
                        return Ok(()); // parked: no task, no connection
                    }
                    let alarm = until(self.look_in());
                    tokio::select! {
                        Some(ended) = self.running.join_next_with_id() => self.take_outcome(ended)?,
                        Some(delivery) = inbox.recv() => self.take_message(delivery)?,
                        Some(word) = self.word.1.recv() => self.take_word(word)?,
                        () = alarm => {}
                        () = self.surface.shutdown.cancelled() => return self.drain().await,
                    }
                }
            }
        }
    }

    /// What a look finds; messages are taken meanwhile, for a remote may let us wait. `None` on shutdown.
    async fn look(
        &mut self,
        look: Look,
        inbox: &mut mpsc::Receiver<Delivery>,
    ) -> Result<Option<Event>, SessionError> {
        let (surface, workspace) = (self.surface.clone(), self.workspace.clone());
        let (gate, path) = (&surface.policy.gate, self.journal.path().to_owned());
        let mut looking = surface.outside.look(look, gate, &workspace, &path);
        loop {
            tokio::select! {
                biased;
                fact = &mut looking => return Ok(Some(fact)),
                () = surface.shutdown.cancelled() => return Ok(None),
                Some(delivery) = inbox.recv() => self.take_message(delivery)?,
            }
        }
    }

    /// Writes an event down, on disk before anything else happens if it must be.
    fn record(&mut self, event: Event) -> Result<(), SessionError> {
        let durable = event.must_be_durable();
        let line = self.journal.next(clock::now(), event);
        apply(&mut self.state, &line.record)?;
        let record = self.journal.append(line)?;
        if durable {
            self.journal.sync()?;
        }
        if loading::is_for_nobody(&self.state) {
            self.load.cancel();
        }
        if let Event::ServerAnswered { call, answer, .. } = &record.event
            && let Some((_, to)) = self.asking.take_if(|(asking, _)| asking == call)
        {
            let _ = to.send(answer.clone()); // a call that ended meanwhile needs none
        }
        if let Event::ToolFinished { call, .. } = &record.event {
            self.asking.take_if(|(asking, _)| asking == call);
            let session = &self.state.opening.session;
            self.surface.world.forget(session, call);
        }
        if self.is_elsewhere(&record.event) {
            // Whatever is done from here on is done there.
            self.workspace = open(&self.state);
        }
        self.surface
            .observers
            .recorded(&self.state.opening, &record);
        // A failure to deliver it is told by its id, and soon.
        let names_ids = matches!(&record.event, Event::SendFinished { ids, .. } if !ids.is_empty());
        self.unprojected.push(record);
        if names_ids {
            self.project();
        }
        Ok(())
    }

    /// Whether the folder must be opened anew after this event. What was read in one that stays is still known.
    fn is_elsewhere(&self, event: &Event) -> bool {
        let path = Path::new(&self.state.workspace.path);
        let is_open = (self.workspace.as_ref()).is_ok_and(|workspace| workspace.root() == path);
        match event {
            Event::WorkspaceSwitched { .. } => true,
            Event::WorktreeMade { made, .. } => {
                !is_open || matches!(made, Made::Own { fresh: true, .. })
            }
            _ => false,
        }
    }

    /// The database finds messages, sessions that sleep, and the one that asked. What an awake one does between has time.
    fn must_project(&self) -> bool {
        self.running.is_empty()
            || self.state.waits_for_person()
            || self.unprojected.len() >= UNPROJECTED_LINES_MAX
    }

    /// Brings the database up to date. It is derived: a failure stops nothing and is tried again.
    fn project(&mut self) {
        if self.unprojected.is_empty() {
            return;
        }
        let (store, bytes) = (&self.surface.store, self.journal.bytes());
        match store.project(&self.unprojected, &self.state, bytes) {
            Ok(()) => self.unprojected.clear(),
            Err(error) => {
                tracing::warn!(session = %self.state.opening.session, %error, "not indexed yet");
            }
        }
    }

    fn start(&mut self, effect: Effect) {
        let doing = match &effect {
            Effect::Stop => {
                // Running effects end with what they have; later ones get a token of their own.
                std::mem::take(&mut self.cancel).cancel();
                return;
            }
            Effect::AskModel { round, .. } | Effect::Summarise { round, .. } => {
                Doing::Model(*round)
            }
            Effect::Draft { graph, call, .. } => Doing::Draft(graph.clone(), call.clone()),
            Effect::RunTool { call, .. } => Doing::Tool(call.get().id.clone()),
            Effect::Await { call } => Doing::Tool(call.id.clone()),
            Effect::Send { outgoing } => Doing::Send(outgoing.send),
            Effect::Checkpoint { number, moment, .. } => Doing::Checkpoint(*number, *moment),
            Effect::PutBack { .. } => Doing::PutBack,
            Effect::Diff { .. } => Doing::Diff,
            Effect::Errand { .. } => Doing::Errand,
            Effect::Fetch { message, .. } => Doing::Fetch(message.clone()),
            Effect::LoadCommand { message, .. } => Doing::Load(message.clone()),
            Effect::MakeWorktree { checkout, .. } => Doing::Worktree(checkout.path.clone()),
            Effect::Carry { .. } => Doing::Carry,
        };
        let mut scene = self.scene();
        if let Doing::Load(_) = doing {
            self.load = self.cancel.child_token();
            scene.cancel = self.load.clone();
        }
        let handle = self
            .running
            .spawn(self.surface.outside.clone().perform(effect, scene));
        self.tasks.insert(handle.id(), doing);
    }

    fn scene(&self) -> Scene {
        let opening = self.state.opening.clone();
        let observers = self.surface.observers.clone();
        Scene {
            session: opening.session.clone(),
            customer: Customer::of(&opening),
            place: self.state.checkout.name.clone(),
            begun_by: (self.state.turn.as_ref())
                .filter(|turn| turn.round == 1)
                .and_then(|turn| turn.message.clone()),
            agent: roles::chosen(&self.state).map(str::to_owned),
            can_schedule: doors::is_served(&opening.chat) && opening.scheduled.is_none(),
            workspace: self.workspace.as_ref().ok().cloned(),
            checkout: worktrees::missing(&self.state)
                .and_then(|_| open_workspace(Path::new(&self.state.checkout.path)).ok()),
            home: self.home.clone(),
            role: charter::handed_on(&self.state),
            share: children::share(&self.state, &self.surface.policy),
            folder: self.state.checkout.clone(),
            opening: opening.clone(),
            cancel: self.cancel.clone(),
            waits: Arc::new({
                let word = self.word.0.clone();
                // A session that is gone needs to know nothing.
                move |call: &CallId, waits| drop(word.send(Word::Waits(call.clone(), waits)))
            }),
            asks: opening.child.is_none().then(|| -> Asks {
                let word = self.word.0.clone();
                Arc::new(move |call, question, to| {
                    drop(word.send(Word::Asks(call.clone(), question, to)));
                })
            }),
            show: Arc::new(move |delta| {
                // Of a child, the chat hears questions only.
                if opening.child.is_none() {
                    observers.shown(&opening, delta);
                }
            }),
        }
    }

    /// A word of a call that ended meanwhile, or that is known, says nothing.
    fn take_word(&mut self, word: Word) -> Result<(), SessionError> {
        let (call, waits) = match word {
            Word::Waits(call, waits) => (call, waits),
            Word::Asks(call, question, to) => return self.take_question(call, question, to),
        };
        let is_news = self.state.pending(&call).is_some_and(|pending| {
            matches!(pending.stage, Stage::Running(_)) && pending.helper_waits != waits
        });
        match is_news {
            true => self.record(Event::HelperWaits { call, waits }),
            false => Ok(()),
        }
    }

    /// A server asks the person, if its call still runs and nothing else is asked. It is never told more than the journal.
    fn take_question(
        &mut self,
        call: CallId,
        question: ServerQuestion,
        to: oneshot::Sender<ServerAnswer>,
    ) -> Result<(), SessionError> {
        let runs = |pending: &Pending| matches!(pending.stage, Stage::Running(_));
        let goes_on = (self.state.turn.as_ref()).is_some_and(|turn| turn.stop == Stop::No);
        let may_ask = self.state.pending(&call).is_some_and(runs)
            && goes_on
            && !self.state.waits_for_person()
            && !self.surface.shutdown.is_cancelled();
        if !may_ask {
            return Ok(()); // dropped: there is no answer
        }
        let minutes = self.surface.policy.limits.approval_minutes;
        self.asking = Some((call.clone(), to));
        self.record(Event::ServerAsked {
            call,
            question,
            expires_at: clock::now().plus_ms(minutes * 60_000),
        })
    }

    fn take_outcome(&mut self, ended: Result<(Id, Event), JoinError>) -> Result<(), SessionError> {
        let (id, event) = match ended {
            Ok((id, event)) => (id, Some(event)),
            Err(error) => (error.id(), None),
        };
        let Some(doing) = self.tasks.remove(&id) else {
            return Ok(());
        };
        let event = event.unwrap_or_else(|| match doing {
            Doing::Model(round) => {
                let message = "The request to the model broke (a bug of Journeyman).".to_owned();
                Event::ModelFailed {
                    round,
                    kind: "bug".into(),
                    message,
                    attempts: 0,
                }
            }
            Doing::Tool(call) => broken_tool(call),
            Doing::Checkpoint(number, moment) => broken_checkpoint(number, moment),
            Doing::PutBack => Event::PutBack {
                restored: Restored::Failed { why: BROKEN.into() },
            },
            Doing::Diff => Event::DiffShown {
                text: BROKEN.into(),
            },
            Doing::Errand => broken_errand(&self.state),
            Doing::Fetch(message) => media::broken(message, BROKEN),
            Doing::Load(message) => loading::broken(message, BROKEN),
            Doing::Worktree(checkout) => worktrees::broken(checkout, BROKEN),
            Doing::Carry => carry::broken(BROKEN),
            Doing::Draft(graph, call) => graphs::broken(graph, call, BROKEN),
            Doing::Send(send) => Event::SendFinished {
                ids: Vec::new(),
                retry_at: None,
                parts: 0,
                closed: None,
                send,
                error: Some("sending broke (a bug of Journeyman)".into()),
            },
        });
        self.record(event)
    }

    /// The door hears of it once it is on disk, and indexed where another one like it may come: only then may a webhook
    /// answer 200.
    fn take_message(&mut self, delivery: Delivery) -> Result<(), SessionError> {
        let Delivery {
            message,
            ack,
            index_first,
        } = delivery;
        if self.state.seen.contains(&message.id) {
            let _ = ack.send(Ok(None));
            return Ok(());
        }
        // A question that expired before this came is not answered by it.
        self.ring_alarm()?;
        let written = self.record(Event::MessageReceived { message });
        if index_first && written.is_ok() {
            self.project();
        }
        let word = written.as_ref().map(|()| Some(self.journal.seq()));
        let _ = ack.send(word.map_err(ToString::to_string)); // a door that went away needs no answer
        written
    }

    /// What is due by the clock: an expired question, a message to be tried again, a turn whose time is up.
    fn ring_alarm(&mut self) -> Result<(), SessionError> {
        match self.next_alarm() {
            Some((at, event)) if at <= clock::now() => self.record(event),
            _ => Ok(()),
        }
    }

    fn next_alarm(&self) -> Option<(Timestamp, Event)> {
        let time_is_up = limits::alarm(&self.state, &self.surface.policy);
        let alarms = self.state.next_alarm().into_iter().chain(time_is_up);
        alarms.chain(self.released()).min_by_key(|(at, _)| *at)
    }

    /// A message that was held back, once the person wrote again: here, or to another session of the chat.
    fn released(&self) -> Option<(Timestamp, Event)> {
        let front = self
            .state
            .outbox
            .front()
            .filter(|front| front.due.is_some())?;
        let held = front.held?;
        // A database that cannot be read leaves it to the next time that it is due.
        let heard = self
            .surface
            .store
            .heard_at(&self.state.opening.chat)
            .ok()??;
        let event = Event::SendDue { send: front.send };
        (Some(heard) > held.heard).then_some((heard, event))
    }

    /// When to look again at the latest. Nobody wakes a session that is awake when the person writes to another one.
    fn look_in(&self) -> Option<Duration> {
        let held = |front: &Outgoing| front.held.is_some() && front.due.is_some();
        let held = self.state.outbox.front().is_some_and(held);
        let look = held.then_some(HELD_LOOK);
        self.alarm_in().into_iter().chain(look).min()
    }

    fn alarm_in(&self) -> Option<Duration> {
        let due = self
            .next_alarm()
            .map(|(at, _)| Duration::from_millis(at.since(clock::now())));
        // Lines that may lag wake nobody.
        let failed = !self.unprojected.is_empty() && self.must_project();
        let project = failed.then_some(PROJECT_AGAIN);
        due.into_iter().chain(project).min()
    }

    /// The safe point: what runs may end until the deadline, nothing new starts. What is left is found at the next start.
    async fn drain(&mut self) -> Result<(), SessionError> {
        self.project();
        let deadline = tokio::time::sleep(Duration::from_secs(
            self.surface.policy.limits.drain_seconds,
        ));
        tokio::pin!(deadline);
        while !self.running.is_empty() {
            tokio::select! {
                Some(ended) = self.running.join_next_with_id() => self.take_outcome(ended)?,
                () = &mut deadline => break,
            }
        }
        self.running.shutdown().await;
        self.journal.sync()?;
        self.project();
        Ok(())
    }
}

/// Where the state says that the session works.
fn open(state: &State) -> Result<Workspace, String> {
    if let Some(why) = worktrees::missing(state) {
        return Err(why);
    }
    let mut workspace = open_workspace(Path::new(&state.workspace.path))?
        .with_sources(&state.opening.sources)
        .map_err(|error| format!("A source cannot be opened: {error}"))?;
    if let Some(tree) = worktrees::here(state) {
        workspace = workspace.with_links(&tree.links);
    }
    let notes = workspace.notes();
    notes.wrote_before(state.changed.iter().cloned());
    Ok(workspace)
}

const BROKEN: &str = "it broke (a bug of Journeyman)";

fn broken_errand(state: &State) -> Event {
    let why = BROKEN.to_owned();
    match state.errand.as_ref().map(|errand| &errand.wish) {
        Some(ErrandWish::Trust(_)) => Event::TrustAnswered {
            answer: TrustAnswer::Refused { why },
        },
        Some(ErrandWish::Agents(_)) => Event::AgentsAnswered {
            answer: AgentAnswer::Refused { why },
        },
        Some(ErrandWish::Cron(_)) | None => Event::CronAnswered {
            answer: Answer::Refused { why },
        },
    }
}

fn broken_checkpoint(number: u64, moment: Moment) -> Event {
    Event::Checkpoint(CheckpointTaken {
        number,
        moment,
        tree: None,
        left_out: Default::default(),
        dropped: Vec::new(),
        error: Some(BROKEN.into()),
    })
}

async fn until(alarm: Option<Duration>) {
    match alarm {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}
