//! `serve --models-dir`: models on demand, their adapters, their memory, and reloading.

use super::plugins::library;
use super::serve::Serving;
use super::{Changed, TEMPLATE, fixture, menagerie};
use serde_json::{Value, json};
use std::path::Path;

/// A folder with a text model, an encoder, a model folder, and two links out of it.
fn models(home: &Path) {
    let folder = home.join("models");
    std::fs::create_dir(&folder).unwrap();
    let talk = Changed::of("base/llama/model-f32.gguf").set("tokenizer.chat_template", TEMPLATE).write(home);
    std::fs::rename(talk, folder.join("talk.gguf")).unwrap();
    std::fs::copy(fixture("zoo/bert/model-f16.gguf"), folder.join("vectors.gguf")).unwrap();
    std::fs::write(folder.join("notes.txt"), "no model").unwrap();
    copy(&fixture("base/llama/hf"), &folder.join("folder"));
    copy(&fixture("lora/llama/adapters/a0"), &folder.join("talk.adapters/a0"));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(fixture("base/llama/model-f32.gguf"), folder.join("outside.gguf"))
            .unwrap();
        std::os::unix::fs::symlink("talk.gguf", folder.join("inside.gguf")).unwrap();
        std::fs::copy(folder.join("vectors.gguf"), folder.join(".hidden.gguf")).unwrap();
        std::os::unix::fs::symlink(".hidden.gguf", folder.join("later.gguf")).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

fn ids(server: &Serving) -> Vec<String> {
    let (_, list) = server.send("GET", "/v1/models", "");
    list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap().to_owned()).collect()
}

fn entry(server: &Serving, id: &str) -> Value {
    server.send("GET", &format!("/v1/models/{id}"), "").1
}

fn complete(server: &Serving, model: &str) -> (u16, Value) {
    let body = json!({ "model": model, "prompt": [1, 5, 6, 7], "temperature": 0, "max_tokens": 8, "ignore_eos": true, "logprobs": 1 });
    server.send("POST", "/v1/completions", &body.to_string())
}

