//! What the tests share: a hub with a recorded model over a real workspace, a real journal, real git and processes.

use journeyman::agent::event::{Event, Inbound, Opening, OutgoingKind, Record, Via, WorkspaceRef};
use journeyman::agent::language::Language;
use journeyman::agent::state::State;
use journeyman::agent::texts::Catalogues;
use journeyman::cli::assemble::{Assembly, assemble, fixed_workspace};
use journeyman::config::{Settings, WhatsApp};
use journeyman::doors::Seen;
use journeyman::history::inspect;
use journeyman::hub::{DeliverError, Delivered};
use journeyman::world::model::Model;
use journeyman::world::model::scripted::Scripted;
use proptest::test_runner::{Config, RngSeed};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::mpsc::UnboundedReceiver;

/// The chat that tests speak in: its messages are only recorded.
pub const CHAT: &str = "terminal:test";
pub const OWNER: &str = "ana";
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How generated cases are tried: the same ones each time, so that a change is blamed for nothing that was there before.
/// `PROPTEST_RNG_SEED` tries others, `PROPTEST_CASES` more.
pub fn generated() -> Config {
    let config = Config::default();
    Config {
        failure_persistence: None,
        rng_seed: match config.rng_seed {
            RngSeed::Random => RngSeed::Fixed(1),
            fixed => fixed,
        },
        ..config
    }
}

/// A call of a recorded model.
pub fn call(tool: &str, arguments: Value) -> Value {
    json!({"tool": tool, "arguments": arguments})
}

/// The first line of a session that exists in its journal only.
pub fn opening(owner: &str) -> Opening {
    Opening {
        format: 1,
        program: "test".into(),
        session: "s1".into(),
        chat: "terminal:test".into(),
        owner: owner.into(),
        workspace: WorkspaceRef {
            name: "shop".into(),
            path: "/w/shop".into(),
        },
        system: "You work.".into(),
        prompt_digest: String::new(),
        policy_digest: String::new(),
        model: "m".into(),
        sandbox: String::new(),
        brief: None,
        mcp: false,
        scheduled: None,
        sources: Vec::new(),
        worktrees: None,
        language: Language::English,
        welcome: false,
        together_ms: 0,
        fork: None,
        child: None,
    }
}

/// A reply with calls only.
pub fn calls(calls: &[Value]) -> Value {
    json!({"calls": calls})
}

pub fn says(text: &str) -> Value {
    json!({"text": text})
}

pub fn run_command(command: &str) -> Value {
    calls(&[call("run_command", json!({"command": command}))])
}

/// A hub at work.
pub struct Rig {
    pub assembly: Option<Assembly>,
    pub folder: TempDir,
    pub settings: Settings,
    script: Value,
    seen: UnboundedReceiver<Seen>,
    messages: AtomicU64,
}

impl Rig {
    /// A hub whose model gives these replies, in a fresh workspace that is a git repository with one commit.
    pub fn new(replies: &[Value]) -> Self {
        Self::with(replies, |_| {})
    }

    pub fn with(replies: &[Value], adjust: impl FnOnce(&mut Settings)) -> Self {
        Self::playing(json!({"replies": replies}), adjust)
    }

    /// With a whole recording.
    pub fn playing(script: Value, adjust: impl FnOnce(&mut Settings)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = Settings::demo(folder.path(), no_whatsapp());
        settings.whatsapp = None;
        adjust(&mut settings);
        let workspace = folder.path().join("projects/shop");
        make_repository(&workspace);
        let (assembly, seen) = start(&settings, &script, &workspace);
        Self {
            assembly: Some(assembly),
            folder,
            settings,
            script,
            seen,
            messages: AtomicU64::new(0),
        }
    }

    pub fn workspace(&self) -> PathBuf {
        self.folder.path().join("projects/shop")
    }

    fn assembly(&self) -> &Assembly {
        self.assembly.as_ref().expect("the rig runs")
    }

    pub async fn say(&self, text: &str) -> Delivered {
        self.try_say(text, OWNER, Via::Text)
            .await
            .expect("the message is taken")
    }

    pub async fn try_say(
        &self,
        text: &str,
        from: &str,
        via: Via,
    ) -> Result<Delivered, DeliverError> {
        let id = format!("m{}", self.messages.fetch_add(1, Ordering::SeqCst));
        self.deliver(Inbound {
            via,
            ..Inbound::text(id, from, text)
        })
        .await
    }

    pub async fn deliver(&self, message: Inbound) -> Result<Delivered, DeliverError> {
        self.assembly().hub.deliver(CHAT, message).await
    }

    /// The next event that `wanted` takes; everything before it is passed over.
    pub async fn until<T>(&mut self, wanted: impl Fn(&Event) -> Option<T>) -> T {
        let found = async {
            loop {
                match self.seen.recv().await.expect("the hub is there") {
                    Seen::Recorded { record, .. } => {
                        if let Some(found) = wanted(&record.event) {
                            return found;
                        }
                    }
                    Seen::Stopped { why, .. } => panic!("the session stopped: {why}"),
                    Seen::Shown { .. } => {}
                }
            }
        };
        let found = tokio::time::timeout(PATIENCE, found).await;
        found.unwrap_or_else(|_| {
            panic!(
                "it never happened; the journal says:\n{}",
                self.transcript()
            )
        })
    }

