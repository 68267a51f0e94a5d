//! `/ask SOURCE… -- QUESTION`: the person's own question, in the chat of a real server. No model stands between the two.

use crate::fake_model::{FakeModel, Next, says};
use crate::program::finish;
use crate::serve::Served;
use crate::support::{PATIENCE, journals, records};
use journeyman::agent::event::{EndReason, Event, Status};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const ASKED: &str = "/ask src -- Where is make?";

/// A server with one source, and a folder for temporary files that can be looked into.
struct Chat {
    served: Served,
    temp: TempDir,
    things: TempDir,
}

impl Chat {
    async fn with(model: &FakeModel) -> Self {
        let mut served = Served::new(model).await;
        let temp = tempfile::tempdir().unwrap();
        let things = tempfile::tempdir().unwrap();
        fs::create_dir(things.path().join("src")).unwrap();
        fs::write(things.path().join("src/tool.py"), "def make(): pass\n").unwrap();
        let place = temp.path().display().to_string();
        served.environment.push(("TMPDIR".into(), place));
        let chat = Self {
            served,
            temp,
            things,
        };
        chat.source("src").await;
        chat
    }

    async fn source(&self, name: &str) {
        let place = self.things.path().join("src").display().to_string();
        let mut command = self
            .served
            .program
            .command(&["sources", "add", "dir", name, &place]);
        self.served.furnish(&mut command);
        let added = finish(command).await;
        assert_eq!(added.code, 0, "{}", added.err);
    }

    /// Another program answers; it can leave marks beside the sources.
    fn agent(&self, script: &str) {
        let quoted = format!("'{}'", script.replace('\'', r"'\''"));
        let agents = json!({"defaultAgent": "mine", "agents": {"mine": {
            "ask": format!("sh -c {quoted} agent {{prompt_file}}"),
            "chat": "sh",
            "write": [self.things.path().join("marks").display().to_string()],
        }}});
        fs::create_dir_all(self.things.path().join("marks")).unwrap();
        self.served
            .program
            .config("agents.json", &agents.to_string());
    }

    fn mark(&self, name: &str) -> PathBuf {
        self.things.path().join("marks").join(name)
    }

    fn rooms(&self) -> usize {
        let entries = fs::read_dir(self.temp.path()).unwrap().flatten();
        let is_room = |name: String| name.starts_with("lctx-");
        entries
            .filter(|entry| is_room(entry.file_name().to_string_lossy().into_owned()))
            .count()
    }

    fn ended(&self, wanted: EndReason) -> usize {
        self.served
            .happened(|event| matches!(event, Event::TurnEnded { reason, .. } if *reason == wanted))
    }

    fn models_asked(&self) -> usize {
        let all = journals(&self.served.program.data());
        let own = all
            .iter()
            .filter(|path| !path.to_string_lossy().contains("/child-"));
        let asked = |event: &Event| matches!(event, Event::ModelAsked { .. });
        own.flat_map(|path| records(path))
            .filter(|record| asked(&record.event))
            .count()
    }
}

