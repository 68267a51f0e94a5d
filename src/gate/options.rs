//! What a program would make of its words: options, their values, operands, commands inside.
//!
//! Follows getopt as the programs do (clusters, `--`, attached values, abbreviations), by the definitions in the policy.
//! A program that the policy does not know is read with suspicion: every word may be a path. Decides nothing.

use crate::gate::operands::{place_operands, unspecified};
use crate::gate::policy::GatePolicy;
use crate::gate::programs::{Operands, Opt, ProgramSpec, Takes};
use crate::gate::words::Word;
use std::collections::BTreeSet;

/// The words of one simple command, understood.
#[derive(Debug, Default)]
pub struct Reading<'p> {
    /// Program and subcommands, by their canonical names: `git`, `push`.
    pub path: Vec<String>,
    /// Their definitions, outermost first.
    pub specs: Vec<&'p ProgramSpec>,
    /// Options seen, by their full names.
    pub options: Vec<String>,
    /// Options that ask by themselves.
    pub asking: Vec<String>,
    /// Options that the definition does not list, where it has to.
    pub unknown: Vec<String>,
    /// A subcommand that the definition does not list.
    pub unknown_subcommand: Option<String>,
    /// A module of an interpreter that is not known to be harmless.
    pub unknown_module: Option<String>,
    pub operands: Vec<Word>,
    /// Words and parts of words that the program may open as files.
    pub files: Vec<Word>,
    /// Commands that the program starts: their words.
    pub commands: Vec<Vec<Word>>,
    /// Texts that a shell reads.
    pub texts: Vec<Word>,
    /// A wrapper sets variables for the command inside.
    pub assigns: bool,
}

impl Reading<'_> {
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|seen| seen == option)
    }
}

/// The name of a program without its folder.
pub fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Reads the words of a command, the program first.
pub fn read_words<'p>(policy: &'p GatePolicy, words: &[Word]) -> Reading<'p> {
    let mut reading = Reading::default();
    let Some((program, rest)) = words.split_first() else {
        return reading;
    };
    let name = policy.canonical(base_name(&program.text)).to_owned();
    match policy.program(&name) {
        Some(spec) => {
            reading.path.push(name);
            level(policy, spec, rest, &mut reading);
        }
        None => {
            reading.path.push(name);
            unspecified(rest, &mut reading);
        }
    }
    reading
}

/// One level of a known program: its options, up to the subcommand if it has any.
fn level<'p>(
    policy: &'p GatePolicy,
    spec: &'p ProgramSpec,
    words: &[Word],
    reading: &mut Reading<'p>,
) {
    reading.specs.push(spec);
    let mut inline = false;
    let mut operands: Vec<Word> = Vec::new();
    let mut at = 0;
    let mut options_over = false;
    while at < words.len() {
        let word = &words[at];
        at += 1;
        if !options_over && word.text == "--" && !spec.options.contains_key("--") {
            options_over = true;
            continue;
        }
        let is_option = !options_over && is_option(spec, &word.text);
        if !is_option {
            if spec.subcommands {
                return subcommand(policy, spec, word, &words[at..], reading);
            }
            operands.push(word.clone());
            // Only programs that mix options and operands look for options further on.
            options_over |= matches!(
                spec.operands,
                Operands::Script | Operands::Command | Operands::Shell
            );
            continue;
        }
        match option(spec, word, &words[at..], reading) {
            Step::Took(count) => at += count,
            Step::Inline => inline = true,
            Step::Module(name, taken) => {
                return module(
                    policy,
                    spec,
                    &name,
                    words.get(at + taken..).unwrap_or_default(),
                    reading,
                );
            }
            Step::Rest(text) => {
                reading.texts.push(text);
                return;
            }
        }
    }
    if spec.needs_subcommand {
        reading.unknown_subcommand = Some("nothing".to_owned());
    }
    place_operands(spec, operands, inline, reading);
}

/// A dash alone is mostly a file; shells have options that begin with a plus.
fn is_option(spec: &ProgramSpec, text: &str) -> bool {
    match text {
        "-" | "+" => spec.options.contains_key(text),
        _ => text.starts_with('-') || (text.starts_with('+') && spec.options.contains_key("+o")),
    }
}

