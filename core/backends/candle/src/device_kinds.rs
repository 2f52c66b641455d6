//! The devices that this crate registers.

use crate::backend::CandleBackend;
use crate::device::{cuda, metal};
use menagerie_entries::register;
use menagerie_model::{Backend, DeviceFault, DeviceKind, ThreadCount};
use std::sync::Arc;

register!(DeviceKind {
    name: "candle",
    options: &[],
    registered_by: env!("CARGO_PKG_NAME"),
    threads: ThreadCount::Own("candle takes its own from RAYON_NUM_THREADS"),
    count: || Ok(1),
    describe: |_| {
        Ok("candle on the CPU: the same operations as on a GPU, for tests and comparisons".to_owned())
    },
    open: |_| backend("candle"),
});

register!(DeviceKind {
    name: "cuda",
    options: &[],
    registered_by: env!("CARGO_PKG_NAME"),
    threads: ThreadCount::Own("the GPU computes"),
    count: cuda::count,
    describe: cuda::describe,
    open: |request| backend(&format!("cuda:{}", request.number)),
});

register!(DeviceKind {
    name: "metal",
    options: &[],
    registered_by: env!("CARGO_PKG_NAME"),
    threads: ThreadCount::Own("the GPU computes"),
    count: metal::count,
    describe: metal::describe,
    open: |_| backend("metal"),
});

/// The backend of a device.
fn backend(name: &str) -> Result<Arc<dyn Backend>, DeviceFault> {
    let backend = CandleBackend::open(name).map_err(|error| DeviceFault::Unavailable(error.to_string()))?;
    Ok(Arc::new(backend))
}

#[cfg(test)]
mod tests {
    use super::*;
    use menagerie_entries::Entries;

    #[test]
    fn three_devices_are_registered() {
        let entries = Entries::linked().unwrap();
        let kinds: Vec<&str> = entries.all::<DeviceKind>().iter().map(|kind| kind.name).collect();
        assert_eq!(kinds, ["candle", "cuda", "metal"]);
        let candle = entries.get::<DeviceKind>("candle").unwrap();
        assert!((candle.describe)(0).is_ok());
        assert!(matches!(candle.threads, ThreadCount::Own(why) if why.contains("RAYON_NUM_THREADS")));
    }
}
