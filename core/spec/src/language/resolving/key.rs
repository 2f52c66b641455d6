//! Numbers and counts that keys of the file hold.

use super::Resolver;
use super::value::{as_count, as_number};
use crate::language::report::ValueOrigin;
use crate::text::fault::Noted;

impl Resolver<'_> {
    /// The number that a key (or its standard default) gives, and where it came from.
    pub(crate) fn key_value(
        &mut self,
        key: &'static str,
        layer: Option<usize>,
    ) -> Result<(f64, ValueOrigin), Noted> {
        let found = self.values.key(key).and_then(|expression| {
            let value = self.values.shared(&expression, layer)?;
            as_number(&value, &expression).map(|value| (value, self.values.origin(&expression, layer)))
        });
        match found {
            Ok(found) => Ok(found),
            Err(message) => {
                let missing = self.values.frame(layer).get(key).is_none();
                let varies = self.values.facts.varies_by_default(key);
                let message =
                    if missing { format!("missing; spec {} needs it", self.spec.id()) } else { message };
                Err(self.key_fault(layer.filter(|_| varies), key, message))
            }
        }
    }

    /// The count that a key (or its standard default) gives.
    pub(crate) fn key_count(
        &mut self,
        key: &'static str,
        layer: Option<usize>,
    ) -> Result<(usize, ValueOrigin), Noted> {
        let (value, origin) = self.key_value(key, layer)?;
        match as_count(value) {
            Some(count) => Ok((count, origin)),
            None => Err(self.key_fault(layer, key, format!("{value} is not a count"))),
        }
    }

    /// A count that a standard key gives.
    pub(crate) fn standard_count(&mut self, key: &'static str, layer: Option<usize>) -> Result<usize, Noted> {
        self.key_count(key, layer).map(|(count, _)| count)
    }
}
