//! [`Device`]: where a model computes, by name or given.

use crate::load_error::LoadError;
use menagerie_cpu::CpuBackend;
use menagerie_kernels::{Cpu, Isa, keep_large_buffers};
use menagerie_model::Backend;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Once};

/// A device as `--device` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceName {
    /// The processor, with our kernels.
    #[default]
    Cpu,
    /// The processor, with candle's operations.
    Candle,
    /// An NVIDIA GPU, by number.
    Cuda(usize),
    /// An Apple GPU.
    Metal,
}

/// Where a model computes.
#[derive(Clone)]
pub enum Device {
    /// A device of this machine.
    Named(DeviceName),
    /// A backend that is there already: several models can share one.
    Given(Arc<dyn Backend>),
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
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Candle => f.write_str("candle"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Metal => f.write_str("metal"),
        }
    }
}

impl FromStr for DeviceName {
    type Err = LoadError;

    fn from_str(text: &str) -> Result<Self, LoadError> {
        match text {
            "cpu" => return Ok(Self::Cpu),
            "candle" => return Ok(Self::Candle),
            "cuda" => return Ok(Self::Cuda(0)),
            "metal" => return Ok(Self::Metal),
            _ => {}
        }
        let number = text.strip_prefix("cuda:").and_then(|number| number.parse().ok());
        number.map(Self::Cuda).ok_or_else(|| LoadError::Device {
            device: text.to_owned(),
            reason: "there is none of this name; cpu, candle, cuda, cuda:N and metal are known".to_owned(),
        })
    }
}

impl Device {
    /// The backend; `threads` are those of the CPU, absent = what the process may use.
    ///
    /// # Errors
    /// [`LoadError::Device`] if the device is not there, or this build has no code for it.
    pub fn backend(&self, threads: Option<usize>) -> Result<Arc<dyn Backend>, LoadError> {
        match self {
            Self::Given(backend) => Ok(Arc::clone(backend)),
            Self::Named(DeviceName::Cpu) => cpu(threads),
            Self::Named(other) => candle(*other),
        }
    }
}

#[cfg(feature = "candle")]
fn candle(name: DeviceName) -> Result<Arc<dyn Backend>, LoadError> {
    let device = name.to_string();
    match menagerie_candle::CandleBackend::open(&device) {
        Ok(backend) => Ok(Arc::new(backend)),
        Err(error) => Err(LoadError::Device { device, reason: error.to_string() }),
    }
}

#[cfg(not(feature = "candle"))]
fn candle(name: DeviceName) -> Result<Arc<dyn Backend>, LoadError> {
    Err(LoadError::Device {
        device: name.to_string(),
        reason: "this build has no code for it; use cpu, or build with the feature of that name".to_owned(),
    })
}

/// A device as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceLine {
    /// As `--device` names it.
    pub name: String,
    /// What it is, or why it cannot be used.
    pub state: Result<String, String>,
}

/// Every device this program knows: those that are here, and why others are not.
pub fn devices() -> Vec<DeviceLine> {
    let cpu = DeviceLine {
        name: DeviceName::Cpu.to_string(),
        state: Ok(format!("our kernels ({})", Isa::detect().name())),
    };
    [cpu].into_iter().chain(candle_devices()).collect()
}

#[cfg(feature = "candle")]
fn candle_devices() -> Vec<DeviceLine> {
    let line = |line: menagerie_candle::DeviceLine| DeviceLine { name: line.name, state: line.state };
    menagerie_candle::devices().into_iter().map(line).collect()
}

#[cfg(not(feature = "candle"))]
fn candle_devices() -> Vec<DeviceLine> {
    let line = |name: &str| DeviceLine {
        name: name.to_owned(),
        state: Err(format!("this build has no code for it; build it with `--features {name}`")),
    };
    ["candle", "cuda", "metal"].map(line).into()
}

fn cpu(threads: Option<usize>) -> Result<Arc<dyn Backend>, LoadError> {
    static BUFFERS: Once = Once::new();
    // Without it a quarter of the time of a prompt goes into page faults.
    BUFFERS.call_once(|| {
        keep_large_buffers();
    });
    let cpu = Isa::from_environment().and_then(|isa| Cpu::with_isa(threads, isa));
    let cpu =
        cpu.map_err(|error| LoadError::Device { device: "cpu".to_owned(), reason: error.to_string() })?;
    tracing::info!(isa = cpu.isa().name(), threads = cpu.pool().threads(), "kernels chosen");
    Ok(Arc::new(CpuBackend::new(cpu)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_as_on_the_command_line() {
        for name in ["cpu", "candle", "cuda:0", "cuda:3", "metal"] {
            assert_eq!(name.parse::<DeviceName>().unwrap().to_string(), name);
        }
        assert_eq!("cuda".parse::<DeviceName>().unwrap(), DeviceName::Cuda(0));
        for wrong in ["", "gpu", "cuda:", "cuda:x", "CPU"] {
            let error = wrong.parse::<DeviceName>().unwrap_err().to_string();
            assert!(error.contains("cuda:N and metal are known"), "{error}");
        }
    }

    #[test]
    fn a_device_of_another_build_is_refused_and_a_given_one_is_shared() {
        let error = Device::Named(DeviceName::Cuda(1)).backend(None).map(drop).unwrap_err().to_string();
        assert!(error.starts_with("device cuda:1: this build has no code for it"), "{error}");
        let backend = Device::default().backend(Some(1)).unwrap();
        let again = Device::Given(Arc::clone(&backend)).backend(None).unwrap();
        assert!(Arc::ptr_eq(&backend, &again));
    }
}
