//! Certificates are made once, kept, and renewed on request; an authority is never replaced.

use super::*;

fn request(name: &str) -> KeyRequest {
    KeyRequest { name: name.to_owned(), role: NodeRole::Stage, hosts: vec!["10.0.0.1".to_owned()], days: 365 }
}

/// The bytes of every file of a folder, by path.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(contents(&path)),
            false => all.push((path.clone(), std::fs::read(&path).unwrap())),
        }
    }
    all.sort();
    all
}

#[test]
fn certificates_are_made_once_and_kept() {
    let around = tempfile::tempdir().unwrap();
    let path = around.path().join("keys");
    let keys = KeyFolder::open_or_create(&path).unwrap();
    assert!(keys.is_new() && keys.authority().authority);
    assert_eq!(keys.issue(&request("stage-1"), false).unwrap(), Issue::Created);
    drop(keys);
    let before = contents(&path);
    let keys = KeyFolder::open_or_create(&path).unwrap();
    assert!(!keys.is_new());
    assert_eq!(keys.issue(&request("stage-1"), false).unwrap(), Issue::Kept);
    drop(keys);
    assert!(contents(&path) == before, "files changed");
    let keys = KeyFolder::open_or_create(&path).unwrap();
    let listed = keys.certificates().unwrap();
    let certificate = listed[0].certificate.clone().unwrap();
    assert_eq!(
        (listed.len(), listed[0].name.as_str(), &listed[0].state),
        (1, "stage-1", &CertificateState::Valid)
    );
    assert_eq!((certificate.role(), certificate.node.as_str()), (Some(NodeRole::Stage), "stage-1"));
    assert_eq!(certificate.hosts, ["10.0.0.1"]);
    // One day is the clock's: the test may run at midnight.
    assert!((364 * DAY_SECONDS..=365 * DAY_SECONDS).contains(&(certificate.expires - now())));
    assert_eq!(keys.issue(&request("stage-1"), true).unwrap(), Issue::Renewed);
    assert!(contents(&path) != before);
}

#[cfg(unix)]
#[test]
fn keys_are_readable_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let around = tempfile::tempdir().unwrap();
    let keys = KeyFolder::open_or_create(around.path().join("a/keys")).unwrap();
    keys.issue(&request("n"), false).unwrap();
    let mode = |path: &str| {
        std::fs::metadata(around.path().join("a/keys").join(path)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode(""), mode("ca.key"), mode("n/tls.key")), (0o700, 0o600, 0o600));
}

#[test]
fn an_authority_is_never_replaced() {
    let around = tempfile::tempdir().unwrap();
    let path = around.path().join("keys");
    let keys = KeyFolder::open_or_create(&path).unwrap();
    keys.issue(&request("a"), false).unwrap();
    drop(keys);
    let key = std::fs::read(path.join("ca.key")).unwrap();
    // Its certificate is made again from the key, and old certificates stay valid.
    std::fs::remove_file(path.join("ca.crt")).unwrap();
    let keys = KeyFolder::open_or_create(&path).unwrap();
    assert_eq!(keys.issue(&request("a"), false).unwrap(), Issue::Kept);
    assert!(std::fs::read(path.join("ca.key")).unwrap() == key);
    // Without its key nothing is signed, and no new key is made.
    drop(keys);
    std::fs::rename(path.join("ca.key"), around.path().join("ca.key")).unwrap();
    let keys = KeyFolder::open_or_create(&path).unwrap();
    assert!(matches!(keys.issue(&request("b"), false), Err(CertificateError::NoKey { .. })));
    assert_eq!(keys.certificates().unwrap()[0].state, CertificateState::Valid);
    assert!(!path.join("ca.key").exists() && !path.join("b").exists());
    // Nor with the key of another.
    let other = rcgen::KeyPair::generate().unwrap().serialize_pem();
    std::fs::write(path.join("ca.key"), other).unwrap();
    let said = keys.issue(&request("b"), false).unwrap_err().to_string();
    assert!(said.contains("not the key of"), "{said}");
}

#[test]
fn differences_and_damage_are_named() {
    let around = tempfile::tempdir().unwrap();
    let path = around.path().join("keys");
    let keys = KeyFolder::open_or_create(&path).unwrap();
    keys.issue(&request("a"), false).unwrap();
    let said = |request: &KeyRequest| keys.issue(request, false).unwrap_err().to_string();
    let head = said(&KeyRequest { role: NodeRole::Head, ..request("a") });
    assert!(head.contains("another role: stage, expected head") && head.contains("--renew"), "{head}");
    let hosts = said(&KeyRequest { hosts: vec!["::1".to_owned()], ..request("a") });
    assert!(hosts.contains("10.0.0.1, expected ::1"), "{hosts}");
    let mixed = said(&KeyRequest { hosts: Vec::new(), ..request("b") });
    assert!(mixed.contains("certificate of a has hosts"), "{mixed}");
    assert!(said(&KeyRequest { days: 0, ..request("b") }).contains("0 days"));
    assert!(said(&KeyRequest { days: 4000, ..request("b") }).contains("1 to 3650"));
    assert!(said(&request("../b")).contains("not a name of a node"));
    assert!(said(&KeyRequest { hosts: vec!["*.b".to_owned()], ..request("b") }).contains("not a host"));
    std::fs::remove_file(path.join("a/tls.key")).unwrap();
    assert!(said(&request("a")).contains("tls.key is missing"));
    std::fs::write(path.join("a/tls.crt"), "x").unwrap();
    assert!(said(&request("a")).contains("damaged"));
    // Of another authority.
    let other = KeyFolder::open_or_create(around.path().join("other")).unwrap();
    other.issue(&request("f"), false).unwrap();
    std::fs::rename(around.path().join("other/f"), path.join("f")).unwrap();
    assert!(said(&request("f")).contains("of another authority"));
}

#[test]
fn what_is_no_authority_of_this_program_is_left_alone() {
    let around = tempfile::tempdir().unwrap();
    let path = around.path();
    std::fs::write(path.join("ca.crt"), "x").unwrap();
    assert!(KeyFolder::open_or_create(path).unwrap_err().to_string().contains("ca.crt"));
    let plain = rcgen::generate_simple_self_signed(vec!["a.example".to_owned()]).unwrap().cert.pem();
    std::fs::write(path.join("ca.crt"), plain).unwrap();
    assert!(KeyFolder::open_or_create(path).unwrap_err().to_string().contains("not an authority"));
    assert!(!path.join("ca.key").exists());
}
