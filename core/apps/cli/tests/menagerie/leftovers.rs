//! What downloads leave, and what `models remove` must leave.

use super::Call;
use super::hub::server::HubServer;
use super::hub::{HELLO, MODEL, with};
use std::path::{Path, PathBuf};

fn json(call: Call) -> serde_json::Value {
    serde_json::from_str(&call.good()).unwrap()
}

fn cache(home: &Path) -> PathBuf {
    home.join(".cache/huggingface/hub")
}

/// U9: a damaged download and an interrupted one are seen, and removed by name.
#[test]
fn leftovers_are_listed_and_removed_by_name() {
    let (home, server) = (tempfile::tempdir().unwrap(), HubServer::start(&[(MODEL, b"hellO", HELLO)]));
    let run = |arguments: &[&str]| with(home.path(), &server.address, arguments);
    run(&["pull", "org/repo"]).fails_with(&["damaged"]);
    let listed = run(&["models"]);
    assert!(listed.err.contains("menagerie models prune"), "{}", listed.err);
    let out = listed.good();
    assert!(out.contains("org/repo  5 B   hub, damaged"), "{out}");
    let listed = json(run(&["models", "--json"]));
    let left = &listed["leftovers"][0];
    assert_eq!((&left["name"], &left["state"]), (&"org/repo".into(), &"damaged".into()), "{listed}");
    assert_eq!(run(&["models", "remove", "org/repo"]).good(), "removed org/repo (1 file, 5 B freed)\n");
    assert!(!cache(home.path()).join("models--org--repo").exists());
    run(&["models", "remove", "org/repo"]).fails_with(&["is not on this machine"]);
}

/// U9: a leftover is listed beside the models, and goes with the model of its repository.
#[test]
fn a_repository_is_removed_with_its_leftovers() {
    let (home, server) = (tempfile::tempdir().unwrap(), HubServer::start(&[(MODEL, b"hello", HELLO)]));
    let run = |arguments: &[&str]| with(home.path(), &server.address, arguments);
    run(&["pull", "org/repo"]).good();
    let repository = cache(home.path()).join("models--org--repo");
    std::fs::write(repository.join("blobs/0123.part"), "123").unwrap();
    let listed = json(run(&["models", "--json"]));
    assert_eq!(listed["models"][0]["state"], "complete", "{listed}");
    let left = &listed["leftovers"][0];
    let keys: Vec<&String> = left.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["name", "path", "bytes", "source", "state"]);
    assert_eq!((&left["state"], &left["bytes"]), (&"incomplete".into(), &3.into()), "{listed}");
    let removed = run(&["models", "remove", "org/repo"]).good();
    assert_eq!(removed, format!("removed hf:org/repo/{MODEL} (2 files, 8 B freed)\n"));
    assert!(!repository.exists());
}

