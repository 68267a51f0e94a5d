//! What do the coding tools cost on large input, beside what others need for the same: an outline, a search, a patch?
//!
//! Each target is printed beside what was seen. `RG` names ripgrep's program; without it the search stands alone.

use journeyman::agent::event::{Call, CallId, Outcome, Status};
use journeyman::agent::limits;
use journeyman::agent::mask::Masks;
use journeyman::cli::assemble::surroundings;
use journeyman::config::{Settings, WhatsApp};
use journeyman::gate::{self, BUILT_IN, Circumstances, GatePolicy, GateSettings};
use journeyman::outline;
use journeyman::tools::{self, Action, Reach};
use journeyman::world::outputs::Outputs;
use journeyman::world::process::{Processes, safe_environment};
use journeyman::world::resolve;
use journeyman::world::shelf::Shelf;
use journeyman::world::snapshot::Snapshots;
use journeyman::world::store::Store;
use journeyman::world::trust::Trust;
use journeyman::world::workspace::Workspace;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const LINES: usize = 10_000;
/// Half as many as one search looks at.
const FILES: usize = 50_000;
const PATCHED: usize = 50;
const LARGE: usize = 500;
const LARGE_BYTES: usize = 99_000;
const TIMES: usize = 7;

fn main() {
    // `cargo test` builds benches and starts them so.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    outlines();
    runtime.block_on(snapshots());
    runtime.block_on(patches());
    runtime.block_on(memory());
    runtime.block_on(searches());
}

/// The median of several runs.
fn median(mut run: impl FnMut() -> Duration) -> Duration {
    middle((0..TIMES).map(|_| run()).collect())
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let started = Instant::now();
    black_box(work());
    started.elapsed()
}

fn outlines() {
    let rust: String = (0..LINES / 10)
        .map(|i| {
            format!(
                "/// Number {i}.\npub struct Part{i} {{\n    pub name: String,\n}}\n\nimpl Part{i} {{\n    pub fn sum(&self, more: &[u64]) -> u64 {{\n        more.iter().filter(|n| **n > {i}).map(|n| n * 2).sum()\n    }}\n}}\n"
            )
        })
        .collect();
    let python: String = (0..LINES / 10)
        .map(|i| {
            format!(
                "class Part{i}:\n    \"\"\"Number {i}.\"\"\"\n\n    def __init__(self, name):\n        self.name = name\n\n    def total(self, more):\n        return sum(n * 2 for n in more if n > {i})\n\n\n"
            )
        })
        .collect();
    for (name, text) in [("a.rs", rust), ("a.py", python)] {
        assert_eq!(text.lines().count(), LINES);
        let took = median(|| timed(|| outline::outline(name, &text, 10_000_000, &|| false)));
        println!("outline of {LINES} lines, {name}: {took:.1?} (target 30 ms)");
    }
}

/// A workspace with what the tools need.
struct Place {
    folder: TempDir,
    settings: Settings,
    reach: Arc<Reach>,
}

