//! Files that `convert` makes of the zoo's folders, against the zoo's GGUF files, most of which llama.cpp's converter made.
#![allow(missing_docs, clippy::unwrap_used)]

use menagerie::assembly::{AssembleOptions, open_model};
use menagerie::convert::{Conversion, OutputTypes};
use menagerie::engine::{Arithmetic, EmbeddingOptions, Normalization};
use menagerie::gguf::{GgmlType, GgufFile, OpenOptions, TensorInfo, Value};
use menagerie::kernels::Cpu;
use menagerie::loaders::TokenizerTables;
use menagerie::measure::LogitsOptions;
use menagerie::model::{Compute, Pooling};
use menagerie::open::{Device, KeyOptions, ModelBuilder, ResolvedFile, SpecOptions};
use menagerie_conformance::suite::hf_folder;
use menagerie_conformance::suite::zoo::{ENCODERS, Entry, entries, model_file};
use menagerie_conformance::{Reference, distance, fixtures, options, rows};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Folders of which no file is written, by what is said of them.
const REFUSED: &[(&str, &str)] = &[
    // A file has weights for the norms of queries and keys, which hold a factor that the folder has as a number.
    ("muse-glimmer", "mixer.qk_norm.weight is `none` in the folder, but would be `own` in a GGUF file"),
];

/// Why a tensor may differ from llama.cpp's converter's, by the fixture and the end of its name.
const DIFFERENT: &[(&str, &str, &str)] = &[
    ("gemma4", "layer_output_scale.weight", "the fixture's maker took them out, where they are 1"),
    ("glm4-vision", "attn_q", "without `rope.dimension_sections` rows are those of models of text"),
    ("glm4-vision", "attn_k", "as attn_q"),
    ("granitehybrid", "attn_q.weight", "nothing rotates: the order of a head's rows is free"),
    ("granitehybrid", "attn_k.weight", "as attn_q"),
    ("nemotron_h", "attn_q.weight", "nothing rotates: the order of a head's rows is free"),
    ("nemotron_h", "attn_k.weight", "as attn_q"),
    ("nemotron_h_moe", "attn_q.weight", "as nemotron_h"),
    ("nemotron_h_moe", "attn_k.weight", "as nemotron_h"),
    ("nemotron_h_moe-latent", "attn_q.weight", "as nemotron_h"),
    ("nemotron_h_moe-latent", "attn_k.weight", "as nemotron_h"),
];

/// Why a key of the zoo's file is not there, or is another: the fixture (none: every one that has it), the key, the reason.
const OTHER_KEYS: &[(&str, &str, &str)] = &[
    ("", "rope.dimension_count", "as long as a head, which readers take it to be"),
    ("", "attention.key_length", "the width over the heads, which readers take it to be"),
    ("", "attention.value_length", "as attention.key_length"),
    ("", "rope.scaling.type", "there is no scaling"),
    ("", "rope.scaling.factor", "there is no scaling"),
    ("", "rope.scaling.finetuned", "there is no scaling"),
    ("", "tensor_data_layout", "in which order a converter found the rows; nobody reads it"),
    ("", "pooling_type", "of sentence-transformers' files, which the fixtures' folders do not have"),
    ("", "expert_group_used_count", "there is one group"),
    ("", "nextn_predict_layers", "there are none"),
    ("", "n_deepstack_layers", "of the image encoder, which is not written"),
    ("bloom", "attention.head_count_kv", "as many as heads"),
    ("bloom-6heads", "attention.head_count_kv", "as many as heads"),
    ("deepseek", "expert_weights_scale", "1"),
    ("ernie4_5-moe", "expert_shared_feed_forward_length", "the converter divides by the wrong number"),
    ("glm4-vision", "rope.dimension_sections", "rows lie as those of models of text"),
    ("granitehybrid", "context_length", "the folder's; the converter writes one for all"),
    ("nemotron_h", "context_length", "as granitehybrid"),
    ("nemotron_h_moe", "context_length", "as granitehybrid"),
    ("nemotron_h_moe-latent", "context_length", "as granitehybrid"),
    ("hrm_text", "hrm.prefix_lm", "how it is prompted, which the folder does not say"),
    (
        "hunyuan-dense",
        "context_length",
        "the folder's; the converter writes that of a scaling which is in the base here",
    ),
    ("hunyuan-dense", "rope.scaling.original_context_length", "as context_length"),
    ("hunyuan-moe", "expert_shared_count", "the tensors say it"),
    ("hunyuan-moe", "expert_shared_feed_forward_length", "the tensors say it"),
    ("hunyuan_vl", "rope.dimension_sections", "they are equal for text"),
    ("hunyuan_vl", "rope.freq_base", "what the scaling makes of it"),
    ("hunyuan_vl", "rope.scaling.alpha", "it is in the base"),
    ("hunyuan_vl", "rope.scaling.original_context_length", "the scaling is in the base"),
    ("jina-bert-v3", "context_length", "the fixture's maker wrote less"),
    ("nomic-bert", "context_length", "the fixture's maker wrote less"),
    ("mellum", "rope.scaling.yarn_attn_factor", "what the factor gives"),
    ("olmo3", "rope.scaling.yarn_attn_factor", "what the factor gives"),
    ("modern-bert", "attention.layer_norm_rms_epsilon", "the norms are layer norms"),
    ("modern-bert-rank", "attention.layer_norm_rms_epsilon", "the norms are layer norms"),
    ("nemotron", "attention.layer_norm_rms_epsilon", "the norms are layer norms"),
    ("modern-bert", "attention.sliding_window_pattern", "layer by layer, as the folder says it"),
    ("modern-bert-rank", "attention.sliding_window_pattern", "layer by layer, as the folder says it"),
    ("modern-bert-rank", "classifier.output_labels", "the folder does not name them"),
    ("phimoe", "attention.sliding_window", "there is none"),
];

