//! Parts that recurrent mixers share: convolution, values per head, gated norm.

use super::qk_norm::head_norm;
use crate::array::array_of;
use menagerie_model::components::{CausalConv, GatedNorm};
use menagerie_model::{Activation, Operation, Param};
use menagerie_registry::{BuildResult, ComponentParts, TensorPart, or_fault};
use menagerie_spec::config::{BiasRule, GatePlace, GatedNormConfig, QkNormOver};

/// Role of the convolution.
const CONVOLUTION: &str = "ssm_conv1d";

/// Transposes taps from `[channels, length]`, as in files, to `[length, channels]`.
pub(super) fn by_tap(taps: &[f32], length: usize) -> Vec<f32> {
    (0..length).flat_map(|tap| taps.iter().skip(tap).step_by(length.max(1)).copied()).collect()
}

/// A convolution with its own taps, `[channels, length]` in files.
pub(super) fn convolution(
    role: &str,
    ConvChannels { state, width }: ConvChannels,
    length: usize,
    parts: &mut dyn ComponentParts,
) -> BuildResult<CausalConv> {
    parts.needs(Operation::ShortConv)?;
    let taps = parts.values(role, TensorPart::Main)?;
    let taps = parts.vector(role, by_tap(&taps, length))?;
    let name = parts.name(state);
    let convolution = CausalConv::new(&name, taps, None, [length, width], parts.states());
    or_fault(parts, convolution)
}

/// Some of the channels of a convolution, with their own state.
pub(super) struct ConvChannels {
    /// Name of the state.
    pub(super) state: &'static str,
    /// Number of channels.
    pub(super) width: usize,
}

/// Splits the convolution of a mixer into one for each part of its channels, as channels do not mix.
pub(super) fn convolutions<const N: usize>(
    parts: &mut dyn ComponentParts,
    channels: [ConvChannels; N],
    length: usize,
    bias: BiasRule,
) -> BuildResult<[CausalConv; N]> {
    parts.needs(Operation::ShortConv)?;
    let taps = parts.values(CONVOLUTION, TensorPart::Main);
    let bias = match bias {
        BiasRule::None => Ok(None),
        _ => parts.values(CONVOLUTION, TensorPart::Bias).map(Some),
    };
    let (taps, bias) = (taps?, bias?);
    let (mut first, mut made) = (0, Vec::with_capacity(N));
    for ConvChannels { state, width } in channels {
        let own = first..first + width;
        let of_part =
            parts.vector(CONVOLUTION, by_tap(&taps[own.start * length..own.end * length], length))?;
        let bias = match &bias {
            Some(bias) => Some(parts.vector(CONVOLUTION, bias[own].to_vec())?),
            None => None,
        };
        let name = parts.name(state);
        let convolution = CausalConv::new(&name, of_part, bias, [length, width], parts.states());
        made.push(or_fault(parts, convolution)?);
        first += width;
    }
    array_of(parts, made)
}

/// The values of a role as a vector.
pub(super) fn vector(role: &str, part: TensorPart, parts: &mut dyn ComponentParts) -> BuildResult<Param> {
    let values = parts.values(role, part)?;
    parts.vector(role, values)
}

/// The gate on a mixer's output and its norm over each of `heads` parts of `dim` elements.
pub(super) fn gated_norm(
    config: Option<&GatedNormConfig>,
    [dim, heads]: [usize; 2],
    parts: &mut dyn ComponentParts,
) -> BuildResult<GatedNorm> {
    let Some(GatedNormConfig { gate, norm }) = config else { return Ok(GatedNorm::Gate) };
    let norm = head_norm("ssm_norm", norm, QkNormOver::Head, [dim, heads], parts)?;
    Ok(match gate {
        GatePlace::BeforeNorm => GatedNorm::GateFirst(norm),
        GatePlace::AfterNorm => GatedNorm::NormFirst(norm, Activation::Silu),
    })
}
