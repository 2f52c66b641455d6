//! [`Literal`]: a literal value of a spec.

/// A literal of a spec.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// An integer.
    Integer(i64),
    /// A float.
    Number(f64),
    /// A boolean.
    Bool(bool),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Literal>),
}
