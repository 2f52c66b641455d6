//! Keeps the process alive when a mapped file is truncated: the vanished page reads as zeros, and the file is
//! poisoned.

#[cfg(unix)]
mod bus;
#[cfg(unix)]
mod table;

#[cfg(not(unix))]
pub(crate) use UnguardedSlot as GuardSlot;
#[cfg(unix)]
pub(crate) use table::GuardSlot;

use crate::GgufError;

/// Installs a SIGBUS handler that turns a vanished page of a mapped file into zeros and a poisoned file
/// ([`crate::GgufFile::poisoned`]); every other SIGBUS goes to the previous handler.
///
/// For applications, once, at their start: opening a file never installs it. Calling it again does nothing. Where
/// mapped files cannot be truncated (Windows) it does nothing.
///
/// # Errors
/// The system refuses the handler.
pub fn install_fault_guard() -> Result<(), GgufError> {
    #[cfg(unix)]
    return bus::install().map_err(|source| GgufError::new("SIGBUS", crate::GgufErrorKind::Guard { source }));
    #[cfg(not(unix))]
    Ok(())
}

/// The slot of a mapping on systems without fault signals, where no table is needed.
#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) struct UnguardedSlot;

#[cfg(not(unix))]
impl UnguardedSlot {
    pub(crate) fn register(_start: usize, _len: usize) -> Option<Self> {
        Some(Self)
    }

    pub(crate) fn poisoned(&self) -> bool {
        false
    }
}
