//! The one error type of the kernels.

use std::fmt;

/// Why a kernel call failed; every message says what was wrong and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelError {
    /// A job of a parallel region panicked; the text is the panic's message. The pool stays usable.
    JobPanicked(String),
    /// A slice, matrix or shape does not fit the others of the call.
    Shape {
        /// Which argument of which function.
        what: &'static str,
        /// What was found and what was expected.
        detail: String,
    },
    /// The values are understood but this build cannot compute them.
    Unsupported {
        /// Which function or format.
        what: &'static str,
        /// What was requested and what is possible instead.
        detail: String,
    },
    /// A thread of the pool could not be started, or the number of threads is invalid.
    Threads(String),
    /// The requested instruction set is unknown or not available on this machine.
    Isa {
        /// The requested name.
        expected: String,
        /// What can be chosen here.
        available: String,
    },
}

impl KernelError {
    /// A `Shape` error from the argument's name and a sentence.
    pub fn shape(what: &'static str, detail: impl Into<String>) -> KernelError {
        KernelError::Shape { what, detail: detail.into() }
    }

    /// An `Unsupported` error from the function's name and a sentence.
    pub fn unsupported(what: &'static str, detail: impl Into<String>) -> KernelError {
        KernelError::Unsupported { what, detail: detail.into() }
    }
}

/// Fails with a `Shape` error unless `got == expected`; `what` names the argument whose length is compared.
pub(crate) fn check_len(what: &'static str, got: usize, expected: usize) -> Result<(), KernelError> {
    if got == expected {
        return Ok(());
    }
    Err(KernelError::shape(what, format!("{got} values, expected {expected}")))
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KernelError::JobPanicked(message) => {
                write!(
                    f,
                    "a job of the thread pool panicked: {message}; this call has no result, the pool goes on"
                )
            }
            KernelError::Shape { what, detail } => write!(f, "{what}: {detail}"),
            KernelError::Unsupported { what, detail } => write!(f, "{what} is not supported: {detail}"),
            KernelError::Threads(detail) => write!(f, "thread pool: {detail}"),
            KernelError::Isa { expected, available } => {
                write!(f, "instruction set `{expected}` is not available; choose one of: {available}")
            }
        }
    }
}

impl std::error::Error for KernelError {}
