//! What of git only looks: five subcommands, each with the flags that it may have, word by word.
//!
//! An abbreviated flag is refused as an unknown one. Operands are revisions and paths below the project: one that leads
//! out would make `git diff` compare any two files.

/// Of one subcommand; flags are words between blanks.
#[derive(Clone, Copy)]
struct Rules {
    /// What it always gets.
    adds: &'static str,
    flags: &'static str,
    /// `--flag=VALUE`, and `--flag VALUE`.
    valued: &'static str,
    /// `--flag=VALUE` alone.
    joined: &'static str,
    /// A number may follow them: `-U5`.
    numbered: &'static str,
    operands: Operands,
}

/// Revisions, paths, patterns.
#[derive(Clone, Copy)]
enum Operands {
    Any,
    /// Only where one of these flags is there.
    With(&'static str),
}

/// No program is asked for a diff, and no submodule, which has a configuration of its own. Prefixes tell which file it is.
const DIFF: &str = "--no-ext-diff --no-textconv --no-color --ignore-submodules=all --submodule=short --src-prefix=a/ \
                    --dst-prefix=b/";
const DIFF_FLAGS: &str = "-p -u --patch -s --no-patch --raw --minimal --patience --histogram --stat --numstat --shortstat \
                          --summary --dirstat --compact-summary --name-only --name-status --no-color --full-index \
                          --no-renames -M --find-renames -C --find-copies -R -b -w --ignore-space-change \
                          --ignore-all-space --ignore-space-at-eol --ignore-blank-lines -W --function-context \
                          --no-prefix --relative -a --text --no-ext-diff --no-textconv";
const DIFF_JOINED: &str = "--stat --unified --diff-filter --diff-algorithm --abbrev --inter-hunk-context --color \
                           --find-renames --relative";
const LOG_FLAGS: &str = "--oneline --graph --decorate --no-decorate --all --branches --tags --remotes --merges --no-merges \
                         --first-parent --reverse --follow --abbrev-commit --no-abbrev-commit --topo-order --date-order \
                         --author-date-order --relative-date --full-diff --left-right --cherry-pick --cherry --boundary \
                         --parents --children --full-history --simplify-by-decoration --no-notes -i \
                         --regexp-ignore-case -E --extended-regexp -F --fixed-strings --all-match --invert-grep -m -c --cc";
const LOG_VALUED: &str =
    "--since --until --after --before --author --committer --grep --max-count --skip -n";
const LOG_JOINED: &str = "--format --pretty --date --decorate";

const STATUS: Rules = Rules {
    adds: "--ignore-submodules=all",
    flags: "-s --short -b --branch -sb --show-stash --porcelain --long -u -uno -unormal -uall --untracked-files --ignored \
            --ahead-behind --no-ahead-behind --renames --no-renames --no-column",
    valued: "",
    joined: "--porcelain --untracked-files --ignored",
    numbered: "",
    operands: Operands::Any,
};
const BRANCH: Rules = Rules {
    adds: "",
    flags: "-a --all -r --remotes -v -vv -av -avv -rv -va -vva --verbose -l --list --show-current -i --ignore-case \
            --no-color --no-column --no-abbrev --contains --no-contains --merged --no-merged --points-at",
    valued: "--sort",
    joined: "--contains --no-contains --merged --no-merged --points-at --format --abbrev --color",
    numbered: "",
    operands: Operands::With("-l --list --contains --no-contains --merged --no-merged --points-at"),
};
const DIFFERENCE: Rules = Rules {
    adds: DIFF,
    flags: DIFF_FLAGS,
    valued: "",
    joined: DIFF_JOINED,
    numbered: "-U -M -C",
    operands: Operands::Any,
};
/// What it has besides.
const CACHED: Rules = Rules {
    adds: "",
    flags: "--cached --staged --merge-base",
    valued: "",
    joined: "",
    numbered: "",
    operands: Operands::Any,
};
const LOG: Rules = Rules {
    adds: "",
    flags: LOG_FLAGS,
    valued: LOG_VALUED,
    joined: LOG_JOINED,
    numbered: "- -n",
    operands: Operands::Any,
};

/// The arguments with which git does it.
pub(super) fn read(words: &[String]) -> Result<Vec<String>, String> {
    let words = match words {
        [first, rest @ ..] if first == "--no-pager" => rest,
        words => words,
    };
    let Some((subcommand, rest)) = words.split_first() else {
        return Err("git says nothing without a subcommand".into());
    };
    match subcommand.as_str() {
        "status" => checked("status", &[STATUS], rest),
        "diff" => checked("diff", &[DIFFERENCE, CACHED], rest),
        "log" => checked("log", &[DIFFERENCE, LOG], rest).map(with_format),
        "branch" => checked("branch", &[BRANCH], rest).map(listing),
        "remote" => remote(rest),
        other if other.starts_with('-') => Err(format!("git {other} stands before a subcommand")),
        other => Err(format!("git {other} is not on the list")),
    }
}

fn checked(name: &str, rules: &[Rules], words: &[String]) -> Result<Vec<String>, String> {
    let refused = |word: &str| Err(format!("git {name} with {word} is not on the list"));
    let has_operands = rules.iter().all(|one| one.takes_operands(words));
    let is_valued = |word: &str| rules.iter().any(|one| lists(one.valued, word));
    let mut only_operands = false;
    let mut left = words.iter();
    while let Some(word) = left.next() {
        match word.as_str() {
            "--" if !only_operands => only_operands = true,
            word if only_operands || !word.starts_with('-') => match has_operands {
                true => operand(name, word)?,
                false => return refused(word),
            },
            word if is_valued(word) => match left.next() {
                Some(value) if !value.starts_with('-') => {}
                _ => return refused(word),
            },
            word if rules.iter().any(|one| one.has(word)) => {}
            word => return refused(word),
        }
    }
    let adds = rules.iter().flat_map(|one| one.adds.split_whitespace());
    let own = [name].into_iter().chain(adds).map(str::to_owned);
    // Of two that contradict each other git takes the last one: prefixes are never wished away.
    let wished = words.iter().filter(|word| *word != "--no-prefix").cloned();
    Ok(own.chain(wished).collect())
}

impl Rules {
    fn takes_operands(&self, words: &[String]) -> bool {
        let named =
            |flags: &str, word: &String| lists(flags, word.split('=').next().unwrap_or(word));
        match self.operands {
            Operands::Any => true,
            Operands::With(flags) => words.iter().any(|word| named(flags, word)),
        }
    }

