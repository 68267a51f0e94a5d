//! Brings facts to sessions: finds or makes the session of a chat, wakes it, and waits until the fact is on disk.
//!
//! It holds no truth of its own: which sessions are awake is all that it knows, and losing that loses nothing.

/// Answers from another chat of the same person.
mod across;
/// Sessions that wait for a yes or no.
mod asking;
/// Sessions that a session begins.
mod children;
/// What becomes of a chat whose session's journal is damaged.
mod damaged;
/// Journals into the database.
pub mod index;
/// What a door may ask.
mod lookup;
/// How many messages start work.
mod rate;
/// Spoken messages that may answer a question.
mod spoken;
/// Sessions that a failing disk stopped.
mod stopped;
/// What is done from time to time.
mod sweep;
/// Messages of ours that did not arrive.
mod undelivered;

use crate::agent::children::{self as agent_children, Child};
use crate::agent::command::{self, ChatCommand, Said};
use crate::agent::event::{
    CallId, Event, Inbound, OpenQuestion, Opening, Record, Scheduled, Spoken, Via, WorkspaceRef,
};
use crate::agent::language::Language;
use crate::agent::prompt;
use crate::agent::state::State;
use crate::agent::texts::{Catalogues, Texts};
use crate::agent::wording;
use crate::agent::worktrees;
use crate::doors;
use crate::history::inspect;
use crate::session::{Delivery, Session, Surface};
use crate::world::clock;
use crate::world::journal::{self, FORMAT, Journal, JournalError};
use crate::world::store::StoreError;
use crate::world::worktrees::Isolation;
use futures_util::FutureExt;
use rate::Rates;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stopped::Stopped;
use thiserror::Error;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

/// Facts that may wait for one session; a sender beyond that is told that it is busy.
const INBOX_MAX: usize = 256;
/// Chats are served side by side, each in its own order.
const LANES: usize = 64;
/// Why a message was not taken. Nothing of it is on disk then, so the sender may try again.
#[derive(Debug, Error)]
pub enum DeliverError {
    #[error("the session is busy: {INBOX_MAX} messages wait already")]
    Busy,
    #[error("{0}")]
    Session(String),
    #[error("there is no session {0}")]
    NoSession(String),
    #[error("{0}")]
    Workspace(String),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("the program is shutting down")]
    ShuttingDown,
}

/// A message that is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    pub session: String,
    /// `false`: this message came before.
    pub fresh: bool,
    /// Its line in the session's journal, where it is fresh.
    pub seq: Option<u64>,
}

/// Where a new session works; it may ask for the path where its chat's last one worked.
pub type PickWorkspace =
    Box<dyn Fn(&dyn Fn() -> Option<String>) -> Result<Site, String> + Send + Sync>;

/// A workspace, and what is read there though it lies elsewhere.
#[derive(Debug, Clone)]
pub struct Site {
    pub workspace: WorkspaceRef,
    pub sources: Vec<WorkspaceRef>,
}

impl From<WorkspaceRef> for Site {
    fn from(workspace: WorkspaceRef) -> Self {
        Self {
            workspace,
            sources: Vec::new(),
        }
    }
}

/// On whose word a session begins.
enum BegunBy {
    Person,
    Clock(Box<Scheduled>),
    Session {
        child: Box<Child>,
        language: Language,
    },
}

/// A session that was just made: its first line is on disk, and nowhere else.
struct Opened {
    session: String,
    state: State,
    journal: Journal,
    first: Record,
}

/// The sessions of one data folder.
pub struct Hub {
    surface: Surface,
    texts: Catalogues,
    sessions_dir: PathBuf,
    workspace: PickWorkspace,
    awake: Mutex<HashMap<String, mpsc::Sender<Delivery>>>,
    stopped: Stopped,
    rates: Rates,
    lanes: [tokio::sync::Mutex<()>; LANES],
    tasks: TaskTracker,
}