fn text(server: &Serving, model: &str) -> String {
    let (status, answer) = complete(server, model);
    assert_eq!((status, &answer["model"]), (200, &json!(model)), "{answer}");
    answer["choices"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn a_folder_of_models_is_served_by_name_and_never_left() {
    let home = tempfile::tempdir().unwrap();
    models(home.path());
    let server = Serving::new(home.path(), &["--models-dir", "models", "--log", "off"]);
    assert_eq!(ids(&server), ["folder", "talk", "talk:a0", "vectors", "later"]);
    let bare = text(&server, "talk");
    assert_eq!(complete(&server, "inside").1["model"], "talk", "a link in the folder is another name");
    assert_eq!(text(&server, "folder"), bare, "the same weights");
    let adapted = text(&server, "talk:a0");
    assert_ne!(adapted, bare);
    let file = home.path().join("models/talk.gguf");
    let (file, a0) = (file.to_str().unwrap(), fixture("lora/llama/adapters/a0"));
    let line = json!({ "custom_id": "1", "method": "POST", "url": "/v1/completions",
        "body": { "prompt": [1, 5, 6, 7], "temperature": 0, "max_tokens": 8, "ignore_eos": true } });
    std::fs::write(home.path().join("in.jsonl"), line.to_string()).unwrap();
    let lora = ["batch", file, "in.jsonl", "out.jsonl", "-t", "1", "--lora", a0.to_str().unwrap()];
    menagerie(home.path(), &lora).good();
    let out: Value =
        serde_json::from_str(&std::fs::read_to_string(home.path().join("out.jsonl")).unwrap()).unwrap();
    assert_eq!(out["response"]["body"]["choices"][0]["text"], adapted.as_str(), "as with --lora");
    server.post("/v1/embeddings", &json!({ "model": "vectors", "input": [[5, 6, 7]] }));
    let refused =
        server.send("POST", "/v1/embeddings", &json!({ "model": "talk:a0", "input": "a" }).to_string());
    assert_eq!(refused.0, 400, "{}", refused.1);
    for name in ["outside", "models/talk.gguf", "../models/talk", file, "talk:a1", "notes", "talk.adapters"] {
        let (status, answer) = complete(&server, name);
        assert_eq!((status, &answer["error"]["code"]), (404, &json!("model_not_found")), "{name}: {answer}");
    }
    let shown = entry(&server, "talk:a0");
    assert_eq!((&shown["parent"], &shown["capabilities"]), (&json!("talk"), &json!(["completions", "chat"])));
    // A link that leads out after the start is refused too.
    #[cfg(unix)]
    {
        let link = home.path().join("models/later.gguf");
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(fixture("base/llama/model-f32.gguf"), &link).unwrap();
        let (status, answer) = complete(&server, "later");
        assert!(status == 500 && answer.to_string().contains("leads out"), "{answer}");
    }
}

#[test]
fn what_is_served_has_to_be_named() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/llama/model-f32.gguf").display().to_string();
    let serve = |more: &[&str]| menagerie(home.path(), &[&["serve"], more].concat());
    serve(&[]).refused_with(&["MODEL", "--models-dir", "--installed"]);
    serve(&["--models-dir", "none"]).fails_with(&["--models-dir none"]);
    serve(&[&model, "--adapter", "x"]).refused_with(&["NAME=PATH"]);
    serve(&[&model, "--adapter", "other:x=y", "--listen", "127.0.0.1:0"]).refused_with(&["other"]);
    serve(&[&model, "--adapter", "x=none", "--listen", "127.0.0.1:0"]).fails_with(&["none"]);
    serve(&[&model, "--pin", "other", "--listen", "127.0.0.1:0"]).fails_with(&["--pin other"]);
    serve(&[&model, "--memory", "1", "--listen", "127.0.0.1:0"]).fails_with(&["model-f32.gguf", "memory"]);
    serve(&[&model, "--memory", "much"]).refused_with(&["6G"]);
    serve(&[&model, "--tls-cert", "x.pem"]).refused_with(&["--tls-key"]);
    let tls = ["--tls-cert", "x.pem", "--tls-key", "x.key", "--listen", "127.0.0.1:0"];
    serve(&[&[&*model], &tls[..]].concat()).fails_with(&["x.pem"]);
}

#[test]
fn adapters_of_the_command_line_are_chosen_by_name() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/llama/model-f32.gguf").display().to_string();
    let adapter =
        |name: &str| format!("{name}={}", fixture(&format!("lora/llama/adapters/{name}")).display());
    let arguments =
        [&model, "--alias", "m", "--adapter", &adapter("a0"), "--adapter", &format!("m:{}", adapter("a1"))];
    let server = Serving::new(home.path(), &[&arguments[..], &["--log", "off"]].concat());
    assert_eq!(ids(&server), ["m", "m:a0", "m:a1"]);
    let texts = ["m", "m:a0", "m:a1"].map(|name| text(&server, name));
    assert!(texts[0] != texts[1] && texts[0] != texts[2] && texts[1] != texts[2], "{texts:?}");
    assert_eq!(text(&server, "m"), texts[0], "an adapter does not stay");
    // By number, as llama-server names them.
    let (_, listed) = server.send("GET", "/lora-adapters?model=m", "");
    assert_eq!(
        listed,
        json!([{ "id": 0, "path": "a0", "scale": 0.0 }, { "id": 1, "path": "a1", "scale": 0.0 }])
    );
    let with = |model: &str, lora: Value| {
        let body = json!({ "model": model, "prompt": [1, 5, 6, 7], "temperature": 0, "max_tokens": 8, "ignore_eos": true, "lora": lora });
        let (status, answer) = server.send("POST", "/v1/completions", &body.to_string());
        if status == 200 { answer["choices"][0]["text"].clone() } else { answer["error"]["param"].clone() }
    };
    for (lora, expected) in [
        (json!([]), &texts[0]),
        (json!([{ "id": 0, "scale": 0 }]), &texts[0]),
        (json!([{ "id": 0, "scale": 1.0 }]), &texts[1]),
        (json!([{ "id": 1, "scale": 1 }]), &texts[2]),
    ] {
        assert_eq!(with("m", lora.clone()), json!(expected), "{lora}");
    }
    assert_ne!(with("m", json!([{ "id": 0, "scale": 1 }, { "id": 1, "scale": 1 }])), json!(texts[1]));
    assert_eq!(with("m", json!([{ "id": 2, "scale": 1 }])), "lora[0].id");
    assert_eq!(with("m", json!([{ "id": 0 }])), "lora[0].scale");
    assert_eq!(with("m:a0", json!([])), "lora");
}

