//! Commands that a team wrote down: found, read, and expanded with what their text refers to.
//!
//! The order is the seed's: front matter, arguments, `@file`, `` !`command` ``. Only the command's own text is expanded;
//! what an argument, a file or a command brings is words, but for references of an included Markdown file to others. What
//! cannot be had is said in its place, and the rest goes on; only a circle of files fails the whole.

/// What a chat asks of them.
mod chat;
/// Files of the project, for a text.
mod files;
/// What git says.
mod git;
/// Names, as `ls` shows them.
mod listing;

use super::clock;
use super::process::Processes;
use super::trust::Trust;
use super::workspace::Workspace;
use crate::agent::event::CallId;
use crate::definitions::arguments::{Arguments, Count};
use crate::definitions::front_matter::split;
use crate::definitions::hidden;
use crate::definitions::inline::{self, Allowed};
use crate::definitions::loading::{
    self, Caller, Command, CommandExpansion, Expansions, FileExpansion, LoadError, Loaded,
    Metadata, Page, cut, fenced, tokens, trimmed,
};
use crate::definitions::template::{self, Inline, Piece, Reference};
use crate::definitions::{Definition, Kind, Origin, places};
use files::{Files, Missing};
use std::path::PathBuf;
use std::sync::Arc;

/// What loading a command needs of the outside.
pub struct Loader<'a> {
    pub trust: &'a Trust,
    pub workspace: &'a Workspace,
    pub processes: &'a Processes,
    /// The program's own files, never shown.
    pub own: &'a [PathBuf],
    /// Under which processes run.
    pub call: &'a CallId,
    pub caller: Caller,
    /// The agent that the person chose.
    pub agent: Option<&'a str>,
}

impl Loader<'_> {
    /// Loads a command by its name (`n`, `/n`) or its path.
    ///
    /// # Errors
    /// Why nothing of it is loaded.
    pub async fn load(&self, asked: &str, arguments: &Arguments) -> Result<Loaded, LoadError> {
        let (definition, text) = self.find(asked)?;
        let (front, body) = split(&text);
        if let Some(refusal) = self.caller.refusal(&front, self.agent) {
            return Err(refusal);
        }
        let raw = trimmed(body);
        let pieces = template::read(raw, arguments, Count::of(&definition.path));
        let bounds = self.trust.shelf.bounds.texts;
        let mut expansion = Expansion {
            loader: self,
            files: Files {
                workspace: self.workspace,
                masks: &self.trust.masks,
                own: self.own,
                bounds,
                given: definition.origin == Origin::Workspace
                    || self.trust.is_given(self.workspace),
                read: 0,
                found: Vec::new(),
                warnings: Vec::new(),
            },
            bash: Vec::new(),
            page: Page::default(),
            may_run: match definition.origin {
                Origin::Workspace => self.trust.may_run_inline(self.workspace),
                Origin::User | Origin::BuiltIn => Ok(()),
            },
        };
        let chain = match definition.origin {
            Origin::Workspace => vec![definition.path.clone()],
            // It is no file of the project.
            Origin::User | Origin::BuiltIn => vec![String::new()],
        };
        expansion.all(pieces, chain).await?;
        let (content, was_cut) = cut(expansion.page.into_text(), loading::CONTENT_CHARS_MAX);
        let mut warnings: Vec<String> = front.warning.into_iter().collect();
        warnings.append(&mut expansion.files.warnings);
        if was_cut {
            warnings.push(format!(
                "its text is longer than {} characters, and cut",
                loading::CONTENT_CHARS_MAX
            ));
        }
        let at = clock::now().to_string();
        Ok(Loaded {
            success: true,
            metadata: Metadata {
                // The seed writes whole seconds.
                expanded_at: format!("{}Z", at.split(['.', 'Z']).next().unwrap_or(&at)),
                total_tokens_estimate: tokens(&content),
                warnings,
            },
            command: Command {
                name: definition.id.clone(),
                path: definition.path.clone(),
                frontmatter: loading::front_matter(front.keys),
                content,
                raw: raw.to_owned(),
            },
            expansions: Expansions {
                files: expansion.files.found,
                bash: expansion.bash,
            },
        })
    }

    /// The command that is meant, and its text.
    fn find(&self, asked: &str) -> Result<(Arc<Definition>, String), LoadError> {
        let registry = self.trust.definitions(self.workspace);
        let path = self
            .workspace
            .relative(asked.trim())
            .unwrap_or_else(|_| asked.trim().into());
        let name = named(&path);
        let at_path = registry.at(&path).filter(|one| one.kind == Kind::Command);
        let Some(found) = at_path.or_else(|| registry.find(Kind::Command, &name)) else {
            let searched = places::command_paths(&name);
            let mut problems = registry.problems().iter();
            return Err(match problems.find(|one| searched.contains(&one.path)) {
                Some(problem) => unreadable(&problem.path, &problem.what),
                None => LoadError::not_found(&name, searched),
            });
        };
        if !found.trusted {
            let root = self.workspace.root().display().to_string();
            return Err(LoadError::not_trusted(&found.path, &root));
        }
        let text = self.trust.text(self.workspace, found);
        let text = text.map_err(|why| unreadable(&found.path, &why))?;
        Ok((found.clone(), text))
    }
}

