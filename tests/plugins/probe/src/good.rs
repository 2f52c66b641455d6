//! Components that do what they should.

use menagerie_plugin::{
    Activation, Build, Call, Component, FeedForward, FrequencyCall, Host, Linear, Mixer, Norm, Raw, Result,
    Role, Rope, Rows, RowsMut, State, StoredRows, TokenState, options,
};

options! {
    /// Options of `dynamic-tanh`.
    pub(crate) struct DynamicTanhOptions {
        /// Multiplies inside the tanh.
        alpha: f32 = Required => guarded,
    }
}

/// `weight * tanh(alpha * x) + bias` (Zhu et al., "Transformers without Normalization", 2025).
pub(crate) struct DynamicTanh {
    alpha: f32,
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Component for DynamicTanh {
    const NAME: &'static str = "dynamic-tanh";
    const DOC: &'static str = "`weight * tanh(alpha * x) + bias` (Zhu et al., 2025).";
    const ROLES: &'static [Role] = &[
        Role::values("", &["width"], "Multiplies the row."),
        Role::only_bias("", &["width"], "Added to the row."),
    ];
    type Options = DynamicTanhOptions;

    fn create(options: DynamicTanhOptions, build: &mut Build) -> Result<Self> {
        let (weight, bias) = (build.values(""), build.bias_values(""));
        Ok(Self { alpha: options.alpha, weight: weight?, bias: bias? })
    }
}

impl Norm for DynamicTanh {
    fn forward(&self, x: Rows, mut output: RowsMut, _host: &Host) -> Result<()> {
        for row in 0..x.rows() {
            let vectors = self.weight.iter().zip(&self.bias);
            for ((y, x), (weight, bias)) in output.row_mut(row).iter_mut().zip(x.row(row)).zip(vectors) {
                *y = weight * (self.alpha * x).tanh() + bias;
            }
        }
        Ok(())
    }
}

options! {
    /// Options of `decaying-mean`.
    pub(crate) struct DecayingMeanOptions {
        /// Columns that are kept.
        channels: usize = Key("mean.channels"),
        /// What is left of the sum after a token.
        decay: f32 = Number(0.5) => guarded,
    }
}

/// `output(sum over earlier tokens of decay^distance * value(x))`.
pub(crate) struct DecayingMean {
    value: Linear,
    output: Linear,
    decay: f32,
    state: State,
}

impl Component for DecayingMean {
    const NAME: &'static str = "decaying-mean";
    const DOC: &'static str = "A sum over earlier tokens that decays.";
    const ROLES: &'static [Role] = &[
        Role::linear("mean_value", &["D", "channels"], "What is summed."),
        Role::linear("mean_output", &["channels", "D"], "The output projection."),
    ];
    type Options = DecayingMeanOptions;

    fn create(options: DecayingMeanOptions, build: &mut Build) -> Result<Self> {
        let (value, output) = (build.linear("mean_value"), build.linear("mean_output"));
        let state = build.state("mean", &[options.channels]);
        Ok(Self { value: value?, output: output?, decay: options.decay, state: state? })
    }
}

impl Mixer for DecayingMean {
    fn forward(&self, call: Call) -> Result<()> {
        let Call { x, mut output, mut states, sequences, host, .. } = call;
        let mut value = host.product(&self.value, x)?;
        for (index, sequence) in sequences.iter().enumerate() {
            let sums = states.get_mut(index, &self.state)?;
            for row in sequence.rows() {
                for (sum, value) in sums.iter_mut().zip(value.row_mut(row)) {
                    *sum = *sum * self.decay + *value;
                    *value = *sum;
                }
            }
        }
        host.linear(&self.output, value.as_rows(), &mut output)
    }
}

/// A gated feed-forward with SiLU (Shazeer, 2020), its rows over the host's threads.
pub(crate) struct Gated {
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl Component for Gated {
    const NAME: &'static str = "gated";
    const DOC: &'static str = "A gated feed-forward with SiLU (Shazeer, 2020).";
    const ROLES: &'static [Role] = &[
        Role::linear("ffn_gate", &["D", "F"], "The gate."),
        Role::linear("ffn_up", &["D", "F"], "What is gated."),
        Role::linear("ffn_down", &["F", "D"], "The way down."),
    ];
    type Options = ();

    fn create(_options: (), build: &mut Build) -> Result<Self> {
        let (gate, up, down) = (build.linear("ffn_gate"), build.linear("ffn_up"), build.linear("ffn_down"));
        Ok(Self { gate: gate?, up: up?, down: down? })
    }
}

