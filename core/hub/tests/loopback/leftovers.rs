//! U9: what interrupted and damaged downloads leave is listed, and removed unless somebody is fetching it.

use super::server::Mishap;
use super::{HELLO, MODEL, Place, WORLD, tree};
use menagerie_hub::{DownloadState, HubError};
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// Name, state and bytes of all leftovers.
fn listed(place: &Place) -> Vec<(String, &'static str, u64)> {
    let all = place.hub().leftovers().unwrap();
    all.into_iter().map(|leftover| (leftover.name, leftover.state.name(), leftover.bytes)).collect()
}

fn row(state: DownloadState, bytes: u64) -> Vec<(String, &'static str, u64)> {
    vec![("org/repo".to_owned(), state.name(), bytes)]
}

/// Removes all leftovers; whether each was removed.
fn prune(place: &Place) -> Vec<bool> {
    let hub = place.hub();
    hub.leftovers().unwrap().iter().map(|leftover| hub.remove_leftover(leftover).unwrap()).collect()
}

#[test]
fn a_damaged_download_is_listed_and_removed_with_its_repository() {
    let place = Place::with(&[(MODEL, b"hellO", HELLO)]);
    assert!(matches!(place.pull("org/repo"), Err(HubError::Damaged { .. })));
    assert_eq!(listed(&place), row(DownloadState::Damaged, 5));
    assert!(place.hub().installed().unwrap().is_empty());
    assert_eq!(place.hub().leftovers_of("org/repo").unwrap().len(), 1);
    assert_eq!(place.hub().leftovers_of("org/other").unwrap(), []);
    assert_eq!(prune(&place), [true]);
    assert!(!place.cache().exists());
    assert_eq!(listed(&place), []);
}

#[test]
fn an_interrupted_download_is_incomplete_until_it_goes_on() {
    let place = Place::hello();
    for after in [3, 0, 0, 0] {
        place.server.mishap(Mishap::Stall(after));
    }
    let pulled = place.pull("org/repo");
    assert!(matches!(pulled, Err(HubError::Remote { .. })), "{pulled:?}");
    assert_eq!(listed(&place), row(DownloadState::Incomplete, 3));
    place.pull("org/repo").unwrap();
    assert_eq!(listed(&place), []);
}

/// Also what HF's own tools leave, under both of their names; nothing else of the cache is taken.
#[test]
fn only_leftovers_are_removed() {
    let place = Place::hello();
    place.pull("org/repo").unwrap();
    let before = tree(&place.cache());
    for (name, state) in [
        (format!("{WORLD}.part"), DownloadState::Incomplete),
        (format!("{WORLD}.bad"), DownloadState::Damaged),
        (format!("{WORLD}.incomplete"), DownloadState::Incomplete),
        (format!("{WORLD}.1a2b.incomplete"), DownloadState::Incomplete),
    ] {
        place.leave(&name, b"123");
        assert_eq!(listed(&place), row(state, 3), "{name}");
        assert_eq!(prune(&place), [true], "{name}");
        assert_eq!(tree(&place.cache()), before, "{name}");
    }
}

#[test]
fn a_repository_without_files_is_empty() {
    let place = Place::hello();
    std::fs::create_dir_all(place.cache().join("snapshots/s/sub")).unwrap();
    std::fs::create_dir_all(place.cache().join("refs/refs/pr")).unwrap();
    std::fs::create_dir_all(place.cache().join(".no_exist/s")).unwrap();
    std::fs::write(place.cache().join("refs/refs/pr/1"), "s").unwrap();
    std::fs::write(place.cache().join(".no_exist/s/adapter_config.json"), "").unwrap();
    let file = place.cache().join("snapshots/s/sub/README.md");
    std::fs::write(&file, "").unwrap();
    assert_eq!(listed(&place), [], "a file of a model is in it");
    std::fs::remove_file(file).unwrap();
    assert_eq!(listed(&place)[0].1, "empty");
    assert_eq!(prune(&place), [true]);
    assert!(!place.cache().exists());
}

/// A lock of another process (here: of another open file, which is the same to `flock`).
fn locked(place: &Place, etag: &str) -> std::fs::File {
    let folder: PathBuf = place.folder.path().join("hub/.locks/models--org--repo");
    std::fs::create_dir_all(&folder).unwrap();
    let lock = std::fs::File::create(folder.join(format!("{etag}.lock"))).unwrap();
    lock.try_lock().unwrap();
    lock
}

#[test]
fn what_another_process_fetches_is_not_touched() {
    let place = Place::hello();
    place.leave(&format!("{WORLD}.part"), b"123");
    place.leave(&format!("{HELLO}.part"), b"12");
    let lock = locked(&place, WORLD);
    let hub = place.hub();
    let fetched: Vec<bool> =
        hub.leftovers().unwrap().iter().map(|leftover| hub.is_downloading(leftover).unwrap()).collect();
    // By path: `2cf2...`, which is HELLO's, first.
    assert_eq!(fetched, [false, true]);
    assert_eq!(prune(&place), [true, false]);
    assert_eq!(std::fs::read(place.blob(&format!("{WORLD}.part"))).unwrap(), b"123");
    std::fs::remove_file(place.blob(&format!("{WORLD}.part"))).unwrap();
    assert_eq!(listed(&place)[0].1, "empty");
    assert_eq!(prune(&place), [false], "the other process is about to write there");
    drop(lock);
    assert_eq!(prune(&place), [true]);
    assert!(!place.cache().exists());
}

/// Removing a model leaves alone what another process fetches under the same name.
#[test]
fn removing_a_model_leaves_a_running_download_alone() {
    let place = Place::hello();
    place.pull("org/repo").unwrap();
    place.leave(&format!("{HELLO}.part"), b"12");
    let _lock = locked(&place, HELLO);
    place.hub().remove(&place.hub().find("org/repo").unwrap()).unwrap();
    assert_eq!(std::fs::read(place.blob(&format!("{HELLO}.part"))).unwrap(), b"12");
    assert!(!place.blob(HELLO).exists());
}

#[test]
fn packages_leave_damaged_files_and_half_a_pull() {
    let place = Place::hello();
    let folder = place.folder.path().join("own/models/smollm2");
    std::fs::create_dir_all(folder.join(".pull/0")).unwrap();
    std::fs::write(folder.join(".pull/0/a.whl"), "1234").unwrap();
    std::fs::write(folder.join("SmolLM2-135M-Instruct.Q4_1.gguf.bad"), "12").unwrap();
    let name = || "smollm2".to_owned();
    assert_eq!(listed(&place), [(name(), "incomplete", 4), (name(), "damaged", 2)]);
    assert_eq!(place.hub().leftovers_of("SmolLM2").unwrap().len(), 2);
    assert_eq!(prune(&place), [true, true]);
    assert_eq!(listed(&place), []);
    // A model's folder goes with its last file.
    std::fs::write(folder.join("SmolLM2-135M-Instruct.Q4_1.gguf"), "12").unwrap();
    place.hub().remove(&place.hub().find("smollm2").unwrap()).unwrap();
    assert!(!folder.exists());
}

/// F5: a leftover that is a link is removed itself, not what it leads to.
#[test]
fn a_linked_leftover_takes_nothing_along() {
    let place = Place::hello();
    let precious = place.folder.path().join("precious");
    std::fs::write(&precious, "precious").unwrap();
    std::fs::create_dir_all(place.cache().join("blobs")).unwrap();
    symlink(&precious, place.blob("x.bad")).unwrap();
    assert_eq!(listed(&place), row(DownloadState::Damaged, 0));
    assert_eq!(prune(&place), [true]);
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
}
