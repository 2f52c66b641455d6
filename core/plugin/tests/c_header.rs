//! `include/menagerie_plugin.h` is that of the ABI. To make it anew after a change:
//! `MENAGERIE_WRITE_GENERATED=1 cargo test -p menagerie-plugin --test c_header`.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]
// The layout is that of this machine; the stored one is of machines whose pointers have 8 bytes.
#![cfg(all(target_pointer_width = "64", not(miri)))]

mod header;
mod layout;

use std::path::Path;

#[test]
fn the_header_is_that_of_the_abi() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = package.join("include/menagerie_plugin.h");
    let made = header::header(&package.join("src/abi"));
    if std::env::var_os("MENAGERIE_WRITE_GENERATED").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    let line = stored.lines().zip(made.lines()).position(|(stored, made)| stored != made);
    assert!(
        stored == made,
        "include/menagerie_plugin.h differs from the ABI at line {:?}; make it anew: \
         MENAGERIE_WRITE_GENERATED=1 cargo test -p menagerie-plugin --test c_header",
        line.map(|line| line + 1)
    );
}

/// Every struct of the ABI has its layout checked by C compilers, and none has a field that is left out.
#[test]
fn every_struct_is_in_the_header() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = std::fs::read_to_string(package.join("include/menagerie_plugin.h")).unwrap();
    let structs = header.lines().filter(|line| line.starts_with("struct Menagerie")).count();
    let layouts = layout::layouts();
    assert_eq!(structs, layouts.len());
    for layout in layouts {
        assert!(header.contains(&format!("sizeof(Menagerie{}) == {}", layout.name, layout.size)));
        assert_eq!(layout.align, if layout.name == "Header" { 4 } else { 8 });
    }
}
