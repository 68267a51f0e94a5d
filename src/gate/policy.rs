//! The policy: `config/policy.toml`, compiled in, plus files that can only tighten it, plus the settings of this start.
//!
//! Everything that the gate knows about particular programs is data in here. Loading checks what it reads: a bad rule
//! stops the start with file, line and rule. Reads no files itself, and judges nothing.

use crate::gate::Decision;
use crate::gate::programs::{ProgramSpec, ProgramText, Stance};
use crate::gate::rules::{Rule, RuleText};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap, HashSet};
use toml::Spanned;

/// The rules that every start has.
pub const BUILT_IN: &str = include_str!("../../config/policy.toml");
const BUILT_IN_NAME: &str = "config/policy.toml";

/// What the person configured, as far as it concerns the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateSettings {
    /// Programs that may run without asking, by name.
    pub allowlist: Vec<String>,
    /// `AGENT_WRITE_ENABLED`: without it, nothing writes or executes.
    pub write_enabled: bool,
    /// Branches that nobody may force-push.
    pub protected_branches: Vec<String>,
}

/// A policy file that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {rule}: {text}")]
pub struct PolicyError {
    pub file: String,
    pub line: usize,
    /// The rule or program concerned; `-` for errors of the file as a whole.
    pub rule: String,
    pub text: String,
}