#[test]
fn a_model_leaves_for_another_when_memory_is_short() {
    let home = tempfile::tempdir().unwrap();
    models(home.path());
    let usual =
        ["--models-dir", "models", "--log", "off", "-c", "256", "--parallel", "1", "--aside-memory", "0"];
    let server = Serving::new(home.path(), &usual);
    let bare = text(&server, "talk");
    let bytes = entry(&server, "talk")["memory_bytes"].as_u64().unwrap();
    assert!(bytes > 1 << 20, "{bytes}");
    drop(server);
    let memory = (bytes + bytes / 2).to_string();
    let server = Serving::new(home.path(), &[&usual[..], &["--memory", &memory]].concat());
    assert_eq!((text(&server, "talk"), text(&server, "folder")), (bare.clone(), bare.clone()));
    assert_eq!(
        (&entry(&server, "talk")["state"], &entry(&server, "folder")["state"]),
        (&json!("absent"), &json!("ready"))
    );
    assert_eq!(text(&server, "talk"), bare, "it comes back");
    let small = (bytes / 2).to_string();
    let server = Serving::new(home.path(), &[&usual[..], &["--memory", &small]].concat());
    let (status, answer) = complete(&server, "talk");
    assert!(
        status >= 500 && answer["error"]["message"].as_str().unwrap().contains("talk.gguf needs "),
        "{answer}"
    );
}

#[cfg(unix)]
#[test]
fn new_files_keys_and_specs_are_found_by_a_signal() {
    let home = tempfile::tempdir().unwrap();
    models(home.path());
    let (keys, specs) = (home.path().join("keys.txt"), home.path().join("specs"));
    std::fs::write(&keys, "one\n").unwrap();
    std::fs::create_dir(&specs).unwrap();
    let usual =
        ["--models-dir", "models", "--api-key-file", "keys.txt", "--spec-dir", "specs", "--allow-shadow"];
    let server = Serving::new(home.path(), &usual);
    let status = |key: &str, path: &str| server.send_as(key, ("GET", path), "").0;
    let body = json!({ "model": "vectors", "input": [[5, 6, 7]] }).to_string();
    assert_eq!(server.send_as("one", ("POST", "/v1/embeddings"), &body).0, 200);
    assert_eq!((status("one", "/v1/models/more"), status("two", "/v1/models")), (404, 401));
    std::fs::copy(fixture("base/llama/model-f32.gguf"), home.path().join("models/more.gguf")).unwrap();
    std::fs::write(&keys, "one\ntwo\n").unwrap();
    let spec = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../specs/bert.toml");
    let spec = std::fs::read_to_string(spec).unwrap();
    std::fs::write(specs.join("bert.toml"), format!("{spec}\n# changed\n")).unwrap();
    server.signal("HUP");
    for _ in 0..1000 {
        if status("two", "/v1/models/more") == 200 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!((status("one", "/v1/models/more"), status("two", "/v1/models/more")), (200, 200));
    let state =
        |model: &str| server.send_as("two", ("GET", &format!("/v1/models/{model}")), "").1["state"].clone();
    assert_eq!(state("vectors"), "absent", "its spec is another one");
    let (code, answer) = server.send_as("two", ("POST", "/v1/embeddings"), &body);
    assert_eq!(code, 200, "{answer}");
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    let reloaded: Vec<Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok()?.get("reloaded").cloned())
        .collect();
    let models = json!({ "added": ["more"], "removed": [], "changed": ["vectors"] });
    let wanted = json!({ "models": models, "specs": ["bert"], "plugins": [], "keys": { "added": 1, "removed": 0 }, "tls": false });
    assert_eq!(reloaded, [wanted], "{log}");
}

