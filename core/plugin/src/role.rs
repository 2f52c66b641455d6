//! [`Role`]: a tensor that a component wants.

use crate::abi::RoleDef;

/// A tensor that a component wants: its role, its dims in symbols, and whether a file may lack it.
///
/// Dims have the contiguous one first, as GGUF has them: `D`, `width` (a norm's), the name of an option, a number, sums of
/// products of these (`heads*head_size`), or another symbol, which the first tensor that has it binds
/// ([`Build::size`](crate::Build::size) gives it).
#[derive(Clone, Copy, Debug)]
pub struct Role {
    /// GGUF's name between `blk.N.` and `.weight`; empty for a norm's own tensors, whose role is that of its place.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// What its numbers are.
    pub form: Form,
    /// Whether a file may lack it.
    pub presence: Presence,
    /// Its dims.
    pub dims: &'static [&'static str],
}

/// What the numbers of a tensor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `.weight` of a linear.
    Linear = RoleDef::LINEAR as isize,
    /// `.weight` and `.bias` of a linear.
    LinearWithBias = RoleDef::LINEAR_WITH_BIAS as isize,
    /// `.weight` of a linear, and its `.bias` if the file has one.
    LinearMayHaveBias = RoleDef::LINEAR_MAY_HAVE_BIAS as isize,
    /// Numbers that no row is multiplied with: `.weight`, or the tensor a role with a suffix names.
    Values = RoleDef::VALUES as isize,
    /// `.bias` alone.
    Bias = RoleDef::BIAS as isize,
}

/// Whether a file may lack a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// A file without it is refused.
    Required,
    /// [`Build::has`](crate::Build::has) says.
    Optional,
}

impl Role {
    const fn new(name: &'static str, form: Form, dims: &'static [&'static str], doc: &'static str) -> Role {
        Role { name, doc, form, presence: Presence::Required, dims }
    }

    /// A linear: elements that go in, elements that come out.
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

    /// Numbers that no row is multiplied with.
    pub const fn values(name: &'static str, dims: &'static [&'static str], doc: &'static str) -> Role {
        Role::new(name, Form::Values, dims, doc)
    }

    /// A `.bias` alone.
    pub const fn only_bias(name: &'static str, dims: &'static [&'static str], doc: &'static str) -> Role {
        Role::new(name, Form::Bias, dims, doc)
    }

    /// That a file may lack.
    pub const fn optional(mut self) -> Role {
        self.presence = Presence::Optional;
        self
    }
}
