//! Which compiler builds, and for what: reported by manifests, never compared.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=MENAGERIE_PLUGIN_TARGET={target}");
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler).arg("--version").output();
    let version = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let version: String = version.unwrap_or_default().chars().take(95).collect();
    println!("cargo::rustc-env=MENAGERIE_PLUGIN_TOOLCHAIN={version}");
}
