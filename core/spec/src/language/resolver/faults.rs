//! Faults of expressions.

use super::Resolver;
use crate::expression::Expression;
use crate::kind::OptionResolver;
use crate::language::origin::ValueOrigin;
use crate::text::fault::RecordedFault;
use crate::text::source::MetadataValue;
use crate::text::tree::SourcePlace;

impl Resolver<'_> {
    /// A fault of an expression: in the layer if the value can differ between layers, else in the whole model. If the
    /// expression depends on a key that the user set, the fault names that setting: the spec is valid for other
    /// values.
    pub(crate) fn expression_fault(
        &mut self,
        at: (&SourcePlace, &str),
        by: &Expression,
        layer: Option<usize>,
        message: String,
    ) -> RecordedFault {
        let layer = layer.filter(|_| self.values.varies(by));
        match self.set_by_hand(by, layer) {
            Some(settings) => {
                let message = format!("{message}\nnote: {} of spec {} depends on it", at.1, self.spec.id());
                self.file_fault(layer, settings, message)
            }
            None => self.fault(at.0, at.1, layer, message),
        }
    }

    /// The settings by the user that an expression depends on, as on the command line.
    fn set_by_hand(&mut self, by: &Expression, layer: Option<usize>) -> Option<String> {
        let ValueOrigin::Override { keys } = self.values.origin(by, layer) else { return None };
        let input = self.input;
        let typed = |key: &String| match input.overrides.get(key)? {
            MetadataValue::Text(text) => Some(format!("--set {key}={text}")),
            other => Some(format!("--set {key}={other}")),
        };
        let settings: Vec<String> = keys.iter().filter_map(typed).collect();
        (!settings.is_empty()).then(|| settings.join(" "))
    }
}
