//! Schedules mean what people take them to mean, in every zone and across every change of the clock.

use crate::program::Program;
use crate::support::generated;
use chrono::{DateTime, Datelike, NaiveDateTime, Offset, TimeDelta, TimeZone, Timelike, Utc};
use chrono_tz::Tz;
use journeyman::schedule::Schedule;
use journeyman::schedule::misfire::{Catching, Misfire, due};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

const VECTORS: &str = include_str!("../vectors/cron.tsv");
const REFUSED: &str = include_str!("../vectors/cron_refused.tsv");

fn lines(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# "))
        .map(|line| line.split('\t').collect())
}

fn instant(text: &str) -> DateTime<Utc> {
    text.parse().expect("an instant")
}

#[test]
fn every_schedule_of_the_table_fires_when_it_says() {
    let mut count = 0;
    for line in lines(VECTORS) {
        let [expression, zone, after, expected] = line[..] else {
            panic!("{line:?}");
        };
        let schedule = Schedule::parse(expression, zone).expect(expression);
        let times = schedule.upcoming(instant(after), 3).expect(expression);
        let times: Vec<_> = times.iter().map(DateTime::to_rfc3339).collect();
        assert_eq!(times.join("|"), expected, "{expression} in {zone}");
        count += 1;
    }
    assert_eq!(count, 12);
}

#[test]
fn every_text_of_the_table_is_refused_with_what_is_accepted() {
    let mut count = 0;
    for line in lines(REFUSED) {
        let refused = Schedule::parse(line[0], line[1]).expect_err(line[0]);
        assert!(refused.to_string().contains("accepted: "), "{refused}");
        count += 1;
    }
    assert_eq!(count, 10);
}

#[test]
fn changes_of_the_clock_follow_the_rule() {
    for (expression, zone, after, expected) in [
        // A wildcard hour: elapsed time. The hour 01 comes twice, the hour 02 not at all.
        (
            "0 * * * *",
            "America/New_York",
            "2026-11-01T04:30:00Z",
            "2026-11-01T01:00:00-04:00|2026-11-01T01:00:00-05:00|2026-11-01T02:00:00-05:00",
        ),
        (
            "*/30 * * * *",
            "America/New_York",
            "2027-03-14T06:20:00Z",
            "2027-03-14T01:30:00-05:00|2027-03-14T03:00:00-04:00|2027-03-14T03:30:00-04:00",
        ),
        // Asked in between the two.
        (
            "15 * * * *",
            "America/New_York",
            "2026-11-01T05:30:00Z",
            "2026-11-01T01:15:00-05:00|2026-11-01T02:15:00-05:00|2026-11-01T03:15:00-05:00",
        ),
        // A fixed hour: several skipped times fire once.
        (
            "*/15 2 * * *",
            "America/New_York",
            "2027-03-13T12:00:00Z",
            "2027-03-14T03:00:00-04:00|2027-03-15T02:00:00-04:00|2027-03-15T02:15:00-04:00",
        ),
        (
            "45 1 * * *",
            "America/New_York",
            "2026-11-01T05:50:00Z",
            "2026-11-02T01:45:00-05:00|2026-11-03T01:45:00-05:00|2026-11-04T01:45:00-05:00",
        ),
        // Half an hour, at two in the morning.
        (
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-02T16:00:00Z",
            "2026-10-04T02:30:00+11:00|2026-10-05T02:15:00+11:00|2026-10-06T02:15:00+11:00",
        ),
        // The day that Samoa never had.
        (
            "0 9 30 12 *",
            "Pacific/Apia",
            "2011-12-01T00:00:00Z",
            "2011-12-31T00:00:00+14:00|2012-12-30T09:00:00+14:00|2013-12-30T09:00:00+14:00",
        ),
        // Midnight is skipped.
        (
            "0 0 * * *",
            "America/Sao_Paulo",
            "2018-11-03T12:00:00Z",
            "2018-11-04T01:00:00-02:00|2018-11-05T00:00:00-02:00|2018-11-06T00:00:00-02:00",
        ),
        (
            "at 2027-03-14 02:30",
            "America/New_York",
            "2026-11-01T00:00:00Z",
            "2027-03-14T03:00:00-04:00",
        ),
        (
            "at 2026-11-01 01:30",
            "America/New_York",
            "2026-10-01T00:00:00Z",
            "2026-11-01T01:30:00-04:00",
        ),
    ] {
        let schedule = Schedule::parse(expression, zone).expect(expression);
        let times = schedule.upcoming(instant(after), 3).expect(expression);
        let times: Vec<_> = times.iter().map(DateTime::to_rfc3339).collect();
        assert_eq!(times.join("|"), expected, "{expression} in {zone}");
    }
}

