//! A person at the other end of the real server: speaks until answered with 200, answers what is asked, and looks for
//! himself where something may or may not have happened. And what must be there in the end, whatever happened to the server.

use crate::fake_forge::{Forge, TOKEN};
use crate::fake_model::{FakeModel, Next, calls, says};
use crate::program::Program;
use crate::serve::Served;
use crate::support::{git, journals, records, words};
use journeyman::agent::event::{Event, Record};
use journeyman::doors::whatsapp::standin::Sent;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;
use std::time::Duration;

const OBJECTIVE: &str = "do the job";
const ENDING: &str = "All done.";
const REPEATED: &str = "(sent again after an interruption)\n";
/// Until an orphaned command has done what it will do.
const SETTLED: Duration = Duration::from_millis(400);

/// A session with one of each: a plan, files, a command that asks, a commit, a push to a real remote, a pull request.
pub struct Job {
    pub model: FakeModel,
    pub forge: Forge,
}

impl Job {
    pub async fn new() -> Self {
        let patch =
            json!({"edits": [{"path": "notes.txt", "search": "two\n", "replace": "zwei\n"}]});
        let job: Vec<Next> = vec![
            calls(
                "create_task_plan",
                json!({"steps": ["write", "patch", "run", "commit", "propose"]}),
            ),
            calls("write_file", json!({"path": "new.txt", "content": "new\n"})),
            calls("apply_patch", patch),
            calls("run_command", json!({"command": "echo ran >> log.txt"})),
            calls("git_commit", json!({"message": "feat: do the job"})),
            calls("git_push", json!({})),
            calls(
                "git_create_pr",
                json!({"title": "Do the job", "summary": "It is done."}),
            ),
            says(ENDING),
        ];
        Self {
            model: FakeModel::recorded(job).await,
            forge: Forge::start().await,
        }
    }

    /// A server that is not started yet, in a repository with this remote.
    pub async fn served(&self) -> Served {
        let mut served = Served::new(&self.model).await;
        let workspace = served.program.workspace();
        git(&workspace, &["switch", "--quiet", "--create", "topic"]);
        git(
            &workspace,
            &["remote", "add", "origin", &self.forge.remote()],
        );
        served.environment = vec![
            ("GITHUB_TOKEN".into(), TOKEN.into()),
            ("GITHUB_API_URL".into(), self.forge.api()),
        ];
        served
    }

    fn is_pushed(&self, program: &Program) -> bool {
        let tip = |folder: &Path| {
            let tips = git(
                folder,
                &["for-each-ref", "--format=%(objectname)", "refs/heads/topic"],
            );
            tips.trim().to_owned()
        };
        let there = tip(&self.forge.repository());
        !there.is_empty() && there == tip(&program.workspace())
    }

    /// Whether what a question asks about did happen.
    fn happened(&self, question: &str, program: &Program) -> bool {
        if question.contains("echo ran") {
            return program.workspace().join("log.txt").exists();
        }
        if question.contains("Do the job") {
            return !self.forge.pulls().is_empty();
        }
        if question.contains("git push") {
            return self.is_pushed(program);
        }
        commits(program) > 0
    }
}

pub struct Person {
    /// What was said, and whether it was answered with 200.
    said: Vec<(String, bool)>,
    to_say: VecDeque<usize>,
    answered: BTreeSet<String>,
    pub heard: Vec<String>,
}

impl Person {
    pub fn new() -> Self {
        let mut person = Self {
            said: Vec::new(),
            to_say: VecDeque::new(),
            answered: BTreeSet::new(),
            heard: Vec::new(),
        };
        person.says(OBJECTIVE);
        person
    }

    pub fn says(&mut self, text: &str) {
        self.to_say.push_back(self.said.len());
        self.said.push((text.to_owned(), false));
    }

