//! Journals into the derived tables: rows follow from lines and the state after them, and from nothing else.
//!
//! Taking a line twice changes nothing.

use super::spend::spent;
use super::{Store, StoreError};
use crate::agent::command::{self, ChatCommand, Said};
use crate::agent::event::{CallId, Event, Got, Inbound, Record, Status, Usage, Via};
use crate::agent::state::{Phase, State};
use crate::gate::Verdict;
use rusqlite::{Connection, params};

/// What a process that finds a session must wake it for; 0: nothing.
pub(super) const TO_SAY: u8 = 1;
pub(super) const TO_DO: u8 = 2;

impl Store {
    /// Takes lines of a journal, the state after them, and the journal's length.
    pub fn project(&self, records: &[Record], state: &State, bytes: u64) -> Result<(), StoreError> {
        self.with("write to", |db| {
            db.execute_batch("BEGIN")?;
            let written = project_session(db, state, bytes).and_then(|()| {
                records
                    .iter()
                    .try_for_each(|record| project_record(db, record, state))
            });
            db.execute_batch(if written.is_ok() {
                "COMMIT"
            } else {
                "ROLLBACK"
            })?;
            written
        })
    }
}

fn project_record(db: &Connection, record: &Record, state: &State) -> rusqlite::Result<()> {
    match &record.event {
        Event::MessageReceived { message } => received(db, record, state, message),
        Event::MediaFetched {
            got: Got::Words { text, cost_micros },
            ..
        } => heard(db, record, state, text, *cost_micros),
        Event::SendFinished { ids, closed, .. } => {
            let invited = closed.as_ref().and_then(|closed| closed.invited.as_ref());
            sent(db, record, state, ids, invited.is_some())
        }
        Event::ModelAnswered { round, answer } => {
            let (session, round) = (&state.opening.session, i64::from(*round));
            spent(db, session, round, record, answer.usage, answer.cost_micros)
        }
        Event::SummaryGiven {
            usage, cost_micros, ..
        } => spent_by_line(db, record, state, *usage, *cost_micros),
        Event::GateDecided { call, verdict, .. } if !verdict.commands.is_empty() => {
            judged(db, record, state, call, verdict)
        }
        Event::ToolFinished { call, outcome } if outcome.status != Status::Denied => {
            let sql = "UPDATE agent_command_log SET exit_code = ?3, duration_ms = ?4 WHERE session = ?1 AND call = ?2";
            db.prepare_cached(sql)?.execute(params![
                state.opening.session,
                call.0,
                outcome.exit_code,
                outcome.duration_ms as i64
            ])?;
            Ok(())
        }
        _ => Ok(()),
    }
}

fn received(
    db: &Connection,
    record: &Record,
    state: &State,
    message: &Inbound,
) -> rusqlite::Result<()> {
    let session = &state.opening.session;
    see(db, state, &message.id)?;
    let sql = "UPDATE sessions SET last_order = max(last_order, ?2) WHERE id = ?1";
    db.prepare_cached(sql)?
        .execute(params![session, message.order as i64])?;
    // Written in another chat, it opens no window in this one.
    let is_here = message.stands_for.is_none();
    if is_here && !matches!(message.via, Via::Schedule | Via::Notice) {
        let sql = "UPDATE sessions SET heard_at = max(coalesce(heard_at, 0), ?2) WHERE id = ?1";
        db.prepare_cached(sql)?
            .execute(params![session, record.at.0])?;
    }
    match message.text.trim_start().starts_with('/') {
        true => Ok(()),
        false => name_objective(db, state, &message.text),
    }
}

fn heard(
    db: &Connection,
    record: &Record,
    state: &State,
    text: &str,
    cost_micros: Option<u64>,
) -> rusqlite::Result<()> {
    name_objective(db, state, text)?;
    match cost_micros {
        Some(_) => spent_by_line(db, record, state, Usage::default(), cost_micros),
        None => Ok(()),
    }
}

fn sent(
    db: &Connection,
    record: &Record,
    state: &State,
    ids: &[String],
    is_invited: bool,
) -> rusqlite::Result<()> {
    ids.iter().try_for_each(|id| see(db, state, id))?;
    if is_invited {
        let sql = "UPDATE sessions SET invited_at = ?2 WHERE id = ?1";
        db.prepare_cached(sql)?
            .execute(params![state.opening.session, record.at.0])?;
    }
    Ok(())
}

fn judged(
    db: &Connection,
    record: &Record,
    state: &State,
    call: &CallId,
    verdict: &Verdict,
) -> rusqlite::Result<()> {
    let argvs = verdict.commands.iter().map(|command| {
        shlex::try_join(command.argv.iter().map(String::as_str)).unwrap_or_default()
    });
    let command = argvs.collect::<Vec<_>>().join(" ; ");
    let decision = serde_json::to_value(verdict.decision)
        .ok()
        .and_then(|d| Some(d.as_str()?.to_owned()))
        .unwrap_or_default();
    let sql = "INSERT OR IGNORE INTO agent_command_log (session, call, at, command, decision) VALUES (?1, ?2, ?3, ?4, ?5)";
    db.prepare_cached(sql)?.execute([
        &state.opening.session,
        &call.0,
        &record.at.to_string(),
        &command,
        &decision,
    ])?;
    Ok(())
}

