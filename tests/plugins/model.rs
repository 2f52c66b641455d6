//! [`Model`]: a small model whose norms, mixers and feed-forwards are the probe's, and what it computes, in plain f64 loops.

use gguf_file::{GgmlType, GgufWriter};
use menagerie_testkit::SplitMix64;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub const WIDTH: usize = 12;
pub const LAYERS: usize = 2;
pub const VOCABULARY: usize = 30;
const CHANNELS: usize = 5;
const INNER: usize = 20;
const ALPHA: f32 = 0.7;
const DECAY: f64 = 0.25;

/// Tensors by name: dims, the contiguous one first, and values.
pub struct Model {
    pub tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

impl Default for Model {
    fn default() -> Model {
        let mut random = SplitMix64::new(11);
        let mut tensors = BTreeMap::new();
        let mut add = |name: String, dims: &[usize], center: f32| {
            let values = random.values(dims.iter().product(), center, 0.6);
            tensors.insert(name, (dims.to_vec(), values));
        };
        add("token_embd.weight".into(), &[WIDTH, VOCABULARY], 0.0);
        add("output.weight".into(), &[WIDTH, VOCABULARY], 0.0);
        let of_layer = |layer: usize| ["attn_norm", "ffn_norm"].map(|role| format!("blk.{layer}.{role}"));
        for site in (0..LAYERS).flat_map(of_layer).chain(["output_norm".to_owned()]) {
            add(format!("{site}.weight"), &[WIDTH], 1.0);
            add(format!("{site}.bias"), &[WIDTH], 0.0);
        }
        for layer in 0..LAYERS {
            let mut add = |role: &str, dims: &[usize]| add(format!("blk.{layer}.{role}.weight"), dims, 0.0);
            add("mean_value", &[WIDTH, CHANNELS]);
            add("mean_output", &[CHANNELS, WIDTH]);
            add("ffn_gate", &[WIDTH, INNER]);
            add("ffn_up", &[WIDTH, INNER]);
            add("ffn_down", &[INNER, WIDTH]);
        }
        Model { tensors }
    }
}

impl Model {
    /// Without tensors whose names have one of these texts in them.
    pub fn without(mut self, texts: &[&str]) -> Model {
        self.tensors.retain(|name, _| !texts.iter().any(|text| name.contains(text)));
        self
    }

    /// Writes it as a file of an architecture.
    pub fn save(&self, folder: &Path, architecture: &str) -> PathBuf {
        let mut writer = GgufWriter::new();
        writer.metadata("general.architecture", architecture).unwrap();
        let numbers = [
            ("block_count", LAYERS),
            ("embedding_length", WIDTH),
            ("attention.head_count", 1),
            ("context_length", 64),
            ("mean.channels", CHANNELS),
        ];
        for (key, number) in numbers {
            writer.metadata(format!("{architecture}.{key}").as_str(), number as u32).unwrap();
        }
        writer.metadata(format!("{architecture}.norm_alpha").as_str(), ALPHA).unwrap();
        for (name, (dims, values)) in &self.tensors {
            let dims: Vec<u64> = dims.iter().map(|dim| *dim as u64).collect();
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            writer.tensor(name, &dims, GgmlType::F32, bytes).unwrap();
        }
        let path = folder.join(format!("{architecture}.gguf"));
        std::fs::write(&path, writer.to_bytes().unwrap()).unwrap();
        path
    }

