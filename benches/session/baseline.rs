//! The same work by a bare tokio loop: one request over a kept-alive connection, a line on disk, one process, another
//! line on disk. No decisions, no gate, no state. It runs as a process of its own, as the program does.

use crate::loopback::Loopback;
use futures_util::StreamExt;
use serde_json::Value;
use std::env;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::process::{Child, Command, Stdio};
use tokio::io::AsyncReadExt;

const VARIABLE: &str = "JOURNEYMAN_BENCH_BASELINE";

/// Tokio's runtime: as ours, or the cheapest there is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    TwoWorkers,
    OneThread,
}

pub fn was_asked_for() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// `sizes`: rounds, bytes of the first request, by how many it grows a round, bytes on disk a round.
pub fn start(model: &Loopback, flavour: Flavour, sizes: [usize; 4]) -> Child {
    let mut words = vec![
        model.url.clone(),
        u8::from(flavour == Flavour::OneThread).to_string(),
    ];
    words.extend(sizes.map(|size| size.to_string()));
    let program = env::current_exe().expect("this program");
    Command::new(program)
        .env(VARIABLE, words.join(" "))
        .spawn()
        .expect("start the baseline")
}

pub fn run() {
    let words = env::var(VARIABLE).expect("was asked for");
    let mut words = words.split(' ');
    let url = words.next().expect("an address").to_owned();
    let numbers: Vec<usize> = words.map(|word| word.parse().expect("a number")).collect();
    let mut builder = match numbers[0] {
        0 => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let task = runtime.spawn(rounds(url, numbers[1], numbers[2], numbers[3], numbers[4]));
    runtime.block_on(task).expect("the loop ends");
}

async fn rounds(url: String, rounds: usize, first: usize, growth: usize, journal: usize) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = folder.path().join("journal");
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .expect("a journal");
    let client = reqwest::Client::new();
    let line = vec![b'j'; journal / 2];
    for round in 0..=rounds {
        ask(&client, &url, first + round * growth).await;
        if round < rounds {
            write_down(&mut file, &line);
            spawn().await;
            write_down(&mut file, &line);
        }
    }
}

async fn ask(client: &reqwest::Client, url: &str, bytes: usize) {
    let frame = r#"{"messages":"","tools":[]}"#.len();
    let body = format!(
        r#"{{"messages":["{}"],"tools":[]}}"#,
        "m".repeat(bytes.saturating_sub(frame))
    );
    let request = client
        .post(format!("{url}/v1/chat/completions"))
        .header("content-type", "application/json");
    let mut answer = request
        .body(body)
        .send()
        .await
        .expect("an answer")
        .bytes_stream();
    let mut text = Vec::new();
    while let Some(piece) = answer.next().await {
        text.extend_from_slice(&piece.expect("a piece"));
    }
    let frames = text
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.strip_prefix(b"data: "));
    for frame in frames.filter(|frame| *frame != b"[DONE]") {
        let _: Value = serde_json::from_slice(frame).expect("JSON");
    }
}

fn write_down(file: &mut File, line: &[u8]) {
    file.write_all(line)
        .and_then(|()| file.sync_data())
        .expect("a line on disk");
}

async fn spawn() {
    let mut command = tokio::process::Command::new("echo");
    command
        .arg("hi")
        .env_clear()
        .env("PATH", env::var_os("PATH").unwrap_or_default());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    // SAFETY: `setsid` is async-signal-safe and touches no memory.
    unsafe { command.pre_exec(|| nix::unistd::setsid().map(drop).map_err(io::Error::from)) };
    let mut child = command.spawn().expect("echo starts");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (mut stdout, mut stderr) = (
        child.stdout.take().expect("a pipe"),
        child.stderr.take().expect("a pipe"),
    );
    let (_, _, status) = tokio::join!(
        stdout.read_to_end(&mut out),
        stderr.read_to_end(&mut err),
        child.wait()
    );
    assert!(status.expect("its end").success() && out == b"hi\n");
}
