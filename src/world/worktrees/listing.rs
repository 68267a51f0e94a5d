//! What git lists of a folder, byte for byte: names of files need not be UTF-8.

use super::WITHOUT_LFS;
use crate::agent::event::{CallId, Names};
use crate::world::process::{Exit, Finished, Processes};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A file's name within its repository.
pub type Name = Vec<u8>;
/// What a file is: mode and object id; `None` where it is not there.
pub type Entry = Option<(String, String)>;

const MODE_GONE: &str = "000000";

/// A file that is not as the last commit has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dirt {
    /// What `git add` was told of it differs from the commit.
    pub staged: bool,
    /// The file differs from that.
    pub unstaged: bool,
}

/// git in one folder.
pub struct Repository {
    pub processes: Processes,
    pub folder: PathBuf,
}

impl Repository {
    /// # Errors
    /// What git says, in a sentence.
    pub async fn git(
        &self,
        args: &[&str],
        stdin: Option<Vec<u8>>,
        variables: &[(&str, &str)],
    ) -> Result<Vec<u8>, String> {
        let finished = self.run(args, stdin, variables).await;
        printed(args, finished)
    }

    pub async fn run(
        &self,
        args: &[&str],
        stdin: Option<Vec<u8>>,
        variables: &[(&str, &str)],
    ) -> Finished {
        let call = CallId("worktree".into());
        let variables: Vec<_> = [WITHOUT_LFS]
            .iter()
            .chain(variables)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let (processes, folder) = (&self.processes, &self.folder);
        processes
            .git_with(&call, folder, args, stdin, &variables)
            .await
    }

    pub async fn line(&self, args: &[&str]) -> Result<String, String> {
        let printed = self.git(args, None, &[]).await?;
        Ok(String::from_utf8_lossy(&printed).trim_end().to_owned())
    }

    /// Everything that is not committed, new files included.
    pub async fn dirt(&self) -> Result<BTreeMap<Name, Dirt>, String> {
        let args = [
            "status",
            "--porcelain=v1",
            "-z",
            "--no-renames",
            "--untracked-files=all",
            "--ignore-submodules=all",
        ];
        let listed = self.git(&args, None, &[]).await?;
        // `XY NAME`
        let dirt = |line: &[u8]| match line {
            [staged, unstaged, b' ', name @ ..] => {
                let is_new = *staged == b'?';
                let dirt = Dirt {
                    staged: *staged != b' ' && !is_new,
                    unstaged: *unstaged != b' ',
                };
                Some((name.to_owned(), dirt))
            }
            _ => None,
        };
        Ok(listed.split(|byte| *byte == 0).filter_map(dirt).collect())
    }

    /// The files in which two commits or trees differ, with what they are in the second one, and whether they are in the
    /// first.
    pub async fn changes(
        &self,
        before: &str,
        after: &str,
    ) -> Result<BTreeMap<Name, (bool, Entry)>, String> {
        let args = [
            "diff-tree",
            "-r",
            "-z",
            "--raw",
            "--no-renames",
            "--no-abbrev",
            before,
            after,
        ];
        let listed = self.git(&args, None, &[]).await?;
        let mut parts = listed.split(|byte| *byte == 0);
        let mut changes = BTreeMap::new();
        while let (Some(meta), Some(name)) = (parts.next(), parts.next()) {
            // `:MODE MODE ID ID STATUS`
            let meta = String::from_utf8_lossy(meta);
            let words: Vec<&str> = meta.trim_start_matches(':').split(' ').collect();
            let [old_mode, mode, _, id, _] = words[..] else {
                continue;
            };
            let entry = (mode != MODE_GONE).then(|| (mode.to_owned(), id.to_owned()));
            changes.insert(name.to_owned(), (old_mode != MODE_GONE, entry));
        }
        Ok(changes)
    }

    /// What git would commit of these files as they lie in the folder, by an index of its own.
    pub async fn entries_of(
        &self,
        names: &BTreeSet<&Name>,
        index: &Path,
    ) -> Result<BTreeMap<Name, (String, String)>, String> {
        let _ = std::fs::remove_file(index); // of an attempt that died
        let path = index.to_string_lossy();
        let variables = [("GIT_INDEX_FILE", &*path)];
        let args = ["update-index", "--add", "--remove", "-z", "--stdin"];
        // In the place of a file that is gone.
        let is_file = |name: &&Name| !self.path(name).is_dir() || self.path(name).is_symlink();
        let listed = ended_by_nul(names.iter().copied().filter(is_file));
        let put = self.git(&args, Some(listed), &variables).await;
        let listed = match put {
            Ok(_) => self.git(&["ls-files", "-s", "-z"], None, &variables).await,
            Err(why) => Err(why),
        };
        let _ = std::fs::remove_file(index); // it was never anything but a means
        let mut entries = BTreeMap::new();
        for line in listed?.split(|byte| *byte == 0) {
            // `MODE ID STAGE<TAB>NAME`
            let Some(tab) = line.iter().position(|byte| *byte == b'\t') else {
                continue;
            };
            let meta = String::from_utf8_lossy(&line[..tab]);
            if let [mode, id, _] = meta.split(' ').collect::<Vec<_>>()[..] {
                entries.insert(line[tab + 1..].to_vec(), (mode.to_owned(), id.to_owned()));
            }
        }
        Ok(entries)
    }

    pub fn path(&self, name: &Name) -> PathBuf {
        self.folder.join(OsString::from_vec(name.clone()))
    }
}

/// Names as git reads them with `-z`.
pub fn ended_by_nul<'a>(names: impl Iterator<Item = &'a Name>) -> Vec<u8> {
    names.flat_map(|name| [name, &b"\0"[..]].concat()).collect()
}

pub fn shown<'a>(names: impl Iterator<Item = &'a Name>) -> Names {
    let mut shown = Names::default();
    names.for_each(|name| shown.add(&String::from_utf8_lossy(name)));
    shown
}

/// What git printed; an error is a sentence.
fn printed(args: &[&str], finished: Finished) -> Result<Vec<u8>, String> {
    let said = finished.stderr.text();
    let verb = args.first().copied().unwrap_or_default();
    match finished.exit {
        Exit::Code(0) if finished.stdout.omitted_bytes > 0 => {
            Err(format!("git {verb} lists too many files"))
        }
        Exit::Code(0) => Ok([finished.stdout.head, finished.stdout.tail].concat()),
        Exit::NotStarted(why) => Err(format!("git did not start: {why}")),
        Exit::TimedOut => Err(format!("git {verb} took too long and was stopped")),
        Exit::Cancelled => Err("the person stopped it".into()),
        Exit::Code(_) | Exit::Signal(_) | Exit::Lost => {
            Err(format!("git {verb} failed: {}", said.trim()))
        }
    }
}
