//! `delete_file`: a file goes. Also one that is no text, which a patch cannot name.

use super::{Action, Reach, Tool, args, blocking, schema_of, text};
use crate::agent::event::{EffectClass, Expectation, ExpectedFile, FileChange, Outcome};
use crate::gate::{Approved, Touch};
use crate::world::workspace::{Open, Standing, Workspace, WorkspaceError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

pub const TOOL: Tool = Tool {
    name: "delete_file",
    about: include_str!("../../prompts/tools/delete_file.md"),
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
}

/// A call that will fail changes nothing, so there is nothing to look for.
fn expect(json: &Value, workspace: &Workspace) -> Option<Expectation> {
    let place = workspace.file(&args::<Args>(json).ok()?.path).ok()?;
    let before = Some(workspace.digest(&place)?);
    let gone = ExpectedFile {
        path: place,
        before,
        after: None,
    };
    Some(Expectation {
        files: vec![gone],
        ..Expectation::default()
    })
}

fn run(approved: Approved<Args>, reach: &Reach) -> Outcome {
    delete(approved.get(), reach).unwrap_or_else(Outcome::failed)
}

fn delete(args: &Args, reach: &Reach) -> Result<Outcome, String> {
    let File { place, content, .. } = file(&args.path, reach)?;
    reach.workspace.delete(&place).map_err(|e| e.to_string())?;
    let change = match &content {
        Some(content) => text::change(Some((&place, content)), None),
        None => unread(place.clone()),
    };
    let lines = content.map(|content| text::count(content.lines().count(), "line"));
    let what = lines.as_deref().unwrap_or("not text");
    let mut outcome = Outcome::done(format!("Deleted {place} ({what})."));
    outcome.changes = vec![change];
    Ok(outcome)
}

/// A file that may lose its name.
pub struct File {
    /// Its one name.
    pub place: String,
    pub digest: String,
    /// Where it is a text of a size that can be shown.
    pub content: Option<String>,
}

/// The file of a path, if it is what the model knows, and what the journal says that it was.
pub fn file(path: &str, reach: &Reach) -> Result<File, String> {
    let workspace = &reach.workspace;
    if let Ok(Standing::Link { target }) = workspace.standing(path) {
        return Err(format!(
            "{path} is a symbolic link to {target}, and links are neither followed nor touched; name the file itself"
        ));
    }
    let place = match workspace.file(path) {
        Ok(place) => place,
        Err(WorkspaceError::NotAFile { .. }) if workspace.open(path, Open::Folder).is_ok() => {
            return Err(format!(
                "{path} is a folder, and only files are moved and deleted: list_files shows those in it; call once for each"
            ));
        }
        Err(error) => return Err(error.to_string()),
    };
    let digest = workspace
        .digest(&place)
        .ok_or_else(|| format!("{path} cannot be read"))?;
    let expected = reach.expect.as_ref().and_then(|e| e.files.first());
    let expected = expected.and_then(|file| file.before.clone());
    let known = workspace.notes().last_seen(&place);
    if [expected, known].iter().flatten().any(|d| *d != digest) {
        return Err(format!(
            "{path} was changed by somebody else since you read it; read it again first"
        ));
    }
    let content = workspace.read_text(&place).ok();
    Ok(File {
        place,
        digest,
        content,
    })
}

/// A change that cannot be shown by its lines.
pub fn unread(path: String) -> FileChange {
    FileChange {
        path,
        added: 0,
        removed: 0,
        diff: String::new(),
    }
}
