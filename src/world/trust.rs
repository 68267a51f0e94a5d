//! Trust in a workspace: what it would let in, whether it was given, and what is let in because of it.
//!
//! Bound to the workspace's canonical path and to the folder that stood there, and for hooks to every byte of them: a
//! hook that came or changed later runs only after the owner has said so again. Where anything cannot be told, nothing
//! is trusted (invariant 12).

/// What its agents are.
mod agents;
/// What its files say.
mod briefing;
/// What its files define.
mod definitions;
/// Hooks of a repository.
mod hooks;
/// What trusting it would let in.
mod survey;

pub use briefing::Glance;
pub use hooks::{Hook, Hooks};

use super::confine::rules::worktree_folders;
use super::mcp::config::{Configured, Source, WORKSPACE_FILE, parse};
use super::shelf::Shelf;
use super::store::Store;
use super::store::trust::Trusted;
use super::workspace::{Workspace, WorkspaceError, digest_of};
use crate::agent::event::Timestamp;
use crate::agent::mask::Masks;
use crate::agent::trust::{TrustAnswer, TrustWish};
use crate::tools::is_secret;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Characters of the code that stands for what was shown.
const CODE_CHARS: usize = 6;

/// Where trust is kept and looked up. Cheap to clone.
#[derive(Clone)]
pub struct Trust {
    pub store: Arc<Store>,
    pub masks: Masks,
    /// Whether hooks of trusted workspaces run.
    pub run_hooks: bool,
    /// Where definitions are found.
    pub shelf: Shelf,
}

/// What becomes of the servers that a workspace names.
#[derive(Debug, Clone)]
pub enum McpRule {
    None,
    /// None of them starts; why.
    Off(String),
    Trusted(Configured),
}

/// What git is told about hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookRule {
    /// None runs; why, where there are some.
    Off(Option<String>),
    Run(Hooks),
}

impl Trust {
    /// Whether hooks run in this workspace, and which.
    pub fn hooks(&self, workspace: &Workspace) -> HookRule {
        let hooks = match Hooks::of(workspace.root()) {
            Ok(hooks) if hooks.files.is_empty() => return HookRule::Off(None),
            Ok(hooks) => hooks,
            Err(why) => return HookRule::Off(Some(why)),
        };
        let why = match self.given(workspace) {
            _ if !self.run_hooks => "git_hooks is off in config/settings.toml",
            None => "the person has not trusted this workspace (/trust)",
            Some(trusted) if trusted.hooks != hooks.digest => {
                "they are not those that the person trusted; /trust shows them and asks again"
            }
            Some(_) => return HookRule::Run(hooks),
        };
        HookRule::Off(Some(why.to_owned()))
    }

    /// Whether the servers of the workspace's own file may be started, and which.
    pub fn mcp(&self, workspace: &Workspace) -> McpRule {
        if is_absent(workspace, WORKSPACE_FILE) {
            return McpRule::None;
        }
        let text = match text_of(workspace, WORKSPACE_FILE) {
            Ok(text) => text,
            Err(why) => return McpRule::Off(why),
        };
        let given = self.given(workspace).map(|trusted| trusted.mcp);
        let why = match given.as_deref() {
            None | Some("") => "you have not trusted them (/trust)",
            Some(then) if then != digest_of(text.as_bytes()) => {
                "they are not those that you trusted; /trust shows them and asks again"
            }
            Some(_) => match parse(&text, Source::Workspace) {
                Ok(configured) => return McpRule::Trusted(configured),
                Err(why) => return McpRule::Off(why),
            },
        };
        McpRule::Off(why.to_owned())
    }

