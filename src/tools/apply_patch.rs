//! `apply_patch`: edits of one or more files, all or nothing.
//!
//! New contents are staged before the first file changes. A process that dies in between is found half done by the
//! digests that were written down before, and the next one finishes it from what was staged.

use super::patch::{Args, Plan, Planned, Script, plan};
use super::{Action, Reach, Tool, args, blocking, schema_of, text};
use crate::agent::event::{EffectClass, Expectation, FileChange, Outcome};
use crate::gate::{Approved, Touch};
use crate::world::workspace::{Workspace, digest_of};
use serde_json::Value;
use std::sync::Arc;

const REMARKS_SHOWN_MAX: usize = 20;

pub const TOOL: Tool = Tool {
    name: "apply_patch",
    about: include_str!("../../prompts/tools/apply_patch.md"),
    class: EffectClass::Probeable,
    schema: schema_of::<Args>,
    touches: |json| {
        let paths = Script::read(&args(json)?)?.into_paths();
        Ok(paths.into_iter().map(Touch::Write).collect())
    },
    action: Action::World {
        run: |call, reach: Arc<Reach>| blocking(call, reach, EffectClass::Probeable, run),
        expect: Some(expect),
    },
};

/// The files before and after. A patch that will fail changes nothing, so there is nothing to look for.
fn expect(json: &Value, workspace: &Workspace) -> Option<Expectation> {
    let plan = plan(&args::<Args>(json).ok()?, workspace).ok()?;
    Some(plan.expectation())
}

fn run(approved: Approved<Args>, reach: &Reach) -> Outcome {
    let half_done = |expect: &&Expectation| reach.workspace.is_half_done(&expect.files);
    let done = match reach.expect.as_ref().filter(half_done) {
        Some(expect) => finish(expect, reach),
        None => patch(approved.get(), reach),
    };
    done.unwrap_or_else(Outcome::failed)
}

fn patch(args: &Args, reach: &Reach) -> Result<Outcome, String> {
    let plan = plan(args, &reach.workspace)?;
    // What a probe will look for must be what is done.
    if reach
        .expect
        .as_ref()
        .is_some_and(|expect| *expect != plan.expectation())
    {
        return Err("Nothing was changed, in no file. Somebody else changed a file of this patch since the call was looked at; read it again".into());
    }
    reach.workspace.swap_all(&reach.session, &plan.swaps())?;
    for file in &plan.files {
        if let Some(after) = &file.after {
            let digest = digest_of(&after.bytes);
            reach.workspace.notes().wrote(&file.path, digest);
        }
    }
    let mut outcome = Outcome::done(told(&plan));
    outcome.changes = plan.files.iter().filter_map(|f| change(f, &plan)).collect();
    Ok(outcome)
}

/// The difference that a person sees; of a move, it is shown at the new name.
pub fn change(file: &Planned, plan: &Plan) -> Option<FileChange> {
    if file.to.is_some() && file.after.is_none() {
        return None;
    }
    let origin = file.from.as_ref().and_then(|from| {
        let from = plan.files.iter().find(|other| other.path == *from)?;
        Some((from.path.as_str(), from.before.as_ref()?.text.as_str()))
    });
    let side = |content: &Option<super::patch::Content>| {
        content
            .as_ref()
            .map(|c| (file.path.clone(), c.text.clone()))
    };
    let before = side(&file.before);
    let before = before.as_ref().map(|(p, t)| (p.as_str(), t.as_str()));
    let after = side(&file.after);
    let after = after.as_ref().map(|(p, t)| (p.as_str(), t.as_str()));
    Some(text::change(before.or(origin), after))
}

/// What was done, file by file, and what was overlooked.
fn told(plan: &Plan) -> String {
    let (mut patched, mut others) = (Vec::new(), Vec::new());
    for file in &plan.files {
        let Some(change) = change(file, plan) else {
            continue;
        };
        let counts = format!("(+{} -{})", change.added, change.removed);
        match (&file.before, &file.after, &file.from) {
            (None, Some(_), Some(from)) => {
                others.push(format!("Moved {from} to {} {counts}.", file.path));
            }
            (None, ..) => others.push(format!("Created {} {counts}.", file.path)),
            (_, None, _) => others.push(format!("Deleted {} {counts}.", file.path)),
            (Some(_), Some(_), _) => patched.push(format!("{} {counts}", file.path)),
        }
    }
    let patched = match patched.is_empty() {
        true => None,
        false => Some(format!("Patched {}.", patched.join(", "))),
    };
    let head: Vec<String> = patched.into_iter().chain(others).collect();
    format!("{}{}", head.join(" "), remarks(plan))
}

/// What did not fit exactly: never silent.
pub fn remarks(plan: &Plan) -> String {
    let shown = plan.remarks.iter().take(REMARKS_SHOWN_MAX);
    let mut text: String = shown.map(|remark| format!("\nNote: {remark}.")).collect();
    if let Some(more) = plan.remarks.len().checked_sub(REMARKS_SHOWN_MAX + 1) {
        text.push_str(&format!("\n[{} more notes]", more + 1));
    }
    text
}

/// Goes on where a dead process stopped.
fn finish(expect: &Expectation, reach: &Reach) -> Result<Outcome, String> {
    reach.workspace.finish(&reach.session, &expect.files)?;
    let names: Vec<&str> = expect.files.iter().map(|f| f.path.as_str()).collect();
    let mut outcome = Outcome::done(format!(
        "Finished a patch that was interrupted: {}.",
        names.join(", ")
    ));
    for file in &expect.files {
        if let Some(digest) = &file.after {
            reach.workspace.notes().wrote(&file.path, digest.clone());
        }
        outcome.changes.push(FileChange {
            path: file.path.clone(),
            added: 0,
            removed: 0,
            diff: String::new(),
        });
    }
    Ok(outcome)
}
