//! The gate: verdicts on the shared vectors, on our own, and on the policy's examples; what may be granted and minted.

use journeyman::agent::event::{Call, CallId};
use journeyman::gate::*;

/// A world with the workspace at /w, system programs by bare name, and nothing else.
fn resolve(wants: &Wants) -> Facts {
    let mut facts = Facts::default();
    for path in &wants.paths {
        facts.paths.insert(path.clone(), place(path));
    }
    for program in &wants.programs {
        facts
            .programs
            .insert(program.clone(), program_fact(program));
    }
    facts
}

fn place(path: &str) -> PathFact {
    let absolute = match path {
        _ if path.starts_with('~') => path.replacen('~', "/home/p", 1),
        _ if path.starts_with('/') => path.to_owned(),
        _ => format!("/w/{path}"),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in absolute
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
    {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    let resolved = format!("/{}", parts.join("/"));
    let place = match resolved.as_str() {
        "/w/link-out" => Place::Outside,
        "/w/data" => Place::OwnData,
        _ if resolved == "/w/.git" || resolved.starts_with("/w/.git/") => Place::GitInternals,
        _ if resolved == "/w" || resolved.starts_with("/w/") => Place::Workspace,
        _ => Place::Outside,
    };
    let resolved = if resolved == "/w/link-env" {
        "/w/.env".to_owned()
    } else {
        resolved
    };
    PathFact {
        exists: resolved == "/w/notes.txt",
        resolved,
        place,
    }
}

fn program_fact(program: &str) -> ProgramFact {
    match program {
        "planted" => ProgramFact::Untrusted {
            path: "/w/bin/planted".into(),
        },
        "linked" => ProgramFact::System {
            path: "/usr/bin/rm".into(),
        },
        _ if program.starts_with("/usr/bin/") || program.starts_with("/bin/") => {
            ProgramFact::System {
                path: program.into(),
            }
        }
        _ if program.contains('/') => ProgramFact::Untrusted {
            path: program.into(),
        },
        _ if program.contains("missing") => ProgramFact::Missing,
        _ => ProgramFact::System {
            path: format!("/usr/bin/{program}"),
        },
    }
}

const SEED_ALLOWLIST: &str =
    "pytest ruff mypy make npm pip git cat head tail wc ls find grep echo python node";

fn settings(extra: &str) -> GateSettings {
    GateSettings {
        allowlist: SEED_ALLOWLIST
            .split(' ')
            .chain(extra.split_whitespace())
            .map(str::to_owned)
            .collect(),
        write_enabled: true,
        protected_branches: vec!["main".into(), "master".into()],
    }
}

fn policy() -> GatePolicy {
    GatePolicy::load(&[], settings("")).unwrap()
}

fn verdict_with(policy: &GatePolicy, touches: &[Touch]) -> Verdict {
    judge(policy, touches, &resolve(&wants(policy, touches)))
}

fn verdict(command: &str) -> Verdict {
    verdict_with(&policy(), &[Touch::Command(command.into())])
}

fn name(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Ask => "ask",
        Decision::Deny => "deny",
    }
}

/// Every line of a vector file: expectations, text.
fn vectors(text: &'static str) -> impl Iterator<Item = (Vec<&'static str>, String)> {
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| {
        let (expected, input) = line.split_once('\t').unwrap();
        (
            expected.split('|').collect(),
            input
                .replace("\\n", "\n")
                .replace("\\r", "\r")
                .replace("\\0", "\0"),
        )
    })
}

fn check_vectors(text: &'static str, policy: &GatePolicy) {
    let mut wrong = Vec::new();
    for (expected, command) in vectors(text) {
        let verdict = verdict_with(policy, &[Touch::Command(command.clone())]);
        if !expected.contains(&name(verdict.decision)) {
            let rules: Vec<_> = verdict
                .reasons
                .iter()
                .map(|reason| format!("{}: {}", reason.rule, reason.text))
                .collect();
            wrong.push(format!(
                "{command:?}: {} instead of {expected:?} because of {rules:?}",
                name(verdict.decision)
            ));
        }
        for reason in &verdict.reasons {
            assert!(
                !reason.rule.is_empty() && !reason.text.is_empty() && !reason.fix.is_empty(),
                "{command:?}: {reason:?}"
            );
        }
        assert_eq!(
            verdict.reasons.is_empty(),
            verdict.decision == Decision::Allow,
            "{command:?}: reasons belong to what is not allowed"
        );
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn judges_the_shared_vectors() {
    check_vectors(include_str!("../vectors/gate.tsv"), &policy());
}

#[test]
fn judges_bypasses() {
    check_vectors(include_str!("../vectors/gate_bypasses.tsv"), &policy());
}

#[test]
fn denies_no_ordinary_command() {
    check_vectors(
        include_str!("../vectors/gate_ordinary.tsv"),
        &GatePolicy::load(&[], settings("cargo")).unwrap(),
    );
}

#[test]
fn every_example_of_the_policy_comes_out_as_it_says() {
    let policy = policy();
    let mut wrong = Vec::new();
    for (program, expected, command) in policy.examples() {
        let verdict = verdict_with(&policy, &[Touch::Command(command.into())]);
        if verdict.decision != expected {
            let rules: Vec<_> = verdict
                .reasons
                .iter()
                .map(|reason| format!("{}: {}", reason.rule, reason.text))
                .collect();
            wrong.push(format!(
                "{program}: {command}: {} instead of {} because of {rules:?}",
                name(verdict.decision),
                name(expected)
            ));
        }
    }
    wrong.sort();
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(policy.broken_rule_examples(), []);
}

#[test]
fn reads_yes_and_no() {
    for (expected, text) in vectors(include_str!("../vectors/replies.tsv")) {
        let read = match read_reply(&text) {
            Some(Reply::Yes) => "approve",
            Some(Reply::No) => "deny",
            None => "neither",
        };
        assert_eq!([read].as_slice(), expected, "{text:?}");
    }
}
