//! When a scheduled prompt is due: text and zone in, instants out.
//!
//! Pure: no clock, no I/O; the time arrives as an argument. What runs then is no business of this module.
//!
//! Five fields are read here and not by croner: it takes more than POSIX does (`L`, `W`, `#`, `?`, seconds), and the rule
//! for the changes of the clock is our own ([`firing`]).

/// The five fields of a cron expression.
mod fields;
/// What comes next, across changes of the clock.
mod firing;
/// Starts that are spread.
pub mod jitter;
/// What is due after a time without a look.
pub mod misfire;
/// What can be wanted of schedules.
pub mod wish;
/// Time zones.
mod zone;

pub use zone::Zone;

use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};
use fields::Fields;
use std::fmt;
use thiserror::Error;

/// Bytes of the text of a schedule; more is no schedule.
const TEXT_BYTES_MAX: usize = 200;
/// The longest `every`, in minutes: a leap year.
const EVERY_MINUTES_MAX: i64 = 366 * 24 * 60;

const FORMS: &str = "five fields (minute, hour, day of month, month, day of week) such as `0 9 * * 1-5`, `every 30m`, `at 2026-12-01 09:00`, or @hourly, @daily, @weekly, @monthly, @yearly";

/// A text that is no schedule: what is wrong with it, and what is accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScheduleError {
    #[error("the schedule {said:?} is none; accepted: {FORMS}")]
    Form { said: String },
    #[error(
        "the schedule {said:?} has {count} fields; accepted: {FORMS}. There is no field for seconds"
    )]
    FieldCount { said: String, count: usize },
    #[error("{field}: {said:?} {wrong}; accepted: {accepted}")]
    Field {
        field: &'static str,
        said: String,
        wrong: &'static str,
        accepted: &'static str,
    },
    #[error(
        "every: {said:?} is no interval; accepted: a number of minutes, hours or days from one minute to 366 days, such as `every 30m`, `every 6h`, `every 1d`"
    )]
    Every { said: String },
    #[error(
        "at: {said:?} is no time; accepted: year-month-day hour:minute, such as `at 2026-12-01 09:00`"
    )]
    At { said: String },
    #[error("zone: {said:?} is unknown; accepted: an IANA name such as Europe/Madrid or UTC")]
    Zone { said: String },
    #[error(
        "day of month: {said:?} never comes in the months {months}, so the schedule can never fire; accepted: a day that one of its months has"
    )]
    Never { said: String, months: String },
    #[error("at: {said} is past, so the schedule can never fire; accepted: a time to come")]
    Past { said: String },
}

/// A schedule in its zone.
#[derive(Debug, Clone)]
pub struct Schedule {
    text: String,
    zone: Zone,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Fields(Fields),
    /// Elapsed time, counted from an anchor.
    Every(TimeDelta),
    /// Once, on the clock of the zone.
    At(NaiveDateTime),
}

impl Schedule {
    /// Reads a schedule and its zone.
    ///
    /// # Errors
    /// [`ScheduleError`], also for one that can never fire. A past `at` is one for [`Schedule::upcoming`] to find.
    pub fn parse(text: &str, zone: &str) -> Result<Self, ScheduleError> {
        let zone = read_zone(zone)?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let said = || text.chars().take(TEXT_BYTES_MAX).collect::<String>();
        if text.len() > TEXT_BYTES_MAX {
            return Err(ScheduleError::Form { said: said() });
        }
        let kind = match words[..] {
            ["every", ref rest @ ..] => Kind::Every(read_every(&rest.join(""))?),
            ["at", ref rest @ ..] => Kind::At(read_at(&rest.join(" "))?),
            [name] => {
                let fields = named(name).ok_or_else(|| ScheduleError::Form { said: said() })?;
                Kind::Fields(Fields::parse(fields)?)
            }
            [minute, hour, day, month, weekday] => {
                Kind::Fields(Fields::parse([minute, hour, day, month, weekday])?)
            }
            [] => return Err(ScheduleError::Form { said: said() }),
            _ => {
                let count = words.len();
                return Err(ScheduleError::FieldCount {
                    said: said(),
                    count,
                });
            }
        };
        let text = words.join(" ");
        Ok(Self { text, zone, kind })
    }

    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Fires once and never again.
    pub fn is_once(&self) -> bool {
        matches!(self.kind, Kind::At(_))
    }