fn subcommand<'p>(
    policy: &'p GatePolicy,
    spec: &'p ProgramSpec,
    word: &Word,
    rest: &[Word],
    reading: &mut Reading<'p>,
) {
    let full = format!("{} {}", spec.name, word.text);
    match policy.program(&full) {
        Some(inner) => {
            reading.path.push(
                policy
                    .canonical(&full)
                    .rsplit(' ')
                    .next()
                    .unwrap_or(&word.text)
                    .to_owned(),
            );
            level(policy, inner, rest, reading);
        }
        None => {
            if spec.known_options_only {
                reading.unknown_subcommand = Some(word.text.clone());
            }
            reading.path.push(word.text.clone());
            unspecified(rest, reading);
        }
    }
}

fn module<'p>(
    policy: &'p GatePolicy,
    spec: &ProgramSpec,
    name: &str,
    rest: &[Word],
    reading: &mut Reading<'p>,
) {
    let known = spec
        .modules
        .contains(name)
        .then(|| policy.program(name))
        .flatten();
    match known {
        Some(inner) => {
            reading.path = vec![inner.name.clone()];
            level(policy, inner, rest, reading);
        }
        None => {
            if !spec.modules.contains(name) {
                reading.unknown_module = Some(name.to_owned());
            }
            unspecified(rest, reading);
        }
    }
}

enum Step {
    /// An option that took so many of the words that follow.
    Took(usize),
    /// The first operand is a text for a shell.
    Inline,
    /// A module takes over; so many of the words that follow belong to its name.
    Module(String, usize),
    /// The option and all that follows are a text for a shell.
    Rest(Word),
}

fn option(spec: &ProgramSpec, word: &Word, rest: &[Word], reading: &mut Reading<'_>) -> Step {
    let text = &word.text;
    if spec.options.contains_key(text.as_str()) {
        return take(spec, text, None, rest, reading);
    }
    if spec.numbers && text[1..].chars().all(|c| c.is_ascii_digit()) {
        return Step::Took(0);
    }
    if text.starts_with("--") || spec.one_dash {
        return long_option(spec, word, rest, reading);
    }
    cluster(spec, word, rest, reading)
}

fn long_option(spec: &ProgramSpec, word: &Word, rest: &[Word], reading: &mut Reading<'_>) -> Step {
    let (name, value) = match word.text.split_once('=') {
        Some((name, _)) => (name, Some(word.tail(name.len() + 1))),
        None => (word.text.as_str(), None),
    };
    if spec.options.contains_key(name) {
        return take(spec, name, value, rest, reading);
    }
    let mut candidates: Vec<&String> = spec
        .options
        .keys()
        .filter(|known| name.len() > 2 && known.starts_with(name))
        .collect();
    // Of several that it may abbreviate, the most dangerous one counts.
    candidates.sort_by_key(|known| (std::cmp::Reverse(spec.options[*known].takes), *known));
    let Some(first) = candidates.first().copied() else {
        unknown(spec, name, reading);
        reading.files.extend(value);
        return Step::Took(0);
    };
    if spec.one_dash {
        // No abbreviations there.
        unknown(spec, name, reading);
        reading.files.extend(value);
        return Step::Took(0);
    }
    if candidates.len() > 1 {
        unknown(spec, name, reading);
    }
    for other in &candidates[1..] {
        note(spec, other, reading);
    }
    take(spec, &first.clone(), value, rest, reading)
}

/// `-abc`: flags one by one, until one that takes the rest as its value.
fn cluster(spec: &ProgramSpec, word: &Word, rest: &[Word], reading: &mut Reading<'_>) -> Step {
    let dash = &word.text[..1];
    let (mut inline, mut flags) = (false, BTreeSet::new());
    for (at, letter) in word.text.char_indices().skip(1) {
        if flags.contains(&letter) {
            continue; // said twice, it is said
        }
        let name = format!("{dash}{letter}");
        let after = at + letter.len_utf8();
        let attached = || (after < word.text.len()).then(|| word.tail(after));
        match spec.options.get(&name).map(|opt| opt.takes) {
            None if spec.numbers && letter.is_ascii_digit() => {}
            None => {
                reading.options.push(name);
                unknown(spec, &word.text, reading);
                suspect(spec, dash, attached(), rest, reading);
                return Step::Took(0);
            }
            Some(Takes::Nothing) => note(spec, &name, reading),
            Some(Takes::Inline) => {
                note(spec, &name, reading);
                inline = true;
            }
            Some(_) => return take(spec, &name, attached(), rest, reading),
        }
        flags.insert(letter);
    }
    if inline { Step::Inline } else { Step::Took(0) }
}

