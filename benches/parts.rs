//! What do the pieces on every round's path cost: a verdict, the policy's load, a journal line, reading a journal back?
//!
//! Appends are beside a bare write and fdatasync of the same bytes on the same disk, since that is what they may cost.

use criterion::{Criterion, criterion_group, criterion_main};
use journeyman::agent::event::{Event, Inbound};
use journeyman::agent::limits::built_in;
use journeyman::agent::mcp::Offer;
use journeyman::gate::{BUILT_IN, Facts, GatePolicy, GateSettings, Touch, judge, wants};
use journeyman::plan::{Catalog, Graph, Task, check};
use journeyman::tools;
use journeyman::world::clock;
use journeyman::world::journal::{Journal, read};
use journeyman::world::resolve::{self, Surroundings};
use serde_json::json;
use std::fs::OpenOptions;
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LINES: usize = 100_000;

criterion_group! {
    name = parts;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    targets = policy_load, verdicts, plans, appends, reading
}
criterion_main!(parts);

fn policy() -> GatePolicy {
    let allowlist =
        "pytest,ruff,mypy,make,npm,pip,git,cat,head,tail,wc,ls,find,grep,echo,python,node";
    let settings = GateSettings {
        allowlist: allowlist.split(',').map(str::to_owned).collect(),
        write_enabled: true,
        protected_branches: vec!["main".into()],
    };
    GatePolicy::load(&[("policy.toml", BUILT_IN)], settings).expect("the built-in policy loads")
}

fn policy_load(criterion: &mut Criterion) {
    criterion.bench_function("load the policy", |bencher| bencher.iter(policy));
}

/// The whole judgement: what must be looked up, and the verdict. Facts are empty, which only makes it stricter.
fn judged(policy: &GatePolicy, touches: &[Touch]) {
    black_box(wants(policy, touches));
    black_box(judge(policy, touches, &Facts::default()));
}

fn verdicts(criterion: &mut Criterion) {
    let policy = policy();
    let hostile = [
        ("64 kB of ;", "a;".repeat(32_000)),
        ("64 kB of $(", "$(".repeat(32_000)),
        ("64 kB of commands", "echo hi; ".repeat(7_200)),
        ("64 kB of words", format!("echo {}", "word ".repeat(12_800))),
        (
            "64 kB of different paths",
            (0..7_000)
                .map(|i| format!(" src/{i:04}"))
                .fold("cat".into(), |all: String, path| all + &path),
        ),
        (
            "64 kB of options",
            format!("git log {}", "--x=y ".repeat(10_500)),
        ),
        ("64 kB of quotes", "'\"".repeat(32_000)),
        ("64 kB of env", "env ".repeat(16_000)),
        ("64 kB of {", "{ ".repeat(32_000)),
        ("64 kB in one word", "a".repeat(64_000)),
        ("64 kB of here-documents", "cat <<A\n".repeat(8_000)),
    ];
    let ordinary = [
        "echo hi",
        "git status",
        "pytest tests/ -v",
        "git commit -m 'fix: the discount'",
        "ls -la src | head -5 && cat a > b",
    ];
    let named = ordinary.map(|text| (text, text.to_owned()));
    for (name, text) in named.into_iter().chain(hostile) {
        let touches = [Touch::Command(text)];
        criterion.bench_function(&format!("judge {name}"), |bencher| {
            bencher.iter(|| judged(&policy, &touches))
        });
    }
    let surroundings = Surroundings {
        own: Vec::new(),
        home: None,
        path: std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .collect::<Vec<PathBuf>>(),
    };
    let wanted = wants(&policy, &[Touch::Command("echo hi".into())]);
    let folder = folder();
    criterion.bench_function("look up the facts of echo hi", |bencher| {
        bencher.iter(|| resolve::facts(&wanted, folder.path(), &[], &surroundings));
    });
}

