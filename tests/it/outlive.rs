//! A process outlives the server, and its result is not lost. The real program, real processes, real kill -9.

use crate::fake_model::{FakeModel, Next, calls, says};
use crate::program::Program;
use crate::support::{PATIENCE, journals, records};
use journeyman::agent::event::{CallId, Event, Outcome, Probe, Status};
use journeyman::world::outputs::Outputs;
use journeyman::world::probe::spool as probe;
use journeyman::world::spool::{About, Found, Spool, boot_id};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::Child;

fn command(command: &str, timeout: u64) -> Next {
    calls(
        "run_command",
        json!({"command": command, "timeout": timeout}),
    )
}

fn in_background(command: &str) -> Next {
    calls(
        "run_command",
        json!({"command": command, "background": true}),
    )
}

fn manage(arguments: Value) -> Next {
    calls("manage_process", arguments)
}

/// One session of the program, over several of its lives.
struct Life {
    program: Program,
    running: Option<Child>,
}

impl Life {
    /// With everything approved, until the file `name` appears in the workspace; then kill -9.
    async fn killed_at(model: &FakeModel, name: &str) -> Self {
        let mut life = Self::begin(model);
        life.until_there(name).await;
        life.kill().await;
        life
    }

    fn begin(model: &FakeModel) -> Self {
        let program = Program::new(&model.base_url);
        // What the gate would not let stand in a command.
        let script = "echo evil > .git/hooks/post-checkout; touch begun; sleep 0.2";
        fs::write(program.workspace().join("evil.sh"), script).expect("written");
        let running = Some(start(&program, &["run", "do it", "--yes"]));
        Self { program, running }
    }

    async fn kill(&mut self) {
        let mut child = self.running.take().expect("it runs");
        child.kill().await.expect("killed");
    }

    fn signal(&self, signal: Signal) {
        let id = self.running.as_ref().and_then(Child::id).expect("it runs");
        kill(Pid::from_raw(id.cast_signed()), signal).expect("signalled");
    }

    fn resume(&mut self, answer: &[&str]) {
        let session = self.session();
        let mut args = vec!["resume", session.as_str()];
        args.extend(answer);
        self.running = Some(start(&self.program, &args));
    }

    async fn ended(&mut self) -> Option<i32> {
        let mut child = self.running.take().expect("it runs");
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
        ended.expect("it ends in time").expect("a status").code()
    }

