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
use std::time::{Duration, Instant};

const STARTS: usize = 25;
const SESSIONS: usize = 4;
const ROUNDS: usize = 204;
/// What counts as round 10 and as round 200: a few around, since one round is a matter of luck.
const EARLY: Range<usize> = 5..25;
const LATE: Range<usize> = 180..200;

fn main() {
    if baseline::was_asked_for() {
        return baseline::run();
    }
    println!("{:<58} {:>12}  target", "", "seen");
    starts();
    let (ours, journal_bytes) = sessions();
    let first_bytes = ours[0].arrivals[0].body.len();
    check_requests(&ours[0].arrivals);
    rounds(&ours, first_bytes, journal_bytes);
    memory(&ours);
    resumed();
    kept_alive();
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

fn sessions() -> (Vec<Ran>, usize) {
    let mut ran = Vec::new();
    let mut journal_bytes = 0;
    for _ in 0..SESSIONS {
        let (home, model) = (Home::new(), Loopback::answering(ROUNDS));
        let mut child = home
            .journeyman(&model, &["run", "go on"])
            .spawn()
            .expect("start it");
        model.watch(child.id());
        assert!(
            child.wait().expect("wait for it").success(),
            "the session ended well"
        );
        let arrivals = model.arrivals();
        assert_eq!(arrivals.len(), ROUNDS + 1, "one request a round");
        assert_eq!(
            model.connections(),
            1,
            "one kept-alive connection for the whole session"
        );
        journal_bytes = home.journal_bytes() / ROUNDS;
        ran.push(Ran { arrivals });
    }
    (ran, journal_bytes)
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

fn rounds(ours: &[Ran], first_bytes: usize, journal_bytes: usize) {
    let growth = (ours[0].arrivals[ROUNDS].body.len() - first_bytes) / ROUNDS;
    let bare = |flavour| -> Vec<Ran> {
        let run = |_| {
            let model = Loopback::answering(ROUNDS);
            let mut child = baseline::start(
                &model,
                flavour,
                [ROUNDS, first_bytes, growth, journal_bytes],
            );
            model.watch(child.id());
            assert!(
                child.wait().expect("wait for it").success(),
                "the baseline ended well"
            );
            Ran {
                arrivals: model.arrivals(),
            }
        };
        (0..SESSIONS).map(run).collect()
    };
    let gap = |ran: &[Ran], rounds: &Range<usize>| {
        median(ran.iter().flat_map(|ran| ran.gaps(rounds.clone())))
    };
    let all = 5..200;
    let (threads, thread) = (bare(Flavour::TwoWorkers), bare(Flavour::OneThread));
    // Once more, since the machine may have been busier then than it is now.
    let again = sessions().0;
    let ours: Vec<&[Ran]> = vec![ours, &again];
    let our = |rounds: &Range<usize>| median(ours.iter().map(|ran| gap(ran, rounds)));
    let (round, base) = (our(&all), gap(&threads, &all));
    note("answer to next request, ours", round, "ms");
    note(
        "answer to next request, bare loop (two workers)",
        base,
        "ms",
    );
    note(
        "answer to next request, bare loop (one thread)",
        gap(&thread, &all),
        "ms",
    );
    tell("  ours to bare loop", round / base, "x", 1.5);
    note(
        "  ours to bare loop of one thread",
        round / gap(&thread, &all),
        "x",
    );
    tell(
        "  ours, round 200 to round 10",
        our(&LATE) / our(&EARLY),
        "x",
        1.2,
    );
    note(
        "  bare loop, round 200 to round 10",
        gap(&threads, &LATE) / gap(&threads, &EARLY),
        "x",
    );
    note("requests grow a round by", growth as f64, "B");
    note("the journal grows a round by", journal_bytes as f64, "B");
    let cpu = |ran: &[Ran]| {
        let a_round = |ran: &Ran| (ran.usage(199).cpu_ms - ran.usage(9).cpu_ms) / 190.0;
        median(ran.iter().map(a_round))
    };
    tell("processor time a round, ours", cpu(&again), "ms", 2.0);
    note(
        "processor time a round, bare loop (two workers)",
        cpu(&threads),
        "ms",
    );
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