    fn has(&self, word: &str) -> bool {
        if lists(self.flags, word) {
            return true;
        }
        if let Some((flag, value)) = word.split_once('=') {
            return (lists(self.joined, flag) || lists(self.valued, flag))
                && may_value(flag, value);
        }
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let mut numbered = self.numbered.split_whitespace();
        numbered.any(|flag| word.strip_prefix(flag).is_some_and(is_number))
    }
}

fn lists(flags: &str, word: &str) -> bool {
    flags.split_whitespace().any(|flag| flag == word)
}

/// Formats can ask for signatures, which another program checks, and for aliases from the configuration.
fn may_value(flag: &str, value: &str) -> bool {
    const NAMED: &[&str] = &[
        "oneline",
        "short",
        "medium",
        "full",
        "fuller",
        "reference",
        "raw",
    ];
    match flag {
        "--pretty" | "--format" => NAMED.contains(&value) || value.contains('%') && is_quiet(value),
        "--color" => value == "never" || value == "auto",
        _ => true,
    }
}

fn is_quiet(format: &str) -> bool {
    let lower = format.to_ascii_lowercase();
    // Between the sign and the letter may stand what git does with the blanks and lines before it.
    let asks = ["%G", "%-G", "%+G", "% G"];
    !asks.iter().any(|sign| format.contains(sign))
        && !["signature", "describe"]
            .iter()
            .any(|word| lower.contains(word))
}

/// A revision, or a path below the project.
fn operand(name: &str, word: &str) -> Result<(), String> {
    let leaves = word.starts_with('/') || word.split('/').any(|part| part == "..");
    match () {
        () if leaves || word.starts_with('~') => Err(format!("{word} leads outside the project")),
        () if word == "-" || word.is_empty() => Err(format!("git {name} reads no input here")),
        () if word.contains(':') => Err(format!("{word} names a file within a revision")),
        () => Ok(()),
    }
}

/// Without a format of its own, the configuration's is not taken: it may ask for signatures.
fn with_format(mut words: Vec<String>) -> Vec<String> {
    let is_format = |word: &String| {
        word == "--oneline" || word.starts_with("--format=") || word.starts_with("--pretty=")
    };
    if !words.iter().any(is_format) {
        words.insert(1, "--format=medium".into());
    }
    words
}

/// Whatever else is said: no branch is made.
fn listing(mut words: Vec<String>) -> Vec<String> {
    if !words.iter().any(|word| word == "--show-current") {
        words.insert(1, "--list".into());
    }
    words
}

fn remote(words: &[String]) -> Result<Vec<String>, String> {
    let plain: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_name = |name: &str| !name.starts_with('-');
    match plain[..] {
        [] | ["-v" | "--verbose"] => {}
        ["get-url", name] if is_name(name) => {}
        _ => {
            return Err(format!("git remote {} is not on the list", plain.join(" ")));
        }
    }
    Ok([&["remote".to_owned()], words].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(text: &str) -> Result<String, String> {
        let words = shlex::split(text).unwrap();
        read(&words[1..]).map(|words| words.join(" "))
    }

    #[test]
    fn what_looks_is_let_through_with_what_keeps_it_from_more() {
        for text in [
            "git status",
            "git status -sb -- src",
            "git --no-pager status --porcelain=v2",
            "git diff",
            "git diff HEAD~1",
            "git diff --cached --stat -U5",
            "git diff main...HEAD -- src/lib.rs",
            "git log --oneline -5",
            "git log -n 3 --since='2 days ago' --format='%h %s' --graph",
            "git log -p -1",
            "git log --pretty=short HEAD~2..",
            "git branch",
            "git branch -a -vv",
            "git branch --list 'feat/*'",
            "git branch --show-current",
            "git branch --merged main",
            "git branch --sort=-committerdate --format='%(refname:short)'",
            "git remote",
            "git remote -v",
            "git remote get-url origin",
        ] {
            assert!(reads(text).is_ok(), "{text}: {:?}", reads(text));
        }
        assert_eq!(reads("git branch -a").unwrap(), "branch --list -a");
        assert_eq!(
            reads("git status").unwrap(),
            "status --ignore-submodules=all"
        );
        let diff = reads("git diff --no-prefix x").unwrap();
        assert!(
            diff.starts_with("diff --no-ext-diff --no-textconv ")
                && diff.ends_with("--dst-prefix=b/ x"),
            "{diff}"
        );
        assert!(
            reads("git log")
                .unwrap()
                .starts_with("log --format=medium --no-ext-diff")
        );
    }

    #[test]
    fn what_writes_runs_or_leaves_is_refused() {
        for text in [
            "git",
            "git push",
            "git -C .. status",
            "git -c core.pager=x log",
            "git --exec-path=. status",
            "git -p log",
            "git --git-dir=x status",
            "git status -v",
            "git status --verbose",
            "git status --column=always",
            "git diff --output=f",
            "git diff --outp=f",
            "git diff --no-index a b",
            "git diff --ext-diff",
            "git diff --textconv",
            "git diff /etc/passwd /etc/hosts",
            "git diff ../a b",
            "git diff a/../../b c",
            "git diff -",
            "git diff HEAD:.env",
            "git diff -O order",
            "git diff -Oorder",
            "git diff --submodule=log",
            "git diff --ignore-submodules=none",
            "git difftool -x sh",
            "git log --show-signature",
            "git log --format=%G?",
            "git log --format=%-G?",
            "git log --format=%+GS",
            "git log '--format=% GK'",
            "git log --pretty=mine",
            "git log -L1,2:f",
            "git log --output=f",
            "git log --since --output=f",
            "git log --format='%(describe)'",
            "git log --textconv",
            "git branch new",
            "git branch -D main",
            "git branch -d x",
            "git branch -m a b",
            "git branch -v new",
            "git branch -f main HEAD",
            "git branch --edit-description",
            "git branch -u origin/main",
            "git branch --unset-upstream",
            "git branch --format='%(signature)'",
            "git branch -c a b",
            "git branch --track x",
            "git branch -adv",
            "git remote add x y",
            "git remote show origin",
            "git remote update",
            "git remote -v update",
            "git remote set-url a b",
            "git remote prune origin",
            "git remote get-url --all",
            "git show HEAD",
            "git stash list",
            "git config -l",
            "git STATUS",
            "git status-x",
            "git log --exec=x",
            "git diff --line-prefix=x",
            "git diff --src-prefix=",
        ] {
            assert!(reads(text).is_err(), "{text} passes as {:?}", reads(text));
        }
    }
}
