//! Small and legible code: module docs, size of functions and files, arguments, no `unwrap` outside tests, `unsafe`
//! only in its folders, `# Errors` for public functions that can fail.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie_conformance::{files_below, is_for_tests, is_test_code, path_inside, root, rust_files};
use proc_macro2::Span;
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

const FUNCTION_LINES: usize = 60;
const FILE_LINES: usize = 500;
const ARGUMENTS: usize = 6;
const UNSAFE_FOLDERS: [&str; 7] = [
    "core/kernels/",
    "core/gguf/",
    "core/plugin/",
    "core/plugin-host/",
    "plugins/",
    "tests/plugins/",
    // An allocator that counts.
    "tests/fuzz/",
];
/// Functions that the standard library takes from the machine's own library, whose last bits differ; `libm` has them,
/// the same everywhere.
const OF_THE_MACHINE: [&str; 18] = [
    "exp", "exp2", "exp_m1", "ln", "ln_1p", "log", "log2", "log10", "powf", "sin", "cos", "tan", "sin_cos",
    "sinh", "cosh", "tanh", "cbrt", "hypot",
];
/// Folders whose results never affect a token, or that promise no bits.
const OFF_THE_WAY: [&str; 4] = ["core/apps/", "core/backends/candle/", "core/synth/", "core/examples/"];
const EMPTY_NAMES: [&str; 5] = ["utils", "util", "helpers", "common", "misc"];

/// `SECURITY.md` names the folders that may have `unsafe` code, and each of them has some.
#[test]
fn the_security_page_names_where_unsafe_code_is() {
    let page = std::fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let line = page.split("`unsafe` code is confined to").nth(1).unwrap().split('(').next().unwrap();
    let named: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
    let folders: Vec<&str> =
        UNSAFE_FOLDERS.into_iter().filter(|folder| !folder.starts_with("tests/")).collect();
    assert_eq!(named, folders, "left is SECURITY.md");
    let sources = sources();
    for folder in UNSAFE_FOLDERS {
        let mut files = sources.iter().filter(|source| source.inside.starts_with(folder));
        assert!(files.any(|source| source.text.contains("unsafe {")), "{folder} has no `unsafe` block");
    }
}

struct Source {
    inside: String,
    text: String,
}

fn sources() -> Vec<Source> {
    let files = ["core", "architectures", "plugins", "tests"]
        .into_iter()
        .flat_map(|folder| rust_files(&root().join(folder)));
    files.map(read).collect()
}

fn read(file: PathBuf) -> Source {
    Source { inside: path_inside(&file), text: std::fs::read_to_string(&file).unwrap() }
}

/// Texts that are not Rust: documents, manifests, tables, scripts.
fn other_texts() -> Vec<Source> {
    let extensions = ["md", "toml", "py", "json", "cpp"];
    let wanted = |path: &Path| match path.extension() {
        Some(extension) => extensions.iter().any(|known| extension == *known),
        None => path.components().any(|part| ["scripts", ".ci"].iter().any(|name| part.as_os_str() == *name)),
    };
    files_below(&root(), &wanted).into_iter().map(read).collect()
}

impl Source {
    /// Tables of numbers that a format defines are data.
    fn is_table(&self) -> bool {
        self.inside.contains("/tables/") || self.inside.ends_with("/tables.rs")
    }

    /// Examples follow the rules of production code.
    fn is_example(&self) -> bool {
        self.inside.contains("/examples/") && !self.inside.starts_with("tests/")
    }

    /// Whether its results may affect a token.
    fn is_on_the_way(&self) -> bool {
        self.inside.starts_with("core/") && !OFF_THE_WAY.iter().any(|folder| self.inside.starts_with(folder))
    }

    /// Whether its documentation is published: not the command line, nor examples.
    fn is_library(&self) -> bool {
        !is_for_tests(&self.inside) && !self.inside.starts_with("core/apps/")
    }
}

