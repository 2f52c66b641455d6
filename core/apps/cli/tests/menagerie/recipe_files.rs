//! Recipes wherever a model is named, and canonical keys set by the user.

use super::{Changed, fixture, menagerie};
use serde_json::Value;
use std::path::Path;

const RECIPE: &str = "schema = 1\n[recipe]\n";

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join(format!("{name}.recipe.toml")), format!("{RECIPE}{text}")).unwrap();
}

/// Logits of a few tokens, as they stand in the file.
fn logits(home: &Path, model: &str, extra: &[&str]) -> Vec<u8> {
    let base = ["logits", model, "--tokens", "1,2,3,4,5,6,7,8,9,10", "--out", "l.safetensors", "--force"];
    menagerie(home, &[&base[..], extra].concat()).good();
    std::fs::read(home.join("l.safetensors")).unwrap()
}

#[test]
fn keys_set_by_hand_win_over_the_files_and_are_said() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/llama/model-f32.gguf").to_str().unwrap().to_owned();
    let plain = logits(home.path(), &model, &[]);
    let set = ["--set", "rope.freq_base=1234.5"];
    let changed = logits(home.path(), &model, &set);
    assert_ne!(plain, changed);
    let other =
        Changed::of("base/llama/model-f32.gguf").set("llama.rope.freq_base", 1234.5_f32).write(home.path());
    assert_eq!(logits(home.path(), &other, &[]), changed, "as a file that says so");
    let shown = menagerie(home.path(), &[&["show", &model, "--values"], &set[..]].concat()).good();
    assert!(
        shown
            .contains("note: rope.freq_base = 1234.5 was set by the user; it replaces the value in the file"),
        "{shown}"
    );
    assert!(shown.contains("set by the user (rope.freq_base)"), "{shown}");
    // What is wrong with a value is said of the setting, not of a line of a spec that is right.
    let wrong = menagerie(home.path(), &["show", &model, "--set", "rope.freq_base=abc"]);
    assert!(!wrong.err.contains(".toml:"), "{}", wrong.err);
    wrong.fails_with(&["--set rope.freq_base=abc", "expected a number", "of spec llama"]);
    let run = menagerie(home.path(), &[&["run", &model, "hi", "--raw", "-n", "1"], &set[..]].concat());
    assert!(run.err.contains("rope.freq_base = 1234.5 was set by the user"), "{}", run.err);
    run.good();
    let unknown = ["run", &model, "hi", "--raw", "--set", "rope.freq_bsae=1"];
    menagerie(home.path(), &unknown).fails_with(&[
        "key rope.freq_bsae",
        "nothing in spec llama reads it",
        "rope.freq_base",
    ]);
    menagerie(home.path(), &["run", &model, "hi", "--set", "rope.freq_base"]).refused_with(&["no `=`"]);
    menagerie(home.path(), &["run", &model, "hi", "--set", "a={}"]).refused_with(&["is an object"]);
    // A wrong type is a fault like any other.
    menagerie(home.path(), &["run", &model, "hi", "--raw", "--set", "rope.freq_base=fast"])
        .fails_with(&["rope.freq_base"]);
}

