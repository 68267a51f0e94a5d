//! A new session: where it works, what it is told, and its journal's first line.
//!
//! Nothing runs it yet, and no message is in it: see `awake`.

use super::{DeliverError, Hub, Site};
use crate::agent::children::{self as agent_children, Child};
use crate::agent::event::{Event, Inbound, Opening, Record, Scheduled, Via};
use crate::agent::language::Language;
use crate::agent::prompt;
use crate::agent::state::State;
use crate::agent::texts::Texts;
use crate::agent::worktrees;
use crate::doors;
use crate::world::clock;
use crate::world::journal::{FORMAT, Journal};
use crate::world::worktrees::Isolation;
use sha2::{Digest, Sha256};
use std::fs;

/// On whose word a session begins.
pub(super) enum BegunBy {
    Person,
    Clock(Box<Scheduled>),
    Session {
        child: Box<Child>,
        language: Language,
    },
}

/// A session that was just made: its first line is on disk, and nowhere else.
pub(super) struct Opened {
    pub(super) session: String,
    pub(super) state: State,
    pub(super) journal: Journal,
    pub(super) first: Record,
}

impl Hub {
    /// A new session that the chat's next message will find.
    pub(super) fn open_known(
        &self,
        chat: &str,
        owner: &str,
        message: Option<&Inbound>,
    ) -> Result<String, DeliverError> {
        self.known(self.open_session(chat, owner, message)?)
    }

    pub(super) fn known(&self, opened: Opened) -> Result<String, DeliverError> {
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

    pub(super) fn open_session(
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

    pub(super) fn open_session_as(
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
    pub(super) fn language(&self, chat: &str, message: Option<&Inbound>) -> Language {
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
    pub(super) fn isolates(&self, chat: &str) -> bool {
        doors::is_served(chat) && self.surface.isolation == Isolation::Own
    }
}
