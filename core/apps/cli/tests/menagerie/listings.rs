//! Listings: readable and as JSON.

use super::{chat_model, fixture, menagerie};

#[test]
fn list_has_the_built_in_architectures() {
    let home = tempfile::tempdir().unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&menagerie(home.path(), &["list", "--json"]).good()).unwrap();
    let list = |key: &str| json[key].as_array().unwrap().iter();
    let all = || list("architectures").chain(list("recipes"));
    let ids: Vec<&str> = all().map(|one| one["id"].as_str().unwrap()).collect();
    let specs = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../specs")).unwrap();
    let specs = specs.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut wanted: Vec<String> = specs
        .filter_map(|name| Some(name.strip_suffix(".toml")?.to_owned()))
        .filter(|id| id != "models")
        .collect();
    wanted.sort_unstable();
    assert!(wanted.len() > 70, "{wanted:?}");
    let recipes =
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../architectures/xlora/recipes"));
    let recipes = recipes.unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut recipes: Vec<String> =
        recipes.filter_map(|name| Some(name.strip_suffix(".recipe.toml")?.to_owned())).collect();
    recipes.sort_unstable();
    wanted.extend(recipes);
    assert_eq!(ids, wanted);
    assert!(all().all(|one| one["origin"].as_str().unwrap().starts_with("built-in")));
    let list = menagerie(home.path(), &["list"]).good();
    assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
    insta::assert_snapshot!("list", list);
    assert!(menagerie(home.path(), &["list", "--wide"]).good().contains("gated silu"));
    assert_eq!(menagerie(home.path(), &["list", "--names"]).good().lines().collect::<Vec<_>>(), ids);
    let names =
        |arguments: &[&str]| menagerie(home.path(), &[&["list", "--names"], arguments].concat()).good();
    let family = names(&["--family", "llama"]);
    assert!(family.contains("smollm3\n") && !family.contains("gpt2"), "{family}");
    assert_eq!(names(&["--search", "GEMMA 3"]), "gemma-embedding\ngemma3\n");
    assert_eq!(names(&["--origin", "file"]), "");
    assert_eq!(names(&["--origin", "plugin"]), "");
    assert_eq!(names(&["--origin", "built-in"]).lines().count(), ids.len());
}

#[test]
fn a_family_that_is_none_is_said() {
    let home = tempfile::tempdir().unwrap();
    let list = |family: &str| menagerie(home.path(), &["list", "--json", "--family", family]);
    list("lama").fails_with(&["there is no family `lama`", "the nearest is `llama`"]);
    list("Qwen3").fails_with(&["`qwen3` belongs to the family `llama`"]);
    list("nothing-like-it").fails_with(&["`menagerie list` shows the families"]);
}

#[test]
fn show_says_what_came_from_where() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/phi3/model-f32.gguf");
    let out = menagerie(home.path(), &["show", model.to_str().unwrap(), "--values"]).good();
    for word in
        ["from the spec, not from the file", "attention.sliding_window", "llama.cpp ignores", "memory"]
    {
        assert!(out.contains(word), "`{word}` is not in:\n{out}");
    }
    // U7: notes are listed with the values, and only those about keys of the file.
    let brief = menagerie(home.path(), &["show", model.to_str().unwrap()]).good();
    assert!(!brief.contains("llama.cpp ignores"), "{brief}");
    let plain = fixture("base/llama/model-f32.gguf");
    let plain = menagerie(home.path(), &["show", plain.to_str().unwrap(), "--values"]).good();
    assert!(!plain.contains("llama.cpp ignores") && !plain.contains("yarn_log_multiplier"), "{plain}");
    let json = menagerie(home.path(), &["show", model.to_str().unwrap(), "--json"]).good();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["config"]["layers"].as_array().unwrap().len(), 3);
    // A12: sizes are whole numbers.
    assert!(json["config"]["hints"].as_object().unwrap().values().all(serde_json::Value::is_i64), "{json}");
    assert!(menagerie(home.path(), &["show", "qwen3"]).good().contains("qk_norm"));
}

