//! [`RoleDef`]: one row of a kind's table of tensors: its role, its dims in symbols, and its condition.

/// A possible tensor of a kind.
#[derive(Debug)]
pub struct RoleDef {
    /// Its role; empty for a norm's own tensors, which have the role of the site.
    pub name: &'static str,
    /// The scope of the tensor.
    pub scope: Scope,
    /// The use of its numbers.
    pub tensor: TensorKind,
    /// Dims in symbols, fastest first: `D`, `heads*key_dim`, `2*F`, `a*b+c`, `dims/2`.
    pub dims: &'static [&'static str],
    /// Name of the bias rule in [`Sizes`](super::Sizes); absent = no bias.
    pub bias: Option<&'static str>,
    /// Name of the condition in [`Sizes`](super::Sizes) under which it is used; absent = always.
    pub when: Option<&'static str>,
    /// Name in [`Sizes`](super::Sizes) of the role that the spec sets; absent = `name`.
    pub given_by: Option<&'static str>,
    /// Group and form: the file has one of the forms of a group. Synthetic models use the first.
    pub form: Option<(&'static str, &'static str)>,
    /// Its precision in a quantized file.
    pub bits: Bits,
    /// The center of its numbers in a synthetic model.
    pub around: f32,
    /// What it is.
    pub doc: &'static str,
}

/// The scope of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A block's: `blk.N.`
    Block,
    /// The whole model's.
    Model,
}

/// The use of a tensor's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorKind {
    /// `.weight` of a linear, and its `.bias` according to the rule.
    Linear,
    /// Numbers that are not multiplied with rows as a matrix; stored in f32.
    Values,
    /// `.bias` alone.
    Bias,
    /// A norm over rows of the dim, which [`Sizes`](super::Sizes) has under the row's condition; its kind determines
    /// its tensors.
    Norm,
}

/// The precision of a tensor in a quantized file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits {
    /// The type of the quantized file.
    Plain,
    /// In f32: routers, vectors.
    Full,
}

impl RoleDef {
    const fn new(
        name: &'static str,
        tensor: TensorKind,
        dims: &'static [&'static str],
        bits: Bits,
        doc: &'static str,
    ) -> RoleDef {
        RoleDef {
            name,
            scope: Scope::Block,
            tensor,
            dims,
            bias: None,
            when: None,
            given_by: None,
            form: None,
            bits,
            around: 0.0,
            doc,
        }
    }

    /// A linear, or a stack of them: columns, rows, and how many.
    pub const fn linear(name: &'static str, dims: &'static [&'static str], doc: &'static str) -> RoleDef {
        RoleDef::new(name, TensorKind::Linear, dims, Bits::Plain, doc)
    }

    /// Numbers that are not multiplied with rows as a matrix.
    pub const fn values(name: &'static str, dims: &'static [&'static str], doc: &'static str) -> RoleDef {
        RoleDef::new(name, TensorKind::Values, dims, Bits::Full, doc)
    }

    /// A `.bias` alone.
    pub const fn only_bias(name: &'static str, dims: &'static [&'static str], doc: &'static str) -> RoleDef {
        RoleDef::new(name, TensorKind::Bias, dims, Bits::Full, doc)
    }

    /// A norm, which [`Sizes`](super::Sizes) may have under the name `norm`.
    pub const fn norm(
        name: &'static str,
        dims: &'static [&'static str],
        norm: &'static str,
        doc: &'static str,
    ) -> RoleDef {
        RoleDef::new(name, TensorKind::Norm, dims, Bits::Full, doc).when(norm)
    }

    /// With a bias according to a rule of [`Sizes`](super::Sizes).
    pub const fn with_bias(mut self, rule: &'static str) -> RoleDef {
        self.bias = Some(rule);
        self
    }

    /// Used only under a condition of [`Sizes`](super::Sizes).
    pub const fn when(mut self, condition: &'static str) -> RoleDef {
        self.when = Some(condition);
        self
    }

    /// One form of a group; the file decides which.
    pub(crate) const fn in_form(mut self, group: &'static str, form: &'static str) -> RoleDef {
        self.form = Some((group, form));
        self
    }

    /// With a role from the spec: [`Sizes`](super::Sizes) may have it under this name.
    pub(crate) const fn given_by(mut self, name: &'static str) -> RoleDef {
        self.given_by = Some(name);
        self
    }

    /// With this precision in quantized files.
    pub const fn stored(mut self, bits: Bits) -> RoleDef {
        self.bits = bits;
        self
    }

    /// With numbers around this center in a synthetic model.
    pub const fn around(mut self, center: f32) -> RoleDef {
        self.around = center;
        self
    }

    /// A tensor of the whole model.
    pub const fn of_model(mut self) -> RoleDef {
        self.scope = Scope::Model;
        self
    }
}

/// A size that only the shapes of a file determine.
#[derive(Debug)]
pub struct FreeSize {
    /// Its symbol in dims.
    pub symbol: &'static str,
    /// Canonical keys that hint at it, in order of precedence; used for synthetic models.
    pub hints: &'static [&'static str],
    /// What it is.
    pub doc: &'static str,
}
