//! X-LoRA in the layout of the first publication, with an ordering, in a step of several sequences, and broken.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

use menagerie::adapters::places;
use menagerie::engine::{Arithmetic, LogitRows, Scheduler, SchedulerOptions, TextPipeline};
use menagerie::measure::{LogitsOptions, logits};
use menagerie::open::{AdapterOption, LoadedModel, ModelBuilder, SpecOptions};
use menagerie::spec::AdapterKind;
use menagerie_conformance::{Reference, distance, fixtures, options, rows};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Tensors = BTreeMap<String, (Vec<usize>, Vec<u8>)>;

const CLASSIFIER: &str = "base_model.internal_xlora_classifier.layers";

fn variant(name: &str) -> PathBuf {
    fixtures().join("lora/llama/xlora").join(name)
}

fn open(xlora: &Path) -> Result<LoadedModel<TextPipeline>, String> {
    let model = fixtures().join("base/llama/model-f32.gguf");
    let adapter = AdapterOption { kind: AdapterKind::XLora, path: xlora.to_owned(), weight: 1.0 };
    let options = options(Arithmetic::Fast).with_adapters(vec![adapter]);
    ModelBuilder::new(&model).with_options(&options).open_text().map_err(|error| error.to_string())
}

fn prompt(name: &str) -> (Reference, Vec<u32>) {
    let reference = Reference::open(&variant(name).join("reference.safetensors"));
    let tokens = reference.ids("tokens_prompt");
    (reference, tokens)
}