/// Zones with an odd year each, past ones: the walk has tables of its own (chrono-tz), and those age.
const ODD: &[(&str, i32)] = &[
    ("Australia/Lord_Howe", 2025),
    ("Asia/Kathmandu", 2025),
    ("Africa/Casablanca", 2025),
    ("Pacific/Apia", 2011),
    ("America/Sao_Paulo", 2018),
    ("America/St_Johns", 2025),
    ("America/St_Johns", 2010),
    ("Antarctica/Troll", 2025),
    ("Europe/Dublin", 2025),
    ("America/New_York", 2025),
    ("Pacific/Chatham", 2025),
    ("America/Santiago", 2025),
    ("Africa/Cairo", 2024),
    ("Asia/Gaza", 2025),
];

/// A field as the walk understands it: numbers spelled out, or a star with a step.
#[derive(Debug, Clone)]
enum Plain {
    Star(u32),
    These(Vec<u32>),
}

impl Plain {
    fn text(&self) -> String {
        match self {
            Plain::Star(1) => "*".into(),
            Plain::Star(step) => format!("*/{step}"),
            Plain::These(numbers) => {
                let numbers: Vec<_> = numbers.iter().map(u32::to_string).collect();
                numbers.join(",")
            }
        }
    }

    fn fits(&self, number: u32, min: u32) -> bool {
        match self {
            Plain::Star(step) => (number - min).is_multiple_of(*step),
            Plain::These(numbers) => numbers.contains(&number),
        }
    }

    fn is_star(&self) -> bool {
        matches!(self, Plain::Star(1))
    }
}

/// Minute, hour, day, month, weekday.
type Five = [Plain; 5];

fn fits(five: &Five, time: NaiveDateTime) -> bool {
    let [minute, hour, day, month, weekday] = five;
    let sunday = time.weekday().num_days_from_sunday();
    let (on_day, on_weekday) = (day.fits(time.day(), 1), weekday.fits(sunday, 0));
    let date = match day.is_star() || weekday.is_star() {
        true => on_day && on_weekday,
        false => on_day || on_weekday,
    };
    minute.fits(time.minute(), 0)
        && hour.fits(time.hour(), 0)
        && month.fits(time.month(), 1)
        && date
}

/// Every minute of the span, one after the other, with a clock on the wall beside it.
fn walk(five: &Five, zone: Tz, from: DateTime<Utc>, to: DateTime<Utc>) -> Vec<DateTime<Utc>> {
    let wall =
        |at: DateTime<Utc>| at.naive_utc() + zone.offset_from_utc_datetime(&at.naive_utc()).fix();
    let elapsed = matches!(five[1], Plain::Star(_));
    let minute = TimeDelta::minutes(1);
    let mut fired = Vec::new();
    // A day before, so that the highest time seen on the wall is known.
    let mut now = from - TimeDelta::days(2);
    let mut highest = wall(now - minute);
    while now <= to {
        let shown = wall(now);
        let fires = match elapsed {
            true => fits(five, shown),
            false => {
                // All that the wall passed by since the highest time it ever showed.
                let mut passed = highest + minute;
                let mut any = false;
                while passed <= shown {
                    any |= fits(five, passed);
                    passed += minute;
                }
                any
            }
        };
        if fires && now > from {
            fired.push(now);
        }
        highest = highest.max(shown);
        now += minute;
    }
    fired
}

fn plain(min: u32, max: u32) -> impl Strategy<Value = Plain> {
    prop_oneof![
        2 => Just(Plain::Star(1)),
        2 => (2..=max).prop_map(Plain::Star),
        4 => prop::collection::vec(min..=max, 1..4).prop_map(Plain::These),
    ]
}

