//! [`Role`]: a tensor of a component.

use crate::abi::RoleDef;

/// A tensor of a component: its role, its dims as symbols, and whether it is optional.
///
/// The contiguous dim is the first one, as in GGUF. A dim is `D`, `width` (of a norm), the name of an option, a number, a
/// sum of products of these (`heads*head_size`), or another symbol, which the first tensor with it binds
/// ([`Build::size`](crate::Build::size) returns it).
#[derive(Clone, Copy, Debug)]
pub struct Role {
    /// GGUF's name between `blk.N.` and `.weight`; empty for a norm's own tensors, whose role is that of its place.
    pub name: &'static str,
    /// A description.
    pub doc: &'static str,
    /// The form of the tensor.
    pub form: Form,
    /// Whether it is optional.
    pub presence: Presence,
    /// Its dims.
    pub dims: &'static [&'static str],
}

/// The form of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `.weight` of a linear.
    Linear = RoleDef::LINEAR as isize,
    /// `.weight` and `.bias` of a linear.
    LinearWithBias = RoleDef::LINEAR_WITH_BIAS as isize,
    /// `.weight` of a linear, and its `.bias` if the file has one.
    LinearMayHaveBias = RoleDef::LINEAR_MAY_HAVE_BIAS as isize,
    /// Values that are not a linear: `.weight`, or the tensor itself if the role has a suffix.
    Values = RoleDef::VALUES as isize,
    /// `.bias` alone.
    Bias = RoleDef::BIAS as isize,
}

/// Whether a tensor is optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// A file without it is refused.
    Required,
    /// [`Build::has`](crate::Build::has) tells whether a file has it.
    Optional,
}

impl Role {
    const fn new(name: &'static str, form: Form, dims: &'static [&'static str], doc: &'static str) -> Role {
        Role { name, doc, form, presence: Presence::Required, dims }
    }

    /// A linear, with the dims `[inputs, outputs]`.
    pub const fn linear(name: &'static str, dims: &'static [&'static str], doc: &'static str) -> Role {
        Role::new(name, Form::Linear, dims, doc)
    }

    /// A linear with a bias.
    pub const fn linear_with_bias(
        name: &'static str,
        dims: &'static [&'static str],
        doc: &'static str,
    ) -> Role {
        Role::new(name, Form::LinearWithBias, dims, doc)
    }

    /// A linear that has a bias in some files.
    pub const fn linear_may_have_bias(
        name: &'static str,
        dims: &'static [&'static str],
        doc: &'static str,
    ) -> Role {
        Role::new(name, Form::LinearMayHaveBias, dims, doc)
    }

    /// Values that are not a linear.
    pub const fn values(name: &'static str, dims: &'static [&'static str], doc: &'static str) -> Role {
        Role::new(name, Form::Values, dims, doc)
    }

    /// A `.bias` alone.
    pub const fn only_bias(name: &'static str, dims: &'static [&'static str], doc: &'static str) -> Role {
        Role::new(name, Form::Bias, dims, doc)
    }

    /// The same tensor, but optional.
    pub const fn optional(mut self) -> Role {
        self.presence = Presence::Optional;
        self
    }
}
