//! The clock of the machine, and times as text.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const NANOS_A_SECOND: i64 = 1_000_000_000;
const SECONDS_A_DAY: i64 = 86_400;
const MONTH_DAYS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// Reads the clock: nanoseconds since 1970-01-01 00:00 UTC, without leap seconds.
///
/// It is the only reading of the clock in the workspace; what decides by time takes the time as an argument. The clock
/// may be set back by its owner.
#[must_use]
pub fn now_nanos() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "the one door to it")]
    let now = SystemTime::now();
    from_system(now)
}

/// Turns a time of the operating system, that of a file say, into nanoseconds since 1970.
#[must_use]
pub fn from_system(time: SystemTime) -> i64 {
    let nanos = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    time.duration_since(UNIX_EPOCH).map_or_else(|before| -nanos(before.duration()), nanos)
}

/// Turns nanoseconds since 1970 into a time of the operating system; 1970 itself where that has none so far away.
#[must_use]
pub fn to_system(nanos: i64) -> SystemTime {
    let distance = Duration::from_nanos(nanos.unsigned_abs());
    let time = if nanos < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    time.unwrap_or(UNIX_EPOCH)
}

/// Shows nanoseconds since 1970 as RFC 3339 in UTC with microseconds, cutting off what is below.
///
/// ```
/// # use waycairn_durable::time::rfc3339_micros;
/// assert_eq!(rfc3339_micros(1_700_000_000_123_456_789), "2023-11-14T22:13:20.123456Z");
/// ```
#[must_use]
pub fn rfc3339_micros(nanos: i64) -> String {
    let (seconds, micros) = (nanos.div_euclid(NANOS_A_SECOND), nanos.rem_euclid(NANOS_A_SECOND) / 1000);
    let (days, second) = (seconds.div_euclid(SECONDS_A_DAY), seconds.rem_euclid(SECONDS_A_DAY));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// The year, month and day of a number of days since 1970-01-01.
fn date(days: i64) -> (i64, i64, i64) {
    // 365 days a year are too few, so the guess is on the far side of 1970 and at most a year off in our centuries.
    let mut year = 1970 + days.div_euclid(365);
    while first_day(year) > days {
        year -= 1;
    }
    while first_day(year + 1) <= days {
        year += 1;
    }
    let mut day = days - first_day(year);
    for (month, length) in (1..).zip(MONTH_DAYS) {
        let length = if month == 2 && is_leap(year) { length + 1 } else { length };
        if day < length {
            return (year, month, day + 1);
        }
        day -= length;
    }
    // The lengths of the months add up to that of the year, so this is not reached.
    (year, 12, 31)
}

/// The number of days from 1970-01-01 to the first of January.
fn first_day(year: i64) -> i64 {
    let leap_days = |before: i64| before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400);
    365 * (year - 1970) + leap_days(year - 1) - leap_days(1969)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants() {
        let at = |seconds: i64| rfc3339_micros(seconds * NANOS_A_SECOND);
        assert_eq!(at(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(at(-1), "1969-12-31T23:59:59.000000Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000000Z");
        assert_eq!(at(4_107_542_399), "2100-02-28T23:59:59.000000Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.000000Z");
        assert_eq!(rfc3339_micros(-1), "1969-12-31T23:59:59.999999Z");
        assert_eq!(rfc3339_micros(i64::MAX), "2262-04-11T23:47:16.854775Z");
        assert_eq!(rfc3339_micros(i64::MIN), "1677-09-21T00:12:43.145224Z");
    }

    #[test]
    fn times_of_files_come_back() {
        for nanos in [0, 1, -1, 1_700_000_000_123_456_789, -1_700_000_000_123_456_789] {
            assert_eq!(from_system(to_system(nanos)), nanos);
        }
        assert_eq!(to_system(0), UNIX_EPOCH);
    }

    #[test]
    fn every_day_of_the_range_follows_the_day_before() {
        let last = i64::MAX / NANOS_A_SECOND / SECONDS_A_DAY;
        let mut before = date(-last - 1);
        for days in -last..=last {
            let (year, month, day) = date(days);
            let expected = match before {
                (year, 12, 31) => (year + 1, 1, 1),
                (year, 2, 28) if is_leap(year) => (year, 2, 29),
                (year, 2, 28 | 29) => (year, 3, 1),
                (year, month, day) if day == MONTH_DAYS[month as usize - 1] => (year, month + 1, 1),
                (year, month, day) => (year, month, day + 1),
            };
            assert_eq!((year, month, day), expected);
            before = expected;
        }
    }

    #[test]
    fn the_clock_is_past_the_day_this_was_written() {
        assert!(now_nanos() > 1_700_000_000 * NANOS_A_SECOND);
        assert!(rfc3339_micros(now_nanos()).starts_with('2'));
    }
}