    /// Writes an adapter of rank 1 for some of its linears, and adds what it does to them here.
    pub fn adapt(&mut self, folder: &Path, roles: &[&str], architecture: &str) -> PathBuf {
        const ALPHA: f32 = 0.5;
        let mut random = SplitMix64::new(5);
        let mut writer = GgufWriter::new();
        writer.metadata("general.type", "adapter").unwrap();
        writer.metadata("adapter.type", "lora").unwrap();
        writer.metadata("general.architecture", architecture).unwrap();
        writer.metadata("adapter.lora.alpha", ALPHA).unwrap();
        for name in
            (0..LAYERS).flat_map(|layer| roles.iter().map(move |role| format!("blk.{layer}.{role}.weight")))
        {
            let (dims, values) = self.tensors.get_mut(&name).unwrap();
            let (down, up) = (random.values(dims[0], 0.0, 0.6), random.values(dims[1], 0.0, 0.6));
            for (row, up) in values.chunks_exact_mut(dims[0]).zip(&up) {
                row.iter_mut().zip(&down).for_each(|(weight, down)| *weight += ALPHA * up * down);
            }
            for (part, values, shape) in [("a", &down, [dims[0], 1]), ("b", &up, [1, dims[1]])] {
                let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                let shape = shape.map(|size| size as u64);
                writer.tensor(format!("{name}.lora_{part}").as_str(), &shape, GgmlType::F32, bytes).unwrap();
            }
        }
        let path = folder.join("adapter.gguf");
        std::fs::write(&path, writer.to_bytes().unwrap()).unwrap();
        path
    }

    /// `W x`.
    fn product(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let rows = self.tensors[name].1.chunks_exact(x.len());
        rows.map(|row| row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum()).collect()
    }

    fn norm(&self, site: &str, x: &[f64]) -> Vec<f64> {
        let part = |part: &str| &self.tensors[&format!("{site}.{part}")].1;
        let value =
            |(x, (w, b)): (&f64, (&f32, &f32))| (f64::from(ALPHA) * x).tanh() * f64::from(*w) + f64::from(*b);
        x.iter().zip(part("weight").iter().zip(part("bias"))).map(value).collect()
    }

    /// Logits of all tokens, of `x * activation(gate)` in the feed-forward.
    pub fn logits(&self, tokens: &[u32], activation: fn(f64) -> f64) -> Vec<f32> {
        self.logits_of(tokens, activation, &|sum, value, _| sum * DECAY + value)
    }

    /// The same where the mixers give the mean of all values so far.
    pub fn logits_of_means(&self, tokens: &[u32], activation: fn(f64) -> f64) -> Vec<f32> {
        self.logits_of(tokens, activation, &|mean, value, place| {
            (mean * place as f64 + value) / (place + 1) as f64
        })
    }

    /// With what a mixer keeps, by what it kept, the new value, and how many tokens came before.
    fn logits_of(
        &self,
        tokens: &[u32],
        activation: fn(f64) -> f64,
        kept: &dyn Fn(f64, f64, usize) -> f64,
    ) -> Vec<f32> {
        let mut sums = vec![vec![0.0; CHANNELS]; LAYERS];
        let mut logits = Vec::new();
        for (place, &token) in tokens.iter().enumerate() {
            let row = &self.tensors["token_embd.weight"].1[token as usize * WIDTH..][..WIDTH];
            let mut x: Vec<f64> = row.iter().map(|value| f64::from(*value)).collect();
            for (layer, sums) in sums.iter_mut().enumerate() {
                let name = |role: &str| format!("blk.{layer}.{role}.weight");
                let value =
                    self.product(&name("mean_value"), &self.norm(&format!("blk.{layer}.attn_norm"), &x));
                sums.iter_mut().zip(value).for_each(|(sum, value)| *sum = kept(*sum, value, place));
                let mixed = self.product(&name("mean_output"), sums);
                x.iter_mut().zip(mixed).for_each(|(x, y)| *x += y);
                let normed = self.norm(&format!("blk.{layer}.ffn_norm"), &x);
                let (gate, up) =
                    (self.product(&name("ffn_gate"), &normed), self.product(&name("ffn_up"), &normed));
                let inner: Vec<f64> = gate.iter().zip(up).map(|(g, u)| activation(*g) * u).collect();
                let out = self.product(&name("ffn_down"), &inner);
                x.iter_mut().zip(out).for_each(|(x, y)| *x += y);
            }
            let normed = self.norm("output_norm", &x);
            logits.extend(self.product("output.weight", &normed).iter().map(|logit| *logit as f32));
        }
        logits
    }
}
