//! Components for the tests: one that is right for every family.
#![allow(missing_docs, dead_code, unreachable_pub, unused_imports)]

mod hooks;

pub use hooks::{Counting, Halved};

use menagerie_plugin::{
    Activation, Build, Call, Causality, Component, Error, FeedForward, FrequencyCall, Host, Linear, Mixer,
    Norm, Raw, Result, Role, Rope, Rows, RowsMut, SampleCall, Sampler, Slot, State, StoredRows, TokenState,
    Tokenizer, names, options,
};

options! {
    /// Options of `dynamic-tanh`.
    pub struct DynamicTanhOptions {
        /// Multiplies inside the tanh.
        alpha: f32 = Required => guarded,
    }
}

pub struct DynamicTanh {
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

names! {
    /// What a head's state forgets by.
    pub enum Decay {
        /// All heads the same.
        Same = "same",
        /// The later the head, the slower.
        Stepped = "stepped",
    }
}

options! {
    /// Options of `retention`.
    pub struct RetentionOptions {
        /// How many heads.
        heads: usize = KeyOr("retention.heads", 2.0),
        /// What is left of the state after a token.
        left: f64 = Number(0.75) => guarded,
        /// What a head forgets by.
        decay: Decay = Name("stepped"),
    }
}

/// `y = O (q S)`, `S = decay S + k^T v`, by head (Sun et al., "Retentive Network", 2023), over tiles of the rows.
pub struct Retention {
    decays: Vec<f32>,
    projections: [Linear; 4],
    state: State,
    dim: usize,
}

impl Component for Retention {
    const NAME: &'static str = "retention";
    const DOC: &'static str = "Retention (Sun et al., 2023).";
    const ROLES: &'static [Role] = &[
        Role::linear("attn_q", &["D", "D"], "Queries."),
        Role::linear_with_bias("attn_k", &["D", "D"], "Keys."),
        Role::linear_may_have_bias("attn_v", &["D", "D"], "Values."),
        Role::linear("attn_output", &["D", "D"], "The way out."),
    ];
    type Options = RetentionOptions;

    fn create(options: RetentionOptions, build: &mut Build) -> Result<Self> {
        let RetentionOptions { heads, left, decay } = options;
        if heads == 0 || build.width() % heads != 0 {
            return Err(Error::new(format!("heads: {heads} do not divide {} columns", build.width())));
        }
        let dim = build.width() / heads;
        let decay_of = |head: usize| match decay {
            Decay::Same => left as f32,
            Decay::Stepped => (left as f32).powi(head as i32 + 1),
        };
        let [q, k, v, o] = ["attn_q", "attn_k", "attn_v", "attn_output"].map(|role| build.linear(role));
        let state = build.state("s", &[heads, dim, dim])?;
        Ok(Self { decays: (0..heads).map(decay_of).collect(), projections: [q?, k?, v?, o?], state, dim })
    }
}

impl Mixer for Retention {
    fn forward(&self, call: Call) -> Result<()> {
        let Call { x, mut output, sequences, mut states, host, .. } = call;
        let [q, k, v, o] = &self.projections;
        let (q, k, v) = (host.product(q, x)?, host.product(k, x)?, host.product(v, x)?);
        let (q, k, v, dim) = (q.as_rows(), k.as_rows(), v.as_rows(), self.dim);
        let mut mixed = host.scratch_rows(x.rows(), x.cols())?;
        let heads = self.decays.len();
        let parts = (mixed.reborrow().tiles(&sequences, dim)?, states.chunks(&self.state, dim * dim)?);
        host.parallel_over(parts, |index, (mut tile, state)| {
            let (sequence, head) = (sequences.get(index / heads), index % heads);
            let columns = head * dim..(head + 1) * dim;
            let [q, k, v] = [q, k, v].map(|rows| rows.range(sequence.rows()).columns(columns.clone()));
            for row in 0..tile.rows() {
                let y = tile.row_mut(row);
                y.fill(0.0);
                for (line, (k, q)) in state.chunks_exact_mut(dim).zip(k.row(row).iter().zip(q.row(row))) {
                    for ((s, v), y) in line.iter_mut().zip(v.row(row)).zip(y.iter_mut()) {
                        *s = *s * self.decays[head] + k * v;
                        *y += q * *s;
                    }
                }
            }
        })?;
        host.linear(o, mixed.as_rows(), &mut output)
    }
}

/// The mean of the last three tokens, from rows that the host stores.
pub struct WindowMean {
    state: TokenState,
}

pub const WINDOW: usize = 3;

impl Component for WindowMean {
    const NAME: &'static str = "window-mean";
    const DOC: &'static str = "The mean of the last three tokens.";
    type Options = ();

