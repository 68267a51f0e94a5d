//! What became of an effect that a dead process left: the world is asked, nothing is changed.
//!
//! Each answer must hold whatever happened in between. "It did not happen" is said only where that is certain: what is
//! run again then must not have run before.

use super::abroad;
use super::outputs::Outputs;
use super::process::{GIT_TIMEOUT, ended};
use super::spool::{Found, boot_id};
use super::workspace::Workspace;
use crate::agent::event::{CallId, Expectation, ExpectedFile, Probe};
use crate::tools::{Reach, find_commit};

/// Looks for what was expected to be left: outside of this machine, then here.
pub async fn probe(call: &CallId, reach: &Reach) -> Probe {
    let expect = reach.expect.as_ref();
    if let Some(found) = abroad::probe(&reach.remote(call), expect).await {
        return found;
    }
    match expect {
        Some(expect) if !expect.files.is_empty() => files(&expect.files, &reach.workspace),
        Some(expect) if expect.commit => commit(call, reach).await,
        Some(Expectation {
            spool: Some(boot), ..
        }) => spool(call, boot, &reach.outputs),
        Some(_) | None => unclear("it leaves no trace that could be checked"),
    }
}

fn unclear(why: impl Into<String>) -> Probe {
    Probe::Unclear { why: why.into() }
}

/// Compares files with what they were before and should be after.
fn files(expected: &[ExpectedFile], workspace: &Workspace) -> Probe {
    let is = |file: &ExpectedFile, wanted: &Option<String>| workspace.digest(&file.path) == *wanted;
    if expected.iter().all(|file| is(file, &file.after)) {
        let names: Vec<&str> = expected.iter().map(|file| file.path.as_str()).collect();
        let notes = workspace.notes();
        notes.wrote_before(names.iter().map(|name| (*name).to_owned())); // a commit takes them along
        return Probe::Happened {
            output: format!(
                "Done (found in place after an interruption): {}",
                names.join(", ")
            ),
        };
    }
    if expected.iter().all(|file| is(file, &file.before)) {
        return Probe::DidNotHappen;
    }
    if workspace.is_half_done(expected) {
        return Probe::HalfDone;
    }
    unclear("files are neither as before nor as after")
}

/// What the spool of a command says, made in the start of the machine that is named `boot`.
///
/// It is made after the intent and before the keeper is forked, and the keeper marks it before it forks the command.
/// Neither is brought to the disk at once, so what is missing proves nothing once the machine was started again. Nor does
/// it where `boot` is empty: the call may have ended in lines of the journal that are lost, and its spool with it.
pub fn spool(call: &CallId, boot: &str, outputs: &Outputs) -> Probe {
    let same_boot = !boot.is_empty() && boot == boot_id();
    let found = match outputs.spool(call) {
        Ok(spool) => spool.look(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && outputs.exists() => {
            Found::NotStarted
        }
        Err(error) => return unclear(format!("its spool cannot be read: {error}")),
    };
    match found {
        Found::Running | Found::Ended(_) => Probe::Kept,
        Found::NotStarted if same_boot => Probe::DidNotHappen,
        Found::NotStarted if boot.is_empty() => unclear("what kept it may have been removed since"),
        Found::NotStarted => unclear("the machine was started again since"),
        Found::Lost => unclear("its keeper is gone without a word"),
    }
}

/// A commit whose message names the call, once git itself is surely done with it.
async fn commit(call: &CallId, reach: &Reach) -> Probe {
    if let Ok(spool) = reach.outputs.spool(call)
        && tokio::time::timeout(2 * GIT_TIMEOUT, ended(&spool))
            .await
            .is_err()
    {
        return unclear("git still runs");
    }
    match find_commit(call, reach).await {
        Ok(Some(output)) => Probe::Happened { output },
        Ok(None) => Probe::DidNotHappen,
        Err(why) => unclear(why),
    }
}
