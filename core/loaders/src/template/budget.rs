//! Limits of the output and time of a rendering: a template comes with a file, and files come from anywhere.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use super::literal;

/// Bytes that a rendering may produce, plus [`PER_BYTE`] for each byte of input. Text that grows piece by piece is
/// counted each time it is copied.
const BYTES: u64 = 64 << 20;
const PER_BYTE: u64 = 64;

/// Time for one rendering.
const TIME: Duration = Duration::from_secs(10);

/// Maximum number of values in one list or map, nested ones included.
const NODES: u64 = 1 << 20;

/// Maximum nesting of lists.
const DEPTH: usize = 64;

/// The remaining bytes and time of a rendering.
#[derive(Debug)]
pub(super) struct RenderBudget {
    limit: u64,
    used: AtomicU64,
    deadline: Instant,
}

impl RenderBudget {
    /// The budget of a rendering with this many bytes of input.
    pub(super) fn new(given: u64) -> Self {
        let limit = BYTES.saturating_add(given.saturating_mul(PER_BYTE));
        Self { limit, used: AtomicU64::new(0), deadline: Instant::now() + TIME }
    }

    /// Reserves bytes before they are produced.
    ///
    /// # Errors
    /// The bytes or the time are exhausted.
    pub(super) fn charge(&self, bytes: u64) -> Result<(), Error> {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        // A sum past u64 would wrap to 0: once refused, everything stays refused.
        if bytes > self.limit || used > self.limit {
            self.used.store(self.limit, Ordering::Relaxed);
            return Err(refused(format!("it produces more than {} MiB of text and lists", self.limit >> 20)));
        }
        if Instant::now() > self.deadline {
            return Err(refused(format!("it takes longer than {} s", TIME.as_secs())));
        }
        Ok(())
    }

    /// The text of a value as `{{ }}` and `~` write it; its bytes are charged.
    ///
    /// # Errors
    /// The errors of [`Self::charge`], and a value that is too large or too deep to be written.
    pub(super) fn text(&self, value: &Value) -> Result<String, Error> {
        if let Some(text) = value.as_str() {
            self.charge(text.len() as u64)?;
            return Ok(text.to_owned());
        }
        self.size(value)?;
        let mut out = BoundedText { text: String::new(), left: self.left() };
        let written = if literal::holds_float(value) {
            literal::write(value, &mut out)
        } else {
            write!(out, "{value}")
        };
        written.map_err(|_| refused("a value is too large to write".to_owned()))?;
        self.charge(out.text.len() as u64)?;
        Ok(out.text)
    }

    /// The remaining bytes.
    pub(super) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    /// The size of a value with everything inside it: the bytes of its strings and 8 for each value. Charges 1 for
    /// each visited value.
    ///
    /// # Errors
    /// The errors of [`Self::charge`], and a value with too many or too deeply nested values.
    pub(super) fn size(&self, value: &Value) -> Result<u64, Error> {
        let mut nodes = 0;
        let size = count(value, 0, &mut nodes)?;
        self.charge(nodes)?;
        Ok(size)
    }
}

fn count(value: &Value, depth: usize, nodes: &mut u64) -> Result<u64, Error> {
    *nodes += 1;
    if *nodes > NODES || value.len().is_some_and(|len| value.as_str().is_none() && len as u64 > NODES) {
        return Err(refused(format!("a list or map holds more than {NODES} values")));
    }
    if depth > DEPTH {
        return Err(refused(format!("lists and maps are nested deeper than {DEPTH}")));
    }
    let mut size = 8;
    match value.kind() {
        ValueKind::String => size += value.as_str().map_or(0, str::len) as u64,
        ValueKind::Seq | ValueKind::Iterable => {
            for item in value.try_iter()? {
                size += count(&item, depth + 1, nodes)?;
            }
        }
        ValueKind::Map => {
            for key in value.try_iter()? {
                size += count(&key, depth + 1, nodes)?;
                size += count(&value.get_item(&key)?, depth + 1, nodes)?;
            }
        }
        _ => {}
    }
    Ok(size)
}

/// The error of a template that exceeds its limits.
pub(super) fn refused(problem: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("the template exceeds its limits: {problem}"))
}

/// Text with a maximum number of further bytes.
#[derive(Debug)]
pub(super) struct BoundedText {
    pub(super) text: String,
    pub(super) left: u64,
}

impl Write for BoundedText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.left = self.left.checked_sub(part.len() as u64).ok_or(fmt::Error)?;
        self.text.push_str(part);
        Ok(())
    }
}