impl FeedForward for Gated {
    fn forward(&self, call: Call, _raw: Raw) -> Result<()> {
        let Call { x, mut output, host, .. } = call;
        let (mut gate, up) = (host.product(&self.gate, x)?, host.product(&self.up, x)?);
        let up = up.as_rows();
        host.parallel_over(gate.reborrow().chunks(1), |row, mut chunk| {
            for (gate, up) in chunk.row_mut(0).iter_mut().zip(up.row(row)) {
                *gate = *gate / (1.0 + (-*gate).exp()) * up;
            }
        })?;
        host.linear(&self.down, gate.as_rows(), &mut output)
    }
}

options! {
    /// Options of `mish`.
    pub(crate) struct MishOptions {
        /// Multiplies inside.
        beta: f32 = Number(1.0),
    }
}

/// `x * tanh(softplus(beta * x))` (Misra, 2019).
pub(crate) struct Mish {
    beta: f32,
}

impl Component for Mish {
    const NAME: &'static str = "mish";
    const DOC: &'static str = "`x * tanh(softplus(beta * x))` (Misra, 2019).";
    type Options = MishOptions;

    fn create(options: MishOptions, _build: &mut Build) -> Result<Self> {
        Ok(Self { beta: options.beta })
    }
}

impl Activation for Mish {
    fn forward(&self, x: Rows, mut output: RowsMut, _host: &Host) -> Result<()> {
        for row in 0..x.rows() {
            for (y, x) in output.row_mut(row).iter_mut().zip(x.row(row)) {
                *y = x * (self.beta * x).exp().ln_1p().tanh();
            }
        }
        Ok(())
    }
}

options! {
    /// Options of `stretched`.
    pub(crate) struct StretchedOptions {
        /// Divides the frequencies.
        factor: f32 = Required,
    }
}

/// Frequencies that are all divided (Chen et al., "Extending Context Window", 2023).
pub(crate) struct Stretched {
    factor: f32,
}

impl Component for Stretched {
    const NAME: &'static str = "stretched";
    const DOC: &'static str = "Frequencies that are all divided (Chen et al., 2023).";
    type Options = StretchedOptions;

    fn create(options: StretchedOptions, _build: &mut Build) -> Result<Self> {
        Ok(Self { factor: options.factor })
    }
}

impl Rope for Stretched {
    fn frequencies(&self, call: FrequencyCall) -> Result<()> {
        let FrequencyCall { base, rotated, frequencies, .. } = call;
        for (pair, frequency) in frequencies.iter_mut().enumerate() {
            let exponent = -2.0 * pair as f64 / rotated as f64;
            *frequency = (base.powf(exponent) / f64::from(self.factor)) as f32;
        }
        Ok(())
    }
}

/// `output(mean over all tokens so far of value(x))`: a state with a row for every token, stored by the host and read back.
pub(crate) struct Remembering {
    value: Linear,
    output: Linear,
    state: TokenState,
}

impl Component for Remembering {
    const NAME: &'static str = "remembering";
    const DOC: &'static str = "The mean over all tokens so far.";
    const ROLES: &'static [Role] = &[
        Role::linear("mean_value", &["D", "C"], "What the mean is of."),
        Role::linear("mean_output", &["C", "D"], "The output projection."),
    ];
    type Options = ();

    fn create(_options: (), build: &mut Build) -> Result<Self> {
        let (value, output) = (build.linear("mean_value"), build.linear("mean_output"));
        let (value, output) = (value?, output?);
        let state = build.token_state("values", [1, value.outputs()], None)?;
        Ok(Self { value, output, state })
    }
}

impl Mixer for Remembering {
    fn forward(&self, call: Call) -> Result<()> {
        let Call { x, mut output, sequences, host, .. } = call;
        let mut mixed = host.product(&self.value, x)?;
        host.store(&self.state, mixed.as_rows())?;
        let width = self.value.outputs();
        for (index, sequence) in sequences.iter().enumerate() {
            let mut all = host.scratch_rows(sequence.past() + sequence.rows().len(), width)?;
            host.stored(&self.state, StoredRows { sequence: index, first: 0 }, &mut all)?;
            for (place, row) in sequence.rows().enumerate() {
                let seen = sequence.past() + place + 1;
                for (column, mean) in mixed.row_mut(row).iter_mut().enumerate() {
                    let sum: f32 = (0..seen).map(|token| all.row(token)[column]).sum();
                    *mean = sum / seen as f32;
                }
            }
        }
        host.linear(&self.output, mixed.as_rows(), &mut output)
    }
}