impl Hub {
    /// # Errors
    /// [`DeliverError::Read`] where the data folder cannot be made.
    pub fn new(
        surface: Surface,
        texts: Catalogues,
        data_dir: &Path,
        workspace: PickWorkspace,
    ) -> Result<Arc<Self>, DeliverError> {
        let sessions_dir = data_dir.join("agent_sessions");
        journal::make_folder(&sessions_dir).map_err(|source| DeliverError::Read {
            path: sessions_dir.clone(),
            source,
        })?;
        let lanes = std::array::from_fn(|_| tokio::sync::Mutex::new(()));
        let (awake, tasks) = (Mutex::new(HashMap::new()), TaskTracker::new());
        let hub = Arc::new(Self {
            surface,
            texts,
            sessions_dir,
            workspace,
            awake,
            stopped: Stopped::default(),
            rates: Rates::default(),
            lanes,
            tasks,
        });
        hub.begin_children();
        Ok(hub)
    }

    pub fn surface(&self) -> &Surface {
        &self.surface
    }

    /// Brings a message to its chat's session; returns when it is on disk.
    ///
    /// # Errors
    /// [`DeliverError`]: then nothing was taken.
    pub async fn deliver(
        self: &Arc<Self>,
        chat: &str,
        mut message: Inbound,
    ) -> Result<Delivered, DeliverError> {
        // Held until the message is on disk and indexed: where the next one goes, and whether it is the same, depends on it.
        let _lane = self.lane(chat).lock().await;
        if let Some(session) = self.seen_by(chat, &message.id)? {
            return Ok(Delivered {
                session,
                fresh: false,
                seq: None,
            });
        }
        let (limits, now) = (&self.surface.policy.limits, clock::now());
        message.too_many = self.rates.judge(chat, &message, limits, now);
        let came = message.clone();
        let (session, mut message) = self.route(chat, message)?;
        if let Some(asking) = self.spoken_answer_for(chat, &session, &message)?
            && self.hear_there(&asking, &message).await
        {
            message.spoken = Some(Spoken::ForAllElse);
        }
        let goes_across = message.stands_for.is_some();
        // Its place is one in the chat that it goes to.
        let home = match message.stands_for {
            Some(_) => self.chat_of(&session)?,
            None => chat.to_owned(),
        };
        message.order = self.surface.store.next_order(&home)?;
        let (session, answer) = match self.hand_over(&session, message.clone()) {
            Err(DeliverError::Journal(damage @ JournalError::Damaged { .. })) => {
                let fresh = self.stand_in(&home, &message.from, &session, &damage)?;
                message.order = self.surface.store.next_order(&home)?;
                let answer = self.hand_over(&fresh, message)?;
                (fresh, answer)
            }
            answer => (session, answer?),
        };
        let delivered = acknowledged(answer, session).await?;
        self.rates.note(chat, &came, limits, now);
        if goes_across && delivered.fresh {
            self.confirm(chat, &came);
        }
        self.release_held(chat, &delivered.session);
        Ok(delivered)
    }

    /// What other sessions of the chat kept until the person writes can go now. Called with the chat's lane held.
    fn release_held(self: &Arc<Self>, chat: &str, heard_by: &str) {
        let holding = self.surface.store.holding(chat).unwrap_or_default();
        for session in holding.iter().filter(|session| *session != heard_by) {
            if let Err(error) = self.wake(session) {
                tracing::warn!(%session, %error, "held messages wait for the next time that they are due");
            }
        }
    }

    /// Brings a message to a certain session of a chat.
    ///
    /// # Errors
    /// [`DeliverError`], also where the session is not there.
    pub async fn deliver_to(
        self: &Arc<Self>,
        session: &str,
        mut message: Inbound,
    ) -> Result<Delivered, DeliverError> {
        let chat = self.chat_of(session)?;
        let _lane = self.lane(&chat).lock().await;
        message.order = self.surface.store.next_order(&chat)?;
        let answer = self.hand_over(session, message)?;
        acknowledged(answer, session.to_owned()).await
    }

    /// Starts a session of its own for a chat, whatever else the chat has.
    ///
    /// # Errors
    /// [`DeliverError`] where the workspace or the journal cannot be opened.
    pub async fn start(self: &Arc<Self>, chat: &str, owner: &str) -> Result<String, DeliverError> {
        let _lane = self.lane(chat).lock().await;
        self.open_known(chat, owner, None)
    }

