//! Rules of the policy file: a program, optionally what must be among its options and operands, and a decision.
//!
//! A rule can only make a verdict stricter. It matches names, not substrings, and never looks at anything but the words.

use crate::gate::Decision;
use crate::gate::bounds::Budget;
use crate::gate::explain::Explanation;
use crate::gate::options::{Reading, read_words};
use crate::gate::policy::{GatePolicy, PolicyError, error, matches_glob};
use crate::gate::shell;
use serde::Deserialize;

/// What makes a quoted word a pattern for a program that matches names itself, such as git.
const PATTERN_SIGNS: [char; 3] = ['*', '?', '['];

/// A rule as written in the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleText {
    id: String,
    /// `git push`; for programs that the policy does not know, the program and its first words.
    program: String,
    /// The first operand is one of these words.
    #[serde(default)]
    first: String,
    /// One of these options, separated by blanks.
    #[serde(default)]
    options: String,
    /// An operand that fits one of these patterns (`*` stands for any text).
    #[serde(default)]
    operands: Vec<String>,
    /// An operand that names a protected branch.
    #[serde(default)]
    protected_branch: bool,
    /// An operand that is an existing file, or a pattern that the program itself may find one for.
    #[serde(default)]
    existing_file: bool,
    decision: Decision,
    reason: String,
    fix: String,
    /// Commands that the rule must match, and must not match.
    #[serde(default)]
    matches: Vec<String>,
    #[serde(default)]
    misses: Vec<String>,
}

/// A rule that has been checked.
#[derive(Debug)]
pub struct Rule {
    pub id: String,
    program: Vec<String>,
    first: Vec<String>,
    options: Vec<String>,
    operands: Vec<String>,
    protected_branch: bool,
    existing_file: bool,
    pub decision: Decision,
    pub reason: String,
    pub fix: String,
    matches: Vec<String>,
    misses: Vec<String>,
}

impl Rule {
    pub(super) fn checked(file: &str, line: usize, text: RuleText) -> Result<Self, PolicyError> {
        let fail = |why: &str| Err(error(file, line, &text.id, why));
        if text.id.trim().is_empty() || text.program.trim().is_empty() {
            return fail("needs an id and a program");
        }
        if text.decision == Decision::Allow {
            return fail(
                "can only ask or deny: rules make verdicts stricter, the allowlist allows",
            );
        }
        if text.reason.trim().is_empty() || text.fix.trim().is_empty() {
            return fail("needs a reason and a fix");
        }
        if text.matches.is_empty() || text.misses.is_empty() {
            return fail("needs examples in both `matches` and `misses`");
        }
        let list = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        Ok(Self {
            program: list(&text.program),
            first: list(&text.first),
            options: list(&text.options),
            id: text.id,
            operands: text.operands,
            protected_branch: text.protected_branch,
            existing_file: text.existing_file,
            decision: text.decision,
            reason: text.reason,
            fix: text.fix,
            matches: text.matches,
            misses: text.misses,
        })
    }

    /// Itself, in words.
    pub(super) fn explanation(&self) -> Explanation {
        let mut when = format!("the command is {}", self.program.join(" "));
        let conditions = [
            ("its first operand is", self.first.join(" or ")),
            ("it has the option", self.options.join(" or ")),
            ("it has an operand like", self.operands.join(" or ")),
        ];
        for (is, what) in conditions {
            if !what.is_empty() {
                when.push_str(&format!(", and {is} {what}"));
            }
        }
        if self.protected_branch {
            when.push_str(", and an operand names a protected branch");
        }
        if self.existing_file {
            when.push_str(", and an operand is an existing file, or a pattern for such");
        }
        Explanation {
            rule: self.id.clone(),
            decision: Some(self.decision),
            when,
            reason: self.reason.clone(),
            fix: self.fix.clone(),
            matches: self.matches.clone(),
            misses: self.misses.clone(),
        }
    }

    /// Without conditions on what follows the subcommand, so that a grant for the program and subcommand covers exactly what it speaks about.
    pub(super) fn is_about_whole_program(&self) -> bool {
        self.options.is_empty()
            && self.operands.is_empty()
            && !self.protected_branch
            && !self.existing_file
    }

    /// Whether it speaks about a command. `exists` says whether an operand is a file.
    pub(super) fn speaks(
        &self,
        policy: &GatePolicy,
        reading: &Reading<'_>,
        exists: &dyn Fn(&str) -> bool,
    ) -> bool {
        let Some(skipped) = self.program_fits(reading) else {
            return false;
        };
        let operands = reading.operands.get(skipped..).unwrap_or_default();
        let any = |test: &dyn Fn(&str) -> bool| operands.iter().any(|operand| test(&operand.text));
        (self.first.is_empty()
            || operands
                .first()
                .is_some_and(|operand| self.first.contains(&operand.text)))
            && (self.options.is_empty() || self.options.iter().any(|option| reading.has(option)))
            && (self.operands.is_empty()
                || any(&|operand| {
                    self.operands
                        .iter()
                        .any(|pattern| matches_glob(pattern, operand))
                }))
            && (!self.protected_branch
                || any(&|operand| names_branch(operand, &policy.settings.protected_branches)))
            && (!self.existing_file || any(&|path| exists(path) || path.contains(PATTERN_SIGNS)))
    }

    /// How many operands belong to the program's name; `None` if it is about another program.
    fn program_fits(&self, reading: &Reading<'_>) -> Option<usize> {
        // A rule about `npm ls` is also about what is read like it.
        if reading
            .specs
            .last()
            .is_some_and(|spec| spec.name.split(' ').eq(self.program.iter()))
        {
            return Some(0);
        }
        let (mut left, mut skipped) = (self.program.as_slice(), 0);
        for part in &reading.path {
            if left.is_empty() {
                break;
            }
            left = left.strip_prefix(std::slice::from_ref(part))?;
        }
        for part in left {
            (reading.operands.get(skipped)?.text == *part).then_some(())?;
            skipped += 1;
        }
        Some(skipped)
    }

    /// Its examples that come out wrong.
    pub(super) fn broken_examples(&self, policy: &GatePolicy) -> Vec<String> {
        let speaks = |text: &String| {
            shell::read(text, &mut Budget::default()).is_ok_and(|script| {
                script.commands.iter().any(|words| {
                    self.speaks(policy, &read_words(policy, words), &|_| self.existing_file)
                })
            })
        };
        let wrong = self.matches.iter().filter(|text| !speaks(text));
        wrong
            .chain(self.misses.iter().filter(|text| speaks(text)))
            .cloned()
            .collect()
    }
}

/// `main`, `+main`, `HEAD:main`, `HEAD:refs/heads/main`.
fn names_branch(operand: &str, protected: &[String]) -> bool {
    let target = operand
        .rsplit(':')
        .next()
        .unwrap_or(operand)
        .trim_start_matches('+');
    let name = target.strip_prefix("refs/heads/").unwrap_or(target);
    protected.iter().any(|pattern| matches_glob(pattern, name))
}
