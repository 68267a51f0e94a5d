//! Looks up what the gate must know and may not find out itself: where paths lead, what programs are.

use crate::gate::{Facts, PathFact, Place, ProgramFact, Wants};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

const SYSTEM_FOLDERS: &[&str] = &[
    "/bin",
    "/sbin",
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
];

/// Where things are on this machine.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The program's own data and configuration folders.
    pub own: Vec<PathBuf>,
    pub home: Option<PathBuf>,
    /// The `PATH` that commands will get.
    pub path: Vec<PathBuf>,
}

/// The facts that `wants` asks for, seen from `root`. `linked`: folders that are part of it, though they lie elsewhere.
pub fn facts(wants: &Wants, root: &Path, linked: &[PathBuf], surroundings: &Surroundings) -> Facts {
    let paths = wants
        .paths
        .iter()
        .map(|path| (path.clone(), path_fact(path, root, linked, surroundings)));
    let programs = wants
        .programs
        .iter()
        .map(|name| (name.clone(), program_fact(name, root, surroundings)));
    Facts {
        paths: paths.collect(),
        programs: programs.collect(),
        ..Facts::default()
    }
}

fn path_fact(
    written: &str,
    root: &Path,
    linked: &[PathBuf],
    surroundings: &Surroundings,
) -> PathFact {
    let resolved = follow(&absolute(written, root, surroundings.home.as_deref()));
    let place = match place(&resolved, root, &surroundings.own) {
        Place::Outside if linked.iter().any(|one| resolved.starts_with(one)) => Place::Workspace,
        place => place,
    };
    PathFact {
        exists: resolved.symlink_metadata().is_ok(),
        resolved: resolved.to_string_lossy().into_owned(),
        place,
    }
}

fn absolute(written: &str, root: &Path, home: Option<&Path>) -> PathBuf {
    match (written.strip_prefix('~'), home) {
        (Some(""), Some(home)) => home.to_owned(),
        (Some(rest), Some(home)) if rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        // Somebody's home folder, or `~+` and `~-`: unless a file is really called so, it leads away.
        (Some(rest), _) if rest.contains('/') && root.join(written).symlink_metadata().is_err() => {
            Path::new("/").join(written)
        }
        _ => root.join(written),
    }
}

/// Follows links as far as the path exists; the rest is taken word for word, `..` included.
fn follow(path: &Path) -> PathBuf {
    let mut known = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            Component::ParentDir => {
                known.pop();
            }
            Component::Normal(name) => {
                known.push(name);
                match fs::canonicalize(&known) {
                    Ok(real) => known = real,
                    Err(_) if known.symlink_metadata().is_ok() => known = dangling(&known),
                    Err(_) => {}
                }
            }
        }
    }
    known
}

/// A link to something that does not exist still leads where it points.
fn dangling(link: &Path) -> PathBuf {
    match (fs::read_link(link), link.parent()) {
        (Ok(target), Some(folder)) => lexical(&folder.join(target)),
        _ => link.to_owned(),
    }
}

fn lexical(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    clean
}

fn place(resolved: &Path, root: &Path, own: &[PathBuf]) -> Place {
    if own.iter().any(|folder| resolved.starts_with(folder)) {
        return Place::OwnData;
    }
    let Ok(inside) = resolved.strip_prefix(root) else {
        return Place::Outside;
    };
    match inside
        .components()
        .any(|component| component.as_os_str() == ".git")
    {
        true => Place::GitInternals,
        false => Place::Workspace,
    }
}

fn program_fact(name: &str, root: &Path, surroundings: &Surroundings) -> ProgramFact {
    if name.contains('/') {
        let written = absolute(name, root, surroundings.home.as_deref());
        let known_folder = written.parent().is_some_and(|folder| {
            SYSTEM_FOLDERS
                .iter()
                .any(|system| folder == Path::new(system))
                || surroundings.path.iter().any(|known| folder == known)
        });
        return match written.is_file() {
            true if known_folder => judge_program(&written, root),
            true => ProgramFact::Untrusted {
                path: written.to_string_lossy().into_owned(),
            },
            false => ProgramFact::Missing,
        };
    }
    let found = surroundings
        .path
        .iter()
        // A relative folder of `PATH` is looked up where the command runs.
        .map(|folder| root.join(folder).join(name))
        .find(|path| is_executable(path));
    match found {
        Some(path) => judge_program(&path, root),
        None => ProgramFact::Missing,
    }
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
}

fn judge_program(path: &Path, root: &Path) -> ProgramFact {
    let shown = path.to_string_lossy().into_owned();
    let real = follow(path);
    let folders = [path.parent(), real.parent()].into_iter().flatten();
    let loose = folders
        .into_iter()
        .any(|folder| folder.starts_with(root) || world_writable(folder));
    let owner = fs::metadata(&real).map(|meta| (meta.uid(), meta.mode()));
    match owner {
        _ if loose => ProgramFact::Untrusted { path: shown },
        Ok((_, mode)) if mode & 0o002 != 0 => ProgramFact::Untrusted { path: shown },
        Ok((0, _)) => ProgramFact::System { path: shown },
        Ok(_) => ProgramFact::User { path: shown },
        Err(_) => ProgramFact::Missing,
    }
}

/// Anyone may put a program there, or a folder in its place.
fn world_writable(folder: &Path) -> bool {
    const OTHERS_WRITE: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    let mode = |folder: &Path| fs::metadata(folder).map(|meta| meta.mode()).unwrap_or(0);
    let open_above = |above: &Path| mode(above) & OTHERS_WRITE != 0 && mode(above) & STICKY == 0;
    mode(folder) & OTHERS_WRITE != 0 || folder.ancestors().skip(1).any(open_above)
}