    /// Does what the owner said; any number of times it comes to the same.
    pub fn act(
        &self,
        wish: &TrustWish,
        workspace: Option<&Workspace>,
        by: &str,
        at: Timestamp,
    ) -> TrustAnswer {
        let Some(workspace) = workspace else {
            let why = "the workspace cannot be opened".into();
            return TrustAnswer::Refused { why };
        };
        let done = match wish {
            TrustWish::Show => Ok(TrustAnswer::Shown {
                survey: self.survey(workspace),
            }),
            TrustWish::Grant { code } => self.grant(workspace, code, by, at),
            TrustWish::Revoke => self.revoke(workspace),
        };
        done.unwrap_or_else(|why| TrustAnswer::Refused { why })
    }

    fn grant(
        &self,
        workspace: &Workspace,
        code: &str,
        by: &str,
        at: Timestamp,
    ) -> Result<TrustAnswer, String> {
        let (survey, bound) = self.surveyed(workspace);
        if !survey.code.eq_ignore_ascii_case(code) {
            return Ok(TrustAnswer::Differs { survey });
        }
        let trusted = Trusted {
            path: survey.path.clone(),
            made_at: made_at(Path::new(&survey.path)),
            // Of what was shown, not of what may stand there a moment later.
            hooks: bound.hooks,
            mcp: bound.mcp,
            inline: bound.inline,
            by: by.to_owned(),
            at,
        };
        self.store
            .trust(&trusted)
            .map_err(|error| error.to_string())?;
        // What was written between is not what was shown.
        let after = self.survey(workspace);
        if after.code != survey.code {
            self.store
                .distrust(&after.path)
                .map_err(|error| error.to_string())?;
            return Ok(TrustAnswer::Differs { survey: after });
        }
        Ok(TrustAnswer::Trusted { survey: after })
    }

    fn revoke(&self, workspace: &Workspace) -> Result<TrustAnswer, String> {
        let path = anchor(workspace);
        let name = path.to_string_lossy().into_owned();
        let gone = self
            .store
            .distrust(&name)
            .map_err(|error| error.to_string())?;
        Ok(match gone {
            true => TrustAnswer::Revoked { name },
            false => TrustAnswer::NotTrusted { name },
        })
    }

    /// The trust that was given to this workspace, if it is still the same folder.
    fn given(&self, workspace: &Workspace) -> Option<Trusted> {
        let path = anchor(workspace);
        let found = self.store.trusted(path.to_str()?);
        if let Err(error) = &found {
            tracing::warn!(%error, "whether the workspace is trusted is not known: it is not");
        }
        let trusted = found.ok()??;
        let same = match (trusted.made_at, made_at(&path)) {
            (Some(then), Some(now)) => then == now,
            (None, _) | (_, None) => true, // the file system does not tell
        };
        same.then_some(trusted)
    }
}

fn is_absent(workspace: &Workspace, name: &str) -> bool {
    matches!(
        workspace.open(name, super::workspace::Open::Read),
        Err(WorkspaceError::NotFound { .. })
    )
}

/// The text of a file in the workspace; a link counts as what it leads to.
fn text_of(workspace: &Workspace, name: &str) -> Result<String, String> {
    let place = workspace.locate(name).map_err(|error| error.to_string())?;
    if is_secret(&place) || place.split('/').any(|part| part == ".git") {
        return Err(format!("it is a link to {place}, which is never shown"));
    }
    let text = workspace
        .read_text(&place)
        .map_err(|error| error.to_string())?;
    Ok(text
        .strip_prefix('\u{feff}')
        .map_or(text.clone(), str::to_owned))
}

/// What trust is bound to: the workspace's own path, or that of the repository whose linked worktree it is.
fn anchor(workspace: &Workspace) -> PathBuf {
    let root = workspace.root();
    let main = worktree_folders(root).and_then(|(_, common)| {
        let named = common.file_name()? == ".git";
        named.then(|| common.parent().map(Path::to_owned))?
    });
    main.unwrap_or_else(|| root.to_owned())
}

/// When the folder was made, where the file system knows.
fn made_at(path: &Path) -> Option<i64> {
    let made = path.metadata().ok()?.created().ok()?;
    let since = made.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok()
}