/// A14: fifteen lines or so for people; the rest on request.
#[test]
fn show_is_short() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let out = menagerie(home.path(), &["show", &model]).good();
    assert!(out.lines().count() <= 18, "{out}");
    for word in [
        "vocabulary",
        "384 tokens",
        "BOS",
        "chat template",
        "in the file",
        "memory",
        "parameters",
        "sampling",
        "temp 0.8, top-k 40",
        "B free",
    ] {
        assert!(out.contains(word), "`{word}` is not in:\n{out}");
    }
    assert!(!out.contains("ignored: key"), "{out}");
    let ignored = menagerie(home.path(), &["show", &model, "--ignored"]).good();
    assert!(ignored.contains("key tokenizer.ggml.tokens"), "{ignored}");
    assert!(menagerie(home.path(), &["show", &model, "--tensors"]).good().contains("blk.0.attn_q.weight"));
}

/// A21: a word that is no model is held against the architectures; `check` knows ids.
#[test]
fn architectures_are_named_where_they_are_misspelt() {
    let home = tempfile::tempdir().unwrap();
    menagerie(home.path(), &["show", "lama"]).fails_with(&["`lama`", "`llama`", "help: "]);
    assert!(menagerie(home.path(), &["check", "llama"]).good().contains("llama: ok"));
    // P1: a spec without a summary has no empty place for it.
    std::fs::create_dir(home.path().join("menagerie.d")).unwrap();
    let spec = "schema = 1\nextends = \"llama\"\n\n[architecture]\nid = \"unheard\"\n";
    std::fs::write(home.path().join("menagerie.d/unheard.toml"), spec).unwrap();
    let out = menagerie(home.path(), &["show", "unheard"]).good();
    assert_eq!(out.lines().next(), Some("unheard"));
    assert!(menagerie(home.path(), &["check", "unheard"]).good().contains("unheard: ok"));
}

/// A40, P8: a data folder that cannot be read is left out with a note, and doctor names it and faulty specs.
#[test]
fn doctor_names_what_is_wrong() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join(".local/share/menagerie");
    std::fs::create_dir_all(&data).unwrap();
    // A file where a folder is expected cannot be read as one, whoever asks.
    std::fs::write(data.join("specs"), "no folder").unwrap();
    std::fs::create_dir(home.path().join("menagerie.d")).unwrap();
    std::fs::write(home.path().join("menagerie.d/broken.toml"), "schema = 1\n").unwrap();
    let out = menagerie(home.path(), &["doctor"]).good();
    // U28: the folder is named once.
    let folder = data.join("specs").display().to_string();
    assert_eq!(out.matches(&folder).count(), 1, "{out}");
    assert!(out.contains(&format!("  {folder} (data folder): cannot be read: ")), "{out}");
    assert!(out.contains("faulty specs: broken") && out.contains("memory free: "), "{out}");
    assert!(out.contains("(project folder): 1 spec\n"), "{out}");
    let list = menagerie(home.path(), &["list"]).good();
    assert!(list.contains("llama") && list.contains("note: "), "{list}");
    let asked = menagerie(home.path(), &["list", "--spec-dir", data.join("specs").to_str().unwrap()]);
    asked.fails_with(&["specs"]);
}

#[test]
fn doctor_and_completions() {
    let home = tempfile::tempdir().unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&menagerie(home.path(), &["doctor", "--json"]).good()).unwrap();
    assert!(json["kernels_available"].as_array().unwrap().iter().any(|name| name == "portable"), "{json}");
    assert!(menagerie(home.path(), &["doctor"]).good().contains("threads"));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(menagerie(home.path(), &["completions", shell]).good().contains("menagerie"));
    }
    assert!(menagerie(home.path(), &["--version"]).good().contains("kernels here"));
    assert!(menagerie(home.path(), &["models"]).good().contains("pull smollm2"));
}

