//! `journeyman init`: wrong answers are told and corrected, right ones are written for nobody else to read.

use crate::program::{Run, finish};
use crate::terminal::Terminal;
use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tokio::net::TcpListener;
use tokio::process::Command;

const SECRETS: [&str; 4] = ["good-key", "gh-token", "graph-token", "app-secret"];

fn only_for(
    token: &'static str,
    answer: Value,
) -> impl Fn(HeaderMap) -> std::future::Ready<(StatusCode, String)> + Clone {
    move |headers| {
        let bearer = headers
            .get("authorization")
            .and_then(|value| value.to_str().ok());
        std::future::ready(match bearer == Some(&format!("Bearer {token}")) {
            true => (StatusCode::OK, answer.to_string()),
            false => (
                StatusCode::UNAUTHORIZED,
                json!({"message": "Bad credentials"}).to_string(),
            ),
        })
    }
}

/// A model, a Graph and a GitHub on one port.
async fn services() -> SocketAddr {
    let answers = json!({"choices": [{"message": {"role": "assistant", "content": "ok"}}]});
    let routes = Router::new()
        .route(
            "/v1/models",
            get(async || json!({"data": [{"id": "tiny"}]}).to_string()),
        )
        .route("/v1/chat/completions", post(only_for("good-key", answers)))
        .route(
            "/graph/100",
            get(only_for(
                "graph-token",
                json!({"display_phone_number": "+1 555 0100"}),
            )),
        )
        .route(
            "/github/user",
            get(only_for("gh-token", json!({"login": "ana"}))),
        );
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, routes).await });
    address
}

/// A port that nobody listens on.
async fn free_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    listener.local_addr().expect("an address")
}

async fn init(home: &Path, args: &[&str], answers: &[&str]) -> Run {
    let folder = tempfile::tempdir().expect("a folder");
    let typed = folder.path().join("answers");
    fs::write(&typed, answers.join("\n") + "\n").expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_journeyman"));
    command.arg("--config").arg(home).arg("init").args(args);
    command.current_dir(folder.path()).env_clear();
    command.stdin(File::open(&typed).expect("a file"));
    finish(command).await
}

