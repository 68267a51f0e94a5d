//! Messages to the chat: sent, held back until the person writes, or tried again later.
//!
//! What a channel takes is the channel's business ([`doors`]); here is what follows from its answer.

use super::{Scene, World, clock};
use crate::agent::event::{Closed, Event, Invited, Timestamp};
use crate::agent::state::Outgoing;
use crate::doors::{self, Undelivered};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// How long a message is held back before it is given up: three days.
const HELD_MS_MAX: u64 = 3 * 24 * 3_600_000;
/// The longest wait that a channel may ask for.
const WAIT_MS_MAX: u64 = 3_600_000;

impl World {
    pub(super) async fn send(&self, outgoing: &Outgoing, scene: &Scene) -> Event {
        let chat = &scene.customer.chat;
        // A database that cannot be read keeps no message back.
        let heard = self.store.heard_at(chat).unwrap_or(Some(clock::now()));
        let heard_ms_ago = heard.map(|at| clock::now().since(at));
        let told_closed = outgoing.closed_at.is_some_and(|at| heard <= Some(at));
        if told_closed || doors::closed_until_heard(chat, heard_ms_ago).is_some() {
            let arrived = (outgoing.parts, Vec::new());
            return self.hold(outgoing, scene, heard, arrived).await;
        }
        match self.channels.send(chat, outgoing).await {
            Ok(ids) => finished(outgoing, ids),
            Err(failed) if failed.closed => {
                let arrived = (failed.parts, failed.ids);
                self.hold(outgoing, scene, heard, arrived).await
            }
            Err(failed) => self.failed(outgoing, failed),
        }
    }

    fn failed(&self, outgoing: &Outgoing, failed: Undelivered) -> Event {
        let again = failed.transient && outgoing.attempts + 1 < self.send_attempts_max;
        let asked_ms = failed.wait_ms.unwrap_or(0).min(WAIT_MS_MAX);
        let wait_ms = clock::jittered(backoff_ms(outgoing.attempts).max(asked_ms));
        Event::SendFinished {
            send: outgoing.send,
            error: Some(failed.why),
            ids: failed.ids,
            retry_at: again.then(|| clock::now().plus_ms(wait_ms)),
            parts: failed.parts,
            closed: None,
        }
    }

    /// It waits until the person writes, who is asked to: once.
    async fn hold(
        &self,
        outgoing: &Outgoing,
        scene: &Scene,
        heard: Option<Timestamp>,
        (parts, ids): (usize, Vec<String>),
    ) -> Event {
        let invited = self.invite(scene, heard).await;
        let now = clock::now();
        let since = outgoing.held.map_or(now, |held| held.since);
        let waits = now.since(since) < HELD_MS_MAX;
        Event::SendFinished {
            send: outgoing.send,
            error: Some(
                "WhatsApp takes messages within 24 hours after the person wrote; it waits until then"
                    .into(),
            ),
            ids,
            retry_at: waits.then(|| now.plus_ms(doors::WINDOW_AGAIN_MS)),
            parts,
            closed: Some(Closed { heard, invited }),
        }
    }

    /// Sends the configured template, unless somebody did since the person last wrote.
    async fn invite(&self, scene: &Scene, heard: Option<Timestamp>) -> Option<Invited> {
        let chat = &scene.customer.chat;
        let template = self.channels.template(chat)?;
        let last = match self.store.invited_at(chat) {
            Ok(last) => last,
            Err(error) => {
                tracing::warn!(%error, "nobody knows whether the chat was asked to write; it is not asked again");
                return None;
            }
        };
        if !self.invitations.claim(chat, heard, last) {
            return None;
        }
        let (id, error) = match self.channels.invite(chat, template, &scene.place).await {
            Ok(id) => (id, None),
            Err(failed) if failed.transient => {
                tracing::warn!(
                    error = failed.why,
                    "the template was not sent; it is tried again"
                );
                self.invitations.forget(chat);
                return None;
            }
            Err(failed) => {
                tracing::error!(
                    template = template.name,
                    error = failed.why,
                    "WhatsApp refuses the template of settings.toml"
                );
                (String::new(), Some(failed.why))
            }
        };
        Some(Invited {
            template: template.name.clone(),
            language: template.language.clone(),
            about: scene.place.clone(),
            id,
            error,
        })
    }
}

fn finished(outgoing: &Outgoing, ids: Vec<String>) -> Event {
    Event::SendFinished {
        send: outgoing.send,
        error: None,
        ids,
        retry_at: None,
        parts: 0,
        closed: None,
    }
}

/// 10 s, 20 s, 40 s, … 10 minutes: the channel has had its own quick retries by then.
fn backoff_ms(attempts: u32) -> u64 {
    (10_000_u64 << attempts.min(6)).min(600_000)
}

/// Who was asked to write by this process: the database hears of it later, and several sessions of a chat may have
/// something to say at the same moment.
#[derive(Debug, Default)]
pub struct Invitations(Mutex<HashMap<String, Timestamp>>);

impl Invitations {
    /// Whether it is up to the caller: nobody asked since the person last wrote.
    fn claim(&self, chat: &str, heard: Option<Timestamp>, last: Option<Timestamp>) -> bool {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = last.max(asked.get(chat).copied());
        let is_asked = last.is_some() && last >= heard;
        if !is_asked {
            asked.insert(chat.to_owned(), clock::now());
        }
        !is_asked
    }

    fn forget(&self, chat: &str) {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asked.remove(chat);
    }
}
