//! The device `counting`: the CPU behind a backend of another crate, with an option of its own.

use menagerie_cpu::CpuBackend;
use menagerie_kernels::{Cpu, CpuOptions};
use menagerie_model::{Backend, DeviceFault, DeviceKind, DeviceRequest, ThreadCount};
use menagerie_registry::register;
use menagerie_testkit::CountingBackend;
use std::sync::Arc;

register!(DeviceKind {
    name: "counting",
    options: &[("log", "file that receives the name of the device when it is opened")],
    registered_by: env!("CARGO_PKG_NAME"),
    threads: ThreadCount::Requested,
    count: || Ok(2),
    describe: |number| Ok(format!("number {number}, which counts operations")),
    open,
});

fn open(request: &DeviceRequest<'_>) -> Result<Arc<dyn Backend>, DeviceFault> {
    for (name, value) in request.options {
        if value.is_empty() {
            return Err(DeviceFault::Options(format!("option {name}: expected the name of a file")));
        }
        std::fs::write(value, format!("counting:{}", request.number))
            .map_err(|error| DeviceFault::Options(format!("option {name}={value}: {error}")))?;
    }
    let options = CpuOptions::default().with_threads(request.threads);
    let cpu = Cpu::with_options(options).map_err(|error| DeviceFault::Unavailable(error.to_string()))?;
    Ok(Arc::new(CountingBackend::new(Arc::new(CpuBackend::new(cpu)))))
}
