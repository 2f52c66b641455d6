//! Bytes on their way: resuming, waiting, checking, putting aside.

use super::server::{HubServer, Mishap};
use super::{HELLO, MODEL, Place, WORLD};
use menagerie_hub::{Cause, HubError, ModelReference};
use std::time::{Duration, Instant};

#[test]
fn what_is_pulled_is_found_again_offline() {
    let place = Place::hello();
    let reference = ModelReference::parse("org/repo").unwrap();
    assert_eq!(place.hub().locate(&reference).unwrap(), None);
    let path = place.pull("org/repo").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"hello");
    assert_eq!(place.hub().locate(&reference).unwrap(), Some(path.clone()));
    let requests = place.server.requests().len();
    let mut told = super::Told::default();
    assert_eq!(place.offline().pull(&reference, &mut told).unwrap(), path);
    assert_eq!(place.server.requests().len(), requests);
    assert!(told.notes[0].contains("HF_HUB_OFFLINE"), "{:?}", told.notes);
    let mut silent = menagerie_hub::NoProgress;
    assert_eq!(place.hub().obtain(&reference, &mut silent).unwrap(), path);
    assert_eq!(place.server.requests().len(), requests, "what is here is not asked for");
}

/// A connection that drops every two bytes is gone on with, from where it stopped, within one pull.
#[test]
fn a_connection_that_drops_is_gone_on_with() {
    let place = Place::hello();
    for _ in 0..2 {
        place.server.mishap(Mishap::Cut(2));
    }
    let path = place.pull("org/repo").unwrap();
    assert_eq!(std::fs::read(path).unwrap(), b"hello");
    let ranges: Vec<_> = place.server.transfers().into_iter().map(|request| request.range).collect();
    assert_eq!(ranges, [None, Some("bytes=2-".into()), Some("bytes=4-".into())]);
}

#[test]
fn the_next_pull_goes_on_where_the_last_one_stopped_and_says_so() {
    let place = Place::hello();
    place.leave(&format!("{HELLO}.part"), b"hel");
    let (pulled, told) = place.told("org/repo");
    assert_eq!(std::fs::read(pulled.unwrap()).unwrap(), b"hello");
    assert_eq!(place.server.transfers()[0].range.as_deref(), Some("bytes=3-"));
    // P10: the bar begins where the file does.
    assert_eq!(told.steps[0], (format!("downloading {MODEL} of org/repo"), Some(5), 3));
    assert!(!place.blob(&format!("{HELLO}.part")).exists());
}

#[test]
fn a_server_without_ranges_begins_anew() {
    let place = Place::hello();
    place.leave(&format!("{HELLO}.part"), b"XYZ");
    place.server.mishap(Mishap::NoRange);
    assert_eq!(std::fs::read(place.pull("org/repo").unwrap()).unwrap(), b"hello");
}

/// B2: the process died between the last byte and the renaming.
#[test]
fn a_complete_part_is_finished_without_a_request() {
    let place = Place::hello();
    place.leave(&format!("{HELLO}.part"), b"hello");
    assert_eq!(std::fs::read(place.pull("org/repo").unwrap()).unwrap(), b"hello");
    assert!(place.server.transfers().is_empty(), "{:?}", place.server.transfers());
}

/// B2 where the hub does not say how long the file is: 416 tells.
#[test]
fn status_416_is_understood() {
    let place = Place::hello();
    place.server.without_lengths();
    place.leave(&format!("{HELLO}.part"), b"hello");
    assert_eq!(std::fs::read(place.pull("org/repo").unwrap()).unwrap(), b"hello");
    assert_eq!(place.server.transfers().len(), 1);
    let place = Place::hello();
    place.server.without_lengths();
    place.leave(&format!("{HELLO}.part"), b"hello and more");
    assert_eq!(std::fs::read(place.pull("org/repo").unwrap()).unwrap(), b"hello");
}

/// B2's leftovers: twice the file, and a part whose bytes are wrong.
#[test]
fn a_part_that_cannot_be_right_is_begun_anew() {
    for left in [&b"hellohello"[..], b"help!", b"XX"] {
        let place = Place::hello();
        place.leave(&format!("{HELLO}.part"), left);
        let (pulled, told) = place.told("org/repo");
        assert_eq!(std::fs::read(pulled.unwrap()).unwrap(), b"hello");
        assert!(told.notes[0].contains("starting again"), "{:?}", told.notes);
        assert!(!place.blob(&format!("{HELLO}.bad")).exists());
    }
}

