//! [`Probe`]: the library of the probe, with changes in its bytes.

use crate::library_beside;
use menagerie_plugin::abi::Manifest;
use object::{Object, ObjectSection};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The bytes of a library that is the probe but for what was changed.
#[derive(Clone)]
pub struct Probe {
    bytes: Vec<u8>,
    /// Where its manifest begins.
    manifest: usize,
    /// How many of the bytes there are.
    len: usize,
}

impl Probe {
    /// The library as it was built.
    pub fn built() -> Probe {
        static BUILT: OnceLock<(Vec<u8>, usize)> = OnceLock::new();
        let (bytes, manifest) = BUILT.get_or_init(|| {
            let bytes = std::fs::read(library_beside("menagerie_probe")).unwrap();
            let file = object::File::parse(&*bytes).unwrap();
            let section = file.section_by_name(".mngplug").or_else(|| file.section_by_name("__mngplug"));
            let (start, _) = section.unwrap().file_range().unwrap();
            (bytes, start as usize)
        });
        Probe { bytes: bytes.clone(), manifest: *manifest, len: bytes.len() }
    }

    /// The same plugin under another id, with another architecture: nothing of one is in the other's way.
    pub fn named(author: &str) -> Probe {
        assert_eq!(author.len(), 5, "texts keep their length");
        let id = Probe::built().replaced("probe/parts", &format!("{author}/parts"));
        id.replaced("probe-model", &format!("{author}-model"))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub fn manifest_range(&self) -> std::ops::Range<usize> {
        self.manifest..self.manifest + size_of::<Manifest>()
    }

    /// Every occurrence of a text replaced by one of the same length.
    pub fn replaced(self, from: &str, to: &str) -> Probe {
        self.replaced_bytes(from.as_bytes(), to.as_bytes())
    }

    pub fn replaced_bytes(mut self, from: &[u8], to: &[u8]) -> Probe {
        assert_eq!(from.len(), to.len());
        let mut found = 0;
        let mut at = 0;
        while let Some(next) = self.bytes[at..].windows(from.len()).position(|window| window == from) {
            self.bytes[at + next..at + next + from.len()].copy_from_slice(to);
            at += next + from.len();
            found += 1;
        }
        assert!(found > 0, "{:?} is not in the library", String::from_utf8_lossy(from));
        self
    }

    /// What its init function does.
    pub fn ordered(self, orders: &str) -> Probe {
        let (mut from, mut to) =
            (b"PROBE-ORDERS=obey".to_vec(), format!("PROBE-ORDERS={orders}").into_bytes());
        let len = from.len().max(to.len());
        from.resize(len, 0);
        to.resize(len, 0);
        self.replaced_bytes(&from, &to)
    }

    /// The file that it makes as soon as any code of it runs.
    pub fn marking(self, path: &Path) -> Probe {
        let (mut from, mut to) =
            (b"PROBE-MARKER=".to_vec(), format!("PROBE-MARKER={}", path.display()).into_bytes());
        from.resize(to.len() + 1, 0);
        to.push(0);
        self.replaced_bytes(&from, &to)
    }

    /// Bytes of its manifest, from an offset on.
    pub fn manifest(self, offset: usize, bytes: &[u8]) -> Probe {
        let at = self.manifest + offset;
        self.at(at, bytes)
    }

    /// Bytes of the file.
    pub fn at(mut self, at: usize, bytes: &[u8]) -> Probe {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    pub fn cut(mut self, len: usize) -> Probe {
        self.len = len;
        self
    }

    /// Writes it to a file that only its owner may write.
    pub fn save(&self, folder: &Path, name: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join(name);
        std::fs::write(&path, self.bytes()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        path
    }
}
