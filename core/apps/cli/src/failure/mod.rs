//! [`Failure`]: how a command ends when it does not succeed, and with which exit code.

mod template_fault;

use crate::screen::report;
use menagerie::engine::GenerateError;
use menagerie::open::LoadError;
use menagerie::quantize::QuantizeError;
use menagerie::synth::SynthError;
use std::error::Error;
use std::fmt;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments do not fit together: exit code 2.
    Usage(String),
    /// The arguments cannot be read, in clap's words: exit code 2.
    Arguments(String),
    /// Something went wrong: exit code 1. Lines that begin with `help: ` say what to do.
    Failed(String),
    /// Standard output cannot be written to: exit code 1, whatever else there is to do.
    Output(String),
    /// What went wrong has been said on standard output (as JSON): exit code 1.
    Reported,
    /// Ctrl-C: exit code 130.
    Interrupted,
    /// Whoever reads our output has gone: no failure of ours.
    OutputClosed,
}

impl Failure {
    /// A failure with what it concerns put before the reason.
    pub(crate) fn about(subject: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self::Failed(format!("{subject}: {reason}"))
    }

    /// What went wrong, in one line.
    pub(crate) fn said(&self) -> String {
        match self {
            Self::Usage(said) | Self::Arguments(said) | Self::Failed(said) | Self::Output(said) => {
                said.replace("\nhelp: ", "; ").replace('\n', " ")
            }
            Self::Reported | Self::Interrupted | Self::OutputClosed => format!("{self:?}"),
        }
    }

    /// What comes of parts that all were tried: the first that failed, once the others that did are said.
    pub(crate) fn of_all(parts: impl IntoIterator<Item = Result<(), Self>>) -> Result<(), Self> {
        let mut failed: Vec<Self> = parts.into_iter().filter_map(Result::err).collect();
        // Who has gone is not told, but what went wrong beside that is.
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

    /// The same, with what to do about it.
    pub(crate) fn with_help(self, help: &str) -> Self {
        match self {
            Self::Failed(message) => Self::Failed(format!("{message}\nhelp: {help}")),
            Self::Usage(message) => Self::Usage(format!("{message}\nhelp: {help}")),
            other => other,
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
        if let Some(LoadError::Options(fault)) = any.downcast_ref() {
            return Self::Usage(fault.clone());
        }
        Self::Failed(template_fault::placed(any).unwrap_or_else(|| error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_all_that_failed_the_first_counts_and_who_has_gone_last() {
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
