//! Types of Rust as declarations of C.

use syn::{Expr, GenericArgument, Lit, PathArguments, ReturnType, Type, TypeBareFn, TypePath};

/// A name that C and C++ let a field have.
pub(crate) fn legal(name: &str) -> &str {
    if name == "default" { "default_value" } else { name }
}

/// `OptionDef` is `OPTION_DEF`.
pub(crate) fn upper(name: &str) -> String {
    let mut out = String::new();
    for (index, c) in name.chars().enumerate() {
        if c.is_uppercase() && index > 0 {
            out.push('_');
        }
        out.extend(c.to_uppercase());
    }
    out
}

/// The declaration of a name of a type.
pub(crate) fn declared(ty: &Type, name: &str) -> String {
    match ty {
        Type::Path(path) => match option(path) {
            Some(inner) => declared(inner, name),
            None => format!("{} {name}", named(path)),
        },
        Type::Ptr(pointer) => {
            let Type::Path(path) = &*pointer.elem else {
                // A pointer to a pointer: only `*mut *mut c_void` is there.
                return declared(&pointer.elem, &format!("*{name}"));
            };
            let constant = if pointer.const_token.is_some() { "const " } else { "" };
            format!("{constant}{} *{name}", named(path))
        }
        Type::Array(array) => {
            let Expr::Lit(literal) = &array.len else { panic!("{name} has a length that is no number") };
            let Lit::Int(len) = &literal.lit else { panic!("{name} has a length that is no number") };
            declared(&array.elem, &format!("{name}[{len}]"))
        }
        Type::BareFn(function) => function_pointer(function, name),
        _ => panic!("{name} is of a type that C does not have"),
    }
}

/// What an `Option` of a function holds: null is none.
fn option(path: &TypePath) -> Option<&Type> {
    let last = path.path.segments.last().unwrap();
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    assert_eq!(last.ident, "Option");
    match arguments.args.first() {
        Some(GenericArgument::Type(inner @ Type::BareFn(_))) => Some(inner),
        _ => panic!("an option of what is no function"),
    }
}

fn named(path: &TypePath) -> String {
    let name = path.path.segments.last().unwrap().ident.to_string();
    match name.as_str() {
        "u8" => "uint8_t".to_owned(),
        "u16" => "uint16_t".to_owned(),
        "u32" => "uint32_t".to_owned(),
        "u64" => "uint64_t".to_owned(),
        "i32" => "int32_t".to_owned(),
        "i64" => "int64_t".to_owned(),
        "usize" => "size_t".to_owned(),
        "f32" => "float".to_owned(),
        "f64" => "double".to_owned(),
        "c_void" => "void".to_owned(),
        other => format!("Menagerie{other}"),
    }
}

fn function_pointer(function: &TypeBareFn, name: &str) -> String {
    assert!(function.abi.is_some(), "{name} is no function of C");
    let argument = |argument: &syn::BareFnArg| {
        let name = argument.name.as_ref().unwrap().0.to_string();
        declared(&argument.ty, &name)
    };
    let arguments: Vec<String> = function.inputs.iter().map(argument).collect();
    let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
    let declarator = format!("(*{name})({arguments})");
    match &function.output {
        ReturnType::Default => format!("void {declarator}"),
        ReturnType::Type(_, ty) => declared(ty, &declarator),
    }
}