/// U28: numbers are numbers, and people see where there is room.
#[test]
fn doctor_measures_memory_and_disks() {
    let home = tempfile::tempdir().unwrap();
    let report: serde_json::Value =
        serde_json::from_str(&menagerie(home.path(), &["doctor", "--json"]).good()).unwrap();
    let number = |pointer: &str| report.pointer(pointer).and_then(serde_json::Value::as_u64).unwrap();
    for pointer in ["/caches/level_1_data", "/caches/level_2"] {
        assert!(number(pointer) >= 4096, "{pointer}: {report}");
    }
    let text = menagerie(home.path(), &["doctor"]).good();
    assert!(
        text.contains(&format!("caches: L1 data {} KiB, ", number("/caches/level_1_data") >> 10)),
        "{text}"
    );
    #[cfg(target_os = "linux")]
    {
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
        let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
        let kilobytes: u64 = total.split_whitespace().next().unwrap().parse().unwrap();
        assert_eq!(number("/memory_total"), kilobytes * 1024);
        assert!(number("/memory_free") <= number("/memory_total"), "{report}");
        assert!(
            text.lines().any(|line| line.starts_with("memory free: ") && line.contains(" of ")),
            "{text}"
        );
    }
    #[cfg(feature = "hub")]
    {
        assert!(number("/hub_cache_free") > 0 && number("/own_cache_free") > 0, "{report}");
        assert!(
            text.lines().any(|line| line.starts_with("hub cache: ") && line.ends_with(" free)")),
            "{text}"
        );
    }
}

/// U25: the crate that a spec was built from means nothing to whoever runs models.
#[test]
fn what_is_built_in_is_called_so() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/llama/model-f32.gguf");
    for arguments in [
        &["show", "qwen3"][..],
        &["show", model.to_str().unwrap()],
        &["list", "--wide"],
        &["list", "--search", "qwen3"],
    ] {
        let out = menagerie(home.path(), arguments).good();
        assert!(!out.contains("menagerie-"), "{arguments:?}: {out}");
    }
    assert!(menagerie(home.path(), &["show", "qwen3"]).good().contains("\nfrom built in\n"));
    // Programs that ask for JSON may want to know.
    assert!(menagerie(home.path(), &["show", "qwen3", "--json"]).good().contains("menagerie-qwen3"));
}

/// P1: a spec is shown with all that it extends, and where each line is from.
#[test]
fn a_merged_spec_says_where_its_lines_are_from() {
    let home = tempfile::tempdir().unwrap();
    let own = menagerie(home.path(), &["show", "smollm3"]).good();
    assert!(!own.contains("own-or-tied"), "{own}");
    let merged = menagerie(home.path(), &["show", "smollm3", "--merged"]).good();
    for part in [
        "head = \"own-or-tied\"  # specs/llama.toml:",
        "when = \"attention.rope_pattern | default(layer % 4 != 3)\"\n",
    ] {
        assert!(merged.contains(part), "{merged}");
    }
}

/// P6: `check` tells reasons of a dropped spec for keys that the file does not have.
#[test]
fn ignore_patterns_that_match_nothing_are_told() {
    let home = tempfile::tempdir().unwrap();
    let spec = "schema = 1\nextends = \"llama\"\n[architecture]\nid = \"llama\"\n[gguf.ignore_keys]\n\"nothing.*\" = \"a slip\"\n";
    std::fs::write(home.path().join("llama.toml"), spec).unwrap();
    let model = fixture("base/llama/model-f32.gguf");
    let arguments = ["check", model.to_str().unwrap(), "--spec-dir", ".", "--allow-shadow"];
    let out = menagerie(home.path(), &arguments).good();
    assert!(
        out.contains("[gguf.ignore_keys] \"nothing.*\" of spec llama does not match any key of this file"),
        "{out}"
    );
    // U7: what it extends is about other files.
    assert_eq!(out.matches("does not match any key").count(), 1, "{out}");
    let built_in = menagerie(home.path(), &["check", model.to_str().unwrap()]).good();
    assert!(!built_in.contains("does not match any key"), "{built_in}");
}
