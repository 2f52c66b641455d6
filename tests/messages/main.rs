//! Snapshots of the messages of all public errors: a changed message shows in the diff
//! (`INSTA_UPDATE=always cargo test -p menagerie-conformance --test messages` writes them).
#![allow(clippy::unwrap_used)] // a test fails by panicking

use menagerie_conformance::{root, rust_files};
use std::collections::BTreeSet;

/// `Error::Variant` and what it says, for each value.
macro_rules! messages {
    ($($error:ident::$variant:ident $(($($inner:tt)*))? $({$($field:tt)*})?),* $(,)?) => {
        [$(format!(
            "{}::{}\n{}\n",
            stringify!($error),
            stringify!($variant),
            $error::$variant $(($($inner)*))? $({$($field)*})?
        )),*].join("\n")
    };
}

mod calls;
mod cluster;
mod files;
mod hub;
mod kinds;
mod models;
mod pipeline;
mod plugins;
mod quantize;
mod server;
mod written;

/// The variants of every public error of the core stand in a snapshot; those that only pass another error on do not.
#[test]
fn every_message_is_here() {
    let folder = root().join("tests/messages/snapshots");
    let snapshots = std::fs::read_dir(folder).unwrap();
    let texts = snapshots.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    let said: BTreeSet<String> =
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let mut variants = 0;
    let mut missing = Vec::new();
    for file in rust_files(&root().join("core")) {
        for variant in error_variants(&std::fs::read_to_string(file).unwrap()) {
            variants += 1;
            if !said.contains(&variant) {
                missing.push(variant);
            }
        }
    }
    assert!(variants > 100, "only {variants} variants were found");
    assert!(missing.is_empty(), "no snapshot of tests/messages has {}", missing.join(", "));
}

/// `Error::Variant` of the public error enums of a file.
fn error_variants(source: &str) -> Vec<String> {
    let mut variants = Vec::new();
    for item in syn::parse_file(source).unwrap().items {
        let syn::Item::Enum(item) = item else { continue };
        let derived = |attribute: &syn::Attribute| {
            attribute
                .meta
                .require_list()
                .is_ok_and(|list| list.tokens.to_string().replace(' ', "").contains("thiserror::Error"))
        };
        let is_error = item.ident.to_string().ends_with("Error") || item.attrs.iter().any(derived);
        if !is_error || !matches!(item.vis, syn::Visibility::Public(_)) {
            continue;
        }
        let passes_on = |attribute: &syn::Attribute| {
            attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "transparent")
        };
        let own = item.variants.iter().filter(|variant| !variant.attrs.iter().any(passes_on));
        variants.extend(own.map(|variant| format!("{}::{}", item.ident, variant.ident)));
    }
    variants
}

#[test]
fn variants_of_errors_are_found() {
    let source = r##"
        #[derive(Debug, thiserror::Error)]
        pub enum Cause { #[error("a")] A, #[error(transparent)] B(C) }
        pub enum OwnError { A { b: u8 } }
        enum HiddenError { A }
        pub enum Other { A }"##;
    assert_eq!(error_variants(source), ["Cause::A", "OwnError::A"]);
}
