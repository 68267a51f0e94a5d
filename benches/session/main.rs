//! What does Journeyman itself cost around a model that answers at once?
//!
//! Start, rounds, processor time, memory, connections and bytes of the release binary, against a model on loopback and a
//! bare tokio loop that does the same work ([`baseline`]). Bytes, prefix and connections must hold and end this with an
//! error; times are printed beside their targets, since a shared machine makes them jump. See `benches/README.md`.

mod baseline; // the bare loop that rounds are compared with
mod loopback; // the model, and Graph, on loopback
mod program; // starts the binary and looks at it from outside

use baseline::Flavour;
use loopback::{Arrival, Loopback};
use program::{Home, Usage};
use std::ops::Range;
use std::process::Child;
use std::time::{Duration, Instant};

const STARTS: usize = 25;
const TURNS: usize = 6;
const ROUNDS: usize = 204;
const LOADS: usize = 11;
const DEFINITIONS: usize = 500;
/// What counts as round 10 and as round 200: a few around, since one round is a matter of luck.
const EARLY: Range<usize> = 5..25;
const LATE: Range<usize> = 180..200;
const ALL: Range<usize> = 5..200;

fn main() {
    if baseline::was_asked_for() {
        return baseline::run();
    }
    println!("{:<58} {:>12}  target", "", "seen");
    starts();
    memory(&rounds());
    resumed();
    kept_alive();
    written();
}

fn tell(what: &str, seen: f64, unit: &str, target: f64) {
    let mark = if seen <= target { "" } else { "  MISSED" };
    println!(
        "{what:<58} {:>12}  {target} {unit}{mark}",
        format!("{seen:.2} {unit}")
    );
}

