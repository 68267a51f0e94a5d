//! What lies between two trees, in words: how much, and the first of it.

use super::{Result, Snapshots};
use crate::agent::event::TreeId;

/// Characters of a diff in a chat; the rest is counted.
const DIFF_CHARS_MAX: usize = 12_000;

impl Snapshots {
    /// `N files changed…` and the diff from `start` to what the workspace is now; empty where nothing is different.
    ///
    /// # Errors
    /// As [`Snapshots::take`].
    pub async fn diff(&self, start: &TreeId) -> Result<String> {
        let now = self.take().await?.tree;
        let args = [
            "diff-tree",
            "-r",
            "-M",
            "--shortstat",
            "--patch",
            "--no-ext-diff",
            "--no-textconv",
            &start.0,
            &now.0,
        ];
        let variables = self.shelf().await?.variables();
        let printed = self.git(&args, None, &variables).await?;
        Ok(head(String::from_utf8_lossy(&printed).trim()))
    }
}

/// Whole lines, as many as fit.
fn head(text: &str) -> String {
    let mut shown = String::new();
    let mut lines = text.lines();
    let mut chars = 0;
    for line in lines.by_ref() {
        chars += line.chars().count() + 1;
        if chars > DIFF_CHARS_MAX {
            let more = lines.count() + 1;
            shown.push_str(&format!("[{more} more lines]"));
            return shown;
        }
        shown.push_str(line);
        shown.push('\n');
    }
    shown.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_whole_lines_and_counts_the_rest() {
        assert_eq!(head("a\nb"), "a\nb");
        let long = "0123456789\n".repeat(2000);
        let shown = head(&long);
        assert!(shown.chars().count() < DIFF_CHARS_MAX + 30);
        assert!(
            shown.ends_with("\n[910 more lines]"),
            "{}",
            &shown[shown.len() - 40..]
        );
    }
}
