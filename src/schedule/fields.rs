//! The five fields of a cron expression, with the meaning that POSIX gives them, names and steps besides.

use super::ScheduleError;
use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike};

/// Years that are looked at for a firing: 29 February can be eight years away.
const YEARS_MAX: i32 = 12;

/// Which minutes, hours and days are meant, one bit each.
#[derive(Debug, Clone)]
pub(super) struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    /// 0 is Sunday.
    weekdays: u64,
    /// The field allows every day, so that it says nothing beside the other one.
    any_day: bool,
    any_weekday: bool,
    /// The hour begins with `*`: elapsed time counts, and not the clock on the wall.
    pub(super) any_hour: bool,
}

struct Field {
    name: &'static str,
    min: u64,
    max: u64,
    names: &'static [&'static str],
    accepted: &'static str,
}

const MINUTE: Field = Field {
    name: "minute",
    min: 0,
    max: 59,
    names: &[],
    accepted: "0-59, *, lists such as 0,30, ranges such as 10-20, steps such as */15 or 10-50/5",
};
const HOUR: Field = Field {
    name: "hour",
    min: 0,
    max: 23,
    names: &[],
    accepted: "0-23, *, lists such as 9,18, ranges such as 9-17, steps such as */6 or 8-18/2",
};
const DAY: Field = Field {
    name: "day of month",
    min: 1,
    max: 31,
    names: &[],
    accepted: "1-31, *, lists such as 1,15, ranges such as 1-7, steps such as */2 or 1-15/7",
};
const MONTH: Field = Field {
    name: "month",
    min: 1,
    max: 12,
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
    accepted: "1-12 or jan-dec, *, lists such as jan,jul, ranges such as 3-6, steps such as */3",
};
const WEEKDAY: Field = Field {
    name: "day of week",
    min: 0,
    max: 7,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    accepted: "0-7 or sun-sat (0 and 7 are Sunday), *, lists such as mon,thu, ranges such as 1-5, steps such as */2",
};

impl Fields {
    pub(super) fn parse(
        [minute, hour, day, month, weekday]: [&str; 5],
    ) -> Result<Self, ScheduleError> {
        let weekdays = WEEKDAY.read(weekday)?;
        let fields = Self {
            minutes: MINUTE.read(minute)?,
            hours: HOUR.read(hour)?,
            days: DAY.read(day)?,
            months: MONTH.read(month)?,
            weekdays: (weekdays | weekdays >> 7) & 0x7f,
            any_day: is_any(day),
            any_weekday: is_any(weekday),
            any_hour: hour.starts_with('*'),
        };
        let comes = (1..=12).any(|month| {
            fields.allows_month(month) && (1..=longest(month)).any(|day| has(fields.days, day))
        });
        match comes || !fields.any_weekday {
            true => Ok(fields),
            false => Err(ScheduleError::Never {
                said: day.to_owned(),
                months: month.to_owned(),
            }),
        }
    }

    /// The first time on the clock, from `from` on, that fits.
    pub(super) fn first_from(&self, from: NaiveDateTime) -> Option<NaiveDateTime> {
        let last_year = from.year() + YEARS_MAX;
        let mut date = from.date();
        let mut earliest = from.time();
        while date.year() <= last_year {
            if !self.allows_month(date.month()) {
                date = first_of_next_month(date)?;
                earliest = NaiveTime::MIN;
                continue;
            }
            if self.allows_day(date)
                && let Some(time) = self.first_time(earliest)
            {
                return Some(date.and_time(time));
            }
            date = date.succ_opt()?;
            earliest = NaiveTime::MIN;
        }
        None
    }