/// What follows an unknown letter: its value, or more letters, of which the last may take the next word. Each counts.
fn suspect(
    spec: &ProgramSpec,
    dash: &str,
    attached: Option<Word>,
    rest: &[Word],
    reading: &mut Reading<'_>,
) {
    let Some(attached) = attached else { return };
    let letters: BTreeSet<char> = attached.text.chars().collect();
    for letter in letters {
        let name = format!("{dash}{letter}");
        let Some(opt) = spec.options.get(&name) else {
            continue;
        };
        note(spec, &name, reading);
        match opt.takes {
            Takes::Nothing | Takes::Attached => {}
            Takes::Shell | Takes::Inline => reading.texts.extend(rest.first().cloned()),
            Takes::Text | Takes::Path | Takes::Module | Takes::Command => {
                reading.files.extend(rest.first().cloned())
            }
        }
    }
    reading.files.push(attached);
}

fn unknown(spec: &ProgramSpec, name: &str, reading: &mut Reading<'_>) {
    reading.options.push(name.to_owned());
    if spec.known_options_only {
        reading.unknown.push(name.to_owned());
    }
}

fn note(spec: &ProgramSpec, name: &str, reading: &mut Reading<'_>) {
    reading.options.push(name.to_owned());
    if spec.options.get(name).is_some_and(|opt| opt.asks) {
        reading.asking.push(name.to_owned());
    }
}

/// `html:FOLDER`, as pytest's `--cov-report` takes it.
fn behind_colon(value: &Word) -> Option<Word> {
    let at = value.text.find(':')?;
    (!value.text[at..].starts_with("://")).then(|| value.tail(at + 1))
}

/// An option known by name, with the value that is attached to it or follows.
fn take(
    spec: &ProgramSpec,
    name: &str,
    attached: Option<Word>,
    rest: &[Word],
    reading: &mut Reading<'_>,
) -> Step {
    note(spec, name, reading);
    let Opt { takes, .. } = spec.options[name];
    let (value, taken) = match attached {
        Some(value) => (Some(value), 0),
        None => (rest.first().cloned(), usize::from(!rest.is_empty())),
    };
    match takes {
        Takes::Nothing | Takes::Attached => {
            if taken == 0 {
                reading
                    .files
                    .extend(value.filter(|value| value.text.contains('/')));
            }
            Step::Took(0)
        }
        Takes::Inline => Step::Inline,
        Takes::Path => {
            reading.files.extend(value.as_ref().and_then(behind_colon));
            reading.files.extend(value);
            Step::Took(taken)
        }
        Takes::Text => Step::Took(taken),
        Takes::Shell => {
            let Some(mut text) = value else {
                return Step::Took(0);
            };
            if spec.operands != Operands::Command {
                reading.texts.push(text);
                return Step::Took(taken);
            }
            // `env -S 'bash -c' 'rm x'`: what follows are further words of that command.
            for word in &rest[taken..] {
                text.text.push(' ');
                text.text
                    .push_str(&shlex::try_quote(&word.text).unwrap_or_default());
            }
            Step::Rest(text)
        }
        Takes::Command => {
            let end = |at: usize| {
                rest[at].text == ";"
                    || (rest[at].text == "+" && at > 0 && rest[at - 1].text == "{}")
            };
            let length = (0..rest.len()).find(|at| end(*at)).unwrap_or(rest.len());
            reading.commands.push(rest[..length].to_vec());
            Step::Took((length + 1).min(rest.len()))
        }
        Takes::Module => Step::Module(value.map(|word| word.text).unwrap_or_default(), taken),
    }
}
