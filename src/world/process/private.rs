//! Temporary folders of commands that nobody removed.

use crate::world::confine::PRIVATE_FOLDER;
use std::fs::{Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// When a temporary folder is taken for abandoned.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Removes what a killed server could not. No command runs that long, so nobody uses it any more.
pub fn sweep(folder: &Path) {
    let ours = |meta: &Metadata| meta.is_dir() && meta.uid() == nix::unistd::geteuid().as_raw();
    let old = |meta: &Metadata| {
        let age = meta.modified().ok().and_then(|then| then.elapsed().ok());
        age.is_some_and(|age| age > ABANDONED_AFTER)
    };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let named = is_private(&entry.path());
        // Not through a link: this is what is there, and in a sticky folder nobody else can replace it.
        let meta = entry.path().symlink_metadata();
        if named && meta.is_ok_and(|meta| ours(&meta) && old(&meta)) {
            // Next time, perhaps.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether it is called as ours are.
pub fn is_private(folder: &Path) -> bool {
    let name = folder.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| name.starts_with(PRIVATE_FOLDER))
}

/// A fresh folder that nobody else can look into; removed when it is dropped.
pub fn private_folder() -> io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix(PRIVATE_FOLDER)
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
}