/// The name in any of its spellings: `/n`, `n`, `dir/n`, `.claude/commands/n.md`.
fn named(asked: &str) -> String {
    match places::placed(Origin::Workspace, asked) {
        Some(Ok(placed)) if placed.kind == Kind::Command => placed.id,
        _ => asked.strip_prefix('/').unwrap_or(asked).replace('/', ":"),
    }
}

fn unreadable(path: &str, why: &str) -> LoadError {
    LoadError::Unreadable {
        message: format!("{path} cannot be loaded: {why}"),
    }
}

/// A text on its way to what a model reads.
struct Expansion<'a> {
    loader: &'a Loader<'a>,
    files: Files<'a>,
    bash: Vec<CommandExpansion>,
    page: Page,
    /// Whether what commands run is what the owner was shown.
    may_run: Result<(), String>,
}

impl Expansion<'_> {
    async fn all(&mut self, pieces: Vec<Piece>, mut chain: Vec<String>) -> Result<(), LoadError> {
        for piece in pieces {
            match piece {
                _ if self.page.is_full() => break,
                Piece::Text(text) => self.page.words(&text),
                Piece::File(reference) => self.files.put(&reference, &mut chain, &mut self.page)?,
                Piece::Command(inline) => self.command(inline).await,
            }
        }
        Ok(())
    }

    async fn command(&mut self, inline: Inline) {
        let commands_max = self.files.bounds.commands_max;
        let done = match self.bash.len() {
            n if n >= commands_max => Err(format!(
                "{}: more than {commands_max} commands in one text",
                inline::NOT_ALLOWED
            )),
            _ if inline.spoiled => Err(inline::spoiled()),
            _ => self.output(&inline.command).await,
        };
        match &done {
            Ok(output) => self.page.block(&fenced(output, "")),
            Err(error) => {
                let why = error.split("; ").next().unwrap_or(error);
                self.page
                    .words(&format!("!`{}` [not run: {why}]", inline.command));
            }
        }
        let (output, error) = match done {
            Ok(output) => (Some(output), None),
            Err(error) => (None, Some(error)),
        };
        self.bash.push(CommandExpansion {
            command: inline.command,
            executed: error.is_none(),
            output,
            error,
        });
    }

    async fn output(&self, command: &str) -> Result<String, String> {
        let allowed = inline::read(command)?;
        self.may_run.clone()?;
        let Loader {
            workspace, trust, ..
        } = self.loader;
        if !self.files.given && !matches!(allowed, Allowed::Echo(_) | Allowed::Date { .. }) {
            return Err(files::NOT_GIVEN.into());
        }
        let refused = |missing: Missing| missing.to_string();
        let output = match allowed {
            Allowed::Echo(text) => text,
            Allowed::Pwd => workspace.root().display().to_string(),
            Allowed::Date { utc, format } => clock::written(utc, &format)?,
            Allowed::Cat(paths) => {
                let texts = paths.iter().map(|path| self.files.text(path));
                texts
                    .collect::<Result<String, Missing>>()
                    .map_err(refused)?
            }
            Allowed::Ls(listing) => listing::listed(workspace, &listing).map_err(refused)?,
            Allowed::Git(args) => git::said(self.loader, &args).await?,
        };
        // What nobody sees in a file or in a commit's message is no part of it here either.
        let output = hidden::removed(output.trim_end()).0.into_owned();
        let output = trust.masks.apply(output);
        Ok(cut(output, self.files.bounds.output_chars_max).0)
    }
}

impl Files<'_> {
    /// A file in the place of its reference, or why it is not there.
    fn put(
        &mut self,
        reference: &Reference,
        chain: &mut Vec<String>,
        page: &mut Page,
    ) -> Result<(), LoadError> {
        let (place, text) = match self.read(reference, chain) {
            Ok(found) => found,
            Err(Missing::Nothing(_)) if !reference.certain => {
                page.words(&reference.written);
                return Ok(());
            }
            Err(missing) => {
                page.words(&format!("{} [not read: {missing}]", reference.written));
                self.found.push(FileExpansion {
                    reference: reference.written.clone(),
                    resolved: false,
                    content: None,
                    error: Some(missing.to_string()),
                });
                return Ok(());
            }
        };
        if chain.contains(&place) {
            chain.push(place.clone());
            let from = chain.iter().position(|one| *one == place).unwrap_or(0);
            return Err(LoadError::circular(chain[from..].to_vec()));
        }
        self.found.push(FileExpansion {
            reference: reference.written.clone(),
            resolved: true,
            content: Some(text.clone()),
            error: None,
        });
        page.block(&loading::included(
            &place,
            &self.followed(&place, text, chain)?,
        ));
        Ok(())
    }

    /// A file's text with the files that it refers to.
    fn followed(
        &mut self,
        place: &str,
        text: String,
        chain: &mut Vec<String>,
    ) -> Result<String, LoadError> {
        if !template::is_markdown(place) {
            return Ok(text);
        }
        chain.push(place.to_owned());
        let mut page = Page::default();
        for piece in template::read_included(&text) {
            match piece {
                Piece::Text(text) => page.words(&text),
                Piece::File(reference) => self.put(&reference, chain, &mut page)?,
                Piece::Command(inline) => page.words(&format!("!`{}`", inline.command)),
            }
        }
        chain.pop();
        Ok(page.into_text())
    }
}
