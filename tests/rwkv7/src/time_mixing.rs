//! The mixer `rwkv7-time-mixing`: the delta rule with decays for every element, over heads with a state each.

use crate::shifted::Shifted;
use menagerie_model::{
    Backend, Linear, LinearInput, Result, Rows, SequenceMixer, SlotId, SlotUse, StateId, StateSpec,
    TransformContext,
};
use menagerie_registry::{BuildResult, ComponentParts, TensorPart, component, or_fault};
use menagerie_rwkv7::math::{FirstValues, HeadNorm, Heads, Projected, sigmoid_rows, tanh_rows};
use menagerie_spec::kind::{Definition, Family, RecordedFault, ResolveContext, RoleDef, Sizes};
use menagerie_spec::{names, options};

names! {
    /// Whether a model has a part.
    pub enum Has {
        /// It has.
        Own = "own",
        /// It has not.
        None = "none",
    }
}

/// Time mixing.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct TimeMixingConfig {
    /// Elements of a head.
    pub head_size: usize,
    /// Whether the values of the first layer are mixed in.
    pub first_values: Has,
    /// Whether what the heads give is gated.
    pub gate: Has,
    /// Whether heads are normed.
    pub head_norm: Has,
}

options! {
    /// Options of `rwkv7-time-mixing`.
    pub struct TimeMixingOptions {
        /// Elements of a head.
        head_size: usize = Key("wkv.head_size"),
        /// Whether the values of the first layer are mixed in.
        first_values: Has = Name("own"),
        /// Whether what the heads give is gated.
        gate: Has = Name("own"),
        /// Whether heads are normed.
        head_norm: Has = Name("own"),
    }
}

/// Tensors of the file, from which [`Heads`] is made.
const VECTOR: &[&str] = &["D"];

impl Definition for TimeMixingConfig {
    type Options = TimeMixingOptions;
    const FAMILY: Family = Family::Mixer;
    const NAME: &'static str = "rwkv7-time-mixing";
    const DOC: &'static str = "Time mixing of RWKV-7 (Peng et al., 2025).";
    const ROLES: &'static [RoleDef] = &[
        RoleDef::values("time_mix_lerp_fused", &["D", "1", "1", "mixes"], "Shares of the token before."),
        RoleDef::linear("time_mix_receptance", &["D", "D"], "What reads."),
        RoleDef::linear("time_mix_key", &["D", "D"], "Keys."),
        RoleDef::linear("time_mix_value", &["D", "D"], "Values."),
        RoleDef::linear("time_mix_output", &["D", "D"], "The way back."),
        RoleDef::linear("time_mix_w1", &["D", "decay_rank"], "Decays, down."),
        RoleDef::linear("time_mix_w2", &["decay_rank", "D"], "Decays, up."),
        RoleDef::values("time_mix_w0", VECTOR, "Added to the decays."),
        RoleDef::linear("time_mix_a1", &["D", "rate_rank"], "Rates, down."),
        RoleDef::linear("time_mix_a2", &["rate_rank", "D"], "Rates, up."),
        RoleDef::values("time_mix_a0", VECTOR, "Added to the rates."),
        RoleDef::linear("time_mix_v1", &["D", "value_rank"], "Shares of the first values, down.")
            .when("first"),
        RoleDef::linear("time_mix_v2", &["value_rank", "D"], "Shares of the first values, up.").when("first"),
        RoleDef::values("time_mix_v0", VECTOR, "Added to the shares of the first values.").when("first"),
        RoleDef::linear("time_mix_g1", &["D", "gate_rank"], "Gates, down.").when("gate"),
        RoleDef::linear("time_mix_g2", &["gate_rank", "D"], "Gates, up.").when("gate"),
        RoleDef::values("time_mix_k_k", VECTOR, "What of a key is removed."),
        RoleDef::values("time_mix_k_a", VECTOR, "How far rates change keys."),
        RoleDef::values("time_mix_r_k", VECTOR, "How far a token reads itself."),
        RoleDef::values("time_mix_ln", VECTOR, "Weight of the heads' norm.").when("norm"),
        RoleDef::only_bias("time_mix_ln", VECTOR, "Bias of the heads' norm.").when("norm"),
    ];

    fn resolve(options: TimeMixingOptions, at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let TimeMixingOptions { head_size, first_values, gate, head_norm } = options;
        if head_size == 0 || head_size > Heads::LARGEST {
            return at.fault("head_size", format!("{head_size}, expected 1 to {}", Heads::LARGEST));
        }
        Ok(Self { head_size, first_values, gate, head_norm })
    }

    fn sizes(&self, into: &mut Sizes) {
        into.holds("first", self.first_values == Has::Own);
        into.holds("gate", self.gate == Has::Own);
        into.holds("norm", self.head_norm == Has::Own);
        into.set("mixes", if self.gate == Has::Own { 6 } else { 5 });
    }
}

