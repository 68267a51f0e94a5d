//! Which slots are due, after the ticker slept, the server was down, or the clock jumped.

use super::Schedule;
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

/// A slot that is not later than this is no misfire: the ticker looks several times a minute.
pub const ON_TIME: TimeDelta = TimeDelta::minutes(2);
/// Slots that are looked at: one a minute for two weeks.
const SLOTS_MAX: usize = 20_160;
const LOOKED_BACK_MAX: TimeDelta = TimeDelta::days(14);

/// What becomes of slots that nobody was there for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Misfire {
    /// Nothing.
    Skip,
    /// The last of them runs.
    #[default]
    Once,
    /// Each of them runs, one after the other, the last ones if there are many.
    All,
}

impl Misfire {
    pub fn word(self) -> &'static str {
        match self {
            Misfire::Skip => "skip",
            Misfire::Once => "once",
            Misfire::All => "all",
        }
    }

    pub fn read(word: &str) -> Option<Self> {
        [Misfire::Skip, Misfire::Once, Misfire::All]
            .into_iter()
            .find(|misfire| misfire.word() == word)
    }
}

/// How misfires of a job are made up for.
#[derive(Debug, Clone, Copy)]
pub struct Catching {
    pub misfire: Misfire,
    /// What is later than this is left.
    pub late_max: TimeDelta,
    /// Slots that `all` makes up for at once.
    pub all_max: usize,
}

/// What came due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Slots to run, in order.
    pub fire: Vec<DateTime<Utc>>,
    /// Slots before these that are left, in order; of those older than two weeks at most one.
    pub left: Vec<DateTime<Utc>>,
    /// Every slot up to here is decided now.
    pub until: DateTime<Utc>,
}

/// What came due since `decided`; `None` where nothing did. Where the clock went back behind `decided`, counting starts
/// again from there: slots that ran are claimed already, those that were only passed over come again.
pub fn due(
    schedule: &Schedule,
    anchor: DateTime<Utc>,
    decided: DateTime<Utc>,
    now: DateTime<Utc>,
    catching: Catching,
) -> Option<Due> {
    if now < decided {
        return Some(Due {
            fire: Vec::new(),
            left: Vec::new(),
            until: now,
        });
    }
    let first = schedule.next(decided, anchor).filter(|next| *next <= now)?;
    let mut slots = Vec::new();
    let mut last = decided.max(now - LOOKED_BACK_MAX);
    while slots.len() < SLOTS_MAX
        && let Some(next) = schedule.next(last, anchor).filter(|next| *next <= now)
    {
        slots.push(next);
        last = next;
    }
    if slots.is_empty() {
        slots.push(first);
    }
    let (late_max, keep) = match catching.misfire {
        Misfire::Skip => (ON_TIME, 1),
        Misfire::Once => (catching.late_max.max(ON_TIME), 1),
        Misfire::All => (catching.late_max.max(ON_TIME), catching.all_max),
    };
    let in_time = slots.partition_point(|slot| *slot < now - late_max);
    let fire = slots.split_off(in_time.max(slots.len().saturating_sub(keep)));
    Some(Due {
        fire,
        left: slots,
        until: now,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().expect("a time")
    }

    fn due_at(misfire: Misfire, decided: &str, now: &str) -> Option<String> {
        let schedule = Schedule::parse("0 * * * *", "UTC").expect("a schedule");
        let catching = Catching {
            misfire,
            late_max: TimeDelta::hours(6),
            all_max: 4,
        };
        let due = due(&schedule, at(decided), at(decided), at(now), catching)?;
        assert_eq!(due.until, at(now));
        let slots: Vec<_> = due
            .fire
            .iter()
            .map(|at| at.format("%H").to_string())
            .collect();
        Some(slots.join(" "))
    }

    #[test]
    fn what_was_missed_is_made_up_for_as_the_job_says() {
        let (night, morning) = ("2026-11-21T00:30:00Z", "2026-11-21T05:30:00Z");
        assert_eq!(due_at(Misfire::Skip, night, morning).as_deref(), Some(""));
        assert_eq!(due_at(Misfire::Once, night, morning).as_deref(), Some("05"));
        assert_eq!(
            due_at(Misfire::All, night, morning).as_deref(),
            Some("02 03 04 05")
        );
        // A slot that just came is no misfire.
        let on_time = "2026-11-21T05:00:09Z";
        assert_eq!(due_at(Misfire::Skip, night, on_time).as_deref(), Some("05"));
        assert_eq!(due_at(Misfire::Once, night, "2026-11-21T00:59:59Z"), None);
        // Later than six hours: left, at once too.
        let schedule = Schedule::parse("0 1 * * *", "UTC").expect("a schedule");
        let catching = Catching {
            misfire: Misfire::Once,
            late_max: TimeDelta::hours(6),
            all_max: 4,
        };
        let late =
            |now| due(&schedule, at(night), at(night), at(now), catching).map(|due| due.fire.len());
        assert_eq!(late("2026-11-21T07:00:00Z"), Some(1));
        assert_eq!(late("2026-11-21T07:00:01Z"), Some(0));
    }

    #[test]
    fn a_clock_that_goes_back_starts_counting_from_there() {
        let (ahead, back) = ("2027-11-21T00:30:00Z", "2026-11-21T05:30:00Z");
        assert_eq!(due_at(Misfire::Once, ahead, back).as_deref(), Some(""));
        assert_eq!(
            due_at(Misfire::Once, back, "2026-11-21T06:00:00Z").as_deref(),
            Some("06")
        );
    }
}
