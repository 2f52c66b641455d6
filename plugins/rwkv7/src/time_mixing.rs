//! [`TimeMixing`]: the mixer, heads with a matrix of state each.

use crate::math::{FirstValues, HeadNorm, Heads, Projected, sigmoid_rows, tanh_rows};
use crate::shifted::{Shifted, change, keep, whole};
use menagerie_plugin::{
    Build, Call, Component, Error, Host, Linear, Mixer, Result, Role, Rows, RowsMut, Slot, State, options,
};

options! {
    /// Options of `time-mixing`.
    pub struct TimeMixingOptions {
        /// Elements of a head.
        head_size: usize = Key("wkv.head_size"),
        /// Added to the variance in the norm of the heads, where a file has that.
        head_eps: f32 = Number(64e-5) => guarded,
    }
}

/// The delta rule with a decay for every element of a key (Peng et al., 2025).
pub struct TimeMixing {
    heads: Heads,
    /// Shares of the token before, `[D]` each, as in [`Mix`].
    shares: Vec<Vec<f32>>,
    receptance: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    decay: LowRank,
    rate: LowRank,
    first: Option<LowRank>,
    gate: Option<LowRank>,
    first_values: Slot,
    before: State,
    state: State,
}

/// What a mix of a token with the one before it goes into, in the order of `time_mix_lerp_fused`.
#[derive(Clone, Copy)]
enum Mix {
    Receptance,
    Decay,
    Key,
    Value,
    Rate,
    Gate,
}

/// Two linears, from D to a few elements and back.
struct LowRank {
    down: Linear,
    up: Linear,
}

impl LowRank {
    fn new(build: &mut Build, down: &str, up: &str) -> Result<LowRank> {
        let (down, up) = (build.linear(down), build.linear(up));
        Ok(LowRank { down: down?, up: up? })
    }

    /// With what changes the few elements.
    fn product<'a>(&self, x: Rows, between: Option<fn(&mut [f32])>, host: &Host<'a>) -> Result<RowsMut<'a>> {
        let mut few = host.product(&self.down, x)?;
        if let Some(between) = between {
            change(&mut few, between, host)?;
        }
        host.product(&self.up, few.as_rows())
    }
}

impl Component for TimeMixing {
    const NAME: &'static str = "time-mixing";
    const DOC: &'static str = "Time mixing of RWKV-7 (Peng et al., 2025): `S = S diag(w) - (S k')(a k')^T + v k^T` per head, read by `S r`.";
    const ROLES: &'static [Role] = &[
        Role::values(
            "time_mix_lerp_fused",
            &["D", "1", "1", "mixes"],
            "Shares of the token before: of r, w, k, v, a, g.",
        ),
        Role::linear("time_mix_receptance", &["D", "D"], "What reads the state."),
        Role::linear("time_mix_key", &["D", "D"], "Keys."),
        Role::linear("time_mix_value", &["D", "D"], "Values."),
        Role::linear("time_mix_output", &["D", "D"], "The way back."),
        Role::linear("time_mix_w1", &["D", "decay_rank"], "Decays, down."),
        Role::linear("time_mix_w2", &["decay_rank", "D"], "Decays, up."),
        Role::values("time_mix_w0", &["D"], "Added to the decays."),
        Role::linear("time_mix_a1", &["D", "rate_rank"], "Rates, down."),
        Role::linear("time_mix_a2", &["rate_rank", "D"], "Rates, up."),
        Role::values("time_mix_a0", &["D"], "Added to the rates."),
        Role::linear("time_mix_v1", &["D", "value_rank"], "Shares of the first block's values, down.")
            .optional(),
        Role::linear("time_mix_v2", &["value_rank", "D"], "Shares of the first block's values, up.")
            .optional(),
        Role::values("time_mix_v0", &["D"], "Added to the shares of the first block's values.").optional(),
        Role::linear("time_mix_g1", &["D", "gate_rank"], "Gates, down.").optional(),
        Role::linear("time_mix_g2", &["gate_rank", "D"], "Gates, up.").optional(),
        Role::values("time_mix_k_k", &["D"], "What of a key is removed from the state."),
        Role::values("time_mix_k_a", &["D"], "How far rates change keys."),
        Role::values("time_mix_r_k", &["D"], "How far a token reads itself beside the state."),
        Role::values("time_mix_ln", &["D"], "Weight of the norm of the heads.").optional(),
        Role::only_bias("time_mix_ln", &["D"], "Bias of the norm of the heads.").optional(),
    ];
    type Options = TimeMixingOptions;

    fn create(options: TimeMixingOptions, build: &mut Build) -> Result<Self> {
        let TimeMixingOptions { head_size, head_eps } = options;
        let width = build.width();
        if head_size == 0 || head_size > Heads::LARGEST || width % head_size != 0 {
            return Err(Error::new(format!(
                "head_size is {head_size}, expected a divisor of the width {width} up to {}",
                Heads::LARGEST
            )));
        }
        let first_values = build.slot("rwkv7 first values", width)?;
        let [receptance, key, value, output] =
            ["receptance", "key", "value", "output"].map(|name| build.linear(&format!("time_mix_{name}")));
        let decay = LowRank::new(build, "time_mix_w1", "time_mix_w2");
        let rate = LowRank::new(build, "time_mix_a1", "time_mix_a2");
        let first = match first_values {
            Slot::Writes(_) => Ok(None),
            Slot::Reads(_) => LowRank::new(build, "time_mix_v1", "time_mix_v2").map(Some),
        };
        let gated = build.has("time_mix_g1");
        let gate = gated.then(|| LowRank::new(build, "time_mix_g1", "time_mix_g2")).transpose();
        let shares = build.values("time_mix_lerp_fused").and_then(|all| shares(&all, width, gated));
        let heads = heads(head_size, head_eps, first_values, build);
        let before = build.state("time_shift", &[width]);
        let state = build.state("time_state", &[width / head_size, head_size, head_size]);
        Ok(Self {
            heads: heads?,
            shares: shares?,
            receptance: receptance?,
            key: key?,
            value: value?,
            output: output?,
            decay: decay?,
            rate: rate?,
            first: first?,
            gate: gate?,
            first_values,
            before: before?,
            state: state?,
        })
    }
}

