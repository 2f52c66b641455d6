//! [`found`]: inputs that caused failures once.

use std::path::Path;

/// The files of `found/<target>/`, in the order of their names; none if there is no such folder.
pub fn found(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("found").join(target);
    let mut paths: Vec<_> = std::fs::read_dir(folder).into_iter().flatten().flatten().collect();
    paths.sort_by_key(std::fs::DirEntry::file_name);
    paths.iter().filter_map(|entry| std::fs::read(entry.path()).ok()).collect()
}