    /// Brings a scheduled message to the session of its slot, which is made where it is not there. Any number of times:
    /// the session knows the message by its id.
    ///
    /// # Errors
    /// As [`Hub::start`] and [`Hub::deliver`].
    pub async fn start_scheduled(
        self: &Arc<Self>,
        session: &str,
        chat: &str,
        scheduled: &Scheduled,
        mut message: Inbound,
    ) -> Result<Delivered, DeliverError> {
        let _lane = self.lane(chat).lock().await;
        if let Said::Command(ChatCommand::Start(objective)) = command::read(&message.text) {
            message.text = objective.to_owned();
        }
        let path = self.path(session);
        if !path.is_file() {
            // Its name is foreseeable: one that died while it was born must not stand in the way.
            let _ = fs::remove_file(path.with_extension("unborn"));
            // Not where the person happens to be just now.
            let nowhere = || None;
            let site = (self.workspace)(&nowhere).map_err(DeliverError::Workspace)?;
            let begun = BegunBy::Clock(Box::new(scheduled.clone()));
            let name = session.to_owned();
            let first = Some(&message);
            let opened = self.open_session_as(name, chat, &message.from, first, site, begun);
            self.known(opened?)?;
        }
        let answer = self.hand_over(session, message)?;
        acknowledged(answer, session.to_owned()).await
    }

    /// The same with its first message, for a chat that nothing else writes to: the database may hear of it later.
    ///
    /// # Errors
    /// As [`Hub::start`] and [`Hub::deliver`].
    pub async fn start_with(
        self: &Arc<Self>,
        chat: &str,
        message: Inbound,
    ) -> Result<Delivered, DeliverError> {
        let (ack, answer) = oneshot::channel();
        let session = {
            let _lane = self.lane(chat).lock().await;
            let opened = self.open_session(chat, &message.from, Some(&message))?;
            let delivery = Delivery {
                message,
                ack,
                index_first: false,
            };
            let unprojected = vec![opened.first];
            self.spawn(opened.state, opened.journal, unprojected, Some(delivery))?;
            opened.session
        };
        acknowledged(answer, session).await
    }

    /// What a session knows now, from its journal, without waking it.
    ///
    /// # Errors
    /// [`DeliverError`] where there is no such session, or its journal is damaged.
    pub fn peek(&self, session: &str) -> Result<State, DeliverError> {
        let path = self.path(session);
        if !path.is_file() {
            return Err(DeliverError::NoSession(session.to_owned()));
        }
        Ok(inspect(&path, &self.texts, |_| {})?.0)
    }

    /// The words in which a call was asked about, the last time.
    ///
    /// # Errors
    /// As [`Hub::peek`].
    pub fn question_text(&self, session: &str, about: &CallId) -> Result<String, DeliverError> {
        let mut words = String::new();
        inspect(&self.path(session), &self.texts, |record| {
            match &record.event {
                Event::ApprovalAsked { call, question, .. }
                | Event::QuestionAsked { call, question }
                    if call == about =>
                {
                    words.clone_from(question);
                }
                _ => {}
            }
        })?;
        Ok(words)
    }

    /// Wakes a session, so that it does what is left to do.
    ///
    /// # Errors
    /// [`DeliverError`] where there is no such session, or its journal cannot be read.
    pub async fn rouse(self: &Arc<Self>, session: &str) -> Result<(), DeliverError> {
        let chat = self.chat_of(session)?;
        let _lane = self.lane(&chat).lock().await;
        self.wake(session)
    }

    /// Takes up what a process before this one left: indexes grown journals, wakes sessions with something to do.
    ///
    /// # Errors
    /// [`DeliverError`] where the data folder or the database cannot be read. A damaged journal stops nothing: its chat
    /// is told.
    pub fn recover(self: &Arc<Self>) -> Result<(), DeliverError> {
        let damaged = self.index()?;
        self.surface.world.settle_left();
        for (session, chat) in self.surface.store.unfinished()? {
            // Others go on by `journeyman resume`, children with the call that wants them.
            if !doors::is_served(&chat) || agent_children::is_id(&session) {
                continue;
            }
            match self.wake(&session) {
                Err(DeliverError::Journal(damage @ JournalError::Damaged { .. })) => {
                    self.tell_damage(&session, &damage);
                }
                Err(error) => {
                    tracing::error!(%session, %error, "session left asleep");
                    self.note_stopped(&session);
                }
                Ok(()) => {}
            }
        }
        for (session, damage) in damaged {
            let chat = self.surface.store.chat_of(&session)?;
            if chat.is_some_and(|chat| doors::is_served(&chat)) {
                self.tell_damage(&session, &damage);
            }
        }
        Ok(())
    }