    fn create(_options: (), build: &mut Build) -> Result<Self> {
        let width = build.width();
        Ok(Self { state: build.token_state("rows", [1, width], Some(WINDOW))? })
    }
}

impl Mixer for WindowMean {
    fn forward(&self, call: Call) -> Result<()> {
        let Call { x, mut output, sequences, host, .. } = call;
        host.store(&self.state, x)?;
        for (index, sequence) in sequences.iter().enumerate() {
            for (row, position) in sequence.rows().zip(sequence.past()..) {
                let first = (position + 1).saturating_sub(WINDOW);
                let count = position + 1 - first;
                let mut seen = host.scratch_rows(count, x.cols())?;
                host.stored(&self.state, StoredRows { sequence: index, first }, &mut seen)?;
                let y = output.row_mut(row);
                y.fill(0.0);
                for seen in seen.as_rows().iter() {
                    y.iter_mut().zip(seen).for_each(|(y, x)| *y += x / count as f32);
                }
            }
        }
        Ok(())
    }
}

/// The mean of all tokens of a sequence, later ones too.
pub struct Everywhere;

impl Component for Everywhere {
    const NAME: &'static str = "everywhere";
    const DOC: &'static str = "The mean of all tokens.";
    type Options = ();

    fn create(_options: (), _build: &mut Build) -> Result<Self> {
        Ok(Self)
    }
}

impl Mixer for Everywhere {
    const CAUSALITY: Causality = Causality::Bidirectional;

    fn forward(&self, call: Call) -> Result<()> {
        let Call { x, mut output, sequences, .. } = call;
        for sequence in sequences.iter() {
            let mut mean = vec![0.0; x.cols()];
            let rows = x.range(sequence.rows());
            for row in rows.iter() {
                mean.iter_mut().zip(row).for_each(|(mean, x)| *mean += x / rows.rows() as f32);
            }
            for row in sequence.rows() {
                output.row_mut(row).copy_from_slice(&mean);
            }
        }
        Ok(())
    }
}

/// Values of the first layer, handed to later ones, which add theirs.
pub struct FirstValues {
    value: Linear,
    slot: Slot,
}

impl Component for FirstValues {
    const NAME: &'static str = "first-values";
    const DOC: &'static str = "A layer's values and the first one's.";
    const ROLES: &'static [Role] = &[Role::linear("attn_v", &["D", "D"], "Values.")];
    type Options = ();

    fn create(_options: (), build: &mut Build) -> Result<Self> {
        let (width, value) = (build.width(), build.linear("attn_v"));
        let slot = build.slot("v_first", width);
        Ok(Self { value: value?, slot: slot? })
    }
}

impl Mixer for FirstValues {
    fn forward(&self, call: Call) -> Result<()> {
        let Call { x, mut output, mut slots, host, .. } = call;
        host.linear(&self.value, x, &mut output)?;
        match &self.slot {
            Slot::Writes(slot) => slots.write(slot)?.copy_from(output.as_rows()),
            Slot::Reads(slot) => {
                let first = slots.read(slot)?;
                for row in 0..first.rows() {
                    output.row_mut(row).iter_mut().zip(first.row(row)).for_each(|(y, first)| *y += first);
                }
                Ok(())
            }
        }
    }
}

/// `stream + block + W (x + the row before)`.
pub struct Shifted {
    up: Linear,
    before: State,
    last: State,
}

impl Component for Shifted {
    const NAME: &'static str = "shifted";
    const DOC: &'static str = "A linear over a row and the one before.";
    const ROLES: &'static [Role] = &[Role::linear("ffn_up", &["D", "D"], "The linear.")];
    type Options = ();

    fn create(_options: (), build: &mut Build) -> Result<Self> {
        let (width, up) = (build.width(), build.linear("ffn_up"));
        let (before, last) = (build.state("before", &[width]), build.state("last", &[width]));
        Ok(Self { up: up?, before: before?, last: last? })
    }
}

impl FeedForward for Shifted {
    fn forward(&self, call: Call, raw: Raw) -> Result<()> {
        let Call { x, mut output, sequences, mut states, host, .. } = call;
        let mut sums = host.scratch_rows(x.rows(), x.cols())?;
        for (index, sequence) in sequences.iter().enumerate() {
            let [before, last] = states.several_mut(index, [&self.before, &self.last])?;
            for row in sequence.rows() {
                before.copy_from_slice(last);
                last.copy_from_slice(x.row(row));
                let sum = sums.row_mut(row).iter_mut();
                sum.zip(last.iter().zip(before.iter())).for_each(|(sum, (x, before))| *sum = x + before);
            }
        }
        host.linear(&self.up, sums.as_rows(), &mut output)?;
        host.parallel_over(output.chunks(2), |index, mut rows| {
            for row in 0..rows.rows() {
                let raw = raw.stream.row(index * 2 + row).iter().zip(raw.block.row(index * 2 + row));
                rows.row_mut(row).iter_mut().zip(raw).for_each(|(y, (stream, block))| *y += stream + block);
            }
        })
    }
}

