//! [`Manifest`]: what a plugin says of itself before anything of it runs.

/// Read from the file before it is opened. Texts are padded with zeros.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Manifest {
    /// `MNGPLUG\x01`.
    pub magic: [u8; 8],
    /// Bytes of the manifest as the plugin knows it.
    pub struct_size: u32,
    /// Must be the host's.
    pub abi_major: u16,
    /// At most the host's.
    pub abi_minor: u16,
    /// Bits of [`capability`] that the plugin cannot do without; a subset of the host's.
    pub required_capabilities: u64,
    /// Bits of [`cpu_feature`] that its code uses without asking; refused where the machine lacks one.
    pub cpu_features: u64,
    /// Target triple, reported; the object's own architecture is what is compared.
    pub target: [u8; 48],
    /// `author/name`, `[a-z0-9._-]` on both sides; in front of the name of every component.
    pub plugin_id: [u8; 64],
    /// Reported.
    pub plugin_version: [u8; 32],
    /// Reported.
    pub sdk_version: [u8; 32],
    /// Compiler and version; reported, never compared.
    pub toolchain: [u8; 96],
    /// 0: panics unwind (and are caught); 1: they abort the process, which the host warns of.
    pub panic_strategy: u8,
    /// Zero.
    pub padding: [u8; 7],
    /// Zero.
    pub reserved: [u64; 8],
}

impl Manifest {
    /// The first eight bytes.
    pub const MAGIC: [u8; 8] = *b"MNGPLUG\x01";
}

/// What a host can do.
pub mod capability {
    /// Rows of f32 in memory of the CPU.
    pub const CPU_F32: u64 = 1;
    /// Linears that the host computes ([`super::super::Call::linear`]).
    pub const LINEARS: u64 = 1 << 1;
    /// Work over the host's threads ([`super::super::Call::parallel_for`]).
    pub const PARALLEL_FOR: u64 = 1 << 2;
    /// States that the host keeps ([`super::super::Build::declare_state`]).
    pub const STATES: u64 = 1 << 3;
    /// Weights as blocks of the file ([`super::super::Build::weight`]).
    pub const GGML_BLOCKS: u64 = 1 << 4;
    /// Rows that layers hand to later layers of the same step ([`super::super::Build::slot`]).
    pub const SLOTS: u64 = 1 << 5;
    /// All that this version knows.
    pub const ALL: u64 = (1 << 6) - 1;
}

/// Features of processors that code may need.
pub mod cpu_feature {
    /// x86: AVX2.
    pub const AVX2: u64 = 1;
    /// x86: FMA.
    pub const FMA: u64 = 1 << 1;
    /// x86: F16C.
    pub const F16C: u64 = 1 << 2;
    /// x86: AVX-512 F.
    pub const AVX512F: u64 = 1 << 3;
    /// x86: AVX-512 BW.
    pub const AVX512BW: u64 = 1 << 4;
    /// x86: AVX-512 VL.
    pub const AVX512VL: u64 = 1 << 5;
    /// x86: AVX-512 VNNI.
    pub const AVX512VNNI: u64 = 1 << 6;
    /// arm: dot products of bytes.
    pub const DOTPROD: u64 = 1 << 32;
    /// arm: half floats.
    pub const FP16: u64 = 1 << 33;
    /// arm: matrix products of bytes.
    pub const I8MM: u64 = 1 << 34;
}