/// A copy of an X-LoRA with other tensors, another configuration, or other names of files.
fn changed(from: &str, names: [&str; 2], change: &dyn Fn(&mut Tensors, &mut Value)) -> tempfile::TempDir {
    let bytes = std::fs::read(variant(from).join("adapter_model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let of = |(name, view): (String, TensorView<'_>)| (name, (view.shape().to_vec(), view.data().to_vec()));
    let mut tensors: Tensors = file.tensors().into_iter().map(of).collect();
    let config = std::fs::read(variant(from).join("adapter_config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&config).unwrap();
    for path in config["adapters"].as_object_mut().unwrap().values_mut() {
        *path = json!(variant(from).join(path.as_str().unwrap()));
    }
    change(&mut tensors, &mut config);
    let folder = tempfile::tempdir().unwrap();
    let views = tensors.iter().map(|(name, (shape, data))| {
        (name.clone(), TensorView::new(Dtype::F32, shape.clone(), data).unwrap())
    });
    let written = safetensors::serialize(views.collect::<Vec<_>>(), None).unwrap();
    std::fs::write(folder.path().join(names[1]), written).unwrap();
    std::fs::write(folder.path().join(names[0]), config.to_string()).unwrap();
    folder
}

const PEFT: [&str; 2] = ["adapter_config.json", "adapter_model.safetensors"];
const PUBLISHED: [&str; 2] = ["xlora_config.json", "xlora_classifier.safetensors"];

/// `inner` has places for ReLU and dropout between its linears, `last` has none.
fn published(tensors: &mut Tensors, config: &mut Value) {
    for (name, tensor) in std::mem::take(tensors) {
        let (index, part) = name.strip_prefix(CLASSIFIER).unwrap()[1..].split_once('.').unwrap();
        let module = if index == "0" { "inner.0" } else { "last" };
        tensors.insert(format!("{module}.{part}"), tensor);
    }
    let adapters = config["adapters"].take();
    let named =
        adapters.as_object().unwrap().iter().map(|(name, path)| (format!("adapter_{name}"), path.clone()));
    *config = json!({
        "base_model_id": "base/llama", "hidden_size": 64, "adapters": named.collect::<serde_json::Map<_, _>>(),
        "enable_softmax": true, "enable_softmax_topk": false, "layerwise_scalings": true, "xlora_depth": 2,
        "xlora_size": 24, "enable_relu_and_dropout": true, "use_bias": true, "xlora_dropout_p": 0.2,
        "stop_token_id": null, "use_trainable_adapters": false, "softmax_temperature": 1, "top_k_lora": null,
        "scaling_pass_value": 0, "global_scaling_weight": 1,
    });
}

/// The numbers of the modules of the fixture's adapters, in another order of blocks than the spec's if `turned`.
fn ordering(turned: bool) -> Value {
    let mut layers = serde_json::Map::new();
    for (number, name) in ["q_proj", "k_proj", "v_proj", "o_proj"].iter().cycle().take(12).enumerate() {
        let block = if turned { 2 - number / 4 } else { number / 4 };
        layers.insert(format!("model.layers.{block}.self_attn.{name}"), json!(number));
    }
    json!({ "order": ["adapter_0", "adapter_1", "adapter_2"], "layers": layers, "base_model_id": "base/llama" })
}

#[test]
fn the_first_publications_layout_is_the_same_model() {
    let (reference, tokens) = prompt("depth2_softmax");
    let folder = changed("depth2_softmax", PUBLISHED, &published);
    let whole = LogitsOptions::default();
    let logits = rows(&open(folder.path()).unwrap(), &tokens, &whole);
    assert!(distance(&logits, &reference.values("logits_prompt")) < 1e-4);
    // An ordering says what the spec says, or something else.
    let write =
        |value: Value| std::fs::write(folder.path().join("ordering.json"), value.to_string()).unwrap();
    write(ordering(false));
    assert_eq!(rows(&open(folder.path()).unwrap(), &tokens, &whole), logits);
    write(ordering(true));
    assert!(distance(&rows(&open(folder.path()).unwrap(), &tokens, &whole), &logits.concat()) > 0.1);
    let mut short = ordering(false);
    short["layers"].as_object_mut().unwrap().remove("model.layers.2.self_attn.o_proj");
    write(short);
    expect(&folder, &["model.layers.2.self_attn.o_proj", "the ordering has no number for it"]);
    let mut other = ordering(false);
    other["order"] = json!(["adapter_1", "adapter_0", "adapter_2"]);
    write(other);
    expect(&folder, &["ordering.json", "outputs of the classifier are assigned in this order"]);
}

#[test]
fn sequences_of_a_step_do_not_see_each_other_and_prefixes_are_kept() {
    let pipeline = open(&variant("depth2_topk2")).unwrap();
    let (reference, tokens) = prompt("depth2_topk2");
    let other = reference.ids("tokens_long")[..20].to_vec();
    let whole = LogitsOptions::default();
    let room = SchedulerOptions::default()
        .with_sequences(2)
        .with_prefixes(0)
        .with_capacity_tokens(256)
        .with_step_tokens(256);
    let mut scheduler = Scheduler::new(Arc::clone(pipeline.engine()), Vec::new(), room).unwrap();
    let (mut first, mut second) = (scheduler.create().unwrap(), scheduler.create().unwrap());
    scheduler.begin(&mut first, &tokens, LogitRows::All).unwrap();
    scheduler.begin(&mut second, &other, LogitRows::All).unwrap();
    let step = scheduler.step(&mut [&mut first, &mut second], None);
    assert_eq!(step.count(), 2);
    step.each(&mut |index, output| {
        let alone = rows(&pipeline, [&tokens, &other][index], &whole);
        let together = output.unwrap().logits().unwrap();
        assert!(distance(&alone, together) < 1e-5, "sequence {index}");
    });
    let changed = [&tokens[..40], &other[..]].concat();
    scheduler.begin(&mut first, &changed, LogitRows::Last).unwrap();
    assert_eq!(first.cached(), 40);
    let mut last = Vec::new();
    scheduler
        .feed(&mut first, None, &mut |_, output| {
            last.extend_from_slice(output.logits()?);
            Ok(())
        })
        .unwrap();
    let alone = rows(&pipeline, &changed, &whole);
    assert!(distance(&alone[alone.len() - 1..], &last) < 1e-4, "a kept prefix");
}

fn expect(folder: &tempfile::TempDir, parts: &[&str]) {
    let said = open(folder.path()).err().unwrap_or_else(|| panic!("it was opened: {parts:?}"));
    for part in parts {
        assert!(said.contains(part), "`{part}` is missing: {said}");
    }
}

#[test]
fn what_is_broken_or_does_not_fit_is_named() {
    let refused = |change: &dyn Fn(&mut Tensors, &mut Value), parts: &[&str]| {
        expect(&changed("depth2_softmax", PEFT, change), parts);
    };
    let last = |name: &str| format!("{CLASSIFIER}.2.{name}");
    let cut = |tensors: &mut Tensors, rows: usize| {
        for (name, width) in [("weight", 24 * 4), ("bias", 4)] {
            let (shape, data) = tensors.get_mut(&last(name)).unwrap();
            shape[0] = rows;
            data.truncate(rows * width);
        }
    };
    refused(
        &|tensors, _| cut(tensors, 33),
        &[
            "rows of the last linear: expected 36, found 33",
            "12 layers with adapters, and there are 3 adapters",
        ],
    );
    refused(
        &|_, config| config["hidden_size"] = json!(32),
        &["hidden_size", "expected 64 as in the model, found 32"],
    );
    refused(&|_, config| config["xlora_depth"] = json!(3), &["it has 2 linears", "xlora_depth is 3"]);
    refused(
        &|tensors, _| tensors.retain(|name, _| !name.contains(".2.")),
        &["it has 1 linears", "PEFT 0.21"],
    );
    refused(&|tensors, _| drop(tensors.remove(&last("bias"))), &["linear 1 has no bias"]);
    refused(
        &|_, config| config["adapters"]["1"] = json!("nowhere/a1"),
        &["adapter \"1\" (nowhere/a1)", "download it"],
    );
    refused(&|_, config| config["adapters"] = json!({}), &["there is no adapter to mix"]);
    refused(
        &|_, config| config["top_k_lora"] = json!(4),
        &["top_k_lora", "at most the number of adapters, 3"],
    );
    refused(&|_, config| config["softmax_temperature"] = json!(0), &["softmax_temperature", "above 0"]);
    refused(&|_, config| config["use_trainable_adapters"] = json!(true), &["use_trainable_adapters"]);
    refused(&|_, config| config["top_k_lor"] = json!(1), &["top_k_lor", "the nearest is `top_k_lora`"]);
    let equal = |config: &mut Value| {
        config["scaling_pass_value"] = json!(0.5);
        config["top_k_lora"] = json!(2);
    };
    refused(
        &|_, config| equal(config),
        &["scaling_pass_value", "the choice, and with it the result, is undefined"],
    );
    let head = fixtures().join("lora/llama/adapters/a3");
    refused(&|_, config| config["adapters"]["2"] = json!(head), &["lm_head", "X-LoRA cannot mix"]);
    let nan = |tensors: &mut Tensors| {
        tensors.get_mut(&last("bias")).unwrap().1[..4].copy_from_slice(&f32::NAN.to_le_bytes())
    };
    refused(&|tensors, _| nan(tensors), &["NaN", "the file is damaged"]);
    let lora = fixtures().join("lora/llama/adapters/a0");
    assert!(open(&lora).err().unwrap().contains("not an X-LoRA: there is no xlora_config.json"));
    // Numbers that overflow are found when they are computed.
    let huge = changed("depth1_nosoftmax", PEFT, &|tensors, _| {
        let (_, data) = tensors.get_mut(&format!("{CLASSIFIER}.0.weight")).unwrap();
        data.chunks_exact_mut(4).for_each(|value| value.copy_from_slice(&3e38_f32.to_le_bytes()));
    });
    let (_, tokens) = prompt("depth1_nosoftmax");
    let error =
        logits(&open(huge.path()).unwrap(), &tokens, &LogitsOptions::default()).unwrap_err().to_string();
    assert!(error.contains("scalings of X-LoRA: the weight of adapter"), "{error}");
}

/// A copy of a LoRA adapter with the tensors whose names hold `part`.
fn part_of(adapter: &str, part: &str, to: &Path) {
    let from = fixtures().join("lora/llama").join(adapter);
    std::fs::create_dir_all(to).unwrap();
    std::fs::copy(from.join(PEFT[0]), to.join(PEFT[0])).unwrap();
    let bytes = std::fs::read(from.join(PEFT[1])).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let kept = file.tensors().into_iter().filter(|(name, _)| name.contains(part)).collect::<Vec<_>>();
    assert!(!kept.is_empty());
    std::fs::write(to.join(PEFT[1]), safetensors::serialize(kept, None).unwrap()).unwrap();
}

/// An adapter on the embedding is weighted row by row like the others, as layer 0: transformers registers the embedding first.
/// With a classifier that gives constants, X-LoRA is two LoRA adapters with fixed weights, which are PEFT's in `adapters.rs`.
#[test]
fn the_embedding_is_the_first_layer() {
    const MODULES: usize = 12;
    let home = tempfile::tempdir().unwrap();
    let (table, linears) = (home.path().join("table"), home.path().join("linears"));
    part_of("embed", "embed_tokens", &table);
    part_of("adapters/a0", "lora", &linears);
    let folder = changed("depth1_nosoftmax", PEFT, &|tensors, config| {
        config["adapters"] = json!({ "0": table, "1": linears });
        let outputs = (MODULES + 1) * 2;
        // The table's adapter acts at layer 0 alone and the other everywhere else: 9 is a weight that nothing meets.
        let bias = (0..outputs).map(|at| match (at / 2, at % 2) {
            (0, 0) => 0.7f32,
            (0, _) | (_, 0) => 9.0,
            _ => 0.4,
        });
        let bias: Vec<u8> = bias.flat_map(f32::to_le_bytes).collect();
        tensors.insert(format!("{CLASSIFIER}.0.bias"), (vec![outputs], bias));
        tensors.insert(format!("{CLASSIFIER}.0.weight"), (vec![outputs, 64], vec![0; outputs * 64 * 4]));
    });
    let (_, tokens) = prompt("depth1_nosoftmax");
    let mixed = open(folder.path()).unwrap_or_else(|error| panic!("{error}"));
    let model = fixtures().join("base/llama/model-f32.gguf");
    let mut fixed = ModelBuilder::new(&model).with_options(&options(Arithmetic::Fast)).open_text().unwrap();
    fixed.load_adapter("table", &table).unwrap();
    fixed.load_adapter("linears", &linears).unwrap();
    let bare = rows(&fixed, &tokens, &LogitsOptions::default());
    for how in [LogitsOptions::default(), LogitsOptions::default().with_chunk(7).with_decode_from(9)] {
        let set = fixed.adapter_set(&[("table", 0.7), ("linears", 0.4)]).unwrap();
        fixed.adapt(Some(set));
        let expected = rows(&fixed, &tokens, &how).concat();
        let found = distance(&rows(&mixed, &tokens, &how), &expected);
        assert!(found <= 1e-4, "{found:e}");
        assert!(distance(&bare, &expected) > 0.1);
        // Without the table it is another model.
        let set = fixed.adapter_set(&[("linears", 0.4)]).unwrap();
        fixed.adapt(Some(set));
        assert!(distance(&rows(&fixed, &tokens, &how), &expected) > 1e-2);
    }
}

/// Specs say in which order transformers registers the linears of a block (`reference/adapter_order.py` asked it): an X-LoRA
/// numbers its layers so.
#[test]
fn layers_are_in_the_order_of_transformers() {
    let text = std::fs::read(fixtures().join("lora/order.json")).unwrap();
    let classes: BTreeMap<String, Vec<Vec<String>>> = serde_json::from_slice(&text).unwrap();
    assert!(classes.len() > 80, "{}", classes.len());
    let environment = SpecOptions::default().environment().unwrap();
    let (mut faults, mut numbered) = (Vec::new(), 0);
    for (class, blocks) in &classes {
        for (_, spec) in environment.of_class(class).unwrap_or_else(|error| panic!("{class}: {error}")) {
            let order = spec.adapter_order();
            // Its checkpoints fuse what its modules have apart: an X-LoRA of it is refused, module by module.
            if spec.id() == "hrm_text" {
                assert!(order.is_empty());
                continue;
            }
            for block in blocks {
                let mut last = None;
                for module in block {
                    let name = format!("{}.{module}", spec.hf.layer.replace("{layer}", "0"));
                    let roles: Vec<String> =
                        places(&spec, &name).into_iter().map(|place| place.role).collect();
                    // A module that the spec does not know is refused by name.
                    if roles.is_empty() {
                        continue;
                    }
                    let rank =
                        roles.iter().filter_map(|role| order.iter().position(|known| known == role)).min();
                    if rank.is_none() || rank <= last {
                        faults.push(format!("{} ({class}): {module} is {roles:?} in {order:?}", spec.id()));
                    }
                    (last, numbered) = (rank, numbered + 1);
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(numbered > 600, "{numbered} modules were compared");
}
