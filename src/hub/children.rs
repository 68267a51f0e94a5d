//! Sessions that a session begins: made once, followed to the end of their turn, stopped with the call that wants them.
//!
//! A child is a session like any other: what it does is in its own journal, and a child that is there already is gone on
//! with, so that nothing of it happens twice.

use super::opening::BegunBy;
use super::{DeliverError, Hub, Site, acknowledged};
use crate::agent::children::{self, Child};
use crate::agent::event::{CallId, EndReason, Event, Inbound, Via};
use crate::agent::state::{Stage, State};
use crate::agent::wording;
use crate::doors::Seen;
use crate::world::children::{Ended, Ending, Place, Reached, Wanted, Working};
use crate::world::{clock, journal};
use std::collections::VecDeque;
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

/// How long a child that was told to stop may take for it.
const STOP_WITHIN: Duration = Duration::from_secs(20);

/// Of one that was ended, the last calls that are told.
const CALLS_REPORTED: usize = 3;

/// How a turn ended, and what was said.
type End = (EndReason, String);

impl Hub {
    /// Lets calls begin sessions here, and end them.
    pub(super) fn begin_children(self: &Arc<Self>) {
        let (hub, ending) = (Arc::downgrade(self), Arc::downgrade(self));
        let begin = move |wanted: Wanted| -> Working {
            let hub = hub.clone();
            Box::pin(async move {
                match hub.upgrade() {
                    Some(hub) => hub.child(wanted).await,
                    None => std::future::pending().await, // the program ends
                }
            })
        };
        let end = move |session: String| -> Ending {
            let hub = ending.clone();
            Box::pin(async move {
                match hub.upgrade() {
                    Some(hub) => hub.end_child(session).await,
                    None => std::future::pending().await, // the program ends
                }
            })
        };
        let children = &self.surface.world.inquiries.children;
        children.are_kept_by(Reached {
            begin: Box::new(begin),
            end: Box::new(end),
        });
    }

    async fn child(self: Arc<Self>, mut wanted: Wanted) -> Ended {
        let session = wanted.session.clone();
        let cancel = wanted.cancel.clone();
        let waits = std::mem::replace(&mut wanted.waits, Box::new(|_| ()));
        let owner = wanted.parent.owner.clone();
        let mut seen = self.surface.observers.watch();
        let end = match self.begin_child(wanted).await {
            Err(error) => Err(error.to_string()),
            Ok(Some(end)) => Ok(end),
            Ok(None) => tokio::select! {
                end = self.follow(&session, &owner, &mut seen, &*waits) => end,
                () = cancel.cancelled() => self.stop_child(&session, &owner, &mut seen).await,
            },
        };
        self.ended(session, end)
    }

    fn ended(&self, session: String, end: Result<End, String>) -> Ended {
        let spend = self.peek(&session).map(|state| state.spend);
        let (reason, text) = match end {
            Ok((reason, text)) => (Some(reason), text),
            Err(why) => (None, why),
        };
        Ended {
            session,
            reason,
            text,
            spend: spend.unwrap_or_default(),
        }
    }

    /// Ends a child that a process before this one left: nobody goes on with it. `None` where there is none.
    async fn end_child(self: Arc<Self>, session: String) -> Option<Ended> {
        if !self.path(&session).is_file() {
            return None;
        }
        let mut seen = self.surface.observers.watch();
        let end = match self.peek(&session) {
            Err(error) => Err(error.to_string()),
            Ok(state) if state.turn.is_some() => {
                let owner = state.opening.owner.clone();
                self.stop_child(&session, &owner, &mut seen).await
            }
            Ok(state) => match (state.last_end, self.last_words(&session)) {
                (Some(reason), Ok(words)) => Ok((reason, words)),
                (None, Ok(_)) => Err("it never began".to_owned()),
                (_, Err(error)) => Err(error.to_string()),
            },
        };
        Some(self.ended(session, end))
    }

    /// Ends children whose call is over: nobody goes on with them. For the start, within the runtime.
    pub(super) fn end_orphans(self: &Arc<Self>) -> Result<(), DeliverError> {
        let in_turn = self.surface.store.in_turn()?;
        for session in in_turn.into_iter().filter(|id| children::is_id(id)) {
            match self.is_orphan(&session) {
                Ok(true) => drop(tokio::spawn(self.clone().end_child(session))),
                Ok(false) => {}
                Err(error) => tracing::warn!(%session, %error, "nobody knows whether it is wanted"),
            }
        }
        Ok(())
    }

