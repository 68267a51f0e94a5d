//! The system prompt, put together from `prompts/` once a session. Text only; it never changes within a turn.

use crate::agent::event::WorkspaceRef;
use crate::agent::texts::fill;

const SYSTEM: &str = include_str!("../../prompts/system.md");
const READ_ONLY: &str = include_str!("../../prompts/read_only.md");

/// The prompt for a session in a workspace, whose own files come last; with the branch on which it works beside the
/// person's folder, if it does.
pub fn system(
    workspace: &WorkspaceRef,
    branch: Option<&str>,
    write_enabled: bool,
    own_files: &str,
) -> String {
    let WorkspaceRef { name, path } = workspace;
    let workspace = match branch {
        None => format!("{name} ({path})"),
        Some(branch) => format!("{name}, on your own branch {branch}"),
    };
    let base = fill(SYSTEM, &[("workspace", &workspace)]);
    let base = match write_enabled {
        true => base,
        false => format!("{base}\n{READ_ONLY}"),
    };
    match own_files {
        "" => base,
        files => format!("{}\n\n{files}", base.trim_end()),
    }
}
