//! Days, weeks and months of a time zone, as windows.

use std::fmt;

use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, ZonedDateTime};

use crate::error::{Error, Result};

const HOUR_US: u64 = 3_600_000_000;

/// Windows that follow a calendar.
#[derive(Debug, Clone, PartialEq)]
pub struct Calendar {
    unit: CalendarUnit,
    zone: TimeZone,
}

/// What a window of a calendar is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalendarUnit {
    /// From midnight to midnight; with a change of the clocks 23 or 25 hours.
    Day,
    /// From Monday to Monday.
    Week,
    /// From the first to the first.
    Month,
}

impl Calendar {
    /// The windows of `unit` in a time zone of the IANA database, such as `Europe/Berlin` or `UTC`.
    ///
    /// Fails with [`InvalidPolicy`](crate::ErrorKind::InvalidPolicy) when there is no such zone.
    pub fn new(unit: CalendarUnit, zone: &str) -> Result<Self> {
        let zone = TimeZone::get(zone)
            .map_err(|_| Error::policy("zone", format!("must be a time zone such as Europe/Berlin, got {zone:?}")))?;
        Ok(Self { unit, zone })
    }

    /// What a window is.
    pub const fn unit(&self) -> CalendarUnit {
        self.unit
    }

    /// The name of the time zone.
    pub fn zone(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// How long a window usually is.
    pub(crate) fn usual_length_us(&self) -> u64 {
        match self.unit {
            CalendarUnit::Day => 24 * HOUR_US,
            CalendarUnit::Week => 7 * 24 * HOUR_US,
            CalendarUnit::Month => 30 * 24 * HOUR_US,
        }
    }

    /// The window in which an instant lies: its beginning, and the beginning of the next.
    pub(crate) fn window(&self, now_us: u64) -> Result<(u64, u64)> {
        let bounds = || {
            let now = Timestamp::from_microsecond(now_us.cast_signed())?.to_zoned_datetime(self.zone.clone());
            let day = now.start_of_day()?;
            let (start, next) = match self.unit {
                CalendarUnit::Day => (day.clone(), day.checked_add(1.day())?),
                CalendarUnit::Week => {
                    let since_monday = i64::from(now.weekday().since(Weekday::Monday));
                    let monday = day.checked_sub(since_monday.days())?;
                    (monday.clone(), monday.checked_add(1.week())?)
                }
                CalendarUnit::Month => {
                    let first = day.first_of_month()?;
                    (first.clone(), first.checked_add(1.month())?)
                }
            };
            Ok::<_, jiff::Error>((start.start_of_day()?, next.start_of_day()?))
        };
        let us = |instant: &ZonedDateTime| u64::try_from(instant.timestamp().as_microsecond()).unwrap_or(0);
        let (start, end) =
            bounds().map_err(|error| Error::internal(format!("the calendar fails at {now_us}: {error}")))?;
        Ok((us(&start), us(&end)))
    }
}

impl fmt::Display for CalendarUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(unit: CalendarUnit, zone: &str, at: &str) -> (String, u64) {
        let now: Timestamp = at.parse().expect("an instant");
        let calendar = Calendar::new(unit, zone).expect("a zone");
        let (start, end) = calendar.window(now.as_microsecond().unsigned_abs()).expect("a window");
        (Timestamp::from_microsecond(start.cast_signed()).expect("an instant").to_string(), (end - start) / HOUR_US)
    }

    #[test]
    fn a_day_is_as_long_as_the_clocks_make_it() {
        let berlin = |at| window(CalendarUnit::Day, "Europe/Berlin", at);
        assert_eq!(berlin("2026-11-30T22:59:59Z"), ("2026-11-29T23:00:00Z".into(), 24));
        assert_eq!(berlin("2026-11-30T23:00:00Z"), ("2026-11-30T23:00:00Z".into(), 24));
        assert_eq!(berlin("2026-03-29T12:00:00Z"), ("2026-03-28T23:00:00Z".into(), 23));
        assert_eq!(berlin("2026-10-25T12:00:00Z"), ("2026-10-24T22:00:00Z".into(), 25));
    }

    #[test]
    fn a_week_begins_on_monday_and_a_month_on_the_first() {
        assert_eq!(window(CalendarUnit::Week, "UTC", "2026-11-29T12:00:00Z"), ("2026-11-23T00:00:00Z".into(), 168));
        assert_eq!(window(CalendarUnit::Week, "UTC", "2026-11-30T00:00:00Z"), ("2026-11-30T00:00:00Z".into(), 168));
        assert_eq!(
            window(CalendarUnit::Month, "UTC", "2028-02-29T12:00:00Z"),
            ("2028-02-01T00:00:00Z".into(), 29 * 24)
        );
    }

    #[test]
    fn a_zone_that_is_none_is_named() {
        let error = Calendar::new(CalendarUnit::Day, "Mars/Olympus").expect_err("no such zone");
        assert_eq!(error.to_string(), "zone must be a time zone such as Europe/Berlin, got \"Mars/Olympus\"");
    }
}
