//! A device, a file format and a sampler of another crate are used like the built-in ones.
#![allow(missing_docs, clippy::unwrap_used)]

use menagerie::engine::{Request, Sampler};
use menagerie::measure;
use menagerie::measure::LogitsOptions;
use menagerie::open::{Device, LoadOptions, ModelBuilder};
use menagerie::registry::{Entries, Environment};
use std::path::{Path, PathBuf};

use menagerie_outside as _;

fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/base/llama/model-f32.gguf")
}

fn logits(path: &Path, device: &str) -> Result<Vec<f32>, String> {
    let options = LoadOptions::default().with_threads(1).with_device(Device::named(device).unwrap());
    let pipeline =
        ModelBuilder::new(path).with_options(&options).open_text().map_err(|error| error.to_string())?;
    Ok(measure::logits(&pipeline, &[1, 5, 9, 13], &LogitsOptions::default()).unwrap().values)
}

#[test]
fn a_device_of_another_crate_computes_what_the_cpu_does() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let expected = logits(&model(), "cpu").unwrap();
    assert_eq!(logits(&model(), "counting").unwrap(), expected);
    assert_eq!(logits(&model(), &format!("counting:1,log={}", log.display())).unwrap(), expected);
    assert_eq!(std::fs::read_to_string(log).unwrap(), "counting:1");
    for (device, words) in [
        ("countin", "the nearest is `counting`; there are: counting, cpu"),
        ("counting:2", "the numbers are 0 to 1"),
        ("counting:lgo=x", "there is no option `lgo`; the nearest is `log`; it has log"),
        ("counting:log=", "option log: expected the name of a file"),
    ] {
        let error = logits(&model(), device).unwrap_err();
        assert!(error.contains(words) && error.contains(device), "{error}");
    }
}

#[test]
fn a_file_format_of_another_crate_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let pointer = folder.path().join("model.pointer");
    std::fs::write(&pointer, model().canonicalize().unwrap().to_str().unwrap()).unwrap();
    assert_eq!(logits(&pointer, "cpu").unwrap(), logits(&model(), "cpu").unwrap());
}

#[test]
fn a_sampler_of_another_crate_samples() {
    let environment = Environment::linked().unwrap();
    let sampler = Sampler::parse("outside/steps:only=token=7", environment.entries()).unwrap();
    let pipeline =
        ModelBuilder::new(model()).with_options(&LoadOptions::default().with_threads(1)).open_text().unwrap();
    let mut request = Request::default().with_max_tokens(3).with_ignore_eos(true);
    request.sampling.samplers.push(sampler);
    let outcome = pipeline.session().unwrap().generate("abc", &request, |_| {}).unwrap();
    assert_eq!(outcome.tokens, [7, 7, 7]);
}

/// A crate that registers a second entry of each name is refused, whatever the family.
#[test]
fn second_entries_are_refused_with_both_origins() {
    fn again<T: menagerie::registry::Entry>(entries: &Entries) -> String {
        let mut entries = entries.clone();
        let first = entries.all::<T>()[0].clone();
        entries.add(first).unwrap_err().to_string()
    }
    let entries = Entries::linked().unwrap();
    for error in [
        again::<menagerie::model::DeviceKind>(&entries),
        again::<menagerie::assembly::FileFormat>(&entries),
        again::<menagerie::engine::SamplerKind>(&entries),
        again::<menagerie::registry::ComponentEntry>(&entries),
        again::<menagerie::registry::Architecture>(&entries),
    ] {
        assert!(error.contains("is registered twice, by menagerie-"), "{error}");
        assert_eq!(error.matches("by menagerie-").count(), 2, "{error}");
    }
}