/// `x / (1 + |x|)`.
pub struct Softsign;

impl Component for Softsign {
    const NAME: &'static str = "softsign";
    const DOC: &'static str = "`x / (1 + |x|)`.";
    type Options = ();

    fn create(_options: (), _build: &mut Build) -> Result<Self> {
        Ok(Self)
    }
}

impl Activation for Softsign {
    fn forward(&self, x: Rows, output: RowsMut, host: &Host) -> Result<()> {
        host.parallel_over(output.chunks(1), |row, mut y| {
            y.row_mut(0).iter_mut().zip(x.row(row)).for_each(|(y, x)| *y = x / (1.0 + x.abs()));
        })
    }
}

options! {
    /// Options of `stretched`.
    pub struct StretchedOptions {
        /// Tokens it was trained with.
        trained: usize = Number(2048.0),
    }
}

/// Frequencies divided by how much longer the context is than in training.
pub struct Stretched {
    trained: usize,
}

impl Component for Stretched {
    const NAME: &'static str = "stretched";
    const DOC: &'static str = "Position interpolation (Chen et al., 2023).";
    type Options = StretchedOptions;

    fn create(options: StretchedOptions, _build: &mut Build) -> Result<Self> {
        Ok(Self { trained: options.trained })
    }
}

impl Rope for Stretched {
    fn frequencies(&self, call: FrequencyCall) -> Result<()> {
        let factor = (call.context_length as f64 / self.trained as f64).max(1.0);
        for (pair, frequency) in call.frequencies.iter_mut().enumerate() {
            let exponent = -2.0 * pair as f64 / call.rotated as f64;
            *frequency = (call.base.powf(exponent) / factor) as f32;
        }
        *call.magnitude = 1.0;
        Ok(())
    }
}

options! {
    /// Options of `top-n-sigma`.
    pub struct TopNSigmaOptions {
        /// Deviations below the largest logit.
        n: f32 = Number(1.0),
    }
}

/// Logits more than `n` standard deviations below the largest go (Tang et al., "Top-nσ", 2024).
pub struct TopNSigma {
    n: f32,
}

impl Component for TopNSigma {
    const NAME: &'static str = "top-n-sigma";
    const DOC: &'static str = "Top-nσ (Tang et al., 2024).";
    type Options = TopNSigmaOptions;

    fn create(options: TopNSigmaOptions, _build: &mut Build) -> Result<Self> {
        Ok(Self { n: options.n })
    }
}

impl Sampler for TopNSigma {
    fn sample(&self, call: SampleCall) -> Result<()> {
        let count = call.logits.len().max(1) as f32;
        let mean = call.logits.iter().sum::<f32>() / count;
        let deviation = (call.logits.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / count).sqrt();
        let largest = call.logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for logit in call.logits.iter_mut().filter(|logit| **logit < largest - self.n * deviation) {
            *logit = f32::NEG_INFINITY;
        }
        Ok(())
    }
}

/// The longest token of the vocabulary, again and again.
pub struct Longest {
    tokens: Vec<String>,
}

impl Component for Longest {
    const NAME: &'static str = "longest";
    const DOC: &'static str = "The longest token first.";
    type Options = ();

    fn create(_options: (), build: &mut Build) -> Result<Self> {
        let vocabulary = build.vocabulary()?.ok_or("expected a vocabulary")?;
        let tokens = (0..vocabulary.tokens()).map(|id| Ok(vocabulary.token(id)?.text.to_owned()));
        Ok(Self { tokens: tokens.collect::<Result<_>>()? })
    }
}

impl Tokenizer for Longest {
    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        let mut rest = text;
        while !rest.is_empty() {
            let fits = self.tokens.iter().enumerate().filter(|(_, token)| rest.starts_with(token.as_str()));
            let longest = fits.max_by_key(|(_, token)| token.len());
            let (id, token) = longest.ok_or_else(|| Error::new(format!("no token begins {rest:?}")))?;
            ids.push(id as u32);
            rest = &rest[token.len()..];
        }
        Ok(())
    }

    fn decode(&self, id: u32, bytes: &mut Vec<u8>) -> Result<()> {
        let token =
            self.tokens.get(id as usize).ok_or_else(|| Error::new(format!("there is no token {id}")))?;
        bytes.extend_from_slice(token.as_bytes());
        Ok(())
    }
}
