//! Numbers and counts that keys of the file hold.

use super::Resolver;
use crate::expression::as_count;
use crate::kind::OptionResolver;
use crate::language::origin::ValueOrigin;
use crate::text::fault::RecordedFault;

impl Resolver<'_> {
    /// The count that a key (or its standard default) gives.
    pub(crate) fn key_count(
        &mut self,
        key: &'static str,
        layer: Option<usize>,
    ) -> Result<(usize, ValueOrigin), RecordedFault> {
        let (value, origin) = self.key_value(key, layer)?;
        match as_count(value) {
            Some(count) => Ok((count, origin)),
            None => Err(self.key_fault(layer, key, format!("{value} is not a count"))),
        }
    }

    /// A count that a standard key gives.
    pub(crate) fn standard_count(
        &mut self,
        key: &'static str,
        layer: Option<usize>,
    ) -> Result<usize, RecordedFault> {
        self.key_count(key, layer).map(|(count, _)| count)
    }
}
