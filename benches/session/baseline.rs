//! The same work by a bare tokio loop: one request over a kept-alive connection, a line on disk, one process, another
//! line on disk. No decisions, no gate, no state. It runs as a process of its own, as the program does.
//!
//! One flavour starts the process as the program does, under a keeper and in the sandbox, its output in a spool: what is
//! left between that and the program is the loop's own cost.

use crate::loopback::Loopback;
use futures_util::StreamExt;
use journeyman::agent::event::CallId;
use journeyman::world::confine::{Mode, Needs, Own, ProcessLimits, Sandbox, Wanted};
use journeyman::world::outputs::Outputs;
use journeyman::world::process::{Exit, Launch, Life, Processes, safe_environment};
use serde_json::Value;
use std::env;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

const VARIABLE: &str = "JOURNEYMAN_BENCH_BASELINE";

/// Tokio's runtime: as ours, or the cheapest there is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    TwoWorkers,
    OneThread,
    /// Two workers, and the program's own start of a process.
    OwnSpawn,
}

pub fn was_asked_for() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// `sizes`: rounds, bytes of the first request, by how many it grows a round, bytes on disk a round.
pub fn start(model: &Loopback, flavour: Flavour, sizes: [usize; 4]) -> Child {
    let mut words = vec![model.url.clone(), (flavour as u8).to_string()];
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
    let is = |flavour: Flavour| numbers[0] == flavour as usize;
    let mut builder = match is(Flavour::OneThread) {
        false => tokio::runtime::Builder::new_multi_thread(),
        true => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let own = is(Flavour::OwnSpawn);
    let task = runtime.spawn(rounds(
        url, own, numbers[1], numbers[2], numbers[3], numbers[4],
    ));
    runtime.block_on(task).expect("the loop ends");
}

async fn rounds(
    url: String,
    own: bool,
    rounds: usize,
    first: usize,
    growth: usize,
    journal: usize,
) {
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
            match own {
                true => spawn_as_the_program(folder.path(), round).await,
                false => spawn().await,
            }
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

type Environment = Arc<Vec<(String, String)>>;

/// Under a keeper, confined, its output in a spool.
async fn spawn_as_the_program(folder: &Path, round: usize) {
    static SANDBOX: OnceLock<(Environment, Arc<Sandbox>)> = OnceLock::new();
    let (environment, sandbox) = SANDBOX.get_or_init(|| {
        let environment = safe_environment(&[]);
        let wanted = Wanted {
            mode: Mode::Required,
            read: Vec::new(),
            write: Vec::new(),
            unix_sockets: false,
            limits: ProcessLimits {
                processes_max: 512,
                open_files_max: 1024,
                file_bytes_max: 1 << 30,
                memory_bytes_max: 0,
            },
        };
        let sandbox = Sandbox::new(&wanted, &Own::default(), &environment);
        (Arc::new(environment), sandbox)
    });
    let (workspace, call) = (folder.join("work"), CallId(format!("{}.1", round + 1)));
    std::fs::create_dir_all(&workspace).expect("a workspace");
    let outputs = Outputs::of(folder, "bench");
    let launch = Launch {
        program: "echo".into(),
        args: vec!["hi".into()],
        cwd: workspace.clone(),
        env: Vec::new(),
        timeout: Duration::from_secs(30),
        stdin: None,
        needs: Needs::default(),
        guard_git: true,
        life: Life::Lasting("echo hi".into()),
    };
    let cancel = CancellationToken::new();
    let processes = Processes::new(environment.clone(), sandbox.clone(), &workspace, cancel);
    let finished = processes.spooling(outputs.clone()).run(&call, launch).await;
    assert_eq!(finished.exit, Exit::Code(0), "{finished:?}");
    outputs.forget(&call);
}
