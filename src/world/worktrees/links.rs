//! Ignored folders of the person's that builds need (`.venv`, `node_modules`), linked into a worktree.
//!
//! Not the folder but each entry in it is a link: `node_modules/` in a `.gitignore` means folders only. What they lead to may
//! be read by commands and not written: what a command left there would run with the person's next build.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Of one folder.
const ENTRIES_MAX: usize = 20_000;

/// Links the entries of these folders.
///
/// # Errors
/// In words, where the disk failed.
pub fn make(checkout: &Path, tree: &Path, names: &[String]) -> Result<(), String> {
    for name in names {
        let (from, to) = (checkout.join(name), tree.join(name));
        if to.symlink_metadata().is_ok() {
            continue;
        }
        link_entries(&from, &to).map_err(|error| format!("link {}: {error}", from.display()))?;
    }
    Ok(())
}

fn link_entries(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)?.take(ENTRIES_MAX) {
        let entry = entry?;
        symlink(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// The folders that the links of a worktree lead to.
pub fn of(checkout: &Path, tree: &Path, names: &[String]) -> Vec<String> {
    let is_folder = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    let linked = |name: &&String| is_folder(&checkout.join(name)) && is_folder(&tree.join(name));
    let path = |name: &String| checkout.join(name).to_string_lossy().into_owned();
    names.iter().filter(linked).map(path).collect()
}