/// 50,000 files, ten of them changed: the workspace kept, beside what git takes to say what changed.
async fn snapshots() {
    let place = Place::new();
    let root = place.root();
    let path = |file: usize| root.join(format!("d{}/s{}/f{file}.txt", file % 20, file % 500));
    for file in 0..FILES {
        fs::create_dir_all(path(file).parent().expect("a folder")).expect("a folder");
        fs::write(path(file), format!("{file}\n").repeat(30)).expect("a file");
    }
    for args in [
        &["init", "-q"][..],
        &["add", "--all"],
        &[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b.example",
            "commit",
            "-q",
            "-m",
            "many",
        ],
    ] {
        git(&root, args);
    }
    let data = place.folder.path().join("data");
    let policy = Arc::new(place.settings.policy().expect("a policy"));
    let snapshots = Snapshots::of(&data, "s-1", &root, &place.reach.processes, policy);
    snapshots.take().await.expect("a snapshot");
    let (mut changed, mut same, mut status) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..TIMES {
        for file in 0..10 {
            fs::write(path(file * 31), format!("{round} {file}")).expect("a file");
        }
        for times in [&mut changed, &mut same] {
            let started = Instant::now();
            snapshots.take().await.expect("a snapshot");
            times.push(started.elapsed());
        }
        status.push(timed(|| git(&root, &["status", "--short"])));
    }
    let [changed, same, status] = [changed, same, status].map(middle);
    println!(
        "snapshot of {FILES} files: {changed:.1?} with 10 changed (target 150 ms), {same:.1?} with none; git status {status:.1?}"
    );
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn git(root: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    let status = command.args(args).current_dir(root).stdout(Stdio::null());
    assert!(status.status().expect("git").success(), "git {args:?}");
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let root = folder.path().join("w");
        fs::create_dir(&root).expect("a folder");
        let environment = safe_environment(&[]);
        let settings = Settings::demo(folder.path(), nobody());
        let sandbox = settings.sandbox(&environment);
        let cancel = CancellationToken::new();
        let processes = Processes::new(Arc::new(environment), sandbox, &root, cancel);
        let reach = Arc::new(Reach {
            session: "s-1".into(),
            workspace: Workspace::at(&root).expect("a workspace"),
            processes,
            outputs: Outputs::of(&folder.path().join("data"), "s-1"),
            hosting: Arc::default(),
            trust: Trust {
                store: Arc::new(Store::new(&folder.path().join("data"))),
                masks: Masks::new([]),
                run_hooks: true,
                shelf: Shelf::new(folder.path().join("home"), limits::built_in().definitions()),
            },
            own: Arc::default(),
            projects: None,
            expect: None,
            outline: limits::built_in().outline(),
            agent: None,
            mcp: None,
            helpers: None,
            asks: None,
        });
        Self {
            folder,
            settings,
            reach,
        }
    }

    fn root(&self) -> std::path::PathBuf {
        self.folder.path().join("w")
    }

    /// A call as the loop makes it: looked up, judged, run.
    async fn call(&self, name: &str, arguments: &Value) -> Outcome {
        let tool = tools::find(name).expect("a tool");
        let call = Call {
            id: CallId("1.1".into()),
            wire_id: "w".into(),
            tool: name.into(),
            arguments: arguments.to_string(),
        };
        let gate = policy();
        let touches = (tool.touches)(arguments).expect("what it touches");
        let wants = gate::wants(&gate, &touches);
        let around = surroundings(&self.settings, &[]);
        let facts = resolve::facts(&wants, &self.root(), &[], &around);
        let here = Circumstances {
            cwd: "/w",
            owner: "ana",
        };
        let approved = gate::admit(&gate, &[], &call, &touches, &facts, here, None);
        let Action::World { run, .. } = &tool.action else {
            panic!("{name} does nothing in the world");
        };
        run(approved.expect("allowed"), self.reach.clone()).await
    }
}

fn policy() -> GatePolicy {
    let settings = GateSettings {
        allowlist: Vec::new(),
        write_enabled: true,
        protected_branches: Vec::new(),
    };
    GatePolicy::load(&[("policy.toml", BUILT_IN)], settings).expect("the built-in policy")
}

fn nobody() -> WhatsApp {
    WhatsApp {
        access_token: String::new(),
        phone_number_id: String::new(),
        verify_token: String::new(),
        app_secret: String::new(),
        api_url: String::new(),
        allowed: Vec::new(),
    }
}

/// Edits of the first line of so many files, from one word to another.
fn edits(files: usize, from: &str, to: &str) -> Value {
    let edit = |i: usize| json!({"path": format!("{i}.txt"), "search": format!("{from} {i}\n"), "replace": format!("{to} {i}\n")});
    json!({"edits": (0..files).map(edit).collect::<Vec<_>>()})
}

async fn patches() {
    let place = Place::new();
    let rest = "a line of some length, as lines are\n".repeat(200);
    for i in 0..PATCHED {
        fs::write(
            place.root().join(format!("{i}.txt")),
            format!("zero {i}\n{rest}"),
        )
        .expect("a file");
    }
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for time in 0..TIMES {
        let words = ["zero", "one"];
        let arguments = edits(PATCHED, words[time % 2], words[(time + 1) % 2]);
        let started = Instant::now();
        let outcome = place.call("apply_patch", &arguments).await;
        ours.push(started.elapsed());
        assert_eq!(outcome.status, Status::Done, "{}", outcome.output);
        bare.push(timed(|| rewrite(&place.folder.path().join("bare"), &rest)));
    }
    ours.sort();
    bare.sort();
    let (ours, bare) = (ours[TIMES / 2], bare[TIMES / 2]);
    println!(
        "patch of {PATCHED} files: {ours:.1?}; as many files written, synced and renamed by a bare loop: {bare:.1?}; difference {:.1?} (target 50 ms)",
        ours.saturating_sub(bare)
    );
}

