//! `cluster`: certificates, plans, the state of a cluster, comparisons and draining; with good and with bad input.
#![cfg(target_os = "linux")]

use super::signals::ended;
use super::{fixture, menagerie};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running `menagerie stage`, which is killed with the test.
struct Stage {
    process: Child,
    endpoint: String,
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Stage {
    fn start(home: &Path, options: &[&str], seed: Option<&Self>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
        command.args(["stage", &model(), "--cluster", "test", "-t", "1"]).args(options);
        if let Some(seed) = seed {
            command.args(["--connect", &seed.endpoint]);
        }
        command.current_dir(home).env_clear().env("HOME", home).env("HF_HUB_OFFLINE", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains(" serve in cluster test "), "{line}");
        Self { process, endpoint: line.trim().rsplit(' ').next().unwrap().to_owned() }
    }
}

fn model() -> String {
    fixture("base/llama/model-f32.gguf").to_str().unwrap().to_owned()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn keys_are_made_once_listed_and_renewed() {
    let home = tempfile::tempdir().unwrap();
    let keys =
        |more: &[&str]| menagerie(home.path(), &[&["cluster", "keys", "keys", "--json"], more].concat());
    let first = json(&keys(&[]).good());
    assert_eq!(
        (first["authority"]["created"].as_bool(), first["certificates"].as_array().unwrap().len()),
        (Some(true), 0)
    );
    let made =
        json(&keys(&["--name", "stage-1", "--name", "stage-2", "--hosts", "10.0.0.1,node.example"]).good());
    let one = &made["certificates"][0];
    assert_eq!(one["name"], "stage-1");
    assert_eq!(
        (&one["role"], &one["state"], &one["done"]),
        (&"stage".into(), &"valid".into(), &"created".into())
    );
    let mut hosts: Vec<&str> = one["hosts"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["10.0.0.1", "node.example"]);
    let bytes = || std::fs::read(home.path().join("keys/stage-1/tls.crt")).unwrap();
    let before = bytes();
    let again = json(&keys(&["--name", "stage-1", "--hosts", "node.example,10.0.0.1"]).good());
    assert_eq!(
        (&again["certificates"][0]["done"], again["authority"]["created"].as_bool()),
        (&"kept".into(), Some(false))
    );
    assert!(bytes() == before);
    // A renewed certificate keeps its hosts and its role.
    keys(&["--name", "head", "--role", "head", "--hosts", "10.0.0.9"]).good();
    let renewed = json(&keys(&["--name", "head", "--renew", "--days", "3"]).good());
    let head = &renewed["certificates"][0];
    assert_eq!(
        (&head["role"], &head["done"], &head["state"]),
        (&"head".into(), &"renewed".into(), &"expires soon".into())
    );
    assert_eq!(head["hosts"], serde_json::json!(["10.0.0.9"]));
    let listed = menagerie(home.path(), &["cluster", "keys", "keys"]).good();
    for words in ["authority keys (kept, expires 20", "stage-2", "expires soon"] {
        assert!(listed.contains(words), "{words}: {listed}");
    }
}

#[test]
fn keys_with_bad_input_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let keys = |more: &[&str]| menagerie(home.path(), &[&["cluster", "keys", "keys"], more].concat());
    keys(&["--role", "head"]).refused_with(&["--name"]);
    keys(&["--name", "a", "--role", "admin"]).refused_with(&["unknown role `admin`", "operator"]);
    keys(&["--name", "../a"]).fails_with(&["`../a` is not a name of a node"]);
    keys(&["--name", "a", "--hosts", "*.example"]).fails_with(&["`*.example` is not a host"]);
    keys(&["--name", "a", "--days", "9999"]).fails_with(&["9999 days", "3650"]);
    keys(&["--name", "a"]).good();
    keys(&["--name", "a", "--role", "operator"])
        .fails_with(&["another role: stage, expected operator", "--renew"]);
    keys(&["--name", "b", "--hosts", "10.0.0.1"]).fails_with(&["b has hosts and others do not"]);
    assert!(!home.path().join("a").exists() && !home.path().join("keys/b").exists());
    std::fs::write(home.path().join("file"), "x").unwrap();
    menagerie(home.path(), &["cluster", "keys", "file"]).fails_with(&["file"]);
}

fn nodes(home: &Path, text: &str) {
    std::fs::write(home.join("nodes.json"), text).unwrap();
}

#[test]
fn a_plan_gives_layers_by_speed_and_memory() {
    let home = tempfile::tempdir().unwrap();
    let model = model();
    let plan = |more: &[&str]| {
        let command = ["cluster", "plan", &model, "--nodes", "nodes.json", "-c", "64", "--json"];
        json(&menagerie(home.path(), &[&command[..], more].concat()).good())
    };
    let two = |memory: u64, slow: f64| {
        format!(
            r#"{{"nodes": [{{"name": "a", "memory_bytes": {memory}, "ms_per_layer": {slow}}},
                {{"name": "b", "memory_bytes": 1000000000, "ms_per_layer": 1}}], "hop_ms": 0}}"#
        )
    };
    nodes(home.path(), &two(1_000_000_000, 1.0));
    let plan_of_two = plan(&[]);
    let layers: Vec<&Value> =
        plan_of_two["stages"].as_array().unwrap().iter().map(|stage| &stage["layers"]).collect();
    assert_eq!(layers.len(), 2);
    assert_eq!((layers[0][0].as_u64(), layers[1][1].as_u64()), (Some(0), Some(3)));
    let command = plan_of_two["stages"][1]["command"].as_str().unwrap();
    assert!(command.contains("--layers ") && command.contains("--connect "), "{command}");
    let expected = plan_of_two["expected"].as_array().unwrap();
    assert_eq!(expected[0]["sequences"], 1);
    // One sequence takes the sum of the stages.
    let sum: f64 = plan_of_two["stages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|stage| stage["ms_per_token"].as_f64())
        .sum();
    assert!((expected[0]["ms_per_token"].as_f64().unwrap() - sum).abs() < 1e-9);
    // Everything needs memory: the bytes of both stages are at least those of the weights.
    let bytes: u64 =
        plan_of_two["stages"].as_array().unwrap().iter().filter_map(|stage| stage["bytes"].as_u64()).sum();
    assert!(bytes > std::fs::metadata(&model).unwrap().len() / 2, "{bytes}");
    // A node that is too slow, or has no memory, is left out.
    for (memory, slow) in [(1_000_000_000, 1000.0), (10, 1.0)] {
        nodes(home.path(), &two(memory, slow));
        let one = plan(&[]);
        assert_eq!(one["stages"].as_array().unwrap().len(), 1, "{one}");
        assert_eq!(
            (&one["stages"][0]["node"], &one["stages"][0]["layers"]),
            (&"b".into(), &serde_json::json!([0, 3]))
        );
    }
    let text =
        menagerie(home.path(), &["cluster", "plan", &model, "--nodes", "nodes.json", "--cluster", "prod"])
            .good();
    for words in
        ["stage", "tokens/s of all", "menagerie stage ", "--cluster prod --layers 0-2 --listen b:7447"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_plan_with_bad_input_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let model = model();
    let plan = || menagerie(home.path(), &["cluster", "plan", &model, "--nodes", "nodes.json"]);
    menagerie(home.path(), &["cluster", "plan", &model]).refused_with(&["--nodes"]);
    plan().fails_with(&["nodes.json", "No such file"]);
    for (text, words) in [
        ("", "EOF"),
        (r#"{"nodes": []}"#, "0 nodes"),
        (r#"{"nodes": [{"name": "a", "memory_bytes": 1}]}"#, "ms_per_layer"),
        (r#"{"nodes": [{"name": "\u001b[2J", "memory_bytes": 1, "ms_per_layer": 1}]}"#, "control characters"),
        (r#"{"nodes": [{"name": "a", "memory_bytes": 1, "ms_per_layer": 1}]}"#, "does not fit"),
    ] {
        nodes(home.path(), text);
        plan().fails_with(&[words]);
    }
    menagerie(home.path(), &["cluster", "plan", &model, "--cluster", "empty"]).fails_with(&["--nodes FILE"]);
}

#[test]
fn the_stages_of_a_cluster_are_shown_compared_and_drained() {
    let home = tempfile::tempdir().unwrap();
    let mut first = Stage::start(home.path(), &["--layers", "0-1"], None);
    let join = ["--cluster", "test", "--connect", &*first.endpoint.clone()];
    let status =
        || json(&menagerie(home.path(), &[&["cluster", "status", "--json"], &join[..]].concat()).good());
    let alone = status();
    assert_eq!(
        (&alone["replicas"][0]["complete"], &alone["replicas"][0]["missing_layers"]),
        (&false.into(), &serde_json::json!([[2, 3]]))
    );
    let mut second = Stage::start(home.path(), &["--layers", "2"], Some(&first));
    let both = status();
    assert_eq!(
        (&both["replicas"][0]["complete"], both["stages"].as_array().unwrap().len()),
        (&true.into(), 2)
    );
    assert_eq!(both["stages"][1]["process"], second.process.id());
    let model = model();
    let check = |more: &[&str]| {
        let command = ["cluster", "check", &model, "-t", "1", "--count", "8"];
        menagerie(home.path(), &[&command[..], &join, more].concat())
    };
    let agreed = json(&check(&["--json"]).good());
    assert_eq!((&agreed["agree"], agreed["stages"].as_array().unwrap().len()), (&true.into(), 2), "{agreed}");
    assert_eq!(agreed["stages"][1]["layers"], serde_json::json!([2, 3]));
    // After a token the stages know their speed, so a plan needs no file.
    let plan = json(
        &menagerie(home.path(), &[&["cluster", "plan", &model, "-c", "64", "--json"], &join[..]].concat())
            .good(),
    );
    assert_eq!(
        plan["stages"].as_array().unwrap().iter().map(|stage| stage["layers"][1].as_u64().unwrap()).max(),
        Some(3)
    );
    let text = menagerie(home.path(), &[&["cluster", "status"], &join[..]].concat()).good();
    assert!(text.contains("replica main: complete, 2 stages") && text.contains("ready"), "{text}");
    let drain = |replica: &str| {
        menagerie(home.path(), &[&["cluster", "drain", "--replica", replica], &join[..]].concat())
    };
    drain("other").fails_with(&["no replica other", "main of model-f32.gguf"]);
    assert_eq!(drain("main").good().lines().filter(|line| line.starts_with("draining: layers ")).count(), 2);
    assert_eq!((ended(&mut first.process), ended(&mut second.process)), (Some(0), Some(0)));
}

#[test]
fn certificates_join_a_cluster_and_their_roles_are_kept_apart() {
    let home = tempfile::tempdir().unwrap();
    for (name, role) in [("stage", "stage"), ("head", "head"), ("operator", "operator")] {
        menagerie(home.path(), &["cluster", "keys", "keys", "--name", name, "--role", role]).good();
    }
    let tls = |name: &str| home.path().join("keys").join(name).to_str().unwrap().to_owned();
    let (stage, head, operator) = (tls("stage"), tls("head"), tls("operator"));
    let listen = ["--listen", "127.0.0.1:0", "--layers", "0-2", "--tls-dir", &stage];
    let server = Stage::start(home.path(), &listen, None);
    assert!(server.endpoint.starts_with("tls/127.0.0.1:"), "{}", server.endpoint);
    let model = model();
    let run = |more: &[&str]| {
        let command = ["run", &*model, "--raw", "a b", "-n", "4", "-t", "1", "--temp", "0"];
        menagerie(home.path(), &[&command[..], more].concat())
    };
    let join = ["--cluster", "test", "--connect", &*server.endpoint];
    let whole = run(&[]).good();
    assert_eq!(run(&[&join[..], &["--tls-dir", &head]].concat()).good(), whole);
    let status = |tls: &str| {
        json(
            &menagerie(
                home.path(),
                &[&["cluster", "status", "--json", "--tls-dir", tls], &join[..]].concat(),
            )
            .good(),
        )
    };
    assert_eq!(status(&operator)["stages"].as_array().unwrap().len(), 1);
    // An operator cannot open a pipeline, and a node without a certificate cannot join.
    let wait = ["--cluster-wait", "2"];
    run(&[&join[..], &wait, &["--tls-dir", &operator]].concat()).fails_with(&["does not accept this head"]);
    run(&[&join[..], &wait].concat()).fails_with(&["give --tls-dir"]);
}

#[test]
fn other_machines_need_certificates() {
    let home = tempfile::tempdir().unwrap();
    let model = model();
    let stage = ["stage", &*model, "--cluster", "test", "--layers", "0-2"];
    let call = |more: &[&str]| menagerie(home.path(), &[&stage[..], more].concat());
    call(&["--listen", "0.0.0.0:0"]).refused_with(&[
        "without certificates",
        "cluster keys",
        "--tls-dir",
        "--insecure",
    ]);
    call(&["--lan"]).refused_with(&["without certificates"]);
    call(&["--tls-dir", "absent"]).refused_with(&["--tls-dir absent", "ca.crt"]);
    call(&["--listen", "127.0.0.1"]).refused_with(&["is not an address"]);
    menagerie(home.path(), &["cluster", "check", &model]).refused_with(&["--cluster"]);
    menagerie(home.path(), &["cluster", "status"]).refused_with(&["--cluster"]);
    menagerie(home.path(), &["cluster", "drain", "--cluster", "a"]).refused_with(&["--replica"]);
    let none = menagerie(home.path(), &["cluster", "status", "--cluster", "a"]).good();
    assert!(none.contains("no stages in cluster a"), "{none}");
}
