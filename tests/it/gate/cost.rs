//! What a hostile command costs: counted as work in every run, and measured in milliseconds by hand
//! (`cargo test --release --test it -- --ignored long_hostile --nocapture`).

use super::{policy, resolve};
use journeyman::gate::{Decision, GatePolicy, Touch, judge, wants};
use std::time::{Duration, Instant};

/// What 64 kB texts are made of, repeated.
const UNITS: &[&str] = &[
    "${x",
    "$(",
    "`",
    "a;",
    "ls | ",
    "echo $(",
    "x=(",
    "(",
    "{ ",
    "a ",
    "a \\\n",
    "'a' ",
    "\"$x\" ",
    "<<E ",
    "cat <<E\n$x\nE\n",
    "${x:-",
    "$((",
    "((1+",
    "[[ a == ",
    "if a; then ",
    "case x in a) ",
    "a() { ",
    "$x",
    "${x}",
    "${!",
    "${#",
    "{a,",
    "{1..2}",
    "a|",
    "a&",
    ">a ",
    "2>&1 ",
    "!",
    "\\a",
    "\"",
    "\"\\\"",
    "$'a'",
    "*",
    "[a]",
    "a=b ",
    "a=b;",
    "<(",
    "a<(b) ",
    "#\n",
    "a #b\n",
    "é",
    "-a ",
    "-a",
    "--x=y ",
    "/a ",
    ":/a",
    "a,/b",
    "a=@",
    "x[1]=",
    "~/",
    "while a; do ",
    "a && ",
    "coproc ",
    "time ",
    "function f ",
    "eval ",
    "env ",
    "eval a;",
    "bash -c 'a';",
    "&&",
    "))",
    "}",
    ";;",
    "do ",
    "then ",
    "in ",
    "\r\n",
    "\n",
    "\t",
    "a\n",
    "@(a|",
    "$[",
    "<<<a ",
    "<<-E\n\t",
    "\"$(",
    "\"${x",
    "\"${x:-\"",
    "x=\"$(",
    "cat <<'E'\n'\nE\n",
    "declare a=",
    "export a;",
    "%",
    "${a/b/",
    "select x in a; do ",
    "# '\n${x",
    "'\"'${x",
    "-exec a ; ",
    "../ ",
    "a/../",
    ".env ",
];

fn texts() -> Vec<String> {
    let fill = |unit: &str| unit.repeat(65_000 / unit.len());
    let around = |unit: &&str| {
        let filled = fill(unit);
        [
            format!("echo \"{filled}\""),
            format!("find {filled}"),
            format!("unknown {filled}"),
            format!("echo $x -- {filled}"),
            format!("cat <<E\n{filled}\nE\n"),
            format!("bash -c 'x;{}'", filled.replace('\'', "")),
            format!("# it's\n{filled}"),
            filled,
        ]
    };
    UNITS.iter().flat_map(around).collect()
}

#[test]
fn hostile_texts_ask_for_little_and_say_little() {
    let policy = policy();
    for text in texts() {
        let touches = [Touch::Command(text.clone())];
        let start: String = text.chars().take(30).collect();
        let wanted = wants(&policy, &touches);
        assert!(
            wanted.paths.len() <= 2048 && wanted.programs.len() <= 256,
            "{start:?}"
        );
        assert!(
            wanted.paths.iter().all(|path| path.len() <= 4096),
            "{start:?}"
        );
        let verdict = judge(&policy, &touches, &resolve(&wanted));
        assert!(
            verdict.commands.len() <= 256 && verdict.reasons.len() <= 64,
            "{start:?}"
        );
        let told: usize = verdict.reasons.iter().map(|reason| reason.text.len()).sum();
        assert!(
            told <= 64 * 1024 + 64 * 1024,
            "{start:?}: {told} bytes of reasons"
        );
    }
}

#[test]
fn a_denial_is_told_even_after_many_questions() {
    let mut text: String = (0..60).map(|at| format!("unknown{at}; ")).collect();
    text.push_str("rm x");
    let verdict = super::verdict(&text);
    assert_eq!(verdict.decision, Decision::Deny);
    assert_eq!(verdict.reasons[0].rule, "denylist");
    assert_eq!(
        verdict.commands.last().map(|last| last.decision),
        Some(Decision::Deny)
    );
    assert_eq!(
        super::verdict("rm x; rm x").commands[1].decision,
        Decision::Deny,
        "said once, counted twice"
    );
}

#[test]
#[ignore = "measures; in release"]
fn long_hostile_texts_are_judged_in_milliseconds() {
    let policy = policy();
    let mut measured: Vec<(Duration, String)> = texts()
        .into_iter()
        .map(|text| (fastest(&policy, &text), text.chars().take(40).collect()))
        .collect();
    measured.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    for (time, text) in measured.iter().take(12) {
        println!("{time:>12.3?}  {text:?}");
    }
    for text in [
        "ls",
        "git commit -m \"fix: a && b\"",
        "cargo test -p core -- --nocapture",
        "cd src && ls -la > out.txt",
        "for f in *.rs; do wc -l \"$f\"; done",
    ] {
        println!("{:>12.3?}  {text}", fastest(&policy, text));
    }
    println!(
        "{:>12.3?}  loading the policy",
        shortest(|| drop(super::policy()))
    );
    if !cfg!(debug_assertions) {
        assert!(
            measured[0].0 < Duration::from_millis(5),
            "{:?}",
            measured[0]
        );
    }
}

/// Of several runs, so that a busy machine counts for little.
fn fastest(policy: &GatePolicy, text: &str) -> Duration {
    let touches = [Touch::Command(text.to_owned())];
    let facts = resolve(&wants(policy, &touches));
    shortest(|| {
        judge(policy, &touches, &facts);
    })
}

fn shortest(mut work: impl FnMut()) -> Duration {
    let once = |_| {
        let started = Instant::now();
        work();
        started.elapsed()
    };
    (0..20).map(once).min().unwrap()
}