/// Rules in a form that is quick to ask.
#[derive(Debug)]
pub struct GatePolicy {
    pub(super) settings: GateSettings,
    digest: String,
    pub(super) denylist: Vec<String>,
    pub(super) interpreters: HashSet<String>,
    pub(super) builtins: HashSet<String>,
    pub(super) with_subcommands: HashSet<String>,
    pub(super) secrets: Vec<String>,
    pub(super) not_secrets: Vec<String>,
    pub(super) readers: HashSet<String>,
    programs: HashMap<String, ProgramSpec>,
    /// From every name or alias to the key in `programs`.
    names: HashMap<String, String>,
    /// Names of other programs that are read like one in `programs`.
    siblings: HashMap<String, String>,
    /// Aliases with a `*`, such as `python3.*`.
    patterns: Vec<(String, String)>,
    pub(super) rules: Vec<Rule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PolicyText {
    denylist: Vec<String>,
    interpreters: String,
    builtins: String,
    with_subcommands: String,
    secrets: Vec<String>,
    not_secrets: Vec<String>,
    readers: Vec<String>,
    pub(super) program: Vec<Spanned<ProgramText>>,
    rule: Vec<Spanned<RuleText>>,
    /// Of the rules that are no data: those of the shell, of paths, of names.
    pub(super) explanations: BTreeMap<String, ExplanationText>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplanationText {
    pub when: String,
    pub reason: String,
    #[serde(default)]
    pub fix: String,
}

impl GatePolicy {
    /// The built-in policy, tightened by `files` (a name for errors, and the text).
    ///
    /// Later files may add denied programs, secrets and rules. What a program's options mean can't be redefined: a file that
    /// repeats the built-in definitions unchanged is fine, a different one is an error.
    pub fn load(files: &[(&str, &str)], settings: GateSettings) -> Result<Self, PolicyError> {
        let mut policy = Self::empty(settings, files);
        let mut tightening = files
            .iter()
            .filter(|(_, text)| *text != BUILT_IN)
            .peekable();
        let base = match tightening.peek() {
            Some(_) => parse(BUILT_IN_NAME, BUILT_IN)?,
            None => parse(BUILT_IN_NAME, &for_judging(BUILT_IN))?,
        };
        // Only needed to compare with; copying it takes a part of every start.
        let base_programs: Vec<ProgramText> = match tightening.peek() {
            Some(_) => base
                .program
                .iter()
                .map(|program| program.as_ref().clone())
                .collect(),
            None => Vec::new(),
        };
        policy.add_programs(base.program)?;
        policy.builtins = words(&base.builtins).collect();
        policy.with_subcommands = words(&base.with_subcommands).collect();
        policy.not_secrets = base.not_secrets;
        policy.readers = base.readers.into_iter().collect();
        policy.tighten(base.denylist, &base.interpreters, base.secrets);
        for rule in base.rule {
            policy.rules.push(Rule::checked(
                BUILT_IN_NAME,
                line_of(BUILT_IN, rule.span().start),
                rule.into_inner(),
            )?);
        }
        for (name, text) in tightening {
            policy.add_file(name, text, &base_programs)?;
        }
        Ok(policy)
    }

    /// SHA-256 over everything that verdicts depend on, as hex.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The write switch.
    pub fn write_enabled(&self) -> bool {
        self.settings.write_enabled
    }

    /// The settings that it was loaded with.
    pub fn settings(&self) -> &GateSettings {
        &self.settings
    }

    /// Every example of the policy's programs, with what it must be judged as: program, decision, command.
    pub fn examples(&self) -> Vec<(String, Decision, String)> {
        let programs = built_in().program.into_iter().map(Spanned::into_inner);
        programs.flat_map(ProgramText::examples).collect()
    }

    /// Examples that their own rule does not treat as it says: (rule, example).
    pub fn broken_rule_examples(&self) -> Vec<(String, String)> {
        let broken = |rule: &Rule| {
            rule.broken_examples(self)
                .into_iter()
                .map(|example| (rule.id.clone(), example))
                .collect::<Vec<_>>()
        };
        self.rules.iter().flat_map(broken).collect()
    }

    /// The name under which a program is known: `python3` is `python`.
    pub(super) fn canonical<'a>(&'a self, name: &'a str) -> &'a str {
        if let Some(key) = self.names.get(name) {
            return key;
        }
        self.patterns
            .iter()
            .find(|(pattern, _)| matches_glob(pattern, name))
            .map_or(name, |(_, key)| key)
    }

    pub(super) fn specs(&self) -> impl Iterator<Item = &ProgramSpec> {
        self.programs.values()
    }

    pub(super) fn program(&self, name: &str) -> Option<&ProgramSpec> {
        let name = self.canonical(name);
        self.programs
            .get(self.siblings.get(name).map_or(name, String::as_str))
    }

    fn empty(settings: GateSettings, files: &[(&str, &str)]) -> Self {
        let digest = digest(&settings, files);
        Self {
            settings,
            digest,
            denylist: Vec::new(),
            interpreters: HashSet::new(),
            builtins: HashSet::new(),
            with_subcommands: HashSet::new(),
            secrets: Vec::new(),
            not_secrets: Vec::new(),
            readers: HashSet::new(),
            programs: HashMap::new(),
            names: HashMap::new(),
            siblings: HashMap::new(),
            patterns: Vec::new(),
            rules: Vec::new(),
        }
    }

    fn tighten(&mut self, denylist: Vec<String>, interpreters: &str, secrets: Vec<String>) {
        self.denylist.extend(denylist);
        self.interpreters.extend(words(interpreters));
        self.secrets.extend(secrets);
    }

    fn add_file(
        &mut self,
        file: &str,
        text: &str,
        base: &[ProgramText],
    ) -> Result<(), PolicyError> {
        let added = parse(file, text)?;
        for program in &added.program {
            if !base.contains(program.as_ref()) {
                let text_of = "the built-in definitions of programs can't be changed by a file; add a [[rule]] instead";
                return Err(error(
                    file,
                    line_of(text, program.span().start),
                    &program.as_ref().name,
                    text_of,
                ));
            }
        }
        self.tighten(added.denylist, &added.interpreters, added.secrets);
        for rule in added.rule {
            let line = line_of(text, rule.span().start);
            let rule = Rule::checked(file, line, rule.into_inner())?;
            if let Some(example) = rule.broken_examples(self).first() {
                return Err(error(
                    file,
                    line,
                    &rule.id,
                    &format!("its own example does not come out as it says: {example}"),
                ));
            }
            self.rules.push(rule);
        }
        Ok(())
    }

    fn add_programs(&mut self, programs: Vec<Spanned<ProgramText>>) -> Result<(), PolicyError> {
        for program in programs {
            let start = program.span().start;
            let text = program.into_inner();
            // Counting lines for every program would be a third of the load.
            let line = || line_of(BUILT_IN, start);
            let fail = |why: String| error(BUILT_IN_NAME, line(), &text.name, &why);
            if text.name.is_empty() || self.programs.contains_key(&text.name) {
                return Err(fail("has no name, or one that stands twice".to_owned()));
            }
            if matches!(text.decision, Stance::Ask | Stance::Deny)
                && (text.reason.is_empty() || text.fix.is_empty())
            {
                return Err(fail("asks or denies without a reason and a fix".to_owned()));
            }
            let mut options = HashMap::new();
            for like in words(&text.like) {
                let key = like.replace('_', " ");
                let other = self.programs.get(&key).ok_or_else(|| {
                    fail(format!("is like {key:?}, which does not stand before it"))
                })?;
                options.extend(other.options.iter().map(|(name, opt)| (name.clone(), *opt)));
            }
            text.options_into(&mut options);
            let parent = text
                .name
                .rsplit_once(' ')
                .map(|(parent, _)| format!("{parent} "));
            for alias in words(&text.aliases) {
                let full = format!("{}{alias}", parent.as_deref().unwrap_or_default());
                if full.contains('*') {
                    self.patterns.push((full, text.name.clone()));
                } else {
                    self.names.insert(full, text.name.clone());
                }
            }
            for sibling in words(&text.siblings) {
                self.siblings.insert(
                    format!("{}{sibling}", parent.as_deref().unwrap_or_default()),
                    text.name.clone(),
                );
            }
            self.programs.insert(text.name.clone(), text.ready(options));
        }
        Ok(())
    }
}

/// Whether a name fits a pattern in which `*` stands for any text.
pub(super) fn matches_glob(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut left) = name.strip_prefix(head) else {
        return false;
    };
    let mut rest = rest;
    while let Some((middle, after)) = rest.split_once('*') {
        let Some(at) = left.find(middle) else {
            return false;
        };
        left = &left[at + middle.len()..];
        rest = after;
    }
    left.ends_with(rest)
}

pub(super) fn error(file: &str, line: usize, rule: &str, text: &str) -> PolicyError {
    PolicyError {
        file: file.to_owned(),
        line,
        rule: rule.to_owned(),
        text: text.to_owned(),
    }
}

fn parse(file: &str, text: &str) -> Result<PolicyText, PolicyError> {
    toml::from_str(text).map_err(|err| {
        error(
            file,
            line_of(text, err.span().map_or(0, |span| span.start)),
            "-",
            err.message(),
        )
    })
}

/// The built-in file with everything that stands in it.
pub(super) fn built_in() -> PolicyText {
    parse(BUILT_IN_NAME, BUILT_IN).expect("BUG: the built-in policy was read at the start")
}

/// Half of the built-in file is for people and tests: the examples of programs (one line each) and the explanations. A start
/// does without them; lines keep their numbers.
fn for_judging(text: &str) -> String {
    let end = text.find("\n[explanations]").unwrap_or(text.len());
    let is_example = |line: &str| {
        ["allow = [", "ask = [", "deny = ["]
            .iter()
            .any(|start| line.starts_with(start) && line.ends_with(']'))
    };
    let mut short = String::with_capacity(end);
    for line in text[..end].lines() {
        if !is_example(line) && !line.starts_with('#') {
            short.push_str(line);
        }
        short.push('\n');
    }
    short
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

pub(super) fn words(list: &str) -> impl Iterator<Item = String> + '_ {
    list.split_whitespace().map(str::to_owned)
}

fn digest(settings: &GateSettings, files: &[(&str, &str)]) -> String {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    part(BUILT_IN.as_bytes());
    for (_, text) in files.iter().filter(|(_, text)| *text != BUILT_IN) {
        part(text.as_bytes());
    }
    part(&[u8::from(settings.write_enabled)]);
    for list in [&settings.allowlist, &settings.protected_branches] {
        part(&(list.len() as u64).to_be_bytes());
        list.iter().for_each(|item| part(item.as_bytes()));
    }
    hex::encode(hash.finalize())
}
