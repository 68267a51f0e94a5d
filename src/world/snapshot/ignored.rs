//! Ignore rules of a repository around the workspace, as they read from the workspace.
//!
//! A workspace that is a subfolder gets a shelf of its own, whose git does not look above it; what the repository
//! ignores there must not get into snapshots all the same.

use globset::Glob;
use std::fs;
use std::path::{Path, PathBuf};

const FILE_BYTES_MAX: u64 = 1_000_000;

/// The rules from above, nearest last; empty where there is no repository around.
pub fn from_above(root: &Path) -> String {
    let has_git = |folder: &&Path| folder.join(".git").symlink_metadata().is_ok();
    let Some(top) = root.ancestors().skip(1).find(has_git) else {
        return String::new();
    };
    let mut files = vec![(top.to_owned(), top.join(".git/info/exclude"))];
    let mut folders: Vec<&Path> = root
        .ancestors()
        .skip(1)
        .take_while(|folder| folder.starts_with(top))
        .collect();
    folders.reverse();
    files.extend(
        folders
            .iter()
            .map(|folder| ((*folder).to_owned(), folder.join(".gitignore"))),
    );
    let mut rules = String::new();
    for (folder, file) in files {
        let Ok(inside) = root.strip_prefix(&folder) else {
            continue;
        };
        for line in read(&file).lines() {
            if let Some(rule) = seen_from(line, inside) {
                rules.push_str(&rule);
                rules.push('\n');
            }
        }
    }
    rules
}

fn read(file: &PathBuf) -> String {
    let small = fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.len() <= FILE_BYTES_MAX);
    match small {
        true => fs::read_to_string(file).unwrap_or_default(),
        false => String::new(),
    }
}

/// One rule, from a folder further down; `None` where it says nothing about what is there.
fn seen_from(line: &str, inside: &Path) -> Option<String> {
    if line.trim().is_empty() || line.starts_with('#') {
        return None;
    }
    let (not, rule) = match line.strip_prefix('!') {
        Some(rule) => ("!", rule),
        None => ("", line),
    };
    let is_anchored = rule.trim_end().trim_end_matches('/').contains('/');
    if !is_anchored || rule.starts_with("**/") {
        return Some(line.to_owned());
    }
    let mut parts = rule.trim_start_matches('/').split('/').peekable();
    for folder in inside {
        let part = parts.next()?;
        if part == "**" {
            // It may stand for any number of folders: the rest holds at any depth.
            return Some(format!("{not}**/{}", parts.collect::<Vec<_>>().join("/")));
        }
        let fits = Glob::new(part).is_ok_and(|glob| glob.compile_matcher().is_match(folder));
        // Where the workspace itself is ignored, the person works there all the same.
        parts.peek().filter(|rest| fits && !rest.is_empty())?;
    }
    Some(format!("{not}/{}", parts.collect::<Vec<_>>().join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, seen: Option<&str>) {
        assert_eq!(
            seen_from(line, Path::new("apps/shop")).as_deref(),
            seen,
            "{line}"
        );
    }

    #[test]
    fn reads_rules_from_a_folder_further_down() {
        check("target/", Some("target/"));
        check("!*.log", Some("!*.log"));
        check("**/build", Some("**/build"));
        check("/apps/shop/dist", Some("/dist"));
        check("apps/*/out/x", Some("/out/x"));
        check("!apps/shop/keep", Some("!/keep"));
        check("apps/**/cache", Some("**/cache"));
        check("/apps/other/dist", None);
        check("/apps/", None);
        check("/apps/shop/", None);
        check("# no rule", None);
    }
}
