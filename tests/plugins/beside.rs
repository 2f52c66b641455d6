//! [`library_beside`]: the library of a plugin that is built with its tests.

use std::path::PathBuf;

/// The library of a package, by the name of its crate.
pub fn library_beside(name: &str) -> PathBuf {
    let name = format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let tests = std::env::current_exe().unwrap();
    let beside = tests.ancestors().skip(1).map(|folder| folder.join(&name)).find(|path| path.is_file());
    beside.expect("the library is built with the tests that depend on it")
}
