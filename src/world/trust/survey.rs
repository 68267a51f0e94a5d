//! What a workspace would let in, before its owner says so: every file that the model would read, by name, and everything
//! that would run.

use super::{Hook, Hooks, Trust, anchor, is_absent, text_of};
use crate::agent::brief::NAMES;
use crate::agent::mcp::clean;
use crate::agent::trust::{Survey, TrustItem};
use crate::definitions::{Kind, Origin, executable, hidden};
use crate::world::mcp::config::{Source, WORKSPACE_FILE, parse};
use crate::world::workspace::{Workspace, digest_of};
use sha2::{Digest, Sha256};

/// What trust is bound to besides the folder: digests of what would run.
pub(super) struct Bound {
    pub hooks: String,
    pub mcp: String,
    pub inline: String,
}

/// What the commands of a workspace would run by themselves.
#[derive(Debug, Clone, Default)]
struct Inline {
    /// By path.
    commands: Vec<(String, Vec<String>)>,
    digest: String,
}

impl Trust {
    /// What the workspace would let in now.
    pub fn survey(&self, workspace: &Workspace) -> Survey {
        self.surveyed(workspace).0
    }

    /// The same, with the digests of exactly what it shows: each file is read once.
    pub(super) fn surveyed(&self, workspace: &Workspace) -> (Survey, Bound) {
        let (path, hooks) = (anchor(workspace), Hooks::of(workspace.root()));
        let mut digest = Sha256::new_with_prefix(path.as_os_str().as_encoded_bytes());
        let mut items = Vec::new();
        for name in NAMES.into_iter().filter(|name| !is_absent(workspace, name)) {
            let item = match text_of(workspace, name) {
                Ok(text) => {
                    digest.update(format!("\0{name}\0{}", digest_of(text.as_bytes())));
                    TrustItem::File {
                        name: name.into(),
                        bytes: text.len() as u64,
                        hidden: hidden::removed(&text).1,
                    }
                }
                Err(why) => TrustItem::Unreadable {
                    name: name.into(),
                    why,
                },
            };
            items.push(item);
        }
        let inline = self.inline(workspace, &mut digest, &mut items);
        let mcp = named_servers(workspace, &mut items);
        digest.update(format!("\0mcp\0{mcp}"));
        match &hooks {
            Ok(hooks) => {
                digest.update(format!("\0hooks\0{}", hooks.digest));
                items.extend(hooks.files.iter().map(hook_item));
            }
            Err(why) => items.push(TrustItem::NoHooks { why: why.clone() }),
        }
        let now = hooks.map(|hooks| hooks.digest).unwrap_or_default();
        let same = |given: super::Trusted| {
            given.hooks == now && given.mcp == mcp && given.inline == inline.digest
        };
        let survey = Survey {
            name: path
                .file_name()
                .unwrap_or(path.as_os_str())
                .to_string_lossy()
                .into_owned(),
            path: path.to_string_lossy().into_owned(),
            trusted: self.given(workspace).is_some_and(same),
            items,
            code: hex::encode_upper(digest.finalize())[..super::CODE_CHARS].to_owned(),
        };
        let bound = Bound {
            hooks: now,
            mcp,
            inline: inline.digest,
        };
        (survey, bound)
    }

    /// Whether what the workspace's commands run by themselves is what the owner was shown.
    ///
    /// # Errors
    /// Why it is not, for the person.
    pub fn may_run_inline(&self, workspace: &Workspace) -> Result<(), String> {
        match self.given(workspace) {
            None => Err("the person has not trusted this workspace (/trust)".into()),
            Some(given) if given.inline != self.inline_digest(workspace) => {
                Err("what its commands run is not what the person trusted; /trust shows it and asks again".into())
            }
            Some(_) => Ok(()),
        }
    }

    /// What trust in its commands is bound to.
    fn inline_digest(&self, workspace: &Workspace) -> String {
        self.inline(workspace, &mut Sha256::new(), &mut Vec::new())
            .digest
    }

    /// Its definitions, read to be shown: each is part of `digest`.
    fn inline(
        &self,
        workspace: &Workspace,
        digest: &mut Sha256,
        items: &mut Vec<TrustItem>,
    ) -> Inline {
        if self.shelf.is_empty(workspace, Origin::Workspace) {
            return Inline::default();
        }
        let found = self.shelf.find(workspace, Origin::Workspace, true);
        let mut inline = Inline::default();
        for kind in [Kind::Command, Kind::Skill, Kind::Agent, Kind::Instructions] {
            let of_kind = found.definitions.iter().filter(|one| one.kind == kind);
            let of_kind = of_kind.filter(|one| !NAMES.contains(&one.path.as_str()));
            let mut names = Vec::new();
            for one in of_kind {
                digest.update(format!("\0{}\0{}", one.path, one.digest));
                names.push(one.id.clone());
                let text = match kind {
                    Kind::Command => self.shelf.text(workspace, &one.path).unwrap_or_default(),
                    Kind::Skill | Kind::Agent | Kind::Instructions => String::new(),
                };
                // As it is expanded: what nobody sees is no part of it, and must not hide a command here either.
                let commands = executable::inline_commands(&hidden::removed(&text).0);
                if !commands.is_empty() {
                    inline.commands.push((one.path.clone(), commands));
                }
            }
            if !names.is_empty() {
                items.push(TrustItem::Definitions { of: kind, names });
            }
        }
        let definitions = &found.definitions;
        let is_read = |path: &str| definitions.iter().any(|one| one.path == path);
        for problem in found.problems {
            let (name, what) = (problem.path, problem.what);
            items.push(match is_read(&name) {
                true => TrustItem::Flawed { name, what },
                false => TrustItem::Unreadable { name, why: what },
            });
        }
        let all = inline.commands.iter();
        inline.digest =
            executable::digest(all.map(|(path, commands)| (path.as_str(), commands.as_slice())));
        for (name, commands) in &inline.commands {
            items.push(TrustItem::Inline {
                name: name.clone(),
                commands: commands.clone(),
            });
        }
        inline
    }
}

fn hook_item(hook: &Hook) -> TrustItem {
    TrustItem::Hook {
        name: hook.name.clone(),
        bytes: hook.bytes,
        with_commit: hook.with_commit,
    }
}

/// Adds the servers that the workspace's own file names; the digest of its bytes, empty where there is none.
fn named_servers(workspace: &Workspace, items: &mut Vec<TrustItem>) -> String {
    let name = WORKSPACE_FILE.to_owned();
    if is_absent(workspace, WORKSPACE_FILE) {
        return String::new();
    }
    let text = match text_of(workspace, WORKSPACE_FILE) {
        Ok(text) => text,
        Err(why) => {
            items.push(TrustItem::Unreadable { name, why });
            return String::new();
        }
    };
    match parse(&text, Source::Workspace) {
        Ok(found) => {
            items.extend(found.servers.iter().map(|config| TrustItem::Server {
                name: config.name.clone(),
                what: clean(&config.shown()),
            }));
            let problem = |why: &String| TrustItem::Unreadable {
                name: name.clone(),
                why: clean(why),
            };
            items.extend(found.problems.iter().map(problem));
        }
        Err(why) => items.push(TrustItem::Unreadable { name, why }),
    }
    digest_of(text.as_bytes())
}