/// The same content, the safe way: written beside, synced, renamed, the folder synced.
fn rewrite(folder: &Path, rest: &str) {
    fs::create_dir_all(folder).expect("a folder");
    for i in 0..PATCHED {
        let mut file = File::create(folder.join("new")).expect("a file");
        write!(file, "one {i}\n{rest}").expect("written");
        file.sync_all().expect("on disk");
        fs::rename(folder.join("new"), folder.join(format!("{i}.txt"))).expect("renamed");
    }
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .expect("on disk");
}

/// What the process has used at most, in MB.
fn peak_mb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kb.expect("a number") / 1000
}

async fn memory() {
    let place = Place::new();
    let rest = "x".repeat(98) + "\n";
    let rest = rest.repeat(LARGE_BYTES / rest.len());
    for i in 0..LARGE {
        fs::write(
            place.root().join(format!("{i}.txt")),
            format!("zero {i}\n{rest}"),
        )
        .expect("a file");
    }
    let before = peak_mb();
    let outcome = place
        .call("apply_patch", &edits(LARGE, "zero", "one"))
        .await;
    assert_eq!(outcome.status, Status::Done, "{}", outcome.output);
    println!(
        "memory of a patch of {LARGE} files of {LARGE_BYTES} bytes: {} MB (at most 50 MB of files are taken in one call)",
        peak_mb() - before
    );
}

async fn searches() {
    let place = Place::new();
    let lines =
        "let total = parts.iter().map(|part| part.price * part.count).sum::<u64>();\n".repeat(26);
    for i in 0..FILES {
        let folder = place.root().join(format!("d{}", i / 250));
        if i % 250 == 0 {
            fs::create_dir(&folder).expect("a folder");
        }
        let last = if i % 2_500 == 0 {
            "fn needle_of_ana() {}\n"
        } else {
            ""
        };
        fs::write(folder.join(format!("f{i}.rs")), format!("{lines}{last}")).expect("a file");
    }
    let bytes = FILES * lines.len() / 1_000_000;
    let arguments = json!({"pattern": r"needle_\w+\("});
    let rg = std::env::var_os("RG");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let started = Instant::now();
        let outcome = place.call("search", &arguments).await;
        ours.push(started.elapsed());
        assert_eq!(
            outcome.output.lines().count(),
            FILES / 2_500,
            "{}",
            outcome.output
        );
        let Some(rg) = &rg else { continue };
        theirs.push(timed(|| {
            let mut command = Command::new(rg);
            command.args(["--line-number", "--sort", "path", r"needle_\w+\(", "."]);
            command
                .current_dir(place.root())
                .stdin(Stdio::null())
                .stdout(Stdio::null());
            assert!(command.status().expect("rg runs").success());
        }));
    }
    ours.sort();
    let ours = ours[TIMES / 2];
    println!("search of {FILES} files, {bytes} MB: {ours:.0?}");
    if rg.is_some() {
        theirs.sort();
        let theirs = theirs[TIMES / 2];
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        println!("rg --sort path: {theirs:.0?}; ratio {ratio:.2} x (target 1.3)");
        let all = median(|| {
            timed(|| {
                let mut command = Command::new(rg.as_ref().expect("it is there"));
                command.args(["--line-number", r"needle_\w+\(", "."]);
                command
                    .current_dir(place.root())
                    .stdin(Stdio::null())
                    .stdout(Stdio::null());
                assert!(command.status().expect("rg runs").success());
            })
        });
        println!(
            "rg on all cores, in any order: {all:.0?}; ratio {:.2} x",
            ours.as_secs_f64() / all.as_secs_f64()
        );
    }
}
