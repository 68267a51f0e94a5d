//! Lists of commands: what attackers try, what an allowlisted program may not do, and what a week of work needs.

use super::{check_vectors, name, policy, settings, vectors, verdict_with};
use journeyman::gate::{Decision, GatePolicy, Touch};
use std::collections::BTreeMap;

#[test]
fn hostile_commands_never_run_unasked() {
    let policy = policy();
    let mut wrong = Vec::new();
    for (expected, command) in vectors(include_str!("../../vectors/gate_hostile.tsv")) {
        let command = command.replace("MARKER", "/tmp/outside/marker");
        let decision = verdict_with(&policy, &[Touch::Command(command.clone())]).decision;
        if !expected.contains(&name(decision)) || decision == Decision::Allow {
            wrong.push(format!(
                "{command:?}: {} instead of {expected:?}",
                name(decision)
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn an_allowlisted_program_still_asks_before_it_installs_or_runs_others() {
    let text = include_str!("../../vectors/gate_allowlisted.tsv");
    let programs: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split('\t').nth(1)?.split(' ').next())
        .collect();
    check_vectors(
        text,
        &GatePolicy::load(&[], settings(&programs.join(" "))).unwrap(),
    );
}

#[test]
fn a_week_of_work_is_not_denied_and_seldom_asks() {
    let mut counts: BTreeMap<&str, (usize, Vec<String>)> = BTreeMap::new();
    let with = |tool: &str| GatePolicy::load(&[], settings(tool)).unwrap();
    let policies = BTreeMap::from([
        ("rust", with("cargo")),
        ("python", with("uv")),
        ("node", with("")),
    ]);
    let mut total = 0;
    for (project, command) in vectors(include_str!("../../vectors/gate_week.tsv")) {
        let verdict = verdict_with(&policies[project[0]], &[Touch::Command(command.clone())]);
        assert_ne!(
            verdict.decision,
            Decision::Deny,
            "{command}: {:?}",
            verdict.reasons
        );
        let (all, asking) = counts.entry(project[0]).or_default();
        *all += 1;
        total += 1;
        if verdict.decision == Decision::Ask {
            asking.push(command);
        }
    }
    assert!(total >= 150, "{total} commands");
    for (project, (all, asking)) in &counts {
        assert!(
            asking.len() * 10 <= *all,
            "{project}: {} of {all} ask: {asking:?}",
            asking.len()
        );
    }
}

#[test]
fn every_rule_that_speaks_can_be_explained() {
    let policy = policy();
    let all = [
        include_str!("../../vectors/gate.tsv"),
        include_str!("../../vectors/gate_bypasses.tsv"),
        include_str!("../../vectors/gate_hostile.tsv"),
        include_str!("../../vectors/gate_ordinary.tsv"),
        include_str!("../../vectors/gate_allowlisted.tsv"),
    ];
    for (_, command) in all.into_iter().flat_map(vectors) {
        for reason in verdict_with(&policy, &[Touch::Command(command.clone())]).reasons {
            let told = policy.explain(&reason.rule);
            assert!(!told.is_empty(), "{}: nobody explains it", reason.rule);
            assert!(
                told.iter()
                    .all(|one| !one.when.is_empty() && !one.reason.is_empty())
            );
        }
    }
    for name in policy.rule_names() {
        assert!(!policy.explain(&name).is_empty(), "{name}");
    }
    assert_eq!(policy.explain("no-such-rule"), []);
}
