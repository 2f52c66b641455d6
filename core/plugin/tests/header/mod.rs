//! Prints the ABI as a C header, from its Rust source and from the layout that this compiler gives it.

mod constants;
mod types;

use super::layout::{Layout, layouts};
use constants::Constants;
use std::path::Path;
use syn::{Attribute, Expr, Fields, Item, Lit, Meta};

/// What stands before the declarations.
const BEGIN: &str = include_str!("begin.h");

/// What stands after them.
const END: &str = include_str!("end.h");

/// The files of the ABI, in the order of the header.
const FILES: [&str; 7] = ["mod", "tensor", "build", "call", "component", "manifest", "register"];

/// The header.
pub(crate) fn header(folder: &Path) -> String {
    let files: Vec<syn::File> = FILES
        .iter()
        .map(|name| {
            let text = std::fs::read_to_string(folder.join(name).with_extension("rs")).unwrap();
            syn::parse_file(&text).unwrap()
        })
        .collect();
    let items: Vec<&Item> = files.iter().flat_map(|file| &file.items).collect();
    let mut constants = Constants::default();
    let mut out = BEGIN.to_owned();
    out += "\n/* Types, in the order below. */\n";
    for item in &items {
        if let Item::Struct(item) = item {
            out += &format!("typedef struct Menagerie{0} Menagerie{0};\n", item.ident);
        }
    }
    for item in &items {
        out += &declaration(item, &mut constants);
    }
    out += "\n#if UINTPTR_MAX == UINT64_MAX\n/* Sizes and offsets, where pointers have 8 bytes. */\n";
    for layout in layouts() {
        out += &asserts(&layout);
    }
    out + "#endif\n" + END
}

fn declaration(item: &Item, constants: &mut Constants) -> String {
    match item {
        Item::Struct(item) => {
            let Fields::Named(fields) = &item.fields else { panic!("{} has no named fields", item.ident) };
            let mut out = format!("\n{}struct Menagerie{} {{\n", comment(&item.attrs, ""), item.ident);
            for field in &fields.named {
                let name = field.ident.as_ref().unwrap().to_string();
                let declared = types::declared(&field.ty, types::legal(&name));
                out += &format!("{}    {declared};\n", comment(&field.attrs, "    "));
            }
            out + "};\n"
        }
        Item::Type(item) => {
            let declared = types::declared(&item.ty, &format!("Menagerie{}", item.ident));
            format!("\n{}typedef {declared};\n", comment(&item.attrs, ""))
        }
        Item::Const(item) => {
            constants.define("", item.ident.to_string(), &item.expr, comment(&item.attrs, ""))
        }
        Item::Impl(item) => {
            let syn::Type::Path(path) = &*item.self_ty else { return String::new() };
            let prefix = types::upper(&path.path.segments.last().unwrap().ident.to_string());
            let mut out = String::new();
            for item in &item.items {
                if let syn::ImplItem::Const(item) = item {
                    let doc = comment(&item.attrs, "");
                    out += &constants.define(&prefix, item.ident.to_string(), &item.expr, doc);
                }
            }
            out
        }
        Item::Mod(item) => {
            let Some((_, items)) = &item.content else { return String::new() };
            let prefix = item.ident.to_string().to_uppercase();
            let mut out = format!("\n{}", comment(&item.attrs, ""));
            for item in items {
                let Item::Const(item) = item else { panic!("{prefix} has more than constants") };
                let doc = comment(&item.attrs, "");
                out += &constants.define(&prefix, item.ident.to_string(), &item.expr, doc);
            }
            out
        }
        Item::Use(_) => String::new(),
        _ => panic!("the ABI has an item that the header cannot have"),
    }
}

/// The documentation, as a comment.
fn comment(attributes: &[Attribute], indent: &str) -> String {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        let Meta::NameValue(meta) = &attribute.meta else { continue };
        let Expr::Lit(literal) = &meta.value else { continue };
        let Lit::Str(text) = &literal.lit else { continue };
        lines.push(plain(text.value().trim()));
    }
    let text = lines.join(&format!("\n{indent} * "));
    format!("{indent}/* {text} */\n")
}

/// Without the links of Rust's documentation: [`super::Call::linear`] is `Call::linear`.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("[`") {
        let (name, after) = after.split_once("`]").unwrap();
        let after = match after.strip_prefix('(') {
            Some(target) => target.split_once(')').unwrap().1,
            None => after,
        };
        out += &format!("{before}`{}`", name.replace("super::", ""));
        rest = after;
    }
    out + rest
}

fn asserts(layout: &Layout) -> String {
    let name = layout.name;
    let mut out = format!("MENAGERIE_ASSERT(sizeof(Menagerie{name}) == {});\n", layout.size);
    for field in &layout.fields {
        let (field, offset) = (types::legal(field.name), field.offset);
        out += &format!("MENAGERIE_ASSERT(offsetof(Menagerie{name}, {field}) == {offset});\n");
    }
    out
}
