//! The CPU as a registered device.

use crate::backend::CpuBackend;
use menagerie_entries::register;
use menagerie_kernels::{Cpu, CpuOptions, HalfPrompts, Isa, KernelError, keep_large_buffers};
use menagerie_model::{Arithmetic, Backend, DeviceFault, DeviceKind, DeviceRequest, ThreadCount};
use std::sync::{Arc, Once};

/// The option that selects how F16 weights are multiplied.
pub(crate) const HALF_PROMPTS: &str = "half-prompts";

register!(DeviceKind {
    name: "cpu",
    options: &[(
        HALF_PROMPTS,
        "how F16 weights are multiplied: f32, or bf16, which makes prompts nearly twice as fast on processors with \
         AVX-512 BF16 and rounds: a KL divergence of 5e-4 instead of 4e-6 and logits off by up to 0.155, measured on \
         one model",
    )],
    registered_by: env!("CARGO_PKG_NAME"),
    threads: ThreadCount::Requested,
    count: || Ok(1),
    describe: |_| Ok(format!("kernels of this project ({})", Isa::detect().name())),
    open,
});

fn open(request: &DeviceRequest<'_>) -> Result<Arc<dyn Backend>, DeviceFault> {
    static BUFFERS: Once = Once::new();
    // Without it a quarter of the time of a prompt is spent in page faults.
    BUFFERS.call_once(|| {
        keep_large_buffers();
    });
    let unavailable = |error: KernelError| DeviceFault::Unavailable(error.to_string());
    let half_prompts = half_prompts(request).map_err(DeviceFault::Options)?;
    let isa = Isa::from_environment().map_err(unavailable)?;
    let options =
        CpuOptions::default().with_threads(request.threads).with_isa(isa).with_half_prompts(half_prompts);
    let cpu = Cpu::with_options(options).map_err(unavailable)?;
    if half_prompts == HalfPrompts::BFloat16 && !cpu.has_half_prompts() {
        return Err(DeviceFault::Options(format!(
            "the {} kernels on this processor have no products of bfloat16 (AVX-512 BF16 has); leave half-prompts at f32",
            cpu.isa().name()
        )));
    }
    Ok(Arc::new(CpuBackend::new(cpu)))
}

/// The value of `half-prompts`.
fn half_prompts(request: &DeviceRequest<'_>) -> Result<HalfPrompts, String> {
    let mut value = HalfPrompts::default();
    for (name, text) in request.options {
        value = match (name.as_str(), text.to_ascii_lowercase().as_str()) {
            (HALF_PROMPTS, "f32") => HalfPrompts::Float32,
            (HALF_PROMPTS, "bf16") => HalfPrompts::BFloat16,
            _ => return Err(format!("option {name}={text}: {HALF_PROMPTS} is f32 or bf16")),
        };
    }
    match (value, request.arithmetic) {
        (HalfPrompts::BFloat16, Arithmetic::Exact) => Err(format!(
            "{HALF_PROMPTS}=bf16 rounds to bfloat16, and exact arithmetic (--exact) is f32: use one of them"
        )),
        (value, _) => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(arithmetic: Arithmetic, options: &[(&str, &str)]) -> Result<Arc<dyn Backend>, DeviceFault> {
        let options: Vec<_> =
            options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        open(&DeviceRequest { number: 0, threads: Some(1), arithmetic, options: &options })
    }

    #[test]
    fn half_prompts_are_f32_or_bf16_and_never_exact() {
        let backend = opened(Arithmetic::Fast, &[(HALF_PROMPTS, "F32")]).unwrap();
        assert!(backend.settings().is_empty() && backend.notes().is_empty());
        let error = opened(Arithmetic::Fast, &[(HALF_PROMPTS, "f16")]).map(drop).unwrap_err();
        assert_eq!(
            error,
            DeviceFault::Options("option half-prompts=f16: half-prompts is f32 or bf16".to_owned())
        );
        let DeviceFault::Options(error) =
            opened(Arithmetic::Exact, &[(HALF_PROMPTS, "bf16")]).map(drop).unwrap_err()
        else {
            panic!("the option is refused");
        };
        assert!(error.contains("half-prompts=bf16") && error.contains("--exact"), "{error}");
        match opened(Arithmetic::Fast, &[(HALF_PROMPTS, "bf16")]) {
            Ok(backend) => {
                assert_eq!(backend.settings(), [(HALF_PROMPTS, "bf16".to_owned())]);
                assert!(backend.notes()[0].contains("no F16 weights"), "no weight was taken");
            }
            Err(DeviceFault::Options(error)) => assert!(error.contains("AVX-512 BF16"), "{error}"),
            Err(error) => panic!("{error:?}"),
        }
    }
}
