//! Finds journals: all of a data folder, or one by its id or the beginning of it.

use super::CliError;
use std::fs;
use std::path::{Path, PathBuf};

/// Ids that are offered in place of one that is not there.
const NEAREST_MAX: usize = 3;

/// The journals of a data folder, by name.
pub fn journals(data_dir: &Path) -> Result<Vec<PathBuf>, CliError> {
    let folder = data_dir.join("agent_sessions");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    journals_in(&folder).map_err(CliError::Failed)
}

/// The journals that lie in a folder, by name.
///
/// # Errors
/// A sentence that names the folder.
pub fn journals_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let fail = |error: std::io::Error| format!("read {}: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "jsonl")
        {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The session that is meant by an id or the beginning of one.
///
/// # Errors
/// [`CliError::Use`] where none or several are meant, with those that come near.
pub fn session(data_dir: &Path, said: &str) -> Result<String, CliError> {
    let paths = journals(data_dir)?;
    let ids = paths.iter().filter_map(|path| path.file_stem()?.to_str());
    choose(said, &ids.collect::<Vec<_>>()).map_err(CliError::Use)
}

/// The journal of the session that is meant.
///
/// # Errors
/// As [`session`].
pub fn journal(data_dir: &Path, said: &str) -> Result<PathBuf, CliError> {
    let id = session(data_dir, said)?;
    Ok(data_dir.join("agent_sessions").join(format!("{id}.jsonl")))
}

fn choose(said: &str, ids: &[&str]) -> Result<String, String> {
    if ids.contains(&said) {
        return Ok(said.to_owned());
    }
    let begin: Vec<_> = ids
        .iter()
        .filter(|id| !said.is_empty() && id.starts_with(said))
        .collect();
    match begin[..] {
        [one] => Ok((*one).to_owned()),
        [] => Err(missing(said, ids)),
        _ => {
            let named: Vec<_> = begin.iter().take(NEAREST_MAX).map(|id| **id).collect();
            let count = begin.len();
            Err(format!(
                "{count} sessions begin with {said:?}, among them {}; say more of the id",
                named.join(", ")
            ))
        }
    }
}

fn missing(said: &str, ids: &[&str]) -> String {
    let mut scored: Vec<_> = ids
        .iter()
        .map(|id| (strsim::levenshtein(said, id), *id))
        .collect();
    scored.sort_unstable();
    let nearest: Vec<_> = scored
        .iter()
        .filter(|(edits, _)| *edits * 2 <= said.len())
        .take(NEAREST_MAX)
        .map(|(_, id)| *id)
        .collect();
    let nearest = match nearest.is_empty() {
        true => String::new(),
        false => format!(" The nearest: {}.", nearest.join(", ")),
    };
    format!("there is no session {said:?}.{nearest} `journeyman sessions` lists all")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_by_its_beginning_and_otherwise_the_nearest_are_named() {
        let ids = ["20261122-001449-ca4ca3", "20261122-001826-407910"];
        assert_eq!(choose(ids[0], &ids).as_deref(), Ok(ids[0]));
        assert_eq!(choose("20261122-0014", &ids).as_deref(), Ok(ids[0]));
        let several = choose("2026", &ids).expect_err("two");
        assert!(
            several.contains("2 sessions") && several.contains(ids[1]),
            "{several}"
        );
        let typo = choose("20261122-001449-ca4ca4", &ids).expect_err("none");
        assert!(typo.contains(&format!("nearest: {}", ids[0])), "{typo}");
        let far = choose("../../etc/passwd", &ids).expect_err("none");
        assert!(!far.contains("nearest"), "{far}");
        assert!(choose("", &ids).is_err());
    }
}
