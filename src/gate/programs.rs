//! What the policy file can say about a program, as written and ready for use.

use crate::gate::Decision;
use crate::gate::policy::words;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};

/// What an option takes. Ordered: the greater one is the more dangerous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Takes {
    Nothing,
    /// A value only if attached: `--color=always`.
    Attached,
    /// A value that is no path: a pattern, a message, a number.
    Text,
    /// A value that may be a path.
    Path,
    /// The name of a module that runs in the program's place (`python -m`).
    Module,
    /// Makes the first operand a command line for a shell (`bash -c`).
    Inline,
    /// Words of a command, up to `;` or `+`.
    Command,
    /// A command line for a shell.
    Shell,
}

/// An option that a program is known to have.
#[derive(Debug, Clone, Copy)]
pub struct Opt {
    pub takes: Takes,
    pub asks: bool,
}

/// What the words are that are no options.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operands {
    #[default]
    Paths,
    Text,
    /// The first is text (a pattern), the others are paths.
    FirstText,
    /// The first is a program for this interpreter; what follows belongs to that.
    Script,
    /// They are a command of their own.
    Command,
    /// They are a command line for a shell.
    Shell,
}

/// What running a program means before its options are looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stance {
    /// As the allowlist says.
    #[default]
    Allow,
    Ask,
    Deny,
    /// As the command inside says.
    Inner,
}

/// One program, or one subcommand (`git push`).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramText {
    pub(super) name: String,
    /// Further names of the same program.
    pub(super) aliases: String,
    /// Other programs whose words mean the same; the allowlist and grants tell them apart.
    pub(super) siblings: String,
    pub(super) decision: Stance,
    pub(super) reason: String,
    pub(super) fix: String,
    /// Options that are not listed make it ask, because some option of the program can execute or write.
    known_options_only: bool,
    pub(super) like: String,
    flags: String,
    values: String,
    texts: String,
    attached: String,
    shells: String,
    commands: String,
    inline: String,
    module: String,
    modules: String,
    asks: String,
    /// `-20` is an option.
    numbers: bool,
    /// `-name` is one option, not five.
    one_dash: bool,
    operands: Operands,
    /// With one of these options, the first operand is not text after all.
    first_text_unless: String,
    /// Operands before the command of a wrapper.
    skip: usize,
    /// `NAME=value` may stand before the command of a wrapper.
    assignments: bool,
    subcommands: bool,
    /// Without a subcommand it does something that asks (`yarn` installs).
    needs_subcommand: bool,
    /// Examples, checked by a test: what each must be with only this program's settings in play.
    allow: Vec<String>,
    ask: Vec<String>,
    deny: Vec<String>,
}

/// [`ProgramText`], ready for use.
#[derive(Debug, Default)]
pub struct ProgramSpec {
    pub name: String,
    /// Others that are read like it.
    pub siblings: Vec<String>,
    pub stance: Stance,
    pub reason: String,
    pub fix: String,
    pub known_options_only: bool,
    pub options: HashMap<String, Opt>,
    pub modules: HashSet<String>,
    pub numbers: bool,
    pub one_dash: bool,
    pub operands: Operands,
    pub first_text_unless: Vec<String>,
    pub skip: usize,
    pub assignments: bool,
    pub subcommands: bool,
    pub needs_subcommand: bool,
}

impl ProgramText {
    pub(super) fn options_into(&self, options: &mut HashMap<String, Opt>) {
        let lists = [
            (&self.flags, Takes::Nothing),
            (&self.values, Takes::Path),
            (&self.texts, Takes::Text),
            (&self.attached, Takes::Attached),
            (&self.shells, Takes::Shell),
            (&self.commands, Takes::Command),
            (&self.inline, Takes::Inline),
            (&self.module, Takes::Module),
        ];
        for (list, takes) in lists {
            options.extend(words(list).map(|name| (name, Opt { takes, asks: false })));
        }
        for name in words(&self.asks) {
            options
                .entry(name)
                .or_insert(Opt {
                    takes: Takes::Nothing,
                    asks: true,
                })
                .asks = true;
        }
    }

    /// Its name, what each example must come out as, and the example.
    pub(super) fn examples(self) -> impl Iterator<Item = (String, Decision, String)> {
        let lists = [
            (Decision::Allow, self.allow),
            (Decision::Ask, self.ask),
            (Decision::Deny, self.deny),
        ];
        lists.into_iter().flat_map(move |(decision, examples)| {
            let name = self.name.clone();
            examples
                .into_iter()
                .map(move |example| (name.clone(), decision, example))
        })
    }

    pub(super) fn ready(self, options: HashMap<String, Opt>) -> ProgramSpec {
        ProgramSpec {
            siblings: words(&self.siblings).collect(),
            stance: self.decision,
            reason: self.reason,
            fix: self.fix,
            known_options_only: self.known_options_only,
            options,
            modules: words(&self.modules).collect(),
            numbers: self.numbers,
            one_dash: self.one_dash,
            operands: self.operands,
            first_text_unless: words(&self.first_text_unless).collect(),
            skip: self.skip,
            assignments: self.assignments,
            subcommands: self.subcommands,
            needs_subcommand: self.needs_subcommand,
            name: self.name,
        }
    }
}

impl ProgramSpec {
    /// Its names, as a person lists them.
    pub fn named(&self) -> String {
        let mut names = vec![self.name.clone()];
        names.extend(self.siblings.iter().cloned());
        names.join(", ")
    }
}