    /// Waits until every session is at rest; with shutdown set, until each reached its safe point.
    pub async fn rest(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn lane(&self, chat: &str) -> &tokio::sync::Mutex<()> {
        let mut hasher = DefaultHasher::new();
        // One person's chats share one: an answer may go from any of them to any other.
        self.surface.people.lane(chat).hash(&mut hasher);
        &self.lanes[usize::try_from(hasher.finish() % LANES as u64).unwrap_or(0)]
    }

    /// `/agent OBJECTIVE` opens a session, `/agent-resume ID` goes back to one; all else goes to the active one.
    fn route(
        self: &Arc<Self>,
        chat: &str,
        mut message: Inbound,
    ) -> Result<(String, Inbound), DeliverError> {
        match command::read(&message.text) {
            Said::Command(ChatCommand::Start(objective)) if message.too_many.is_none() => {
                message.text = objective.to_owned();
                let session = self.open_known(chat, &message.from, Some(&message))?;
                return Ok((session, message));
            }
            // Somebody else's session is none at all.
            Said::Command(ChatCommand::Resume {
                id: Some(id),
                good_prefix,
            }) if self.surface.store.chat_of(id)?.as_deref() == Some(chat) => {
                if good_prefix {
                    self.agree_to_good_part(id, &message.from)?;
                }
                return Ok((id.to_owned(), message));
            }
            Said::Command(ChatCommand::Resume { id: None, .. }) => {
                if let Some(session) = self.surface.store.resumable(chat)? {
                    return Ok((session, message));
                }
            }
            // A button of an older question reaches the session that asked it.
            Said::Command(ChatCommand::Approve { code, .. } | ChatCommand::Deny { code, .. })
                if !code.is_empty() =>
            {
                if let Some(session) = self.asking_for(chat, code)? {
                    return Ok((session, message));
                }
                if let Some(elsewhere) = self.across(chat, code, &message)? {
                    return Ok(elsewhere);
                }
            }
            // So does a reaction to it, or a reply that quotes it.
            _ => {
                let about = message.about.as_deref();
                let asked = about.map(|id| self.surface.store.session_asked_in(chat, id));
                if let Some(session) = asked.transpose()?.flatten() {
                    return Ok((session, message));
                }
            }
        }
        let store = &self.surface.store;
        let asking = match command::answers_unnamed(&message) || spoken::may_answer(&message) {
            true => self.asking(chat)?,
            false => Vec::new(),
        };
        let session = match (store.active_session(chat)?, asking.first()) {
            // The one question of the chat, and the last that it heard: a schedule's, most of the time.
            (Some(active), Some(asking_one))
                if asking.len() == 1
                    && !spoken::may_answer(&message)
                    && store.is_later(asking_one, &active)? =>
            {
                asking_one.clone()
            }
            (Some(session), _) => session,
            (None, Some(session)) => session.clone(),
            (None, None) => self.open_known(chat, &message.from, Some(&message))?,
        };
        message.elsewhere = self.questions_of(asking.iter().filter(|other| **other != session));
        Ok((session, message))
    }

    /// What sessions wait for, from their journals. One that cannot be read waits for nobody's yes.
    fn questions_of<'a>(&self, sessions: impl Iterator<Item = &'a String>) -> Vec<OpenQuestion> {
        let states = sessions.filter_map(|session| self.peek(session).ok());
        let question = |state: State| {
            let (call, question) = state.question()?;
            Some(OpenQuestion {
                code: question.approval.clone(),
                what: wording::in_a_line(call),
            })
        };
        states.filter_map(question).collect()
    }

    fn chat_of(&self, session: &str) -> Result<String, DeliverError> {
        self.surface
            .store
            .chat_of(session)?
            .ok_or_else(|| DeliverError::NoSession(session.to_owned()))
    }