/// 200 tasks, each waiting for the four before it and referring to one of them, with an input against the schema of a tool.
fn plans(criterion: &mut Criterion) {
    let catalog = Catalog::of_tools(built_in().plans(), tools::all(), &Offer::default());
    let task = |at: usize| {
        let on: Vec<String> = (at.saturating_sub(4)..at)
            .map(|on| format!("t{on}"))
            .collect();
        let said = on.last().map(|on| format!("{{{{{on}.output.text}}}}"));
        Task {
            id: format!("t{at}"),
            service: "shell".into(),
            command: "run_command".into(),
            prompt: "Say what was said before".into(),
            depends_on: on,
            input: json!({"command": format!("echo {}", said.unwrap_or_default()), "timeout": 30}),
        }
    };
    let graph = Graph {
        objective: "A long chain".into(),
        tasks: (0..200).map(task).collect(),
    };
    let command = catalog.get("shell", "run_command").expect("a command");
    criterion.bench_function("check a plan of 200 tasks and all its inputs", |bencher| {
        bencher.iter(|| {
            check(&graph, &catalog).expect("it can be carried out");
            let mut inputs = graph.tasks.iter().map(|task| &task.input);
            assert!(inputs.all(|input| command.fits_so_far(input).is_ok()));
        })
    });
    let wrong = json!({"command": 7, "timeout": "soon", "more": true});
    criterion.bench_function("name what is wrong with one input", |bencher| {
        bencher.iter(|| black_box(command.fits(&wrong)).expect_err("it does not fit"))
    });
    criterion.bench_function("make the catalogue of all tools", |bencher| {
        bencher.iter(|| Catalog::of_tools(built_in().plans(), tools::all(), &Offer::default()))
    });
}

fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder on the disk")
}

fn message() -> Event {
    let text = "x".repeat(200);
    Event::MessageReceived {
        message: Inbound::text("wamid.0123456789", "5491112345678", text.as_str()),
    }
}

fn journal(path: &Path) -> Journal {
    Journal::create(path, clock::now(), message())
        .expect("a journal")
        .0
}

fn append(journal: &mut Journal) {
    let line = journal.next(clock::now(), message());
    journal.append(line).expect("append");
}

fn appends(criterion: &mut Criterion) {
    let folder = folder();
    let mut ours = journal(&folder.path().join("a.jsonl"));
    let before = ours.bytes();
    append(&mut ours);
    let bytes = vec![b'x'; (ours.bytes() - before) as usize];
    let mut bare = OpenOptions::new()
        .create(true)
        .append(true)
        .open(folder.path().join("bare"))
        .expect("a file");
    criterion.bench_function("append a line and sync", |bencher| {
        bencher.iter(|| {
            append(&mut ours);
            ours.sync().expect("sync");
        });
    });
    let mut write = || {
        bare.write_all(&bytes)
            .and_then(|()| bare.sync_data())
            .expect("write")
    };
    criterion.bench_function("bare write and fdatasync of the same bytes", |bencher| {
        bencher.iter(&mut write)
    });
    // One after the other in turns, since the disk is not the same from second to second.
    let (mut of_ours, mut of_bare) = (Vec::new(), Vec::new());
    for _ in 0..1_000 {
        let started = Instant::now();
        append(&mut ours);
        ours.sync().expect("sync");
        of_ours.push(started.elapsed());
        let started = Instant::now();
        write();
        of_bare.push(started.elapsed());
    }
    of_ours.sort();
    of_bare.sort();
    let ratio = of_ours[500].as_secs_f64() / of_bare[500].as_secs_f64();
    println!(
        "append and sync to bare write and fdatasync, in turns: {ratio:.2} x (target 1.2), medians {:?} and {:?}",
        of_ours[500], of_bare[500]
    );
    criterion.bench_function("append a line without sync", |bencher| {
        bencher.iter(|| append(&mut ours))
    });
}

fn reading(criterion: &mut Criterion) {
    let folder = folder();
    let path = folder.path().join("long.jsonl");
    let mut journal = journal(&path);
    for _ in 1..LINES {
        append(&mut journal);
    }
    let mut group = criterion.benchmark_group("long journal");
    group.sample_size(10);
    group.bench_function(format!("read {LINES} lines"), |bencher| {
        bencher.iter(|| assert_eq!(read(&path, |_| {}).expect("it is intact").seq, LINES as u64));
    });
    group.finish();
}
