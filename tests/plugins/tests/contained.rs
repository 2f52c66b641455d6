//! What a plugin does wrong ends the request with its name, and hurts nothing else.
#![allow(missing_docs, clippy::unwrap_used)]

use menagerie::engine::{Arithmetic, TextPipeline};
use menagerie::measure::{LogitsOptions, logits};
use menagerie::open::{LoadOptions, LoadedModel};
use menagerie_plugin_host::{LoadedPlugin, OutputCheck, watch};
use menagerie_plugin_tests::{Model, Probe, open_with, with_loaded, with_plugin};
use std::sync::{Mutex, MutexGuard};

/// A plugin of its own for each test: strikes are counted for each. One test at a time: how closely outputs are looked at is
/// the process's.
fn plugin(author: &str) -> (&'static LoadedPlugin, MutexGuard<'static, ()>) {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let file = Probe::named(author).save(folder.path(), "probe.so");
    (with_plugin(&file).1, turn)
}

/// The model with changes in its spec.
fn open(author: &str, from: &str, to: &str) -> Result<LoadedModel<TextPipeline>, String> {
    let folder = tempfile::tempdir().unwrap();
    let spec = include_str!("../probe/src/probe-model.toml");
    assert!(spec.contains(from));
    let spec = spec
        .replace("\"probe-model\"", "\"changed\"")
        .replace(from, to)
        .replace("probe/parts", &format!("{author}/parts"));
    std::fs::write(folder.path().join("changed.toml"), spec).unwrap();
    // Roles that the changed spec does not name.
    let model =
        if to.contains("misbehaving") { Model::default().without(&[".bias"]) } else { Model::default() };
    let model = if to.contains("without-ids") { model.without(&["_norm"]) } else { model };
    let model = if to.contains("mean") || !from.contains("mean") { model } else { model.without(&["mean_"]) };
    let path = model.save(folder.path(), "changed");
    let options = LoadOptions::default()
        .with_spec_dirs(vec![folder.path().to_owned()])
        .with_threads(2)
        .with_arithmetic(Arithmetic::Exact)
        .with_accept_unread(["norm_alpha", "mean.channels"].map(str::to_owned).to_vec());
    open_with(&path, &with_loaded(), &options)
}

/// With a norm that misbehaves in this manner.
fn misbehaving(author: &str, manner: &str) -> Result<LoadedModel<TextPipeline>, String> {
    let to = format!("kind = \"{author}/parts:misbehaving\"\nhow = \"{manner}\"");
    open(author, "kind  = \"probe/parts:dynamic-tanh\"\nalpha = \"norm_alpha\"", &to)
}

/// With another mixer.
fn mixing(author: &str, kind: &str) -> Result<LoadedModel<TextPipeline>, String> {
    let to = format!("kind = \"{author}/parts:{kind}\"");
    open(author, "kind  = \"probe/parts:decaying-mean\"\ndecay = 0.25", &to)
}

/// What a step of two tokens, and another one, fail with.
fn told(pipeline: &TextPipeline, tokens: &[u32]) -> String {
    let told = logits(pipeline, tokens, &LogitsOptions::default());
    told.map(|_| "it went well".to_owned()).unwrap_or_else(|error| format!("{error:#}"))
}

#[test]
fn panics_end_the_request_poison_the_instance_and_three_of_them_the_plugin() {
    let (plugin, _turn) = plugin("panic");
    let behaves = misbehaving("panic", "behave").unwrap();
    assert_eq!(told(&behaves, &[1, 2]), "it went well");
    let error = misbehaving("panic", "panic-in-create").map(drop).unwrap_err();
    assert!(error.contains("component `panic/parts:misbehaving`: create panicked: "), "{error}");
    assert!(error.contains("create panics"), "{error}");
    let panics = misbehaving("panic", "panic").unwrap();
    let error = told(&panics, &[1, 2]);
    assert!(
        error.contains("layer 0")
            && error.contains("component `panic/parts:misbehaving`: forward panicked: "),
        "{error}"
    );
    assert!(error.contains("index out of bounds") && error.contains("is not called again"), "{error}");
    let again = told(&panics, &[1, 2]);
    assert!(
        again.contains("an earlier call of this instance panicked") && again.contains("load the model again"),
        "{again}"
    );
    assert!(!plugin.is_quarantined());
    assert_eq!(told(&behaves, &[1, 2]), "it went well", "other instances are not touched");
    for manner in ["panic", "panic-twice"] {
        let panics = misbehaving("panic", manner).unwrap();
        assert!(told(&panics, &[1, 2]).contains("forward panicked"));
    }
    assert!(plugin.is_quarantined());
    let error = told(&behaves, &[1, 2]);
    assert!(
        error.contains("plugin panic/parts 0.1.0") && error.contains("is not run anymore: 3 of its calls"),
        "{error}"
    );
    let error = misbehaving("panic", "behave").map(drop).unwrap_err();
    assert!(error.contains("is not run anymore"), "{error}");
}

#[test]
fn a_panic_at_the_end_of_an_instance_is_contained() {
    let (plugin, _turn) = plugin("drops");
    drop(misbehaving("drops", "panic-in-drop").unwrap());
    assert!(!plugin.is_quarantined());
    assert_eq!(told(&misbehaving("drops", "behave").unwrap(), &[1, 2]), "it went well");
}