    fn hand_over(
        self: &Arc<Self>,
        session: &str,
        message: Inbound,
    ) -> Result<oneshot::Receiver<Result<Option<u64>, String>>, DeliverError> {
        if self.surface.shutdown.is_cancelled() {
            return Err(DeliverError::ShuttingDown);
        }
        let (ack, answer) = oneshot::channel();
        let delivery = Delivery {
            message,
            ack,
            index_first: true,
        };
        {
            // Under the same lock that a session parks under, so that no message is left with a sleeper.
            let awake = self.awake();
            if let Some(inbox) = awake.get(session) {
                inbox.try_send(delivery).map_err(|refused| match refused {
                    TrySendError::Full(_) => DeliverError::Busy,
                    TrySendError::Closed(_) => DeliverError::ShuttingDown,
                })?;
                return Ok(answer);
            }
        }
        let (state, journal) = self.load(session)?;
        self.spawn(state, journal, Vec::new(), Some(delivery))?;
        Ok(answer)
    }

    /// A new session that the chat's next message will find.
    fn open_known(
        &self,
        chat: &str,
        owner: &str,
        message: Option<&Inbound>,
    ) -> Result<String, DeliverError> {
        self.known(self.open_session(chat, owner, message)?)
    }

    fn known(&self, opened: Opened) -> Result<String, DeliverError> {
        let (state, bytes) = (&opened.state, opened.journal.bytes());
        let store = &self.surface.store;
        let known = store.project(std::slice::from_ref(&opened.first), state, bytes);
        if known.is_err() {
            // Nobody was told of it, and nobody would find it: the next try makes another.
            let _ = fs::remove_file(opened.journal.path());
        }
        known?;
        Ok(opened.session)
    }

    fn open_session(
        &self,
        chat: &str,
        owner: &str,
        message: Option<&Inbound>,
    ) -> Result<Opened, DeliverError> {
        // Where nobody remembers, the settings say.
        let last = || self.surface.store.last_workspace(chat).ok().flatten();
        let site = (self.workspace)(&last).map_err(DeliverError::Workspace)?;
        let session = clock::session_id();
        self.open_session_as(session, chat, owner, message, site, BegunBy::Person)
    }

    fn open_session_as(
        &self,
        session: String,
        chat: &str,
        owner: &str,
        message: Option<&Inbound>,
        site: Site,
        begun: BegunBy,
    ) -> Result<Opened, DeliverError> {
        let Site { workspace, sources } = site;
        let (scheduled, child, spoken) = match begun {
            BegunBy::Person => (None, None, None),
            BegunBy::Clock(scheduled) => (Some(scheduled), None, None),
            BegunBy::Session { child, language } => (None, Some(child), Some(language)),
        };
        let policy = &self.surface.policy;
        let (brief, own_files) = self.surface.world.first_brief(&workspace);
        let isolates = match &child {
            Some(child) => child.isolated,
            None => self.isolates(chat),
        };
        let branch = isolates.then(|| worktrees::branch(&session));
        let reads = child
            .as_ref()
            .is_some_and(|child| agent_children::only_reads(&child.role));
        let write = policy.gate.write_enabled() && !reads;
        let system = prompt::system(&workspace, branch.as_deref(), write, &own_files);
        // A schedule's prompt is whole.
        let gathers = doors::comes_in_pieces(chat) && scheduled.is_none() && child.is_none();
        let opening = Opening {
            together_ms: match gathers {
                true => policy.limits.together_ms,
                false => 0,
            },
            format: FORMAT,
            program: concat!("journeyman ", env!("CARGO_PKG_VERSION")).into(),
            session: session.clone(),
            chat: chat.to_owned(),
            owner: owner.to_owned(),
            prompt_digest: hex::encode(Sha256::digest(&system)),
            system,
            policy_digest: policy.gate.digest().to_owned(),
            model: policy.model.clone(),
            sandbox: self.surface.world.sandbox.state(),
            brief: Some(brief),
            mcp: write && self.surface.world.has_servers(&workspace),
            workspace,
            sources,
            scheduled,
            worktrees: isolates.then(|| session.clone()),
            language: spoken.unwrap_or_else(|| self.language(chat, message)),
            welcome: self.welcomes(chat, message)?,
            fork: None,
            child,
        };
        let path = self.path(&session);
        let (journal, first) = Journal::create(
            &path,
            clock::now(),
            Event::SessionStarted(Box::new(opening)),
        )?;
        let state =
            State::begin(&first, &self.texts).expect("BUG: the first line opens the session");
        self.surface.observers.recorded(&state.opening, &first);
        Ok(Opened {
            session,
            state,
            journal,
            first,
        })
    }

