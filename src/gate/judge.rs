//! The judgement: touches, policy and facts in, verdict out.
//!
//! One traversal serves both [`wants`] and [`judge`], so that nothing is judged which was not looked up. It never depends on
//! a fact where to go next. Every finding goes to [`Findings`]; the strictest one decides.
//!
//! A text is read anew for what it wants, for its verdict and for its admission. A parsed form would have to travel beside the
//! journal, through a state that is nothing but the journal; an ordinary command is read in a few microseconds.

/// What speaks against one command.
mod command;
/// Touches of what is neither a path nor a command.
mod outside;

use crate::gate::bounds::{Budget, PATH_MAX_BYTES, PATHS_MAX};
use crate::gate::findings::Findings;
use crate::gate::fits::fits;
use crate::gate::grant::pattern_of;
use crate::gate::options::read_words;
use crate::gate::paths::{Fault, candidates, fault, names_secret};
use crate::gate::policy::GatePolicy;
use crate::gate::shell::{self, Script, Unreadable};
use crate::gate::words::{Feature, Word};
use crate::gate::{Decision, Facts, JudgedCommand, Pattern, Restrains, Touch, Verdict, Wants};
use std::collections::HashMap;

/// Commands within commands beyond which a text is refused (`bash -c "bash -c …"`, `env env env …`).
const NESTING_MAX_LEVELS: usize = 8;

/// Of a path, in a reason. The question to the person shows the whole command anyway.
const PATH_SHOWN_MAX_CHARS: usize = 200;

/// The programs and paths that the world must look up before [`judge`] can be sure.
pub fn wants(policy: &GatePolicy, touches: &[Touch]) -> Wants {
    let facts = Facts::default();
    let mut judgement = Judgement::new(policy, &facts);
    judgement.all(touches);
    judgement.wants
}

/// The gate's word on what a call touches. A fact that is missing counts against the call.
pub fn judge(policy: &GatePolicy, touches: &[Touch], facts: &Facts) -> Verdict {
    let mut judgement = Judgement::new(policy, facts);
    judgement.all(touches);
    judgement.verdict()
}

struct Judgement<'a> {
    policy: &'a GatePolicy,
    facts: &'a Facts,
    wants: Wants,
    budget: Budget,
    findings: Findings,
    /// Paths that were judged, with what came of it.
    paths: HashMap<String, Decision>,
    commands: Vec<JudgedCommand>,
    /// What could be granted, by the outermost command.
    pattern: Option<Pattern>,
    shell: bool,
}

impl<'a> Judgement<'a> {
    fn new(policy: &'a GatePolicy, facts: &'a Facts) -> Self {
        Self {
            policy,
            facts,
            wants: Wants::default(),
            budget: Budget::default(),
            findings: Findings::default(),
            paths: HashMap::new(),
            commands: Vec::new(),
            pattern: None,
            shell: false,
        }
    }

    fn note(&mut self, decision: Decision, rule: &str, text: impl Into<String>, fix: &str) {
        self.findings.add(decision, rule, text.into(), fix, false);
    }

    /// A finding that the person may settle for the whole session.
    fn note_grantable(&mut self, rule: &str, text: impl Into<String>, fix: &str) {
        self.findings
            .add(Decision::Ask, rule, text.into(), fix, true);
    }

    fn all(&mut self, touches: &[Touch]) {
        if touches
            .iter()
            .filter(|touch| matches!(touch, Touch::Command(_)))
            .count()
            > 1
        {
            self.note(
                Decision::Deny,
                "several-commands",
                "one call would run several commands",
                "make one call for each",
            );
        }
        for touch in touches {
            self.touch(touch);
        }
    }