fn hour() -> impl Strategy<Value = Plain> {
    prop_oneof![
        1 => Just(Plain::Star(1)),
        1 => (2..=23u32).prop_map(Plain::Star),
        // Where clocks change.
        4 => prop::collection::vec(select(vec![0, 1, 2, 3, 23]), 1..4).prop_map(Plain::These),
        1 => prop::collection::vec(0..=23u32, 1..4).prop_map(Plain::These),
    ]
}

fn five() -> impl Strategy<Value = Five> {
    let day = prop_oneof![3 => Just(Plain::Star(1)), 1 => plain(1, 31)];
    let month = prop_oneof![3 => Just(Plain::Star(1)), 1 => plain(1, 12)];
    let weekday = prop_oneof![3 => Just(Plain::Star(1)), 1 => plain(0, 6)];
    (plain(0, 59), hour(), day, month, weekday).prop_map(|(a, b, c, d, e)| [a, b, c, d, e])
}

/// Compares with the walk over some days of the zone's year, beginning at a day of it.
fn agrees(five: &Five, (zone, year): (&str, i32), first_day: u32, days: i64) {
    let text: Vec<_> = five.iter().map(Plain::text).collect();
    let text = text.join(" ");
    let Ok(schedule) = Schedule::parse(&text, zone) else {
        let impossible = |day: u32| day > 29 && five[2].fits(day, 1);
        assert!((30..=31).any(impossible), "{text} is refused");
        return;
    };
    let zone: Tz = zone.parse().expect("a zone");
    let start = Utc
        .with_ymd_and_hms(year, 1, 1, 0, 0, 0)
        .single()
        .expect("a day");
    let from = start + TimeDelta::days(i64::from(first_day));
    let to = from + TimeDelta::days(days);
    let mut fired = Vec::new();
    let mut last = from;
    while let Some(next) = schedule.next(last, from).filter(|next| *next <= to) {
        assert!(next > last, "{text} in {zone}: time stands still at {next}");
        fired.push(next);
        last = next;
    }
    let expected = walk(five, zone, from, to);
    let differs = fired
        .iter()
        .zip(&expected)
        .find(|(one, other)| one != other);
    assert_eq!(
        (fired.len(), differs),
        (expected.len(), None),
        "{text} in {zone} from {from}"
    );
}

/// Days on which the offset of a zone changes in its odd year, counted from the first of January.
fn changes(zone: &str, year: i32) -> Vec<u32> {
    let zone: Tz = zone.parse().expect("a zone");
    let start = Utc
        .with_ymd_and_hms(year, 1, 1, 0, 0, 0)
        .single()
        .expect("a day");
    let offset = |day: u32| {
        let at = start + TimeDelta::days(i64::from(day));
        zone.offset_from_utc_datetime(&at.naive_utc()).fix()
    };
    (0..365)
        .filter(|day| offset(*day) != offset(day + 1))
        .collect()
}

#[test]
fn firings_agree_with_a_walk_over_every_minute_around_each_change_of_the_clock() {
    let mut runner = TestRunner::new(Config {
        cases: 40,
        ..generated()
    });
    let result = runner.run(&(five(), select(ODD)), |(five, zone)| {
        let days = changes(zone.0, zone.1);
        for day in if days.is_empty() { vec![100] } else { days } {
            agrees(&five, zone, day.saturating_sub(1), 3);
        }
        Ok(())
    });
    result.expect("they agree");
}

#[test]
#[ignore = "long: a year in each of the odd zones"]
fn long_firings_agree_with_a_walk_over_every_minute_of_a_year() {
    for zone in ODD {
        let mut runner = TestRunner::new(Config {
            cases: 8,
            ..generated()
        });
        let result = runner.run(&five(), |five| {
            agrees(&five, *zone, 0, 365);
            Ok(())
        });
        result.expect("they agree");
    }
}

#[tokio::test]
async fn cron_next_needs_no_configuration_and_prints_instants_with_the_zones_offset() {
    let program = Program::new("");
    // Unreadable settings do not matter where the command line says it all.
    program.config("settings.toml", "this is no TOML");
    let next = ["cron", "next", "30 8 * * 1", "--tz", "Europe/Madrid"];
    let after = ["--after", "2026-11-21T00:00:00Z", "--count", "2"];
    let run = program
        .run(&[&next[..], &after[..], &["--json"]].concat())
        .await;
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(
        run.out.trim(),
        r#"["2026-11-23T08:30:00+01:00","2026-11-30T08:30:00+01:00"]"#
    );
}

