//! What a branch may be told without asking: `git switch` and `git branch` note it in the configuration, and none of it
//! runs anything. Only the form that git itself writes is recognised.

use super::Kept;

const BRANCH_KEYS: &[&str] = &[
    "remote",
    "merge",
    "rebase",
    "pushRemote",
    "vscode-merge-base",
];

/// Whether the rest is the same when plain entries of `[branch "…"]` are left out. Only the form that git itself
/// writes is recognised; anything cleverer counts as a difference.
pub fn only_branches_differ(before: Option<&Kept>, after: Option<&Kept>) -> bool {
    fn rest(file: Option<&Kept>) -> Option<(Vec<&str>, u32)> {
        let (bytes, mode) = file?;
        Some((without_branches(std::str::from_utf8(bytes).ok()?), *mode))
    }
    let (before, after) = (rest(before), rest(after));
    before.is_some() && before == after
}

fn without_branches(config: &str) -> Vec<&str> {
    let mut rest = Vec::new();
    let mut in_branch = false;
    for line in config.lines() {
        if line.starts_with('[') {
            in_branch = is_branch_header(line);
            if in_branch {
                continue;
            }
        } else if in_branch && is_plain_entry(line) {
            continue;
        }
        rest.push(line);
    }
    rest
}

fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || "/-_.+@".contains(c))
}

fn is_branch_header(line: &str) -> bool {
    let name = line
        .strip_prefix("[branch \"")
        .and_then(|rest| rest.strip_suffix("\"]"));
    name.is_some_and(is_plain)
}

fn is_plain_entry(line: &str) -> bool {
    let entry = line.strip_prefix('\t').and_then(|l| l.split_once(" = "));
    entry.is_some_and(|(key, value)| BRANCH_KEYS.contains(&key) && is_plain(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(after: &str, harmless: bool) {
        let before = "[core]\n\tbare = false\n[branch \"main\"]\n\tremote = origin\n";
        let file = |text: &str| (text.as_bytes().to_vec(), 0o644);
        let (before, after) = (file(before), file(after));
        assert_eq!(
            only_branches_differ(Some(&before), Some(&after)),
            harmless,
            "{:?}",
            String::from_utf8_lossy(&after.0)
        );
    }

    #[test]
    fn lets_branches_be_tracked_and_nothing_else_change() {
        let same = "[core]\n\tbare = false\n";
        check(same, true);
        check(
            &format!("{same}[branch \"fix/a\"]\n\tmerge = refs/heads/fix/a\n"),
            true,
        );
        check(&format!("{same}\tfsmonitor = evil\n"), false);
        check(
            &format!("{same}[branch \"a\"][core]\n\tfsmonitor = evil\n"),
            false,
        );
        check(
            &format!("{same}[branch \"a\"]\n\tremote = ext::sh -c evil\n"),
            false,
        );
        check(
            &format!("{same}[branch \"a\"]\n\tfsmonitor = evil\n"),
            false,
        );
        check(
            &format!("{same}[branch \"a\"]\n\tremote = x\\\n[core]\n\tfsmonitor = evil\n"),
            false,
        );
        check("[core]\n\tbare = true\n", false);
    }
}
