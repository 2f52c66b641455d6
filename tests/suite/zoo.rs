//! Small models of every architecture that has a spec, against HF transformers in float32; specs that are not built in
//! are copied into a folder.

use crate::{Reference, distance, fixtures, rows};
use menagerie::engine::{KvType, TextPipeline};
use menagerie::measure::{LogitsOptions, logits};
use menagerie::open::{LoadOptions, LoadedModel, ModelBuilder};
use std::path::{Path, PathBuf};

/// Four times the largest difference measured over the whole zoo on the CPU (2.4e-5, gemma3's prompt) but for two delta nets with
/// experts, which amplify rounding; the noise between HF in f32 and in f64 is up to 2e-5 elsewhere.
///
/// Of these two, qwen35moe and qwen3next, HF's f32 logits are up to 1.2e-4 and 8.7e-5 from its own f64 ones (rms 7.0e-6, 5.8e-6;
/// its recurrence token by token: 4.1e-5, 8.2e-5; llama.cpp is 1.6e-4 from HF's f32 in the first), so that nothing
/// can be told against them: their references are HF in f64 (`reference/float64.py`). From those ours are 4.7e-5 and 6.9e-5 (rms
/// 3.9e-6, 4.2e-6); before sums had their present order 6.0e-5 and 3.6e-5 with vectors (rms 4.3e-6 both), 3.9e-5 and 2.3e-5 without
/// (3.4e-6, 3.0e-6). A rounding to f32 after each of the 61 linears, norms and activations, and none anywhere else, moves the f64
/// logits by 0.8e-5 to 4.5e-5 (rms 2.1e-6; 20 tries). Our exponential is 0.40 units in the last place off (rms; 0.29 would be exact),
/// silu 0.51, 0.47 with an exact exponential: there is nothing to gain.
pub const TOLERANCE: f32 = 1e-4;

/// Fixtures of encoders: hidden states instead of logits.
pub const ENCODERS: [&str; 19] = [
    "bert",
    "bert-rank",
    "eurobert",
    "gemma-embedding",
    "gemma-embedding-dense",
    "jina-bert-v2",
    "jina-bert-v2-code",
    "jina-bert-v3",
    "llama-embed",
    "modern-bert",
    "modern-bert-rank",
    "neo-bert",
    "nomic-bert",
    "nomic-bert-moe",
    "qwen3-embedding",
    "qwen3-rank",
    "t5encoder",
    "t5encoder-relu",
    "xlm-roberta-rank",
];

/// Decoders that attend in both directions: a text is computed whole, and nothing is decoded.
pub const WHOLE: [&str; 4] = ["dream", "llada", "llada-moe", "rnd1"];

/// What the manifest says of a fixture.
pub struct Entry {
    /// Its folder.
    pub name: String,
    /// Id of the spec; several fixtures may share one.
    pub spec: String,
    /// Queries and documents whose scores the reference has.
    pub pairs: Vec<[String; 2]>,
}

impl Entry {
    /// Where it lies.
    pub fn folder(&self) -> PathBuf {
        fixtures().join("zoo").join(&self.name)
    }
}

/// The file of a fixture: its weights are values that f16 holds.
pub fn model_file(folder: &Path) -> PathBuf {
    folder.join("model-f16.gguf")
}

