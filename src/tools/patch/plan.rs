//! What a patch makes of the files of a workspace: read, changed in memory, nothing written.

use super::{Args, Change, Script, Step, hunks, replace, unified};
use crate::agent::event::{Expectation, ExpectedFile};
use crate::tools::encoding::{Encoding, decode, encode};
use crate::world::workspace::{FileMode, Standing, Swap, Workspace, digest_of};
use std::sync::Arc;

/// Of all files of one patch, as they are: all of them are held at once, each up to four times.
pub const FILES_BYTES_MAX: usize = 50_000_000;

/// Files before and after, and what was overlooked to make the patch fit.
#[derive(Debug)]
pub struct Plan {
    pub files: Vec<Planned>,
    pub remarks: Vec<String>,
}

/// A file as it is and as it will be. `None`: it is not there.
#[derive(Debug)]
pub struct Planned {
    /// Its one name, relative to the root.
    pub path: String,
    pub before: Option<Content>,
    pub after: Option<Content>,
    /// Its name before it was moved here.
    pub from: Option<String>,
    /// Where it was moved to.
    pub to: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Content {
    pub text: String,
    /// Shared, for a file can be large.
    pub bytes: Arc<[u8]>,
    encoding: Encoding,
    mode: FileMode,
}

impl Plan {
    /// What a probe will look for.
    pub fn expectation(&self) -> Expectation {
        let digest = |content: &Option<Content>| content.as_ref().map(|c| digest_of(&c.bytes));
        let files = self.files.iter().map(|file| ExpectedFile {
            path: file.path.clone(),
            before: digest(&file.before),
            after: digest(&file.after),
        });
        Expectation {
            files: files.collect(),
            ..Expectation::default()
        }
    }

    pub fn swaps(&self) -> Vec<Swap> {
        let side = |content: &Option<Content>| {
            let content = content.as_ref()?;
            Some((content.bytes.clone(), content.mode))
        };
        let swap = |file: &Planned| Swap {
            path: file.path.clone(),
            before: side(&file.before),
            after: side(&file.after),
        };
        self.files.iter().map(swap).collect()
    }
}

/// Reads the files and applies the steps to their texts, in order. Every step that fails is in the error.
///
/// # Errors
/// A text for the model.
pub fn plan(args: &Args, workspace: &Workspace) -> Result<Plan, String> {
    let nothing = |why: String| format!("Nothing was changed, in no file. {why}");
    let script = Script::read(args).map_err(&nothing)?;
    let mut desk = Desk {
        workspace,
        files: Vec::new(),
        bytes: 0,
        remarks: script.remarks,
    };
    let mut errors = Vec::new();
    for step in &script.steps {
        if let Err(error) = desk.step(step) {
            errors.push(format!("{} ({}): {error}", step.name, step.path));
        }
    }
    if errors.is_empty()
        && let Err(error) = desk.settle()
    {
        errors.push(error);
    }
    match errors.is_empty() {
        true => Ok(Plan {
            files: desk.files,
            remarks: desk.remarks,
        }),
        false => Err(nothing(errors.join("\n\n"))),
    }
}

struct Desk<'a> {
    workspace: &'a Workspace,
    files: Vec<Planned>,
    /// Read so far.
    bytes: usize,
    remarks: Vec<String>,
}