    /// The first firing after an instant, or `None` where there is none any more. `anchor` is what `every` counts from.
    pub fn next(&self, after: DateTime<Utc>, anchor: DateTime<Utc>) -> Option<DateTime<Utc>> {
        match &self.kind {
            Kind::Fields(fields) => firing::next(fields, &self.zone, after),
            Kind::At(local) => {
                Some(firing::once(*local, &self.zone)).filter(|instant| *instant > after)
            }
            Kind::Every(step) => {
                let passed = (after - anchor)
                    .num_seconds()
                    .div_euclid(step.num_seconds());
                let steps = i32::try_from((passed + 1).max(1)).ok()?;
                anchor.checked_add_signed(step.checked_mul(steps)?)
            }
        }
    }

    /// Its next firings, RFC 3339 with the offset of its zone; none where it has fired for the last time.
    pub fn shown(&self, after: DateTime<Utc>, anchor: DateTime<Utc>, count: usize) -> Vec<String> {
        let next = |last: &DateTime<Utc>| self.next(*last, anchor);
        let times = std::iter::successors(self.next(after, anchor), next);
        let in_zone = times.map(|time| time.with_timezone(&self.zone).to_rfc3339());
        in_zone.take(count).collect()
    }

    /// The next firings in the zone of the schedule, at most `count`; `every` counts from `after`.
    ///
    /// # Errors
    /// [`ScheduleError::Past`] where there is none.
    pub fn upcoming(
        &self,
        after: DateTime<Utc>,
        count: usize,
    ) -> Result<Vec<DateTime<Zone>>, ScheduleError> {
        let mut times = Vec::new();
        let mut last = after;
        while times.len() < count {
            let Some(next) = self.next(last, after) else {
                break;
            };
            times.push(next.with_timezone(&self.zone));
            last = next;
        }
        match times.is_empty() && count > 0 {
            true => Err(ScheduleError::Past {
                said: self.text.clone(),
            }),
            false => Ok(times),
        }
    }
}

/// The text as it was given, with single spaces.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Reads the IANA name of a zone.
///
/// # Errors
/// [`ScheduleError::Zone`].
pub fn read_zone(said: &str) -> Result<Zone, ScheduleError> {
    Zone::named(said).ok_or_else(|| ScheduleError::Zone {
        said: said.to_owned(),
    })
}

fn named(name: &str) -> Option<[&'static str; 5]> {
    match name {
        "@yearly" | "@annually" => Some(["0", "0", "1", "1", "*"]),
        "@monthly" => Some(["0", "0", "1", "*", "*"]),
        "@weekly" => Some(["0", "0", "*", "*", "0"]),
        "@daily" | "@midnight" => Some(["0", "0", "*", "*", "*"]),
        "@hourly" => Some(["0", "*", "*", "*", "*"]),
        _ => None,
    }
}

fn read_every(said: &str) -> Result<TimeDelta, ScheduleError> {
    let fail = || ScheduleError::Every {
        said: said.to_owned(),
    };
    let digits = said.trim_end_matches(|c: char| !c.is_ascii_digit());
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(fail());
    }
    let minutes_each = match &said[digits.len()..] {
        "m" | "min" => 1,
        "h" => 60,
        "d" => 24 * 60,
        _ => return Err(fail()),
    };
    let number: i64 = digits.parse().map_err(|_| fail())?;
    let minutes = number.checked_mul(minutes_each).ok_or_else(fail)?;
    match (1..=EVERY_MINUTES_MAX).contains(&minutes) {
        true => Ok(TimeDelta::minutes(minutes)),
        false => Err(fail()),
    }
}

