//! The C header of the plugin ABI is C, and C++: a whole plugin compiles against it with every warning an error, its layout
//! is what the header asserts, and it exports two symbols and nothing else.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie_conformance::{root, runner};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

/// The first of these programs that runs.
fn compiler(names: &[Option<String>]) -> Option<String> {
    let runs =
        |name: &String| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
    names.iter().flatten().find(|name| runs(name)).cloned()
}

fn c_compiler() -> Option<String> {
    compiler(&[std::env::var("CC").ok(), Some("cc".to_owned()), Some("clang".to_owned())])
}

fn source() -> PathBuf {
    root().join("tests/conformance/plugin/complete.c")
}

fn compile(compiler: &str, arguments: &[&str], output: &Path) {
    let run = Command::new(compiler)
        .args(STRICT)
        .args(arguments)
        .arg("-I")
        .arg(root().join("core/plugin/include"))
        .arg(source())
        .arg("-o")
        .arg(output)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{compiler} {arguments:?}:\n{errors}");
}

fn a_plugin_compiles_as_c() {
    let folder = tempfile::tempdir().unwrap();
    for standard in ["-std=c11", "-std=gnu17"] {
        compile(&c_compiler().unwrap(), &[standard, "-c"], &folder.path().join("plugin.o"));
    }
}

fn a_plugin_compiles_as_cpp() {
    let names = [std::env::var("CXX").ok(), Some("c++".to_owned()), Some("clang++".to_owned())];
    let Some(compiler) = compiler(&names) else {
        println!("test a_plugin_compiles_as_cpp: no C++ compiler here; the C compiler alone was asked");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    compile(&compiler, &["-x", "c++", "-std=c++17", "-c"], &folder.path().join("plugin.o"));
}

/// Text of the file in which strings that end with a zero are searched: the names of a library's dynamic symbols.
fn a_library_of_it_has_the_manifest_and_two_symbols() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("plugin.so");
    compile(&c_compiler().unwrap(), &["-std=c11", "-shared", "-fPIC", "-fvisibility=hidden"], &library);
    let bytes = std::fs::read(&library).unwrap();
    let has = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    assert!(has(b"MNGPLUG\x01\x78\x01\0\0\x01\0\0\0"), "no manifest of 376 bytes, version 1.0");
    assert!(has(b"\0acme/halved\0"));
    assert!(has(b"MENAGERIE_PLUGIN_MANIFEST_V1\0") && has(b"menagerie_plugin_init_v1\0"));
}

fn main() -> ExitCode {
    let missing = c_compiler().is_none().then_some("a C compiler");
    runner::run(
        &[
            ("a_plugin_compiles_as_c", a_plugin_compiles_as_c),
            ("a_plugin_compiles_as_cpp", a_plugin_compiles_as_cpp),
            (
                "a_library_of_it_has_the_manifest_and_two_symbols",
                a_library_of_it_has_the_manifest_and_two_symbols,
            ),
        ],
        missing,
    )
}