fn written(home: &Path) -> BTreeMap<String, String> {
    let pairs = dotenvy::from_path_iter(home.join(".env")).expect("a file");
    pairs.map(|pair| pair.expect("a pair")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_answers_are_told_and_corrected_and_the_right_ones_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let (base, bind) = (services().await, free_port().await);
    let old = format!(
        "# mine\nOTHER=kept\nWHATSAPP_API_URL=http://{base}/graph\nGITHUB_API_URL=http://{base}/github\nBIND_ADDR={bind}\n"
    );
    fs::write(folder.path().join(".env"), &old).expect("written");
    let projects = folder.path().join("projects");
    fs::create_dir(&projects).expect("a folder");
    let (model, public) = (format!("http://{base}/v1/"), format!("http://{bind}/"));
    let answers = [
        &model,
        "bad-key",
        "", // refused
        "",
        "good-key",
        "", // the address and the name are kept
        "/nowhere/at/all",
        projects.to_str().expect("a path"),
        "yes",
        "bad-token",
        "gh-token",
        "yes",
        "bad-token",
        "100",
        "graph-token",
        "",
        "app-secret",
        "+54 9 11 1234-5678",
        "http://127.0.0.1:1",
        &public,
    ];
    let run = init(folder.path(), &[], &answers).await;
    assert_eq!(run.code, 0, "{}", run.err);
    for told in [
        "answers 401",
        "It has: tiny",
        "tiny answers",
        "is no folder",
        "as ana",
        "+1 555 0100",
        "does not lead to",
        "leads here",
        "journeyman doctor",
    ] {
        assert!(run.err.contains(told), "{told}: {}", run.err);
    }
    assert!(
        !SECRETS.iter().any(|secret| run.err.contains(secret)),
        "{}",
        run.err
    );
    let file = folder.path().join(".env");
    assert_eq!(
        fs::metadata(&file).expect("a file").permissions().mode() & 0o777,
        0o600
    );
    assert!(
        fs::read_to_string(&file).expect("a file").starts_with(&old),
        "what stood there stays"
    );
    let values = written(folder.path());
    let wanted = [
        ("OPENAI_BASE_URL", model.trim_end_matches('/')),
        ("OPENAI_API_KEY", "good-key"),
        ("AGENT_MODEL", "tiny"),
        ("AGENT_WRITE_ENABLED", "true"),
        ("GITHUB_TOKEN", "gh-token"),
        ("WHATSAPP_ACCESS_TOKEN", "graph-token"),
        ("WHATSAPP_PHONE_NUMBER_ID", "100"),
        ("WHATSAPP_APP_SECRET", "app-secret"),
        ("ALLOWED_PHONE_NUMBERS", "5491112345678"),
    ];
    for (name, value) in wanted {
        assert_eq!(values[name], value, "{name}");
    }
    assert_eq!(values["WHATSAPP_VERIFY_TOKEN"].len(), 32);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_github_that_does_not_work_costs_no_other_answer_and_a_secret_can_be_taken_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let base = services().await;
    let old = format!(
        "GITHUB_API_URL=http://{base}/github\nGITHUB_TOKEN=old-token\nOPENAI_BASE_URL=http://{base}/v1\nOPENAI_API_KEY=good-key\n"
    );
    fs::write(folder.path().join(".env"), &old).expect("written");
    let projects = folder.path().to_str().expect("a path");
    let model = ["", "", "tiny", projects, "no"];
    let refused = ["bad-token", "bad-token", "", "", "", "no"];
    let run = init(folder.path(), &[], &[&model[..], &refused].concat()).await;
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("GitHub stays as it was"), "{}", run.err);
    let values = written(folder.path());
    assert_eq!(values["GITHUB_TOKEN"], "old-token", "no refused one");
    assert_eq!(values["AGENT_MODEL"], "tiny");
    let run = init(folder.path(), &[], &[&model[..], &["-", "no"]].concat()).await;
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(written(folder.path())["GITHUB_TOKEN"], "");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_end_early_leave_everything_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = init(
        folder.path(),
        &["--untried"],
        &["http://127.0.0.1:1/v1", "key"],
    )
    .await;
    assert_eq!(run.code, 2, "{}", run.err);
    assert!(run.err.contains("nothing is written"), "{}", run.err);
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_file_explains_every_variable() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("new/home");
    let projects = folder.path().to_str().expect("a path");
    let answers = [
        "http://127.0.0.1:1/v1",
        "",
        "tiny",
        projects,
        "no",
        "",
        "no",
    ];
    let run = init(&home, &["--untried"], &answers).await;
    assert_eq!(run.code, 0, "{}", run.err);
    let text = fs::read_to_string(home.join(".env")).expect("a file");
    assert!(
        text.contains("# Name of the model, as the server knows it."),
        "{text}"
    );
    let values = written(&home);
    assert_eq!(
        (
            values["AGENT_MODEL"].as_str(),
            values["AGENT_WRITE_ENABLED"].as_str()
        ),
        ("tiny", "false")
    );
    // Once more: what was answered is offered, and an empty answer keeps it.
    let run = init(&home, &["--untried"], &["", "", "", "", "", "", ""]).await;
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(written(&home), values);
}

fn at_a_terminal(home: &Path) -> Terminal {
    let mut command = Command::new(env!("CARGO_BIN_EXE_journeyman"));
    command
        .arg("--config")
        .arg(home)
        .args(["init", "--untried"]);
    command.current_dir(home).env_clear();
    Terminal::run(command, &[("HOME", "/nonexistent")])
}

#[tokio::test(flavor = "multi_thread")]
async fn at_a_terminal_no_secret_shows_and_ctrl_c_leaves_everything_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let old = "# mine\nOPENAI_API_KEY=old-key\n";
    fs::write(folder.path().join(".env"), old).expect("written");
    let mut terminal = at_a_terminal(folder.path());
    terminal.sees("Address of the model's server").await;
    terminal.types("http://127.0.0.1:9/v1\r");
    terminal.sees("Key of the model's server").await;
    terminal.types("good-key");
    terminal.sees("********").await;
    terminal.types("\r");
    terminal.sees("Name of the model").await;
    terminal.types("tiny\r");
    terminal.sees("Folder that holds").await;
    terminal.types("\x03");
    assert_eq!(terminal.ended().await, Some(2));
    terminal.sees("nothing is written").await;
    assert!(
        terminal.is_as_it_was(),
        "the terminal shows what is typed again"
    );
    let all = terminal.all();
    assert!(
        !all.contains("good-key") && !all.contains("old-key"),
        "{all:?}"
    );
    let left: Vec<_> = fs::read_dir(folder.path())
        .expect("it is there")
        .flatten()
        .collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let kept = fs::read_to_string(folder.path().join(".env"));
    assert_eq!(kept.expect("the file"), old);
}
