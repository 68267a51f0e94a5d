//! A session's past: its journal folded into the state, to be continued or only looked at.

use crate::agent::apply::apply;
use crate::agent::event::{Event, Record};
use crate::agent::state::State;
use crate::agent::texts::Catalogues;
use crate::world::clock;
use crate::world::journal::salvage::{self, Tail};
use crate::world::journal::{self, Journal, JournalError};
use std::path::Path;

/// A journal, folded as far as it is good.
pub struct Past {
    pub state: State,
    pub end: journal::End,
    /// What is wrong with the line after the end.
    pub damage: Option<String>,
}

impl Past {
    /// The damage as an error.
    pub fn error(&self, path: &Path) -> Option<JournalError> {
        self.damage.as_ref().map(|what| JournalError::Damaged {
            path: path.to_owned(),
            line: self.end.seq + 1,
            what: what.clone(),
        })
    }
}

/// Folds a journal into its state, ready to be continued.
///
/// # Errors
/// What is wrong with the journal, and at which line.
pub fn load(
    path: &Path,
    texts: &Catalogues,
    mut each: impl FnMut(&Record),
) -> Result<(State, Journal), JournalError> {
    let mut state: Option<State> = None;
    let journal = Journal::open(path, |record| {
        each(&record);
        fold(&mut state, &record, texts)
    })?;
    let state = state.ok_or_else(|| JournalError::Empty {
        path: path.to_owned(),
    })?;
    Ok((state, journal))
}

/// The same without opening it for writing: for looking at a journal that another process may own.
///
/// # Errors
/// As [`load`].
pub fn inspect(
    path: &Path,
    texts: &Catalogues,
    each: impl FnMut(&Record),
) -> Result<(State, journal::End), JournalError> {
    let past = good_part(path, texts, each)?;
    match past.error(path) {
        Some(error) => Err(error),
        None => Ok((past.state, past.end)),
    }
}

/// The same up to the first damage, if there is any.
///
/// # Errors
/// Where the first line is damaged already, or the file cannot be read.
pub fn good_part(
    path: &Path,
    texts: &Catalogues,
    mut each: impl FnMut(&Record),
) -> Result<Past, JournalError> {
    walk(path, texts, |_, record| each(record))
}

/// The same, handing out every line with the state before it; there is none before the first.
///
/// # Errors
/// As [`good_part`].
pub fn walk(
    path: &Path,
    texts: &Catalogues,
    mut each: impl FnMut(Option<&State>, &Record),
) -> Result<Past, JournalError> {
    let mut state = None;
    let scan = journal::scan(path, |record| {
        each(state.as_ref(), &record);
        fold(&mut state, &record, texts)
    })?;
    match (state, scan.error(path)) {
        (Some(state), _) => Ok(Past {
            state,
            end: scan.end,
            damage: scan.damage,
        }),
        (None, Some(error)) => Err(error),
        (None, None) => Err(JournalError::Empty {
            path: path.to_owned(),
        }),
    }
}

/// Makes the good part of a damaged journal the journal, its next line saying so; the damaged file is kept whole. The
/// person has agreed. `None` where the journal is not damaged.
///
/// # Errors
/// As [`good_part`]; where the files cannot be written, nothing is changed.
pub fn keep_good_part(path: &Path, texts: &Catalogues) -> Result<Option<Tail>, JournalError> {
    let past = good_part(path, texts, |_| {})?;
    let Some(what) = past.damage else {
        return Ok(None);
    };
    let tail = salvage::tail(path, &past.end)?;
    let event = Event::TailSetAside {
        lines: tail.lines,
        bytes: tail.bytes,
        digest: tail.digest.clone(),
        file: tail.kept_as.clone(),
        what,
    };
    salvage::go_on(path, &past.end, &tail, clock::now(), event)?;
    Ok(Some(tail))
}

fn fold(state: &mut Option<State>, record: &Record, texts: &Catalogues) -> Result<(), String> {
    match state {
        Some(state) => apply(state, record).map_err(|error| error.to_string()),
        None => {
            *state = State::begin(record, texts);
            state
                .is_some()
                .then_some(())
                .ok_or_else(|| "the first line does not open a session".into())
        }
    }
}