/// How far logits of a file may be from those of its folder. Where rows of heads lie in another order, or values of a delta
/// net, sums are made in another order: 2.2e-5 is the most that was measured (qwen35moe), 1e-6 elsewhere.
const CLOSE: f32 = 1e-6;
const CLOSE_IN_ANOTHER_ORDER: f32 = 5e-5;

/// Fixtures whose files have them.
const IN_ANOTHER_ORDER: &[&str] = &[
    "arcee",
    "arcee-yarn",
    "baichuan",
    "chameleon",
    "chameleon-swin",
    "deepseek",
    "granite",
    "granite_swa",
    "granite_swa-moe",
    "granitemoe",
    "internlm2",
    "llama-embed",
    "llama-linear",
    "llama-window",
    "llama-yarn",
    "minicpm",
    "nanbeige",
    "olmo",
    "qwen35",
    "qwen35moe",
    "xverse",
];

/// How far a number may be from the converter's, of it: `exp` is not the same to the last bit everywhere.
const LAST_BITS: f32 = 4e-7;

fn converted(folder: &Path, out: &Path, keys: KeyOptions) -> Result<(), String> {
    let environment = SpecOptions::default().environment().unwrap();
    let file = open_model(folder, environment.entries(), true).map_err(|e| e.to_string())?;
    let resolved = ResolvedFile::new(file, &environment, keys).map_err(|e| e.to_string())?;
    let backend = Device::default().backend(environment.entries(), Some(1), Arithmetic::Exact).unwrap();
    let compute = Compute::new(backend, Arithmetic::Exact);
    let claims = resolved
        .assemble(&AssembleOptions::whole(&compute, environment.components()))
        .map_err(|e| e.to_string())?
        .claims;
    let keys = resolved.file.keys(&resolved.spec).unwrap();
    let conversion = Conversion {
        folder: &resolved.file_name(),
        name: resolved.file.name(),
        spec: &resolved.spec,
        keys: &*keys,
        resolution: &resolved.resolution,
        tensors: &*resolved.tensors,
        claims: &claims,
        texts: None,
        tables: &TokenizerTables::built_in().unwrap(),
        compute: &compute,
        importance: None,
    };
    let plan = conversion.plan(&OutputTypes::Single("f32")).map_err(|e| e.to_string())?;
    plan.write(out, &Cpu::new(Some(1)).unwrap(), &mut |_| ControlFlow::Continue(()))
        .map_err(|e| e.to_string())
}

fn opened(path: &Path) -> GgufFile {
    GgufFile::open(path, &OpenOptions::default()).unwrap()
}

fn values(file: &GgufFile, name: &str) -> Vec<f32> {
    let tensor = file.tensor(name).unwrap();
    let bytes = file.data(tensor).unwrap();
    match tensor.kind() {
        GgmlType::F32 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect(),
        GgmlType::F16 => {
            bytes.chunks_exact(2).map(|b| half::f16::from_le_bytes(b.try_into().unwrap()).to_f32()).collect()
        }
        other => panic!("{name}: {other}"),
    }
}

