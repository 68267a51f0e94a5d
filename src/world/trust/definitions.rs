//! Definitions of a workspace, its user and this program: of a workspace that nobody trusts, their names and no more.

use super::Trust;
use crate::definitions::{Definition, Origin, Registry, built_in, hidden, skills};
use crate::world::shelf::Found;
use crate::world::workspace::Workspace;

impl Trust {
    /// Whether the owner trusts this workspace.
    pub fn is_given(&self, workspace: &Workspace) -> bool {
        self.given(workspace).is_some()
    }

    /// Everything that is defined where this workspace is worked in.
    pub fn definitions(&self, workspace: &Workspace) -> Registry {
        // Nothing to read: nobody is asked, and no database is opened for it.
        let mut found = match self.shelf.is_empty(workspace, Origin::Workspace) {
            true => Found::default(),
            false => self
                .shelf
                .find(workspace, Origin::Workspace, self.is_given(workspace)),
        };
        let user = self.of_user();
        found.definitions.extend(user.definitions);
        found
            .definitions
            .extend(built_in::definitions().iter().cloned());
        found.problems.extend(user.problems);
        Registry::new(found.definitions, found.problems)
    }

    /// The text of a definition, front matter and all, with secrets masked and without what nobody sees.
    ///
    /// # Errors
    /// Why it is not read: it is not trusted, or cannot be.
    pub fn text(&self, workspace: &Workspace, definition: &Definition) -> Result<String, String> {
        let path = &definition.path;
        let text = match definition.origin {
            Origin::BuiltIn => built_in::text(path)
                .map(str::to_owned)
                .ok_or_else(|| format!("{path} is not part of this program"))?,
            Origin::User | Origin::Workspace => {
                self.shelf.text(&self.root(workspace, definition)?, path)?
            }
        };
        Ok(self.shown(text))
    }

    /// The files beside a skill's own, below its folder.
    ///
    /// # Errors
    /// The folder cannot be opened.
    pub fn resources(
        &self,
        workspace: &Workspace,
        skill: &Definition,
    ) -> Result<Vec<String>, String> {
        match skill.path.strip_suffix(skills::FILE) {
            None => Ok(Vec::new()),
            Some(folder) => Ok(self.shelf.beside(&self.root(workspace, skill)?, folder)),
        }
    }

    /// The text of one of them, with secrets masked and without what nobody sees.
    ///
    /// # Errors
    /// It is not below the skill's folder, or cannot be read.
    pub fn resource(
        &self,
        workspace: &Workspace,
        skill: &Definition,
        file: &str,
    ) -> Result<String, String> {
        let root = self.root(workspace, skill)?;
        let folder = skill.path.strip_suffix(skills::FILE);
        let folder = folder.ok_or_else(|| format!("{} is one file and has no others", skill.id))?;
        let home = root.locate(folder).map_err(|error| error.to_string())?;
        let path = format!("{folder}{file}");
        let place = root.locate(&path).map_err(|error| error.to_string())?;
        let inner = place
            .strip_prefix(&home)
            .is_some_and(|rest| rest.starts_with('/'));
        match inner && !file.starts_with('/') {
            true => Ok(self.shown(self.shelf.text(&root, &place)?)),
            false => Err(format!(
                "{file} is not below the folder of the skill {}",
                skill.id
            )),
        }
    }

    /// Where a definition stands, if it may be read.
    fn root(&self, workspace: &Workspace, definition: &Definition) -> Result<Workspace, String> {
        match definition.origin {
            Origin::Workspace if self.is_given(workspace) => Ok(workspace.clone()),
            Origin::Workspace => Err(untrusted(&definition.path)),
            Origin::User => Workspace::at(&self.shelf.user).map_err(|error| error.to_string()),
            Origin::BuiltIn => Err(format!("{} is part of this program", definition.path)),
        }
    }

    fn shown(&self, text: String) -> String {
        self.masks.apply(hidden::removed(&text).0.into_owned())
    }

    /// Whether a place of commands is there, the workspace's or the person's: a look at a few folders, before each request.
    pub fn may_have_commands(&self, workspace: &Workspace) -> bool {
        let has = |root: &Workspace, origin| !self.shelf.lacks_commands(root, origin);
        has(workspace, Origin::Workspace)
            || Workspace::at(&self.shelf.user).is_ok_and(|root| has(&root, Origin::User))
    }

    fn of_user(&self) -> Found {
        match Workspace::at(&self.shelf.user) {
            Ok(folder) => self.shelf.find(&folder, Origin::User, true),
            Err(_) => Found::default(), // no configuration folder, no definitions in it
        }
    }
}

fn untrusted(path: &str) -> String {
    format!("{path} is not loaded: the person has not trusted this workspace (/trust)")
}
