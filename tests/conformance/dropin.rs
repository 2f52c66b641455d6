//! An architecture that is not built in runs from a TOML file that was dropped into a folder.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::engine::{Arithmetic, ChatMessage, RenderOptions};
use menagerie::gguf::{GgufFile, GgufWriter, OpenOptions};
use menagerie::measure::LogitsOptions;
use menagerie::open::{LoadOptions, ModelBuilder, TemplateSource};
use menagerie_conformance::suite::dropped_in;
use menagerie_conformance::{Reference, distance, fixtures, options, rows};
use std::path::Path;

fn with_specs(folder: &Path) -> LoadOptions {
    options(Arithmetic::Fast).with_spec_dirs(vec![folder.to_owned()])
}

fn spec(id: &str) -> String {
    std::fs::read_to_string(fixtures().join(format!("../../specs/{id}.toml"))).unwrap()
}

/// The fixture of SmolLM3 as a file of an architecture that nobody has heard of.
fn renamed(path: &Path) {
    let model = fixtures().join("dropin/smollm3/model-f32.gguf");
    let file = GgufFile::open(&model, &OpenOptions::default()).unwrap();
    let mut writer = GgufWriter::new();
    for (key, value) in file.metadata().iter() {
        match key.strip_prefix("smollm3.") {
            _ if key == "general.architecture" => writer.metadata(key, "unheard").unwrap(),
            Some(own) => writer.metadata(&format!("unheard.{own}"), value).unwrap(),
            None => writer.metadata(key, value).unwrap(),
        };
    }
    for tensor in file.tensors() {
        let data = file.data(tensor).unwrap().to_vec();
        writer.tensor(tensor.name(), tensor.dims(), tensor.kind(), data).unwrap();
    }
    writer.write(path).unwrap();
}

#[test]
fn an_architecture_is_unknown_until_its_spec_is_dropped() {
    let specs = tempfile::tempdir().unwrap();
    let model = specs.path().join("model.gguf");
    renamed(&model);
    let error = ModelBuilder::new(&model)
        .with_options(&options(Arithmetic::Fast))
        .open_text()
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(error.contains("unheard") && error.contains("--spec-dir"), "{error}");

    let dropped = spec("smollm3").replace("\"smollm3\"", "\"unheard\"");
    std::fs::write(specs.path().join("unheard.toml"), dropped).unwrap();
    let pipeline = ModelBuilder::new(&model)
        .with_options(&with_specs(specs.path()))
        .open_text()
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(pipeline.notices().iter().any(|notice| notice.to_string().contains("unheard.toml")));
    dropped_in::agrees(&pipeline);
}

#[test]
fn smollm3_is_built_in() {
    dropped_in::smollm3(&options(Arithmetic::Fast));
}

#[test]
fn a_built_in_spec_stays_and_shadowing_needs_leave_and_both_are_said() {
    let specs = tempfile::tempdir().unwrap();
    // Another epsilon than the file's, so that the two specs give different logits.
    let other = spec("llama").replace("eps  = \"attention.layer_norm_rms_epsilon\"", "eps  = 0.5");
    assert_ne!(other, spec("llama"));
    std::fs::write(specs.path().join("llama.toml"), other).unwrap();
    let model = fixtures().join("base/llama/model-f32.gguf");
    let reference = Reference::open(&fixtures().join("base/llama/reference.safetensors"));
    let prompt = reference.ids("tokens_prompt");
    for (allow_shadow, says) in [(false, "is not used"), (true, "which replaces the built-in one")] {
        let options =
            with_specs(specs.path()).with_allow_shadow(allow_shadow).with_accept_unread(if allow_shadow {
                vec!["llama.attention.layer_norm_rms_epsilon".into()]
            } else {
                Vec::new()
            });
        let pipeline =
            ModelBuilder::new(&model).with_options(&options).open_text().unwrap_or_else(|e| panic!("{e}"));
        let notices: Vec<String> = pipeline.notices().iter().map(ToString::to_string).collect();
        let said = notices.iter().any(|notice| notice.contains("llama.toml") && notice.contains(says));
        assert!(said, "{notices:?}");
        let whole = LogitsOptions::default();
        let found = distance(&rows(&pipeline, &prompt, &whole), &reference.values("logits_prompt"));
        assert_eq!(found <= 1e-4, !allow_shadow, "differs by {found:e}");
    }
}

