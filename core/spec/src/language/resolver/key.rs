//! Counts that keys of the file give.

use super::Resolver;
use crate::expression::as_count;
use crate::kind::OptionResolver;
use crate::text::fault::RecordedFault;

impl Resolver<'_> {
    /// The count that a standard key (or its default) gives.
    pub(crate) fn standard_count(
        &mut self,
        key: &'static str,
        layer: Option<usize>,
    ) -> Result<usize, RecordedFault> {
        let (value, _) = self.key_value(key, layer)?;
        as_count(value).ok_or_else(|| self.key_fault(layer, key, format!("{value} is not a count")))
    }
}
