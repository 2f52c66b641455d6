//! The tables of tensors against files that llama.cpp's converter wrote: every tensor is wanted, under its name and with its
//! dims, and nothing else is; and what is made up from a file's keys has the tensors of that file.
#![allow(missing_docs, clippy::unwrap_used)] // a test fails by panicking

use gguf_file::{GgufFile, OpenOptions, Value};
use menagerie_spec::config::{BiasRule, ModelConfig, NormSite};
use menagerie_spec::kind::{Kinds, Scope, Sizes, StoredTensor, WantedRole};
use menagerie_spec::{
    ArchSpec, MetadataValue, ResolveInput, RoleSource, SourceFormat, SpecLookup, SpecSource,
};
use menagerie_synth::{Synthesis, policy, write};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The built-in specs, from their folder.
struct Specs;

impl SpecLookup for Specs {
    fn find(&self, id: &str) -> Option<SpecSource> {
        let text = std::fs::read_to_string(root().join(format!("specs/{id}.toml"))).ok()?;
        Some(SpecSource { name: format!("specs/{id}.toml"), text })
    }
}

/// A fixture: its spec, keys and tensors.
struct Fixture {
    spec: ArchSpec,
    keys: BTreeMap<String, MetadataValue>,
    tensors: BTreeMap<String, Vec<u64>>,
}

fn key_value(value: &Value<'_>) -> Option<MetadataValue> {
    Some(match value {
        Value::U32(value) => MetadataValue::Integer((*value).into()),
        Value::I32(value) => MetadataValue::Integer((*value).into()),
        Value::F32(value) => MetadataValue::Number((*value).into()),
        Value::Bool(value) => MetadataValue::Bool(*value),
        Value::String(value) => MetadataValue::Text((*value).to_owned()),
        _ => return None,
    })
}

fn tensors(file: &GgufFile) -> BTreeMap<String, Vec<u64>> {
    file.tensors().iter().map(|tensor| (tensor.name().to_owned(), tensor.dims().to_vec())).collect()
}

fn fixture(name: &str) -> Fixture {
    fixture_of(&root().join("tests/fixtures/base").join(name).join("model-f32.gguf"))
}

fn fixture_of(path: &Path) -> Fixture {
    let file = GgufFile::open(path, &OpenOptions::default()).unwrap();
    let Some(Value::String(architecture)) = file.metadata().get("general.architecture") else {
        panic!("{path:?}")
    };
    let source = Specs.find(architecture).unwrap();
    let spec = ArchSpec::parse(&source, &Specs, &Kinds::built_in()).unwrap();
    let prefix = format!("{architecture}.");
    let own = file
        .metadata()
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix(&prefix)?.to_owned(), value)));
    let keys = own.filter_map(|(key, value)| Some((key, key_value(&value)?))).collect();
    Fixture { spec, keys, tensors: tensors(&file) }
}

impl RoleSource for Fixture {
    fn has(&self, role: &str, layer: Option<usize>) -> bool {
        let name = self.spec.role_to_gguf_name(role, layer);
        self.tensors.contains_key(&name) || self.tensors.contains_key(&format!("{name}.weight"))
    }
}

impl Fixture {
    fn config(&self) -> ModelConfig {
        let name = self.spec.id();
        let input = ResolveInput::new(SourceFormat::Gguf, name, name, &self.keys, self);
        self.spec.resolve(&input).unwrap_or_else(|faults| panic!("{faults}"))
    }

    /// The tensor of the file, if it has the dims; unknown ones may be anything.
    fn fitting(&self, stored: &StoredTensor, layer: Option<usize>) -> Option<String> {
        let name = self.spec.role_to_gguf_name(&stored.role, layer);
        let dims = self.tensors.get(&name)?;
        let fits = dims.len() == stored.dims.len()
            && dims.iter().zip(&stored.dims).all(|(found, dim)| dim.size.is_none_or(|size| size == *found));
        fits.then_some(name)
    }

    /// Claims what is wanted: of each group exactly one form, every required tensor, biases that may be there.
    fn claim(&self, wanted: Vec<WantedRole>, layer: Option<usize>, claimed: &mut BTreeSet<String>) {
        let mut forms: BTreeMap<&str, BTreeMap<&str, bool>> = BTreeMap::new();
        for wanted in &wanted {
            let layer = layer.filter(|_| wanted.def.scope == Scope::Block);
            let there = wanted
                .stored()
                .iter()
                .all(|stored| stored.rule != BiasRule::Required || self.fitting(stored, layer).is_some());
            match wanted.def.form {
                Some((group, form)) => {
                    *forms.entry(group).or_default().entry(form).or_insert(true) &= there;
                }
                None => assert!(there, "{:?}: {wanted:?}", self.spec.id()),
            }
        }
        for (group, forms) in &forms {
            assert_eq!(forms.values().filter(|there| **there).count(), 1, "{group}: {forms:?}");
        }
        for wanted in &wanted {
            let layer = layer.filter(|_| wanted.def.scope == Scope::Block);
            if wanted.def.form.is_none_or(|(group, form)| forms[group][form]) {
                claimed.extend(wanted.stored().iter().filter_map(|stored| self.fitting(stored, layer)));
            }
        }
    }
}