async fn appears(path: &Path) {
    let began = Instant::now();
    while !path.exists() {
        assert!(began.elapsed() < PATIENCE, "{} never came", path.display());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The helper of our own answers; whoever else asks is told what it read last.
fn answers(request: &Value) -> Next {
    let messages = request["messages"].as_array().unwrap();
    let first = messages[1]["content"].as_str().unwrap_or_default();
    match first.contains("# Available Sources") {
        true => says("`make` is in src/tool.py."),
        false => says("I am the model."),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_without_a_model_between() {
    let model = FakeModel::deciding(answers).await;
    let mut chat = Chat::with(&model).await;
    chat.served.begin().await;
    chat.served.says("wamid.1", ASKED).await;
    let answer = chat.served.hears().await.text;
    assert_eq!(answer, "`make` is in src/tool.py.");
    assert_eq!((model.requests().len(), chat.models_asked()), (1, 0));
    assert_eq!(
        chat.ended(EndReason::Done),
        2,
        "the child's turn and the session's"
    );
    // What was asked and answered is known to the model from then on, as data.
    chat.served.says("wamid.2", "thanks, and now?").await;
    assert_eq!(chat.served.hears().await.text, "I am the model.");
    let last = model.requests().pop().unwrap()["messages"].to_string();
    for part in [
        "The person asked about the sources src",
        "Where is make?",
        "</answer>",
    ] {
        assert!(last.contains(part), "{part}: {last}");
    }
    assert_eq!(chat.rooms(), 0);
}

/// Its words go to nobody but the one who answers, as they are.
#[tokio::test(flavor = "multi_thread")]
async fn another_program_is_asked_after_a_yes_in_a_chat_that_slept() {
    let model = FakeModel::deciding(answers).await;
    let mut chat = Chat::with(&model).await;
    chat.agent(r#"grep -A3 '^# Question' "$1"; cat src/tool.py"#);
    chat.served.begin().await;
    chat.served.says("wamid.1", "hello").await;
    assert_eq!(chat.served.hears().await.text, "I am the model.");
    chat.served.signal(Signal::SIGTERM);
    chat.served.ended().await;
    chat.served.begin().await;
    let question = "--what is ${sourcesList}, $& and\n\"it's\"?";
    let said = format!("/ask src -- {question}");
    chat.served.says("wamid.2", &said).await;
    let asked = chat.served.hears().await.text;
    assert!(asked.contains("another program"), "{asked}");
    chat.served.says("wamid.3", "yes").await;
    assert!(chat.served.hears().await.text.contains("Approved"));
    let answer = chat.served.hears().await.text;
    assert!(
        answer.contains(question) && answer.contains("def make(): pass"),
        "{answer}"
    );
    // A no ends it, and no model makes anything of that.
    chat.served.says("wamid.4", ASKED).await;
    chat.served.hears().await;
    chat.served.says("wamid.5", "no").await;
    assert!(chat.served.hears().await.text.contains("Denied"));
    assert!(
        chat.served
            .hears()
            .await
            .text
            .contains("the person refused")
    );
    assert_eq!((model.requests().len(), chat.rooms()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_said_and_a_failure_can_be_tried_again() {
    let model = FakeModel::deciding(answers).await;
    let mut chat = Chat::with(&model).await;
    chat.served.begin().await;
    for (number, said) in ["/ask", "/ask src why?", "/ask -- why?", "/ask src --"]
        .iter()
        .enumerate()
    {
        chat.served.says(&format!("wamid.u{number}"), said).await;
        let told = chat.served.hears().await.text;
        assert!(told.contains("/ask SOURCE… -- QUESTION"), "{said}: {told}");
    }
    chat.served.says("wamid.1", "/ask lib src — why?").await;
    let told = chat.served.hears().await.text;
    assert!(
        told.contains("\"lib\" was not found; there are: src") && told.contains("/agent-resume"),
        "{told}"
    );
    assert_eq!(chat.ended(EndReason::Failed), 1);
    chat.source("lib").await;
    chat.served.says("wamid.2", "/agent-resume").await;
    assert!(chat.served.hears().await.text.contains("Going on"));
    assert_eq!(chat.served.hears().await.text, "`make` is in src/tool.py.");
    assert_eq!((model.requests().len(), chat.models_asked()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_ends_it_and_what_is_said_meanwhile_is_heard_afterwards() {
    let model = FakeModel::deciding(answers).await;
    let mut chat = Chat::with(&model).await;
    chat.agent(&format!(
        "touch {0}/began; while [ ! -e {0}/go ]; do sleep 0.05; done; echo There.",
        chat.things.path().join("marks").display()
    ));
    chat.served.begin().await;
    chat.served.says("wamid.1", ASKED).await;
    chat.served.hears().await;
    chat.served.says("wamid.2", "/approve").await;
    assert!(chat.served.hears().await.text.contains("Approved"));
    appears(&chat.mark("began")).await;
    chat.served.says("wamid.3", ASKED).await;
    assert!(chat.served.hears().await.text.contains("I am at work"));
    chat.served.says("wamid.4", "/cancel").await;
    while !chat.served.hears().await.text.contains("Stopped") {}
    let cancelled = |event: &Event| matches!(event, Event::ToolFinished { outcome, .. } if outcome.status == Status::Cancelled);
    assert_eq!(chat.served.happened(cancelled), 1);
    assert_eq!((chat.ended(EndReason::Cancelled), chat.rooms()), (1, 0));

    fs::remove_file(chat.mark("began")).unwrap();
    chat.served.says("wamid.5", ASKED).await;
    chat.served.hears().await;
    chat.served.says("wamid.6", "yes").await;
    assert!(chat.served.hears().await.text.contains("Approved"));
    appears(&chat.mark("began")).await;
    chat.served.says("wamid.7", "then tell me more").await;
    assert!(
        chat.served
            .hears()
            .await
            .text
            .contains("when the answer is there")
    );
    fs::write(chat.mark("go"), "").unwrap();
    assert_eq!(chat.served.hears().await.text, "There.");
    assert_eq!(chat.served.hears().await.text, "I am the model.");
    let last = model.requests().pop().unwrap()["messages"].to_string();
    assert!(
        last.contains("There.") && last.contains("then tell me more"),
        "{last}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_says_so_and_asks_again_when_it_is_told_to() {
    let model = FakeModel::deciding(answers).await;
    let mut chat = Chat::with(&model).await;
    chat.agent(&format!(
        "echo began >> {0}/began; while [ ! -e {0}/go ]; do sleep 0.05; done; echo There.",
        chat.things.path().join("marks").display()
    ));
    chat.served.begin().await;
    chat.served.says("wamid.1", ASKED).await;
    chat.served.hears().await;
    chat.served.says("wamid.2", "yes").await;
    assert!(chat.served.hears().await.text.contains("Approved"));
    appears(&chat.mark("began")).await;
    chat.served.signal(Signal::SIGKILL);
    chat.served.ended().await;
    fs::write(chat.mark("go"), "").unwrap();
    chat.served.begin().await;
    let told = chat.served.hears().await.text;
    assert!(
        told.contains("interrupted") && told.contains("/agent-resume"),
        "{told}"
    );
    chat.served.says("wamid.3", "/agent-resume").await;
    assert!(chat.served.hears().await.text.contains("Going on"));
    assert_eq!(chat.served.hears().await.text, "There.");
    let began = fs::read_to_string(chat.mark("began")).unwrap();
    assert_eq!((began.as_str(), chat.models_asked()), ("began\nbegan\n", 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_works_from_the_command_line_and_is_listed_with_the_others() {
    let model = FakeModel::deciding(answers).await;
    let chat = Chat::with(&model).await;
    let mut command = chat.served.program.command(&["run", ASKED]);
    chat.served.furnish(&mut command);
    let run = finish(command).await;
    assert_eq!(
        (run.code, run.out.as_str()),
        (0, "`make` is in src/tool.py.\n"),
        "{}",
        run.err
    );
    let mut command = chat.served.program.command(&["run", "/help"]);
    chat.served.furnish(&mut command);
    let help = finish(command).await;
    let listed = (help.out + &help.err).matches("/ask SOURCE").count();
    assert_eq!(listed, 1);
}