    /// What a chat hears that no session says.
    pub fn texts_for(&self, chat: &str) -> &Texts {
        self.texts.speaking(self.language(chat, None))
    }

    /// As the settings say, else as the person writes, else as the chat's last session spoke.
    fn language(&self, chat: &str, message: Option<&Inbound>) -> Language {
        // A database that cannot be read does not keep anybody from being answered.
        let last = || self.surface.store.last_language(chat).ok().flatten();
        let said = || Language::of(&message?.text);
        let code = || message.filter(|message| message.via == Via::Pairing);
        let guessed = || Language::of_number(&code()?.from);
        let found = self.texts.wanted.or_else(said).or_else(last);
        found.or_else(guessed).unwrap_or_default()
    }

    /// Whether the message is the first of somebody who may not know what this is.
    fn welcomes(&self, chat: &str, message: Option<&Inbound>) -> Result<bool, DeliverError> {
        let by_person =
            |message: &Inbound| !matches!(message.via, Via::Schedule | Via::Pairing | Via::Notice);
        let greets = doors::greets(chat) && message.is_some_and(by_person);
        Ok(greets && !self.surface.store.knows(chat)?)
    }

    /// Whether the chat's sessions leave the person's folders alone. Who sits at a terminal works in the folder there.
    fn isolates(&self, chat: &str) -> bool {
        doors::is_served(chat) && self.surface.isolation == Isolation::Own
    }

    fn path(&self, session: &str) -> PathBuf {
        self.sessions_dir.join(format!("{session}.jsonl"))
    }

    /// Makes sure that a session runs. Called with its chat's lane held, or before anything else runs.
    fn wake(self: &Arc<Self>, session: &str) -> Result<(), DeliverError> {
        if self.surface.shutdown.is_cancelled() {
            return Err(DeliverError::ShuttingDown);
        }
        if self.awake().contains_key(session) {
            return Ok(());
        }
        let (state, journal) = self.load(session)?;
        self.spawn(state, journal, Vec::new(), None)
    }

    /// Starts the actor, its first message already in the inbox. Called with the chat's lane held: one actor a session.
    fn spawn(
        self: &Arc<Self>,
        state: State,
        journal: Journal,
        unprojected: Vec<Record>,
        first: Option<Delivery>,
    ) -> Result<(), DeliverError> {
        let id = state.opening.session.clone();
        let surface = self.surface.clone();
        let mut session = Session::new(state, journal, unprojected, surface);
        let (sender, mut inbox) = mpsc::channel(INBOX_MAX);
        if let Some(first) = first {
            sender.try_send(first).map_err(|_| DeliverError::Busy)?;
        }
        self.awake().insert(id.clone(), sender);
        let hub = self.clone();
        self.tasks.spawn(async move {
            let run = session.run(&mut inbox, |inbox| hub.park(&id, inbox));
            let why = match AssertUnwindSafe(run).catch_unwind().await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => hub.note_end(&id, Some(&error)),
                Err(_) => hub.note_end(&id, None),
            };
            // What it ran ends with it, before another takes its place.
            drop(session);
            // One that parked took itself out, and another may be awake in its place by now.
            hub.awake().remove(&id);
            // Everything up to the last complete line stands; the next message tries again from there.
            tracing::error!(session = %id, error = why, "session stopped");
            hub.surface.observers.stopped(&id, &why);
        });
        Ok(())
    }

    /// Lets a session go to sleep, unless a message is on its way to it.
    fn park(&self, session: &str, inbox: &mpsc::Receiver<Delivery>) -> bool {
        let mut awake = self.awake();
        let idle = inbox.is_empty();
        if idle {
            awake.remove(session);
        }
        idle
    }

    fn awake(&self) -> MutexGuard<'_, HashMap<String, mpsc::Sender<Delivery>>> {
        // Nothing that can panic happens under this lock.
        self.awake.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn acknowledged(
    answer: oneshot::Receiver<Result<Option<u64>, String>>,
    session: String,
) -> Result<Delivered, DeliverError> {
    match answer.await {
        Ok(Ok(seq)) => Ok(Delivered {
            session,
            fresh: seq.is_some(),
            seq,
        }),
        Ok(Err(text)) => Err(DeliverError::Session(text)),
        Err(_) => Err(DeliverError::Session(
            "the session stopped before it took the message; see the log".into(),
        )),
    }
}
