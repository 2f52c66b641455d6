//! [`Device`]: where a model computes, by name or given.

use crate::error::LoadError;
use crate::notice::Notice;
use menagerie_cpu::CpuBackend;
use menagerie_engine::setters;
use menagerie_kernels::{Cpu, CpuOptions, HalfPrompts, Isa, keep_large_buffers};
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

/// What of the CPU's kernels can be chosen.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct DeviceOptions {
    /// Threads; absent = what the process may use.
    pub threads: Option<usize>,
    /// How F16 weights are multiplied with prompts.
    pub half_prompts: HalfPrompts,
}

setters! { DeviceOptions:
    with_threads(threads: impl Into<Option<usize>>),
    with_half_prompts(half_prompts: HalfPrompts),
}

impl Device {
    /// The backend; the options are those of the CPU's kernels.
    ///
    /// # Errors
    /// [`LoadError::Device`] if the device is not there, or this build has no code for it; [`LoadError::Options`] if it
    /// has no products for [`HalfPrompts::BFloat16`].
    pub fn backend(&self, options: DeviceOptions) -> Result<Arc<dyn Backend>, LoadError> {
        if options.half_prompts == HalfPrompts::BFloat16 && !self.is_cpu() {
            return Err(LoadError::Options(format!(
                "device {} has no F16 prompts in bfloat16: only cpu has; leave --half-prompts at f32",
                self.name()
            )));
        }
        match self {
            Self::Given(backend) => Ok(Arc::clone(backend)),
            Self::Named(DeviceName::Cpu) => cpu(options),
            Self::Named(other) => candle(*other),
        }
    }

    /// What must be said where threads are asked for and the device does not take them from us.
    pub(crate) fn thread_notice(&self, threads: Option<usize>) -> Option<Notice> {
        let threads = threads.filter(|_| !self.is_cpu())?;
        let name = self.name();
        let way = match self {
            Self::Named(DeviceName::Candle) => "candle takes its own from RAYON_NUM_THREADS",
            Self::Named(_) => "the GPU computes",
            Self::Given(_) => "it has its own already",
        };
        let threads = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
        Some(Notice::Note(format!(
            "{threads} (-t) were asked for, which device {name} does not follow: {way}"
        )))
    }

    fn is_cpu(&self) -> bool {
        matches!(self, Self::Named(DeviceName::Cpu))
    }

    fn name(&self) -> String {
        match self {
            Self::Named(name) => name.to_string(),
            Self::Given(backend) => backend.name(),
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

fn cpu(options: DeviceOptions) -> Result<Arc<dyn Backend>, LoadError> {
    static BUFFERS: Once = Once::new();
    // Without it a quarter of the time of a prompt goes into page faults.
    BUFFERS.call_once(|| {
        keep_large_buffers();
    });
    let DeviceOptions { threads, half_prompts } = options;
    let cpu = Isa::from_environment().and_then(|isa| {
        Cpu::with_options(
            CpuOptions::default().with_threads(threads).with_isa(isa).with_half_prompts(half_prompts),
        )
    });
    let cpu =
        cpu.map_err(|error| LoadError::Device { device: "cpu".to_owned(), reason: error.to_string() })?;
    if half_prompts == HalfPrompts::BFloat16 && !cpu.has_half_prompts() {
        return Err(LoadError::Options(format!(
            "the {} kernels on this processor have no products of bfloat16 (AVX-512 BF16 has); leave --half-prompts at f32",
            cpu.isa().name()
        )));
    }
    tracing::info!(isa = cpu.isa().name(), threads = cpu.pool().threads(), "kernels chosen");
    Ok(Arc::new(CpuBackend::new(cpu)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_thread() -> DeviceOptions {
        DeviceOptions { threads: Some(1), ..DeviceOptions::default() }
    }

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
        let cuda = Device::Named(DeviceName::Cuda(1));
        let error = cuda.backend(DeviceOptions::default()).map(drop).unwrap_err().to_string();
        assert!(error.starts_with("device cuda:1: this build has no code for it"), "{error}");
        let backend = Device::default().backend(one_thread()).unwrap();
        let given = Device::Given(Arc::clone(&backend));
        let again = given.backend(DeviceOptions::default()).unwrap();
        assert!(Arc::ptr_eq(&backend, &again));
        let coarse = DeviceOptions { half_prompts: HalfPrompts::BFloat16, ..DeviceOptions::default() };
        for device in [given, Device::Named(DeviceName::Candle), Device::Named(DeviceName::Metal)] {
            let error = device.backend(coarse).map(drop).unwrap_err();
            assert!(matches!(&error, LoadError::Options(text) if text.contains("--half-prompts")), "{error}");
        }
    }

    #[test]
    fn threads_that_a_device_does_not_take_are_said() {
        let note = |device: &Device, threads| device.thread_notice(threads).map(|notice| notice.to_string());
        let named = Device::Named;
        assert_eq!(note(&named(DeviceName::Cpu), Some(4)), None);
        assert_eq!(note(&named(DeviceName::Candle), None), None);
        let candle = note(&named(DeviceName::Candle), Some(4)).unwrap();
        assert!(candle.contains("4 threads") && candle.contains("RAYON_NUM_THREADS"), "{candle}");
        let cuda = note(&named(DeviceName::Cuda(1)), Some(1)).unwrap();
        assert!(cuda.contains("1 thread (-t)") && cuda.contains("cuda:1"), "{cuda}");
        let given = Device::Given(Device::default().backend(one_thread()).unwrap());
        assert!(note(&given, Some(2)).unwrap().contains("its own already"));
    }
}
