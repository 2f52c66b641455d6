//! [`collapsed`]: removes the cases of components that no layer of a model has.

use super::composition::fit_of;
use super::evidence::Evidence;
use menagerie_spec::kind::Kinds;
use serde_json::Value;

/// The document with a single case for each component if all layers of the model have it. The meaning for the model stays
/// the same.
pub fn collapsed(document: &Value, evidence: &Evidence, kinds: &Kinds) -> Value {
    let mut document = document.clone();
    for section in ["mixer", "feed_forward"] {
        let Some(cases) = document.get(section).and_then(Value::as_object).cloned() else { continue };
        if cases.contains_key("kind") {
            continue;
        }
        let Some(before) = fit_of(&document, evidence, kinds) else { continue };
        let config =
            |fit: &super::Fit| fit.resolution.as_ref().map(|resolution| resolution.config.layers.clone());
        let mut forms = cases.values().map(|case| {
            let mut form = document.clone();
            form[section] = case.clone();
            if let Some(table) = form[section].as_object_mut() {
                table.remove("when");
            }
            form
        });
        let same = forms.find(|form| {
            fit_of(form, evidence, kinds)
                .is_some_and(|fit| config(&fit).is_some() && config(&fit) == config(&before))
        });
        document = same.unwrap_or(document);
    }
    document
}