component!(mixer TimeMixingConfig, build);

/// Down, between, up.
struct LowRank {
    down: Box<dyn Linear>,
    up: Box<dyn Linear>,
}

impl LowRank {
    fn new(parts: &mut dyn ComponentParts, down: &str, up: &str) -> BuildResult<Self> {
        let (down, up) = (parts.linear(down), parts.linear(up));
        Ok(Self { down: down?, up: up? })
    }

    fn forward(&self, x: &Rows, between: Option<fn(&mut [f32])>, context: &TransformContext) -> Result<Rows> {
        let backend = &context.compute.backend;
        let mut low = self.down.forward(&LinearInput::new(x), context)?;
        if let Some(between) = between {
            let mut values = backend.read(&low)?.into_owned();
            between(&mut values);
            low = backend.upload(values, low.cols())?;
        }
        self.up.forward(&LinearInput::new(&low), context)
    }
}

struct TimeMixing {
    heads: Heads,
    /// Of receptances, decays, keys, values, rates and gates, `[D]` each.
    shares: Vec<Vec<f32>>,
    receptance: Box<dyn Linear>,
    key: Box<dyn Linear>,
    value: Box<dyn Linear>,
    output: Box<dyn Linear>,
    decay: LowRank,
    rate: LowRank,
    first: Option<LowRank>,
    gate: Option<LowRank>,
    first_values: (SlotId, SlotUse),
    shift: StateId,
    state: StateId,
}

fn build(config: &TimeMixingConfig, parts: &mut dyn ComponentParts) -> BuildResult<Box<dyn SequenceMixer>> {
    let TimeMixingConfig { head_size, first_values, gate, head_norm } = config;
    let width = parts.width();
    let first = *first_values == Has::Own;
    let shares = parts.values("time_mix_lerp_fused", TensorPart::Main);
    let [receptance, key, value, output] =
        ["receptance", "key", "value", "output"].map(|name| parts.linear(&format!("time_mix_{name}")));
    let decay = LowRank::new(parts, "time_mix_w1", "time_mix_w2");
    let rate = LowRank::new(parts, "time_mix_a1", "time_mix_a2");
    let first_ranks = first.then(|| LowRank::new(parts, "time_mix_v1", "time_mix_v2")).transpose();
    let gate = (*gate == Has::Own).then(|| LowRank::new(parts, "time_mix_g1", "time_mix_g2")).transpose();
    let heads = heads(*head_size, (first, *head_norm == Has::Own), parts);
    let shift = StateSpec::PerSequence { name: parts.name("time_shift"), shape: vec![width] };
    let shift = parts.states().declare(shift);
    let shape = vec![width / head_size, *head_size, *head_size];
    let state = StateSpec::PerSequence { name: parts.name("time_state"), shape };
    let state = parts.states().declare(state);
    let slot = parts.slots().declare("first values", width);
    let first_values = or_fault(parts, slot);
    Ok(Box::new(TimeMixing {
        heads: heads?,
        shares: shares?.chunks_exact(width).map(<[f32]>::to_vec).collect(),
        receptance: receptance?,
        key: key?,
        value: value?,
        output: output?,
        decay: decay?,
        rate: rate?,
        first: first_ranks?,
        gate: gate?,
        first_values: first_values?,
        shift,
        state,
    }))
}