fn note(what: &str, seen: f64, unit: &str) {
    println!("{what:<58} {:>12}", format!("{seen:.2} {unit}"));
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// From the start of the program to the arrival of its first request, each time in a new home.
fn starts() {
    let (mut first, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let (home, model) = (Home::new(), Loopback::answering(0));
        let started = Instant::now();
        let mut child = home
            .journeyman(&model, &["run", "say hello"])
            .spawn()
            .expect("start it");
        child.wait().expect("wait for it");
        first.push(ms(model.arrivals()[0].at - started));
        let started = Instant::now();
        let mut child = home
            .journeyman(&model, &["--version"])
            .spawn()
            .expect("start it");
        child.wait().expect("wait for it");
        bare.push(ms(started.elapsed()));
    }
    tell(
        "start to first request, median",
        median(first.iter().copied()),
        "ms",
        15.0,
    );
    note(
        "  fastest",
        first.into_iter().fold(f64::MAX, f64::min),
        "ms",
    );
    note(
        "  of it: any start of the binary (--version)",
        median(bare),
        "ms",
    );
}

/// One session's requests, by whoever made them.
struct Ran {
    arrivals: Vec<Arrival>,
}

impl Ran {
    /// Waits for the end of what asks `model`.
    fn watched(model: &Loopback, mut child: Child) -> Self {
        model.watch(child.id());
        assert!(
            child.wait().expect("wait for it").success(),
            "it ended well"
        );
        Self {
            arrivals: model.arrivals(),
        }
    }

    /// From each answer to the arrival of the next request, in milliseconds.
    fn gaps(&self, rounds: Range<usize>) -> Vec<f64> {
        let pairs = self
            .arrivals
            .windows(2)
            .skip(rounds.start)
            .take(rounds.len());
        pairs
            .map(|pair| ms(pair[1].at - pair[0].answered))
            .collect()
    }
}

/// One session of ours, and how much its journal grew a round.
fn session() -> (Ran, usize) {
    let (home, model) = (Home::new(), Loopback::answering(ROUNDS));
    let mut command = home.journeyman(&model, &["run", "go on"]);
    let ran = Ran::watched(&model, command.spawn().expect("start it"));
    assert_eq!(ran.arrivals.len(), ROUNDS + 1, "one request a round");
    assert_eq!(model.connections(), 1, "one kept-alive connection");
    (ran, home.journal_bytes() / ROUNDS)
}

/// Small, and only ever longer.
fn check_requests(arrivals: &[Arrival]) {
    let first = arrivals[0].body.len();
    tell(
        "bytes of the first request, all tools offered",
        first as f64,
        "B",
        8_000.0,
    );
    assert!(first < 8_000, "the first request is small");
    for (i, pair) in arrivals.windows(2).enumerate() {
        assert!(
            pair[1].body.starts_with(pair[0].prefix()),
            "request {} has the prefix of the one before",
            i + 2
        );
    }
    note(
        "requests with the prefix of the one before",
        arrivals.len() as f64 - 1.0,
        "",
    );
    note("connections a session", 1.0, "");
}

/// Ours and the bare loops in turns, each compared with its neighbours: the machine is not the same from second to second.
fn rounds() -> Vec<Ran> {
    let (first, journal) = session();
    check_requests(&first.arrivals);
    let bytes = |request: usize| first.arrivals[request].body.len();
    let growth = (bytes(ROUNDS) - bytes(0)) / ROUNDS;
    let bare = |flavour| {
        let model = Loopback::answering(ROUNDS);
        let child = baseline::start(&model, flavour, [ROUNDS, bytes(0), growth, journal]);
        Ran::watched(&model, child)
    };
    let turn = |_| {
        [
            session().0,
            bare(Flavour::TwoWorkers),
            bare(Flavour::OneThread),
            bare(Flavour::OwnSpawn),
        ]
    };
    let turns: Vec<[Ran; 4]> = (0..TURNS).map(turn).collect();
    let each = |figure: &dyn Fn(&[Ran; 4]) -> f64| median(turns.iter().map(figure));
    let gap = |ran: &Ran, rounds: Range<usize>| median(ran.gaps(rounds));
    let names = [
        "ours",
        "bare loop (two workers)",
        "bare loop (one thread)",
        "bare loop, the same spawn (keeper, sandbox, spool)",
    ];
    for (i, name) in names.iter().enumerate() {
        let name = format!("answer to next request, {name}");
        note(&name, each(&|turn| gap(&turn[i], ALL)), "ms");
    }
    let ratio = |other: usize| each(&|turn| gap(&turn[0], ALL) / gap(&turn[other], ALL));
    tell("  ours to bare loop, the same spawn", ratio(3), "x", 1.5);
    note(
        "  ours to bare loop (two workers), plain spawn",
        ratio(1),
        "x",
    );
    note(
        "  ours to bare loop (one thread), plain spawn",
        ratio(2),
        "x",
    );
    let spawn = each(&|turn| gap(&turn[3], ALL) - gap(&turn[1], ALL));
    tell(
        "  keeper, sandbox and spool add to a spawn",
        spawn,
        "ms",
        5.0,
    );
    let grown = |i: usize| each(&|turn| gap(&turn[i], LATE) / gap(&turn[i], EARLY));
    tell("  ours, round 200 to round 10", grown(0), "x", 1.2);
    note("  bare loop, round 200 to round 10", grown(1), "x");
    note("requests grow a round by", growth as f64, "B");
    note("the journal grows a round by", journal as f64, "B");
    let cpu =
        |i: usize| each(&|turn| (turn[i].usage(199).cpu_ms - turn[i].usage(9).cpu_ms) / 190.0);
    tell("processor time a round, ours", cpu(0), "ms", 2.0);
    note(
        "processor time a round, bare loop (two workers)",
        cpu(1),
        "ms",
    );
    turns.into_iter().map(|[ours, ..]| ours).collect()
}

impl Ran {
    fn usage(&self, request: usize) -> Usage {
        self.arrivals[request]
            .usage
            .expect("the process was watched")
    }
}

fn memory(ours: &[Ran]) {
    let most = |ran: &Ran, which: fn(Usage) -> f64| {
        (5..=ROUNDS)
            .map(|request| which(ran.usage(request)))
            .fold(0.0, f64::max)
    };
    tell(
        "`run`, 204 rounds, most VmRSS",
        median(ours.iter().map(|ran| most(ran, |u| u.rss_mb))),
        "MB",
        15.0,
    );
    note(
        "  of it RssAnon",
        median(ours.iter().map(|ran| most(ran, |u| u.anon_mb))),
        "MB",
    );
    let (home, model) = (Home::new(), Loopback::answering(ROUNDS));
    let server = program::Server::start(&home, &model);
    let idle = Usage::of(server.id()).expect("it runs");
    tell("idle `serve`, VmRSS", idle.rss_mb, "MB", 10.0);
    note("  of it RssAnon", idle.anon_mb, "MB");
    model.watch(server.id());
    server.say("go on");
    model.wait_for(ROUNDS + 1);
    let ran = Ran {
        arrivals: model.arrivals(),
    };
    tell(
        "`serve`, a session of 204 rounds, most VmRSS",
        most(&ran, |u| u.rss_mb),
        "MB",
        15.0,
    );
    note("  of it RssAnon", most(&ran, |u| u.anon_mb), "MB");
}

/// Killed in the middle, taken up again: the model sees the same bytes.
fn resumed() {
    let (home, model) = (Home::new(), Loopback::silent_from(6));
    let mut child = home
        .journeyman(&model, &["run", "go on"])
        .spawn()
        .expect("start it");
    model.wait_for(6);
    child.kill().expect("kill it");
    child.wait().expect("wait for it");
    let before = model.arrivals();
    let model = Loopback::answering(0);
    let session = home.session();
    let mut child = home
        .journeyman(&model, &["resume", &session])
        .spawn()
        .expect("start it");
    assert!(
        child.wait().expect("wait for it").success(),
        "the resumed session ended well"
    );
    let after = model.arrivals();
    assert!(
        after[0].body.starts_with(before[5].prefix()),
        "a resumed session has the same prefix"
    );
    note(
        "bytes of prefix kept over kill -9 and resume",
        before[5].prefix().len() as f64,
        "B",
    );
}

/// Where the end of an answer comes in a packet of its own, its connection is kept all the same, for one of the next
/// requests: one that goes out before that end arrives needs another.
fn kept_alive() {
    let (home, model) = (Home::new(), Loopback::ending_late(20));
    let mut child = home
        .journeyman(&model, &["run", "go on"])
        .spawn()
        .expect("start it");
    assert!(
        child.wait().expect("wait for it").success(),
        "the session ended well"
    );
    note(
        "connections for 21 answers that end late",
        model.connections() as f64,
        "",
    );
}

/// Commands that are written in files: one of them loaded, and many found, by the whole program.
fn written() {
    let (home, model) = (Home::new(), Loopback::answering(0));
    let run = |words: &[&str]| {
        let mut command = home.journeyman(&model, words);
        let started = Instant::now();
        let ended = command.status().expect("start it");
        assert!(ended.success(), "{words:?} ends well");
        ms(started.elapsed())
    };
    let took = |words: &[&str]| median((0..LOADS).map(|_| run(words)));
    home.repository();
    home.write("style.md", "# Style\n\nTabs.\n");
    let typical = "---\ndescription: Fix an issue\n---\nFix $ARGUMENTS.\n\n@style.md\n";
    home.write(".claude/commands/typical.md", typical);
    let looking = format!("{typical}\n!`git status`\n");
    home.write(".claude/commands/looking.md", &looking);
    run(&["trust"]);
    let load = ["commands", "load", "typical", "12", "--json"];
    tell(
        "commands load, with a file, median",
        took(&load),
        "ms",
        50.0,
    );
    let load = ["commands", "load", "looking", "12", "--json"];
    tell("  with a git status as well", took(&load), "ms", 50.0);
    for n in 2..DEFINITIONS {
        home.write(&format!(".claude/commands/many/c{n}.md"), typical);
    }
    let list = ["defs", "list"];
    tell(
        "defs list of 500 definitions, median",
        took(&list),
        "ms",
        30.0,
    );
}
