//! `docs/json.md` and what commands print with `--json` have the same keys and types.

use super::{fixture, menagerie};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The keys of a section: each path with the types that it may have.
type Keys = BTreeMap<String, BTreeSet<String>>;

/// The tables of the page, by the text of their headings.
fn page() -> BTreeMap<String, Keys> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/json.md");
    let mut sections = BTreeMap::<String, Keys>::new();
    let mut name = String::new();
    for line in std::fs::read_to_string(file).unwrap().lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            name = heading.trim_matches('`').to_owned();
        } else if line.starts_with("| `") {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let types: BTreeSet<String> = cells[1].split(" or ").map(str::to_owned).collect();
            for path in cells[0].split('`').skip(1).step_by(2) {
                sections.entry(name.clone()).or_default().insert(path.to_owned(), types.clone());
            }
        }
    }
    sections
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

/// Walks a value; adds the documented paths that it has to `seen`, and what is not documented to `faults`.
fn walk(value: &Value, path: &str, keys: &Keys, seen: &mut BTreeSet<String>, faults: &mut Vec<String>) {
    if let Some(types) = keys.get(path) {
        seen.insert(path.to_owned());
        if !types.contains(type_of(value)) && !types.contains("any") {
            faults.push(format!("{path} is a {}, not a {types:?}", type_of(value)));
        }
        return;
    }
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                walk(value, &inner, keys, seen, faults);
            }
        }
        Value::Array(list) => {
            let inner = format!("{path}[]");
            if list.is_empty() && !keys.keys().any(|known| known.starts_with(&inner)) {
                faults.push(format!("{path} is not documented"));
            }
            // An empty list shows nothing of its elements.
            if list.is_empty() {
                seen.extend(keys.keys().filter(|known| known.starts_with(&inner)).cloned());
            }
            list.iter().for_each(|one| walk(one, &inner, keys, seen, faults));
        }
        _ => faults.push(format!("{path} is not documented")),
    }
}

