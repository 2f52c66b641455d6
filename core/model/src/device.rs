//! [`DeviceKind`]: a device that models can compute on, as a crate registers it.

use crate::backend::Backend;
use menagerie_entries::Entry;
use menagerie_formulas::Arithmetic;
use std::fmt;
use std::sync::Arc;

/// The arguments of opening a backend.
#[derive(Clone, Copy, Debug)]
pub struct DeviceRequest<'a> {
    /// Number of the device among those of its kind.
    pub number: usize,
    /// Threads (`-t`); `None`: as many as the process may use.
    pub threads: Option<usize>,
    /// Arithmetic of the products.
    pub arithmetic: Arithmetic,
    /// The options of the kind, names and values as text; every name is one of [`DeviceKind::options`].
    pub options: &'a [(String, String)],
}

/// Whether a device computes with as many threads as the caller requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadCount {
    /// It does.
    Requested,
    /// It does not, for this reason.
    Own(&'static str),
}

/// Why a device cannot be opened. The texts are sentences without the name of the device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceFault {
    /// A value of its options is invalid, or the device does not support it.
    #[error("{0}")]
    Options(String),
    /// The device cannot be used on this machine or with this build.
    #[error("{0}")]
    Unavailable(String),
}

/// A kind of devices: `cpu`, `cuda`. It is named as `NAME`, `NAME:NUMBER`, or with options as `NAME:KEY=VALUE,..`.
#[derive(Clone, Copy)]
pub struct DeviceKind {
    /// Its name: letters, digits and `-`.
    pub name: &'static str,
    /// Its options for listings, each with its name and its meaning.
    pub options: &'static [(&'static str, &'static str)],
    /// The crate that registers it.
    pub registered_by: &'static str,
    /// Whether it follows the number of threads.
    pub threads: ThreadCount,
    /// The number of devices on this machine, or why none can be used.
    pub count: fn() -> Result<usize, String>,
    /// Description of the device with this number; or why it cannot be used.
    pub describe: fn(usize) -> Result<String, String>,
    /// Opens a device.
    pub open: fn(&DeviceRequest<'_>) -> Result<Arc<dyn Backend>, DeviceFault>,
}

impl Entry for DeviceKind {
    const FAMILY: &'static str = "device";

    fn name(&self) -> &str {
        self.name
    }

    fn registered_by(&self) -> &str {
        self.registered_by
    }
}

impl fmt::Debug for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {} of {}", self.name, self.registered_by)
    }
}
