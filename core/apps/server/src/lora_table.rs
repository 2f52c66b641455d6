//! [`LoraTable`]: the adapters of a model by number, as llama-server names them in requests.

use crate::object_fields::ObjectFields;
use menagerie::engine::AdapterChoice;
use menagerie::model::{Adapter, AdapterSet, Backend};
use menagerie_openai::LineFault;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The field of a request with adapters and their scales.
const FIELD: &str = "lora";

/// The adapters of a model: first those with which it was opened, then those that requests name.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoraTable(Vec<NumberedAdapter>);

/// An adapter; its number is its place.
#[derive(Clone, Debug)]
struct NumberedAdapter {
    adapter: Arc<Adapter>,
    /// Its scale in requests that do not say it.
    scale: f32,
}

impl LoraTable {
    /// The adapters `opened` act in each request, and those `named` in requests that name them.
    pub(crate) fn new(opened: Option<&AdapterSet>, named: &[(String, Arc<AdapterSet>)]) -> Self {
        let mut all = Vec::new();
        for (adapter, scale) in opened.into_iter().flat_map(AdapterSet::adapters) {
            all.push(NumberedAdapter { adapter: Arc::clone(adapter), scale });
        }
        for (adapter, _) in named.iter().flat_map(|(_, set)| set.adapters()) {
            all.push(NumberedAdapter { adapter: Arc::clone(adapter), scale: 0.0 });
        }
        Self(all)
    }

    /// The adapters as `/lora-adapters` lists them.
    pub(crate) fn listed(&self) -> Value {
        let one = |(id, one): (usize, &NumberedAdapter)| json!({ "id": id, "path": one.adapter.name(), "scale": one.scale });
        self.0.iter().enumerate().map(one).collect()
    }

    /// The adapters of a request, if it has the field: `[{"id": 0, "scale": 0.5}]`. Others do not act. `usual` are those of
    /// requests without the field.
    pub(crate) fn take(
        &self,
        fields: &mut Map<String, Value>,
        usual: &AdapterChoice,
        backend: &dyn Backend,
    ) -> Result<Option<AdapterChoice>, LineFault> {
        let wrong = |reason: String| LineFault::of(FIELD, reason);
        let list = match fields.remove(FIELD) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Array(list)) => list,
            Some(_) => return Err(wrong("expected a list of objects with id and scale".to_owned())),
        };
        if matches!(usual, AdapterChoice::Set(_)) {
            let reason =
                "the name of the model names its adapter; name the model without it, or leave this out";
            return Err(wrong(reason.to_owned()));
        }
        let mut scales: Vec<Option<f32>> = vec![None; self.0.len()];
        for (index, entry) in list.into_iter().enumerate() {
            let mut entry = ObjectFields::read(format!("{FIELD}[{index}]"), entry)?;
            let id = entry.take("id").and_then(|id| id.as_u64()).and_then(|id| usize::try_from(id).ok());
            let scale = entry.take("scale").and_then(|scale| scale.as_f64()).map(|scale| scale as f32);
            let Some(place) = id.and_then(|id| scales.get_mut(id)) else {
                let reason = match self.0.len() {
                    0 => "the model has no adapters (--lora, --adapter)".to_owned(),
                    count => {
                        format!("expected the number of an adapter, from 0 to {} (/lora-adapters)", count - 1)
                    }
                };
                return Err(entry.fault("id", reason));
            };
            let scale = scale.filter(|scale| scale.is_finite());
            let scale = scale.ok_or_else(|| entry.fault("scale", "expected a number"))?;
            if place.replace(scale).is_some() {
                return Err(entry.fault("id", "the adapter is listed twice"));
            }
            entry.finish()?;
        }
        let acting = self.0.iter().zip(scales);
        let members: Vec<_> = acting
            .filter_map(|(one, scale)| Some((Arc::clone(&one.adapter), scale.filter(|scale| *scale != 0.0)?)))
            .collect();
        if members.is_empty() {
            return Ok(Some(AdapterChoice::Bare));
        }
        let set = AdapterSet::new(members, backend).map_err(|error| wrong(error.to_string()))?;
        Ok(Some(AdapterChoice::Set(Arc::new(set))))
    }
}
