//! `journeyman serve`, killed at random moments of a real session: signed webhooks, real git with a remote over
//! HTTP, real processes and SQLite.
//!
//! WhatsApp, the model, the remote and GitHub's API are servers of the test: they survive the kills and count what they saw. The seed is printed;
//! `JOURNEYMAN_SEED` replays its moments, as far as a real machine repeats anything.

use super::person::{Job, Person};
use crate::support::PATIENCE;
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

/// Kills of one session, before it is left to end.
const KILLS_MAX: usize = 5;

/// SplitMix64: enough for moments, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit.max(1)
    }
}

fn seed() -> u64 {
    let given = std::env::var("JOURNEYMAN_SEED").ok();
    let given = given.map(|seed| seed.parse().expect("JOURNEYMAN_SEED is a number"));
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
    given.unwrap_or_else(|| since.map_or(1, |since| u64::from(since.subsec_nanos())))
}

/// One session to its end, killed after each of `moments`; how long the last life took.
async fn session(moments: &[Duration], context: &str) -> Duration {
    let job = Job::new().await;
    let mut served = job.served().await;
    let mut person = Person::new();
    let mut moments = moments.iter();
    loop {
        served.begin().await;
        let began = Instant::now();
        let dies = match moments.next() {
            Some(moment) => tokio::time::sleep(*moment),
            None => tokio::time::sleep(PATIENCE * 2),
        };
        tokio::pin!(dies);
        let ended = loop {
            // What is not answered with 200 is said again.
            if person.speaks(&served).await != Some(200) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            tokio::select! {
                sent = served.graph.sent.recv() => {
                    let sent = sent.expect("the stand-in is there");
                    if person.reads(&sent, &job, &served.program).await {
                        break true;
                    }
                }
                () = &mut dies => break false,
            }
        };
        let lived = began.elapsed();
        if ended {
            // What still has to be written down about the last word.
            served.signal(Signal::SIGTERM);
            assert_eq!(served.ended().await, Some(0), "{context}");
            person.check(&job, &served.program, context);
            let verified = served.program.run(&["audit", "verify"]).await;
            assert_eq!(verified.code, 0, "{context}: {}", verified.out);
            return lived;
        }
        served.signal(Signal::SIGKILL);
        served.ended().await;
    }
}

async fn kills(count: usize) {
    let seed = seed();
    println!("JOURNEYMAN_SEED={seed}");
    let mut dice = Dice(seed);
    let whole = session(&[], "not killed").await;
    let limit = u64::try_from(whole.as_millis()).expect("milliseconds");
    let mut left = count;
    while left > 0 {
        let kills = left.min(1 + usize::try_from(dice.below(KILLS_MAX as u64)).expect("few"));
        let moments: Vec<_> = (0..kills)
            .map(|_| Duration::from_millis(dice.below(limit)))
            .collect();
        let context =
            format!("JOURNEYMAN_SEED={seed}, {left} kills left, killed after {moments:?}");
        session(&moments, &context).await;
        left -= kills;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_survives_20_kills_at_random_moments() {
    kills(20).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: by .ci/full"]
async fn long_the_server_survives_250_kills_at_random_moments() {
    kills(250).await;
}