/// A model is opened again if a plugin of it changes, and not because another one is new or gone.
#[cfg(unix)]
#[test]
fn a_plugin_that_changes_concerns_the_models_that_use_it() {
    let home = tempfile::tempdir().unwrap();
    models(home.path());
    let plugin = home.path().join("plugins").join(library().file_name().unwrap());
    std::fs::create_dir(home.path().join("plugins")).unwrap();
    let usual = ["--plugin-dir", "plugins", "--models-dir", "models", "--log", "off"];
    let reload = |server: &Serving| {
        let (status, change) = server.send("POST", "/admin/reload", "");
        assert_eq!((status, &change["plugins"]), (200, &json!(["menagerie/samplers"])), "{change}");
        change["models"]["changed"].clone()
    };
    let server = Serving::new(home.path(), &usual);
    text(&server, "talk");
    std::fs::copy(library(), &plugin).unwrap();
    assert_eq!((reload(&server), &entry(&server, "talk")["state"]), (json!([]), &json!("ready")));
    drop(server);
    let sampler = ["--sampler", "menagerie/samplers:top-n-sigma=n=1"];
    let server = Serving::new(home.path(), &[&usual[..], &sampler].concat());
    text(&server, "talk");
    std::fs::remove_file(&plugin).unwrap();
    assert_eq!((reload(&server), &entry(&server, "talk")["state"]), (json!(["talk"]), &json!("absent")));
}

#[cfg(unix)]
#[test]
fn a_file_that_is_replaced_is_another_model() {
    let home = tempfile::tempdir().unwrap();
    models(home.path());
    let server = Serving::new(home.path(), &["--models-dir", "models", "--log", "off"]);
    text(&server, "talk");
    assert_eq!(entry(&server, "talk")["capabilities"], json!(["completions", "chat"]));
    std::fs::remove_dir_all(home.path().join("models/talk.adapters")).unwrap();
    assert_eq!(complete(&server, "talk").0, 500, "a file of it is gone");
    assert_eq!(server.send("POST", "/admin/reload", "").0, 200);
    let new = home.path().join("new.gguf");
    std::fs::copy(fixture("zoo/bert/model-f16.gguf"), &new).unwrap();
    std::fs::rename(new, home.path().join("models/talk.gguf")).unwrap();
    assert_eq!(complete(&server, "talk").0, 400, "it generates no text any more");
    assert_eq!(entry(&server, "talk")["capabilities"], json!(["embeddings"]));
}

#[cfg(feature = "hub")]
#[test]
fn installed_models_and_recipes_have_the_names_that_are_listed() {
    let home = tempfile::tempdir().unwrap();
    let snapshot = home.path().join(".cache/huggingface/hub/models--org--repo/snapshots/s");
    std::fs::create_dir_all(&snapshot).unwrap();
    std::fs::copy(fixture("base/llama/model-f32.gguf"), snapshot.join("m.gguf")).unwrap();
    let specs = home.path().join("specs");
    std::fs::create_dir(&specs).unwrap();
    let recipe =
        |base: &str| format!("schema = 1\n[recipe]\nbase = \"{base}\"\n[set]\n\"rope.freq_base\" = 1234.5\n");
    std::fs::write(specs.join("turned.recipe.toml"), recipe("hf:org/repo@s/m.gguf")).unwrap();
    std::fs::write(specs.join("missing.recipe.toml"), recipe("org/other")).unwrap();
    let server = Serving::new(home.path(), &["--installed", "--spec-dir", "specs", "--log", "off"]);
    let name = "hf:org/repo@s/m.gguf";
    let mut listed = ids(&server);
    listed.sort();
    assert_eq!(listed, [name, "missing", "turned"]);
    let logprobs = |name: &str| complete(&server, name).1["choices"][0]["logprobs"]["token_logprobs"].clone();
    assert!(logprobs(name).is_array() && logprobs(name) != logprobs("turned"));
    // Nothing is downloaded for a request.
    let (status, answer) = complete(&server, "missing");
    assert!(status == 500 && answer.to_string().contains("not on this machine"), "{answer}");
}
