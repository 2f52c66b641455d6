//! The commands that need a model, on fixtures.

use super::{Changed, fixture, menagerie};

#[test]
fn logits_are_those_of_the_library_and_have_the_promised_form() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/qwen2/model-f32.gguf");
    let arguments = ["logits", model.to_str().unwrap(), "--tokens", "5,6,7,8", "--out", "o.safetensors"];
    menagerie(home.path(), &arguments).good();
    let whole = std::fs::read(home.path().join("o.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&whole).unwrap();
    assert_eq!(file.tensor("tokens").unwrap().shape(), [4]);
    assert_eq!(file.tensor("logits").unwrap().shape(), [4, 384]);
}

#[test]
fn run_is_deterministic_for_a_seed() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/llama/model-f32.gguf");
    let run = |seed: &str| {
        let arguments = ["run", model.to_str().unwrap(), "abc", "--raw", "-n", "12", "--seed", seed];
        menagerie(home.path(), &arguments).good()
    };
    assert_eq!(run("7"), run("7"));
    assert_ne!(run("7"), run("8"));
}

#[test]
fn tokenize_works_without_weights_and_for_unknown_architectures() {
    let home = tempfile::tempdir().unwrap();
    let mut changed = Changed::of("base/qwen2/model-f32.gguf").set("general.architecture", "never-heard-of");
    changed.tensors.clear();
    let file = changed.write(home.path());
    let json = menagerie(home.path(), &["tokenize", &file, "Hello world", "--json"]).good();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let text: String =
        json["tokens"].as_array().unwrap().iter().map(|token| token["piece"].as_str().unwrap()).collect();
    assert_eq!(text, "Hello world");
}

#[test]
fn bench_measures_a_model_without_a_tokenizer() {
    let home = tempfile::tempdir().unwrap();
    let shape = [
        "block_count=2",
        "embedding_length=256",
        "feed_forward_length=512",
        "attention.head_count=4",
        "attention.head_count_kv=2",
        "attention.layer_norm_rms_epsilon=0.00001",
        "vocab_size=512",
        "context_length=512",
    ];
    let mut arguments = vec!["synth", "llama", "s.gguf", "--quant", "Q4_K_M"];
    for part in &shape {
        arguments.extend(["--shape", part]);
    }
    menagerie(home.path(), &arguments).good();
    let bench = ["bench", "s.gguf", "-p", "16", "-n", "4", "-r", "1", "-t", "1", "--json"];
    let json: serde_json::Value = serde_json::from_str(&menagerie(home.path(), &bench).good()).unwrap();
    assert!(json["pp_tokens_per_second"]["median"].as_f64().unwrap() > 0.0, "{json}");
    assert!(json["tg_tokens_per_second"]["median"].as_f64().unwrap() > 0.0, "{json}");
    // P26: lists, and forms that other tools read.
    let lists = ["bench", "s.gguf", "-p", "8,16", "-n", "2", "-r", "2", "-t", "1"];
    let markdown = menagerie(home.path(), &[&lists[..], &["--format", "markdown"]].concat()).good();
    assert!(markdown.contains("| pp8 |") && markdown.contains("| pp16 |"), "{markdown}");
    let csv = menagerie(home.path(), &[&lists[..], &["--format", "csv"]].concat()).good();
    assert_eq!(csv.lines().count(), 4, "{csv}");
    assert!(menagerie(home.path(), &lists).good().contains(" \u{b1} "));
    for key in ["file_bytes", "parameters", "type", "version", "time"] {
        assert!(!json[key].is_null(), "{key}: {json}");
    }
    menagerie(home.path(), &["bench", "s.gguf", "-p", "0", "-n", "0"]).refused_with(&["nothing to measure"]);
    let nameless = ["synth", "llama", "t.gguf", "--shape", "=1"];
    menagerie(home.path(), &nameless).refused_with(&["=1", "KEY=VALUE"]);
    // A28: a key alone is no shape.
    let alone = ["synth", "llama", "t.gguf", "--shape", "block_count=4"];
    menagerie(home.path(), &alone).fails_with(&["also give the name of a shape (`--shape list` shows them)"]);
    menagerie(home.path(), &["run", "s.gguf", "hello"]).fails_with(&["tokenizer"]);
}

#[test]
fn render_gives_the_prompt_of_a_template() {
    let home = tempfile::tempdir().unwrap();
    let template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
    std::fs::write(home.path().join("t.jinja"), template).unwrap();
    std::fs::write(home.path().join("m.json"), r#"[{"role": "user", "content": "hi <b>"}]"#).unwrap();
    let render = |extra: &[&str]| {
        let arguments = [&["render", "--template", "t.jinja", "m.json"], extra].concat();
        menagerie(home.path(), &arguments).good()
    };
    assert_eq!(render(&[]), "<|user|>hi <b>\n<|assistant|>");
    assert_eq!(render(&["--no-generation-prompt"]), "<|user|>hi <b>\n");
}

#[test]
fn check_compares_with_a_reference() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/qwen3/model-f32.gguf");
    let reference = fixture("base/qwen3/reference.safetensors");
    let arguments = ["check", model.to_str().unwrap(), "--reference", reference.to_str().unwrap()];
    let out = menagerie(home.path(), &arguments).good();
    assert!(out.contains("logits_prompt"), "{out}");
    let other = fixture("base/qwen2/reference.safetensors");
    let arguments = ["check", model.to_str().unwrap(), "--reference", other.to_str().unwrap()];
    menagerie(home.path(), &arguments).fails_with(&["logits_prompt"]);
    let no_reference = home.path().join("notes.txt");
    std::fs::write(&no_reference, "Hi").unwrap();
    for (file, wanted) in
        [(&no_reference, "notes.txt: not a safetensors file"), (&model, "(it is a GGUF file)")]
    {
        let arguments = ["check", model.to_str().unwrap(), "--reference", file.to_str().unwrap()];
        menagerie(home.path(), &arguments).fails_with(&[
            wanted,
            "`tokens_NAME` and `logits_NAME`",
            "scripts/make-reference",
        ]);
    }
}
