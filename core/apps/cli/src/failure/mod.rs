//! [`Failure`]: the error of a command, which determines the exit code.

mod template_fault;

use crate::screen::report;
use menagerie::engine::GenerateError;
use menagerie::open::LoadError;
use menagerie::quantize::QuantizeError;
use menagerie::synth::SynthError;
use std::error::Error;
use std::fmt;

/// The reason why a command did not succeed.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The arguments are invalid or contradict each other: exit code 2.
    Usage(String),
    /// The arguments cannot be parsed; the text is clap's: exit code 2.
    Arguments(String),
    /// The command failed: exit code 1. Lines that begin with `help: ` say what to do.
    Failed(String),
    /// Standard output cannot be written: exit code 1.
    Output(String),
    /// The command failed, and the error is already printed: exit code 1.
    Reported,
    /// Ctrl-C: exit code 130.
    Interrupted,
    /// The reader closed standard output: exit code 0.
    OutputClosed,
}

impl Failure {
    /// A failure with the text `SUBJECT: REASON`.
    pub(crate) fn about(subject: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self::Failed(format!("{subject}: {reason}"))
    }

    /// The message in one line.
    pub(crate) fn said(&self) -> String {
        match self {
            Self::Usage(said) | Self::Arguments(said) | Self::Failed(said) | Self::Output(said) => {
                said.replace("\nhelp: ", "; ").replace('\n', " ")
            }
            Self::Reported | Self::Interrupted | Self::OutputClosed => format!("{self:?}"),
        }
    }

    /// The result of several parts that were all run: the first failure; the others are printed.
    pub(crate) fn of_all(parts: impl IntoIterator<Item = Result<(), Self>>) -> Result<(), Self> {
        let mut failed: Vec<Self> = parts.into_iter().filter_map(Result::err).collect();
        // A closed output is less important than the other failures.
        let first = failed.iter().position(|failure| !matches!(failure, Self::OutputClosed)).unwrap_or(0);
        if failed.is_empty() {
            return Ok(());
        }
        let first = failed.remove(first);
        for other in failed {
            match other {
                Self::Usage(said) | Self::Failed(said) | Self::Output(said) => report::error(&said),
                Self::Arguments(_) | Self::Reported | Self::Interrupted | Self::OutputClosed => {}
            }
        }
        Err(first)
    }

    /// The same failure with help.
    pub(crate) fn with_help(self, help: &str) -> Self {
        match self {
            Self::Failed(message) => Self::Failed(format!("{message}\nhelp: {help}")),
            Self::Usage(message) => Self::Usage(format!("{message}\nhelp: {help}")),
            other => other,
        }
    }
}

/// A failure to find the files of a model, on its way through the library.
#[derive(Debug)]
pub(crate) struct LocateFailure(pub(crate) Failure);

impl Error for LocateFailure {}

impl fmt::Display for LocateFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Failure::Failed(message) | Failure::Usage(message) => f.write_str(message),
            _ => f.write_str("interrupted"),
        }
    }
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let any: &(dyn Error + 'static) = &error;
        if let Some(GenerateError::Cancelled) = any.downcast_ref() {
            return Self::Interrupted;
        }
        if let Some(SynthError::Cancelled) = any.downcast_ref() {
            return Self::Interrupted;
        }
        if let Some(QuantizeError::Cancelled) = any.downcast_ref() {
            return Self::Interrupted;
        }
        if let Some(QuantizeError::UnknownFileType { .. }) = any.downcast_ref() {
            return Self::Usage(error.to_string());
        }
        match any.downcast_ref() {
            Some(LoadError::Options(fault)) => return Self::Usage(fault.clone()),
            Some(LoadError::Locate { source, .. }) => {
                if let Some(LocateFailure(failure)) = source.downcast_ref() {
                    return failure.clone();
                }
            }
            _ => {}
        }
        Self::Failed(template_fault::placed(any).unwrap_or_else(|| error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_counts_and_a_closed_output_last() {
        let failed = |text: &str| Err(Failure::Failed(text.to_owned()));
        assert!(Failure::of_all([Ok(()), Ok(())]).is_ok());
        let first = Failure::of_all([Ok(()), failed("one"), failed("two")]).unwrap_err();
        assert_eq!(first.said(), "one");
        let first = Failure::of_all([Err(Failure::OutputClosed), failed("full")]).unwrap_err();
        assert_eq!(first.said(), "full");
        let first = Failure::of_all([Err(Failure::Interrupted), failed("full")]).unwrap_err();
        assert!(matches!(first, Failure::Interrupted));
        assert!(matches!(Failure::of_all([Err(Failure::OutputClosed)]), Err(Failure::OutputClosed)));
    }
}
