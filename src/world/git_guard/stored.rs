//! A repository's settings as bytes, for another process to put back: fields with their length before them.

use super::{Files, GitGuard};
use std::path::PathBuf;

impl GitGuard {
    pub fn write_into(&self, bytes: &mut Vec<u8>) {
        let root = self.root.as_deref().map(|root| root.as_os_str());
        put_field(bytes, root.unwrap_or_default().as_encoded_bytes());
        put_field(bytes, self.folder.as_os_str().as_encoded_bytes());
        put_field(bytes, &self.before.len().to_le_bytes());
        for (name, (content, mode)) in &self.before {
            put_field(bytes, name.as_bytes());
            put_field(bytes, &mode.to_le_bytes());
            put_field(bytes, content);
        }
    }

    /// `None` where something is missing.
    pub fn read_from(mut bytes: &[u8]) -> Option<Self> {
        let rest = &mut bytes;
        let path = |field: &[u8]| PathBuf::from(&*String::from_utf8_lossy(field));
        let root = next_field(rest).map(path)?;
        let folder = next_field(rest).map(path)?;
        let files = usize::from_le_bytes(next_field(rest)?.try_into().ok()?);
        let mut before = Files::new();
        for _ in 0..files {
            let name = std::str::from_utf8(next_field(rest)?).ok()?.to_owned();
            let mode = u32::from_le_bytes(next_field(rest)?.try_into().ok()?);
            before.insert(name, (next_field(rest)?.to_vec(), mode));
        }
        Some(Self {
            root: Some(root).filter(|root| !root.as_os_str().is_empty()),
            folder,
            before,
        })
    }
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
            root: None,
            folder: "/w/.git".into(),
            before: Files::from([
                ("config".into(), file(b"[core]\n", 0o644)),
                ("hooks/pre-commit".into(), file(b"\xff\0", 0o755)),
            ]),
        };
        let mut bytes = Vec::new();
        guard.write_into(&mut bytes);
        let read = GitGuard::read_from(&bytes).expect("it is whole");
        assert_eq!(
            (&read.root, &read.folder, &read.before),
            (&guard.root, &guard.folder, &guard.before)
        );
        for end in 0..bytes.len() {
            assert!(GitGuard::read_from(&bytes[..end]).is_none(), "{end}");
        }
    }
}