/// B1: other bytes than promised never get the name, today or tomorrow.
#[test]
fn a_wrong_checksum_is_put_aside_and_never_accepted() {
    let place = Place::with(&[(MODEL, b"hellO", HELLO)]);
    for attempt in 1..=2 {
        let error = place.pull("org/repo").unwrap_err();
        assert!(matches!(error, HubError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains(&format!("expected {HELLO}")), "{error}");
        assert!(!place.blob(HELLO).exists());
        assert_eq!(std::fs::read(place.blob(&format!("{HELLO}.bad"))).unwrap(), b"hellO");
        assert!(place.hub().installed().unwrap().is_empty());
        assert_eq!(place.server.transfers().len(), attempt);
        let reference = ModelReference::parse("org/repo").unwrap();
        assert_eq!(place.hub().locate(&reference).unwrap(), None);
    }
    place.server.publish(super::server::COMMIT, &[(MODEL, b"hello", HELLO)]);
    place.pull("org/repo").unwrap();
    assert!(!place.blob(&format!("{HELLO}.bad")).exists());
}

/// B1: a file that was damaged in the cache, shorter or as long, is fetched again by `pull`.
#[test]
fn a_damaged_copy_is_fetched_again() {
    for damage in [&b"hel"[..], b"hellO"] {
        let place = Place::hello();
        let path = place.pull("org/repo").unwrap();
        std::fs::write(place.blob(HELLO), damage).unwrap();
        let (pulled, told) = place.told("org/repo");
        assert_eq!(pulled.unwrap(), path);
        assert_eq!(std::fs::read(&path).unwrap(), b"hello");
        assert!(told.notes[0].contains("damaged"), "{:?}", told.notes);
    }
}

/// An ETag that is git's SHA-1 is compared; one that is no checksum is said to be none.
#[test]
fn what_is_no_sha256_is_compared_or_said_not_to_be() {
    let git = "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"; // printf hello | git hash-object --stdin
    let place = Place::with(&[(MODEL, b"hello", git)]);
    let (pulled, told) = place.told("org/repo");
    assert!(pulled.is_ok() && told.notes.is_empty(), "{:?}", told.notes);
    let place = Place::with(&[(MODEL, b"hellO", git)]);
    let error = place.pull("org/repo").unwrap_err();
    assert!(error.to_string().contains("git sha1"), "{error}");

    let place = Place::with(&[(MODEL, b"hello", "686897696a7c876b7e")]);
    let (pulled, told) = place.told("org/repo");
    pulled.unwrap();
    assert!(told.notes[0].contains("the hub has no checksum"), "{:?}", told.notes);
}

/// A34: silence ends, keeps what came, and the next pull goes on.
#[test]
fn a_stalled_connection_ends() {
    let place = Place::hello();
    for after in [3, 0, 0, 0] {
        place.server.mishap(Mishap::Stall(after));
    }
    let start = Instant::now();
    let error = place.pull("org/repo").unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert!(matches!(&error, HubError::Remote { cause: Cause::Stalled(_), .. }), "{error}");
    assert!(error.to_string().contains("3 B are kept"), "{error}");
    assert_eq!(std::fs::read(place.blob(&format!("{HELLO}.part"))).unwrap(), b"hel");
    assert_eq!(std::fs::read(place.pull("org/repo").unwrap()).unwrap(), b"hello");
    assert_eq!(place.server.transfers().last().unwrap().range.as_deref(), Some("bytes=3-"));
}

/// A33: one fetches, the other says that it waits, and both have the file.
#[test]
fn pulls_of_one_file_wait_for_each_other() {
    let place = Place::hello();
    let mut settings = place.settings.clone();
    settings.timeouts.silence = Duration::from_secs(5);
    let place = Place { settings, ..place };
    place.server.mishap(Mishap::Slow(Duration::from_millis(500)));
    let told: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(|| place.told("org/repo"))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (pulled, _) in &told {
        assert_eq!(std::fs::read(pulled.as_ref().unwrap()).unwrap(), b"hello");
    }
    let notes: Vec<_> = told.iter().flat_map(|(_, told)| &told.notes).collect();
    assert!(notes.len() == 1 && notes[0].contains("waiting"), "{notes:?}");
    assert_eq!(place.server.transfers().len(), 1);
}

/// Bytes come from elsewhere, as on the real hub; the token does not go there.
#[test]
fn redirects_are_followed_without_the_token() {
    let mut place = Place::hello();
    let content = HubServer::start(&[(MODEL, b"hello", "the-content-server's-own")]);
    place.server.bytes_from(&content);
    place.settings.token = Some("secret".into());
    place.leave(&format!("{HELLO}.part"), b"he");
    assert_eq!(std::fs::read(place.pull("org/repo").unwrap()).unwrap(), b"hello");
    assert!(place.server.requests().iter().all(|request| request.authorized));
    let there = content.requests();
    assert_eq!(there.len(), 1, "{there:?}");
    assert!(!there[0].authorized && there[0].range.as_deref() == Some("bytes=2-"), "{there:?}");
}

/// A repository that was renamed is found, its private files too.
#[test]
fn a_renamed_repository_is_followed_with_the_token() {
    let mut place = Place::hello();
    place.settings.token = Some("secret".into());
    place.server.answer(
        "HTTP/1.1 307 Moved\r\nlocation: /api/models/org/repo/revision/main\r\ncontent-length: 0\r\n\r\n",
    );
    place.pull("org/repo").unwrap();
    assert!(place.server.requests().iter().all(|request| request.authorized));
}

/// A36: `pull` looks for a newer file of the same name; a pinned commit stays.
#[test]
fn pull_fetches_a_newer_revision() {
    let place = Place::hello();
    let old = place.pull("org/repo").unwrap();
    place.server.publish("c0ffee0000000000000000000000000000000002", &[(MODEL, b"world", WORLD)]);
    let new = place.pull("org/repo").unwrap();
    assert_eq!(std::fs::read(&new).unwrap(), b"world");
    assert_eq!(std::fs::read(&old).unwrap(), b"hello");
    let reference = ModelReference::parse("org/repo").unwrap();
    assert_eq!(place.offline().locate(&reference).unwrap(), Some(new));
    let pinned = ModelReference::parse(&format!("org/repo@{}", super::server::COMMIT)).unwrap();
    assert_eq!(place.offline().locate(&pinned).unwrap(), Some(old));
}

/// A disk that is full says so, by name, and what came stays for later.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_named() {
    let place = Place::hello();
    place.leave("x", b"");
    std::os::unix::fs::symlink("/dev/full", place.blob(&format!("{HELLO}.part"))).unwrap();
    let error = place.pull("org/repo").unwrap_err();
    assert!(matches!(error, HubError::DiskFull { .. }), "{error}");
    assert!(error.to_string().contains("the disk is full"), "{error}");
    assert_eq!(place.server.transfers().len(), 1, "a full disk is not asked for again");
}