/// Dimensions without those of one element at the end, which files have or have not.
fn dims(tensor: &TensorInfo) -> &[u64] {
    let ones = tensor.dims().iter().rev().take_while(|dim| **dim == 1).count();
    &tensor.dims()[..(tensor.dims().len() - ones).max(1)]
}

/// What differs between the tensors of two files.
fn differing(name: &str, ours: &GgufFile, theirs: &GgufFile) -> Vec<String> {
    let mut faults = Vec::new();
    let excused = |tensor: &str| {
        let fits = |(fixture, end, _): &&(&str, &str, &str)| {
            *fixture == name && (tensor.ends_with(end) || tensor.contains(&format!(".{end}.")))
        };
        DIFFERENT.iter().any(|entry| fits(&entry))
    };
    for tensor in theirs.tensors() {
        let Some(own) = ours.tensor(tensor.name()) else {
            faults.push(format!("no tensor {}", tensor.name()));
            continue;
        };
        if dims(own) != dims(tensor) {
            faults.push(format!("{}: {:?} instead of {:?}", tensor.name(), own.dims(), tensor.dims()));
            continue;
        }
        let (here, there) = (values(ours, tensor.name()), values(theirs, tensor.name()));
        let same = |(here, there): (&f32, &f32)| (here - there).abs() <= LAST_BITS * there.abs();
        if !here.iter().zip(&there).all(same) && !excused(tensor.name()) {
            faults.push(format!("{}: other numbers", tensor.name()));
        }
    }
    let more =
        ours.tensors().iter().filter(|own| theirs.tensor(own.name()).is_none() && !excused(own.name()));
    faults.extend(more.map(|own| format!("a tensor {}, which they have not", own.name())));
    faults
}

/// Whether a key says the same: a value for all layers is one that a list says of each.
fn is_same(own: Value<'_>, theirs: Value<'_>) -> bool {
    let close = |here: f64, there: f64| (here - there).abs() <= 1e-6 * there.abs();
    let same = |here: Value<'_>, there: Value<'_>| match (here.as_f64(), there.as_f64()) {
        (Some(number), Some(other)) => close(number, other),
        _ => format!("{here:?}") == format!("{there:?}"),
    };
    match (own.as_array(), theirs.as_array()) {
        (Some(own), Some(theirs)) => {
            own.len() == theirs.len()
                && own.values().zip(theirs.values()).all(|(own, their)| same(own, their))
        }
        (Some(own), None) => own.values().all(|own| same(own, theirs)),
        (None, Some(_)) => false,
        // Readers want the very type.
        (None, None) => same(own, theirs) && own.value_type() == theirs.value_type(),
    }
}

fn architecture(file: &GgufFile) -> String {
    file.metadata().get("general.architecture").and_then(|value| value.as_str()).unwrap().to_owned()
}

/// What differs between the keys of two files that say something of the model, and which lines of [`OTHER_KEYS`] it needs.
fn differing_keys(name: &str, ours: &GgufFile, theirs: &GgufFile) -> (Vec<String>, BTreeSet<usize>) {
    let (mut faults, mut used) = (Vec::new(), BTreeSet::new());
    let prefix = architecture(theirs);
    if architecture(ours) != prefix {
        faults.push(format!("a file of {} instead of {prefix}", architecture(ours)));
    }
    let others = ["general.", "tokenizer.", "quantize."];
    for (key, value) in theirs.metadata().iter().filter(|(key, _)| !others.iter().any(|o| key.starts_with(o)))
    {
        let own = ours.metadata().get(key);
        if own.is_some_and(|own| is_same(own, value)) {
            continue;
        }
        let bare = key.strip_prefix(&format!("{prefix}.")).unwrap_or(key);
        let excuse =
            OTHER_KEYS.iter().position(|(of, key, _)| (of.is_empty() || *of == name) && *key == bare);
        match excuse {
            Some(index) => drop(used.insert(index)),
            None => faults.push(format!("key {key} is {own:?} instead of {value:?}")),
        }
    }
    (faults, used)
}

/// Rows for the prompt of a fixture: logits, or what an encoder gives for each token and as a whole.
fn rows_of(entry: &Entry, path: &Path) -> Result<Vec<Vec<f32>>, String> {
    let reference = Reference::open(&entry.folder().join("reference.safetensors"));
    let tokens = reference.ids("tokens_prompt");
    let load = options(Arithmetic::Exact);
    if !ENCODERS.contains(&entry.name.as_str()) {
        let pipeline =
            ModelBuilder::new(path).with_options(&load).open_text().map_err(|error| error.to_string())?;
        return Ok(rows(&pipeline, &tokens, &LogitsOptions::default()));
    }
    let pipeline =
        ModelBuilder::new(path).with_options(&load).open_embedding().map_err(|error| error.to_string())?;
    let normalization = Normalization::None;
    let embed = |pooling| {
        let found = pipeline.embed(
            &[&tokens],
            &EmbeddingOptions::default().with_pooling(pooling).with_normalization(normalization),
        );
        found.into_iter().map(|row| row.map_err(|error| error.to_string()))
    };
    embed(Some(Pooling::None)).chain(embed(None)).collect()
}

