//! What comes next, across changes of the clock.
//!
//! With a fixed hour the clock on the wall counts: a time that is skipped fires once, right after the change; one that
//! comes twice fires the first time. With a wildcard hour (`*`, `*/6`) elapsed time counts: what is skipped is skipped,
//! what comes twice fires twice.

use super::fields::Fields;
use super::zone::Zone;
use chrono::{DateTime, LocalResult, NaiveDateTime, Offset, TimeDelta, TimeZone, Utc};

/// The furthest that clocks are set back today, with room. Only a schedule with a wildcard hour looks back that far.
const SET_BACK_MAX: TimeDelta = TimeDelta::hours(3);
/// No zone is further from UTC.
const OFFSET_MAX: TimeDelta = TimeDelta::hours(26);

pub(super) fn next(fields: &Fields, zone: &Zone, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let mut from = local(zone, after);
    if fields.any_hour {
        // Times that are past on the wall come again where the clock is about to be set back.
        from = from.min(local(zone, after + SET_BACK_MAX) - SET_BACK_MAX);
    }
    let mut best: Option<DateTime<Utc>> = None;
    loop {
        let Some(time) = fields.first_from(from) else {
            return best;
        };
        let (first, second) = instants(zone, time, fields.any_hour);
        let to_come = [first, second].into_iter().flatten();
        best = to_come.filter(|instant| *instant > after).chain(best).min();
        // A later time on the wall comes no earlier.
        if first.is_some_and(|first| first > after) {
            return best;
        }
        from = time + TimeDelta::minutes(1);
    }
}

/// When a time on the wall comes; where it is skipped, the moment after the change.
pub(super) fn once(time: NaiveDateTime, zone: &Zone) -> DateTime<Utc> {
    match zone.from_local_datetime(&time) {
        LocalResult::Single(instant) | LocalResult::Ambiguous(instant, _) => {
            instant.with_timezone(&Utc)
        }
        LocalResult::None => after_gap(time, zone),
    }
}

fn instants(
    zone: &Zone,
    time: NaiveDateTime,
    elapsed: bool,
) -> (Option<DateTime<Utc>>, Option<DateTime<Utc>>) {
    if !elapsed {
        return (Some(once(time, zone)), None);
    }
    match zone.from_local_datetime(&time) {
        LocalResult::Single(instant) => (Some(instant.with_timezone(&Utc)), None),
        LocalResult::Ambiguous(first, second) => (
            Some(first.with_timezone(&Utc)),
            Some(second.with_timezone(&Utc)),
        ),
        LocalResult::None => (None, None),
    }
}

/// The first second at which the clock shows more than a time that it skips.
fn after_gap(time: NaiveDateTime, zone: &Zone) -> DateTime<Utc> {
    let mut before = (time - OFFSET_MAX).and_utc().timestamp();
    let mut after = (time + OFFSET_MAX).and_utc().timestamp();
    while after - before > 1 {
        let middle = before + (after - before) / 2;
        match local(zone, at(middle)) > time {
            true => after = middle,
            false => before = middle,
        }
    }
    at(after)
}

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

fn local(zone: &Zone, instant: DateTime<Utc>) -> NaiveDateTime {
    let utc = instant.naive_utc();
    utc + zone.offset_from_utc_datetime(&utc).fix()
}