fn see(db: &Connection, state: &State, message: &str) -> rusqlite::Result<()> {
    let sql = "INSERT OR IGNORE INTO seen (chat, message, session) VALUES (?1, ?2, ?3)";
    let opening = &state.opening;
    db.prepare_cached(sql)?
        .execute([opening.chat.as_str(), message, &opening.session])?;
    Ok(())
}

/// The first words that ask for something stand for the session.
fn name_objective(db: &Connection, state: &State, text: &str) -> rusqlite::Result<()> {
    let sql = "UPDATE sessions SET objective = ?2 WHERE id = ?1 AND objective = ''";
    db.prepare_cached(sql)?
        .execute([state.opening.session.as_str(), text])?;
    Ok(())
}

/// What belongs to no round stands beside the rounds, by its line.
fn spent_by_line(
    db: &Connection,
    record: &Record,
    state: &State,
    usage: Usage,
    cost_micros: Option<u64>,
) -> rusqlite::Result<()> {
    let line = -(record.seq as i64);
    spent(db, &state.opening.session, line, record, usage, cost_micros)
}

fn project_session(db: &Connection, state: &State, bytes: u64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO sessions (id, chat, workspace, objective, status, rounds, started_at, updated_at, last_order, closed, due_at, bytes, unfinished, question, asked_in, interruptions, held, language)
         VALUES (?1, ?2, ?3, '', ?4, ?5, ?6, ?6, CASE WHEN ?1 LIKE 'cron-%' OR ?1 LIKE 'child-%' THEN 0 ELSE 1 + (SELECT coalesce(max(last_order), 0) FROM sessions WHERE chat = ?2) END, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
         ON CONFLICT (id) DO UPDATE SET workspace = ?3, status = ?4, rounds = ?5, updated_at = ?6, closed = ?7, due_at = ?8, bytes = ?9, unfinished = ?10, question = ?11, asked_in = ?12, interruptions = ?13, held = ?14";
    let opening = &state.opening;
    let asked = state.question().map(|(_, question)| question);
    let question = asked.map(|question| &question.approval);
    let ids = asked.map(|question| question.asked_in.as_slice());
    let asked_in = serde_json::json!(ids.unwrap_or_default()).to_string();
    let due_at = state.next_alarm().map(|(at, _)| at.0);
    db.prepare_cached(sql)?.execute(params![
        opening.session,
        opening.chat,
        state.checkout.path,
        status(state),
        state.rounds,
        state.now.to_string(),
        is_closed(state),
        due_at,
        bytes as i64,
        left_to_do(state),
        question,
        asked_in,
        state.interruptions,
        state
            .outbox
            .front()
            .is_some_and(|front| front.held.is_some()),
        opening.language.code()
    ])?;
    Ok(())
}

/// `/new` counts from the moment it is on disk: the next message may come before it is taken.
fn is_closed(state: &State) -> bool {
    let says_new = |message: &Inbound| {
        message.from == state.opening.owner
            && matches!(
                command::read(&message.text),
                Said::Command(ChatCommand::New)
            )
    };
    let ends = |message: &Inbound| says_new(message) || message.via == Via::Pairing;
    state.closed || state.unread.iter().any(ends)
}

fn left_to_do(state: &State) -> u8 {
    let working = state
        .turn
        .as_ref()
        .is_some_and(|turn| !turn.interrupted && !state.waits_for_person());
    let checkpoints = &state.checkpoints;
    let trees = checkpoints.running || checkpoints.wish.is_some();
    let errands = state.errand.is_some() || state.moving.is_some() || state.carrying.is_some();
    match working || trees || errands || !state.unread.is_empty() {
        true => TO_DO,
        false if !state.outbox.is_empty() => TO_SAY,
        false => 0,
    }
}

/// One word for the list of sessions.
pub fn status(state: &State) -> &'static str {
    match &state.turn {
        None if state.closed => "closed",
        None => state.last_end.map_or("new", |reason| reason.word()),
        Some(turn) if turn.interrupted => "interrupted",
        Some(_) if state.waits_for_person() => "waiting",
        Some(turn) => match turn.phase {
            Phase::Ready
            | Phase::Asking
            | Phase::Drafting
            | Phase::Calls(_)
            | Phase::TooLong(_)
            | Phase::Summarising(_)
            | Phase::Summarised(..) => "running",
            Phase::Answered(_) | Phase::Failed(_) | Phase::Limited(_) => "ending",
        },
    }
}
