//! The table `spend`: what every answer of a model took.

use super::{Store, StoreError};
use crate::agent::event::{Record, Usage};
use crate::agent::money::Spend;
use rusqlite::{Connection, params};

impl Store {
    /// What all sessions but this one have spent in a month.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn spent_elsewhere(&self, month: &str, session: &str) -> Result<Spend, StoreError> {
        let sql = "SELECT COALESCE(SUM(input_tokens), 0), COALESCE(SUM(cached_tokens), 0), COALESCE(SUM(output_tokens), 0),
             COALESCE(SUM(micros), 0), COUNT(*) - COUNT(micros) FROM spend WHERE month = ?1 AND session <> ?2";
        self.with("add up the spending in", |db| {
            db.prepare_cached(sql)?.query_row([month, session], |row| {
                let number = |at| row.get::<_, i64>(at).map(i64::unsigned_abs);
                let usage = Usage {
                    input_tokens: number(0)?,
                    cached_tokens: number(1)?,
                    output_tokens: number(2)?,
                };
                Ok(Spend {
                    usage,
                    micros: number(3)?,
                    unpriced: row.get(4)?,
                })
            })
        })
    }
}

/// One row, once: by round, or by its line where there is no round.
pub(super) fn spent(
    db: &Connection,
    session: &str,
    round: i64,
    record: &Record,
    usage: Usage,
    cost_micros: Option<u64>,
) -> rusqlite::Result<()> {
    let sql = "INSERT OR IGNORE INTO spend (session, round, month, input_tokens, cached_tokens, output_tokens, micros) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    db.prepare_cached(sql)?.execute(params![
        session,
        round,
        record.at.month(),
        usage.input_tokens as i64,
        usage.cached_tokens as i64,
        usage.output_tokens as i64,
        cost_micros.map(|micros| micros as i64)
    ])?;
    Ok(())
}
