//! Repositories without GGUF files: the folder of safetensors, and what stands beside them.

use super::server::COMMIT;
use super::{HELLO, Place, WORLD, tree};
use menagerie_hub::{ModelReference, NoProgress, Verification};

const INDEX: &str = "model.safetensors.index.json";
const SHARDS: [&str; 2] = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
const MAP: &[u8] =
    br#"{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}"#;

/// A model in two shards, with what other programs want of it.
fn sharded() -> Place {
    with_index(MAP)
}

fn with_index(map: &[u8]) -> Place {
    Place::with(&[
        ("README.md", b"readme", "etag-readme"),
        ("config.json", b"{}", "etag-config"),
        (SHARDS[0], b"hello", HELLO),
        (SHARDS[1], b"world", WORLD),
        (INDEX, map, "etag-index"),
        ("onnx/model.onnx", b"onnx", "etag-onnx"),
        ("pytorch_model.bin", b"pickle", "etag-pickle"),
        ("tokenizer.json", b"{}", "etag-tokenizer"),
    ])
}

fn reference() -> ModelReference {
    ModelReference::parse("org/repo").unwrap()
}

#[test]
fn a_repository_without_gguf_is_its_folder_of_safetensors() {
    let place = sharded();
    assert_eq!(place.hub().locate(&reference()).unwrap(), None);
    let folder = place.pull("org/repo").unwrap();
    assert_eq!(folder, place.cache().join("snapshots").join(COMMIT));
    let names: Vec<String> = tree(&folder).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["config.json", SHARDS[0], SHARDS[1], INDEX, "tokenizer.json"]);
    assert_eq!(std::fs::read(folder.join(SHARDS[1])).unwrap(), b"world");
    // The weights come last: where they are, everything is.
    let fetched: Vec<String> = place.server.transfers().into_iter().map(|request| request.path).collect();
    assert!(fetched[3].ends_with(SHARDS[0]) && fetched[4].ends_with(SHARDS[1]), "{fetched:?}");
    let requests = place.server.requests().len();
    assert_eq!(place.offline().pull(&reference(), &mut NoProgress).unwrap(), folder);
    assert_eq!(place.hub().obtain(&reference(), &mut NoProgress).unwrap(), folder);
    assert_eq!(place.server.requests().len(), requests, "what is here is not asked for");
    assert_eq!(place.pull("org/repo").unwrap(), folder);
    assert_eq!(place.server.transfers().len(), fetched.len(), "what is here is not fetched again");
}

#[test]
fn a_folder_is_listed_verified_and_removed() {
    let place = sharded();
    place.pull("org/repo").unwrap();
    let models = place.hub().installed().unwrap();
    assert_eq!(models.len(), 1);
    assert_eq!((models[0].name.as_str(), models[0].files.len()), ("org/repo", 5));
    assert_eq!(models[0].path, place.cache().join("snapshots").join(COMMIT));
    assert!(models[0].missing.is_empty());
    let found = place.hub().find("org/repo").unwrap();
    assert!(
        matches!(place.hub().verify(&found, &mut NoProgress).unwrap(), Verification::Unknown(_)),
        "three have no checksum"
    );
    std::fs::write(place.blob(WORLD), b"wOrld").unwrap();
    assert!(matches!(place.hub().verify(&found, &mut NoProgress).unwrap(), Verification::Bad(_)));
    assert_eq!(place.hub().remove(&found).unwrap().files, 5);
    assert!(!place.cache().join("snapshots").join(COMMIT).exists());
    assert_eq!(place.hub().installed().unwrap(), []);
}

#[test]
fn a_folder_that_broke_off_is_gone_on_with_and_is_none_until_then() {
    let place = sharded();
    place.leave(&format!("{WORLD}.part"), b"wor");
    let folder = place.pull("org/repo").unwrap();
    let last = place.server.transfers().pop().unwrap();
    assert!(last.path.ends_with(SHARDS[1]) && last.range.as_deref() == Some("bytes=3-"), "{last:?}");
    std::fs::remove_file(folder.join(SHARDS[1])).unwrap();
    assert_eq!(place.hub().locate(&reference()).unwrap(), None);
    assert_eq!(place.hub().installed().unwrap()[0].missing, [SHARDS[1]]);
}

/// A repository whose GGUF file went and left safetensors: what its name once meant is in nobody's way.
#[test]
fn a_repository_that_changed_is_what_it_is_now() {
    let place = Place::hello();
    place.pull("org/repo").unwrap();
    let now = "c0ffee0000000000000000000000000000000002";
    place
        .server
        .publish(now, &[("config.json", b"{}", "etag-config"), ("model.safetensors", b"world", WORLD)]);
    let folder = place.pull("org/repo").unwrap();
    assert_eq!(folder, place.cache().join("snapshots").join(now));
    assert_eq!(place.offline().pull(&reference(), &mut NoProgress).unwrap(), folder);
}

#[test]
fn a_shard_of_other_bytes_is_never_part_of_a_folder() {
    let place = Place::with(&[("config.json", b"{}", "etag-config"), ("model.safetensors", b"hellO", HELLO)]);
    let error = place.pull("org/repo").unwrap_err().to_string();
    assert!(error.contains("sha256") && error.contains(HELLO), "{error}");
    assert_eq!(place.hub().locate(&reference()).unwrap(), None);
}

#[test]
fn an_index_that_names_what_is_not_there_is_refused() {
    for (map, wanted) in [
        (
            &br#"{"weight_map": {"a": "model-00003-of-00003.safetensors"}}"#[..],
            "model-00003-of-00003.safetensors, which ",
        ),
        (
            br#"{"weight_map": {"a": "../../../../etc/x.safetensors"}}"#,
            "is not a safetensors file of the repository",
        ),
        (b"{", INDEX),
    ] {
        let place = with_index(map);
        let error = place.pull("org/repo").unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
        assert_eq!(place.hub().locate(&reference()).unwrap(), None);
        assert!(place.hub().installed().unwrap().iter().all(|model| !model.missing.is_empty()));
    }
}

#[test]
fn what_no_folder_is_made_of_is_said() {
    let pickles = Place::with(&[("config.json", b"{}", "a"), ("pytorch_model.bin", b"pickle", "b")]);
    let error = pickles.pull("org/repo").unwrap_err().to_string();
    assert!(error.contains("Python pickles, which are not supported"), "{error}");
    let error = sharded().pull("org/repo:Q8_0").unwrap_err().to_string();
    assert!(error.contains("no GGUF files; its safetensors are `org/repo`"), "{error}");
    let both = Place::with(&[
        ("config.json", b"{}", "a"),
        ("m-Q8_0.gguf", b"hello", HELLO),
        ("model.safetensors", b"world", WORLD),
    ]);
    assert!(both.pull("org/repo").unwrap().ends_with("m-Q8_0.gguf"), "a GGUF comes first");
}