    fn is_orphan(&self, session: &str) -> Result<bool, DeliverError> {
        let state = self.peek(session)?;
        let Some(child) = state
            .opening
            .child
            .as_ref()
            .filter(|_| state.turn.is_some())
        else {
            return Ok(false);
        };
        let parent = self.peek(&child.parent)?;
        let call = parent.pending(&CallId(child.about.clone()));
        Ok(call.is_none_or(|pending| matches!(pending.stage, Stage::Finished(_))))
    }

    /// Makes it, or goes on with the one that is there; its end, where it has come to that already.
    async fn begin_child(self: &Arc<Self>, wanted: Wanted) -> Result<Option<End>, DeliverError> {
        let chat = wanted.parent.chat.clone();
        let _lane = self.lane(&chat).lock().await;
        let (session, owner) = (wanted.session.clone(), wanted.parent.owner.clone());
        let by_program = |id: String, text: &str| Inbound {
            via: Via::Flag,
            ..Inbound::text(id, owner.clone(), text)
        };
        let objective = by_program(format!("{session}:objective"), &wanted.objective);
        let mut left_in_turn = false;
        match self.path(&session).is_file() {
            false => self.make_child(wanted)?,
            true => {
                let state = self.peek(&session)?;
                if let (None, Some(reason), true) =
                    (&state.turn, state.last_end, state.unread.is_empty())
                {
                    return Ok(Some((reason, self.last_words(&session)?)));
                }
                left_in_turn = state.turn.is_some();
            }
        }
        let taken = self.hand_over(&session, objective)?;
        acknowledged(taken, session.clone()).await?;
        if left_in_turn {
            // What its process left is looked up first, like anywhere else.
            let go_on = by_program(clock::message_id(), "/agent-resume");
            acknowledged(self.hand_over(&session, go_on)?, session).await?;
        }
        Ok(None)
    }

    fn make_child(&self, wanted: Wanted) -> Result<(), DeliverError> {
        let parent = wanted.parent;
        let path = self.path(&wanted.session);
        // Its name is foreseeable: one that died while it was born must not stand in the way.
        let _ = fs::remove_file(path.with_extension("unborn"));
        let isolated = matches!(wanted.place, Place::Worktree(_));
        let site = match wanted.place {
            Place::Sources { room, sources } => Site {
                workspace: room,
                sources,
            },
            Place::Shared(folder) | Place::Worktree(folder) => folder.into(),
        };
        let child = Child {
            parent: parent.session.clone(),
            about: wanted.about,
            name: wanted.name,
            share: wanted.share,
            isolated,
            role: Box::new(wanted.role),
        };
        let begun = BegunBy::Session {
            child: Box::new(child),
            language: parent.language,
        };
        let opened = self.open_session_as(
            wanted.session,
            &parent.chat,
            &parent.owner,
            None,
            site,
            begun,
        );
        self.known(opened?).map(drop)
    }

    /// What a session said when its last turn ended.
    fn last_words(&self, session: &str) -> Result<String, DeliverError> {
        let mut words = String::new();
        journal::read(&self.path(session), |record| {
            if let Event::TurnEnded { text, .. } = &record.event {
                words.clone_from(text);
            }
        })?;
        Ok(words)
    }

    /// Waits for its end, or ends it where nothing of it was seen for too long.
    async fn follow(
        self: &Arc<Self>,
        session: &str,
        owner: &str,
        seen: &mut UnboundedReceiver<Seen>,
        waits: &(dyn Fn(bool) + Send + Sync),
    ) -> Result<End, String> {
        let seconds = self.surface.policy.limits.helper_silence_seconds;
        // One that is gone on with may have asked long ago.
        waits(
            self.peek(session)
                .is_ok_and(|state| state.waits_for_person()),
        );
        loop {
            match tokio::time::timeout(Duration::from_secs(seconds), next(session, seen)).await {
                Ok(Ok(Line::Other)) => {}
                Ok(Ok(Line::Waits(does))) => waits(does),
                Ok(Ok(Line::End(end))) => return Ok(end),
                Ok(Err(why)) => return Err(why),
                Err(_) => {
                    let state = self.peek(session).map_err(|error| error.to_string())?;
                    // Nobody counts how long a person thinks.
                    if state.waits_for_person() {
                        continue;
                    }
                    let mut report = self.report(session, &state, seconds);
                    if let Err(why) = self.stop_child(session, owner, seen).await {
                        report.push_str(&format!("\nIt may still run: {why}"));
                    }
                    return Ok((EndReason::Limit, report));
                }
            }
        }
    }

