//! `embed` and `rerank`: vectors and scores against HF's, in every form that they can be asked for.

use super::{fixture, menagerie};
use safetensors::SafeTensors;
use std::path::Path;

/// A tensor of a safetensors file, as numbers and its shape.
fn tensor(file: &Path, name: &str) -> (Vec<f32>, Vec<usize>) {
    let bytes = std::fs::read(file).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensor = file.tensor(name).unwrap();
    let values = tensor.data().chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap()));
    (values.collect(), tensor.shape().to_vec())
}

fn reference(name: &str, tensor_name: &str) -> Vec<f32> {
    tensor(&fixture(&format!("zoo/{name}/reference.safetensors")), tensor_name).0
}

fn tokens(name: &str) -> String {
    let bytes = std::fs::read(fixture(&format!("zoo/{name}/reference.safetensors"))).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let ids = file.tensor("tokens_prompt").unwrap().data().chunks_exact(8);
    let ids: Vec<String> =
        ids.map(|eight| i64::from_le_bytes(eight.try_into().unwrap()).to_string()).collect();
    ids.join(",")
}

fn model(name: &str) -> String {
    fixture(&format!("zoo/{name}/model-f16.gguf")).to_str().unwrap().to_owned()
}

fn near(found: &[f32], wanted: &[f32]) {
    assert_eq!(found.len(), wanted.len());
    let worst = found.iter().zip(wanted).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-4, "differs by {worst:e}");
}

#[test]
fn vectors_are_hfs_in_a_file_and_as_json() {
    let home = tempfile::tempdir().unwrap();
    let (bert, ids) = (model("bert"), tokens("bert"));
    let out = home.path().join("o.safetensors");
    let embed = |extra: &[&str]| {
        let written = ["embed", &bert, "--tokens", &ids, "--out", "o.safetensors", "--force"];
        menagerie(home.path(), &[&written[..], extra].concat()).good();
        tensor(&out, "embedding")
    };
    for (how, name) in [("mean", "mean_prompt"), ("cls", "first_prompt"), ("none", "hidden_prompt")] {
        let (found, shape) = embed(&["--pooling", how]);
        assert_eq!(shape, [if how == "none" { 48 } else { 1 }, 32]);
        near(&found, &reference("bert", name));
    }
    let (own, shape) = embed(&["--tokens", "5,6,7"]);
    assert_eq!(shape, [2, 32], "two texts");
    near(&own[..32], &reference("bert", "mean_prompt"));
    let (unit, _) = embed(&["--normalize"]);
    let length = own[..32].iter().map(|x| x * x).sum::<f32>().sqrt();
    near(&unit, &own[..32].iter().map(|x| x / length).collect::<Vec<_>>());
    let json = menagerie(home.path(), &["embed", &bert, "--tokens", &ids]).good();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["pooling"], &json["dimension"]), (&"mean".into(), &32.into()));
    let vector: Vec<f32> = serde_json::from_value(json["embedding"][0].clone()).unwrap();
    near(&vector, &reference("bert", "mean_prompt"));
}

#[test]
fn texts_come_from_arguments_files_and_lines() {
    let home = tempfile::tempdir().unwrap();
    let bert = model("bert");
    std::fs::write(home.path().join("texts"), "one two\n\nthree\n").unwrap();
    let embed = |arguments: &[&str]| -> serde_json::Value {
        let json = menagerie(home.path(), &[&["embed", bert.as_str()], arguments].concat()).good();
        serde_json::from_str(&json).unwrap()
    };
    let two = embed(&["one two", "three"]);
    assert_eq!(two["embedding"].as_array().unwrap().len(), 2);
    assert_eq!(embed(&["-f", "texts", "--lines"])["embedding"], two["embedding"]);
    assert_eq!(embed(&["-f", "texts"])["embedding"].as_array().unwrap().len(), 1);
    // Six letters and the marks of begin and end.
    assert_eq!(embed(&["one two"])["tokens"], serde_json::json!([8]));
}

