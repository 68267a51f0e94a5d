//! A repository's settings as bytes, for another process to put back: fields with their length before them.

use super::{Files, GitGuard};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

impl GitGuard {
    pub fn write_into(&self, bytes: &mut Vec<u8>) {
        put_path(bytes, &self.workspace);
        let pointer = self
            .pointer
            .iter()
            .map(|kept| (String::new(), kept.clone()));
        put_files(bytes, &pointer.collect());
        let (folder, files) = self.repository.clone().unwrap_or_default();
        put_path(bytes, &folder);
        put_files(bytes, &files);
    }

    /// `None` where something is missing.
    pub fn read_from(mut bytes: &[u8]) -> Option<Self> {
        let rest = &mut bytes;
        let workspace = next_path(rest)?;
        let pointer = next_files(rest)?.into_values().next();
        let (folder, files) = (next_path(rest)?, next_files(rest)?);
        let has_repository = !folder.as_os_str().is_empty();
        Some(Self {
            workspace,
            pointer,
            repository: has_repository.then_some((folder, files)),
        })
    }
}

fn put_path(bytes: &mut Vec<u8>, path: &Path) {
    put_field(bytes, path.as_os_str().as_encoded_bytes());
}

fn next_path(rest: &mut &[u8]) -> Option<PathBuf> {
    next_field(rest).map(|field| PathBuf::from(OsStr::from_bytes(field)))
}

fn put_files(bytes: &mut Vec<u8>, files: &Files) {
    put_field(bytes, &files.len().to_le_bytes());
    for (name, (content, mode)) in files {
        put_field(bytes, name.as_bytes());
        put_field(bytes, &mode.to_le_bytes());
        put_field(bytes, content);
    }
}

fn next_files(rest: &mut &[u8]) -> Option<Files> {
    let count = usize::from_le_bytes(next_field(rest)?.try_into().ok()?);
    let mut files = Files::new();
    for _ in 0..count {
        let name = std::str::from_utf8(next_field(rest)?).ok()?.to_owned();
        let mode = u32::from_le_bytes(next_field(rest)?.try_into().ok()?);
        files.insert(name, (next_field(rest)?.to_vec(), mode));
    }
    Some(files)
}

pub fn put_field(bytes: &mut Vec<u8>, field: &[u8]) {
    bytes.extend_from_slice(&field.len().to_le_bytes());
    bytes.extend_from_slice(field);
}

pub fn next_field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk()?;
    let (field, after) = after.split_at_checked(usize::from_le_bytes(*length))?;
    *rest = after;
    Some(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_as_it_was_and_not_at_all_when_torn() {
        let file = |text: &[u8], mode| (text.to_vec(), mode);
        let guard = GitGuard {
            workspace: "/w".into(),
            pointer: Some(file(b"gitdir: /r/.git/worktrees/w\n", 0o644)),
            repository: Some((
                "/r/.git".into(),
                Files::from([
                    ("config".into(), file(b"[core]\n", 0o644)),
                    ("hooks/pre-commit".into(), file(b"\xff\0", 0o755)),
                ]),
            )),
        };
        let mut bytes = Vec::new();
        guard.write_into(&mut bytes);
        let read = GitGuard::read_from(&bytes).expect("it is whole");
        assert_eq!(
            (&read.workspace, &read.pointer, &read.repository),
            (&guard.workspace, &guard.pointer, &guard.repository)
        );
        for end in 0..bytes.len() {
            assert!(GitGuard::read_from(&bytes[..end]).is_none(), "{end}");
        }
    }
}