    /// What it had when it was ended.
    fn report(&self, session: &str, state: &State, seconds: u64) -> String {
        let mut calls = VecDeque::new();
        let mut words = String::new();
        let read = journal::read(&self.path(session), |record| {
            if let Event::ModelAnswered { answer, .. } = &record.event {
                let shown = answer.calls.iter().map(wording::in_a_line);
                calls.extend(shown);
                calls.drain(..calls.len().saturating_sub(CALLS_REPORTED));
                if !answer.text.is_empty() {
                    words.clone_from(&answer.text);
                }
            }
        });
        if let Err(error) = read {
            tracing::warn!(%session, %error, "its report is short");
        }
        let changed: Vec<&str> = state.changed.iter().map(String::as_str).collect();
        let or_none = |text: String| match text.is_empty() {
            true => "none".to_owned(),
            false => text,
        };
        format!(
            "It made no progress for {seconds} s and was ended, in round {}.\nFiles that it had changed: {}\nIts last calls: {}\nIts last words: {}",
            state.rounds,
            or_none(changed.join(", ")),
            or_none(Vec::from(calls).join("; ")),
            or_none(words),
        )
    }

    /// Tells it to stop, and waits until it has: what runs in it ends before the call that wanted it.
    async fn stop_child(
        self: &Arc<Self>,
        session: &str,
        owner: &str,
        seen: &mut UnboundedReceiver<Seen>,
    ) -> Result<End, String> {
        let message = Inbound {
            via: Via::Flag,
            ..Inbound::text(clock::message_id(), owner, "/cancel")
        };
        let told = self.deliver_to_child(session, message).await;
        told.map_err(|error| error.to_string())?;
        let ended = tokio::time::timeout(STOP_WITHIN, turn_end(session, seen)).await;
        ended.unwrap_or_else(|_| Err("it was told to stop, and has not yet".into()))
    }

    /// Its place among the messages of the chat stays none: it is never the active session.
    async fn deliver_to_child(
        self: &Arc<Self>,
        session: &str,
        message: Inbound,
    ) -> Result<(), DeliverError> {
        let chat = self.chat_of(session)?;
        let _lane = self.lane(&chat).lock().await;
        let answer = self.hand_over(session, message)?;
        acknowledged(answer, session.to_owned()).await.map(drop)
    }
}

/// Waits for the end of a session's turn.
async fn turn_end(session: &str, seen: &mut UnboundedReceiver<Seen>) -> Result<End, String> {
    loop {
        if let Line::End(end) = next(session, seen).await? {
            return Ok(end);
        }
    }
}

/// What a line of a session says here.
enum Line {
    End(End),
    /// Whether it waits for a person from here on.
    Waits(bool),
    Other,
}

/// Waits for the next line of a session.
async fn next(session: &str, seen: &mut UnboundedReceiver<Seen>) -> Result<Line, String> {
    loop {
        match seen.recv().await {
            Some(Seen::Recorded {
                session: of,
                record,
                ..
            }) if of == session => {
                return Ok(match &record.event {
                    Event::TurnEnded { reason, text } => Line::End((*reason, text.clone())),
                    Event::ApprovalAsked { .. } => Line::Waits(true),
                    Event::ApprovalGiven { .. }
                    | Event::ApprovalRefused { .. }
                    | Event::ApprovalExpired { .. }
                    | Event::Cancelled { .. } => Line::Waits(false),
                    _ => Line::Other,
                });
            }
            Some(Seen::Stopped { session: of, why }) if of == session => return Err(why),
            Some(_) => {}
            None => return Err("the session went away".into()),
        }
    }
}
