//! Which of the files that git lists belong into a snapshot. Looks at names, kinds and sizes; opens nothing.

use crate::agent::event::Names;
use crate::agent::step::Policy;
use crate::gate::names_secret;
use nix::unistd::{AccessFlags, access};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What git is to do, names ended by NUL.
#[derive(Debug, Default)]
pub struct Found {
    /// To be added, or removed where they are gone.
    pub changed: Vec<u8>,
    /// In the index, and no longer to be there although they exist.
    pub forgotten: Vec<u8>,
    pub left_out: Names,
}

impl Found {
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.forgotten.is_empty()
    }
}

/// Sorts what `git ls-files -t -z` lists: `? name` is not in the index, any other tag is.
pub fn look_at(root: &Path, policy: &Policy, listed: &[u8]) -> Found {
    let mut found = Found::default();
    for line in listed
        .split(|byte| *byte == 0)
        .filter(|line| line.len() > 2)
    {
        let (is_new, name) = (line[0] == b'?', &line[2..]);
        match why_not(root, policy, name) {
            None => push(&mut found.changed, name),
            Some(why) => {
                if !is_new {
                    push(&mut found.forgotten, name);
                }
                let name = String::from_utf8_lossy(name);
                found.left_out.add(&format!("{name} ({why})"));
            }
        }
    }
    found
}

fn push(names: &mut Vec<u8>, name: &[u8]) {
    names.extend_from_slice(name);
    names.push(0);
}

/// Why a file is left out.
fn why_not(root: &Path, policy: &Policy, name: &[u8]) -> Option<String> {
    if name.ends_with(b"/") {
        return Some("a repository of its own".into());
    }
    if names_secret(&policy.gate, &String::from_utf8_lossy(name)) {
        return Some("secret".into());
    }
    let path = root.join(OsStr::from_bytes(name));
    // What is gone is taken out of the tree.
    let meta = path.symlink_metadata().ok()?;
    let max = policy.limits.checkpoint_file_bytes_max;
    if meta.is_file() && meta.len() > max {
        return Some(format!("more than {max} bytes"));
    }
    if meta.is_file() && access(&path, AccessFlags::R_OK).is_err() {
        return Some("not readable".into());
    }
    None
}
