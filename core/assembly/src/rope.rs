//! Rope configs to frequencies.

use crate::assembler::{Assembler, Site};
use crate::dims::Dim;
use crate::source::Part;
use menagerie_kernels as kernels;
use menagerie_model::components::{Llama3Scaling, Rope, YarnScaling, base_frequencies};
use menagerie_spec::config::{RopeConfig, RopePairs, RopeScaling};

impl Assembler<'_> {
    /// Every frequency of a rope, in both regimes where there are two.
    pub(crate) fn rope(&mut self, rope: &RopeConfig, key_dim: usize, layer: usize) -> Option<Rope> {
        if !rope.dims.is_multiple_of(2) || rope.dims > key_dim || rope.dims == 0 {
            let text = format!(
                "rope: {} rotating elements in heads of {key_dim}; an even number of at most {key_dim} is needed",
                rope.dims
            );
            self.fault(Some(layer), &text);
            return None;
        }
        let (base, dims) = (rope.base, rope.dims);
        let plain = |divisors: Option<&[f32]>| base_frequencies(base, dims, divisors);
        let mut long_frequencies = None;
        let mut magnitude = 1.0;
        let frequencies = match &rope.scaling {
            RopeScaling::None => plain(None),
            RopeScaling::Linear { factor } => plain(Some(&vec![*factor; dims / 2])),
            &RopeScaling::Yarn {
                factor,
                original_context,
                beta_fast,
                beta_slow,
                magnitude: whole,
                whole_dims,
            } => {
                magnitude = whole;
                YarnScaling { factor, original_context, beta_fast, beta_slow, whole_dims }
                    .frequencies(base, dims)
            }
            &RopeScaling::Llama3 { factor, low, high, original_context } => {
                Llama3Scaling { factor, low, high, original_context }.frequencies(base, dims)
            }
            RopeScaling::Factors { role } => plain(Some(&self.divisors(role, dims)?)),
            RopeScaling::LongRope { short, long, magnitude: whole, .. } => {
                magnitude = *whole;
                let (short, long) = (self.divisors(short, dims), self.divisors(long, dims));
                long_frequencies = Some(plain(Some(&long?)));
                plain(Some(&short?))
            }
        };
        if frequencies.iter().chain(long_frequencies.iter().flatten()).any(|value| !value.is_finite()) {
            self.fault(
                Some(layer),
                &format!("rope: base {base} and its scaling give frequencies that are no numbers"),
            );
            return None;
        }
        let pairs = match rope.pairs {
            RopePairs::Adjacent => kernels::RopePairs::Adjacent,
            RopePairs::Halves => kernels::RopePairs::Halves,
        };
        Some(Rope { pairs, frequencies, long_frequencies, magnitude })
    }

    /// A factor tensor, `[dims / 2]`: a tensor of the whole model that all its layers share.
    fn divisors(&mut self, role: &str, dims: usize) -> Option<Vec<f32>> {
        self.values(Site { role, layer: None }, Part::Main, &[Dim::of("rope_dims/2", dims / 2)])
    }
}
