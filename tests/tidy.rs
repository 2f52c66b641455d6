//! Small and legible: module docs, function and file size, arguments, no `unwrap` outside tests, `unsafe` in its places.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use proc_macro2::Span;
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

const FUNCTION_LINES: usize = 60;
const FILE_LINES: usize = 500;
const ARGUMENTS: usize = 6;
const UNSAFE_FOLDERS: [&str; 2] = ["core/kernels/", "core/gguf/"];
const EMPTY_NAMES: [&str; 5] = ["utils", "util", "helpers", "common", "misc"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

struct Source {
    inside: String,
    text: String,
}

fn sources() -> Vec<Source> {
    let mut files = Vec::new();
    for folder in ["core", "architectures", "tests"] {
        collect(&root().join(folder), &mut files);
    }
    files.sort();
    let read = |file: PathBuf| Source {
        inside: file.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/"),
        text: std::fs::read_to_string(&file).unwrap(),
    };
    files.into_iter().map(read).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("target") {
                collect(&path, files);
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

impl Source {
    /// Tables of numbers that a format defines are data.
    fn is_table(&self) -> bool {
        self.inside.contains("/tables/") || self.inside.ends_with("/tables.rs")
    }

    fn is_test(&self) -> bool {
        self.inside.starts_with("tests/")
            || self.inside.contains("/tests/")
            || self.inside.ends_with("/tests.rs")
            || self.inside.ends_with("_tests.rs")
            || self.inside.starts_with("core/testkit/")
            || self.inside.starts_with("core/kernels/check/")
    }
}

/// Walks one file and notes what breaks a rule.
struct Walk<'a> {
    source: &'a Source,
    in_test: bool,
    faults: Vec<String>,
}

impl Walk<'_> {
    fn fault(&mut self, span: Span, what: String) {
        self.faults.push(format!("{}:{}: {what}", self.source.inside, span.start().line));
    }

    fn function(&mut self, signature: &syn::Signature, body: Span) {
        let lines = body.end().line - body.start().line + 1;
        if lines > FUNCTION_LINES && !self.in_test {
            self.fault(
                signature.span(),
                format!("`{}` has {lines} lines, at most {FUNCTION_LINES}", signature.ident),
            );
        }
        let arguments = signature.inputs.iter().filter(|input| matches!(input, syn::FnArg::Typed(_))).count();
        if arguments > ARGUMENTS {
            self.fault(signature.span(), format!("`{}` has {arguments} arguments", signature.ident));
        }
    }

    fn attributes_are_test(attributes: &[syn::Attribute]) -> bool {
        attributes.iter().any(|attribute| {
            attribute.path().is_ident("test")
                || (attribute.path().is_ident("cfg")
                    && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test"))
        })
    }

    fn within(&mut self, attributes: &[syn::Attribute], walk: impl FnOnce(&mut Self)) {
        let outer = self.in_test;
        self.in_test |= Self::attributes_are_test(attributes);
        walk(self);
        self.in_test = outer;
    }
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if EMPTY_NAMES.iter().any(|name| item.ident == name) {
            self.fault(item.span(), format!("a module named `{}` says nothing", item.ident));
        }
        self.within(&item.attrs, |walk| visit::visit_item_mod(walk, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.within(&item.attrs, |walk| {
            walk.function(&item.sig, item.block.span());
            visit::visit_item_fn(walk, item);
        });
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.within(&item.attrs, |walk| {
            walk.function(&item.sig, item.block.span());
            visit::visit_impl_item_fn(walk, item);
        });
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let refused = call.method == "unwrap" || call.method == "expect";
        let fallible = call.method != "expect" || call.args.len() == 1;
        if refused && fallible && !self.in_test {
            self.fault(call.method.span(), format!("`{}` outside tests", call.method));
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        if !UNSAFE_FOLDERS.iter().any(|folder| self.source.inside.starts_with(folder)) {
            self.fault(block.span(), "`unsafe` outside kernels and gguf".to_owned());
        }
        visit::visit_expr_unsafe(self, block);
    }
}

#[test]
fn every_file_is_small_and_documented() {
    let mut faults = Vec::new();
    for source in sources() {
        if !source.text.starts_with("//!") {
            faults.push(format!("{}:1: the file does not begin with `//!`", source.inside));
        }
        let lines = source.text.lines().count();
        if lines > FILE_LINES && !source.is_table() {
            faults.push(format!("{}: {lines} lines, at most {FILE_LINES}", source.inside));
        }
        let stem = source.inside.rsplit('/').next().unwrap().trim_end_matches(".rs");
        if EMPTY_NAMES.contains(&stem) {
            faults.push(format!("{}: a file named `{stem}` says nothing", source.inside));
        }
        if source.is_table() {
            continue;
        }
        let file = syn::parse_file(&source.text).unwrap_or_else(|e| panic!("{}: {e}", source.inside));
        let mut walk = Walk { in_test: source.is_test(), source: &source, faults: Vec::new() };
        walk.visit_file(&file);
        faults.extend(walk.faults);
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// The project stands alone: no path of a machine, no host of a package registry, nothing left unfinished.
#[test]
fn nothing_points_outside() {
    let refused =
        [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("crates", ".io"), concat!("pypi", ".org")];
    let unfinished =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("unimple", "mented!"), concat!("to", "do!")];
    let mut faults = Vec::new();
    for source in sources() {
        for (number, line) in source.text.lines().enumerate() {
            for word in refused.iter().chain(&unfinished).filter(|word| line.contains(**word)) {
                faults.push(format!("{}:{}: `{word}`", source.inside, number + 1));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