#[tokio::test]
async fn cron_next_takes_the_configured_zone_and_never_utc_by_itself() {
    let program = Program::new("");
    let next = [
        "cron",
        "next",
        "0 9 * * *",
        "--after",
        "2026-11-21T00:00:00Z",
        "--count",
        "1",
    ];
    let run = program.run(&next).await;
    assert_eq!(run.code, 2, "{}", run.out);
    assert!(run.err.contains("zone: none is given"), "{}", run.err);
    program.config("settings.toml", "timezone = \"Asia/Kolkata\"");
    let run = program.run(&next).await;
    assert_eq!(run.out.trim(), "2026-11-21T09:00:00+05:30", "{}", run.err);
}

#[tokio::test]
async fn cron_next_refuses_wrong_input_with_exit_2_and_the_field() {
    let program = Program::new("");
    for (arguments, named) in [
        (
            ["61 * * * *", "--tz", "UTC"],
            "minute: \"61\" is out of range",
        ),
        (["-5 * * * *", "--tz", "UTC"], "minute: \"-5\""),
        (
            ["0 9 * * 1", "--tz", "Mars/Olympus"],
            "zone: \"Mars/Olympus\" is unknown",
        ),
        (["0 0 31 2 *", "--tz", "UTC"], "can never fire"),
        (["at 2020-01-01 09:00", "--tz", "UTC"], "is past"),
    ] {
        let run = program
            .run(&[&["cron", "next"][..], &arguments].concat())
            .await;
        assert_eq!(run.code, 2, "{arguments:?}: {}", run.out);
        assert!(run.err.contains(named), "{}", run.err);
    }
}

/// A server that looks now and then, sleeps, and is down: with `all`, every slot of a year is due exactly once.
#[test]
fn a_year_of_jobs_is_due_as_a_walk_over_every_minute_says() {
    let (every, these) = (Plain::Star(1), |numbers: &[u32]| {
        Plain::These(numbers.to_vec())
    });
    let jobs: [Five; 4] = [
        [
            these(&[30]),
            these(&[2]),
            every.clone(),
            every.clone(),
            every.clone(),
        ],
        [
            these(&[0]),
            these(&[0, 1, 3]),
            every.clone(),
            every.clone(),
            these(&[0]),
        ],
        [
            these(&[15]),
            Plain::Star(6),
            every.clone(),
            every.clone(),
            every.clone(),
        ],
        [
            these(&[45]),
            these(&[23]),
            these(&[13]),
            every.clone(),
            these(&[5]),
        ],
    ];
    let catching = Catching {
        misfire: Misfire::All,
        late_max: TimeDelta::days(14),
        all_max: 1_000,
    };
    for (at, (zone, year)) in ODD.iter().enumerate() {
        let five = &jobs[at % jobs.len()];
        let text = five.iter().map(Plain::text).collect::<Vec<_>>().join(" ");
        let schedule = Schedule::parse(&text, zone).expect("a schedule");
        let start = Utc.with_ymd_and_hms(*year, 1, 1, 0, 0, 0);
        let start = start.single().expect("a day");
        let end = start + TimeDelta::days(365);
        let (mut now, mut decided, mut fired) = (start, start, Vec::new());
        for look in 0_i64.. {
            if let Some(due) = due(&schedule, start, decided, now, catching) {
                assert!(due.left.is_empty(), "{text} in {zone}");
                fired.extend(due.fire);
                decided = due.until;
            }
            if now == end {
                break;
            }
            // Seconds, minutes, a night, now and then most of a week.
            let sleep =
                [5, 61, 1_800, 28_800, 500_000][usize::try_from(look * 7 % 5).expect("small")];
            now = (now + TimeDelta::seconds(sleep)).min(end);
        }
        let zone: Tz = zone.parse().expect("a zone");
        assert_eq!(fired, walk(five, zone, start, end), "{text} in {zone}");
    }
}