    fn session(&self) -> String {
        let path = &journals(&self.program.data())[0];
        let name = path.file_stem().expect("a name");
        name.to_string_lossy().into_owned()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.program.workspace().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    async fn until_there(&self, name: &str) {
        until(name, || self.file(name).exists()).await;
    }

    fn events(&self) -> Vec<Event> {
        let records = records(&journals(&self.program.data())[0]);
        records.into_iter().map(|record| record.event).collect()
    }

    async fn until_happened(&self, what: &str, wanted: impl Fn(&Event) -> bool) {
        until(what, || self.events().iter().any(&wanted)).await;
    }

    /// What the calls came to, in their order.
    fn outcomes(&self) -> Vec<Outcome> {
        let outcome = |event| match event {
            Event::ToolFinished { outcome, .. } => Some(outcome),
            _ => None,
        };
        self.events().into_iter().filter_map(outcome).collect()
    }

    fn doubts(&self) -> usize {
        let asked = |event: &&Event| matches!(event, Event::ApprovalAsked { question, .. } if question.contains("may or may not"));
        self.events().iter().filter(asked).count()
    }

    fn spools(&self) -> Vec<PathBuf> {
        let folder = self.program.data().join("outputs").join(self.session());
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        paths
            .filter(|path| path.extension().is_some_and(|e| e == "spool"))
            .collect()
    }

    fn keeper(&self) -> Pid {
        keeper(&self.program.data())
    }
}

/// The keeper that wrote its number into the only spool.
pub fn keeper(data: &Path) -> Pid {
    let sessions = Outputs::all(data);
    let spools: Vec<_> = sessions.iter().flat_map(Outputs::spooled).collect();
    let pid = spools[0].1.keeper().expect("it is started");
    Pid::from_raw(pid)
}

fn start(program: &Program, args: &[&str]) -> Child {
    let mut command = program.command(args);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("the program starts")
}

async fn until(what: &str, there: impl Fn() -> bool) {
    let started = Instant::now();
    while !there() {
        assert!(started.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How many processes have this word in their command line.
pub fn running(word: &str) -> usize {
    let pids = fs::read_dir("/proc").expect("proc").flatten();
    let has = |path: PathBuf| {
        let mut line = String::new();
        let read = fs::File::open(path.join("cmdline"))
            .and_then(|mut file| file.read_to_string(&mut line));
        read.is_ok() && line.split('\0').any(|argument| argument == word)
    };
    pids.filter(|entry| has(entry.path())).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_ended_without_a_server_has_its_real_result() {
    let text = "echo before; echo ran >> runs; touch begun; until [ -e go ]; do sleep 0.02; done; echo after; echo no >&2; touch done; exit 3";
    let model = FakeModel::recorded(vec![command(text, 60), says("I see.")]).await;
    let mut life = Life::killed_at(&model, "begun").await;
    fs::write(life.file("go"), "").expect("written");
    life.until_there("done").await;
    life.resume(&[]);
    assert_eq!(life.ended().await, Some(0));
    let outcome = &life.outcomes()[0];
    assert_eq!(
        (outcome.status, outcome.exit_code),
        (Status::Failed, Some(3))
    );
    assert!(
        outcome
            .output
            .contains("stdout:\nbefore\nafter\nstderr:\nno"),
        "{}",
        outcome.output
    );
    assert_eq!((life.text("runs").as_str(), life.doubts()), ("ran\n", 0));
    assert!(life.spools().is_empty(), "the journal has it now");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_still_runs_is_waited_for() {
    let text = "echo ran >> runs; touch begun; until [ -e go ]; do sleep 0.02; done; echo after";
    let model = FakeModel::recorded(vec![command(text, 60), says("I see.")]).await;
    let mut life = Life::killed_at(&model, "begun").await;
    // Twice, because the one that waits can be killed as well.
    for times in 1..=2 {
        life.resume(&[]);
        let awaited = |event: &Event| matches!(event, Event::ToolAwaited { .. });
        until("it is waited for", || {
            life.events().into_iter().filter(awaited).count() == times
        })
        .await;
        if times == 1 {
            life.kill().await;
        }
    }
    fs::write(life.file("go"), "").expect("written");
    assert_eq!(life.ended().await, Some(0));
    let outcome = &life.outcomes()[0];
    assert_eq!(outcome.exit_code, Some(0));
    assert!(outcome.output.contains("after"), "{}", outcome.output);
    assert_eq!((life.text("runs").as_str(), life.doubts()), ("ran\n", 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_waited_for_again_can_be_cancelled() {
    let text = "(setsid sleep 71001.5 &); touch begun; echo so far; sleep 71001.5";
    let model = FakeModel::recorded(vec![command(text, 60), says("I see.")]).await;
    let mut life = Life::killed_at(&model, "begun").await;
    assert!(running("71001.5") > 0, "it goes on");
    life.resume(&[]);
    life.until_happened("it is waited for", |event| {
        matches!(event, Event::ToolAwaited { .. })
    })
    .await;
    life.signal(Signal::SIGINT);
    assert_eq!(life.ended().await, Some(130));
    assert_eq!(running("71001.5"), 0);
    let outcome = &life.outcomes()[0];
    assert_eq!(outcome.status, Status::Cancelled, "{outcome:?}");
    assert!(outcome.output.contains("so far"), "{}", outcome.output);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_keeper_was_killed_too_is_asked_about() {
    let text = "echo ran >> runs; touch begun; sleep 71002.5";
    let model = FakeModel::recorded(vec![command(text, 60), says("I see.")]).await;
    let mut life = Life::killed_at(&model, "begun").await;
    kill(life.keeper(), Signal::SIGKILL).expect("killed");
    until("its command ends with it", || running("71002.5") == 0).await;
    life.resume(&[]);
    assert_eq!(life.ended().await, Some(3), "it waits for an answer");
    assert_eq!((life.text("runs").as_str(), life.doubts()), ("ran\n", 1));
    life.resume(&["--no-approvals"]);
    assert_eq!(life.ended().await, Some(0));
    assert_eq!(life.outcomes().len(), 0, "the person's no is the result");
    assert_eq!(life.text("runs"), "ran\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_that_is_killed_under_a_living_server_leaves_no_claim() {
    let text = "touch begun; sleep 71003.5";
    let model = FakeModel::recorded(vec![command(text, 60), says("I see.")]).await;
    let mut life = Life::begin(&model);
    life.until_there("begun").await;
    kill(life.keeper(), Signal::SIGKILL).expect("killed");
    assert_eq!(life.ended().await, Some(0));
    assert_eq!(life.outcomes()[0].status, Status::Unknown);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_limit_holds_without_a_server() {
    let text = "trap '' TERM; touch begun; (setsid sleep 71004.5 &); sleep 71004.5";
    let model = FakeModel::recorded(vec![command(text, 2), says("I see.")]).await;
    let mut life = Life::killed_at(&model, "begun").await;
    until("it is ended", || running("71004.5") == 0).await;
    life.resume(&[]);
    assert_eq!(life.ended().await, Some(0));
    let outcome = &life.outcomes()[0];
    assert!(
        outcome.output.contains("Stopped after 2 s"),
        "{}",
        outcome.output
    );
    assert_eq!(life.doubts(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_could_not_be_executed_is_not_said_to_have_run() {
    let model = FakeModel::recorded(vec![command("no-such-program-71005", 5), says("I see.")]);
    let model = model.await;
    let mut life = Life::begin(&model);
    assert_eq!(life.ended().await, Some(0));
    let output = &life.outcomes()[0].output;
    assert!(output.contains("not found: no-such-program"), "{output}");
    assert!(life.spools().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_that_a_command_left_are_put_back_after_the_servers_death_too() {
    let model = FakeModel::recorded(vec![command("bash evil.sh", 60), says("I see.")]).await;
    let mut life = Life::killed_at(&model, "begun").await;
    assert!(life.file(".git/hooks/post-checkout").exists());
    life.resume(&[]);
    assert_eq!(life.ended().await, Some(0));
    assert!(!life.file(".git/hooks/post-checkout").exists());
    let output = &life.outcomes()[0].output;
    assert!(output.contains("Put back as before"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_in_the_background_is_found_again_polled_and_killed() {
    let text = "echo one; touch begun; until [ -e go ]; do sleep 0.02; done; echo two; touch told; (setsid sleep 71006.5 &); sleep 71006.5";
    let poll = || manage(json!({"action": "poll", "process_id": "1.1"}));
    let model = FakeModel::recorded(vec![
        in_background(text),
        command("until [ -e begun ]; do sleep 0.02; done", 30),
        poll(),
        command("touch polled; sleep 71007.5", 30),
        poll(),
        manage(json!({"action": "list"})),
        manage(json!({"action": "kill", "process_id": "1.1"})),
        manage(json!({"action": "log", "process_id": "1.1", "limit": 1})),
        says("I see."),
    ])
    .await;
    let mut life = Life::killed_at(&model, "polled").await;
    fs::write(life.file("go"), "").expect("written");
    life.until_there("told").await;
    life.resume(&[]);
    life.until_happened("it is waited for", |event| {
        matches!(event, Event::ToolAwaited { .. })
    })
    .await;
    // The command in the foreground ends, and it goes on.
    let pids = fs::read_dir("/proc").expect("proc").flatten();
    let sleeper = pids.filter(|entry| {
        fs::read_to_string(entry.path().join("cmdline"))
            .is_ok_and(|line| line == "sleep\u{0}71007.5\u{0}")
    });
    for entry in sleeper {
        let pid = entry.file_name().to_string_lossy().parse().expect("a pid");
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("killed");
    }
    assert_eq!(life.ended().await, Some(0));
    let told: Vec<String> = life.outcomes().into_iter().map(|o| o.output).collect();
    assert!(told[0].contains("process_id: 1.1"), "{told:#?}");
    assert!(told[2].starts_with("running for") && told[2].contains("one"));
    assert!(
        told[4].contains("two") && !told[4].contains("one"),
        "{told:#?}"
    );
    assert!(told[5].starts_with("1.1 running for"), "{told:#?}");
    assert!(told[6].starts_with("killed after"), "{told:#?}");
    assert!(told[7].contains("[1 line before]\ntwo"), "{told:#?}");
    assert_eq!(running("71006.5"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn five_run_in_the_background_and_ended_ones_do_not_count() {
    let mut replies = vec![in_background("true")];
    replies.extend((0..6).map(|_| in_background("sleep 71008.5")));
    replies.extend(
        (2..=6).map(|round| manage(json!({"action": "kill", "process_id": format!("{round}.1")}))),
    );
    replies.push(says("I see."));
    let model = FakeModel::recorded(replies).await;
    let mut life = Life::begin(&model);
    assert_eq!(life.ended().await, Some(0));
    let told: Vec<String> = life.outcomes().into_iter().map(|o| o.output).collect();
    assert!(told[5].contains("process_id: 6.1"), "{told:#?}");
    assert!(told[6].contains("5 processes run"), "{told:#?}");
    assert_eq!(running("71008.5"), 0);
}

/// Every point at which a crash can leave a spool.
#[test]
fn what_a_spool_proves_and_what_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let outputs = Outputs::of(folder.path(), "s1");
    let call = CallId("1.1".into());
    let is_unclear = |boot: &str| matches!(probe(&call, boot, &outputs), Probe::Unclear { .. });
    assert!(is_unclear(boot_id()), "the folder was removed");
    outputs.make().expect("made");
    // Between intent and spool, and between spool and keeper: nothing ran, unless the machine was started again.
    for _ in 0..2 {
        assert_eq!(probe(&call, boot_id(), &outputs), Probe::DidNotHappen);
        assert!(is_unclear("another boot") && is_unclear(""));
        drop(outputs.new_spool(&call, &About::default()).expect("made"));
    }
    // As long as somebody holds the lock, the keeper may still come.
    let held = outputs.new_spool(&call, &About::default()).expect("made");
    assert_eq!(probe(&call, boot_id(), &outputs), Probe::Kept);
    drop(held);
    let path = folder.path().join("outputs/s1/1.1.spool");
    let mut bytes = fs::read(&path).expect("a spool");
    bytes[64..72].copy_from_slice(b"started\0");
    fs::write(&path, &bytes).expect("written");
    assert!(is_unclear(boot_id()), "started, and nobody is there");
    // The end, whole and torn at every byte.
    let words: [u64; 5] = [u64::from_le_bytes(*b"ended\0\0\0"), 3 << 8, 1, 1234, 1];
    let sum = journeyman::world::spool::layout::sum(&words);
    let block: Vec<u8> = words
        .iter()
        .chain([&sum])
        .flat_map(|w| w.to_le_bytes())
        .collect();
    for end in 0..=block.len() {
        let mut torn = bytes.clone();
        torn[256..256 + end].copy_from_slice(&block[..end]);
        // Bytes that are zero anyway are there before they are written.
        let whole = torn[256..256 + block.len()] == block[..];
        fs::write(&path, &torn).expect("written");
        let found = Spool::open(&path).expect("a spool").look();
        match whole {
            true => assert!(matches!(found, Found::Ended(_)), "{end}"),
            false => assert_eq!(found, Found::Lost, "{end}"),
        }
        assert_eq!(probe(&call, "another boot", &outputs) == Probe::Kept, whole);
    }
    fs::write(&path, "").expect("written");
    assert_eq!(probe(&call, boot_id(), &outputs), Probe::DidNotHappen);
}
