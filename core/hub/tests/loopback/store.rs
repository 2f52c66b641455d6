//! The cache: its layout, what is listed, verified and removed.

use super::server::COMMIT;
use super::{HELLO, MODEL, Place, WORLD, tree};
use menagerie_hub::{HubError, NoProgress, Removal, Verification};
use std::os::unix::fs::symlink;

const SECOND: &str = "c0ffee0000000000000000000000000000000002";
const PARTS: [&str; 2] = ["Q8_0/m-Q8_0-00001-of-00002.gguf", "Q8_0/m-Q8_0-00002-of-00002.gguf"];

fn split() -> Place {
    Place::with(&[(PARTS[0], b"hello", HELLO), (PARTS[1], b"world", WORLD)])
}

/// The tree that `huggingface_hub` 2.4.0 made of the same two files of the same server (`hf_hub_download`), but for the
/// `.lock` files, which both make.
#[test]
fn the_layout_is_that_of_hugging_face() {
    let place = Place::with(&[(MODEL, b"hello", HELLO), ("sub/m-F16.gguf", b"world", WORLD)]);
    place.pull("org/repo").unwrap();
    place.pull("hf:org/repo/sub/m-F16.gguf").unwrap();
    let file = |name: String| (name, None);
    let link = |name: String, target: String| (name, Some(target));
    assert_eq!(
        tree(&place.cache()),
        [
            file(format!("blobs/{HELLO}")),
            file(format!("blobs/{WORLD}")),
            file("refs/main".into()),
            link(format!("snapshots/{COMMIT}/{MODEL}"), format!("../../blobs/{HELLO}")),
            link(format!("snapshots/{COMMIT}/sub/m-F16.gguf"), format!("../../../blobs/{WORLD}")),
        ]
    );
    assert_eq!(std::fs::read_to_string(place.cache().join("refs/main")).unwrap(), COMMIT);
    let lock = place.folder.path().join(format!("hub/.locks/models--org--repo/{HELLO}.lock"));
    assert!(lock.exists());
}

#[test]
fn damage_is_found_and_a_blob_may_be_a_link_itself() {
    let place = Place::hello();
    let path = place.pull("org/repo").unwrap();
    let verdict = || place.hub().verify(&place.hub().find("org/repo").unwrap(), &mut NoProgress).unwrap();
    assert_eq!(verdict(), Verification::Good);
    // HF's tools may keep the bytes in a store that repositories share, under a name that is another hash.
    let shared = place.folder.path().join("hub").join("ab".repeat(32));
    std::fs::rename(place.blob(HELLO), &shared).unwrap();
    symlink(&shared, place.blob(HELLO)).unwrap();
    assert_eq!(verdict(), Verification::Good);
    std::fs::write(&path, b"hellO").unwrap();
    assert!(matches!(verdict(), Verification::Bad(reason) if reason.contains(HELLO)));
    // Removing takes the link, not the store's file.
    place.hub().remove(&place.hub().find("org/repo").unwrap()).unwrap();
    assert!(shared.exists() && place.blob(HELLO).symlink_metadata().is_err());
}

#[test]
fn what_nobody_promised_is_not_called_good() {
    let place = Place::with(&[(MODEL, b"hello", "no-checksum")]);
    place.pull("org/repo").unwrap();
    let verdict = place.hub().verify(&place.hub().find("org/repo").unwrap(), &mut NoProgress).unwrap();
    assert!(matches!(verdict, Verification::Unknown(reason) if reason.contains("no-checksum")));
}

#[test]
fn removing_takes_blob_snapshot_and_reference() {
    let place = Place::hello();
    place.pull("org/repo").unwrap();
    place.leave(&format!("{HELLO}.bad"), b"x");
    let removed = place.hub().remove(&place.hub().find("org/repo").unwrap()).unwrap();
    assert_eq!(removed, Removal { files: 1, bytes: 5 });
    assert!(!place.cache().exists(), "an empty folder is left");
    assert!(place.hub().installed().unwrap().is_empty());
}

/// A link that leads out of the cache takes nothing along.
#[test]
fn removing_deletes_nothing_outside_the_cache() {
    let place = Place::hello();
    let precious = place.folder.path().join("precious.gguf");
    std::fs::write(&precious, "precious").unwrap();
    let snapshot = place.cache().join("snapshots/s");
    std::fs::create_dir_all(&snapshot).unwrap();
    std::fs::create_dir_all(place.cache().join("blobs")).unwrap();
    // Straight out, and by way of something that looks like a blob.
    symlink(&precious, snapshot.join("a.gguf")).unwrap();
    symlink("../../blobs/../../../precious.gguf", snapshot.join("b.gguf")).unwrap();
    for name in ["a.gguf", "b.gguf"] {
        let removed = place.hub().remove(&place.hub().find(name).unwrap()).unwrap();
        assert_eq!(removed, Removal { files: 1, bytes: 0 });
        assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
    }
    assert!(place.hub().installed().unwrap().is_empty());
}