/// The sections with the calls that print them, in a folder of their own.
fn calls() -> Vec<(&'static str, Vec<Vec<String>>)> {
    let path = |name: &str| fixture(name).to_string_lossy().into_owned();
    let (model, qwen) = (path("base/llama/model-f32.gguf"), path("base/qwen2/model-f32.gguf"));
    let (text, vector) = (path("perplexity/coriolanus.txt"), path("control/a.gguf"));
    let (folder, reference) = (path("base/qwen2/hf"), path("base/llama/reference.safetensors"));
    let words = |line: &str| -> Vec<String> {
        let put = |word: &str| match word {
            "MODEL" => model.clone(),
            "QWEN" => qwen.clone(),
            "TEXT" => text.clone(),
            "VECTOR" => vector.clone(),
            "FOLDER" => folder.clone(),
            "REFERENCE" => reference.clone(),
            word => word.to_owned(),
        };
        line.split(' ').map(put).collect()
    };
    let all: [(&'static str, &[&str]); 22] = [
        ("run", &["run MODEL abc --raw -n 3 --logprobs 2 --seed 1 --json"]),
        ("batch", &["batch MODEL in.jsonl out.jsonl --json"]),
        ("tokenize", &["tokenize MODEL abc --json"]),
        ("lens", &["lens MODEL abc --top 2 --json"]),
        ("perplexity", &["perplexity MODEL -f TEXT --ctx-size 32 --chunks 2 --json"]),
        ("compare", &["compare MODEL MODEL -f TEXT --ctx-size 32 --chunks 1 --json"]),
        ("bench", &["bench MODEL -p 4 -n 2 -r 1 --json"]),
        ("bench --sequences", &["bench MODEL --sequences 1,2 -p 4 -n 2 --json"]),
        ("list", &["list --json"]),
        ("show MODEL", &["show MODEL --json"]),
        ("inspect", &["inspect MODEL --json", "inspect FOLDER --json"]),
        (
            "check",
            &[
                "check MODEL --json",
                "check QWEN --json --against qwen2",
                "check MODEL --json --reference REFERENCE",
            ],
        ),
        ("spec check", &["spec check llama --json"]),
        ("spec kinds", &["spec kinds --json"]),
        ("spec diff", &["spec diff llama qwen3 --json"]),
        ("spec explain", &["spec explain llama --json"]),
        ("spec show", &["spec show llama --json"]),
        ("spec new", &["spec new MODEL --json"]),
        ("quantize", &["quantize MODEL out.gguf Q8_0 --json --dry-run"]),
        ("convert", &["convert FOLDER out.gguf --json"]),
        ("synth --shape list", &["synth llama --shape list --json"]),
        ("control-vector show", &["control-vector show VECTOR --json"]),
    ];
    let more: [(&'static str, &[&str]); 6] = [
        ("cache list", &["cache list . --json"]),
        ("cache clear", &["cache clear . --json"]),
        ("plugin list", &["plugin list --json"]),
        ("doctor", &["doctor --json"]),
        ("guide", &["guide --json"]),
        ("embed", &["embed MODEL abc --pooling mean"]),
    ];
    let hub: &[(&'static str, &[&str])] = match cfg!(feature = "hub") {
        true => &[("models", &["models --json"]), ("models available", &["models available --json"])],
        false => &[],
    };
    let cluster: &[(&'static str, &[&str])] = match cfg!(feature = "cluster") {
        true => &[
            ("cluster keys", &["cluster keys keys --name a --json"]),
            ("cluster status", &["cluster status --cluster a --json"]),
        ],
        false => &[],
    };
    let rows = all.iter().chain(&more).chain(hub).chain(cluster);
    rows.map(|(name, lines)| (*name, lines.iter().map(|line| words(line)).collect())).collect()
}

/// Keys that only a call with another option has.
const WITH_OPTIONS: [&str; 3] = ["truncated_tokens[]", "recipe", "error"];

#[test]
fn every_key_is_documented_and_every_documented_key_is_there() {
    let page = page();
    let mut faults = Vec::new();
    for (section, lines) in calls() {
        let Some(keys) = page.get(section) else {
            faults.push(format!("{section}: the page has no such section"));
            continue;
        };
        let mut seen = BTreeSet::new();
        for line in lines {
            let home = tempfile::tempdir().unwrap();
            let request = r#"{"custom_id": "a", "prompt": "hi", "max_tokens": 2}"#;
            std::fs::write(home.path().join("in.jsonl"), request).unwrap();
            let arguments: Vec<&str> = line.iter().map(String::as_str).collect();
            let call = menagerie(home.path(), &arguments);
            let value: Value = serde_json::from_str(&call.out)
                .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}{}", call.out, call.err));
            let Value::Object(mut object) = value else { panic!("{arguments:?}: not an object") };
            assert_eq!(object.keys().next().map(String::as_str), Some("schema"), "{arguments:?}");
            assert_eq!(object.shift_remove("schema"), Some(Value::from(1)), "{arguments:?}");
            let mut found = Vec::new();
            walk(&Value::Object(object), "", keys, &mut seen, &mut found);
            faults.extend(found.into_iter().map(|fault| format!("{section}: {fault}")));
        }
        let absent = keys.keys().filter(|key| !seen.contains(*key) && !WITH_OPTIONS.contains(&key.as_str()));
        faults.extend(absent.map(|key| format!("{section}: {key} is documented and not there")));
    }
    faults.sort();
    faults.dedup();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// The walk finds a key that the page does not have, a wrong type, and nothing else.
#[test]
fn a_key_that_is_not_documented_is_a_fault() {
    let types = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    let keys = Keys::from([
        ("a".to_owned(), types(&["string", "null"])),
        ("b[].c".to_owned(), types(&["number"])),
        ("d".to_owned(), types(&["object"])),
    ]);
    let faults = |value: Value| {
        let mut faults = Vec::new();
        walk(&value, "", &keys, &mut BTreeSet::new(), &mut faults);
        faults.len()
    };
    let good = serde_json::json!({ "a": null, "b": [{ "c": 1 }], "d": { "x": 2 } });
    assert_eq!(faults(good), 0);
    assert_eq!(faults(serde_json::json!({ "a": 1, "b": [{ "c": 1, "e": 2 }], "f": [] })), 3);
}
