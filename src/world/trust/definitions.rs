//! Definitions of a workspace, its user and this program: of a workspace that nobody trusts, their names and no more.

use super::Trust;
use crate::definitions::{Definition, Origin, Registry, built_in, hidden};
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
            Origin::User => {
                let folder = Workspace::at(&self.shelf.user).map_err(|error| error.to_string())?;
                self.shelf.text(&folder, path)?
            }
            // Not what was true when it was found.
            Origin::Workspace if !self.is_given(workspace) => {
                return Err(format!(
                    "{path} is not loaded: the person has not trusted this workspace (/trust)"
                ));
            }
            Origin::Workspace => self.shelf.text(workspace, path)?,
        };
        Ok(self.masks.apply(hidden::removed(&text).0.into_owned()))
    }

    fn of_user(&self) -> Found {
        match Workspace::at(&self.shelf.user) {
            Ok(folder) => self.shelf.find(&folder, Origin::User, true),
            Err(_) => Found::default(), // no configuration folder, no definitions in it
        }
    }
}