/// U9: `models prune` removes all of them, but not what another process is fetching.
#[test]
fn prune_removes_what_nobody_is_fetching() {
    let (home, server) = (tempfile::tempdir().unwrap(), HubServer::start(&[]));
    let run = |arguments: &[&str]| with(home.path(), &server.address, arguments);
    assert!(run(&["models", "prune"]).good().starts_with("there are no leftovers"));
    let leave = |path: &str, bytes: &[u8]| {
        let path = cache(home.path()).join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    leave("models--a--bad/blobs/11.bad", b"12345");
    leave("models--a--held/blobs/22.part", b"123");
    std::fs::create_dir_all(cache(home.path()).join("models--a--empty/snapshots")).unwrap();
    leave(".locks/models--a--held/22.lock", b"");
    let lock = std::fs::File::open(cache(home.path()).join(".locks/models--a--held/22.lock")).unwrap();
    lock.try_lock().unwrap();
    let dry = run(&["models", "prune", "--dry-run"]).good();
    assert_eq!(
        dry,
        "would remove a/bad (damaged, 5 B)\nwould remove a/empty (empty, 0 B)\n\
         kept a/held (incomplete, 3 B): another process is downloading it\n5 B would be freed\n"
    );
    let report = json(run(&["models", "prune", "--json"]));
    assert_eq!((&report["bytes"], &report["dry_run"]), (&5.into(), &false.into()), "{report}");
    let removed: Vec<bool> =
        report["leftovers"].as_array().unwrap().iter().map(|row| row["removed"] == true).collect();
    assert_eq!(removed, [true, true, false], "{report}");
    assert_eq!(report["leftovers"][2]["in_use"], true);
    run(&["models", "remove", "a/held"]).fails_with(&["another process is downloading it"]);
    let left: Vec<_> =
        std::fs::read_dir(cache(home.path())).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    drop(lock);
    assert!(run(&["models", "prune"]).good().ends_with("3 B freed\n"));
    assert!(!cache(home.path()).join("models--a--held").exists());
}

/// F5, as it was found: a snapshot that is a link to a folder outside the cache.
#[test]
#[cfg(unix)]
fn removing_follows_no_link_out_of_the_cache() {
    use std::os::unix::fs::symlink;
    let (home, server) = (tempfile::tempdir().unwrap(), HubServer::start(&[]));
    let precious = home.path().join("prec");
    std::fs::create_dir_all(&precious).unwrap();
    std::fs::write(precious.join("m.gguf"), "precious\n").unwrap();
    let snapshots = cache(home.path()).join("models--a--b/snapshots");
    std::fs::create_dir_all(&snapshots).unwrap();
    symlink(&precious, snapshots.join("s")).unwrap();
    with(home.path(), &server.address, &["models", "remove", "hf:a/b@s/m.gguf"]).fails_with(&[
        "snapshots/s is a link to ",
        "which is outside the cache",
        "help: remove the link",
    ]);
    assert_eq!(std::fs::read(precious.join("m.gguf")).unwrap(), b"precious\n");
}

/// U17: where nothing can be reached, every name ends in what is always possible, in few words.
#[test]
fn without_a_network_a_path_is_advised_in_few_words() {
    let home = tempfile::tempdir().unwrap();
    let advice = "or pass the path of a GGUF file that you have\n";
    for name in ["smollm2", "gemma3-270m", "qwen3-0.6b", "org/repo", "org/repo:Q4_K_M", "hf:org/repo/m.gguf"]
    {
        // Nothing listens there, and there is no Python.
        let call = with(home.path(), "http://127.0.0.1:1", &["run", name, "hi"]);
        assert_eq!(call.code, Some(1), "{name}: {call:?}");
        assert!(call.err.ends_with(advice), "{name}: {}", call.err);
        let error = call.err.find("error: ").map_or("", |at| &call.err[at..]);
        assert!(error.len() < 260, "{name}: {} characters: {error}", error.len());
        assert!(call.err.lines().all(|line| line.len() < 200), "{name}: {}", call.err);
        let offline = super::menagerie(home.path(), &["run", name, "hi"]);
        assert!(offline.err.ends_with(advice), "{name}: {}", offline.err);
    }
}

/// U20: an address of the hub that HF_ENDPOINT names, as its pages show it.
#[test]
fn addresses_of_the_configured_hub_are_fetched() {
    let (home, server) = (tempfile::tempdir().unwrap(), HubServer::start(&[(MODEL, b"hello", HELLO)]));
    let address = format!("{}/org/repo/blob/main/{MODEL}", server.address);
    let path = with(home.path(), &server.address, &["pull", &address]).good();
    assert_eq!(std::fs::read(path.trim()).unwrap(), b"hello");
    with(home.path(), &server.address, &["models", "remove", &address]).good();
    with(home.path(), "http://127.0.0.1:1", &["pull", &address]).fails_with(&["only URLs of the hub"]);
}

/// U29: one spelling of a license in the table, SPDX's, and one for people.
#[test]
fn licenses_have_one_spelling() {
    let home = tempfile::tempdir().unwrap();
    let available =
        |arguments: &[&str]| super::menagerie(home.path(), &[&["models", "available"], arguments].concat());
    let table: serde_json::Value = json(available(&["--json"]));
    let mut licenses: Vec<&str> =
        table["models"].as_array().unwrap().iter().map(|model| model["license"].as_str().unwrap()).collect();
    licenses.sort_unstable();
    licenses.dedup();
    // Identifiers of SPDX's list; what it does not list has a name of the form that it gives for this.
    let listed = ["Apache-2.0", "MIT"];
    for license in &licenses {
        let own = license.strip_prefix("LicenseRef-");
        assert!(
            own.map_or(listed.contains(license), |own| !licenses.contains(&own)),
            "{license}: {licenses:?}"
        );
    }
    let text = available(&[]).good();
    assert!(!text.contains("LicenseRef-"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("gemma3-270m ") && line.ends_with(" Gemma")), "{text}");
}
