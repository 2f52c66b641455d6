//! [`Device`]: where a model computes, by name or as a backend.

use crate::error::LoadError;
use crate::notice::Notice;
use menagerie_engine::{check_options, option_pairs};
use menagerie_entries::{Entries, nearest, nearest_clause};
use menagerie_model::{Arithmetic, Backend, DeviceFault, DeviceKind, DeviceRequest, ThreadCount};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

// The device of every build.
use menagerie_cpu as _;

#[cfg(feature = "candle")]
use menagerie_candle as _;

/// Help for a name that no device has.
#[cfg(feature = "candle")]
const OTHER_BUILDS: &str = "";

/// Help for a name that no device has.
#[cfg(not(feature = "candle"))]
const OTHER_BUILDS: &str = "; builds with the feature cuda or metal have GPUs";

/// A device as `--device` names it: `cpu`, `cuda:1`, `cpu:half-prompts=bf16`, `cuda:1,KEY=VALUE`. The environment
/// determines whether the device exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceName {
    /// As it was written.
    text: String,
    kind: String,
    number: Option<usize>,
    options: Vec<(String, String)>,
}

/// Where a model computes.
#[derive(Clone)]
pub enum Device {
    /// A device of this machine.
    Named(DeviceName),
    /// An open backend, which several models can share.
    Given(Arc<dyn Backend>),
}

impl Default for DeviceName {
    /// The CPU.
    fn default() -> Self {
        Self { text: "cpu".to_owned(), kind: "cpu".to_owned(), number: None, options: Vec::new() }
    }
}

impl Default for Device {
    fn default() -> Self {
        Self::Named(DeviceName::default())
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => write!(f, "{name}"),
            Self::Given(backend) => write!(f, "given: {}", backend.name()),
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for DeviceName {
    type Err = LoadError;

    fn from_str(text: &str) -> Result<Self, LoadError> {
        let (kind, rest) = text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        let refused = |reason: String| LoadError::Device { device: text.to_owned(), reason };
        if kind.is_empty() || rest == Some("") {
            return Err(refused("expected NAME, NAME:NUMBER or NAME:KEY=VALUE".to_owned()));
        }
        let mut items: Vec<&str> = rest.into_iter().flat_map(|rest| rest.split(',')).collect();
        let number = match items.first() {
            Some(first) if !first.contains('=') => {
                let number = first
                    .parse()
                    .map_err(|_| refused(format!("`{first}` is neither a number nor an option KEY=VALUE")))?;
                items.remove(0);
                Some(number)
            }
            _ => None,
        };
        let options = option_pairs(&items, &format!("{kind}:")).map_err(refused)?;
        Ok(Self { text: text.to_owned(), kind: kind.to_owned(), number, options })
    }
}

impl DeviceName {
    /// The kind of the device among these entries.
    ///
    /// # Errors
    /// [`LoadError::Device`] if there is no such kind (all kinds and the nearest name), or if it does not have one of the
    /// options.
    pub fn kind<'e>(&self, entries: &'e Entries) -> Result<&'e DeviceKind, LoadError> {
        let Some(kind) = entries.get::<DeviceKind>(&self.kind) else {
            let known: Vec<&str> = entries.all::<DeviceKind>().iter().map(|kind| kind.name).collect();
            let near = nearest_clause(nearest(&self.kind, known.iter().copied()));
            return Err(self.refused(format!(
                "there is no device of this name{near}; there are: {}{OTHER_BUILDS}",
                known.join(", ")
            )));
        };
        let known: Vec<&str> = kind.options.iter().map(|(name, _)| *name).collect();
        check_options(&self.options, &known).map_err(|fault| self.refused(fault))?;
        Ok(kind)
    }

    fn open(
        &self,
        entries: &Entries,
        threads: Option<usize>,
        arithmetic: Arithmetic,
    ) -> Result<Arc<dyn Backend>, LoadError> {
        let kind = self.kind(entries)?;
        let refused = |reason: String| self.refused(reason);
        let number = self.number.unwrap_or(0);
        let count = (kind.count)().map_err(refused)?;
        if number >= count {
            let counted = match count {
                0 => "there is none on this machine".to_owned(),
                1 => "the only number is 0".to_owned(),
                count => format!("the numbers are 0 to {}", count - 1),
            };
            return Err(self.refused(counted));
        }
        let request = DeviceRequest { number, threads, arithmetic, options: &self.options };
        (kind.open)(&request).map_err(|fault| match fault {
            DeviceFault::Options(reason) => LoadError::Options(format!("device {}: {reason}", self.text)),
            other => self.refused(other.to_string()),
        })
    }

    fn refused(&self, reason: String) -> LoadError {
        LoadError::Device { device: self.text.clone(), reason }
    }
}

impl Device {
    /// The device with this name, [`DeviceName`].
    ///
    /// # Errors
    /// [`LoadError::Device`] if the text is not a name of a device.
    pub fn named(text: &str) -> Result<Self, LoadError> {
        text.parse().map(Self::Named)
    }