/// A pre-tokenizer, an end text and a reasoning tag that nothing built in knows, in a spec folder.
#[test]
fn tables_of_a_spec_folder_are_used() {
    let specs = tempfile::tempdir().unwrap();
    let model = specs.path().join("model.gguf");
    let file = GgufFile::open(fixtures().join("base/qwen2/model-f32.gguf"), &OpenOptions::default()).unwrap();
    let mut writer = GgufWriter::new();
    for (key, value) in file.metadata().iter() {
        match key {
            "tokenizer.ggml.pre" => writer.metadata(key, "unheard").unwrap(),
            _ => writer.metadata(key, value).unwrap(),
        };
    }
    for tensor in file.tensors() {
        let data = file.data(tensor).unwrap().to_vec();
        writer.tensor(tensor.name(), tensor.dims(), tensor.kind(), data).unwrap();
    }
    writer.write(&model).unwrap();
    let template = "{{ messages[0].content }}<hm>";
    let given = TemplateSource { name: "given".to_owned(), source: template.to_owned() };
    let options = with_specs(specs.path()).with_chat_template(given);
    let missing = ModelBuilder::new(&model).with_options(&options).open_text().unwrap();
    let error = missing.tokenizer().map(drop).unwrap_err().to_string();
    assert!(error.contains("unknown pre-tokenizer `unheard`") && error.contains("spec folder"), "{error}");

    std::fs::create_dir(specs.path().join("tokenizers")).unwrap();
    let table = specs.path().join("tokenizers/unheard.toml");
    let text = "[[pre]]\nnames = ['unheard']\nsplit = 'qwen2'\n[end]\ntexts = ['<|im_start|>']\n\
                [[reasoning]]\nopen = '<hm>'\nclose = '</hm>'\n";
    std::fs::write(&table, text).unwrap();
    let pipeline = ModelBuilder::new(&model).with_options(&options).open_text().unwrap();
    let tokenizer = pipeline.tokenizer().unwrap_or_else(|error| panic!("{error}"));
    let plain = ModelBuilder::new(fixtures().join("base/qwen2/model-f32.gguf"))
        .with_options(&options)
        .open_text()
        .unwrap();
    let expected = plain.tokenizer().unwrap();
    let prompt = "The License, 12 times";
    assert_eq!(tokenizer.encode_prompt(prompt).unwrap(), expected.encode_prompt(prompt).unwrap());
    assert!(tokenizer.end_of_generation().contains(&3), "<|im_start|> ends a generation");
    let format = pipeline.chat_format().unwrap_or_else(|error| panic!("{error}"));
    let rendered = format.render_prompt(&[ChatMessage::user("?")], &RenderOptions::default()).unwrap();
    assert!(rendered.syntax.reasoning.iter().any(|tags| tags.open == "<hm>"));
    let notices: Vec<String> = pipeline.notices().iter().map(ToString::to_string).collect();
    assert!(notices.iter().any(|notice| notice.contains("unheard.toml")), "{notices:?}");

    std::fs::write(&table, format!("{text}\n[[pre]]\nnames = ['gpt-2']\nsplit = 'qwen2'\n")).unwrap();
    let faulty = ModelBuilder::new(&model).with_options(&options).open_text();
    let error = faulty.unwrap().tokenizer().map(drop).unwrap_err().to_string();
    assert!(
        error.contains("unheard.toml:1:") || error.contains("`[[pre]]`") || error.contains("pre"),
        "{error}"
    );
}
