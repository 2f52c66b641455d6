//! Numbers and counts that keys of the file hold.

use super::Resolver;
use super::value::{as_count, as_number};
use crate::language::report::ValueOrigin;

impl Resolver<'_> {
    /// The number that a key (or its standard default) gives, and where it came from.
    pub(crate) fn key_value(
        &mut self,
        key: &'static str,
        layer: Option<usize>,
    ) -> Option<(f64, ValueOrigin)> {
        let found = self.values.key(key).and_then(|expression| {
            let value = self.values.shared(&expression, layer)?;
            as_number(&value, &expression).map(|value| (value, self.values.origin(&expression, layer)))
        });
        match found {
            Ok(found) => Some(found),
            Err(message) => {
                let missing = self.values.frame(layer).get(key).is_none();
                let varies = self.values.facts.varies_by_default(key);
                let message =
                    if missing { format!("missing; spec {} needs it", self.spec.id()) } else { message };
                self.key_fault(layer.filter(|_| varies), key, message);
                None
            }
        }
    }

    /// The count that a key (or its standard default) gives.
    pub(crate) fn key_count(
        &mut self,
        key: &'static str,
        layer: Option<usize>,
    ) -> Option<(usize, ValueOrigin)> {
        let (value, origin) = self.key_value(key, layer)?;
        let count = as_count(value);
        if count.is_none() {
            self.key_fault(layer, key, format!("{value} is not a count"));
        }
        count.map(|count| (count, origin))
    }

    /// A count that a standard key gives.
    pub(crate) fn standard_count(&mut self, key: &'static str, layer: Option<usize>) -> Option<usize> {
        self.key_count(key, layer).map(|(count, _)| count)
    }
}
