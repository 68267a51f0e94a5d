//! A time zone for chrono, with jiff's tables behind it. Computes offsets only.
//!
//! chrono-tz holds its tables as pointers, which the loader writes into memory at every start: 2.4 MB of it. jiff's are
//! one text that is read where a zone is used.

use chrono::{
    Datelike, FixedOffset, MappedLocalTime, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeZone,
    Timelike, Utc,
};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{self, AmbiguousOffset};
use std::fmt;

/// A zone of the IANA database, as of the version that is compiled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(tz::TimeZone);

/// What a zone's clock is ahead of UTC at some time.
#[derive(Clone)]
pub struct ZoneOffset {
    zone: Zone,
    ahead: FixedOffset,
}

impl Zone {
    /// The zone of this name, in any case; `None` where there is none.
    pub fn named(name: &str) -> Option<Self> {
        tz::TimeZone::get(name).ok().map(Self)
    }

    /// The name as the database writes it.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    fn ahead(&self, offset: tz::Offset) -> ZoneOffset {
        // No zone of the database comes near the 24 hours that chrono can hold.
        let ahead = FixedOffset::east_opt(offset.seconds()).unwrap_or(Utc.fix());
        let zone = self.clone();
        ZoneOffset { zone, ahead }
    }
}

impl TimeZone for Zone {
    type Offset = ZoneOffset;

    fn from_offset(offset: &ZoneOffset) -> Self {
        offset.zone.clone()
    }

    fn offset_from_local_date(&self, day: &NaiveDate) -> MappedLocalTime<ZoneOffset> {
        self.offset_from_local_datetime(&day.and_time(NaiveTime::MIN))
    }

    fn offset_from_local_datetime(&self, time: &NaiveDateTime) -> MappedLocalTime<ZoneOffset> {
        match self.0.to_ambiguous_timestamp(civil(time)).offset() {
            AmbiguousOffset::Unambiguous { offset } => MappedLocalTime::Single(self.ahead(offset)),
            AmbiguousOffset::Gap { .. } => MappedLocalTime::None,
            AmbiguousOffset::Fold { before, after } => {
                MappedLocalTime::Ambiguous(self.ahead(before), self.ahead(after))
            }
        }
    }

    fn offset_from_utc_date(&self, day: &NaiveDate) -> ZoneOffset {
        self.offset_from_utc_datetime(&day.and_time(NaiveTime::MIN))
    }

    fn offset_from_utc_datetime(&self, time: &NaiveDateTime) -> ZoneOffset {
        let seconds = time.and_utc().timestamp();
        let bounds = Timestamp::MIN.as_second()..=Timestamp::MAX.as_second();
        let clamped = seconds.clamp(*bounds.start(), *bounds.end());
        let instant = Timestamp::from_second(clamped).unwrap_or(Timestamp::UNIX_EPOCH);
        self.ahead(self.0.to_offset(instant))
    }
}

/// Within the years that jiff knows, -9999 to 9999.
fn civil(time: &NaiveDateTime) -> DateTime {
    let field = |value: u32| i8::try_from(value).unwrap_or(i8::MAX);
    let year = i16::try_from(time.year()).unwrap_or(i16::MAX);
    let (month, day) = (field(time.month()), field(time.day()));
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    let read = DateTime::new(
        year,
        month,
        day,
        field(hour),
        field(minute),
        field(second),
        0,
    );
    read.unwrap_or(if year < 0 {
        DateTime::MIN
    } else {
        DateTime::MAX
    })
}

impl Offset for ZoneOffset {
    fn fix(&self) -> FixedOffset {
        self.ahead
    }
}

impl fmt::Debug for ZoneOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.ahead, f)
    }
}

impl fmt::Display for ZoneOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.ahead, f)
    }
}