#[test]
fn a_recipe_is_good_wherever_a_model_is() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/llama/model-f32.gguf");
    std::fs::copy(&model, home.path().join("base.gguf")).unwrap();
    write(home.path(), "inner", "base = \"base.gguf\"\n[set]\nrope.freq_base = 5e3\ncontext_length = 64\n");
    let folder = home.path().join("specs");
    write(
        &folder,
        "mine",
        "base = \"../inner.recipe.toml\"\nsummary = \"a changed base\"\n[set]\n\"rope.freq_base\" = 1234.5\n\
         [chat]\ntemplate = \"chatml\"\n",
    );
    let inner = "inner.recipe.toml";
    let named = ["mine", "--spec-dir", "specs"];
    let of_inner = logits(home.path(), inner, &[]);
    assert_eq!(logits(home.path(), "base.gguf", &["--set", "rope.freq_base=5000"]), of_inner);
    let outer = logits(home.path(), "mine", &named[1..]);
    let by_hand = logits(home.path(), "base.gguf", &["--set", "rope.freq_base=1234.5"]);
    assert_eq!(outer, by_hand, "the outer recipe wins");
    assert_eq!(
        logits(home.path(), inner, &["--set", "rope.freq_base=1234.5"]),
        by_hand,
        "the command line wins"
    );

    let run = |arguments: &[&str]| menagerie(home.path(), &[arguments, &named].concat());
    let shown = run(&["show"]).good();
    assert!(shown.contains("recipe         mine based on inner"), "{shown}");
    assert!(shown.starts_with("mine: a changed base\n"), "{shown}");
    for line in [
        "\n  base           ",
        "set            rope.freq_base = 1234.5",
        "chat template  chatml (from the recipe, ",
    ] {
        assert!(shown.contains(line), "`{line}` is not in:\n{shown}");
    }
    assert!(!shown.contains("a base model"), "{shown}");
    let call = menagerie(home.path(), &["run", "mine", "hi", "-n", "1", "--spec-dir", "specs", "-v"]);
    assert!(call.err.contains("recipe mine over inner: "), "{}", call.err);
    call.good();
    let answer =
        menagerie(home.path(), &["run", "mine", "hi", "-n", "1", "--json", "--spec-dir", "specs"]).good();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["context"], 64);
    assert!(answer["prompt_tokens"].as_u64().unwrap() > 8, "chatml is around the prompt: {answer}");
    std::fs::write(home.path().join("m.json"), r#"[{"role": "user", "content": "hi"}]"#).unwrap();
    let prompt = menagerie(home.path(), &["render", "mine", "m.json", "--spec-dir", "specs"]).good();
    assert!(prompt.starts_with("<|im_start|>user\nhi<|im_end|>"), "{prompt}");
    assert!(run(&["check"]).good().contains("keys and tensors match llama"));
    assert_eq!(
        run(&["inspect"]).good().replace("mine", "base.gguf"),
        menagerie(home.path(), &["inspect", "base.gguf"]).good()
    );
    run(&["bench", "--json", "-p", "4", "-n", "2"]).good();
    menagerie(home.path(), &["tokenize", "mine", "hi", "--spec-dir", "specs"]).good();
}

#[test]
fn recipes_of_spec_folders_are_listed() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("menagerie.d");
    write(
        &folder,
        "mine",
        "base = \"org/some-long-name-of-a-model\"\nsummary = \"what it is, in more words than fit\"\n\
        [[adapters]]\nkind = \"lora\"\nfrom = \"a\"\n",
    );
    write(&folder, "broken", "bas = 1\n");
    write(&folder, "form", "architecture = \"llama\"\n[[adapters]]\nkind = \"xlora\"\n");
    let list = menagerie(home.path(), &["list"]).good();
    assert!(list.contains("\nrecipes\n") && list.contains("mine*") && list.contains("any llama"), "{list}");
    assert!(
        list.contains("recipe broken cannot be used") && list.contains("the nearest is `base`"),
        "{list}"
    );
    assert!(
        list.lines().take_while(|line| !line.starts_with('*')).all(|line| line.chars().count() <= 80),
        "{list}"
    );
    let json: Value = serde_json::from_str(&menagerie(home.path(), &["list", "--json"]).good()).unwrap();
    let recipes: Vec<&Value> = json["recipes"].as_array().unwrap().iter().collect();
    let mine = recipes.iter().find(|one| one["id"] == "mine").unwrap();
    assert_eq!(mine["base"]["model"], "org/some-long-name-of-a-model");
    assert_eq!(mine["adapters"][0]["kind"], "lora");
    assert!(recipes.iter().any(|one| one["id"] == "broken" && one["error"].is_string()));
    let names = menagerie(home.path(), &["list", "--names", "--search", "mine"]).good();
    assert_eq!(names, "mine\n");
    // A form is not a model; the error says what to do.
    let form = menagerie(home.path(), &["show", "form"]).good();
    assert!(form.contains("base: any llama model; adapters: xlora"), "{form}");
    menagerie(home.path(), &["run", "form", "hi"])
        .fails_with(&["is not a model", "menagerie run MODEL --xlora FOLDER"]);
    menagerie(home.path(), &["run", "broken", "hi"])
        .fails_with(&["broken.recipe.toml:3:1", "the nearest is `base`"]);
}

