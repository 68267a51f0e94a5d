//! `write_file`: a whole file, new or instead of one that the model knows.

use super::{Action, Reach, Tool, args, blocking, schema_of, text};
use crate::agent::event::{EffectClass, Expectation, ExpectedFile, Outcome};
use crate::gate::{Approved, Touch};
use crate::world::workspace::{Workspace, WorkspaceError, digest_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

pub const TOOL: Tool = Tool {
    name: "write_file",
    about: include_str!("../../prompts/tools/write_file.md"),
    class: EffectClass::Probeable,
    schema: schema_of::<Args>,
    touches: |json| Ok(vec![Touch::Write(args::<Args>(json)?.path)]),
    action: Action::World {
        run: |call, reach: Arc<Reach>| blocking(call, reach, EffectClass::Probeable, run),
        expect: Some(expect),
    },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    path: String,
    content: String,
    overwrite: Option<bool>,
}

/// After a crash the file is compared with what it was and what it should be. Writing it again unseen would be
/// idempotent too, but could replace what a person has written there since.
fn expect(json: &Value, workspace: &Workspace) -> Option<Expectation> {
    let args = args::<Args>(json).ok()?;
    let before = workspace.digest(&args.path);
    let after = Some(digest_of(args.content.as_bytes()));
    let path = args.path;
    Some(Expectation {
        files: vec![ExpectedFile {
            path,
            before,
            after,
        }],
        ..Expectation::default()
    })
}

fn run(approved: Approved<Args>, reach: &Reach) -> Outcome {
    let args = approved.get();
    write(args, reach).unwrap_or_else(Outcome::failed)
}

fn write(args: &Args, reach: &Reach) -> Result<Outcome, String> {
    let Args {
        path,
        content,
        overwrite,
    } = args;
    let before = match reach.workspace.read_text(path) {
        Ok(text) => Some(text),
        Err(WorkspaceError::NotFound { .. }) => None,
        Err(e) => return Err(e.to_string()),
    };
    if let Some(before) = &before {
        if before == content {
            note(args, reach)?;
            return Ok(Outcome::done(format!(
                "{path} has exactly this content already."
            )));
        }
        if !overwrite.unwrap_or(false) {
            return Err(format!(
                "{path} exists. Use apply_patch to change a part of it, or set overwrite: true to replace all of it"
            ));
        }
        let place = reach.workspace.locate(path).map_err(|e| e.to_string())?;
        let known = reach.workspace.notes().last_seen(&place);
        if known.is_some_and(|digest| digest != digest_of(before.as_bytes())) {
            return Err(format!(
                "{path} was changed by somebody else since you read it; read it again first"
            ));
        }
    }
    reach
        .workspace
        .write_atomic(path, content.as_bytes())
        .map_err(|e| e.to_string())?;
    let place = note(args, reach)?;
    let old = before.as_deref().map(|text| (place.as_str(), text));
    let change = text::change(old, Some((&place, content)));
    let verb = if before.is_some() {
        "Replaced"
    } else {
        "Created"
    };
    let mut outcome = Outcome::done(format!(
        "{verb} {path}: {}.",
        text::count(content.lines().count(), "line")
    ));
    outcome.changes = vec![change];
    Ok(outcome)
}

/// Remembers the file as the session's own; returns its one name.
fn note(args: &Args, reach: &Reach) -> Result<String, String> {
    let place = reach
        .workspace
        .locate(&args.path)
        .map_err(|e| e.to_string())?;
    reach
        .workspace
        .notes()
        .wrote(&place, digest_of(args.content.as_bytes()));
    Ok(place)
}