impl Desk<'_> {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        let at = self.open(&step.path)?;
        match &step.change {
            Change::Replace { search, replace } => {
                let text = replace::replace_once(&self.there(at)?.text, search, replace)?;
                self.there(at)?.text = text;
            }
            Change::Add {
                content,
                executable,
            } => self.add(at, content, *executable)?,
            Change::Delete { hunks } => {
                let text = &self.there(at)?.text;
                if !hunks.is_empty() && !hunks::apply(text, hunks)?.0.is_empty() {
                    return Err("the patch deletes the file, but does not name all of its lines; read_lines shows them".into());
                }
                self.files[at].after = None;
            }
            Change::Update { to, hunks, exact } => {
                let text = &self.there(at)?.text;
                let exact = exact.as_ref();
                let exact = exact.and_then(|exact| unified::exact(text, exact, hunks.len()));
                let (text, remarks) = match exact {
                    Some(text) => (text, Vec::new()),
                    None => hunks::apply(text, hunks)?,
                };
                self.there(at)?.text = text;
                let path = &step.path;
                self.remarks
                    .extend(remarks.iter().map(|remark| format!("{path}: {remark}")));
                if let Some(to) = to {
                    self.move_to(at, to)?;
                }
            }
        }
        Ok(())
    }

    /// The file of a path, read once. One name for one file: two names of it must not undo each other's edits.
    fn open(&mut self, path: &str) -> Result<usize, String> {
        let (place, before) = match self.workspace.standing(path).map_err(|e| e.to_string())? {
            Standing::Link { target } => {
                return Err(format!(
                    "it is a symbolic link to {target}, and links are not followed; patch the file itself"
                ));
            }
            Standing::Nothing { place } => (place, false),
            Standing::Something { place } => (place, true),
        };
        if let Some(at) = self.files.iter().position(|file| file.path == place) {
            return Ok(at);
        }
        let before = match before {
            true => Some(self.read(&place)?),
            false => None,
        };
        self.files.push(Planned {
            path: place,
            after: before.clone(),
            before,
            from: None,
            to: None,
        });
        Ok(self.files.len() - 1)
    }

    fn read(&mut self, place: &str) -> Result<Content, String> {
        let (bytes, mode) = self
            .workspace
            .read_bytes(place)
            .map_err(|e| e.to_string())?;
        self.bytes += bytes.len();
        if self.bytes > FILES_BYTES_MAX {
            return Err(format!(
                "the files of this patch have more than {FILES_BYTES_MAX} bytes together; patch fewer of them in one call"
            ));
        }
        let (text, encoding) = decode(place, &bytes)?;
        Ok(Content {
            text,
            bytes: bytes.into(),
            encoding,
            mode: FileMode::Exactly(mode),
        })
    }

    fn there(&mut self, at: usize) -> Result<&mut Content, String> {
        let file = &mut self.files[at];
        file.after.as_mut().ok_or_else(|| {
            "no such file or folder in the workspace; list_files shows what is there. A new file is made by write_file, or by *** Add File in a patch".to_owned()
        })
    }

    fn add(&mut self, at: usize, content: &str, executable: bool) -> Result<(), String> {
        let file = &mut self.files[at];
        if file.after.is_some() {
            return Err(
                "the file exists already; update it, or delete it first in the same patch".into(),
            );
        }
        file.after = Some(Content {
            text: content.to_owned(),
            bytes: Arc::default(),
            encoding: Encoding::Utf8,
            mode: match executable {
                true => FileMode::Executable,
                false => FileMode::Usual,
            },
        });
        Ok(())
    }

    fn move_to(&mut self, at: usize, to: &str) -> Result<(), String> {
        let new = self.open(to).map_err(|error| format!("{to}: {error}"))?;
        if new == at {
            return Ok(());
        }
        if self.files[new].after.is_some() {
            return Err(format!(
                "{to} exists already; delete it first in the same patch, or move to another name"
            ));
        }
        self.files[new].after = self.files[at].after.take();
        self.files[new].from = Some(self.files[at].path.clone());
        self.files[at].to = Some(self.files[new].path.clone());
        Ok(())
    }

    /// The bytes of what is new; a file that stays what it is, is an error, as the model means something else.
    fn settle(&mut self) -> Result<(), String> {
        self.files
            .retain(|file| file.before.is_some() || file.after.is_some());
        for file in &mut self.files {
            if let Some(after) = &mut file.after {
                after.bytes = encode(&file.path, &after.text, after.encoding)?.into();
            }
            let (before, after) = (&file.before, &file.after);
            if before.as_ref().map(|c| &c.bytes) == after.as_ref().map(|c| &c.bytes) {
                return Err(format!(
                    "{}: the edits change nothing; what is put in is the same as what is there",
                    file.path
                ));
            }
        }
        if self.files.is_empty() {
            return Err("the patch changes nothing".into());
        }
        let is_folder_of = |path: &str, other: &Planned| {
            let rest = other.path.strip_prefix(path);
            other.after.is_some() && rest.is_some_and(|rest| rest.starts_with('/'))
        };
        let clash = self.files.iter().find(|file| {
            file.after.is_some()
                && self
                    .files
                    .iter()
                    .any(|other| is_folder_of(&file.path, other))
        });
        match clash {
            Some(file) => Err(format!(
                "{} would be a file and a folder at once",
                file.path
            )),
            None => Ok(()),
        }
    }
}
