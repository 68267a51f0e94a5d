//! Time and names that nobody can foresee: the only place that reads the clock or asks for randomness.

use crate::agent::event::Timestamp;
use chrono::{DateTime, Local, Utc};
use std::fmt::Write;

/// The time now.
pub fn now() -> Timestamp {
    Timestamp(Utc::now().timestamp_millis())
}

/// The time now as people read it, in the local zone or in UTC.
///
/// # Errors
/// The format is none.
pub fn written(utc: bool, format: &str) -> Result<String, String> {
    let mut text = String::new();
    let wrote = match utc {
        true => write!(text, "{}", Utc::now().format(format)),
        false => write!(text, "{}", Local::now().format(format)),
    };
    wrote.map_err(|_| format!("no time can be written as {format}"))?;
    Ok(text)
}

/// The same for seconds since 1970, in UTC; the format is one.
pub fn written_at(seconds: i64, format: &str) -> String {
    let at = DateTime::<Utc>::from_timestamp(seconds, 0).unwrap_or_default();
    at.format(format).to_string()
}

/// A pause that nobody else makes at the same moment: as long as said, and up to a quarter longer.
pub fn jittered(pause_ms: u64) -> u64 {
    const PARTS: u128 = 1 << 16;
    // The last bits of a fresh id are as random as any.
    let chance = uuid::Uuid::now_v7().as_u128() % PARTS;
    let more = u128::from(pause_ms / 4) * chance / PARTS;
    pause_ms.saturating_add(u64::try_from(more).unwrap_or(0))
}

/// Bytes that nobody can guess.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .expect("BUG: the kernel's randomness cannot fail once it has begun");
    bytes
}

/// A fresh session id: date and time for people, the rest against collisions.
pub fn session_id() -> String {
    let random = uuid::Uuid::now_v7().simple().to_string();
    format!(
        "{}-{}",
        Utc::now().format("%Y%m%d-%H%M%S"),
        &random[random.len() - 6..]
    )
}

/// A fresh id for a message that comes from no channel with ids of its own.
pub fn message_id() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}