#[test]
fn errors_are_told_and_the_instance_goes_on() {
    let (plugin, _turn) = plugin("fails");
    let fails = misbehaving("fails", "fail").unwrap();
    for _ in 0..5 {
        let error = told(&fails, &[1, 2]);
        assert!(
            error.contains("layer 0")
                && error.contains("component `fails/parts:misbehaving`: it is not a good day"),
            "{error}"
        );
    }
    assert!(!plugin.is_quarantined());
    let error = misbehaving("fails", "ask-for-state").map(drop).unwrap_err();
    assert!(error.contains("requests a state, which a norm cannot have"), "{error}");
    let error = told(&mixing("fails", "silent").unwrap(), &[1]);
    assert!(error.contains("`fails/parts:silent`: it failed without an error text"), "{error}");
    let error = told(&mixing("fails", "latin").unwrap(), &[1]);
    assert!(error.contains("a text that is not UTF-8 (byte 3): \"caf\\xe9\""), "{error}");
    let garbage = mixing("fails", "garbage").unwrap();
    let error = told(&garbage, &[1]);
    assert!(error.contains("forward returned status 77, which the plugin ABI does not have"), "{error}");
    assert!(told(&garbage, &[1]).contains("an earlier call of this instance"));
}

#[test]
fn values_that_are_no_numbers_are_found_and_named() {
    let (_, _turn) = plugin("madly");
    let last = misbehaving("madly", "nan-last").unwrap();
    let error = told(&last, &[1, 2, 3]);
    assert!(error.contains("`madly/parts:misbehaving`: value 2 of row 2 of its output is inf"), "{error}");
    // All rows, and what is not written, are looked at where somebody tries a plugin out.
    watch(OutputCheck::EveryRow);
    let error = told(&misbehaving("madly", "nan-first").unwrap(), &[1, 2, 3]);
    assert!(error.contains("value 1 of row 0 of its output is NaN, or was never written"), "{error}");
    let error = told(&misbehaving("madly", "write-nothing").unwrap(), &[1, 2, 3]);
    assert!(error.contains("value 0 of row 0 of its output is NaN, or was never written"), "{error}");
    assert_eq!(told(&misbehaving("madly", "behave").unwrap(), &[1, 2]), "it went well");
    watch(OutputCheck::LastRows);
}

#[test]
fn a_mixer_that_panics_in_the_middle_leaves_other_models_alone() {
    let (_, _turn) = plugin("third");
    let poisonous = mixing("third", "poisonous").unwrap();
    let other = open("third", "decay = 0.25", "decay = 0.5").unwrap();
    let before = logits(&other, &[1, 2, 3], &LogitsOptions::default()).unwrap().values;
    assert_eq!(told(&poisonous, &[1]), "it went well");
    let error = (0..3).map(|_| told(&poisonous, &[1])).find(|told| told != "it went well").unwrap();
    assert!(
        error.contains("`third/parts:poisonous`: forward panicked")
            && error.contains("the third call panics"),
        "{error}"
    );
    assert_eq!(logits(&other, &[1, 2, 3], &LogitsOptions::default()).unwrap().values, before);
}

/// Work within work runs where it is asked for: nobody waits for threads that are busy with the outer one.
#[test]
fn threads_that_are_asked_for_within_their_work_are_not_waited_for() {
    let (_, _turn) = plugin("nests");
    let nested = mixing("nests", "nested").unwrap();
    for _ in 0..20 {
        assert_eq!(told(&nested, &[1, 2, 3]), "it went well");
    }
}

/// On the thread of the call the host would lend out what the bodies share: it refuses, and says so even where the plugin does not.
#[test]
fn a_service_that_is_asked_for_within_a_body_is_refused() {
    let (_, _turn) = plugin("entry");
    let told = told(&mixing("entry", "reentrant").unwrap(), &[1, 2]);
    assert!(
        told.contains("`entry/parts:reentrant`: it calls a host function from a body of `parallel_for`"),
        "{told}"
    );
}

/// What a norm is given may be heads of rows, or only rows that logits are wanted of: no ids stand beside them.
#[test]
fn norms_are_shown_no_tokens() {
    let (_, _turn) = plugin("noids");
    let norms = open(
        "noids",
        "kind  = \"probe/parts:dynamic-tanh\"\nalpha = \"norm_alpha\"",
        "kind = \"noids/parts:without-ids\"",
    );
    assert_eq!(told(&norms.unwrap(), &[1, 2, 3]), "it went well");
}

#[test]
fn a_magnitude_of_a_rope_that_is_no_number_is_named() {
    let (_, _turn) = plugin("ropes");
    let to = "kind = \"attention\"\nheads = 1\nkv_heads = 1\nkey_dim = 12\nvalue_dim = 12\nrope = { kind = \"rotary\", \
              pairs = \"halves\", dims = 12, base = 10000, frequencies = { kind = \"ropes/parts:no-magnitude\" } }";
    let error =
        open("ropes", "kind  = \"probe/parts:decaying-mean\"\ndecay = 0.25", to).map(drop).unwrap_err();
    assert!(
        error.contains("component `ropes/parts:no-magnitude`: the magnitude is NaN, which is not finite"),
        "{error}"
    );
}
