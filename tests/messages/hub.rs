//! The hub.

use menagerie::hub::{Cause, HubError};
use std::io;

fn full() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "No space left on device")
}

#[test]
fn hub() {
    let model = || "org/repo:Q4_K_M".to_owned();
    let file = || "m-Q4_K_M.gguf".to_owned();
    let [expected, found] = ["aa11", "bb22"];
    let said = messages![
        HubError::Reference {
            text: "x/y/z".to_owned(),
            reason: "three parts".to_owned(),
            names: "smollm2".to_owned(),
        },
        HubError::NotInstalled { model: model(), advice: "`menagerie pull` downloads it".to_owned() },
        HubError::NotAName { path: "m.gguf".into(), advice: "run it as it is" },
        HubError::Ambiguous { name: "m".to_owned(), candidates: vec![model(), file()] },
        HubError::NoSuchFile {
            repository: "org/repo".to_owned(),
            wanted: "Q4_K_M".to_owned(),
            available: "Q8_0, F16".to_owned(),
        },
        HubError::Remote {
            what: file(),
            endpoint: "https://hub.example".to_owned(),
            cause: Cause::Stalled(10),
            kept: "; 3 MB are kept".to_owned(),
        },
        HubError::DiskSpace {
            folder: "cache".into(),
            model: model(),
            available: "1 MB".to_owned(),
            needed: "98 MB".to_owned(),
        },
        HubError::DiskFull { path: "cache/m".into(), kept: "3 MB".to_owned(), source: full() },
        HubError::Checksum {
            path: "cache/m".into(),
            kind: "sha256",
            expected: expected.to_owned(),
            found: found.to_owned(),
        },
        HubError::Damaged { file: file(), reason: "sha256 is bb22".to_owned(), aside: "cache/m.bad".into() },
        HubError::Replaced {
            file: file(),
            repository: "org/repo".to_owned(),
            expected: expected.to_owned(),
            found: found.to_owned(),
        },
        HubError::Command {
            command: "pip download".to_owned(),
            reason: "no such package".to_owned(),
            advice: "check the network".to_owned(),
        },
        HubError::Stopped,
        HubError::NoHome { variable: "HF_HOME" },
        HubError::Folder { path: "cache".into(), source: full() },
        HubError::Io { path: "cache/m".into(), source: full() },
        HubError::Catalog {
            place: "models.toml:3:9".to_owned(),
            problem: "model[0].name: expected a non-empty string".to_owned()
        },
    ];
    insta::assert_snapshot!(said);
}

/// What is not removed.
#[test]
fn hub_removal() {
    let said = messages![
        HubError::Outside { link: "cache/models--org--m/snapshots/c0ffee".into(), target: "/data/m".into() },
        HubError::InUse { name: "hf:org/repo/m-Q4_K_M.gguf".to_owned() },
    ];
    insta::assert_snapshot!(said);
}

/// With what a person can do about it.
#[test]
fn cause() {
    let why = || "as the system says it".to_owned();
    let causes = [
        Cause::HostNotFound,
        Cause::Refused,
        Cause::Unreachable(why()),
        Cause::Proxy(why()),
        Cause::Tls(why()),
        Cause::Stalled(10),
        Cause::Broken(why()),
        Cause::NotAHub(why()),
        Cause::Address(why()),
        Cause::Token,
        Cause::Gated,
        Cause::NoRepositoryOrPrivate,
        Cause::Forbidden(": as the hub says it".to_owned()),
        Cause::NoRepository,
        Cause::NoRevision,
        Cause::NoFile,
        Cause::TooMany { after: Some(30) },
        Cause::Server(503),
        Cause::Status(418),
        Cause::Changed("it had 7 bytes".to_owned()),
    ];
    let said = causes.map(|cause| {
        let name = format!("{cause:?}");
        let name = name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        format!("Cause::{name}\n{cause}; {}\n", cause.advice())
    });
    let said = said.join("\n");
    insta::assert_snapshot!(said);
}
