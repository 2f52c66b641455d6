//! Models whose parts are a plugin's: right, in chunks, decoded, on several threads, and shown as what they are.
#![allow(missing_docs, clippy::unwrap_used)]

use menagerie::engine::{Arithmetic, TextPipeline};
use menagerie::measure::{LogitsOptions, logits};
use menagerie::open::{Device, LoadOptions, LoadedModel};
use menagerie::registry::{Environment, GGUFArchitecture, Origin};
use menagerie_candle::CandleBackend;
use menagerie_plugin_host::{LoadedPlugin, loaded};
use menagerie_plugin_tests::{Model, Probe, VOCABULARY, open_with, with_plugin};
use menagerie_testkit::assert_close;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The environment with the probe, loaded once; its file is gone by the time that models are made.
fn installed() -> &'static (Environment, &'static LoadedPlugin) {
    static INSTALLED: OnceLock<(Environment, &'static LoadedPlugin)> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        with_plugin(Probe::built().save(folder.path(), "probe.so"))
    })
}

fn environment() -> &'static Environment {
    &installed().0
}

fn options(threads: usize, arithmetic: Arithmetic) -> LoadOptions {
    LoadOptions::default().with_threads(threads).with_arithmetic(arithmetic)
}

fn tokens() -> Vec<u32> {
    (0..17).map(|i| i * 7 % VOCABULARY as u32).collect()
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

#[test]
fn norms_mixers_and_feed_forwards_of_a_plugin_run_right() {
    let (folder, model) = (tempfile::tempdir().unwrap(), Model::default());
    let path = model.save(folder.path(), "probe-model");
    let expected = model.logits(&tokens(), silu);
    for threads in [1, 2] {
        let pipeline = open_with(&path, environment(), &options(threads, Arithmetic::Exact)).unwrap();
        for (chunk, decode_from) in [(64, None), (5, None), (1, None), (64, Some(6))] {
            let asked = LogitsOptions::default().with_chunk(chunk).with_decode_from(decode_from);
            let logits = logits(&pipeline, &tokens(), &asked).unwrap();
            let what = format!("{threads} threads, chunks of {chunk}, decoded from {decode_from:?}");
            assert_close(&what, &logits.values, &expected, 1e-4);
        }
    }
}

/// Rows per token, which the host stores and gives back.
#[test]
fn states_per_token_of_a_plugin_are_stored_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let from = "kind  = \"probe/parts:decaying-mean\"\ndecay = 0.25";
    let pipeline = open(folder.path(), |spec| {
        let ignored = "[gguf.ignore_keys]\n\"mean.channels\" = \"the tensors have it\"\n";
        spec.replace(from, "kind = \"probe/parts:remembering\"") + ignored
    })
    .unwrap();
    let expected = Model::default().logits_of_means(&tokens(), silu);
    for (chunk, decode_from) in [(64, None), (5, None), (64, Some(6))] {
        let asked = LogitsOptions::default().with_chunk(chunk).with_decode_from(decode_from);
        let logits = logits(&pipeline, &tokens(), &asked).unwrap();
        assert_close(&format!("chunks of {chunk}, from {decode_from:?}"), &logits.values, &expected, 1e-4);
    }
}

/// Linears stay the host's: adapters act on those that a plugin computes with.
#[test]
fn adapters_reach_the_linears_of_a_plugin() {
    let (folder, mut model) = (tempfile::tempdir().unwrap(), Model::default());
    let path = model.save(folder.path(), "probe-model");
    let bare = model.logits(&tokens(), silu);
    let adapter =
        model.adapt(folder.path(), &["mean_value", "mean_output", "ffn_gate", "ffn_down"], "probe-model");
    let mut pipeline = open_with(&path, environment(), &options(1, Arithmetic::Exact)).unwrap();
    pipeline.load_adapter("one", &adapter).unwrap();
    let asked = LogitsOptions::default().with_chunk(7).with_decode_from(12);
    assert_close("bare", &logits(&pipeline, &tokens(), &asked).unwrap().values, &bare, 1e-4);
    let set = pipeline.adapter_set(&[("one", 1.0)]).unwrap();
    pipeline.adapt(Some(set));
    let adapted = model.logits(&tokens(), silu);
    assert!(adapted.iter().zip(&bare).any(|(one, other)| (one - other).abs() > 0.1));
    assert_close("adapted", &logits(&pipeline, &tokens(), &asked).unwrap().values, &adapted, 1e-4);
}

