//! A session's past: its journal folded into the state, to be continued or only looked at.

use crate::agent::apply::apply;
use crate::agent::event::Record;
use crate::agent::state::State;
use crate::agent::texts::Texts;
use crate::world::journal::{self, Journal, JournalError};
use std::path::Path;
use std::sync::Arc;

/// Folds a journal into its state, ready to be continued.
///
/// # Errors
/// What is wrong with the journal, and at which line.
pub fn load(
    path: &Path,
    texts: &Arc<Texts>,
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
    texts: &Arc<Texts>,
    mut each: impl FnMut(&Record),
) -> Result<(State, journal::End), JournalError> {
    let (mut state, mut refused) = (None, None);
    let end = journal::read(path, |record| {
        each(&record);
        if let (None, Err(what)) = (&refused, fold(&mut state, &record, texts)) {
            refused = Some((record.seq, what));
        }
    })?;
    match (state, refused) {
        (_, Some((line, what))) => Err(JournalError::Damaged {
            path: path.to_owned(),
            line,
            what,
        }),
        (Some(state), None) => Ok((state, end)),
        (None, None) => Err(JournalError::Empty {
            path: path.to_owned(),
        }),
    }
}

fn fold(state: &mut Option<State>, record: &Record, texts: &Arc<Texts>) -> Result<(), String> {
    match state {
        Some(state) => apply(state, record).map_err(|error| error.to_string()),
        None => {
            *state = State::begin(record, texts.clone());
            state
                .is_some()
                .then_some(())
                .ok_or_else(|| "the first line does not open a session".into())
        }
    }
}
