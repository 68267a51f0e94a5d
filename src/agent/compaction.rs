//! When the conversation nears the model's window: what is left out, and what stands for it. Pure.
//!
//! First long results become references, which `read_output` opens again from the journal. If that is not enough, the
//! model writes notes, and one message stands for the oldest ones: the person's words, the notes, the plan, the changed
//! files, effects in doubt. It happens between rounds only: then no call is open and no question waits, so nothing of
//! that kind can be lost, and what stays begins at a boundary, where every call has its result.

use crate::agent::conversation::{self, Conversation, Kind, Past, Wire, Worth, tokens_in};
use crate::agent::event::{CallId, Event};
use crate::agent::skills;
use crate::agent::state::{Phase, State};
use crate::agent::step::{Decision, Effect, Policy, toolset};
use crate::agent::texts::fill;
use crate::agent::wording;
use std::ops::Range;
use std::sync::Arc;

const REQUEST: &str = include_str!("../../prompts/compaction.md");
const DIGEST: &str = include_str!("../../prompts/compacted.md");

/// A result that is shorter stays: a reference would save little.
const REFERRED_BYTES_MIN: usize = 800;
/// What a reference takes at most, as a message.
const REFERENCE_BYTES: usize = 250;
/// What a digest takes besides the notes, if nothing in it is long.
const DIGEST_TOKENS: u64 = 300;
/// Less room is none, whatever a server calls too long.
const ROOM_TOKENS_MIN: u64 = 1_000;
/// Names of changed files in a digest.
const FILES_MAX: usize = 100;
/// Effects in doubt in a digest, the newest.
const DOUBTS_MAX: usize = 20;

/// Requests in a row that a server may refuse as too long; the turn ends then.
pub const OVERFLOWS_MAX: u32 = 3;

/// How long the conversation may be, in tokens.
struct Room {
    /// From here on something must go now.
    start: u64,
    /// From here on something must go with the next round.
    full: u64,
    /// What is aimed at.
    target: u64,
    /// The newest messages, which stay as they are.
    keep: u64,
    /// What must come of it: a compaction costs the provider's cache.
    gain: u64,
    /// The model's notes, at most.
    notes: u64,
}

impl Room {
    fn of(state: &State, policy: &Policy) -> Self {
        let limits = &policy.limits;
        let talk = &state.conversation;
        let window = talk
            .window()
            .unwrap_or(u64::MAX)
            .min(policy.context_tokens(state));
        // What the system prompt and the tools take, nobody can leave out.
        let system = talk.messages().first().map_or(0, |wire| wire.get().len());
        let fixed = talk
            .tokens()
            .saturating_sub(tokens_in(talk.bytes() - system));
        let room = window.saturating_sub(fixed).max(ROOM_TOKENS_MIN);
        let is_refused = matches!(
            state.turn.as_ref().map(|turn| &turn.phase),
            Some(Phase::TooLong(_))
        );
        let percent = |share: u64| room * share / 100;
        let full = fixed + percent(limits.compact_from_percent);
        Self {
            start: if is_refused { 0 } else { full },
            full,
            target: fixed + percent(limits.compact_to_percent),
            keep: percent(limits.compact_keep_percent),
            // What was refused is too long, however little can be left out.
            gain: if is_refused { 1 } else { percent(10) },
            notes: percent(12),
        }
    }
}

/// What to do before the model is asked; `None` where everything fits, or nothing more can be left out.
pub fn next(state: &State, policy: &Policy) -> Option<Decision> {
    let room = Room::of(state, policy);
    let talk = &state.conversation;
    let now = talk.tokens();
    if now < room.start {
        return None;
    }
    let tail = tail(talk, room.keep);
    let (old, after) = references(talk, 0..tail, talk.bytes(), room.target);
    if after <= room.target && now.saturating_sub(after) >= room.gain {
        return Some(compacted(talk, None, old, after));
    }
    let work = |kind: &Kind| matches!(kind, Kind::Assistant | Kind::Result { .. });
    if tokens_in(bytes_of(talk, 0..tail, work)) >= DIGEST_TOKENS + room.notes + room.gain {
        return Some(summarise(state, policy, tail));
    }
    let (all, after) = references(talk, 0..talk.messages().len(), talk.bytes(), room.target);
    (now.saturating_sub(after) >= room.gain).then(|| compacted(talk, None, all, after))
}

/// The decision once the model was asked for notes about the first messages; `None`: it made none.
pub fn with_notes(state: &State, policy: &Policy, end: usize, notes: Option<&str>) -> Decision {
    let room = Room::of(state, policy);
    let talk = &state.conversation;
    let text = digest(state, &talk.past_before(end, notes), &room);
    let gone = bytes_of(talk, 1..end, |_| true);
    let bytes = talk.bytes() - gone + conversation::request(&text).get().len();
    let (results, after) = match talk.tokens_of(bytes) {
        fits if fits < room.full => (Vec::new(), fits),
        _ => references(talk, end..talk.messages().len(), bytes, room.target),
    };
    compacted(talk, Some((end, text)), results, after)
}

fn compacted(
    talk: &Conversation,
    digest: Option<(usize, String)>,
    results: Vec<CallId>,
    tokens_after: u64,
) -> Decision {
    let (messages, digest) = digest.unwrap_or_default();
    Decision::Record(Box::new(Event::Compacted {
        messages,
        digest,
        results,
        tokens_before: talk.tokens(),
        tokens_after,
    }))
}