/// The shares of each [`Mix`]: a sixth only where there are gates.
fn shares(all: &[f32], width: usize, gated: bool) -> Result<Vec<Vec<f32>>> {
    let wanted = if gated { 6 } else { 5 };
    if all.len() != wanted * width {
        let found = all.len() / width;
        return Err(Error::new(format!(
            "time_mix_lerp_fused: expected {wanted} rows of shares (one of them for the gate, if there is one), found {found}"
        )));
    }
    Ok(all.chunks_exact(width).map(<[f32]>::to_vec).collect())
}

fn heads(size: usize, eps: f32, first_values: Slot, build: &mut Build) -> Result<Heads> {
    let [decay, rate, removal, key_rate, bonus] =
        ["w0", "a0", "k_k", "k_a", "r_k"].map(|name| build.values(&format!("time_mix_{name}")));
    let reads = matches!(first_values, Slot::Reads(_));
    let first_share = reads.then(|| build.values("time_mix_v0")).transpose();
    let norm = build.has("time_mix_ln").then(|| {
        let (weight, bias) = (build.values("time_mix_ln"), build.bias_values("time_mix_ln"));
        Ok::<_, Error>(HeadNorm { weight: weight?, bias: bias?, eps })
    });
    let norm = norm.transpose();
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

impl Mixer for TimeMixing {
    const EXACT_ROWS: bool = true;

    fn forward(&self, call: Call) -> Result<()> {
        let Call { x, mut output, sequences, mut states, mut slots, host, .. } = call;
        let mut mixed = host.scratch_rows(x.rows(), x.cols())?;
        let shifted = Shifted::new(x, &sequences, &states, &self.before)?;
        let mix = |what: Mix, into: &mut RowsMut| shifted.mix(&self.shares[what as usize], into, &host);
        mix(Mix::Receptance, &mut mixed)?;
        let receptance = host.product(&self.receptance, mixed.as_rows())?;
        mix(Mix::Decay, &mut mixed)?;
        let decay = self.decay.product(mixed.as_rows(), Some(tanh_rows), &host)?;
        mix(Mix::Key, &mut mixed)?;
        let key = host.product(&self.key, mixed.as_rows())?;
        mix(Mix::Value, &mut mixed)?;
        let value = host.product(&self.value, mixed.as_rows())?;
        let share =
            self.first.as_ref().map(|first| first.product(mixed.as_rows(), None, &host)).transpose()?;
        mix(Mix::Rate, &mut mixed)?;
        let rate = self.rate.product(mixed.as_rows(), None, &host)?;
        let gate = match &self.gate {
            Some(gate) => {
                mix(Mix::Gate, &mut mixed)?;
                Some(gate.product(mixed.as_rows(), Some(sigmoid_rows), &host)?)
            }
            None => None,
        };
        keep(x, &sequences, &mut states, &self.before)?;
        let first = match &self.first_values {
            Slot::Writes(slot) => {
                slots.write(slot)?.copy_from(value.as_rows())?;
                None
            }
            Slot::Reads(slot) => Some(slots.read(slot)?),
        };
        let first = first.zip(share.as_ref());
        let projected = Projected {
            receptance: whole(receptance.as_rows())?,
            decay: whole(decay.as_rows())?,
            key: whole(key.as_rows())?,
            value: whole(value.as_rows())?,
            rate: whole(rate.as_rows())?,
            first: match first {
                Some((values, share)) => {
                    Some(FirstValues { values: whole(values)?, share: whole(share.as_rows())? })
                }
                None => None,
            },
            gate: gate.as_ref().map(|gate| whole(gate.as_rows())).transpose()?,
        };
        // What has been read of the mixed rows is done with: the heads write there.
        let (size, across) = (self.heads.size, x.cols() / self.heads.size);
        let tiles = mixed.reborrow().tiles(&sequences, size)?;
        let chunks = states.chunks(&self.state, size * size)?;
        host.parallel_over((tiles, chunks), |part, (mut tile, state)| {
            let rows = sequences.get(part / across).rows();
            self.heads.run(part % across, &projected, rows, state, |row, values| {
                tile.row_mut(row).copy_from_slice(values);
            });
        })?;
        host.linear(&self.output, mixed.as_rows(), &mut output)
    }
}
