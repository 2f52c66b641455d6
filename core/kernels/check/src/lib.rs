//! References for the kernels: plain forms in f64 ([`naive`]), the defined order in f32 ([`ordered`]), the limits and
//! rates of this machine ([`rates`]) and blocks of random weights ([`weights`]). The binary `rates` prints the rates of
//! every block type.
//!
//! ```
//! use menagerie_kernels::{ActivationCache, Activations, Arithmetic, BlockType, Cpu, matmul};
//! use menagerie_kernels_check::{naive, weights::RandomWeights};
//!
//! let weights = RandomWeights::new(BlockType::Q6_K, 8, 512)?;
//! let (w, x) = (weights.matrix()?, weights.activations(3));
//! let cache = ActivationCache::default();
//! let mut y = vec![0.0; 3 * 8];
//! matmul(&Cpu::new(Some(1))?, Arithmetic::Exact, &w, &Activations::new(&x, 3, 512, &cache)?, &mut y)?;
//! for (y, (sum, magnitude)) in y.iter().zip(naive::matmul(&w, &x)?) {
//!     assert!((f64::from(*y) - sum).abs() <= 1e-6 * magnitude);
//! }
//! # Ok::<(), menagerie_kernels::KernelError>(())
//! ```

pub mod naive;
pub mod ordered;
pub mod rates;
pub mod weights;
