//! A hub on loopback: what is asked for is fetched, checked, cached as HF's tools cache it, found again offline; what
//! breaks off goes on; what is wrong is put aside; what is removed takes nothing else along.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, unreachable_pub)]

mod causes;
mod folders;
#[cfg(unix)]
mod leftovers;
mod names;
mod server;
#[cfg(unix)]
mod store;
mod transfers;

use menagerie_hub::{Hub, HubError, HubSettings, ModelReference, Progress, Timeouts};
use server::HubServer;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// SHA-256 of `hello`, from `printf hello | sha256sum`.
const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
/// SHA-256 of `world`.
const WORLD: &str = "486ea46224d1bb4fb680f34f7c9ad96a8f24ec88be73ea8e5a6c65260e9cb8a7";
const MODEL: &str = "m-Q4_K_M.gguf";

/// A folder, a hub on loopback, and a client that keeps its files in the folder.
struct Place {
    folder: tempfile::TempDir,
    server: HubServer,
    settings: HubSettings,
}

impl Place {
    fn with(files: &[(&str, &[u8], &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = HubServer::start(files);
        let settings = HubSettings {
            endpoint: server.address.clone(),
            hub_cache: Some(folder.path().join("hub")),
            own_cache: Some(folder.path().join("own")),
            token: None,
            offline: false,
            certificates: None,
            timeouts: Timeouts {
                connect: Duration::from_secs(2),
                silence: Duration::from_millis(300),
                retries: 2,
                pause: Duration::from_millis(5),
            },
        };
        Self { folder, server, settings }
    }

    /// One model whose bytes are `hello`.
    fn hello() -> Self {
        Self::with(&[("README.md", b"readme", "etag-readme"), (MODEL, b"hello", HELLO)])
    }

    fn hub(&self) -> Hub {
        Hub::new(self.settings.clone())
    }

    fn offline(&self) -> Hub {
        Hub::new(HubSettings { offline: true, ..self.settings.clone() })
    }

    fn pull(&self, text: &str) -> Result<PathBuf, HubError> {
        self.hub().pull(&ModelReference::parse(text).unwrap(), &mut Told::default())
    }

    /// What a person hears during a pull.
    fn told(&self, text: &str) -> (Result<PathBuf, HubError>, Told) {
        let mut told = Told::default();
        let pulled = self.hub().pull(&ModelReference::parse(text).unwrap(), &mut told);
        (pulled, told)
    }

    /// The folder of `org/repo` in the cache.
    fn cache(&self) -> PathBuf {
        self.folder.path().join("hub/models--org--repo")
    }

    fn blob(&self, name: &str) -> PathBuf {
        self.cache().join("blobs").join(name)
    }

    /// Puts something where an earlier download would have left it.
    fn leave(&self, name: &str, bytes: &[u8]) {
        std::fs::create_dir_all(self.cache().join("blobs")).unwrap();
        std::fs::write(self.blob(name), bytes).unwrap();
    }
}

/// Remembers what it is told.
#[derive(Default)]
struct Told {
    steps: Vec<(String, Option<u64>, u64)>,
    notes: Vec<String>,
}

impl Progress for Told {
    fn begin(&mut self, what: &str, total: Option<u64>, done: u64) {
        self.steps.push((what.to_owned(), total, done));
    }
    fn advance(&mut self, _bytes: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn end(&mut self) {}
    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

/// Everything below a folder: name, and where it leads if it is a link.
fn tree(folder: &Path) -> Vec<(String, Option<String>)> {
    fn walk(root: &Path, folder: &Path, found: &mut Vec<(String, Option<String>)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let link = std::fs::read_link(&path).ok().map(|target| target.to_str().unwrap().to_owned());
            if link.is_none() && path.is_dir() {
                walk(root, &path, found);
            } else {
                found.push((name, link));
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, folder, &mut found);
    found.sort();
    found
}
