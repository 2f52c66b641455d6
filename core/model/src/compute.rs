//! [`Compute`]: where and how a forward computes.

use candle_core::Device;
use menagerie_kernels::{Arithmetic, Cpu};

/// Device, kernels, thread pool and arithmetic of a forward; cheap to clone.
#[derive(Clone)]
pub struct Compute {
    /// Kernels and their thread pool.
    pub cpu: Cpu,
    /// `exact` or `fast`.
    pub arithmetic: Arithmetic,
    /// Where tensors live.
    pub device: Device,
}

impl Compute {
    /// Computes on the CPU with these kernels.
    pub fn cpu(cpu: Cpu, arithmetic: Arithmetic) -> Self {
        Self { cpu, arithmetic, device: Device::Cpu }
    }
}