    fn first_time(&self, from: NaiveTime) -> Option<NaiveTime> {
        // Seconds count up: a time that has begun is past.
        let begun = u32::from(from.second() > 0 || from.nanosecond() > 0);
        let first = from.hour() * 60 + from.minute() + begun;
        (first / 60..24)
            .filter(|hour| has(self.hours, *hour))
            .find_map(|hour| {
                let from = if hour * 60 < first { first % 60 } else { 0 };
                let minute = (from..60).find(|minute| has(self.minutes, *minute))?;
                NaiveTime::from_hms_opt(hour, minute, 0)
            })
    }

    fn allows_month(&self, month: u32) -> bool {
        has(self.months, month)
    }

    /// POSIX: where both days are set, either will do.
    fn allows_day(&self, date: NaiveDate) -> bool {
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().num_days_from_sunday());
        match (self.any_day, self.any_weekday) {
            (false, false) => day || weekday,
            _ => day && weekday,
        }
    }
}

impl Field {
    fn read(&self, said: &str) -> Result<u64, ScheduleError> {
        said.split(',')
            .try_fold(0, |bits, part| Ok(bits | self.read_part(part)?))
    }

    fn read_part(&self, part: &str) -> Result<u64, ScheduleError> {
        let (span, step) = match part.split_once('/') {
            Some((span, step)) => (span, Some(step)),
            None => (part, None),
        };
        let (first, last) = match span.split_once('-') {
            _ if span == "*" => (self.min, self.max),
            Some((first, last)) => (self.number(first, part)?, self.end(last, part)?),
            None if step.is_some() => {
                return Err(self.wrong(part, "has a step without a range"));
            }
            None => {
                let only = self.number(span, part)?;
                (only, only)
            }
        };
        if first > last {
            return Err(self.wrong(part, "is a range that runs backwards"));
        }
        let step = match step {
            None => 1,
            Some(step) => match step.parse::<u64>() {
                Ok(step) if step_fits(step, self.max) && digits_only(part, '/') => step,
                _ => return Err(self.wrong(part, "has a step that is out of range")),
            },
        };
        // Day 7 is Sunday again: a star must not count it twice over.
        let last = match (span, self.max) {
            ("*", 7) => 6,
            _ => last,
        };
        Ok((first..=last)
            .step_by(usize::try_from(step).unwrap_or(usize::MAX))
            .fold(0, |bits, number| bits | 1 << number))
    }

    /// The end of a range: `fri-sun` ends with the Sunday after.
    fn end(&self, said: &str, part: &str) -> Result<u64, ScheduleError> {
        match said.eq_ignore_ascii_case("sun") && self.max == 7 {
            true => Ok(7),
            false => self.number(said, part),
        }
    }

    fn number(&self, said: &str, part: &str) -> Result<u64, ScheduleError> {
        let name = self
            .names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(said));
        if let Some(at) = name {
            return Ok(at as u64 + self.min);
        }
        if said.is_empty() || !said.bytes().all(|b| b.is_ascii_digit()) {
            return Err(self.wrong(part, "is not understood"));
        }
        match said.parse() {
            Ok(number) if (self.min..=self.max).contains(&number) => Ok(number),
            _ => Err(self.wrong(part, "is out of range")),
        }
    }

    fn wrong(&self, said: &str, wrong: &'static str) -> ScheduleError {
        ScheduleError::Field {
            field: self.name,
            said: said.to_owned(),
            wrong,
            accepted: self.accepted,
        }
    }
}

fn step_fits(step: u64, max: u64) -> bool {
    (1..=max).contains(&step)
}

/// `u64::parse` takes a sign; a field does not.
fn digits_only(part: &str, after: char) -> bool {
    part.rsplit(after)
        .next()
        .is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
}

fn is_any(said: &str) -> bool {
    said == "*" || said == "*/1"
}

fn has(bits: u64, number: u32) -> bool {
    bits >> number & 1 == 1
}

fn longest(month: u32) -> u32 {
    match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn first_of_next_month(date: NaiveDate) -> Option<NaiveDate> {
    let first = date.with_day(1)?;
    (first + TimeDelta::days(31)).with_day(1)
}
