//! Keys of a model whose values are tensors of one element instead of entries in the config (`[hf.numbers]`).

use super::floats::floats;
use super::renumbered;
use menagerie_loaders::Shards;
use menagerie_spec::{ArchSpec, HfClass, HfKeys, KeySource, MetadataValue};
use std::collections::HashMap;

/// Sets the keys of `spec` whose values are tensors of `shards`. A key without a tensor stays unset.
///
/// # Errors
/// A tensor is not a single number, or only some of the blocks have it.
pub(crate) fn set_numbers(
    keys: &mut HfKeys,
    spec: &ArchSpec,
    class: &HfClass,
    shards: &Shards,
) -> Result<(), String> {
    if spec.hf.numbers.is_empty() {
        return Ok(());
    }
    let names = shards.tensors().map(|tensor| class.renamed(tensor.name()).into_owned()).collect();
    let names = renumbered(names, &spec.hf);
    let index: HashMap<&str, usize> =
        names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
    let blocks = keys.get("block_count").and_then(|count| count.first_count()).unwrap_or(0);
    for (key, from) in &spec.hf.numbers {
        let of = |layer| index.get(spec.hf_number_name(from, layer).as_str()).copied();
        if !from.starts_with('.') {
            if let Some(at) = of(0) {
                keys.set_number(key, MetadataValue::Number(number(shards, at)?), from);
            }
            continue;
        }
        // Stops at the first block without the tensor, independent of the config.
        let found: Vec<usize> = (0..blocks).map_while(of).collect();
        if found.len() < blocks && (0..names.len().min(blocks)).any(|layer| of(layer).is_some()) {
            return Err(format!(
                "tensor \"{}\": missing, although other blocks have it; the folder is incomplete",
                spec.hf_number_name(from, found.len())
            ));
        }
        let values: Result<Vec<MetadataValue>, String> =
            found.into_iter().map(|at| number(shards, at).map(MetadataValue::Number)).collect();
        let values = values?;
        if !values.is_empty() {
            keys.set_number(key, MetadataValue::List(values), &spec.hf_number_name(from, 0));
        }
    }
    Ok(())
}

/// The single number of a tensor.
fn number(shards: &Shards, at: usize) -> Result<f64, String> {
    let tensor = shards.tensor(at).ok_or("no such tensor")?;
    if tensor.elements() != 1 {
        return Err(format!(
            "tensor \"{}\": expected a single number, found {:?}; the folder belongs to another model",
            tensor.name(),
            tensor.shape()
        ));
    }
    let bytes = shards.data(at).ok_or("no such tensor")?.map_err(|error| error.to_string())?;
    match floats(tensor, &bytes)?.first() {
        Some(number) if number.is_finite() => Ok(f64::from(*number)),
        other => Err(format!(
            "tensor \"{}\": expected a finite number, found {other:?}; download the file again",
            tensor.name()
        )),
    }
}
