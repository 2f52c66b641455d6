//! [`RoleDef`]: one row of a kind's table of tensors: its role, its dims in symbols, and when it is wanted.

/// A tensor that a kind may want.
#[derive(Debug)]
pub struct RoleDef {
    /// Its role; empty for a norm's own tensors, whose role is the site's.
    pub name: &'static str,
    /// Whose tensor it is.
    pub scope: Scope,
    /// What the numbers are.
    pub tensor: TensorKind,
    /// Dims in symbols, fastest first: `D`, `heads*key_dim`, `2*F`, `a*b+c`, `dims/2`.
    pub dims: &'static [&'static str],
    /// Name of the bias rule in [`Sizes`](super::Sizes); absent = no bias.
    pub bias: Option<&'static str>,
    /// Name of the condition in [`Sizes`](super::Sizes) under which it is wanted; absent = always.
    pub when: Option<&'static str>,
    /// Name in [`Sizes`](super::Sizes) of the role the spec gives it; absent = `name`.
    pub given_by: Option<&'static str>,
    /// Group and form: of the forms of a group, which the file decides, one is wanted. The first is what models are made
    /// with.
    pub form: Option<(&'static str, &'static str)>,
    /// How precisely it is stored where other tensors are quantized.
    pub bits: Bits,
    /// What its numbers lie around in a model that is made up.
    pub around: f32,
    /// What it is.
    pub doc: &'static str,
}

/// Whose tensor it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A block's: `blk.N.`
    Block,
    /// The whole model's.
    Model,
}

/// What the numbers of a tensor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorKind {
    /// `.weight` of a linear, and its `.bias` as the rule says.
    Linear,
    /// Numbers that no row is multiplied with; stored in f32.
    Values,
    /// `.bias` alone.
    Bias,
    /// A norm over rows of the dim, which [`Sizes`](super::Sizes) has under the row's condition; its kind says which tensors it has.
    Norm,
}

/// How a tensor is stored in a quantized file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits {
    /// In the type that the file type gives it.
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

    /// Numbers that no row is multiplied with.
    pub const fn values(name: &'static str, dims: &'static [&'static str], doc: &'static str) -> RoleDef {
        RoleDef::new(name, TensorKind::Values, dims, Bits::Full, doc)
    }

    /// A `.bias` alone.
    pub const fn only_bias(name: &'static str, dims: &'static [&'static str], doc: &'static str) -> RoleDef {
        RoleDef::new(name, TensorKind::Bias, dims, Bits::Full, doc)
    }

    /// A norm, which [`Sizes`](super::Sizes) has under the name `norm`, or has not.
    pub const fn norm(
        name: &'static str,
        dims: &'static [&'static str],
        norm: &'static str,
        doc: &'static str,
    ) -> RoleDef {
        RoleDef::new(name, TensorKind::Norm, dims, Bits::Full, doc).when(norm)
    }

    /// With the bias that a rule of [`Sizes`](super::Sizes) asks for.
    pub const fn with_bias(mut self, rule: &'static str) -> RoleDef {
        self.bias = Some(rule);
        self
    }

    /// Wanted only under a condition of [`Sizes`](super::Sizes).
    pub const fn when(mut self, condition: &'static str) -> RoleDef {
        self.when = Some(condition);
        self
    }

    /// One form of a group; the file decides which.
    pub(crate) const fn in_form(mut self, group: &'static str, form: &'static str) -> RoleDef {
        self.form = Some((group, form));
        self
    }

    /// Named by the spec: [`Sizes`](super::Sizes) has the role under this name, or has it not.
    pub(crate) const fn given_by(mut self, name: &'static str) -> RoleDef {
        self.given_by = Some(name);
        self
    }

    /// Stored as precisely as this.
    pub const fn stored(mut self, bits: Bits) -> RoleDef {
        self.bits = bits;
        self
    }

    /// With numbers around this in a model that is made up.
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

/// A size that the shapes of a file give: no config has it.
#[derive(Debug)]
pub struct FreeSize {
    /// Its symbol in dims.
    pub symbol: &'static str,
    /// Canonical keys that hint at it, the first that is there counts; what models are made with.
    pub hints: &'static [&'static str],
    /// What it is.
    pub doc: &'static str,
}
