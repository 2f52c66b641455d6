//! Formats of strings.

/// Formats that llguidance enforces.
const ENFORCED: [&str; 5] = ["duration", "ipv4", "ipv6", "uri", "uuid"];

/// A full date of RFC 3339, in whose February the 29th exists only in leap years.
macro_rules! date {
    () => {
        concat!(
            "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])",
            "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))",
            "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
        )
    };
}

/// A full time of RFC 3339, without leap seconds, which exist only at some dates.
macro_rules! time {
    () => {
        "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
    };
}

/// A label of a domain: at most 47 characters of the 63 that RFC 1034 allows, without two hyphens side by side, which mark
/// encoded labels.
macro_rules! label {
    () => {
        "[A-Za-z0-9]{1,15}(?:-[A-Za-z0-9]{1,15}){0,2}"
    };
}

/// A part between dots of the name before the @ (`Atom` of RFC 5321).
macro_rules! atom {
    () => {
        "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}"
    };
}

/// How a format is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StringFormat {
    /// By llguidance.
    Enforced,
    /// By this regular expression.
    Pattern(&'static str),
}

/// The format of this name.
///
/// # Errors
/// The names of all formats.
pub(crate) fn format_of(name: &str) -> Result<StringFormat, String> {
    match name {
        "date" => Ok(StringFormat::Pattern(concat!("^", date!(), "$"))),
        "time" => Ok(StringFormat::Pattern(concat!("^", time!(), "$"))),
        "date-time" => Ok(StringFormat::Pattern(concat!("^", date!(), "T", time!(), "$"))),
        // At most 62 characters before the @ (64 are allowed) and 191 after it (254 in all).
        "email" => Ok(StringFormat::Pattern(concat!(
            "^",
            atom!(),
            "(?:\\.",
            atom!(),
            "){0,2}@",
            label!(),
            "(?:\\.",
            label!(),
            "){1,3}$"
        ))),
        "hostname" => Ok(StringFormat::Pattern(concat!("^", label!(), "(?:\\.", label!(), "){0,4}$"))),
        other if ENFORCED.contains(&other) => Ok(StringFormat::Enforced),
        _ => Err(format!("date, time, date-time, email, hostname, {}", ENFORCED.join(", "))),
    }
}