fn heads(size: usize, (first, norm): (bool, bool), parts: &mut dyn ComponentParts) -> BuildResult<Heads> {
    let [decay, rate, removal, key_rate, bonus] = ["w0", "a0", "k_k", "k_a", "r_k"]
        .map(|name| parts.values(&format!("time_mix_{name}"), TensorPart::Main));
    let first_share = first.then(|| parts.values("time_mix_v0", TensorPart::Main)).transpose();
    let norm = norm
        .then(|| {
            let (weight, bias) = (
                parts.values("time_mix_ln", TensorPart::Main),
                parts.values("time_mix_ln", TensorPart::Bias),
            );
            Ok(HeadNorm { weight: weight?, bias: bias?, eps: 64e-5 })
        })
        .transpose();
    Ok(Heads {
        size,
        decay: decay?,
        rate: rate?,
        first_share: first_share?,
        removal: removal?,
        key_rate: key_rate?,
        bonus: bonus?,
        norm: norm?,
    })
}

impl TimeMixing {
    /// The heads of all sequences, over their states.
    fn run(&self, x: &Projected, width: usize, context: &mut TransformContext) -> Result<Vec<f32>> {
        let (size, layout) = (self.heads.size, context.layout);
        let mut out = vec![0.0; layout.rows() * width];
        for part in layout.sequences() {
            let mut run = |state: &mut [f32]| {
                for (head, state) in state.chunks_exact_mut(size * size).enumerate() {
                    let first = part.rows.start * width + head * size;
                    self.heads.run(head, x, part.rows.clone(), state, |row, values| {
                        out[first + row * width..][..size].copy_from_slice(values);
                    });
                }
            };
            let first = context.states.block_number(self.state, part.sequence)? * width * size;
            if let Some(blocks) = context.states.host_blocks(self.state)? {
                run(&mut blocks[first..first + width * size]);
                continue;
            }
            let mut state = context.states.read_block(self.state, part.sequence)?;
            run(&mut state);
            context.states.write_block(self.state, part.sequence, &state)?;
        }
        Ok(out)
    }
}

impl SequenceMixer for TimeMixing {
    fn forward(&self, x: &Rows, context: &mut TransformContext) -> Result<Rows> {
        let backend: &dyn Backend = &*context.compute.backend;
        let width = x.cols();
        let shifted = Shifted::new(x, self.shift, backend, context)?;
        let mixed = |share: usize| shifted.mixed(&self.shares[share], backend);
        let product = |linear: &dyn Linear, x: &Rows, context: &TransformContext| {
            linear.forward(&LinearInput::new(x), context)
        };
        let receptance = product(&*self.receptance, &mixed(0)?, context)?;
        let decay = self.decay.forward(&mixed(1)?, Some(tanh_rows), context)?;
        let key = product(&*self.key, &mixed(2)?, context)?;
        let for_values = mixed(3)?;
        let value = product(&*self.value, &for_values, context)?;
        let share = self.first.as_ref().map(|first| first.forward(&for_values, None, context)).transpose()?;
        let rate = self.rate.forward(&mixed(4)?, None, context)?;
        let gate = self.gate.as_ref().map(|gate| gate.forward(&mixed(5)?, Some(sigmoid_rows), context));
        let gate = gate.transpose()?;
        shifted.keep(self.shift, context)?;
        let first = match self.first_values {
            (slot, SlotUse::Writes) => {
                let values = backend.copy(&value)?;
                context.slots.write(slot, values);
                None
            }
            (slot, SlotUse::Reads) => Some(backend.read(context.slots.read(slot)?)?.into_owned()),
        };
        let share = share.as_ref().map(|share| backend.read(share)).transpose()?;
        let gate = gate.as_ref().map(|gate| backend.read(gate)).transpose()?;
        let first = first.as_deref().zip(share.as_deref());
        let projected = Projected {
            receptance: &backend.read(&receptance)?,
            decay: &backend.read(&decay)?,
            key: &backend.read(&key)?,
            value: &backend.read(&value)?,
            rate: &backend.read(&rate)?,
            first: first.map(|(values, share)| FirstValues { values, share }),
            gate: gate.as_deref(),
        };
        let out = self.run(&projected, width, context)?;
        let out = backend.upload(out, width)?;
        self.output.forward(&LinearInput::new(&out), context)
    }
}