/// What is wrong with the file of a fixture's folder; lines of [`OTHER_KEYS`] that it needs go into `used`.
fn faults(entry: &Entry, used: &Mutex<BTreeSet<usize>>) -> Vec<String> {
    let folder = entry.folder();
    let made = hf_folder::make(&folder, &model_file(&folder), &folder.join("hf/config.json"));
    let out = made.path().join("out.gguf");
    let refused = REFUSED.iter().find(|(name, _)| *name == entry.name);
    match (converted(made.path(), &out, KeyOptions::default()), refused) {
        (Err(error), Some((_, expected))) if error.contains(expected) && !out.exists() => return Vec::new(),
        (Err(error), _) => return vec![error],
        (Ok(()), Some(_)) => return vec!["is not refused".to_owned()],
        (Ok(()), None) => {}
    }
    let (ours, theirs) = (opened(&out), opened(&model_file(&folder)));
    let (mut faults, needed) = differing_keys(&entry.name, &ours, &theirs);
    used.lock().unwrap().extend(needed);
    faults.extend(differing(&entry.name, &ours, &theirs));
    match (rows_of(entry, made.path()), rows_of(entry, &out)) {
        (Ok(there), Ok(here)) => {
            let (worst, reordered) =
                (distance(&there, &here.concat()), IN_ANOTHER_ORDER.contains(&entry.name.as_str()));
            let limit = if reordered { CLOSE_IN_ANOTHER_ORDER } else { CLOSE };
            if worst.is_nan() || worst > limit {
                faults.push(format!(
                    "its rows are {worst:e} from the folder's, of which {limit:e} are allowed"
                ));
            }
        }
        (Err(error), _) | (_, Err(error)) => faults.push(error),
    }
    faults
}

#[test]
fn every_folder_of_the_zoo_is_written_or_refused() {
    let entries: Vec<Entry> =
        entries().into_iter().filter(|entry| hf_folder::has_hf(&entry.folder())).collect();
    let (next, all, used) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(BTreeSet::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(entry) = entries.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let found =
                        faults(entry, &used).into_iter().map(|fault| format!("{}: {fault}", entry.name));
                    all.lock().unwrap().extend(found);
                }
            });
        }
    });
    let (mut all, used) = (all.into_inner().unwrap(), used.into_inner().unwrap());
    let unused = OTHER_KEYS.iter().enumerate().filter(|(index, _)| !used.contains(index));
    all.extend(unused.map(|(_, (name, key, _))| format!("{name}: key {key} does not differ any more")));
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// A head for further tokens is written like the blocks; the file counts its block.
#[test]
fn a_head_for_further_tokens_is_written() {
    for name in ["glm4moe", "deepseek2-v3", "hy_v3", "qwen3next", "qwen35"] {
        let folder = fixtures().join("heads").join(name);
        let made = hf_folder::make(&folder, &model_file(&folder), &folder.join("hf/config.json"));
        let out = made.path().join("out.gguf");
        converted(made.path(), &out, KeyOptions::default().with_nextn(true)).unwrap();
        let (ours, theirs) = (opened(&out), opened(&model_file(&folder)));
        let (mut faults, _) = differing_keys(name, &ours, &theirs);
        faults.extend(differing(name, &ours, &theirs));
        assert!(faults.is_empty(), "{name}: {}", faults.join("\n"));
        let key = |file: &GgufFile, key: &str| {
            file.metadata().get(&format!("{}.{key}", architecture(file))).unwrap().as_f64().unwrap() as usize
        };
        assert_eq!(key(&ours, "nextn_predict_layers"), 1, "{name}");
        assert_eq!(key(&ours, "block_count"), key(&theirs, "block_count"), "{name}");
        // Without the head the file is that of the model alone.
        let last = format!("blk.{}.", key(&theirs, "block_count") - 1);
        converted(made.path(), &out, KeyOptions::default()).unwrap();
        assert!(opened(&out).tensors().iter().all(|tensor| !tensor.name().starts_with(&last)), "{name}");
    }
}
