//! Files of the project, for a text: opened beneath the workspace, looked at by what was opened, never a secret.

use crate::agent::mask::Masks;
use crate::definitions::TextBounds;
use crate::definitions::hidden;
use crate::definitions::loading::FileExpansion;
use crate::definitions::template::Reference;
use crate::tools::is_secret;
use crate::world::workspace::{Workspace, WorkspaceError};
use std::fmt;
use std::io::Read;
use std::path::PathBuf;

/// Files within files. Fixed: what a text means must not depend on whose settings it is loaded with.
const DEPTH_MAX: usize = 5;
/// Why nothing of the workspace is shown.
pub const NOT_GIVEN: &str = "not allowed: the workspace is not trusted (/trust)";

/// The files of one text.
pub struct Files<'a> {
    pub workspace: &'a Workspace,
    pub masks: &'a Masks,
    pub own: &'a [PathBuf],
    pub bounds: TextBounds,
    /// Whether the workspace is trusted.
    pub given: bool,
    /// How many were read.
    pub read: usize,
    pub found: Vec<FileExpansion>,
    /// What a person does not see in them.
    pub warnings: Vec<String>,
}

/// Why a file's text is not there.
#[derive(Debug, PartialEq, Eq)]
pub enum Missing {
    Nothing(String),
    Refused(String),
    Unfit(String),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::Nothing(path) => write!(f, "not found: {path}"),
            Missing::Refused(why) => write!(f, "not allowed: {why}"),
            Missing::Unfit(why) => f.write_str(why),
        }
    }
}

impl Files<'_> {
    /// Where a reference leads, and the text there.
    pub fn read(&mut self, to: &Reference, chain: &[String]) -> Result<(String, String), Missing> {
        if !self.given {
            return Err(Missing::Refused(
                "the workspace is not trusted (/trust)".into(),
            ));
        }
        let files_max = self.bounds.files_max;
        if self.read >= files_max {
            let why = format!("more than {files_max} files in one text");
            return Err(Missing::Unfit(why));
        }
        let found = located(self.workspace, &to.path, self.own).or_else(|missing| match missing {
            Missing::Nothing(_) => self.beside(to, chain).ok_or(missing),
            other => Err(other),
        });
        let (file, place) = found?;
        // The first one is the command itself.
        if chain.len() > DEPTH_MAX && !chain.contains(&place) {
            let why = format!("more than {DEPTH_MAX} files within each other");
            return Err(Missing::Unfit(why));
        }
        self.read += 1;
        let text = content(file, &place, self.bounds.file_bytes_max)?;
        if let Some(warning) = hidden::warning(&text) {
            self.warnings.push(format!("{place}: {warning}"));
        }
        let text = match hidden::removed(&text) {
            (_, 0) => self.masks.apply(text),
            (clean, count) => {
                let clean = self.masks.apply(clean.into_owned());
                format!("{clean}\n[{count} hidden characters were taken out]")
            }
        };
        Ok((place, text))
    }

    /// Beside the file that refers to it.
    fn beside(&self, to: &Reference, chain: &[String]) -> Option<(std::fs::File, String)> {
        let (folder, _) = chain.last()?.rsplit_once('/')?;
        let path = format!("{folder}/{}", to.path);
        located(self.workspace, &path, self.own).ok()
    }

    /// The text of a file of the project, for a command that prints it.
    pub fn text(&self, path: &str) -> Result<String, Missing> {
        let (file, place) = located(self.workspace, path, self.own)?;
        content(file, &place, self.bounds.file_bytes_max)
    }
}

/// An opened file and where it really is: what a link leads to counts, and what was opened, not what is there now.
fn located(
    workspace: &Workspace,
    path: &str,
    own: &[PathBuf],
) -> Result<(std::fs::File, String), Missing> {
    refuse_hidden(path)?;
    let (file, place) = workspace
        .open_located(path)
        .map_err(|error| refusal(path, error))?;
    refuse_hidden(&place)?;
    let whole = workspace.root().join(&place);
    if own.iter().any(|own| whole.starts_with(own)) {
        return Err(Missing::Refused(format!("{path} belongs to this program")));
    }
    Ok((file, place))
}

/// What is never shown, however it is reached.
pub fn refuse_hidden(path: &str) -> Result<(), Missing> {
    let mut parts = path.split('/');
    if parts.any(|part| part.eq_ignore_ascii_case(".git")) {
        return Err(Missing::Refused(format!("{path} is below .git")));
    }
    match path.split('/').any(is_secret) {
        true => Err(Missing::Refused(format!("{path} holds secrets"))),
        false => Ok(()),
    }
}

pub fn refusal(path: &str, error: WorkspaceError) -> Missing {
    match error {
        WorkspaceError::NotFound { .. } => Missing::Nothing(path.into()),
        WorkspaceError::Leaves { .. } => {
            Missing::Refused(format!("{path} leads outside the project"))
        }
        WorkspaceError::NotAFile { what, .. } => Missing::Unfit(format!("{path} is {what}")),
        other => Missing::Unfit(other.to_string()),
    }
}

fn content(file: std::fs::File, path: &str, bytes_max: u64) -> Result<String, Missing> {
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| Missing::Unfit(format!("{path}: {error}")))?;
    if bytes.len() as u64 > bytes_max {
        let why = format!("{path} is larger than {bytes_max} bytes");
        return Err(Missing::Unfit(why));
    }
    let text = String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'));
    let text = text.ok_or_else(|| Missing::Unfit(format!("{path} is not text")))?;
    Ok(text
        .strip_prefix('\u{feff}')
        .map(str::to_owned)
        .unwrap_or(text))
}
