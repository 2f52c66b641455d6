//! Dense feed-forward configs to components.

use crate::assembler::{Assembler, Site, boxed};
use crate::dims::Dim;
use menagerie_kernels as kernels;
use menagerie_model::components::{GatedFeedForward, PlainFeedForward};
use menagerie_model::{DenseLinear, FeedForward};
use menagerie_spec::config::{Activation, BiasRule, FeedForwardConfig};

/// Roles of a feed-forward.
#[derive(Clone, Copy)]
pub(crate) struct FeedForwardRoles {
    pub(crate) gate: &'static str,
    pub(crate) up: &'static str,
    pub(crate) down: &'static str,
}

/// Roles of the feed-forward of a block.
const DENSE: FeedForwardRoles = FeedForwardRoles { gate: "ffn_gate", up: "ffn_up", down: "ffn_down" };

impl Assembler<'_> {
    /// The feed-forward of block `layer`; the outer `None` is a fault.
    #[allow(clippy::option_option)]
    pub(crate) fn feed_forward(
        &mut self,
        config: &FeedForwardConfig,
        layer: usize,
    ) -> Option<Option<Box<dyn FeedForward>>> {
        match config {
            FeedForwardConfig::Gated { activation, bias } => {
                self.gated(DENSE, *activation, *bias, layer).map(Some)
            }
            FeedForwardConfig::Plain { activation, bias } => {
                self.plain(DENSE, *activation, *bias, layer).map(Some)
            }
            FeedForwardConfig::Moe(moe) => self.moe(moe, layer).map(Some),
            FeedForwardConfig::None => Some(None),
            other => {
                self.fault(Some(layer), &format!("feed-forward {other:?}: this build has no such component"));
                None
            }
        }
    }

    /// Gate, up and down; gate and up may be the halves of one weight.
    pub(crate) fn gated(
        &mut self,
        roles: FeedForwardRoles,
        activation: Activation,
        bias: BiasRule,
        layer: usize,
    ) -> Option<Box<dyn FeedForward>> {
        let at = Some(layer);
        let down_dims = self.dims(roles.down, at).and_then(|dims| usize::try_from(*dims.first()?).ok());
        let up_dims = self.dims(roles.up, at).and_then(|dims| usize::try_from(*dims.get(1)?).ok());
        let fused =
            !self.has(roles.gate, at) && up_dims.is_some() && up_dims == down_dims.map(|inner| 2 * inner);
        let inner = if fused { down_dims } else { up_dims };
        let inner = inner.map_or(Dim::free("F"), |inner| Dim::of("F", inner));
        let width = Dim::of("D", self.width());
        let halves = if fused {
            self.fused_gate_up(roles, bias, layer)
        } else {
            let gate = self.linear(Site { role: roles.gate, layer: at }, [width, inner], bias);
            let up = self.linear(Site { role: roles.up, layer: at }, [width, inner], bias);
            gate.zip(up)
        };
        let down = self.linear(Site { role: roles.down, layer: at }, [inner, width], bias);
        let (gate, up) = halves?;
        let (gate, up, down) = (boxed(gate), boxed(up), boxed(down?));
        Some(Box::new(GatedFeedForward { gate, up, down, activation: kernel_activation(activation) }))
    }

    /// `ffn_up` of double width: gate rows, then up rows.
    fn fused_gate_up(
        &mut self,
        roles: FeedForwardRoles,
        rule: BiasRule,
        layer: usize,
    ) -> Option<(DenseLinear, DenseLinear)> {
        let site = Site { role: roles.up, layer: Some(layer) };
        let weight = self.weight(site, &[Dim::of("D", self.width()), Dim::free("2F")]);
        let rows = weight.as_ref().map_or(0, |weight| weight.rows());
        let bias = self.bias(site, rule, &[Dim::of("2F", rows)]);
        let (weight, bias) = (weight?, bias?);
        let mut half = |range: std::ops::Range<usize>| {
            let part = weight.row_range(range.clone());
            let part = self.ok(site.layer, part)?;
            let bias = bias.as_ref().and_then(|bias| bias.get(range)).map(<[f32]>::to_vec);
            self.dense(site.layer, part, bias)
        };
        let gate = half(0..rows / 2);
        let up = half(rows / 2..rows);
        gate.zip(up)
    }

    /// Up and down.
    pub(crate) fn plain(
        &mut self,
        roles: FeedForwardRoles,
        activation: Activation,
        bias: BiasRule,
        layer: usize,
    ) -> Option<Box<dyn FeedForward>> {
        let at = Some(layer);
        let inner = self.dims(roles.up, at).and_then(|dims| usize::try_from(*dims.get(1)?).ok());
        let inner = inner.map_or(Dim::free("F"), |inner| Dim::of("F", inner));
        let width = Dim::of("D", self.width());
        let up = self.linear(Site { role: roles.up, layer: at }, [width, inner], bias);
        let down = self.linear(Site { role: roles.down, layer: at }, [inner, width], bias);
        let (up, down) = (boxed(up?), boxed(down?));
        Some(Box::new(PlainFeedForward { up, down, activation: kernel_activation(activation) }))
    }
}

/// The kernel of an activation.
pub(crate) fn kernel_activation(activation: Activation) -> kernels::Activation {
    match activation {
        Activation::Silu => kernels::Activation::Silu,
        Activation::GeluTanh => kernels::Activation::GeluTanh,
        Activation::GeluErf => kernels::Activation::GeluErf,
        Activation::Relu => kernels::Activation::Relu,
        Activation::ReluSquared => kernels::Activation::ReluSquared,
    }
}
