//! Numbers and instants as headers write them.
//!
//! Nothing here fails: what cannot be read is `None`, and whoever asked goes on as if the header were not there.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::algorithm::MAX_SPAN_US;

/// Numbers below this are seconds from now; it is the year 2000 as seconds since 1970.
const FIRST_EPOCH_SECONDS: u64 = 946_684_800;

/// Numbers from this on are milliseconds since 1970.
const FIRST_EPOCH_MILLISECONDS: u64 = 100_000_000_000;

/// When something ends, as a header says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// So many microseconds from now.
    After(u64),
    /// At this instant, in microseconds since 1970, by the server's clock.
    At(u64),
}

/// A count: a decimal number that is not negative. `-1` and words are no counts.
pub(crate) fn count(text: &str) -> Option<f64> {
    let text = text.trim_matches([' ', '\t']);
    let (whole, fraction) = split(text)?;
    // More digits than a double holds are no count that anybody meant.
    (whole.len() + fraction.len() <= 15).then(|| text.parse().ok()).flatten()
}

/// The count at the beginning of a list such as `100, 100;w=60`.
pub(crate) fn first_count(text: &str) -> Option<f64> {
    count(text.split([',', ';']).next()?)
}

/// Decimal seconds as microseconds, rounded up; more than can be waited for is the longest wait there is.
pub(crate) fn seconds_us(text: &str) -> Option<u64> {
    scaled(text, 6)
}

/// Decimal milliseconds as microseconds, rounded up.
pub(crate) fn milliseconds_us(text: &str) -> Option<u64> {
    scaled(text, 3)
}

/// A reset in whatever form: seconds from now, seconds or milliseconds since 1970, an HTTP date, an ISO 8601 instant, a
/// duration such as `6m0s`. Small numbers are taken as seconds from now, since nobody's window ended before 2000.
pub(crate) fn moment(text: &str) -> Option<Moment> {
    let text = text.trim_matches([' ', '\t']);
    if let Some((whole, _)) = split(text) {
        let whole: u64 = (whole.len() <= 15).then(|| whole.parse().ok()).flatten()?;
        let moment = match whole {
            ..FIRST_EPOCH_SECONDS => Moment::After(seconds_us(text)?),
            FIRST_EPOCH_SECONDS..FIRST_EPOCH_MILLISECONDS => Moment::At(seconds_us_unbounded(text)?),
            FIRST_EPOCH_MILLISECONDS.. => Moment::At(milliseconds_us_unbounded(text)?),
        };
        return Some(moment).filter(|moment| !matches!(moment, Moment::At(us) if *us >= crate::clock::MAX_INSTANT_US));
    }
    instant_us(text).map(Moment::At).or_else(|| duration_us(text).map(Moment::After))
}

/// `Retry-After`: decimal seconds or an HTTP date. Some servers write decimals, though the standard does not have them.
pub(crate) fn retry_after(text: &str) -> Option<Moment> {
    seconds_us(text).map(Moment::After).or_else(|| http_date_us(text.trim_matches([' ', '\t'])).map(Moment::At))
}

/// A duration as Go and protobuf write it: `1s`, `6m0s`, `20ms`, `1h2m3.5s`; also `PT1M30S`.
pub(crate) fn duration_us(text: &str) -> Option<u64> {
    // A sign, or a word, is none of these forms, though the parser below knows some.
    if !text.starts_with(|first: char| first.is_ascii_digit() || first == 'P') {
        return None;
    }
    let duration: SignedDuration = text.parse().ok()?;
    let nanoseconds = u128::try_from(duration.as_nanos()).ok()?;
    Some(u64::try_from(nanoseconds.div_ceil(1_000)).map_or(MAX_SPAN_US, |us| us.min(MAX_SPAN_US)))
}

/// An HTTP date in any of its three forms, in microseconds since 1970.
pub(crate) fn http_date_us(text: &str) -> Option<u64> {
    let date = httpdate::parse_http_date(text).ok()?;
    let since_1970 = date.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(since_1970.as_micros()).ok().filter(|us| *us < crate::clock::MAX_INSTANT_US)
}

fn instant_us(text: &str) -> Option<u64> {
    if let Some(us) = http_date_us(text) {
        return Some(us);
    }
    // Four digits and a dash: anything else the parser might read was not meant as an instant.
    let bytes = text.as_bytes();
    if bytes.len() < 16 || !bytes[..4].iter().all(u8::is_ascii_digit) || bytes[4] != b'-' {
        return None;
    }
    let timestamp = text.parse::<Timestamp>().ok().or_else(|| {
        // Without an offset it is taken as UTC.
        TimeZone::UTC.to_timestamp(text.parse::<DateTime>().ok()?).ok()
    })?;
    u64::try_from(timestamp.as_microsecond()).ok().filter(|us| *us < crate::clock::MAX_INSTANT_US)
}