    fn touch(&mut self, touch: &Touch) {
        let changes = match touch {
            Touch::Read(_) | Touch::RepositoryRead => false,
            Touch::GitHubRead | Touch::Workspace(_) | Touch::Sources(_) => false,
            Touch::Forbidden { .. } | Touch::Only { .. } => false,
            Touch::Schedule(wish) => wish.changes(),
            Touch::Write(_) | Touch::Command(_) | Touch::RepositoryWrite => true,
            Touch::Push(_) | Touch::GitHubWrite | Touch::Clone(_) | Touch::Mcp(_) => true,
        };
        if changes && !self.policy.settings().write_enabled {
            let fix =
                "the person can set AGENT_WRITE_ENABLED=true; until then only reading tools work";
            self.note(
                Decision::Deny,
                "write-switch",
                "writing and running commands is switched off",
                fix,
            );
            return;
        }
        match touch {
            Touch::Read(path) | Touch::Write(path) => self.path(path),
            Touch::Command(text) => self.command_text(text),
            Touch::RepositoryRead | Touch::RepositoryWrite => {}
            Touch::Push(wish) => self.push(wish),
            Touch::GitHubRead => self.github("GET"),
            Touch::GitHubWrite => self.github("POST"),
            Touch::Workspace(name) => self.workspace(name),
            Touch::Clone(url) => self.clone_of(url),
            Touch::Schedule(wish) if wish.changes() => self.schedule(wish),
            Touch::Schedule(_) => {}
            Touch::Mcp(mcp) => self.mcp(mcp),
            Touch::Sources(names) => self.sources(names),
            Touch::Forbidden { by, tool } => self.forbidden(by, tool),
            Touch::Only { command, runs } => self.only(command, runs),
        }
    }

    fn forbidden(&mut self, by: &Restrains, tool: &str) {
        match by {
            Restrains::Agent(agent) => self.note(
                Decision::Deny,
                "agent-tools",
                format!("the agent {agent} does not have {tool}"),
                "another agent, or none, by the person's word: /agents",
            ),
            Restrains::Command(command) => self.note(
                Decision::Deny,
                "command-tools",
                format!("the allowed-tools of /{command} do not have {tool}"),
                "go on without it, or leave it to a turn that the command does not begin",
            ),
        }
    }

    /// Where nobody knows what would run, none of it is what the patterns mean.
    fn only(&mut self, command: &str, runs: &[Vec<String>]) {
        let fit = |one: &JudgedCommand| {
            let mut lists = runs.iter();
            lists.all(|list| list.iter().any(|pattern| fits(pattern, &one.argv)))
        };
        if self.commands.is_empty() || !self.commands.iter().all(fit) {
            let lists = runs.iter().map(|list| format!("Bash({})", list.join(", ")));
            let meant: Vec<String> = lists.collect();
            self.note(
                Decision::Deny,
                "command-tools",
                format!(
                    "the allowed-tools of /{command} say {}",
                    meant.join(" and ")
                ),
                "go on with what they name, or leave it to a turn that the command does not begin",
            );
        }
    }

    fn unresolved(&mut self, rule: &str, what: &str) {
        let text = format!("{what} could not be looked up");
        self.note(Decision::Ask, rule, text, "the person can approve it");
    }

    fn command_text(&mut self, text: &str) {
        let Some(script) = self.script(text, 0) else {
            return;
        };
        self.shell |= script.argv.is_none();
        if let ([words], Some(_)) = (script.commands.as_slice(), &script.argv) {
            self.pattern = pattern_of(self.policy, words);
        }
    }

    /// A text for a shell: what is special about it, and every command in it.
    fn script(&mut self, text: &str, level: usize) -> Option<Script> {
        let script = match shell::read(text, &mut self.budget) {
            Ok(script) => script,
            Err(unreadable) => {
                let (text, fix) = unreadable.describe();
                self.note(Decision::Deny, "unreadable", text, fix);
                return None;
            }
        };
        for feature in &script.features {
            let (rule, text) = feature.describe();
            let fix = match feature {
                Feature::Invisible | Feature::ControlCharacter => "leave those characters out",
                _ => "run one plain command at a time, or have this text approved",
            };
            self.note(Decision::Ask, rule, format!("the command {text}"), fix);
        }
        for target in &script.redirects {
            self.file(target, false);
        }
        for words in &script.commands {
            self.simple(words, level);
        }
        Some(script)
    }

