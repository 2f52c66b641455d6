//! [`UtcTime`]: times as RFC 3339 writes them.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// A time in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UtcTime {
    /// Since 1970.
    seconds: u64,
    nanoseconds: u32,
}

impl UtcTime {
    /// Now.
    pub(crate) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { seconds: since.as_secs(), nanoseconds: since.subsec_nanos() }
    }

    /// Seconds since 1970.
    pub(crate) fn of_seconds(seconds: u64) -> Self {
        Self { seconds, nanoseconds: 0 }
    }

    /// Year, month and day of the Gregorian calendar. A year begins in March here, so that the day that only some years
    /// have is its last one; 400 years have 146,097 days.
    fn date(self) -> (u64, u64, u64) {
        // Days since 1 March 0000.
        let days = self.seconds / 86_400 + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        // Five months have 153 days, beginning with March and again with August.
        let month = (5 * day + 2) / 153;
        let first = (153 * month + 2) / 5;
        let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        (400 * era + year + next, month, day - first + 1)
    }
}

/// Seconds since 1970.
pub(crate) fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.date();
        let second = self.seconds % 86_400;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if self.nanoseconds > 0 {
            write!(f, ".{:09}", self.nanoseconds)?;
        }
        f.write_str("Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are those of GNU `date -u -d @SECONDS`.
    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(UtcTime::of_seconds(seconds).to_string(), text);
        }
        let time = UtcTime { seconds: 1, nanoseconds: 5 };
        assert_eq!(time.to_string(), "1970-01-01T00:00:01.000000005Z");
    }
}