/// The digits before and after the point of a plain decimal number: no sign, no exponent, no lone point.
fn split(text: &str) -> Option<(&str, &str)> {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    match text.split_once('.') {
        None => digits(text).then_some((text, "")),
        Some((whole, fraction)) => (digits(whole) && digits(fraction)).then_some((whole, fraction)),
    }
}

fn scaled(text: &str, places: usize) -> Option<u64> {
    let (whole, fraction) = split(text.trim_matches([' ', '\t']))?;
    Some(shifted(whole, fraction, places).unwrap_or(MAX_SPAN_US).min(MAX_SPAN_US))
}

fn seconds_us_unbounded(text: &str) -> Option<u64> {
    split(text).and_then(|(whole, fraction)| shifted(whole, fraction, 6))
}

fn milliseconds_us_unbounded(text: &str) -> Option<u64> {
    split(text).and_then(|(whole, fraction)| shifted(whole, fraction, 3))
}

/// The number with its point moved to the right, rounded up; `None` where that is too large.
fn shifted(whole: &str, fraction: &str, places: usize) -> Option<u64> {
    let kept = &fraction[..fraction.len().min(places)];
    let dropped = fraction[kept.len()..].bytes().any(|digit| digit != b'0');
    let mut number: u64 = whole.parse().ok()?;
    for place in 0..places {
        let digit = kept.as_bytes().get(place).map_or(0, |digit| u64::from(digit - b'0'));
        number = number.checked_mul(10)?.checked_add(digit)?;
    }
    number.checked_add(u64::from(dropped))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 1_700_000_030_000_000;

    #[test]
    fn a_reset_is_read_in_every_form_it_comes_in() {
        for (text, expected) in [
            ("42", Some(Moment::After(42_000_000))),
            ("30.5", Some(Moment::After(30_500_000))),
            ("0.0000001", Some(Moment::After(1))),
            ("946684799", Some(Moment::After(946_684_799_000_000))),
            ("946684800", Some(Moment::At(946_684_800_000_000))),
            ("1700000030", Some(Moment::At(AT))),
            ("1700000030.250", Some(Moment::At(AT + 250_000))),
            ("1700000030000", Some(Moment::At(AT))),
            ("2023-11-14T22:13:50Z", Some(Moment::At(AT))),
            ("2023-11-14T22:13:50.000Z", Some(Moment::At(AT))),
            ("2023-11-14T23:13:50+01:00", Some(Moment::At(AT))),
            ("2023-11-14T22:13Z", Some(Moment::At(AT - 50_000_000))),
            ("2023-11-14 22:13:50", Some(Moment::At(AT))),
            ("Tue, 14 Nov 2023 22:13:50 GMT", Some(Moment::At(AT))),
            ("Tuesday, 14-Nov-23 22:13:50 GMT", Some(Moment::At(AT))),
            ("Tue Nov 14 22:13:50 2023", Some(Moment::At(AT))),
            ("500ms", Some(Moment::After(500_000))),
            ("6ms", Some(Moment::After(6_000))),
            ("6m0s", Some(Moment::After(360_000_000))),
            ("1m12.5s", Some(Moment::After(72_500_000))),
            ("1h2m3.5s", Some(Moment::After(3_723_500_000))),
            ("PT1M30S", Some(Moment::After(90_000_000))),
        ] {
            assert_eq!(moment(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_reset_is_none() {
        for text in [
            "",
            " ",
            "soon",
            "-5",
            "-1",
            "+5",
            "+1 week",
            "1 week ago",
            "NaN",
            "Infinity",
            "1e3",
            "12abc",
            ".5",
            "5.",
            "0x10",
            "99999999999999999999",
            "9999999999999999",
            "2023-11",
            "Tue Feb 16 2021 09:02:42 GMT+0100 (Central European Standard Time)",
        ] {
            assert_eq!(moment(text), None, "{text}");
        }
    }

    #[test]
    fn a_retry_after_is_seconds_or_a_date() {
        assert_eq!(retry_after("0.35"), Some(Moment::After(350_000)));
        assert_eq!(retry_after("99999999999999999999"), Some(Moment::After(MAX_SPAN_US)));
        assert_eq!(retry_after("Tue, 14 Nov 2023 22:13:50 GMT"), Some(Moment::At(AT)));
        for text in ["-1", "-5", "12abc", "tomorrow", "1e3", "", "5, 5"] {
            assert_eq!(retry_after(text), None, "{text}");
        }
    }

    #[test]
    fn a_count_is_not_negative_and_plain() {
        assert_eq!((count(" 995.0 "), count("40"), first_count("10, 10;w=1")), (Some(995.0), Some(40.0), Some(10.0)));
        for text in ["-1", "", "abc", "1e9", "NaN", "inf", "9999999999999999"] {
            assert_eq!(count(text), None, "{text}");
        }
    }
}
