//! The gate against a real bash: for whatever it allows, the argv that it computed is the argv that bash would run, once, and
//! nothing else. Programs are stubs that write down their arguments; 2,000 cases, or `PROPTEST_CASES` of them.

use super::{admitted, policy, verdict_with};
use crate::support::generated;
use journeyman::gate::{Decision, GatePolicy, Runnable, Touch};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const CASES: u32 = 2_000;
/// Texts for one bash.
const BATCH: usize = 2_000;
/// Programs that exist for bash: all that the gate allows by default, and what attacks are made of.
const STUBS: &str = "pytest ruff mypy make npm pip git cat head tail wc ls find grep echo python node rm sh true printf test";

/// Appends the number of its arguments and the arguments, each ended by NUL, in one write.
const STUB: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    static char text[1 << 20];
    size_t used = (size_t)snprintf(text, sizeof text, "%d", argc) + 1;
    for (int i = 0; i < argc; i++) {
        size_t length = strlen(argv[i]) + 1;
        if (used + length > sizeof text) return 3;
        memcpy(text + used, argv[i], length);
        used += length;
    }
    int file = open(getenv("ORACLE"), O_WRONLY | O_APPEND);
    return write(file, text, used) == (ssize_t)used ? 0 : 4;
}
"#;

/// Every 16th text goes to a bash of its own, as it would really run; the others share one, which is twenty times as fast.
/// Patterns that match nothing vanish, so that none passes for a literal word.
const DRIVER: &str = r#"
shopt -s nullglob
enable -n echo printf true false test [ kill pwd
n=0
while IFS= read -r -d '' -u 3 text; do
    n=$((n + 1))
    if [[ $((n % 16)) == 0 ]]; then
        "$BASH" --norc --noprofile -O nullglob -c "enable -n echo printf true false test [ kill pwd
$text" < /dev/null > /dev/null 2>&1 3<&-
    else
        ( eval "$text" ) < /dev/null > /dev/null 2>&1 3<&-
    fi
    builtin enable printf
    builtin printf 'end\0' >> "$ORACLE"
    enable -n printf
done
"#;

struct Oracle {
    folder: tempfile::TempDir,
    bash: PathBuf,
}

impl Oracle {
    /// `None`, with a notice, where there is no bash or no C compiler.
    fn new() -> Option<Self> {
        let found = |name: &str| {
            let path = std::env::var_os("PATH")?;
            std::env::split_paths(&path)
                .map(|folder| folder.join(name))
                .find(|file| file.is_file())
        };
        let (Some(bash), Some(cc)) = (found("bash"), found("cc")) else {
            eprintln!("NOTICE: no bash or no cc here: the gate is not compared with a real shell");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("bin")).unwrap();
        fs::create_dir(at("w")).unwrap();
        fs::write(at("stub.c"), STUB).unwrap();
        for name in ["a", "b", "ab", "1"] {
            fs::write(at("w").join(name), "").unwrap();
        }
        let built = Command::new(cc)
            .args(["-O1", "-o"])
            .arg(at("bin/ls"))
            .arg(at("stub.c"))
            .status()
            .unwrap();
        assert!(built.success(), "the stub compiles");
        for name in STUBS.split(' ').filter(|name| *name != "ls") {
            fs::hard_link(at("bin/ls"), at("bin").join(name)).unwrap();
        }
        Some(Self { folder, bash })
    }

    /// What each text runs: the argv of every program that was started.
    fn run(&self, texts: &[String]) -> Vec<Vec<Vec<String>>> {
        let at = |name: &str| self.folder.path().join(name);
        fs::write(at("texts"), texts.join("\0") + "\0").unwrap();
        fs::write(at("ran"), "").unwrap();
        let before = listing(self.folder.path());
        let texts_file = at("texts");
        let status = Command::new(&self.bash)
            .args(["--norc", "--noprofile", "-c"])
            .arg(format!("exec 3< \"$TEXTS\"\n{DRIVER}"))
            .env_clear()
            .env("PATH", at("bin"))
            .env("ORACLE", at("ran"))
            .env("TEXTS", texts_file)
            .env("HOME", self.folder.path())
            .env("LC_ALL", "C.UTF-8")
            .current_dir(at("w"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(
            status.success() || status.code().is_some(),
            "bash ends by itself: {status}"
        );
        assert_eq!(
            listing(self.folder.path()),
            before,
            "no file appears or goes"
        );
        let ran = fs::read(at("ran")).unwrap();
        let mut tokens = ran
            .split(|byte| *byte == 0)
            .map(|token| String::from_utf8_lossy(token).into_owned());
        let mut all = Vec::new();
        let mut one = Vec::new();
        while let Some(token) = tokens.next() {
            match token.as_str() {
                "" => break,
                "end" => all.push(std::mem::take(&mut one)),
                count => one.push(tokens.by_ref().take(count.parse().unwrap()).collect()),
            }
        }
        assert_eq!(all.len(), texts.len(), "bash got to the end of the batch");
        all
    }
}

fn listing(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = ["", "w", "bin"]
        .iter()
        .flat_map(|inner| fs::read_dir(folder.join(inner)).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

/// The argv that would run without asking; `None` where the gate does not allow the text.
fn allowed(policy: &GatePolicy, text: &str) -> Option<Vec<String>> {
    let verdict = verdict_with(policy, &[Touch::Command(text.to_owned())]);
    let is_allowed = verdict.decision == Decision::Allow;
    assert_eq!(is_allowed, verdict.reasons.is_empty(), "{text:?}");
    if !is_allowed {
        return None;
    }
    assert!(!verdict.shell, "allowed with a shell: {text:?}");
    Some(verdict.commands.first().expect("a command").argv.clone())
}

/// Generates texts, and compares what the gate allows of them with bash. Returns how many were compared.
fn compare(strategy: impl Strategy<Value = String>, least_percent: usize) {
    let Some(oracle) = Oracle::new() else { return };
    let long = std::env::var("PROPTEST_CASES").ok();
    let cases = long.map_or(CASES, |count| count.parse().unwrap());
    let mut runner = TestRunner::new(generated());
    let policy = policy();
    let mut compared = 0;
    let mut wrong: Vec<String> = Vec::new();
    let mut batch: Vec<(String, Vec<String>)> = Vec::new();
    for case in 1..=cases {
        let text = strategy.new_tree(&mut runner).unwrap().current();
        if let Some(argv) = allowed(&policy, &text) {
            if case % 64 == 0 {
                let admitted = admitted(&text, &[], None, "/w").unwrap();
                assert_eq!(admitted.runnable(), Some(&Runnable::Argv(argv.clone())));
            }
            batch.push((text, argv));
        }
        if batch.len() < BATCH && case < cases {
            continue;
        }
        let texts: Vec<_> = batch.iter().map(|(text, _)| text.clone()).collect();
        for ((text, argv), ran) in batch.drain(..).zip(oracle.run(&texts)) {
            compared += 1;
            if ran != [argv.clone()] {
                wrong.push(format!("{text:?}: judged {argv:?}, bash runs {ran:?}"));
            }
        }
    }
    wrong.sort_by_key(String::len);
    wrong.truncate(20);
    println!("{compared} of {cases} texts were allowed and compared");
    assert!(wrong.is_empty(), "differs from bash:\n{}", wrong.join("\n"));
    assert!(
        compared * 100 >= cases as usize * least_percent,
        "only {compared} of {cases} were allowed: the generator is off"
    );
}

/// A piece of a word, mostly of the kind that should be allowed.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "[a-z0-9_.,:=@%+^/-]{1,5}",
        3 => "[ -~é]{0,6}".prop_map(|text| format!("'{}'", text.replace('\'', ""))),
        3 => "([a-z *;|&<>'{}~#!é]|\\\\[\"\\\\$`a-z]|\\\\\n|\\$ ){0,5}".prop_map(|text| format!("\"{text}\"")),
        3 => "([a-z *;|]|\\\\[abefnrtv\\\\'\"?]|\\\\x[2-7][0-9a-f]|\\\\[0-7]{1,3}|\\\\u00[a-f][0-9]|\\\\c[a-z]|\\\\[g-m]){0,5}".prop_map(|text| format!("$'{text}'")),
        2 => "\\\\[ -~é]",
        1 => Just("\\\n".to_owned()),
        1 => "[{}!~#$\\[\\]*?]",
        1 => "(\\{[a-c],[a-c]\\}|\\{1\\.\\.3\\}|\\{a\\}|@\\{0\\}|~/a|a=~|a:~|~\\+|\\$a|\\$\\{a\\}|\\$\"a\")",
    ]
}

fn word() -> impl Strategy<Value = String> {
    prop::collection::vec(piece(), 1..4).prop_map(|pieces| pieces.concat())
}

fn command() -> impl Strategy<Value = String> {
    let program = prop_oneof![
        6 => prop::sample::select(vec!["echo", "ls", "cat", "grep a", "git commit -m", "echo --", "echo"]).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["e'c'ho", "\\ls", "$'echo'", "\"ls\"", "ec\\\nho", "! echo", "time echo", "a=1 echo", "''echo", "#echo"]).prop_map(str::to_owned),
    ];
    let gap = prop_oneof![12 => Just(" "), 2 => Just("\t"), 2 => Just(" \\\n "), 2 => Just("  "), 1 => Just("\n"), 1 => Just(" # "), 1 => Just(";"), 1 => Just("|"), 1 => Just(" >a "), 1 => Just(" & ")];
    let around = prop::sample::select(vec![
        "", "", "", "", " ", "\t", "\n", "\n\n ", "#a\n", "\\\n", "\r\n", "\u{a0}",
    ]);
    (
        around.clone(),
        program,
        prop::collection::vec((gap, word()), 0..5),
        around,
    )
        .prop_map(|(before, program, words, after)| {
            let words: String = words.iter().flat_map(|(gap, word)| [*gap, word]).collect();
            format!("{before}{program}{words}{after}")
        })
}

#[test]
fn what_is_allowed_is_what_bash_would_run() {
    compare(command(), 20);
}

/// Anything at all, in an alphabet of what shells treat specially.
#[test]
fn no_text_that_is_more_than_one_command_is_allowed() {
    let odd = "[a \t\n\r'\"\\\\$`{}()\\[\\]<>|&;!#*?~=,.:@^%+\u{1}\u{7f}\u{a0}\u{200b}\u{2028}é日😀-]{0,12}";
    compare(
        prop_oneof![
            odd.prop_map(|text| format!("echo {text}")),
            odd.prop_map(|text| format!("ls{text}")),
            odd.prop_map(|text| format!("{text}ls a"))
        ],
        5,
    );
}

#[test]
fn any_bytes_are_judged_without_panic() {
    let long = std::env::var("PROPTEST_CASES").ok();
    let cases = long.map_or(CASES, |count| count.parse().unwrap());
    let policy = policy();
    let text = prop_oneof![
        any::<String>(),
        prop::collection::vec(any::<u8>(), 0..80)
            .prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        "[a-z \\x00\r\n'\"\\\\$`{}()\\[\\]<>|&;!#*?~=é-]{0,60}",
        "(find|git|env|bash -c|xargs|sed|make|eval) ([-a-zA-Z=/'\" ;{}+$:@.]{0,6} ?){0,6}",
    ];
    TestRunner::new(Config {
        cases,
        ..generated()
    })
    .run(&text, |text| {
        let verdict = verdict_with(&policy, &[Touch::Command(text.clone())]);
        prop_assert_eq!(
            verdict.reasons.is_empty(),
            verdict.decision == Decision::Allow
        );
        if let Ok(approved) = admitted_by(&policy, &text) {
            prop_assert!(matches!(approved, Runnable::Argv(_)));
        }
        Ok(())
    })
    .unwrap();
}

fn admitted_by(policy: &GatePolicy, text: &str) -> Result<Runnable, ()> {
    use journeyman::gate::{Circumstances, admit, wants};
    let touches = [Touch::Command(text.to_owned())];
    let facts = super::resolve(&wants(policy, &touches));
    let here = Circumstances {
        cwd: "/w",
        owner: "me",
    };
    let approved = admit(
        policy,
        &[],
        &super::call(text),
        &touches,
        &facts,
        here,
        None,
    );
    approved
        .map_err(|_| ())
        .and_then(|approved| approved.runnable().cloned().ok_or(()))
}