    /// Sends what is to be said, in order, until something is not taken; the last status.
    pub async fn speaks(&mut self, served: &Served) -> Option<u16> {
        let mut last = Some(200);
        while let Some(number) = self.to_say.front().copied() {
            last = served
                .tries_to_say(&format!("wamid.{number}"), &self.said[number].0)
                .await;
            if last != Some(200) {
                return last;
            }
            self.said[number].1 = true;
            self.to_say.pop_front();
        }
        last
    }

    /// Reads a message and thinks of an answer. `true`: it was the last word.
    pub async fn reads(&mut self, sent: &Sent, job: &Job, program: &Program) -> bool {
        if sent.is_courtesy() {
            return false;
        }
        self.heard.push(sent.text.clone());
        let text = sent.text.trim_start_matches(REPEATED);
        if text.starts_with('⚡') {
            self.says("/agent-resume");
        }
        if let Some(code) = code_of(text)
            && self.answered.insert(code.clone())
        {
            let doubt = text.contains("may or may not have happened");
            if doubt {
                tokio::time::sleep(SETTLED).await;
            }
            let no = doubt && job.happened(text, program);
            self.says(&format!("{} {code}", if no { "/deny" } else { "/approve" }));
        }
        words(text) == ENDING
    }

    /// Everything that is promised, once the last word was heard.
    pub fn check(&self, job: &Job, program: &Program, context: &str) {
        let paths = journals(&program.data());
        assert_eq!(paths.len(), 1, "{context}: one session");
        let records = records(&paths[0]);
        let show = || {
            let line = |record: &Record| format!("{} {:?}\n", record.seq, record.event);
            let lines: String = records.iter().map(line).collect();
            format!("{context}\nheard {:#?}\n{lines}", self.heard)
        };
        for (number, (text, taken)) in self.said.iter().enumerate() {
            let id = format!("wamid.{number}");
            let received = records.iter().filter(
                |record| matches!(&record.event, Event::MessageReceived { message } if message.id == id),
            );
            let times = received.count();
            assert!(times <= 1, "{text:?} twice: {}", show());
            assert!(times == 1 || !taken, "{text:?} was lost: {}", show());
        }
        let file = |name: &str| fs::read_to_string(program.workspace().join(name));
        for (name, wanted) in [
            ("new.txt", "new\n"),
            ("notes.txt", "one\nzwei\nthree\n"),
            ("log.txt", "ran\n"),
        ] {
            let text = file(name).unwrap_or_default();
            assert_eq!(text, wanted, "{name}: {}", show());
        }
        assert_eq!(commits(program), 1, "{}", show());
        assert!(job.is_pushed(program), "{}", show());
        assert_eq!(job.forge.pushes(), 1, "{}", show());
        assert_eq!(job.forge.pulls().len(), 1, "{}", show());
        // At least once, and marked where it may be the second time.
        let mut sends: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
        for record in &records {
            if let Event::SendStarted { send, text, .. } = &record.event {
                let plain = text.trim_start_matches(REPEATED);
                sends.entry(plain).or_default().insert(*send);
            }
        }
        for (text, numbers) in sends.iter().filter(|(text, _)| text.chars().count() < 500) {
            let unmarked = self.heard.iter().filter(|heard| heard == text).count();
            assert!(unmarked <= numbers.len(), "{text:?} unmarked: {}", show());
            let heard = self.heard.iter().any(|heard| heard.ends_with(text));
            let shown_as_marks = text.contains("```") || text.contains('`');
            assert!(heard || shown_as_marks, "{text:?} never came: {}", show());
        }
    }
}

fn code_of(text: &str) -> Option<String> {
    let code = match text.split_once("/approve ") {
        Some((_, rest)) => rest,
        None => text
            .contains("may or may not")
            .then(|| text.rsplit('(').next())??,
    };
    let is_code = |c: &char| c.is_ascii_uppercase() || c.is_ascii_digit();
    let code: String = code.chars().take_while(is_code).collect();
    (code.len() == 4).then_some(code)
}

fn commits(program: &Program) -> usize {
    let subjects = git(&program.workspace(), &["log", "--format=%s"]);
    subjects
        .lines()
        .filter(|subject| *subject == "feat: do the job")
        .count()
}
