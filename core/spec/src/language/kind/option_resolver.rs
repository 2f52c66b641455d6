//! [`OptionResolver`]: the interface of the resolver of specs to the kinds.

use super::written::{BySource, Cases, Condition, NameChoice, Scalar, When, WrittenField, WrittenTable};
use super::{Component, RecordedFault};
use crate::language::origin::ValueOrigin;
use crate::text::source::MetadataValue;
use crate::text::tree::SourcePlace;
use std::sync::Arc;

/// A value to be recorded.
pub(crate) struct OptionRecord<'p> {
    /// Dotted path in the spec.
    pub(crate) path: &'p str,
    /// The layer, or the whole model.
    pub(crate) layer: Option<usize>,
    /// The value, as text.
    pub(crate) value: String,
    /// The origin of the value.
    pub(crate) origin: ValueOrigin,
    /// Whether an error in it would show only in the logits.
    pub(crate) guarded: bool,
}

/// Resolves written options against one file.
///
/// Kinds read their options through a [`ResolveContext`](super::ResolveContext), which calls the resolver; the resolver
/// depends on specs, and specs on kinds. With this trait, kinds do not depend on the resolver.
pub(crate) trait OptionResolver {
    /// Id of the spec.
    fn spec_id(&self) -> &str;

    /// Whether the file has a role's tensor, in a layer or in the whole model.
    fn has_role(&self, role: &str, layer: Option<usize>) -> bool;

    /// A key of the file as it is, for a value that depends on it.
    fn consult(&self, key: &str) -> Option<&MetadataValue>;

    /// A key of the file in a layer.
    fn key_in_layer(&self, key: &str, layer: Option<usize>) -> Option<&MetadataValue>;

    /// Whether the file has a key; asking does not count as a use of it.
    fn has_key(&self, key: &str) -> bool;

    /// A key as the file spells it.
    fn spelled(&self, key: &str) -> String;

    /// Whether the user accepts a key unread, canonical or as the file spells it; it is then reported as accepted.
    fn accept(&mut self, key: &str) -> bool;

    /// Records a fault of the spec, in a layer or in the whole model.
    fn fault(
        &mut self,
        place: &SourcePlace,
        path: &str,
        layer: Option<usize>,
        message: String,
    ) -> RecordedFault;

    /// Records a fault of the file, in a layer or in the whole model.
    fn file_fault(&mut self, layer: Option<usize>, subject: String, message: String) -> RecordedFault;

    /// Records a fault of a key of the file.
    fn key_fault(&mut self, layer: Option<usize>, key: &str, message: String) -> RecordedFault {
        let subject = format!("key {}", self.spelled(key));
        self.file_fault(layer, subject, message)
    }

    /// The number that a key (or its standard default) gives, and where it came from.
    fn key_value(
        &mut self,
        key: &'static str,
        layer: Option<usize>,
    ) -> Result<(f64, ValueOrigin), RecordedFault>;

    /// A number, before rounding.
    fn number(
        &mut self,
        at: &WrittenField,
        value: &BySource<Scalar>,
        layer: Option<usize>,
    ) -> Result<(f64, ValueOrigin), RecordedFault>;

    /// A boolean and its origin.
    fn condition(
        &mut self,
        at: (&SourcePlace, &str),
        condition: &Condition,
        layer: Option<usize>,
    ) -> Result<(bool, ValueOrigin), RecordedFault>;

    /// The value of a condition, recorded.
    fn when(&mut self, when: &When, layer: Option<usize>) -> Result<bool, RecordedFault>;

    /// A name of a list and where it came from.
    fn choice(
        &mut self,
        at: &WrittenField,
        choice: &NameChoice,
        layer: Option<usize>,
    ) -> Result<(usize, ValueOrigin), RecordedFault>;

    /// The case that applies in a layer; for an unnamed component, the component itself unless its `when` is false.
    fn case(
        &mut self,
        cases: &Cases,
        layer: Option<usize>,
    ) -> Result<Option<Arc<WrittenTable>>, RecordedFault>;

    /// The component of a layer, if it has one.
    fn component(&mut self, cases: &Cases, layer: usize) -> Result<Option<Component>, RecordedFault>;

    /// The config of a table that has a kind. `roles` are where a norm has its tensors.
    fn resolve_kind(
        &mut self,
        table: Arc<WrittenTable>,
        layer: Option<usize>,
        roles: &[&str],
    ) -> Result<Option<Component>, RecordedFault>;

    /// Records where a value came from; the same value in another layer only adds the layer.
    fn record(&mut self, record: OptionRecord<'_>);
}