/// F5: a folder of the cache that is a link leads anywhere: what lies there is nobody's to remove.
#[test]
fn removing_goes_through_no_linked_folder() {
    for linked in ["snapshots/s", "snapshots", "blobs", "refs", ""] {
        let place = Place::hello();
        // A repository elsewhere, as it could be a person's own folder.
        let elsewhere = place.folder.path().join("precious");
        for folder in ["snapshots/s", "blobs", "refs"] {
            std::fs::create_dir_all(elsewhere.join(folder)).unwrap();
            std::fs::create_dir_all(place.cache().join(folder)).unwrap();
        }
        for repository in [&elsewhere, &place.cache()] {
            std::fs::write(repository.join("blobs").join(HELLO), "hello").unwrap();
            std::fs::write(repository.join("blobs/x.bad"), "bad").unwrap();
            std::fs::write(repository.join("refs/main"), "s").unwrap();
            symlink(format!("../../blobs/{HELLO}"), repository.join("snapshots/s/m.gguf")).unwrap();
        }
        let before = tree(&elsewhere);
        let link = if linked.is_empty() { place.cache() } else { place.cache().join(linked) };
        std::fs::remove_dir_all(&link).unwrap();
        symlink(elsewhere.join(linked), &link).unwrap();
        let model = place.hub().find("m.gguf").unwrap();
        let error = place.hub().remove(&model).unwrap_err();
        assert!(
            matches!(&error, HubError::Outside { link: named, .. } if *named == link),
            "{linked}: {error}"
        );
        for leftover in place.hub().leftovers().unwrap() {
            place.hub().remove_leftover(&leftover).unwrap();
        }
        assert_eq!(tree(&elsewhere), before, "{linked}");
    }
}

/// The same of a pull: a file behind a link is not replaced.
#[test]
fn pulling_replaces_nothing_behind_a_link() {
    let place = Place::hello();
    let precious = place.folder.path().join("precious");
    std::fs::create_dir_all(&precious).unwrap();
    std::fs::write(precious.join(MODEL), "precious").unwrap();
    std::fs::create_dir_all(place.cache().join("snapshots")).unwrap();
    symlink(&precious, place.cache().join("snapshots").join(COMMIT)).unwrap();
    assert!(matches!(place.pull("org/repo"), Err(HubError::Outside { .. })));
    assert_eq!(std::fs::read(precious.join(MODEL)).unwrap(), b"precious");
}

/// The same of our own store: a model's folder that is a link.
#[test]
fn removing_a_package_goes_through_no_linked_folder() {
    let place = Place::hello();
    let elsewhere = place.folder.path().join("precious");
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::fs::create_dir_all(place.folder.path().join("own/models")).unwrap();
    let name = "SmolLM2-135M-Instruct.Q4_1.gguf";
    std::fs::write(elsewhere.join(name), "mine").unwrap();
    std::fs::write(elsewhere.join("mine.bad"), "mine").unwrap();
    symlink(&elsewhere, place.folder.path().join("own/models/smollm2")).unwrap();
    let model = place.hub().find("smollm2").unwrap();
    assert!(matches!(place.hub().remove(&model), Err(HubError::Outside { .. })));
    assert_eq!(place.hub().leftovers().unwrap(), []);
    assert_eq!(tree(&elsewhere).len(), 2);
}

/// Two snapshots share a blob; removing from one leaves the other whole.
#[test]
fn removing_keeps_a_blob_that_another_snapshot_uses() {
    let place = Place::hello();
    place.pull("org/repo").unwrap();
    place.server.publish(SECOND, &[(MODEL, b"hello", HELLO)]);
    let new = place.pull("org/repo").unwrap();
    let old = format!("hf:org/repo@{COMMIT}/{MODEL}");
    let removed = place.hub().remove(&place.hub().find(&old).unwrap()).unwrap();
    assert_eq!(removed, Removal { files: 1, bytes: 0 });
    assert_eq!(std::fs::read(&new).unwrap(), b"hello");
    assert_eq!(place.hub().installed().unwrap().len(), 1);
}

/// A37: a split model is one model, listed, located, verified and removed whole.
#[test]
fn a_split_model_is_one_model() {
    let place = split();
    let path = place.pull("org/repo").unwrap();
    assert!(path.ends_with(PARTS[0]));
    let models = place.hub().installed().unwrap();
    assert_eq!(models.len(), 1);
    assert_eq!((models[0].bytes, models[0].files.len(), models[0].path.clone()), (10, 2, path));
    assert_eq!(models[0].name, format!("hf:org/repo/{}", PARTS[0]));
    assert_eq!(place.hub().find("m-Q8_0-00002-of-00002.gguf").unwrap(), models[0]);
    assert_eq!(place.hub().verify(&models[0], &mut NoProgress).unwrap(), Verification::Good);
    std::fs::remove_file(place.cache().join("snapshots").join(COMMIT).join(PARTS[0])).unwrap();
    let broken = place.hub().find("m-Q8_0-00002-of-00002.gguf").unwrap();
    assert_eq!(broken.missing, [PARTS[0]]);
    let verdict = place.hub().verify(&broken, &mut NoProgress).unwrap();
    assert!(matches!(verdict, Verification::Bad(reason) if reason.contains("missing")));
    place.pull("org/repo").unwrap();
    let removed = place.hub().remove(&models[0]).unwrap();
    assert_eq!(removed, Removal { files: 2, bytes: 10 });
    assert!(!place.cache().exists(), "an empty folder is left");
}

#[test]
fn a_part_that_the_repository_lacks_is_named() {
    let place = Place::with(&[(PARTS[0], b"hello", HELLO)]);
    let error = place.pull("org/repo").unwrap_err().to_string();
    assert!(error.contains("00002-of-00002"), "{error}");
}

/// A40: a cache that cannot be read is not an empty one.
#[test]
fn a_cache_that_cannot_be_read_is_an_error() {
    let mut place = Place::hello();
    let file = place.folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    place.settings.hub_cache = Some(file);
    assert!(place.hub().installed().is_err());
}