fn read_at(said: &str) -> Result<NaiveDateTime, ScheduleError> {
    ["%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M"]
        .iter()
        .find_map(|form| NaiveDateTime::parse_from_str(said, form).ok())
        .filter(|time| (1970..=9_000).contains(&chrono::Datelike::year(time)))
        .ok_or_else(|| ScheduleError::At {
            said: said.to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Schedule::parse(text, "UTC").expect_err(text).to_string()
    }

    #[test]
    fn a_refusal_names_the_field_and_what_is_accepted() {
        for (text, field) in [
            ("61 * * * *", "minute:"),
            ("0 25 * * *", "hour:"),
            ("0 0 32 * *", "day of month:"),
            ("0 0 0 * *", "day of month:"),
            ("0 0 1 13 *", "month:"),
            ("0 0 1 jam *", "month:"),
            ("0 9 * * 8", "day of week:"),
            ("0 9 * * MONDAY", "day of week:"),
            ("*/0 * * * *", "minute:"),
            ("*/60 * * * *", "minute:"),
            ("5-1 * * * *", "minute:"),
            ("5/10 * * * *", "minute:"),
            ("1,,2 * * * *", "minute:"),
            ("+1 * * * *", "minute:"),
            ("99999999999999999999 * * * *", "minute:"),
            ("0 9 L * *", "day of month:"),
            ("0 9 15W * *", "day of month:"),
            ("0 9 ? * 1", "day of month:"),
            ("0 9 * * 1#2", "day of week:"),
            ("0 9 * * 5L", "day of week:"),
            ("0 0 31 2 *", "day of month:"),
            ("0 0 31 4,6,9,11 *", "day of month:"),
            ("0 0 9 * * 1", "6 fields"),
            ("* * * *", "4 fields"),
            ("cada unicornio", "2 fields"),
            ("", "schedule"),
            ("@reboot", "schedule"),
            ("every", "every:"),
            ("every 0m", "every:"),
            ("every 30s", "every:"),
            ("every m30m", "every:"),
            ("every 367d", "every:"),
            ("every 99999999999999999999d", "every:"),
            ("at noon", "at:"),
            ("at 2026-02-30 09:00", "at:"),
            ("at 2026-12-01 24:30", "at:"),
        ] {
            let said = refused(text);
            assert!(said.contains(field), "{text:?}: {said}");
            assert!(said.contains("accepted: "), "{text:?}: {said}");
        }
        let zone = Schedule::parse("0 9 * * 1", "Mars/Olympus").expect_err("no zone");
        assert!(
            zone.to_string().starts_with("zone: \"Mars/Olympus\""),
            "{zone}"
        );
    }

    #[test]
    fn every_counts_elapsed_time_from_its_anchor() {
        let anchor: DateTime<Utc> = "2026-11-01T05:10:20Z".parse().expect("a time");
        let schedule = Schedule::parse("every 30m", "America/New_York").expect("a schedule");
        let next = |after: &str| {
            let next = schedule.next(after.parse().expect("a time"), anchor);
            next.expect("one").to_rfc3339()
        };
        assert_eq!(next("2026-11-01T05:10:20Z"), "2026-11-01T05:40:20+00:00");
        assert_eq!(next("2026-11-01T05:40:19Z"), "2026-11-01T05:40:20+00:00");
        assert_eq!(next("2026-11-01T05:40:20Z"), "2026-11-01T06:10:20+00:00");
        assert_eq!(next("2020-01-01T00:00:00Z"), "2026-11-01T05:40:20+00:00");
    }

    #[test]
    fn at_fires_once() {
        let schedule = Schedule::parse("at 2026-12-01 09:00", "Europe/Madrid").expect("one");
        let times = schedule.upcoming("2026-11-30T00:00:00Z".parse().expect("a time"), 3);
        let times: Vec<_> = times
            .expect("one")
            .iter()
            .map(DateTime::to_rfc3339)
            .collect();
        assert_eq!(times, ["2026-12-01T09:00:00+01:00"]);
        let late = schedule.upcoming("2026-12-01T08:00:00Z".parse().expect("a time"), 3);
        assert!(matches!(late, Err(ScheduleError::Past { .. })));
    }
}