#[test]
fn what_a_recipe_cannot_be_made_over_is_said() {
    let home = tempfile::tempdir().unwrap();
    let fails = |name: &str, said: &[&str]| {
        menagerie(home.path(), &["run", &format!("{name}.recipe.toml"), "hi"]).fails_with(said);
    };
    fails("absent", &["absent.recipe.toml"]);
    write(home.path(), "a", "base = \"b.recipe.toml\"\n");
    write(home.path(), "b", "base = \"a.recipe.toml\"\n");
    fails("a", &["a over b over itself", "needs a model at its end"]);
    for index in 0..12 {
        write(home.path(), &format!("deep{index}"), &format!("base = \"deep{}.recipe.toml\"\n", index + 1));
    }
    fails("deep0", &["more than 8 recipes over each other"]);
    write(home.path(), "lost", "base = \"./none.gguf\"\n");
    fails("lost", &["base: there is no", "none.gguf", "relative to the recipe"]);
    write(home.path(), "strange", "base = \"no-such-name\"\n");
    fails("strange", &["base `no-such-name`"]);
    std::fs::copy(fixture("base/llama/model-f32.gguf"), home.path().join("base.gguf")).unwrap();
    write(home.path(), "talk", "base = \"base.gguf\"\n[chat]\ntemplate = \"chatlm\"\n");
    fails("talk", &["chat.template `chatlm`", "the nearest is `chatml`"]);
    write(home.path(), "unread", "base = \"base.gguf\"\n[set]\nno.such.key = 1\n");
    fails("unread", &["key no.such.key", "nothing in spec llama reads it"]);
    write(home.path(), "far", "base = \"base.gguf\"\n[[adapters]]\nkind = \"lora\"\nfrom = \"./adapter\"\n");
    fails("far", &["adapters: there is no", "adapter", "relative to the recipe"]);
}

/// `--xlora` and `--lora` are what a recipe with the same adapters is; with an X-LoRA its scalings are written too.
#[test]
fn adapters_of_recipes_are_those_of_the_command_line() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| fixture(name).canonicalize().unwrap().to_str().unwrap().to_owned();
    let model = path("base/llama/model-f32.gguf");
    let plain = logits(home.path(), &model, &[]);
    for (kind, adapter, weight) in
        [("xlora", "lora/llama/xlora/depth2_topk2", ""), ("lora", "lora/llama/adapters/a0", "weight = 0.5\n")]
    {
        let adapter = path(adapter);
        let recipe =
            format!("base = {model:?}\n[[adapters]]\nkind = \"{kind}\"\nfrom = {adapter:?}\n{weight}");
        write(home.path(), kind, &recipe);
        let given = if weight.is_empty() { adapter } else { format!("{adapter}=0.5") };
        let by_hand = logits(home.path(), &model, &[&format!("--{kind}"), &given]);
        assert_ne!(by_hand, plain);
        assert_eq!(logits(home.path(), &format!("{kind}.recipe.toml"), &[]), by_hand);
        let header = String::from_utf8_lossy(&by_hand[..600.min(by_hand.len())]).into_owned();
        assert_eq!(
            header.contains(r#""scalings":{"dtype":"F32","shape":[10,12,3]"#),
            kind == "xlora",
            "{header}"
        );
        menagerie(home.path(), &["run", &format!("{kind}.recipe.toml"), "hi", "--raw", "-n", "3"]).good();
    }
    let folder = path("lora/llama/xlora/depth2_topk2");
    for command in ["show", "check"] {
        let said = menagerie(home.path(), &[command, &folder]).good();
        assert!(
            said.contains("X-LoRA") && said.contains("the 2 largest") && said.contains("LoRA, rank 4"),
            "{said}"
        );
    }
    let json: Value =
        serde_json::from_str(&menagerie(home.path(), &["show", &folder, "--json"]).good()).unwrap();
    assert_eq!(json["adapters"].as_array().unwrap().len(), 3);
    let both = ["run", &model, "hi", "--xlora", &folder, "--lora", &path("lora/llama/adapters/a0")];
    menagerie(home.path(), &both).refused_with(&["X-LoRA mixes only the adapters that it was trained with"]);
    let none = ["run", &model, "hi", "--xlora", &path("lora/llama/adapters/a0")];
    menagerie(home.path(), &none).fails_with(&["this is not an X-LoRA"]);
    menagerie(home.path(), &["bench", &model, "--xlora", &folder, "-p", "4", "-n", "2", "--json"]).good();
}