/// The request repeats what the model was sent before, byte for byte, so that it costs what a cached prefix costs. Where
/// that was refused as too long, old results go first.
fn summarise(state: &State, policy: &Policy, end: usize) -> Decision {
    let talk = &state.conversation;
    let mut messages = talk.messages()[..end].to_vec();
    if talk.window().is_some() {
        for (kind, wire) in talk.kinds().iter().zip(&mut messages) {
            if let Some(call) = referable(kind, wire) {
                *wire = conversation::reference(call, wire);
            }
        }
    }
    messages.push(conversation::request(REQUEST.trim_end()));
    Decision::Perform(Box::new(Effect::Summarise {
        end,
        round: state.rounds,
        model: policy.model_of(state).to_owned(),
        messages: Arc::new(messages),
        tools: toolset(state, policy),
    }))
}

/// Where the newest messages begin: as many as fit into `keep`, at least the last exchange.
fn tail(talk: &Conversation, keep: u64) -> usize {
    let (mut start, mut bytes) = (talk.messages().len(), 0);
    for (at, wire) in talk.messages().iter().enumerate().skip(1).rev() {
        bytes += wire.get().len();
        let is_last_exchange = start == talk.messages().len();
        if !is_last_exchange && tokens_in(bytes) > keep {
            break;
        }
        if talk.is_boundary(at) {
            start = at;
        }
    }
    start
}

/// The oldest results that have to go until `target` is reached, and the estimate then. `bytes`: of the conversation now.
fn references(
    talk: &Conversation,
    range: Range<usize>,
    mut bytes: usize,
    target: u64,
) -> (Vec<CallId>, u64) {
    let mut calls = Vec::new();
    for at in range {
        if talk.tokens_of(bytes) <= target {
            break;
        }
        let wire = &talk.messages()[at];
        if let Some(call) = referable(&talk.kinds()[at], wire) {
            calls.push(call.clone());
            bytes = bytes - wire.get().len() + REFERENCE_BYTES;
        }
    }
    (calls, talk.tokens_of(bytes))
}

fn referable<'a>(kind: &'a Kind, wire: &Wire) -> Option<&'a CallId> {
    match kind {
        Kind::Result {
            call,
            worth: Worth::Output,
        } => Some(call).filter(|_| wire.get().len() >= REFERRED_BYTES_MIN),
        Kind::System
        | Kind::Digest
        | Kind::Brief
        | Kind::Person { .. }
        | Kind::Assistant
        | Kind::Result { .. } => None,
    }
}

fn bytes_of(talk: &Conversation, range: Range<usize>, wanted: impl Fn(&Kind) -> bool) -> usize {
    let (kinds, messages) = (&talk.kinds()[range.clone()], &talk.messages()[range]);
    let both = kinds.iter().zip(messages);
    both.filter(|(kind, _)| wanted(kind))
        .map(|(_, wire)| wire.get().len())
        .sum()
}

/// The message that stands for those that went.
fn digest(state: &State, past: &Past, room: &Room) -> String {
    let bytes = |tokens: u64| usize::try_from(tokens * 4).unwrap_or(usize::MAX);
    let files: Vec<&str> = state.changed.iter().map(String::as_str).collect();
    let loaded = skills::kept(&past.skills, bytes(room.keep));
    let doubts = &past.doubts[past.doubts.len().saturating_sub(DOUBTS_MAX)..];
    fill(
        DIGEST.trim_end(),
        &[
            ("said", &said(past, bytes(room.notes / 2))),
            ("notes", &notes(past, bytes(room.notes))),
            ("plan", &or_none(state.plan.checklist())),
            ("workspace", &state.workspace.path),
            ("files", &or_none(listed(&files))),
            ("doubts", &or_none(doubts.join("\n"))),
        ],
    ) + &loaded
}

/// The newest that fit; the last objective and the last message whole, however long.
fn said(past: &Past, bytes_max: usize) -> String {
    let objective = past.said.iter().rposition(|said| said.objective);
    let last = past.said.len().checked_sub(1);
    let (mut shown, mut left, mut gone) = (Vec::new(), bytes_max, 0);
    for (at, said) in past.said.iter().enumerate().rev() {
        let must = Some(at) == objective || Some(at) == last;
        if !must && said.text.len() > left {
            gone += 1;
            continue;
        }
        left = left.saturating_sub(said.text.len());
        shown.push(wording::said(said.objective, &said.text));
    }
    if gone > 0 {
        shown.push(wording::said_more(gone));
    }
    shown.reverse();
    or_none(shown.join("\n\n"))
}

/// What the model wrote, and the calls that it wrote nothing about.
fn notes(past: &Past, bytes_max: usize) -> String {
    let mut text = past.notes.clone().unwrap_or_default();
    if text.len() > bytes_max {
        let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text.push_str(wording::CUT);
    }
    if past.made.is_empty() {
        return or_none(text);
    }
    let (mut shown, mut left) = (Vec::new(), bytes_max.saturating_sub(text.len()));
    for made in past.made.iter().rev() {
        if made.len() > left {
            break;
        }
        left -= made.len();
        shown.push(made.as_str());
    }
    shown.reverse();
    wording::no_notes(&text, past.made.len() - shown.len(), &shown.join("\n"))
}

fn listed(files: &[&str]) -> String {
    let shown = files.len().min(FILES_MAX);
    let more = match files.len() - shown {
        0 => String::new(),
        more => wording::more_files(more),
    };
    format!("{}{more}", files[..shown].join("\n"))
}

fn or_none(text: String) -> String {
    match text.is_empty() {
        true => wording::NONE.to_owned(),
        false => text,
    }
}
