//! What a definition would have run: the parts of its text that trust is bound to, byte for byte. Pure.
//!
//! It finds more rather than less: what is no command to whoever expands a template may be one here.

use sha2::{Digest, Sha256};

/// Every `` !`command` `` of a text.
pub fn inline_commands(text: &str) -> Vec<String> {
    let after = text.split("!`").skip(1);
    after
        .map(|rest| rest.split('`').next().unwrap_or_default().to_owned())
        .collect()
}

/// One digest over what the commands at these paths run; empty where that is nothing.
pub fn digest<'a>(all: impl IntoIterator<Item = (&'a str, &'a [String])>) -> String {
    let mut hasher = Sha256::new();
    let mut any = false;
    for (path, commands) in all {
        for command in commands {
            any = true;
            hasher.update(format!("{path}\0{command}\0"));
        }
    }
    match any {
        true => hex::encode(hasher.finalize()),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_run_is_found_and_counts_byte_for_byte() {
        let text = "a !`git status` b\n!`ls -la`!`pwd` `not this` !x !`open";
        let found = inline_commands(text);
        assert_eq!(found, ["git status", "ls -la", "pwd", "open"]);
        let of = |commands: &[String]| digest([("a.md", commands)]);
        assert_eq!((of(&[]), digest([])), (String::new(), String::new()));
        assert_ne!(of(&found), of(&found[..3]));
        assert_ne!(of(&found), digest([("b.md", found.as_slice())]));
    }
}