    /// The backend of the device among these entries.
    ///
    /// # Errors
    /// [`LoadError::Device`] if there is no such device or it cannot be used; [`LoadError::Options`] if it refuses a value
    /// of its options.
    pub fn backend(
        &self,
        entries: &Entries,
        threads: Option<usize>,
        arithmetic: Arithmetic,
    ) -> Result<Arc<dyn Backend>, LoadError> {
        match self {
            Self::Given(backend) => Ok(Arc::clone(backend)),
            Self::Named(name) => name.open(entries, threads, arithmetic),
        }
    }

    /// A notice for a number of threads that has no effect on the device.
    pub(crate) fn thread_notice(&self, entries: &Entries, threads: Option<usize>) -> Option<Notice> {
        let threads = threads?;
        let (name, reason) = match self {
            Self::Given(backend) => (backend.name(), "it has its own already"),
            Self::Named(name) => match name.kind(entries).ok()?.threads {
                ThreadCount::Requested => return None,
                ThreadCount::Own(reason) => (name.to_string(), reason),
            },
        };
        let threads = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
        Some(Notice::Note(format!("device {name} does not use {threads} (-t): {reason}")))
    }
}

/// A device as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceLine {
    /// As `--device` names it.
    pub name: String,
    /// Its description, or why it cannot be used.
    pub state: Result<String, String>,
}

/// Every device of these entries, with the reason if it cannot be used.
pub fn devices(entries: &Entries) -> Vec<DeviceLine> {
    let lines = |kind: &DeviceKind| match (kind.count)() {
        Err(why) => vec![DeviceLine { name: kind.name.to_owned(), state: Err(why) }],
        Ok(0) => {
            let state = Err("there is none on this machine".to_owned());
            vec![DeviceLine { name: kind.name.to_owned(), state }]
        }
        Ok(1) => vec![DeviceLine { name: kind.name.to_owned(), state: (kind.describe)(0) }],
        Ok(count) => {
            let line = |at| DeviceLine { name: format!("{}:{at}", kind.name), state: (kind.describe)(at) };
            (0..count).map(line).collect()
        }
    };
    entries.all::<DeviceKind>().iter().flat_map(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Entries {
        Entries::linked().unwrap()
    }

    fn refused(text: &str) -> String {
        let opened = Device::named(text).and_then(|one| one.backend(&entries(), Some(1), Arithmetic::Fast));
        opened.map(drop).unwrap_err().to_string()
    }

    #[test]
    fn names_have_a_number_or_options() {
        let name: DeviceName = "cuda:3,stream=own".parse().unwrap();
        assert_eq!((&*name.kind, name.number), ("cuda", Some(3)));
        assert_eq!(name.options, [("stream".to_owned(), "own".to_owned())]);
        assert_eq!(name.to_string(), "cuda:3,stream=own");
        for wrong in ["", "cpu:", "cuda:x", "cuda:-1", "cpu:half-prompts", "cpu:a=1,b", ":1"] {
            assert!(wrong.parse::<DeviceName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn unknown_names_and_options_are_refused_with_the_nearest() {
        let error = refused("cpi");
        assert!(error.contains("the nearest is `cpu`; there are: ") && error.contains("cpu"), "{error}");
        let error = refused("cpu:half-prompt=bf16");
        assert!(error.contains("`half-prompt`") && error.contains("it has half-prompts"), "{error}");
        let error = refused("cpu:half-prompts=f16");
        assert!(error.contains("half-prompts=f16") && error.contains("f32 or bf16"), "{error}");
        assert!(refused("cpu:1").contains("the only number is 0"));
    }

    #[test]
    fn a_backend_is_shared() {
        let backend = Device::default().backend(&entries(), Some(1), Arithmetic::Fast).unwrap();
        let given = Device::Given(Arc::clone(&backend));
        let again = given.backend(&Entries::default(), None, Arithmetic::Fast).unwrap();
        assert!(Arc::ptr_eq(&backend, &again));
        let note = given.thread_notice(&entries(), Some(2)).unwrap().to_string();
        assert!(note.contains("2 threads (-t)") && note.contains("its own already"), "{note}");
        assert!(Device::default().thread_notice(&entries(), Some(4)).is_none());
    }

    #[test]
    fn threads_that_a_device_does_not_use_are_noted() {
        let cpu = *entries().get::<DeviceKind>("cpu").unwrap();
        let mut kinds = Entries::default();
        kinds.add(DeviceKind { name: "gpu", threads: ThreadCount::Own("the GPU computes"), ..cpu }).unwrap();
        let note = |threads| Device::named("gpu:1").unwrap().thread_notice(&kinds, threads);
        assert_eq!(note(None), None);
        let text = note(Some(1)).unwrap().to_string();
        assert!(text.contains("gpu:1 does not use 1 thread (-t): the GPU computes"), "{text}");
    }

    #[test]
    fn devices_are_listed() {
        let lines = devices(&entries());
        assert!(lines.iter().any(|line| line.name == "cpu" && line.state.is_ok()), "{lines:?}");
    }
}
