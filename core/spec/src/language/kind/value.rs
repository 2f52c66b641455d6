//! [`Value`]: the Rust type of a field.

use super::written::WrittenTable;
use super::{Component, Family, FieldType, NormSite, Options, RecordedFault, ResolveContext, Role};
use std::marker::PhantomData;
use std::sync::Arc;

/// A type that a field of [`options!`](crate::options) can have.
pub trait Value: Sized {
    /// The type of the field's value.
    const TYPE: FieldType;

    /// Reads field `index` of the table.
    ///
    /// # Errors
    /// A fault was recorded.
    fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault>;
}

impl Value for usize {
    const TYPE: FieldType = FieldType::Count;

    fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault> {
        at.count(index)
    }
}

impl Value for f32 {
    const TYPE: FieldType = FieldType::Real;

    fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault> {
        at.real(index)
    }
}

impl Value for bool {
    const TYPE: FieldType = FieldType::Bool;

    fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault> {
        at.boolean(index)
    }
}

impl Value for Role {
    const TYPE: FieldType = FieldType::Role;

    fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault> {
        at.role(index)
    }
}

/// Absent if the field is not written.
impl<T: Value> Value for Option<T> {
    const TYPE: FieldType = T::TYPE;

    fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault> {
        if at.is_written(index) { T::read(at, index).map(Some) } else { Ok(None) }
    }
}

/// A count that must not be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Positive<T>(pub T);

impl Value for Positive<usize> {
    const TYPE: FieldType = FieldType::Count;

    fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault> {
        let value = at.count(index)?;
        if value == 0 {
            return at.refuse(index, "0; must be at least 1");
        }
        Ok(Positive(value))
    }
}

impl Value for Positive<f32> {
    const TYPE: FieldType = FieldType::Real;

    fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault> {
        let value = at.real(index)?;
        if value <= 0.0 {
            return at.refuse(index, format!("{value}; expected a positive number"));
        }
        Ok(Positive(value))
    }
}

/// A number; 0 or an absent field means none, a negative number is a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cap(pub Option<f32>);

impl Value for Cap {
    const TYPE: FieldType = FieldType::Real;

    fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault> {
        if !at.is_written(index) {
            return Ok(Cap(None));
        }
        let value = at.real(index)?;
        if value < 0.0 {
            return at.refuse(index, format!("{value}; must not be negative (0 = none)"));
        }
        Ok(Cap((value != 0.0).then_some(value)))
    }
}

/// A table that is optional or does not apply in this layer, or the case that applies.
#[derive(Clone, Debug)]
pub struct Optional<T>(pub Option<Nested<T>>);

/// Options with their place in the spec: [`ResolveContext::at`] records faults there.
#[derive(Clone, Debug)]
pub struct Nested<T> {
    /// The options.
    pub options: T,
    pub(crate) table: Arc<WrittenTable>,
}

impl<T: Options> Value for Optional<T> {
    const TYPE: FieldType = FieldType::Optional(T::TABLE);

    fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault> {
        at.optional(index).map(Optional)
    }
}

/// One name for every field of a table, or the table.
#[derive(Clone, Debug, PartialEq)]
pub struct OneOrEach<T>(pub T);

impl<T: Options> Value for OneOrEach<T> {
    const TYPE: FieldType = FieldType::OneOrEach(T::TABLE);

    fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault> {
        at.table(index).map(OneOrEach)
    }
}

/// A field that is read only on request: [`ResolveContext::force`].
#[derive(Clone, Debug)]
pub struct Lazy<T> {
    pub(crate) table: Arc<WrittenTable>,
    pub(crate) index: usize,
    value: PhantomData<fn() -> T>,
}

impl<T: Value> Value for Lazy<T> {
    const TYPE: FieldType = T::TYPE;

    fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault> {
        Ok(Lazy { table: at.written(), index, value: PhantomData })
    }
}

/// The options of a norm among other fields, merged over `[norm]`: [`ResolveContext::norm`] makes the norm.
#[derive(Clone, Debug)]
pub struct NormHere(pub(crate) Arc<WrittenTable>);

impl Value for NormHere {
    const TYPE: FieldType = FieldType::NormHere;

    fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault> {
        at.norm_here(index).map(NormHere)
    }
}

/// A mixer inside another one.
#[derive(Clone, Debug, PartialEq)]
pub struct InnerMixer(pub Component);

impl Value for InnerMixer {
    const TYPE: FieldType = FieldType::Component(Family::Mixer);

    fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault> {
        at.component(index).map(InnerMixer)
    }
}

/// The component that computes the frequencies of a rope.
#[derive(Clone, Debug, PartialEq)]
pub struct InnerRope(pub Component);

impl Value for InnerRope {
    const TYPE: FieldType = FieldType::Component(Family::Rope);

    fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault> {
        at.component(index).map(InnerRope)
    }
}

/// A norm at a role; none if the field is not written or its `when` is false.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionalNorm(pub Option<NormSite>);

impl Value for OptionalNorm {
    const TYPE: FieldType = FieldType::NormSite;

    fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault> {
        at.norm_place(index).map(OptionalNorm)
    }
}

/// An option that the language knows and this build does not support: using it is a fault in every layer with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotBuiltIn;

impl Value for NotBuiltIn {
    const TYPE: FieldType = FieldType::NotBuiltIn;

    fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault> {
        if at.is_written(index) {
            return at.not_built_in(index);
        }
        Ok(NotBuiltIn)
    }
}
