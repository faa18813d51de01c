//! Policies as texts: `100/m`, `10/s burst 20`, `1000/day aligned Europe/Berlin`.

use std::fmt;
use std::str::FromStr;

use super::{Algorithm, Policy};
use crate::algorithm::calendar::{Calendar, CalendarUnit};
use crate::algorithm::fixed_window::Placing;
use crate::clock::us_to_seconds;
use crate::error::{Error, Result};

impl Policy {
    /// Reads a policy from a text.
    ///
    /// ```text
    /// policy  = [ count "burst" "," ] rate { word }
    /// rate    = number ( "/" | "per" ) [ number ] unit
    /// unit    = us | ms | s | m | h | d | w, or the word for it, in singular or plural; month after `aligned` only
    /// ```
    ///
    /// | text | policy |
    /// |---|---|
    /// | `100/m`, `5 per 10 minutes` | fixed window, opened by the first hit |
    /// | `100/h aligned` | fixed window at multiples of an hour |
    /// | `1000/day aligned Europe/Berlin` | fixed window: the days (`week`, `month`) of a time zone |
    /// | `100/h sliding` | sliding window counter |
    /// | `100/h log` | sliding window log |
    /// | `10/s burst 20`, `10/s gcra` | GCRA, 20 (10) at once |
    /// | `20 burst, 5/s` | token bucket of 20 tokens, 5 arriving at the end of each second |
    /// | `20 burst, 5/s continuous` | token bucket, the tokens arriving all the time |
    /// | `10 burst, 2/s leaky` | leaky bucket of 10 units, leaking 2 per second |
    ///
    /// `Display` gives back a text that reads as the same policy; the name is no part of it. Fails with
    /// [`InvalidPolicy`](crate::ErrorKind::InvalidPolicy), pointing at the place.
    pub fn parse(text: &str) -> Result<Self> {
        Parser { text, rest: text }.policy()
    }
}

impl FromStr for Policy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.algorithm() {
            Algorithm::TokenBucket(it) => {
                let (rate, interval) = (it.refill_rate(), it.refill_interval());
                let how = if it.continuous() { " continuous" } else { "" };
                write!(f, "{} burst, {rate}/{interval}s{how}", it.capacity())
            }
            Algorithm::LeakyBucket(it) => write!(f, "{} burst, {}/1s leaky", it.capacity(), it.leak_rate()),
            Algorithm::Gcra(it) => write!(f, "{}/{}s burst {}", it.limit(), it.period(), it.burst()),
            Algorithm::FixedWindow(it) => match it.placing() {
                Placing::FirstHit => write!(f, "{}/{}s", it.limit(), us_to_seconds(it.window_us())),
                Placing::Aligned => write!(f, "{}/{}s aligned", it.limit(), us_to_seconds(it.window_us())),
                Placing::Calendar(calendar) => {
                    write!(f, "{}/{} aligned {}", it.limit(), calendar.unit(), calendar.zone())
                }
            },
            Algorithm::SlidingWindowLog(it) => write!(f, "{}/{}s log", it.limit(), us_to_seconds(it.window_us())),
            Algorithm::Learnt(_) => f.write_str("learnt"),
            Algorithm::Leased(_) => f.write_str("leased"),
            Algorithm::SlidingWindowCounter(it) => {
                write!(f, "{}/{}s sliding", it.limit(), us_to_seconds(it.window_us()))
            }
        }
    }
}

/// A span as written: how many of which unit.
#[derive(Debug, Clone, Copy)]
struct Span {
    count: f64,
    unit: &'static Unit,
}

#[derive(Debug)]
struct Unit {
    names: &'static [&'static str],
    seconds: f64,
    calendar: Option<CalendarUnit>,
}

const UNITS: [Unit; 8] = [
    Unit { names: &["us", "microsecond", "microseconds"], seconds: 1e-6, calendar: None },
    Unit { names: &["ms", "millisecond", "milliseconds"], seconds: 1e-3, calendar: None },
    Unit { names: &["s", "sec", "second", "seconds"], seconds: 1.0, calendar: None },
    Unit { names: &["m", "min", "minute", "minutes"], seconds: 60.0, calendar: None },
    Unit { names: &["h", "hour", "hours"], seconds: 3_600.0, calendar: None },
    Unit { names: &["d", "day", "days"], seconds: 86_400.0, calendar: Some(CalendarUnit::Day) },
    Unit { names: &["w", "week", "weeks"], seconds: 604_800.0, calendar: Some(CalendarUnit::Week) },
    Unit { names: &["month", "months"], seconds: f64::NAN, calendar: Some(CalendarUnit::Month) },
];