    /// The session cannot go on in this process.
    pub async fn stopped(&mut self) -> String {
        let found = async {
            loop {
                if let Seen::Stopped { why, .. } = self.seen.recv().await.expect("the hub is there")
                {
                    return why;
                }
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(5), found).await;
        found.expect("it stops")
    }

    /// The answer that ends the turn, in the model's words.
    pub async fn answer(&mut self) -> String {
        self.until(|event| match event {
            Event::SendStarted {
                kind: OutgoingKind::Final,
                text,
                ..
            } => Some(words(text).to_owned()),
            _ => None,
        })
        .await
    }

    /// The next message of a kind.
    pub async fn message(&mut self, wanted: OutgoingKind) -> String {
        self.until(|event| match event {
            Event::SendStarted { kind, text, .. } if *kind == wanted => Some(text.clone()),
            _ => None,
        })
        .await
    }

    /// The code and the text of the next question.
    pub async fn question(&mut self) -> (String, String) {
        let asked = self
            .until(|event| match event {
                Event::ApprovalAsked {
                    approval, question, ..
                } => Some((approval.clone(), question.clone())),
                _ => None,
            })
            .await;
        self.message(OutgoingKind::Question).await;
        asked
    }

    /// Stops at the safe point, and starts again as another process would.
    pub async fn restart(&mut self) {
        self.stop().await;
        let (assembly, seen) = start(&self.settings, &self.script, &self.workspace());
        self.seen = seen;
        assembly.hub.recover().expect("what was left is taken up");
        self.assembly = Some(assembly);
    }

    /// The same for a data folder whose chat is to be told of damage only with its next message.
    pub async fn restart_beside_damage(&mut self) {
        self.stop().await;
        let (assembly, seen) = start(&self.settings, &self.script, &self.workspace());
        (self.assembly, self.seen) = (Some(assembly), seen);
    }

    pub async fn stop(&mut self) {
        let Some(assembly) = self.assembly.take() else {
            return;
        };
        assembly.shutdown.cancel();
        assembly.hub.rest().await;
    }

    pub fn journals(&self) -> Vec<PathBuf> {
        journals(&self.settings.data_dir)
    }

    /// Every line of every journal, in order of time.
    pub fn records(&self) -> Vec<Record> {
        self.journals()
            .iter()
            .flat_map(|path| records(path))
            .collect()
    }

    /// The state that the only journal folds to.
    pub fn state(&self) -> State {
        inspect(&self.journals()[0], &texts(), |_| {})
            .expect("the journal is intact")
            .0
    }

    pub fn transcript(&self) -> String {
        let line = |record: &Record| {
            format!(
                "{:>4} {}",
                record.seq,
                serde_json::to_string(&record.event).unwrap_or_default()
            )
        };
        self.records()
            .iter()
            .map(line)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

fn start(
    settings: &Settings,
    script: &Value,
    workspace: &Path,
) -> (Assembly, UnboundedReceiver<Seen>) {
    let model = Model::Scripted(Scripted::parse(&script.to_string()).expect("a recording"));
    let assembly = assemble(
        settings,
        model,
        fixed_workspace(Some(workspace)).expect("a workspace"),
    )
    .expect("a hub");
    let seen = assembly.hub.surface().observers.watch();
    (assembly, seen)
}

/// Parsed once: thousands of simulated processes read the same catalogue.
pub fn texts() -> Catalogues {
    static TEXTS: LazyLock<Catalogues> = LazyLock::new(Catalogues::built_in);
    TEXTS.clone()
}

/// Whether a message is what a new person is told first.
pub fn is_welcome(text: &str) -> bool {
    text.starts_with('👋')
}

pub fn no_whatsapp() -> WhatsApp {
    let empty = String::new;
    WhatsApp {
        access_token: empty(),
        phone_number_id: empty(),
        verify_token: empty(),
        app_secret: empty(),
        api_url: empty(),
        allowed: Vec::new(),
    }
}

pub fn journals(data_dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(data_dir.join("agent_sessions"))
        .expect("the journals' folder")
        .flatten();
    let mut paths: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "jsonl"))
        .collect();
    paths.sort();
    paths
}

pub fn records(path: &Path) -> Vec<Record> {
    let mut records = Vec::new();
    inspect(path, &texts(), |record| records.push(record.clone())).expect("the journal is intact");
    records
}

/// An answer without what the program says of the turn below it.
pub fn words(text: &str) -> &str {
    let marks = [
        "\n\n✏️ Files",
        "\n\n✅ `",
        "\n\n❌ `",
        "\n\n📌 ",
        "\n\n🔗 ",
        "\n\n💰 ",
    ];
    let begins = marks.iter().filter_map(|mark| text.find(mark)).min();
    begins.map_or(text, |at| &text[..at])
}

/// A git repository with one commit.
pub fn make_repository(folder: &Path) {
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join("notes.txt"), "one\ntwo\nthree\n").expect("a file");
    git(folder, &["init", "--quiet", "--initial-branch=main"]);
    git(folder, &["config", "user.name", "Ana"]);
    git(folder, &["config", "user.email", "ana@example.com"]);
    git(folder, &["add", "--all"]);
    git(folder, &["commit", "--quiet", "--message", "feat: begin"]);
}

pub fn git(folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(args)
        .current_dir(folder)
        .output()
        .expect("git runs");
    assert!(
        output.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
