//! [`Failure`]: how a command ends when it does not succeed, and with which exit code.

use crate::template_fault;
use menagerie::pipeline::{GenerateError, LoadError};
use menagerie::quantise::QuantiseError;
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
        if let Some(QuantiseError::Cancelled) = any.downcast_ref() {
            return Self::Interrupted;
        }
        if let Some(QuantiseError::UnknownFileType { .. }) = any.downcast_ref() {
            return Self::Usage(error.to_string());
        }
        if let Some(LoadError::Options(fault)) = any.downcast_ref() {
            return Self::Usage(fault.clone());
        }
        Self::Failed(template_fault::placed(any).unwrap_or_else(|| error.to_string()))
    }
}
