//! Brings facts to sessions: finds or makes the session of a chat, wakes it, and waits until the fact is on disk.
//!
//! It holds no truth of its own: which sessions are awake is all that it knows, and losing that loses nothing.

/// Answers from another chat of the same person.
mod across;
/// Sessions that wait for a yes or no.
mod asking;
/// Sessions that are awake.
mod awake;
/// Sessions that a session begins.
mod children;
/// What becomes of a chat whose session's journal is damaged.
mod damaged;
/// Journals into the database.
pub mod index;
/// What a door may ask.
mod lookup;
/// New sessions.
mod opening;
/// How many messages start work.
mod rate;
/// Which session a message goes to.
mod routing;
/// Spoken messages that may answer a question.
mod spoken;
/// Sessions that a failing disk stopped.
mod stopped;
/// What is done from time to time.
mod sweep;
/// Messages of ours that did not arrive.
mod undelivered;

use crate::agent::children as agent_children;
use crate::agent::command::{self, ChatCommand, Said};
use crate::agent::event::{CallId, Event, Inbound, Scheduled, Spoken, WorkspaceRef};
use crate::agent::state::State;
use crate::agent::texts::Catalogues;
use crate::doors;
use crate::history::inspect;
use crate::session::{Delivery, Surface};
use crate::world::clock;
use crate::world::journal::{self, JournalError};
use crate::world::store::StoreError;
use awake::{INBOX_MAX, acknowledged};
use opening::BegunBy;
use rate::Rates;
use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use stopped::Stopped;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

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
        self.end_orphans()?;
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

    fn chat_of(&self, session: &str) -> Result<String, DeliverError> {
        self.surface
            .store
            .chat_of(session)?
            .ok_or_else(|| DeliverError::NoSession(session.to_owned()))
    }

    fn path(&self, session: &str) -> PathBuf {
        self.sessions_dir.join(format!("{session}.jsonl"))
    }
}