fn with_width(mut sizes: Sizes, width: usize) -> Sizes {
    sizes.set("D", width);
    sizes
}

#[test]
fn every_tensor_of_a_converted_file_is_wanted_with_its_dims() {
    for name in ["llama", "mistral3", "mixtral", "phi2", "phi3", "qwen2", "qwen3", "qwen3moe", "starcoder2"] {
        let fixture = fixture(name);
        let config = fixture.config();
        let width = config.embedding_length;
        let mut claimed = BTreeSet::new();
        fixture.claim(
            config.embedding.wanted(&with_width(config.embedding.sizes(), width)),
            None,
            &mut claimed,
        );
        if fixture.tensors.contains_key("output.weight") {
            fixture.claim(
                config.output.wanted(&with_width(config.output.sizes(), width)),
                None,
                &mut claimed,
            );
        }
        let mut site = |site: &Option<NormSite>, layer: Option<usize>| {
            if let Some(site) = site {
                fixture.claim(site.wanted(width), layer, &mut claimed);
            }
        };
        site(&config.embedding.norm, None);
        site(&config.output.norm, None);
        for layer in &config.layers {
            layer.parts().0.into_iter().for_each(|place| site(&Some(place.clone()), Some(layer.index)));
        }
        for layer in &config.layers {
            for component in layer.parts().1 {
                let mut sizes = with_width(component.sizes(), width);
                for free in component.kind().free {
                    // A size that none of the wanted tensors has need not be known; one that is missing fails the claim.
                    if let Some(hint) = free.hints.iter().find_map(|key| config.hints.get(*key)) {
                        sizes.set(free.symbol, *hint as usize);
                    }
                }
                fixture.claim(sizes.wanted(component.kind().roles), Some(layer.index), &mut claimed);
            }
        }
        let all: BTreeSet<String> = fixture.tensors.keys().cloned().collect();
        assert_eq!(claimed, all, "{name}");
    }
}