    /// One simple command, and those inside it.
    fn simple(&mut self, words: &[Word], level: usize) {
        let Some(program) = words.first() else { return };
        if level > NESTING_MAX_LEVELS {
            self.note(
                Decision::Deny,
                "too-deep",
                "commands are nested too deeply to be judged",
                "run the inner command itself",
            );
            return;
        }
        let (outer, command_at) = (self.findings.begin(), self.commands.len());
        let argv = words.iter().map(|word| word.text.clone()).collect();
        self.commands.push(JudgedCommand {
            argv,
            program: program.text.clone(),
            decision: Decision::Allow,
        });

        let reading = read_words(self.policy, words);
        self.program(program);
        self.permission(program, &reading);
        self.options(&reading);
        for word in &reading.files {
            self.file(word, reading.specs.is_empty());
        }
        self.rules(&reading);
        for text in &reading.texts {
            let shown = format!("{} hands a text to a shell", reading.path.join(" "));
            self.note(
                Decision::Ask,
                "shell-text",
                shown,
                "run the command in the text itself",
            );
            self.script(&text.text, level + 1);
        }
        for inner in &reading.commands {
            self.simple(inner, level + 1);
        }
        self.commands[command_at].decision = self.findings.end(outer);
    }

    /// A word that a program or the shell may open.
    fn file(&mut self, word: &Word, colons: bool) {
        // The shell may expand to a secret's name.
        if word.dynamic_from.is_some()
            && [word.known(), &word.text]
                .iter()
                .any(|part| names_secret(self.policy, part))
        {
            self.fault(&word.text, Fault::Secret);
        }
        for candidate in candidates(word, colons) {
            self.path(&candidate.path);
        }
    }

    fn path(&mut self, path: &str) {
        if path.contains('\0') {
            self.fault("a path with a NUL byte", Fault::Outside);
            return;
        }
        if let Some(decision) = self.paths.get(path) {
            return self.findings.again(*decision);
        }
        if self.paths.len() >= PATHS_MAX {
            let (text, fix) = Unreadable::TooMuch.describe();
            return self.note(Decision::Deny, "unreadable", text, fix);
        }
        if path.len() <= PATH_MAX_BYTES {
            self.wants.paths.push(path.to_owned());
        }
        let outer = self.findings.begin();
        if let Some(found) = fault(self.policy, path, self.facts.paths.get(path)) {
            self.fault(path, found);
        }
        let decision = self.findings.end(outer);
        self.paths.insert(path.to_owned(), decision);
    }

    fn fault(&mut self, path: &str, found: Fault) {
        let (rule, seen, fix) = found.describe();
        let decision = match found {
            Fault::Unresolved => Decision::Ask,
            Fault::Secret | Fault::Outside | Fault::OwnData | Fault::GitInternals => Decision::Deny,
        };
        let shown: String = path.chars().take(PATH_SHOWN_MAX_CHARS).collect();
        let cut = if shown.len() < path.len() { "…" } else { "" };
        self.note(decision, rule, format!("{shown}{cut} {seen}"), fix);
    }

    fn verdict(self) -> Verdict {
        let Findings {
            strictest,
            reasons,
            all_grantable,
        } = self.findings.sorted();
        let is_grantable = strictest == Decision::Ask && self.commands.len() == 1 && all_grantable;
        Verdict {
            decision: strictest,
            reasons: reasons.into_iter().map(|(_, reason)| reason).collect(),
            commands: self.commands,
            pattern: self.pattern.filter(|_| is_grantable),
            shell: self.shell,
        }
    }
}