/// Walks one file and records violations of the rules.
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

    /// A public function documents its errors under `# Errors`, or its whole trait does.
    fn errors(&mut self, signature: &syn::Signature, attributes: &[syn::Attribute]) {
        let fails = match &signature.output {
            syn::ReturnType::Type(_, kind) => is_result(kind),
            syn::ReturnType::Default => false,
        };
        if fails && self.source.is_library() && !self.in_test && !says_errors(attributes) {
            let name = &signature.ident;
            self.fault(
                signature.span(),
                format!("`{name}` can fail, and its documentation has no `# Errors`"),
            );
        }
    }

    /// `unsafe` blocks, functions, implementations and foreign functions stay in their folders.
    fn unsafe_code(&mut self, span: Span) {
        if !UNSAFE_FOLDERS.iter().any(|folder| self.source.inside.starts_with(folder)) {
            self.fault(span, "`unsafe` outside kernels, gguf and plugins".to_owned());
        }
    }

    /// Records a function whose last bits differ between machines.
    fn of_the_machine(&mut self, name: &syn::Ident) {
        if OF_THE_MACHINE.iter().any(|known| name == known) && self.source.is_on_the_way() && !self.in_test {
            self.fault(name.span(), format!("`{name}` differs between machines; `libm` has it"));
        }
    }

    fn within(&mut self, attributes: &[syn::Attribute], walk: impl FnOnce(&mut Self)) {
        let outer = self.in_test;
        self.in_test |= is_test_code(attributes);
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
            if is_public(&item.vis) {
                walk.errors(&item.sig, &item.attrs);
            }
            walk.function(&item.sig, item.block.span());
            visit::visit_item_fn(walk, item);
        });
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if is_public(&item.vis) && !says_errors(&item.attrs) {
            for inner in &item.items {
                if let syn::TraitItem::Fn(function) = inner {
                    self.errors(&function.sig, &function.attrs);
                }
            }
        }
        visit::visit_item_trait(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.within(&item.attrs, |walk| {
            if is_public(&item.vis) {
                walk.errors(&item.sig, &item.attrs);
            }
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
        self.of_the_machine(&call.method);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<&syn::Ident> = path.segments.iter().map(|segment| &segment.ident).collect();
        if let [.., kind, name] = segments[..]
            && (kind == "f32" || kind == "f64")
        {
            self.of_the_machine(name);
        }
        visit::visit_path(self, path);
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.unsafe_code(block.span());
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if item.unsafety.is_some() {
            self.unsafe_code(item.impl_token.span());
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        if signature.unsafety.is_some() {
            self.unsafe_code(signature.span());
        }
        visit::visit_signature(self, signature);
    }

    fn visit_item_foreign_mod(&mut self, item: &'ast syn::ItemForeignMod) {
        self.unsafe_code(item.span());
        visit::visit_item_foreign_mod(self, item);
    }
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

fn is_result(kind: &syn::Type) -> bool {
    matches!(kind, syn::Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Result"))
}

fn says_errors(attributes: &[syn::Attribute]) -> bool {
    let lines = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    lines.filter_map(|line| line.meta.require_name_value().ok()).any(|line| {
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &line.value else { return false };
        text.value().trim() == "# Errors"
    })
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
        let mut walk = Walk {
            in_test: is_for_tests(&source.inside) && !source.is_example(),
            source: &source,
            faults: Vec::new(),
        };
        walk.visit_file(&file);
        faults.extend(walk.faults);
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// The text under `# Errors` in the kernels: the variants with their causes, or the function that has the same ones.
#[test]
fn errors_of_the_kernels_are_documented_in_one_form() {
    let (mut faults, mut seen) = (Vec::new(), 0);
    for source in sources().iter().filter(|source| source.inside.starts_with("core/kernels/")) {
        let lines: Vec<&str> = source.text.lines().map(str::trim).collect();
        for (number, pair) in lines.windows(2).enumerate().filter(|(_, pair)| pair[0] == "/// # Errors") {
            seen += 1;
            if !["/// [`KernelError::", "/// As [`"].iter().any(|start| pair[1].starts_with(start)) {
                faults.push(format!("{}:{}: {}", source.inside, number + 2, pair[1]));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(seen > 30, "the test sees only {seen}");
}

/// The project stands alone: no path of a machine, no host of a package registry, nothing unfinished.
#[test]
fn nothing_points_outside() {
    let refused =
        [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("crates", ".io"), concat!("pypi", ".org")];
    let unfinished =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("unimple", "mented!"), concat!("to", "do!")];
    let mut faults = Vec::new();
    let (texts, sources) = (other_texts(), sources());
    assert!(texts.len() > 40, "the test sees only {} other texts", texts.len());
    for source in sources.iter().chain(&texts) {
        for (number, line) in source.text.lines().enumerate() {
            for word in refused.iter().chain(&unfinished).filter(|word| line.contains(**word)) {
                faults.push(format!("{}:{}: `{word}`", source.inside, number + 1));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// `InferenceStep` tells whether a step decodes, never the number of tokens: a prompt may have one, and so may a chunk.
#[test]
fn nobody_counts_tokens_to_know_whether_it_decodes() {
    let counts =
        ["tokens.len() == 1", "tokens().len() == 1", "pending() == 1", "rows.len() == 1", "rows() == 1"];
    let folders = [
        "core/model/src/",
        "core/engine/src/",
        "core/open/src/",
        "core/measure/src/",
        "core/stages/src/",
        "core/assembly/src/",
    ];
    let mut seen = 0;
    let mut found = Vec::new();
    for source in
        sources().iter().filter(|source| folders.iter().any(|folder| source.inside.starts_with(folder)))
    {
        seen += 1;
        let code = source.text.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in
            code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
        {
            if counts.iter().any(|count| line.contains(count)) && !is_for_tests(&source.inside) {
                found.push(format!("{}:{}: {}", source.inside, number + 1, line.trim()));
            }
        }
    }
    assert!(seen > 100, "only {seen} files were looked at");
    assert!(found.is_empty(), "a number of tokens or rows is compared with 1:\n{}", found.join("\n"));
}

/// Whether a line names the owner of a text.
fn names_an_owner(line: &str) -> bool {
    let line = line.to_lowercase();
    let year = |after: &str| {
        let after = after.trim_start_matches([' ', '(', 'c', ')', '©']);
        ["19", "20"].iter().any(|century| after.starts_with(century))
    };
    line.split("copyright").skip(1).any(year)
        || ["spdx-license-identifier", "free software foundation"].iter().any(|words| line.contains(words))
}

/// Everything here is this project's own work, data that it generated, or in the public domain: no file carries the
/// notice of another owner, and chat templates were written for the tests.
#[test]
fn no_file_belongs_to_others() {
    // The license itself, a text for tokenizers that looks like a notice, and this file.
    let exempt = ["LICENSE", "vocabularies.json", "make_vocabularies.py", "tidy.rs"];
    let mut files = files_below(&root(), &|_| true);
    files.extend(files_below(&menagerie_conformance::fixtures(), &|_| true));
    assert!(files.len() > 1000, "only {} files were looked at", files.len());
    let mut found = Vec::new();
    let own = |file: &&PathBuf| file.is_file() && !exempt.iter().any(|name| file.ends_with(name));
    for file in files.iter().filter(own) {
        let inside = path_inside(file);
        if inside.ends_with(".jinja") && !inside.starts_with("core/loaders/tests/templates/jinja/") {
            found.push(inside.clone());
        }
        let text = String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned();
        let owners = text.lines().enumerate().filter(|(_, line)| names_an_owner(line));
        found.extend(owners.map(|(number, _)| format!("{inside}:{}", number + 1)));
    }
    assert!(found.is_empty(), "these look like the work of others:\n{}", found.join("\n"));
}