#[test]
fn a_made_up_model_has_the_tensors_of_the_file_whose_keys_it_has() {
    let folder = std::env::temp_dir().join(format!("menagerie-synth-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["llama", "mistral3", "mixtral", "phi2", "qwen2", "qwen3", "qwen3moe", "starcoder2"] {
        let fixture = fixture(name);
        let mut keys = fixture.keys.clone();
        let vocabulary = fixture.tensors["token_embd.weight"][1];
        keys.insert("vocab_size".into(), MetadataValue::Integer(vocabulary as i64));
        let tied = !fixture.tensors.contains_key("output.weight");
        let policy = policy("f32").unwrap();
        let synthesis = Synthesis { spec: &fixture.spec, keys, tied, policy: &policy, seed: 1 };
        let path = folder.join(format!("{name}.gguf"));
        write(&synthesis, &path, &mut |_, _| ControlFlow::Continue(()))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let written = GgufFile::open(&path, &OpenOptions::default()).unwrap();
        let mut expected = fixture.tensors.clone();
        // What a spec takes only where it is present is not made up.
        expected.retain(|name, _| name != "rope_freqs.weight");
        assert_eq!(tensors(&written), expected, "{name}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_size_that_is_missing_is_named_with_its_key() {
    let fixture = fixture("qwen3moe");
    let policy = policy("f32").unwrap();
    for (missing, words) in [
        ("vocab_size", "`vocab_size` (rows of the embedding)"),
        ("expert_count", "`expert_count` (routed experts"),
    ] {
        let mut keys = fixture.keys.clone();
        keys.insert("vocab_size".into(), MetadataValue::Integer(64));
        keys.remove(missing);
        let synthesis = Synthesis { spec: &fixture.spec, keys, tied: true, policy: &policy, seed: 1 };
        let path = std::env::temp_dir().join(format!("menagerie-never-{}.gguf", std::process::id()));
        let found = write(&synthesis, &path, &mut |_, _| ControlFlow::Continue(())).unwrap_err().to_string();
        assert!(found.contains(words) && found.contains(&format!("{missing}=VALUE")), "{found}");
    }
}

/// Qwen2-MoE's gate on the shared expert, which llama.cpp stores as a vector (`ffn_gate_inp_shexp`, `{ n_embd }`).
#[test]
fn a_row_is_stored_as_a_vector_and_a_bias_for_the_selection_by_its_own_name() {
    let text = std::fs::read_to_string(root().join("specs/qwen3moe.toml")).unwrap();
    let text = text.replace(
        "[feed_forward.router]",
        "shared = { kind = \"gated\", activation = \"silu\", gate = \"sigmoid\" }\n\
         [feed_forward.router]\nselect_bias = \"required\"",
    );
    let source = SpecSource { name: "shared.toml".into(), text };
    let mut fixture = fixture("qwen3moe");
    fixture.spec = ArchSpec::parse(&source, &Specs, &Kinds::built_in()).unwrap();
    fixture.keys.insert("vocab_size".into(), MetadataValue::Integer(64));
    let config = fixture.config();
    let path = std::env::temp_dir().join(format!("menagerie-shared-{}.gguf", std::process::id()));
    let policy = policy("F32").unwrap();
    let keys = fixture.keys.clone();
    let synthesis = Synthesis { spec: &fixture.spec, keys, tied: true, policy: &policy, seed: 1 };
    write(&synthesis, &path, &mut |_, _| ControlFlow::Continue(())).unwrap();
    let written = tensors(&GgufFile::open(&path, &OpenOptions::default()).unwrap());
    std::fs::remove_file(&path).unwrap();
    let dims = |role: &str| written[&format!("blk.1.{role}")].clone();
    let (width, experts) = (config.embedding_length as u64, config.hints["expert_count"] as u64);
    let inner = config.hints["expert_feed_forward_length"] as u64;
    assert_eq!(dims("ffn_gate_inp_shexp.weight"), [width]);
    assert_eq!(dims("exp_probs_b.bias"), [experts]);
    assert_eq!(dims("ffn_down_shexp.weight"), [inner, width]);
    assert!(!written.keys().any(|name| name.ends_with("ffn_gate_up_exps.weight")));
}

/// A head for further tokens has the tensors of a converted file, except those that it shares with the model.
#[test]
fn a_head_for_further_tokens_has_its_tensors() {
    let path = std::env::temp_dir().join(format!("menagerie-heads-{}.gguf", std::process::id()));
    let policy = policy("F32").unwrap();
    for name in ["glm4moe", "deepseek2-v3"] {
        let fixture = fixture_of(&root().join("tests/fixtures/heads").join(name).join("model-f16.gguf"));
        let mut keys = fixture.keys.clone();
        keys.insert("vocab_size".into(), MetadataValue::Integer(264));
        let synthesis =
            Synthesis { spec: &fixture.spec, keys: keys.clone(), tied: false, policy: &policy, seed: 1 };
        write(&synthesis, &path, &mut |_, _| ControlFlow::Continue(())).unwrap();
        let written = tensors(&GgufFile::open(&path, &OpenOptions::default()).unwrap());
        // Whether a made-up file has shared experts depends on the spec.
        let left_out = ["nextn.embed_tokens.weight", "nextn.shared_head_head.weight", "_shexp.weight"];
        let in_both = |name: &&String| !left_out.iter().any(|role| name.ends_with(role));
        let of_block =
            |name: &&String| name.starts_with("blk.3.") && !name.contains(".bias") && !name.contains("_b.");
        let expected: Vec<&String> = fixture.tensors.keys().filter(in_both).filter(of_block).collect();
        let found: Vec<&String> = written.keys().filter(in_both).filter(of_block).collect();
        assert!(found.len() > 10 && found.contains(&&"blk.3.nextn.eh_proj.weight".to_owned()), "{found:?}");
        assert_eq!(found, expected, "{name}");
        keys.insert("nextn_predict_layers".into(), MetadataValue::Integer(2));
        let synthesis = Synthesis { spec: &fixture.spec, keys, tied: false, policy: &policy, seed: 1 };
        write(&synthesis, &path, &mut |_, _| ControlFlow::Continue(())).unwrap();
        let written = tensors(&GgufFile::open(&path, &OpenOptions::default()).unwrap());
        let heads = written.keys().filter(|name| name.ends_with("nextn.eh_proj.weight"));
        assert_eq!(heads.collect::<Vec<_>>(), ["blk.2.nextn.eh_proj.weight", "blk.3.nextn.eh_proj.weight"]);
    }
    std::fs::remove_file(&path).unwrap();
}
