//! Recipes with a mixture, and `train-gate`.

use super::{fixture, menagerie};
use serde_json::Value;
use std::path::Path;

/// A recipe of a base and two fine-tunes beside it, whose gate is not trained yet.
fn recipe(home: &Path, more: &str) {
    for name in ["base.gguf", "tuned-b.gguf", "topics.json", "topics-test.jsonl"] {
        std::fs::copy(fixture("mixture/llama").join(name), home.join(name)).unwrap();
    }
    let tuned = fixture("mixture/llama/tuned-a").canonicalize().unwrap();
    let text = format!(
        "schema = 1\n[recipe]\nbase = \"base.gguf\"\n[mixture]\nlayers = [0, 2]\ngate = \"gate.safetensors\"\n{more}\
         [[mixture.experts]]\nfrom = {:?}\n[[mixture.experts]]\nfrom = \"tuned-b.gguf\"\n",
        tuned.display().to_string()
    );
    std::fs::write(home.join("mine.recipe.toml"), text).unwrap();
}

const TRAIN: [&str; 6] =
    ["train-gate", "mine.recipe.toml", "topics.json", "--raw", "--learning-rate", "0.01"];

#[test]
fn a_gate_is_trained_and_the_recipe_runs() {
    let home = tempfile::tempdir().unwrap();
    recipe(home.path(), "");
    let call = |arguments: &[&str]| menagerie(home.path(), arguments);
    call(&["run", "mine.recipe.toml", "hi", "--raw"]).fails_with(&[
        "gate.safetensors",
        "there is no gate",
        "train-gate RECIPE DATA",
    ]);
    let shown = call(&["show", "mine.recipe.toml"]).good();
    assert!(shown.contains("mixture        3 experts in layers 0, 2, routed by prompt"), "{shown}");
    assert!(shown.contains("not trained yet") && shown.contains("2 tuned-b.gguf"), "{shown}");
    let trained = call(&[&TRAIN[..], &["--json"]].concat());
    assert!(trained.err.contains("no prompt has expert 1"), "{}", trained.err);
    let trained: Value = serde_json::from_str(&trained.good()).unwrap();
    let layers = trained["layers"].as_array().unwrap();
    assert_eq!(layers.iter().map(|layer| layer["layer"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 2]);
    for layer in layers {
        assert_eq!((layer["accuracy"].as_f64(), layer["as_run"].as_f64()), (Some(1.0), Some(1.0)), "{layer}");
        assert!(layer["loss"].as_f64().unwrap() < 0.7, "{layer}");
    }
    assert_eq!(trained["experts"][2]["prompts"], 8);
    // The same prompts, options and seed give the same bytes; another seed others.
    let first = std::fs::read(home.path().join("gate.safetensors")).unwrap();
    call(&TRAIN).fails_with(&["gate.safetensors", "exists", "--force replaces it"]);
    let table = call(&[&TRAIN[..], &["--force", "-t", "1"]].concat()).good();
    assert!(table.contains("100.0 %") && table.contains("gates of 2 layers"), "{table}");
    assert_eq!(std::fs::read(home.path().join("gate.safetensors")).unwrap(), first);
    call(&[&TRAIN[..], &["--gate-seed", "1", "-o", "other.safetensors"]].concat()).good();
    assert_ne!(std::fs::read(home.path().join("other.safetensors")).unwrap(), first);
    let run = call(&["run", "mine.recipe.toml", "abc", "--raw", "-n", "3"]);
    assert!(run.err.contains("of layers 0, 2 are mixtures of 3: the base; "), "{}", run.err);
    run.good();
    let checked = call(&["check", "mine.recipe.toml"]);
    assert!(checked.out.contains("keys and tensors match llama"), "{checked:?}");
    call(&["bench", "mine.recipe.toml", "--json", "-p", "4", "-n", "2"]).good();
    call(&["perplexity", "mine.recipe.toml", "-f", "topics.json", "--ctx-size", "64"]).good();
    call(&["embed", "mine.recipe.toml", "abc", "--pooling", "mean"]).good();
    let quantized = call(&["run", "mine.recipe.toml", "abc", "--raw", "-n", "3", "--quant", "q8_0"]);
    quantized.good();
    call(&["imatrix", "mine.recipe.toml", "-f", "topics.json", "-o", "i.gguf"])
        .refused_with(&["[mixture]", "use its base"]);
}

#[test]
fn other_forms_of_the_prompts_train_the_same_gates() {
    let home = tempfile::tempdir().unwrap();
    recipe(home.path(), "choose = \"token\"\n");
    let rows: Value =
        serde_json::from_str(&std::fs::read_to_string(home.path().join("topics.json")).unwrap()).unwrap();
    let rows = rows["rows"].as_array().unwrap();
    let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let csv: String = rows.iter().map(|row| format!("{},{}\n", row["expert"], row["prompt"])).collect();
    std::fs::write(home.path().join("a.jsonl"), lines).unwrap();
    std::fs::write(home.path().join("a.csv"), format!("expert,prompt\n{csv}")).unwrap();
    let train = |data: &str, out: &str| {
        menagerie(
            home.path(),
            &["train-gate", "mine.recipe.toml", data, "--raw", "--epochs", "3", "-o", out],
        )
        .good();
        std::fs::read(home.path().join(out)).unwrap()
    };
    let json = train("topics.json", "1.safetensors");
    assert_eq!(train("a.jsonl", "2.safetensors"), json);
    assert_eq!(train("a.csv", "3.safetensors"), json);
    // Put into a chat template the prompts are others.
    let talk = ["train-gate", "mine.recipe.toml", "topics.json", "--epochs", "3", "-o", "4.safetensors"];
    menagerie(home.path(), &talk).fails_with(&["chat", "--raw uses the prompts as plain text"]);
    menagerie(home.path(), &[&talk[..], &["--chat-template", "chatml"]].concat()).good();
    assert_ne!(std::fs::read(home.path().join("4.safetensors")).unwrap(), json);
}

#[test]
fn what_cannot_be_trained_is_said() {
    let home = tempfile::tempdir().unwrap();
    recipe(home.path(), "");
    let fails = |data: &str, words: &[&str]| {
        menagerie(home.path(), &["train-gate", "mine.recipe.toml", data, "--raw"]).fails_with(words);
        assert!(!home.path().join("gate.safetensors").exists(), "{words:?}");
    };
    let write = |name: &str, text: &str| std::fs::write(home.path().join(name), text).unwrap();
    fails("none.json", &["none.json"]);
    write("a.txt", "x");
    fails("a.txt", &["a.txt", ".json, .jsonl or .csv"]);
    write("a.json", "{\"rows\": []}");
    fails("a.json", &["a.json", "no rows"]);
    write("a.jsonl", "{\"prompt\": \"a\", \"expert\": 0}\n{\"prompt\": \"b\", \"expert\": 3}\n");
    fails("a.jsonl", &["a.jsonl", "row 2: there is no expert 3", "0 the base; 1 ", "2 tuned-b.gguf"]);
    write("a.jsonl", "{\"prompt\": \"a\", \"expert\": 1}\n{\"prompt\": \"b\", \"expert\": 1}\n");
    fails("a.jsonl", &["all examples name expert 1"]);
    write("a.csv", "prompt,expert\n  ,1\n");
    fails("a.csv", &["row 1", "the prompt is empty"]);
    let train = |model: &str| menagerie(home.path(), &["train-gate", model, "topics.json"]);
    train("base.gguf").fails_with(&["base.gguf", "is not a recipe with a [mixture]"]);
    let over = ["train-gate", "mine.recipe.toml", "topics.json", "--raw", "--force", "-o", "tuned-b.gguf"];
    menagerie(home.path(), &over).fails_with(&["tuned-b.gguf", "is the input"]);
    let rate = [&TRAIN[..4], &["--learning-rate", "0"]].concat();
    menagerie(home.path(), &rate).fails_with(&["learning rate must be above 0"]);
}

/// Ctrl-C ends a training without a file.
#[test]
#[cfg(unix)]
fn ctrl_c_ends_a_training_without_a_file() {
    use std::process::{Command, Stdio};
    let home = tempfile::tempdir().unwrap();
    recipe(home.path(), "");
    let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
    command.args(TRAIN).args(["--epochs", "4000000000"]).current_dir(home.path()).env_clear();
    command.env("HOME", home.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3));
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("/bin/sh").args(["-c", &kill]).status().unwrap().success());
    assert_eq!(super::signals::ended(&mut child), Some(130));
    let left: Vec<_> =
        std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("gate.safetensors")), "{left:?}");
}

