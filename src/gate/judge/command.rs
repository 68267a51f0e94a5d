//! What speaks against one command: where its name leads, whether it may run, its options, the rules of the policy.
//!
//! Its words as paths are judged by the parent module, because a path may also be touched without a command.

use super::Judgement;
use crate::gate::options::{Reading, base_name};
use crate::gate::policy::matches_glob;
use crate::gate::programs::Stance;
use crate::gate::words::Word;
use crate::gate::{Decision, ProgramFact};

impl Judgement<'_> {
    /// Which file the program's name leads to.
    pub(super) fn program(&mut self, program: &Word) {
        let name = program.text.as_str();
        if program.dynamic_from.is_some() || name.is_empty() {
            self.note(
                Decision::Ask,
                "unknown-program",
                "which program runs is only known to the shell",
                "write the program's name",
            );
            return;
        }
        self.denied(base_name(name));
        if !self.wants.programs.iter().any(|wanted| wanted == name) {
            self.wants.programs.push(name.to_owned());
        }
        let is_path = name.contains('/');
        let (rule, seen) = match self.facts.programs.get(name) {
            Some(ProgramFact::System { path }) => return self.denied(base_name(path)),
            Some(ProgramFact::Missing) if !is_path => return,
            Some(ProgramFact::User { path }) => {
                self.denied(base_name(path));
                if !is_path {
                    return;
                }
                (
                    "untrusted-program",
                    format!("{name} is not in a system folder"),
                )
            }
            Some(ProgramFact::Untrusted { path }) => {
                self.denied(base_name(path));
                (
                    "untrusted-program",
                    format!("{name} is {path}, which anyone could have put there"),
                )
            }
            Some(ProgramFact::Missing) => ("untrusted-program", format!("{name} does not exist")),
            None => (
                "unresolved-program",
                format!("{name} could not be looked up"),
            ),
        };
        self.note(
            Decision::Ask,
            rule,
            seen,
            "name a program that is installed in a system folder",
        );
    }

    fn denied(&mut self, name: &str) {
        if self
            .policy
            .denylist
            .iter()
            .any(|pattern| matches_glob(pattern, name))
        {
            let fix = "do it with another tool, or ask the person to do it";
            self.note(
                Decision::Deny,
                "denylist",
                format!("{name} is never run"),
                fix,
            );
        }
    }

    /// Whether the program may run at all, by allowlist and definition.
    pub(super) fn permission(&mut self, program: &Word, reading: &Reading<'_>) {
        let name = base_name(&program.text);
        let known_as = self.policy.canonical(name);
        if self.policy.builtins.contains(name) {
            self.shell = true;
            self.note(
                Decision::Ask,
                "builtins",
                format!("{name} only exists inside a shell"),
                "run a program, or have this text approved",
            );
        }
        let is_allowed = self
            .policy
            .settings()
            .allowlist
            .iter()
            .any(|allowed| self.policy.canonical(allowed) == known_as);
        let is_wrapper = reading
            .specs
            .first()
            .is_some_and(|spec| spec.stance == Stance::Inner);
        if !is_allowed && !is_wrapper && program.dynamic_from.is_none() {
            let fix = "the person can allow it, or add it to AGENT_SHELL_ALLOWLIST";
            self.note_grantable(
                "unknown-program",
                format!("{name} is not on the allowlist"),
                fix,
            );
        }
        for spec in &reading.specs {
            let rule = spec.name.replace(' ', "-");
            match spec.stance {
                Stance::Allow | Stance::Inner => {}
                Stance::Ask => self.note_grantable(&rule, &spec.reason, &spec.fix),
                Stance::Deny => self.note(Decision::Deny, &rule, &spec.reason, &spec.fix),
            }
        }
    }

    pub(super) fn options(&mut self, reading: &Reading<'_>) {
        let shown = reading.path.join(" ");
        for option in &reading.asking {
            let text = format!("{shown} {option} can run code, reach out or overwrite files");
            self.note(
                Decision::Ask,
                "risky-option",
                text,
                "leave the option out, or have it approved",
            );
        }
        for option in &reading.unknown {
            let text = format!(
                "{option} is not a known option of {shown}, which has options that run code"
            );
            self.note(
                Decision::Ask,
                "unknown-option",
                text,
                "leave the option out, or have it approved",
            );
        }
        if let Some(subcommand) = &reading.unknown_subcommand {
            let text = format!(
                "{subcommand} is not a known subcommand of {}",
                reading.path[0]
            );
            self.note_grantable(
                "unknown-subcommand",
                text,
                "use a known subcommand, or have it approved",
            );
        }
        if let Some(module) = &reading.unknown_module {
            let text = format!("the module {module} may execute or install something");
            self.note(
                Decision::Ask,
                "unknown-module",
                text,
                "run a script of the workspace, or have it approved",
            );
        }
        if reading.assigns {
            self.note(
                Decision::Ask,
                "assignments",
                "the command sets variables",
                "run it without them, or have it approved",
            );
        }
    }

    pub(super) fn rules(&mut self, reading: &Reading<'_>) {
        let policy = self.policy;
        let facts = self.facts;
        let exists = |path: &str| facts.paths.get(path).is_some_and(|fact| fact.exists);
        for rule in policy
            .rules
            .iter()
            .filter(|rule| rule.speaks(policy, reading, &exists))
        {
            match rule.decision {
                Decision::Ask if rule.is_about_whole_program() => {
                    self.note_grantable(&rule.id, &rule.reason, &rule.fix)
                }
                decision => self.note(decision, &rule.id, &rule.reason, &rule.fix),
            }
        }
    }
}
