//! Dates for templates: Python's `strftime`, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A point in time, broken down in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Date {
    year: i64,
    month: usize,
    day: u64,
    weekday: usize,
    day_of_year: u64,
    second_of_day: u64,
}

/// Formats a time with Python's directives, C locale. The error is an unknown directive.
pub(crate) fn strftime(format: &str, time: SystemTime) -> Result<String, String> {
    let date = Date::of(time);
    let mut out = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        let (plain, directive) = match characters.next() {
            Some('-') => (true, characters.next()),
            other => (false, other),
        };
        let text = directive.and_then(|directive| date.directive(directive));
        let text = text.ok_or_else(|| format!("unknown strftime directive in {format:?}"))?;
        let stripped = text.trim_start_matches('0');
        out.push_str(if plain && !stripped.is_empty() { stripped } else { &text });
    }
    Ok(out)
}

impl Date {
    fn of(time: SystemTime) -> Self {
        let seconds = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX),
        };
        let days = seconds.div_euclid(86_400);
        // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days: eras of 400 years from March.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let in_era = shifted.rem_euclid(146_097);
        let year_of_era = (in_era - in_era / 1_460 + in_era / 36_524 - in_era / 146_096) / 365;
        let from_march = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * from_march + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let day_of_year = if month > 2 { from_march + 60 + i64::from(leap) } else { from_march - 305 };
        Self {
            year,
            month: usize::try_from(month).unwrap_or(1),
            day: (from_march - (153 * march_month + 2) / 5 + 1).unsigned_abs(),
            weekday: usize::try_from((days + 4).rem_euclid(7)).unwrap_or_default(),
            day_of_year: day_of_year.unsigned_abs(),
            second_of_day: seconds.rem_euclid(86_400).unsigned_abs(),
        }
    }

    fn directive(&self, directive: char) -> Option<String> {
        let month = self.month.checked_sub(1).and_then(|at| MONTHS.get(at)).copied().unwrap_or_default();
        let weekday = DAYS.get(self.weekday).copied().unwrap_or_default();
        let (hour, minute, second) =
            (self.second_of_day / 3600, self.second_of_day / 60 % 60, self.second_of_day % 60);
        let part = |format: &str| strftime_parts(self, format);
        Some(match directive {
            'Y' => self.year.to_string(),
            'y' => format!("{:02}", self.year.rem_euclid(100)),
            'm' => format!("{:02}", self.month),
            'd' => format!("{:02}", self.day),
            'e' => format!("{:2}", self.day),
            'j' => format!("{:03}", self.day_of_year),
            'B' => month.to_owned(),
            'b' | 'h' => month.chars().take(3).collect(),
            'A' => weekday.to_owned(),
            'a' => weekday.chars().take(3).collect(),
            'w' => self.weekday.to_string(),
            'u' => (if self.weekday == 0 { 7 } else { self.weekday }).to_string(),
            'H' => format!("{hour:02}"),
            'I' => format!("{:02}", (hour + 11) % 12 + 1),
            'M' => format!("{minute:02}"),
            'S' => format!("{second:02}"),
            'f' => "000000".to_owned(),
            'p' => (if hour < 12 { "AM" } else { "PM" }).to_owned(),
            'Z' => "UTC".to_owned(),
            'z' => "+0000".to_owned(),
            'F' => part("Y-m-d")?,
            'T' => part("H:M:S")?,
            'R' => part("H:M")?,
            'D' | 'x' => part("m/d/y")?,
            'X' => part("H:M:S")?,
            'n' => "\n".to_owned(),
            't' => "\t".to_owned(),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }
}

/// A composite of directives; the letters stand for themselves.
fn strftime_parts(date: &Date, parts: &str) -> Option<String> {
    parts
        .chars()
        .map(|c| if c.is_ascii_alphabetic() { date.directive(c) } else { Some(c.to_string()) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn dates_are_pythons() {
        // datetime.utcfromtimestamp(t).strftime(f), Python 3.11
        let cases = [
            (0, "%Y-%m-%d %H:%M:%S %a %A %b %B %j", "1970-01-01 00:00:00 Thu Thursday Jan January 001"),
            (1_709_210_096, "%d %b %Y, %I:%M %p", "29 Feb 2024, 12:34 PM"),
            (1_709_210_096, "%-d/%-m %y %j %%", "29/2 24 060 %"),
            (1_735_689_599, "%F %T %j %u %w", "2024-12-31 23:59:59 366 2 2"),
            (951_782_400, "%Y-%m-%d %A", "2000-02-29 Tuesday"),
            (4_102_444_800, "%Y-%m-%d %A", "2100-01-01 Friday"),
        ];
        for (time, format, expected) in cases {
            assert_eq!(strftime(format, at(time)).unwrap(), expected);
        }
    }

    #[test]
    fn an_unknown_directive_is_an_error() {
        assert!(strftime("%Q", at(0)).is_err());
        assert!(strftime("100%", at(0)).is_err());
    }
}
