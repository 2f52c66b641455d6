//! The gate of the mixer `attention`.

use crate::kind::{RecordedFault, ResolveContext, Sizes};
use crate::{names, options};

options! {
    /// Gate on the heads' outputs, before the output projection: `heads * activation(gate)`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
    pub struct AttentionGateConfig {
        /// Where it comes from.
        from: GateSource = Required => guarded,
        /// What a factor multiplies.
        per: GatePer = Name("as-stored"),
        /// Its activation.
        activation: GateActivation = Required => guarded,
    }
}

names! {
    /// Where the gate of an attention comes from.
    pub enum GateSource {
        /// A projection of the attention's input (role `attn_gate`).
        Own = "own",
        /// The query projection: head by head a query, then the gate of that head, element by element.
        InterleavedQ = "interleaved-q",
    }
}

names! {
    /// What a factor of a gate multiplies.
    pub enum GatePer {
        /// An element or a whole head: seen from the rows of the projection.
        AsStored = "as-stored",
        /// An element of a head.
        Element = "element",
        /// A whole head.
        Head = "head",
    }
}

names! {
    /// Activation of a gate.
    pub enum GateActivation {
        /// `1 / (1 + exp(-x))`.
        Sigmoid = "sigmoid",
        /// `ln(1 + exp(x))`.
        Softplus = "softplus",
    }
}

/// Sets the conditions and sizes of a gate's tensors.
pub(super) fn gate_sizes(
    gate: Option<AttentionGateConfig>,
    heads: usize,
    value_dim: usize,
    into: &mut Sizes,
) {
    let among = gate.is_some_and(|gate| gate.from == GateSource::InterleavedQ);
    into.holds("gate among queries", among);
    into.holds("queries alone", !among);
    into.holds("gate", gate.is_some() && !among);
    match gate.map(|gate| gate.per) {
        None | Some(GatePer::AsStored) => {}
        Some(GatePer::Element) => into.set("gate_rows", heads * value_dim),
        Some(GatePer::Head) => into.set("gate_rows", heads),
    }
}

/// A gate among the queries has a factor for every element.
pub(super) fn gate_fits(
    gate: Option<AttentionGateConfig>,
    [key_dim, value_dim]: [usize; 2],
    at: &mut ResolveContext<'_>,
) -> Result<(), RecordedFault> {
    let Some(AttentionGateConfig { from: GateSource::InterleavedQ, per, activation: _ }) = gate else {
        return Ok(());
    };
    if per == GatePer::Head {
        return at.fault("gate.per", "a gate from `interleaved-q` has one factor per element, not per head");
    }
    if key_dim != value_dim {
        let message = format!(
            "a query head has {key_dim} elements and its gate {value_dim}: `interleaved-q` requires equal numbers"
        );
        return at.fault("gate.from", message);
    }
    Ok(())
}
