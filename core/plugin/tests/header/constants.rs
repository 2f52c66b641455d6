//! Constants of Rust as macros of C.

use std::collections::BTreeMap;
use syn::{BinOp, Expr, Lit, UnOp};

/// The constants so far.
#[derive(Default)]
pub(crate) struct Constants {
    known: BTreeMap<String, i128>,
}

impl Constants {
    /// The definition of a constant.
    pub(crate) fn define(&mut self, prefix: &str, name: String, expr: &Expr, comment: String) -> String {
        let name = if prefix.is_empty() { name } else { format!("{prefix}_{name}") };
        let name = name.strip_prefix("MENAGERIE_").unwrap_or(&name).to_owned();
        let value = match expr {
            Expr::Lit(literal) if matches!(literal.lit, Lit::Str(_)) => {
                let Lit::Str(text) = &literal.lit else { unreachable!() };
                format!("{:?}", text.value())
            }
            Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => bytes(&unary.expr),
            expr => self.number(&name, expr),
        };
        format!("\n{comment}#define MENAGERIE_{name} {value}\n")
    }

    fn number(&mut self, name: &str, expr: &Expr) -> String {
        let value = self.value(expr);
        self.known.insert(name.to_owned(), value);
        match value {
            0.. if name.starts_with("CAPABILITY") || name.starts_with("CPU_FEATURE") => {
                format!("UINT64_C({value:#x})")
            }
            0.. => format!("{value}"),
            _ => format!("({value})"),
        }
    }

    fn value(&self, expr: &Expr) -> i128 {
        match expr {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(number) => number.base10_parse().unwrap(),
                _ => panic!("a constant that is no number"),
            },
            Expr::Paren(inner) => self.value(&inner.expr),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => -self.value(&unary.expr),
            Expr::Binary(binary) => {
                let (left, right) = (self.value(&binary.left), self.value(&binary.right));
                match binary.op {
                    BinOp::Shl(_) => left << right,
                    BinOp::Sub(_) => left - right,
                    _ => panic!("an operator that the header does not know"),
                }
            }
            _ => panic!("a constant that the header does not know"),
        }
    }
}

fn bytes(expr: &Expr) -> String {
    let Expr::Lit(literal) = expr else { panic!("bytes that are no literal") };
    let Lit::ByteStr(bytes) = &literal.lit else { panic!("bytes that are no literal") };
    let bytes: Vec<String> = bytes.value().iter().map(|byte| format!("{byte:#04x}")).collect();
    format!("{{ {} }}", bytes.join(", "))
}
