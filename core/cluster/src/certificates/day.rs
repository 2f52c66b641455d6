//! [`Day`]: a day of the calendar, as it is shown for the end of a certificate.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds of a day.
pub(crate) const DAY_SECONDS: u64 = 86_400;

/// A day in UTC, shown as `2027-11-28`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(u64);

impl Day {
    /// The day of a time in seconds since 1970.
    pub fn of_seconds(seconds: u64) -> Self {
        Self(seconds / DAY_SECONDS)
    }
}

impl fmt::Display for Day {
    /// The Gregorian calendar. A year begins in March here, so that the day that only some years have is its last one; 400
    /// years have 146,097 days.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Days since 1 March 0000.
        let days = self.0 + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        // Five months have 153 days, beginning with March and again with August.
        let month = (5 * day + 2) / 153;
        let first = (153 * month + 2) / 5;
        let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        write!(f, "{:04}-{month:02}-{:02}", 400 * era + year + next, day - first + 1)
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are those of GNU `date -u -d @SECONDS`.
    #[test]
    fn days_are_those_of_the_calendar() {
        let days = [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_709_251_199, "2024-02-29"),
            (4_102_444_800, "2100-01-01"),
        ];
        for (seconds, text) in days {
            assert_eq!(Day::of_seconds(seconds).to_string(), text);
        }
    }
}