#[test]
fn scores_are_hfs() {
    let home = tempfile::tempdir().unwrap();
    let rank = model("bert-rank");
    let documents = ["a place with many animals", "the price of tea"];
    let json =
        menagerie(home.path(), &["rerank", &rank, "what is a zoo?", documents[1], documents[0], "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.good()).unwrap();
    let found: Vec<f32> = json["documents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["score"].as_f64().unwrap() as f32)
        .collect();
    near(&found, &reference("bert-rank", "pair_scores")[..2]);
    assert_eq!(json["documents"][0]["index"], 1, "the best first");
    std::fs::write(home.path().join("documents"), documents.join("\n")).unwrap();
    let table = menagerie(home.path(), &["rerank", &rank, "what is a zoo?", "-f", "documents"]).good();
    assert!(table.lines().nth(1).unwrap().ends_with(documents[0]), "{table}");
    // Its scores are what `embed` gives, its vectors what it is asked for.
    let ids = tokens("bert-rank");
    let embed = |extra: &[&str]| {
        let json = menagerie(home.path(), &[&["embed", &rank, "--tokens", &ids], extra].concat()).good();
        serde_json::from_str::<serde_json::Value>(&json).unwrap()
    };
    assert_eq!(embed(&[])["pooling"], "classifier");
    let vector: Vec<f32> =
        serde_json::from_value(embed(&["--pooling", "last"])["embedding"][0].clone()).unwrap();
    near(&vector, &reference("bert-rank", "last_prompt"));
}

#[test]
fn a_language_model_gives_vectors_when_it_is_said_how() {
    let home = tempfile::tempdir().unwrap();
    let (qwen, ids) = (model("qwen3-embedding"), tokens("qwen3-embedding"));
    let json = menagerie(home.path(), &["embed", &qwen, "--tokens", &ids]).good();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["pooling"], "last");
    near(
        &serde_json::from_value::<Vec<f32>>(json["embedding"][0].clone()).unwrap(),
        &reference("qwen3-embedding", "last_prompt"),
    );
    let llama = fixture("base/llama/model-f32.gguf");
    let llama = llama.to_str().unwrap();
    menagerie(home.path(), &["embed", llama, "hi"]).fails_with(&["does not state", "--pooling mean"]);
    menagerie(home.path(), &["embed", llama, "hi", "--pooling", "mean"]).good();
}

#[test]
fn what_cannot_be_done_is_said() {
    let home = tempfile::tempdir().unwrap();
    let bert = model("bert");
    menagerie(home.path(), &["rerank", &bert, "a", "b"]).fails_with(&["not a reranker", "`embed`"]);
    menagerie(home.path(), &["embed", &bert, "--tokens", "5,x"]).refused_with(&["`x` is not a token id"]);
    menagerie(home.path(), &["embed", &bert, "--tokens", "5", "--tokens", "5000"])
        .fails_with(&["text 2", "5000"]);
    menagerie(home.path(), &["run", &bert, "hi"]).fails_with(&["`embed`"]);
    menagerie(home.path(), &["run", &model("qwen3-rank"), "hi"]).fails_with(&["reranker", "`rerank`"]);
    menagerie(home.path(), &["embed", &bert, "hi", "--out", &bert, "--force"]).fails_with(&["is the input"]);
}

/// `--lora` is refused before the model is looked for, and so before it is downloaded.
#[test]
fn adapters_are_refused_before_the_model_is_found() {
    let home = tempfile::tempdir().unwrap();
    let lora = ["--lora", "a0"];
    for command in [["embed", "absent.gguf", "hi"].as_slice(), &["rerank", "absent.gguf", "a", "b"]] {
        menagerie(home.path(), &[command, &lora].concat())
            .refused_with(&["--lora: adapters are supported for text generation only"]);
    }
}

/// Adapters of a recipe are not left out of vectors without a word.
#[test]
fn a_recipe_with_adapters_makes_no_vectors() {
    let home = tempfile::tempdir().unwrap();
    let base = fixture("base/llama/model-f32.gguf");
    let adapter = fixture("lora/llama/adapters/a0");
    let text =
        format!("schema = 1\n[recipe]\nbase = {base:?}\n[[adapters]]\nkind = \"lora\"\nfrom = {adapter:?}\n");
    std::fs::write(home.path().join("mine.recipe.toml"), text).unwrap();
    menagerie(home.path(), &["embed", "mine.recipe.toml", "abc", "--pooling", "mean"])
        .fails_with(&["adapters are supported for text generation only", "menagerie merge"]);
}

/// What is too long for the learned positions of a model is said so: no larger context helps, and `--truncate` does.
#[test]
fn long_texts_are_refused_or_cut_as_asked() {
    let home = tempfile::tempdir().unwrap();
    let bert = model("bert");
    // 417 tokens and two marks, where the model has 320 positions.
    let long = "a ".repeat(317) + &"b ".repeat(100);
    let embed = |more: &[&str]| menagerie(home.path(), &[&["embed", bert.as_str()], more].concat());
    for context in [&[][..], &["-c", "20224"]] {
        let call = embed(&[&[long.as_str()], context].concat());
        assert!(!call.err.contains("larger context (-c"), "{}", call.err);
        let note = "the context is 320 tokens instead of 20224: the model has no more learned positions";
        assert_eq!(call.err.contains(note), !context.is_empty(), "{}", call.err);
        call.fails_with(&["419 tokens", "learned positions for 320", "shorten it by 99", "help: --truncate"]);
    }
    let json = |call: super::Call| serde_json::from_str::<serde_json::Value>(&call.good()).unwrap();
    let cut = embed(&[&long, "short", "--truncate"]);
    assert!(cut.err.contains("text 1: 99 tokens dropped"), "{}", cut.err);
    let cut = json(cut);
    assert_eq!((&cut["tokens"], &cut["truncated_tokens"]), (&[320, 7].into(), &[99, 0].into()));
    // The vocabulary has 43 for "a" and 44 for "b"; 2 and 3 are the marks, which stay.
    let ids = [vec![2], vec![43; 317], vec![44], vec![3]].concat();
    let ids = ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let expected = json(embed(&["--tokens", &ids]));
    assert_eq!(cut["embedding"][0], expected["embedding"][0]);
    assert_eq!(expected.get("truncated_tokens"), None);
    let smaller = json(embed(&[&long, "--truncate", "-c", "64"]));
    assert_eq!((&smaller["tokens"][0], &smaller["truncated_tokens"][0]), (&64.into(), &355.into()));
    // Of a language model with learned positions as well.
    let gpt2 = model("gpt2");
    let ids = vec!["7"; 400].join(",");
    let logits = ["logits", &gpt2, "--tokens", &ids, "-c", "4096", "--out", "o.safetensors"];
    menagerie(home.path(), &logits).fails_with(&["400 tokens", "learned positions for 320"]);
}

#[test]
fn long_documents_are_cut_as_asked() {
    let home = tempfile::tempdir().unwrap();
    let rank = model("bert-rank");
    let rerank = |document: &str, more: &[&str]| {
        menagerie(home.path(), &[&["rerank", &rank, "a b", document, "--json"], more].concat())
    };
    let long = "b ".repeat(400);
    rerank(&long, &[]).fails_with(&["document 1", "learned positions for 320", "--truncate"]);
    let cut = rerank(&long, &["--truncate"]);
    assert!(cut.err.contains("document 1: 85 tokens dropped"), "{}", cut.err);
    let score = |call: super::Call| {
        serde_json::from_str::<serde_json::Value>(&call.good()).unwrap()["documents"][0]["score"].clone()
    };
    // Two tokens of the query, three marks, and what is left of 320.
    assert_eq!(score(cut), score(rerank(&"b ".repeat(315), &[])));
}

#[test]
fn an_empty_text_has_no_vector_and_no_score() {
    let home = tempfile::tempdir().unwrap();
    let (bert, rank) = (model("bert"), model("bert-rank"));
    super::fed(home.path(), &["embed", &bert], b"").refused_with(&["the text is empty"]);
    super::fed(home.path(), &["embed", &bert, "--lines"], b"\n\n").refused_with(&["the text is empty"]);
    menagerie(home.path(), &["embed", &bert, "one", ""]).refused_with(&["text 2 is empty"]);
    menagerie(home.path(), &["rerank", &rank, "", "a"]).refused_with(&["the query is empty"]);
    menagerie(home.path(), &["rerank", &rank, "a", "b", ""]).refused_with(&["document 2 is empty"]);
}

/// What every load says is said for vectors as for text, and once where both are asked for.
#[test]
fn vectors_come_with_the_notes_of_their_model() {
    let home = tempfile::tempdir().unwrap();
    let base = fixture("base/llama/model-f32.gguf");
    let recipe = format!("schema = 1\n[recipe]\nbase = {base:?}\n");
    std::fs::write(home.path().join("mine.recipe.toml"), recipe).unwrap();
    std::fs::create_dir_all(home.path().join("specs/tokenizers")).unwrap();
    std::fs::write(home.path().join("specs/tokenizers/own.toml"), "# nothing yet\n").unwrap();
    let specs = ["--spec-dir", "specs"];
    let run = ["run", "mine.recipe.toml", "hi", "--raw", "-n", "1"];
    let notes = |call: super::Call| -> Vec<String> {
        let notes = call.err.lines().filter(|line| line.starts_with("note: ")).map(str::to_owned).collect();
        call.good();
        notes
    };
    let of_text = notes(menagerie(home.path(), &[&run[..], &specs].concat()));
    for said in ["recipe mine: ", "own.toml"] {
        assert!(of_text.iter().any(|note| note.contains(said)), "`{said}` is not in {of_text:?}");
    }
    let embed = ["embed", "mine.recipe.toml", "hi", "--pooling", "mean"];
    assert_eq!(notes(menagerie(home.path(), &[&embed[..], &specs].concat())), of_text);
    let vectors = serde_json::json!({ "custom_id": "v", "method": "POST", "url": "/v1/embeddings", "body": { "input": "hi" } });
    std::fs::write(home.path().join("in.jsonl"), format!("{vectors}\n{{\"prompt\": \"hi\"}}\n")).unwrap();
    let both =
        ["batch", "mine.recipe.toml", "in.jsonl", "out.jsonl", "--raw", "-n", "1", "--pooling", "mean"];
    assert_eq!(notes(menagerie(home.path(), &[&both[..], &specs].concat())), of_text);
}
