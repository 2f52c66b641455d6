//! Candle's devices by name.

use candle_core::Device;
use menagerie_model::{ModelError, Result};

/// The device with this name, and its full name (`cuda` is `cuda:0`).
///
/// # Errors
/// [`ModelError::Unsupported`] for an unknown name, a feature that is not compiled in or a device that does not exist;
/// [`ModelError::Backend`] for errors of the driver.
pub(crate) fn open(name: &str) -> Result<(Device, String)> {
    let (kind, number) = match name.split_once(':') {
        Some((kind, number)) => (kind, Some(number)),
        None => (name, None),
    };
    match (kind, number) {
        ("candle", None) => Ok((Device::Cpu, name.to_owned())),
        ("metal", None) => Ok((metal::open()?, name.to_owned())),
        ("cuda", number) => {
            let number = number.unwrap_or("0");
            let ordinal = number.parse().map_err(|_| unknown(name))?;
            let name = format!("cuda:{ordinal}");
            Ok((cuda::open(ordinal, &name)?, name))
        }
        _ => Err(unknown(name)),
    }
}

/// Bytes that are free on a GPU; `None` for the host, and if the driver does not report it.
pub(crate) fn free_memory(device: &Device) -> Option<u64> {
    match device {
        Device::Cpu => None,
        Device::Cuda(device) => cuda::free_memory(device),
        Device::Metal(device) => metal::free_memory(device),
    }
}

fn unknown(name: &str) -> ModelError {
    ModelError::Unsupported(format!(
        "there is no device \"{name}\": candle supports `candle` (the CPU), `cuda` or `cuda:N`, and `metal`"
    ))
}

#[cfg(not(feature = "cuda"))]
pub(crate) mod cuda {
    //! A build without CUDA.

    use super::{Device, ModelError, Result};
    use candle_core::CudaDevice;

    const MISSING: &str = "this build has no CUDA; build it with `--features cuda`";

    pub(super) fn open(_: usize, name: &str) -> Result<Device> {
        Err(ModelError::Unsupported(format!("device \"{name}\": {MISSING}")))
    }

    pub(crate) fn count() -> std::result::Result<usize, String> {
        Err(MISSING.to_owned())
    }

    pub(crate) fn describe(_: usize) -> std::result::Result<String, String> {
        Err(MISSING.to_owned())
    }

    pub(super) fn free_memory(_: &CudaDevice) -> Option<u64> {
        None
    }
}

#[cfg(feature = "cuda")]
pub(crate) mod cuda {
    //! CUDA through cudarc.

    use super::{Device, ModelError, Result};
    use candle_core::CudaDevice;
    use candle_core::cuda_backend::cudarc::driver::{CudaContext, DriverError};

    pub(super) fn open(ordinal: usize, name: &str) -> Result<Device> {
        let count = CudaContext::device_count().map_err(|error| ModelError::backend(name, error))?;
        if i32::try_from(ordinal).map_or(true, |ordinal| ordinal >= count) {
            return Err(ModelError::Unsupported(format!(
                "device \"{name}\": the driver sees {count} CUDA devices, numbered from 0"
            )));
        }
        // A separate stream: the default stream differs between threads, and nothing would order their work.
        Device::new_cuda_with_stream(ordinal).map_err(|error| ModelError::backend(name, error))
    }

    pub(crate) fn count() -> std::result::Result<usize, String> {
        let count = CudaContext::device_count().map_err(|error| reported(&error))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    pub(crate) fn describe(ordinal: usize) -> std::result::Result<String, String> {
        properties(ordinal).map_err(|error| reported(&error))
    }

    fn reported(error: &DriverError) -> String {
        format!("the CUDA driver reports {error}")
    }

    fn properties(ordinal: usize) -> std::result::Result<String, DriverError> {
        let context = CudaContext::new(ordinal)?;
        let (major, minor) = context.compute_capability()?;
        let (free, total) = context.mem_get_info()?;
        let gib = |bytes: usize| bytes as f64 / (1u64 << 30) as f64;
        Ok(format!(
            "{}, compute capability {major}.{minor}, {:.1} of {:.1} GiB free",
            context.name()?,
            gib(free),
            gib(total)
        ))
    }

    pub(super) fn free_memory(device: &CudaDevice) -> Option<u64> {
        let stream = device.cuda_stream();
        let (free, _) = stream.context().mem_get_info().ok()?;
        Some(free as u64)
    }
}

#[cfg(not(feature = "metal"))]
pub(crate) mod metal {
    //! A build without Metal.

    use super::{Device, ModelError, Result};
    use candle_core::MetalDevice;

    const MISSING: &str = "this build has no Metal; build it on macOS with `--features metal`";

    pub(super) fn open() -> Result<Device> {
        Err(ModelError::Unsupported(format!("device \"metal\": {MISSING}")))
    }

    pub(crate) fn count() -> std::result::Result<usize, String> {
        Err(MISSING.to_owned())
    }

    pub(crate) fn describe(_: usize) -> std::result::Result<String, String> {
        Err(MISSING.to_owned())
    }

    pub(super) fn free_memory(_: &MetalDevice) -> Option<u64> {
        None
    }
}

#[cfg(feature = "metal")]
pub(crate) mod metal {
    //! Metal through candle's kernels.

    use super::{Device, ModelError, Result};
    use candle_core::MetalDevice;
    use candle_metal_kernels::metal::Device as MetalGpu;

    const ABSENT: &str = "this machine has no Metal device";

    pub(super) fn open() -> Result<Device> {
        if MetalGpu::all().is_empty() {
            return Err(ModelError::Unsupported(format!("device \"metal\": {ABSENT}")));
        }
        Device::new_metal(0).map_err(|error| ModelError::backend("metal", error))
    }

    pub(crate) fn count() -> std::result::Result<usize, String> {
        Ok(MetalGpu::all().len().min(1))
    }

    pub(crate) fn describe(_: usize) -> std::result::Result<String, String> {
        let device = MetalGpu::all().first().map(|device| device.architecture_name());
        device.ok_or_else(|| ABSENT.to_owned())
    }

    pub(super) fn free_memory(device: &MetalDevice) -> Option<u64> {
        let device = device.metal_device();
        let free = device.recommended_max_working_set_size().saturating_sub(device.current_allocated_size());
        Some(free as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_say_nothing_are_refused() {
        for name in ["", "cpu", "gpu", "cuda:", "cuda:-1", "cuda:x", "metal:1", "candle:0"] {
            let error = open(name).map(drop).unwrap_err().to_string();
            assert!(error.contains("there is no device") && error.contains("`cuda:N`"), "{name}: {error}");
        }
    }

    #[test]
    fn the_cpu_form_is_always_there() {
        assert!(matches!(open("candle"), Ok((Device::Cpu, name)) if name == "candle"));
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn what_is_not_compiled_in_says_how_to_get_it() {
        for name in ["cuda", "cuda:1"] {
            let error = open(name).map(drop).unwrap_err().to_string();
            assert!(error.contains("--features cuda"), "{error}");
        }
        assert!(cuda::count().unwrap_err().contains("--features cuda"));
    }
}