#[test]
fn mixtures_are_listed() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("menagerie.d");
    std::fs::create_dir(&folder).unwrap();
    let text = "schema = 1\n[recipe]\nbase = \"org/base\"\nsummary = \"two fields\"\n[mixture]\ngate = \"g.safetensors\"\n\
                experts = [{ from = \"org/law\" }, { adapter = \"org/medicine\", modules = [\"up_proj\"] }]\n";
    std::fs::write(folder.join("fields.recipe.toml"), text).unwrap();
    let list = menagerie(home.path(), &["list"]).good();
    assert!(list.contains("fields*") && list.contains("mixture"), "{list}");
    let json: Value = serde_json::from_str(&menagerie(home.path(), &["list", "--json"]).good()).unwrap();
    let fields = json["recipes"].as_array().unwrap().iter().find(|one| one["id"] == "fields").unwrap();
    assert_eq!(fields["mixture"]["experts"][1]["adapter"]["modules"][0], "up_proj");
    assert_eq!(
        (&fields["mixture"]["choose"], &fields["mixture"]["layers"]),
        (&"prompt".into(), &Value::Null)
    );
    std::fs::write(folder.join("bad.recipe.toml"), text.replace("experts", "expert")).unwrap();
    let list = menagerie(home.path(), &["list"]).good();
    assert!(
        list.contains("recipe bad cannot be used") && list.contains("the nearest is `experts`"),
        "{list}"
    );
}
