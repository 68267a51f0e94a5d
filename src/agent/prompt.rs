//! The system prompt, put together from `prompts/` once a session. Text only; it never changes within a turn.

use crate::agent::texts::fill;

const SYSTEM: &str = include_str!("../../prompts/system.md");
const READ_ONLY: &str = include_str!("../../prompts/read_only.md");

/// The prompt for a session in the workspace `name` at `path`, whose own files come last.
pub fn system(name: &str, path: &str, write_enabled: bool, own_files: &str) -> String {
    let base = fill(SYSTEM, &[("name", name), ("path", path)]);
    let base = match write_enabled {
        true => base,
        false => format!("{base}\n{READ_ONLY}"),
    };
    match own_files {
        "" => base,
        files => format!("{}\n\n{files}", base.trim_end()),
    }
}
