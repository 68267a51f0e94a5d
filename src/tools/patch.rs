//! Patches in their three forms: search and replace, unified diff, `*** Begin Patch`. From arguments to steps, and from
//! steps to files before and after. Writes nothing: `apply_patch` and `preview_patch` do the rest.

/// Hunks at their places to a text.
mod assemble;
/// `*** Begin Patch`.
mod envelope;
/// One connected change, as it is read.
mod hunk;
/// Where hunks fit, and what comes out.
mod hunks;
/// File names in unified diffs.
mod names;
/// Steps to files before and after.
mod plan;
/// One text instead of another.
mod replace;
/// Unified diffs.
mod unified;

pub use plan::{Content, Plan, Planned, plan};

use hunk::Hunk;
use schemars::JsonSchema;
use serde::Deserialize;

/// Files and edits in one call.
const STEPS_MAX: usize = 500;
/// Hunks in one call.
const HUNKS_MAX: usize = 2_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    #[schemars(length(min = 1))]
    pub edits: Option<Vec<Edit>>,
    /// Instead of edits: a unified diff or a `*** Begin Patch` envelope
    #[schemars(length(min = 1))]
    pub patch: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    pub path: String,
    /// Exact text, once in the file; whole lines are best
    #[schemars(length(min = 1))]
    pub search: String,
    pub replace: String,
}

/// What a patch says, in order, and what had to be overlooked to read it.
#[derive(Debug, Default)]
pub struct Script {
    pub steps: Vec<Step>,
    pub remarks: Vec<String>,
}

/// One change of one file.
#[derive(Debug)]
pub struct Step {
    /// Where in the arguments it stands: `Edit 2`, `Line 14 of the patch`.
    pub name: String,
    pub path: String,
    pub change: Change,
}

#[derive(Debug)]
pub enum Change {
    Replace {
        search: String,
        replace: String,
    },
    Add {
        content: String,
        executable: bool,
    },
    /// With hunks, they must take away all that is there.
    Delete {
        hunks: Vec<Hunk>,
    },
    Update {
        to: Option<String>,
        hunks: Vec<Hunk>,
        /// The hunks of a unified diff as they stand in it: if all is exact, nothing needs to be searched.
        exact: Option<String>,
    },
}

impl Step {
    fn hunks(&self) -> &[Hunk] {
        match &self.change {
            Change::Delete { hunks } | Change::Update { hunks, .. } => hunks,
            Change::Replace { .. } | Change::Add { .. } => &[],
        }
    }
}

impl Script {
    /// Reads the arguments. Looks at no file.
    ///
    /// # Errors
    /// What is wrong with the text, with the line of it.
    pub fn read(args: &Args) -> Result<Self, String> {
        let script = match (&args.edits, &args.patch) {
            (Some(edits), None) => Self::of_edits(edits),
            (None, Some(patch)) if envelope::is_one(patch) => envelope::read(patch)?,
            (None, Some(patch)) => unified::read(patch)?,
            (None, None) => return Err("give edits, or patch: there is nothing to do".into()),
            (Some(_), Some(_)) => return Err("give either edits or patch, not both".into()),
        };
        let hunks = script
            .steps
            .iter()
            .map(|step| step.hunks().len())
            .sum::<usize>();
        if script.steps.len() > STEPS_MAX || hunks > HUNKS_MAX {
            return Err(format!(
                "a call takes at most {STEPS_MAX} files or edits and {HUNKS_MAX} hunks; make several calls"
            ));
        }
        Ok(script)
    }

    fn of_edits(edits: &[Edit]) -> Self {
        let step = |(i, edit): (usize, &Edit)| Step {
            name: format!("Edit {}", i + 1),
            path: edit.path.clone(),
            change: Change::Replace {
                search: edit.search.clone(),
                replace: edit.replace.clone(),
            },
        };
        Self {
            steps: edits.iter().enumerate().map(step).collect(),
            remarks: Vec::new(),
        }
    }

    /// Every path that is read or written, as the patch spells it.
    pub fn into_paths(self) -> Vec<String> {
        let mut paths = Vec::new();
        for step in self.steps {
            paths.push(step.path);
            if let Change::Update { to: Some(to), .. } = step.change {
                paths.push(to);
            }
        }
        paths
    }
}