/// On another backend rows and blocks of states are read back and taken in again.
#[test]
fn on_another_device_the_parts_of_a_plugin_compute_the_same() {
    let (folder, model) = (tempfile::tempdir().unwrap(), Model::default());
    let path = model.save(folder.path(), "probe-model");
    let device = Device::Given(Arc::new(CandleBackend::open("candle").unwrap()));
    let options = options(1, Arithmetic::Exact).with_device(device).with_threads(None);
    let pipeline = open_with(&path, environment(), &options).unwrap();
    let asked = LogitsOptions::default().with_chunk(5).with_decode_from(11);
    let logits = logits(&pipeline, &tokens(), &asked).unwrap();
    assert_close("candle", &logits.values, &model.logits(&tokens(), silu), 1e-4);
}

#[test]
fn a_plugin_and_its_parts_are_registered_by_its_name() {
    let (environment, plugin) = installed();
    assert_eq!(plugin.inspected.id, "probe/parts");
    assert!(environment.all::<&'static LoadedPlugin>().iter().any(|one| std::ptr::eq(*one, *plugin)));
    assert!(loaded().iter().any(|one| std::ptr::eq(*one, *plugin)));
    assert!(Environment::linked().unwrap().architecture("probe-model").is_none());
    let (entry, _) = environment.resolve(&GGUFArchitecture::new("probe-model").unwrap()).unwrap();
    let Origin::Plugin(by) = entry.origin else { panic!("{:?}", entry.origin) };
    assert_eq!(by, plugin.shown());
    assert!(by.starts_with("plugin probe/parts 0.1.0 (/") && by.ends_with("probe.so)"), "{by}");
    let kinds: Vec<String> = environment
        .components()
        .iter()
        .filter(|component| component.registered_by == by)
        .map(|component| format!("{} {}", component.kind.family.name(), component.kind.name))
        .collect();
    assert_eq!(kinds.len(), 15, "{kinds:?}");
    for kind in ["norm probe/parts:dynamic-tanh", "rope probe/parts:stretched", "activation probe/parts:mish"]
    {
        assert!(kinds.iter().any(|known| known == kind), "{kinds:?}");
    }
}

/// The model by a spec of a folder, with changes in it.
fn open(folder: &Path, change: impl Fn(String) -> String) -> Result<LoadedModel<TextPipeline>, String> {
    let spec = include_str!("../probe/src/probe-model.toml").replace("\"probe-model\"", "\"changed\"");
    std::fs::write(folder.join("changed.toml"), change(spec)).unwrap();
    let path = Model::default().save(folder, "changed");
    let options = options(1, Arithmetic::Exact).with_spec_dirs(vec![folder.to_owned()]);
    open_with(&path, environment(), &options)
}

#[test]
fn an_activation_and_options_of_a_plugin_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let gated = "kind = \"gated\"\nactivation = { kind = \"probe/parts:mish\", beta = 1.3 }";
    let pipeline = open(folder.path(), |spec| spec.replace("kind = \"probe/parts:gated\"", gated)).unwrap();
    let mish = |x: f64| x * (f64::from(1.3f32) * x).exp().ln_1p().tanh();
    let logits = logits(&pipeline, &tokens(), &LogitsOptions::default()).unwrap();
    assert_close("mish", &logits.values, &Model::default().logits(&tokens(), mish), 1e-4);
}

#[test]
fn faults_in_the_options_and_tensors_of_a_plugin_are_named_like_others() {
    let folder = tempfile::tempdir().unwrap();
    let told = |from: &str, to: &str| match open(folder.path(), |spec| spec.replace(from, to)) {
        Ok(_) => panic!("nothing was refused"),
        Err(error) => error,
    };
    let error = told("alpha =", "alhpa =");
    assert!(error.contains("norm.alhpa") && error.contains("the nearest is `alpha`"), "{error}");
    let error = told("probe/parts:decaying-mean", "probe/parts:decaying-mode");
    assert!(error.contains("the nearest is `probe/parts:decaying-mean`"), "{error}");
    let error = told("decay = 0.25", "channels = \"mean.channels + 1\"");
    assert!(error.contains("[D=12, channels=6], found [12, 5]"), "{error}");
    let error = told("decay = 0.25", "decay = \"fast\"");
    assert!(error.contains("mixer.decay"), "{error}");
    let error = told("alpha = \"norm_alpha\"\n", "");
    assert!(error.contains("norm.alpha") && error.contains("missing"), "{error}");
}