/// P11: room is wanted for what is missing, no more.
#[test]
fn no_room_is_said_before_anything_is_fetched() {
    let place = Place::hello();
    let size = 1u64 << 60;
    place.server.answer(super::server::json(&format!(
        "{{\"siblings\":[{{\"rfilename\":\"{MODEL}\"}}],\"sha\":\"{}\"}}",
        super::server::COMMIT
    )));
    place.server.answer(format!(
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/x\r\nx-linked-etag: \"{HELLO}\"\r\nx-linked-size: {size}\r\ncontent-length: 0\r\n\r\n"
    ));
    let error = place.pull("org/repo").unwrap_err();
    assert!(matches!(error, HubError::DiskSpace { .. }), "{error}");
    assert!(error.to_string().contains("1152921.5 TB more"), "{error}");
    assert!(place.server.transfers().is_empty());
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let mut place = Place::hello();
    let file = place.folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    place.settings.hub_cache = Some(file.join("hub"));
    let error = place.pull("org/repo").unwrap_err();
    assert!(error.to_string().contains("HF_HOME") && error.to_string().contains("file/hub"), "{error}");
    // A39: no home, no guess.
    place.settings.hub_cache = None;
    assert!(matches!(place.pull("org/repo").unwrap_err(), HubError::NoHome { .. }));
}
