//! `apply_patch`: edits of one or more files, all or nothing.

use super::patch::{Args, Planned, plan};
use super::{Action, Reach, Tool, args, blocking, schema_of, text};
use crate::agent::event::{EffectClass, Expectation, ExpectedFile, Outcome};
use crate::gate::{Approved, Touch};
use crate::world::workspace::{Workspace, digest_of};
use serde_json::Value;
use std::sync::Arc;

pub const TOOL: Tool = Tool {
    name: "apply_patch",
    about: include_str!("../../prompts/tools/apply_patch.md"),
    class: EffectClass::Probeable,
    schema: schema_of::<Args>,
    touches: |json| {
        Ok(args::<Args>(json)?
            .edits
            .into_iter()
            .map(|edit| Touch::Write(edit.path))
            .collect())
    },
    action: Action::World {
        run: |call, reach: Arc<Reach>| blocking(call, reach, EffectClass::Probeable, run),
        expect: Some(expect),
    },
};

/// The files before and after. A patch that will fail changes nothing, so there is nothing to look for.
fn expect(json: &Value, workspace: &Workspace) -> Option<Expectation> {
    let planned = plan(&args::<Args>(json).ok()?.edits, workspace).ok()?;
    let files = planned.into_iter().map(|file| ExpectedFile {
        before: Some(digest_of(file.before.as_bytes())),
        after: Some(digest_of(file.after.as_bytes())),
        path: file.path,
    });
    Some(Expectation {
        files: files.collect(),
        ..Expectation::default()
    })
}

fn run(approved: Approved<Args>, reach: &Reach) -> Outcome {
    let edits = &approved.get().edits;
    let files = match plan(edits, &reach.workspace) {
        Ok(files) => files,
        Err(error) => return Outcome::failed(error),
    };
    if let Err(error) = write_all(&files, &reach.workspace) {
        return Outcome::failed(error);
    }
    let mut outcome = Outcome::done("");
    for file in &files {
        reach
            .workspace
            .notes()
            .wrote(&file.path, digest_of(file.after.as_bytes()));
        outcome
            .changes
            .push(text::change(&file.path, Some(&file.before), &file.after));
    }
    let tell = outcome
        .changes
        .iter()
        .map(|c| format!("{} (+{} -{})", c.path, c.added, c.removed));
    outcome.output = format!("Patched {}.", tell.collect::<Vec<_>>().join(", "));
    outcome
}

/// Writes every file, or puts back those that were written. A file that changed since it was read stops it.
fn write_all(files: &[Planned], workspace: &Workspace) -> Result<(), String> {
    for (i, file) in files.iter().enumerate() {
        let unchanged = workspace.digest(&file.path) == Some(digest_of(file.before.as_bytes()));
        let written = match unchanged {
            true => workspace
                .write_atomic(&file.path, file.after.as_bytes())
                .map_err(|e| e.to_string()),
            false => Err(format!(
                "{} was changed by somebody else at this moment; read it again",
                file.path
            )),
        };
        if let Err(error) = written {
            return Err(put_back(&files[..i], workspace, error));
        }
    }
    Ok(())
}

fn put_back(written: &[Planned], workspace: &Workspace, error: String) -> String {
    let stuck = |file: &&Planned| {
        workspace
            .write_atomic(&file.path, file.before.as_bytes())
            .is_err()
    };
    let stuck: Vec<&str> = written
        .iter()
        .filter(stuck)
        .map(|file| file.path.as_str())
        .collect();
    match stuck.is_empty() {
        true => format!("Nothing was changed, in no file. {error}"),
        false => format!(
            "{error}. These files were patched and could not be put back: {}",
            stuck.join(", ")
        ),
    }
}
