//! What a workspace's own files, and those of its user, say to the model: found, read, and no more than is meant for the
//! files that it works on.

use super::{Trust, is_absent, text_of};
use crate::agent::brief::{Brief, BriefFile, FoundFile, NAMES, OURSELVES, SKILLS, Source};
use crate::definitions::{Definition, Kind, Origin, Registry, hidden, instructions, skills};
use crate::world::workspace::{Workspace, digest_of};
use std::collections::BTreeSet;

/// Of a folder, nearest to its files; the second one where the first is not there.
const OF_FOLDERS: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];
/// Folders that are looked into at once.
const FOLDERS_MAX: usize = 200;
/// Names of definitions that are here and not read.
const UNREAD_MAX: usize = 30;

/// Who looks, and at what.
#[derive(Debug, Clone, Copy)]
pub struct Glance<'a> {
    /// What the model was shown.
    pub known: &'a Brief,
    /// Files that were read or edited since.
    pub touched: &'a [String],
    pub agent: &'a str,
}

impl Trust {
    /// The same for a session that begins.
    pub fn first_brief(&self, workspace: &Workspace) -> (Brief, Vec<FoundFile>) {
        let (known, touched) = (&Brief::default(), &[]);
        let agent = OURSELVES;
        self.brief(
            workspace,
            Glance {
                known,
                touched,
                agent,
            },
        )
    }

    /// What the workspace's own files say, if they may say something.
    pub fn brief(&self, workspace: &Workspace, glance: Glance<'_>) -> (Brief, Vec<FoundFile>) {
        let names = NAMES.into_iter().filter(|name| !is_absent(workspace, name));
        let names: Vec<&str> = names.collect();
        let registry = self.definitions(workspace);
        let is_theirs = |one: &&Definition| one.origin == Origin::Workspace;
        let all = || registry.all().iter().map(|one| &**one);
        // Also where nothing stands at its root: a folder of it may have instructions of its own.
        let trusted = match all().find(is_theirs) {
            Some(one) => one.trusted,
            None => self.is_given(workspace),
        };
        let mut found: Vec<FoundFile> = Vec::new();
        let mut files: Vec<BriefFile> = Vec::new();
        if trusted {
            found.extend(names.iter().map(|name| self.read(workspace, name)));
        } else {
            let unread = all().filter(is_theirs).map(|one| one.path.as_str());
            let unread = unread.filter(|path| !names.contains(path)).take(UNREAD_MAX);
            files.extend(names.iter().copied().chain(unread).map(unread_file));
        }
        found.extend(self.scoped(workspace, &registry, glance));
        if trusted {
            found.extend(self.of_folders(workspace, glance));
        }
        let mut digests = BTreeSet::new();
        // The same text under two names is told once.
        found.retain(|one| {
            one.file
                .digest
                .clone()
                .is_none_or(|digest| digests.insert(digest))
        });
        found.extend(catalogue(&registry));
        files.extend(found.iter().map(|one| one.file.clone()));
        let scoped = registry.of(Kind::Instructions).any(|one| {
            let files = matches!(instructions::scope(one), Ok(instructions::Scope::Files(_)));
            one.trusted && files
        });
        (
            Brief {
                trusted,
                scoped,
                files,
            },
            found,
        )
    }

    /// Instructions that say to which files or which agent they apply.
    fn scoped(
        &self,
        workspace: &Workspace,
        registry: &Registry,
        glance: Glance<'_>,
    ) -> Vec<FoundFile> {
        let places = places(workspace, glance);
        let applies = |one: &&Definition| {
            let is_named = NAMES.contains(&one.path.as_str());
            let is_ours = instructions::agent(one).is_none_or(|agent| agent == glance.agent);
            let fits = instructions::scope(one).is_ok_and(|scope| {
                glance.known.files.iter().any(|file| file.name == one.path)
                    || scope.fits("")
                    || places.iter().any(|place| scope.fits(place))
            });
            one.trusted && !is_named && is_ours && fits
        };
        let all = registry.of(Kind::Instructions).map(|one| &**one);
        all.filter(applies)
            .map(|one| self.instructions(workspace, one))
            .collect()
    }

    fn instructions(&self, workspace: &Workspace, one: &Definition) -> FoundFile {
        let text = self.text(workspace, one);
        let body = |text: String| {
            crate::definitions::front_matter::split(&text)
                .1
                .trim()
                .to_owned()
        };
        FoundFile {
            file: BriefFile {
                name: one.path.clone(),
                digest: text.is_ok().then(|| one.digest.clone()),
            },
            source: match one.origin {
                Origin::User => Source::User,
                Origin::Workspace | Origin::BuiltIn => Source::Repository,
            },
            text: text.map(body),
        }
    }

    /// Those of the folders that files below them were read or edited in, from the outside in: the nearest counts most.
    fn of_folders(&self, workspace: &Workspace, glance: Glance<'_>) -> Vec<FoundFile> {
        let places = places(workspace, glance);
        let mut folders: BTreeSet<&str> = BTreeSet::new();
        for place in &places {
            let mut rest = place.as_str();
            while let Some((folder, _)) = rest.rsplit_once('/') {
                folders.insert(folder);
                rest = folder;
            }
        }
        let known = glance
            .known
            .files
            .iter()
            .filter_map(|file| file.name.rsplit_once('/'));
        folders.extend(
            known
                .filter(|(_, name)| OF_FOLDERS.contains(name))
                .map(|(folder, _)| folder),
        );
        let named = |folder: &&str| {
            let names = OF_FOLDERS.map(|name| format!("{folder}/{name}"));
            names.into_iter().find(|name| !is_absent(workspace, name))
        };
        let hidden = |folder: &&str| folder.split('/').any(|part| part == ".git");
        let folders = folders
            .iter()
            .filter(|folder| !hidden(folder))
            .take(FOLDERS_MAX);
        folders
            .filter_map(named)
            .map(|name| self.read(workspace, &name))
            .collect()
    }

    fn read(&self, workspace: &Workspace, name: &str) -> FoundFile {
        let text = text_of(workspace, name);
        let digest = text.as_ref().ok().map(|text| digest_of(text.as_bytes()));
        let clean = |text: String| {
            let (clean, count) = hidden::removed(&text);
            match count {
                0 => self.masks.apply(text),
                count => format!(
                    "{}\n[{count} hidden characters were taken out]",
                    self.masks.apply(clean.into_owned())
                ),
            }
        };
        FoundFile {
            file: BriefFile {
                name: name.to_owned(),
                digest,
            },
            source: Source::Repository,
            text: text.map(clean),
        }
    }
}

/// The one names of what was touched, relative to the root.
fn places(workspace: &Workspace, glance: Glance<'_>) -> Vec<String> {
    let located = glance.touched.iter().map(|path| workspace.locate(path));
    located.flatten().collect()
}

fn catalogue(registry: &Registry) -> Option<FoundFile> {
    let text = skills::catalogue(registry)?;
    let file = BriefFile {
        name: SKILLS.to_owned(),
        digest: Some(digest_of(text.as_bytes())),
    };
    Some(FoundFile {
        file,
        source: Source::Catalogue,
        text: Ok(text),
    })
}

fn unread_file(name: &str) -> BriefFile {
    BriefFile {
        name: name.to_owned(),
        digest: None,
    }
}