impl Span {
    fn seconds(self) -> f64 {
        // Decimal fractions of a unit that is one itself: 250 ms is a quarter, not 250 times almost a thousandth.
        if self.unit.seconds < 1.0 {
            self.count / (1.0 / self.unit.seconds).round()
        } else {
            self.count * self.unit.seconds
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn policy(mut self) -> Result<Policy> {
        let first = self.number("a number of units")?;
        if self.word_is("burst") {
            let capacity = self.count(first, "the burst")?;
            if !self.symbol(",") {
                return Err(self.wrong("a comma after the burst"));
            }
            let amount = self.number("a number of units")?;
            let span = self.span()?;
            return self.bucket(capacity, amount, span);
        }
        let limit = self.count(first, "the limit")?;
        let span = self.span()?;
        self.window(limit, span)
    }

    /// What follows `20 burst, 5/s`.
    fn bucket(mut self, capacity: i64, amount: f64, span: Span) -> Result<Policy> {
        self.no_month(span)?;
        let policy = if self.word_is("leaky") {
            Policy::leaky_bucket(capacity, amount / span.seconds())
        } else if self.word_is("continuous") {
            Policy::token_bucket_continuous(capacity, amount, span.seconds())
        } else {
            Policy::token_bucket(capacity, amount, span.seconds())
        };
        self.end("leaky, continuous or the end")?;
        policy
    }

    /// What follows `100/m`.
    fn window(mut self, limit: i64, span: Span) -> Result<Policy> {
        if self.word_is("aligned") {
            if !self.rest.trim_start().is_empty() {
                return self.calendar(limit, span);
            }
            self.no_month(span)?;
            return Policy::fixed_window_aligned(limit, span.seconds());
        }
        self.no_month(span)?;
        let policy = if self.word_is("sliding") {
            Policy::sliding_window_counter(limit, span.seconds())
        } else if self.word_is("log") {
            Policy::sliding_window_log(limit, span.seconds())
        } else if self.word_is("gcra") {
            Policy::gcra(limit, span.seconds(), None)
        } else if self.word_is("burst") {
            let burst = self.number("a burst")?;
            let burst = self.count(burst, "the burst")?;
            Policy::gcra(limit, span.seconds(), Some(burst))
        } else {
            Policy::fixed_window(limit, span.seconds())
        };
        self.end("sliding, log, gcra, burst, aligned or the end")?;
        policy
    }

    /// What follows `1000/day aligned `.
    #[allow(clippy::float_cmp)]
    fn calendar(self, limit: i64, span: Span) -> Result<Policy> {
        match span.unit.calendar {
            Some(unit) if span.count == 1.0 => {
                Policy::fixed_window_calendar(limit, Calendar::new(unit, self.rest.trim())?)
            }
            _ => Err(self.wrong("nothing after aligned, since only one day, week or month has a time zone")),
        }
    }

    fn no_month(&self, span: Span) -> Result<()> {
        if span.unit.seconds.is_nan() {
            return Err(self.wrong("aligned and a time zone, since months differ in length"));
        }
        Ok(())
    }

    fn span(&mut self) -> Result<Span> {
        if !self.symbol("/") && !self.word_is("per") {
            return Err(self.wrong("/ or per"));
        }
        self.rest = self.rest.trim_start();
        let count = if self.rest.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            self.number("a number")?
        } else {
            1.0
        };
        let before = self.rest;
        let word = self.word();
        if let Some(unit) = UNITS.iter().find(|unit| unit.names.iter().any(|name| name.eq_ignore_ascii_case(word))) {
            Ok(Span { count, unit })
        } else {
            self.rest = before;
            Err(self.wrong("a unit of time: us, ms, s, m, h, d, w or month"))
        }
    }

    fn number(&mut self, what: &str) -> Result<f64> {
        self.rest = self.rest.trim_start();
        let length = self.rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(length);
        match digits.replace('_', "").parse() {
            Ok(number) => {
                self.rest = rest;
                Ok(number)
            }
            Err(_) => Err(self.wrong(what)),
        }
    }

    /// A number of units as a whole number; the policy says whether it is in range.
    #[allow(clippy::cast_possible_truncation)]
    fn count(&self, number: f64, what: &str) -> Result<i64> {
        if number.fract() == 0.0 && number < 1e15 {
            return Ok(number as i64);
        }
        Err(Error::policy("text", format!("{:?} says {number} for {what}, which must be a whole number", self.text)))
    }

    fn word(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        let length = self.rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(length);
        self.rest = rest;
        word
    }

    /// Takes the next word if it is this one.
    fn word_is(&mut self, wanted: &str) -> bool {
        let before = self.rest;
        let found = self.word().eq_ignore_ascii_case(wanted);
        if !found {
            self.rest = before;
        }
        found
    }

    fn symbol(&mut self, wanted: &str) -> bool {
        match self.rest.trim_start().strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn end(&mut self, wanted: &str) -> Result<()> {
        if self.rest.trim_start().is_empty() { Ok(()) } else { Err(self.wrong(wanted)) }
    }

    fn wrong(&self, wanted: &str) -> Error {
        let rest = self.rest.trim_start();
        let place = self.text.len() - rest.len() + 1;
        let found = if rest.is_empty() { "the end".to_owned() } else { format!("{rest:?}") };
        let text: String = self.text.chars().take(60).collect();
        Error::policy("text", format!("{text:?} needs {wanted} at character {place}, where there is {found}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Policy {
        Policy::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn each_form_gives_its_policy() {
        let cases = [
            ("100/m", Policy::fixed_window(100, 60.0)),
            ("5 per 10 minutes", Policy::fixed_window(5, 600.0)),
            ("5 PER 10 Minutes", Policy::fixed_window(5, 600.0)),
            (" 1_000 / 0.75s ", Policy::fixed_window(1000, 0.75)),
            ("3/250ms", Policy::fixed_window(3, 0.25)),
            ("100/h aligned", Policy::fixed_window_aligned(100, 3600.0)),
            ("100/h sliding", Policy::sliding_window_counter(100, 3600.0)),
            ("100 per hour log", Policy::sliding_window_log(100, 3600.0)),
            ("10/s burst 20", Policy::gcra(10, 1.0, Some(20))),
            ("10/s gcra", Policy::gcra(10, 1.0, None)),
            ("20 burst, 5/s", Policy::token_bucket(20, 5.0, 1.0)),
            ("20 burst, 0.5/10s continuous", Policy::token_bucket_continuous(20, 0.5, 10.0)),
            ("10 burst, 120/m leaky", Policy::leaky_bucket(10, 2.0)),
        ];
        for (text, policy) in cases {
            assert_eq!(parse(text), policy.expect(text), "{text}");
        }
        for unit in ["day", "week", "month"] {
            let policy = parse(&format!("1000/{unit} aligned Europe/Berlin"));
            assert_eq!(policy.to_string(), format!("1000/{unit} aligned Europe/Berlin"));
            assert_eq!(parse(&policy.to_string()), policy);
        }
    }

    #[test]
    fn a_fault_is_pointed_at() {
        let cases = [
            ("", "needs a number of units at character 1, where there is the end"),
            ("ten/s", "needs a number of units at character 1, where there is \"ten/s\""),
            ("10", "needs / or per at character 3, where there is the end"),
            ("10/fortnight", "needs a unit of time: us, ms, s, m, h, d, w or month at character 4"),
            ("10/s quickly", "needs sliding, log, gcra, burst, aligned or the end at character 6"),
            ("10/s burst", "needs a burst at character 11, where there is the end"),
            ("20 burst 5/s", "needs a comma after the burst at character 10"),
            ("10/month", "needs aligned and a time zone, since months differ in length"),
            ("10/2 days aligned UTC", "needs nothing after aligned"),
            ("1.5/s", "says 1.5 for the limit, which must be a whole number"),
            ("-1/s", "needs a number of units at character 1, where there is \"-1/s\""),
            ("10/s 🦀", "needs sliding, log, gcra, burst, aligned or the end at character 6"),
        ];
        for (text, sentence) in cases {
            let error = Policy::parse(text).expect_err(text).to_string();
            assert!(error.contains(sentence), "{error}");
        }
        assert_eq!(Policy::parse("0/s").expect_err("none").argument(), Some("limit"));
        assert_eq!(Policy::parse("1/0s").expect_err("none").argument(), Some("window"));
        assert_eq!(Policy::parse("1/day aligned Mars/Base").expect_err("none").argument(), Some("zone"));
    }
}
