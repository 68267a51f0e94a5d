//! Every limit of a turn, by name and unit, and when one is reached. The numbers live in `config/limits.toml`.

use crate::agent::state::{State, Turn};
use serde::{Deserialize, Serialize};

/// The limits file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Model calls a turn.
    pub rounds_max: u32,
    /// Tool calls a round; what is above gets an error that says so.
    pub calls_max: usize,
    /// Wall time of a turn in minutes; waiting for a person does not count.
    pub turn_minutes_max: u64,
    /// Input and output tokens a turn.
    pub tokens_max: u64,
    /// How long a question stays open, in minutes.
    pub approval_minutes: u64,
    /// Requests to the model for one round, the first one included.
    pub model_attempts_max: u32,
    /// Silence on a model's connection, in seconds, before it counts as lost.
    pub model_silence_seconds: u64,
    /// Longest wait that a `Retry-After` may ask for, in seconds.
    pub model_retry_after_seconds_max: u64,
    /// Tries to send one message, minutes apart, before it is given up.
    pub send_attempts_max: u32,
    /// A webhook's body, in bytes.
    pub body_bytes_max: usize,
    /// On shutdown, seconds until running effects are left behind.
    pub drain_seconds: u64,
    /// Processes and threads that may be started while a command runs, besides those of the user that run already.
    pub command_processes_max: u64,
    /// Files that one process of a command may hold open.
    pub command_open_files_max: u64,
    /// A file that a command writes, in bytes.
    pub command_file_bytes_max: u64,
    /// Address space of one process of a command, in bytes.
    pub command_memory_bytes_max: u64,
}

/// The numbers that are compiled in.
pub const DEFAULTS: &str = include_str!("../../config/limits.toml");

/// The name and the text of the limit that the turn has reached.
pub fn reached(limits: &Limits, state: &State, turn: &Turn) -> Option<(&'static str, String)> {
    let say = |name: &'static str, max: u64, used: u64| {
        let text = state.texts.say(
            name,
            &[("max", &max.to_string()), ("used", &used.to_string())],
        );
        Some((name, text))
    };
    if turn.round >= limits.rounds_max {
        return say("limit_rounds", limits.rounds_max.into(), turn.round.into());
    }
    if turn.usage.total() >= limits.tokens_max {
        return say("limit_tokens", limits.tokens_max, turn.usage.total());
    }
    let worked_ms = state
        .now
        .since(turn.started_at)
        .saturating_sub(turn.waited_ms);
    if worked_ms >= limits.turn_minutes_max * 60_000 {
        return say("limit_time", limits.turn_minutes_max, worked_ms / 60_000);
    }
    None
}