/// Every fixture of the manifest.
pub fn entries() -> Vec<Entry> {
    let text = std::fs::read_to_string(fixtures().join("zoo/manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    let field = |entry: &serde_json::Value, key: &str| entry[key].as_str().unwrap().to_owned();
    let fixtures = manifest["fixtures"].as_array().unwrap();
    let pairs = |entry: &serde_json::Value| -> Vec<[String; 2]> {
        entry.get("pairs").map_or_else(Vec::new, |pairs| serde_json::from_value(pairs.clone()).unwrap())
    };
    let entry = |entry: &serde_json::Value| Entry {
        name: field(entry, "name"),
        spec: field(entry, "spec"),
        pairs: pairs(entry),
    };
    fixtures.iter().map(entry).collect()
}

/// Copies a built-in spec, changed by `change`, into a folder; a spec that stays unchanged is not copied.
pub(super) fn drop_spec(id: &str, into: &Path, change: &dyn Fn(&str) -> String) {
    let file = format!("{id}.toml");
    let text = std::fs::read_to_string(fixtures().join("../../specs").join(&file)).unwrap();
    let changed = change(&text);
    if changed != text {
        std::fs::write(into.join(file), changed).unwrap();
    }
}

/// A fixture, opened, and its reference.
pub struct Opened {
    pipeline: LoadedModel<TextPipeline>,
    reference: Reference,
}

impl Opened {
    /// Opens a fixture with `options` and its spec changed by `change`.
    ///
    /// # Errors
    /// What opening reports.
    pub fn new(entry: &Entry, change: &dyn Fn(&str) -> String, options: LoadOptions) -> Result<Self, String> {
        Self::at(entry, &model_file(&entry.folder()), change, options)
    }

    /// The same of the model at `path`, which is the fixture's in whatever format.
    ///
    /// # Errors
    /// What opening reports.
    pub fn at(
        entry: &Entry,
        path: &Path,
        change: &dyn Fn(&str) -> String,
        options: LoadOptions,
    ) -> Result<Self, String> {
        let specs = tempfile::tempdir().unwrap();
        drop_spec(&entry.spec, specs.path(), change);
        // References keep keys and values in f32, whatever the weights are.
        let kv_type = Some(KvType::F32);
        let spec_dirs = vec![specs.path().to_owned()];
        let load = options.with_spec_dirs(spec_dirs).with_allow_shadow(true).with_kv_type(kv_type);
        let pipeline = ModelBuilder::new(path).with_options(&load).open_text().map_err(|e| e.to_string())?;
        Ok(Self { pipeline, reference: Reference::open(&entry.folder().join("reference.safetensors")) })
    }

    fn rows(&self, tokens: &[u32], chunk: usize, decode_from: Option<usize>) -> Vec<Vec<f32>> {
        rows(
            &self.pipeline,
            tokens,
            &LogitsOptions::default().with_chunk(chunk).with_decode_from(decode_from),
        )
    }

    /// The distance of the prompt's logits from another model's of the same fixture.
    pub fn from(&self, other: &Self) -> f32 {
        let rows = |opened: &Self| opened.rows(&self.reference.ids("tokens_prompt"), 512, None);
        distance(&rows(self), &rows(other).concat())
    }

    /// The distance of the prompt's logits from the reference.
    pub fn prompt(&self, chunk: usize, decode_from: Option<usize>) -> f32 {
        let rows = self.rows(&self.reference.ids("tokens_prompt"), chunk, decode_from);
        distance(&rows, &self.reference.values("logits_prompt"))
    }

    fn long(&self, decode_from: Option<usize>) -> f32 {
        let rows = self.rows(&self.reference.ids("tokens_long"), 512, decode_from);
        let positions = self.reference.ids("positions_long");
        let wanted: Vec<Vec<f32>> = positions.iter().map(|&p| rows[p as usize].clone()).collect();
        distance(&wanted, &self.reference.values("logits_long"))
    }

    /// Row 0 is the last row of the prompt; row i is the result of feeding token i - 1 through the cache.
    fn greedy(&self, prompt: &str, tokens: &str, logits: &str) -> f32 {
        let mut all = self.reference.ids(prompt);
        let start = all.len();
        let generated = self.reference.ids(tokens);
        all.extend(&generated[..generated.len() - 1]);
        let rows = self.rows(&all, 512, Some(start));
        distance(&rows[start - 1..], &self.reference.values(logits))
    }

    /// The error if a prompt is not computed whole.
    ///
    /// # Errors
    /// Whether, and why, the model refuses it.
    pub fn in_parts(&self, chunk: usize, decode_from: Option<usize>) -> Result<(), String> {
        let options = LogitsOptions::default().with_chunk(chunk).with_decode_from(decode_from);
        let logits = logits(&self.pipeline, &self.reference.ids("tokens_prompt"), &options);
        logits.map(drop).map_err(|error| error.to_string())
    }

    /// The distance of every output from the reference, with its name.
    pub fn distances(&self) -> Vec<(&'static str, f32)> {
        let mut found = vec![("prompt", self.prompt(512, None)), ("long", self.long(None))];
        if self.reference.has("tokens_greedy") {
            found.extend(self.decoded());
        }
        found
    }

    fn decoded(&self) -> Vec<(&'static str, f32)> {
        vec![
            ("prompt in chunks of 9", self.prompt(9, None)),
            ("prompt, decoded from 11", self.prompt(512, Some(11))),
            ("greedy", self.greedy("tokens_prompt", "tokens_greedy", "logits_greedy")),
            ("long, decoded from 280", self.long(Some(280))),
            ("long greedy", self.greedy("tokens_long", "tokens_long_greedy", "logits_long_greedy")),
        ]
    }
}

/// Every fixture except the encoders is within [`TOLERANCE`] of its reference, in every output; `refused` fixtures,
/// which the device does not support, are refused for that reason.
pub fn every_fixture_agrees(options: &LoadOptions, refused: &[&str]) {
    let mut faults = Vec::new();
    for entry in entries().iter().filter(|entry| !ENCODERS.contains(&entry.name.as_str())) {
        let expected = refused.contains(&entry.name.as_str());
        match Opened::new(entry, &str::to_owned, options.clone()) {
            Err(error) if expected && error.contains(" does not support ") => {}
            Ok(_) if expected => faults.push(format!("{}: is not refused", entry.name)),
            Err(error) => faults.push(format!("{}: {error}", entry.name)),
            Ok(opened) => faults.extend(
                opened
                    .distances()
                    .iter()
                    .filter(|(_, found)| found.is_nan() || *found > TOLERANCE)
                    .map(|(what, found)| format!("{}, {what}: differs by {found:e}", entry.name)),
            ),
        }
    }
    assert!(faults.is_empty(), "at most {TOLERANCE:e} is allowed:\n{}", faults.join("\n"));
}
