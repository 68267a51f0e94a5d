//! The one function that starts a process: [`Processes::run`].
//!
//! Every process gets a cleared environment with a safe list, no standard input, its own session and process group, and
//! a time limit after which the whole group is killed. It decides nothing: what runs was approved before.

use std::path::PathBuf;
use std::time::Duration;

/// What to start. No shell is involved unless `program` is one.
#[derive(Debug, Clone)]
pub struct Launch {
    pub program: String,
    pub args: Vec<String>,
    pub cwd: PathBuf,
    /// Added to the safe list.
    pub env: Vec<(String, String)>,
    pub timeout: Duration,
    /// What the process reads from standard input; nothing means `/dev/null`.
    pub stdin: Option<Vec<u8>>,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    TimedOut,
    Cancelled,
    /// It never ran; the text says why (`not found: cargo`).
    NotStarted(String),
}

/// Everything known about a process that ended.
#[derive(Debug, Clone)]
pub struct Finished {
    pub exit: Exit,
    pub stdout: Capture,
    pub stderr: Capture,
    pub duration_ms: u64,
}

/// Bounded output: head and tail kept, the middle counted.
#[derive(Debug, Clone, Default)]
pub struct Capture {
    pub head: Vec<u8>,
    pub tail: Vec<u8>,
    pub omitted_bytes: u64,
}
