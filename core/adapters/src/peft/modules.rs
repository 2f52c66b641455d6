//! From the tensors of a PEFT adapter to modules.

use super::config::{Dora, PeftConfig};
use super::tensor_name::{TensorPurpose, split};
use crate::adapter_tensor::AdapterTensor;
use crate::error::{AdapterError, about, of_module};
use crate::module::{AdapterModule, LowRankPair, ModuleChange};
use menagerie_loaders::{SafetensorsFile, SafetensorsTensor};
use menagerie_model::{WeightBytes, WeightShape};
use std::collections::BTreeMap;

/// Parameters of experts in the order in which transformers registers them.
const ORDER: [&str; 2] = ["gate_up_proj", "down_proj"];

/// The tensors of a module by purpose.
type ModuleTensors = BTreeMap<TensorPurpose, AdapterTensor>;

/// The modules of a file, in the order of their names.
pub(super) fn modules(
    file: &SafetensorsFile,
    config: &PeftConfig,
) -> Result<Vec<AdapterModule>, AdapterError> {
    let name = file.path().display().to_string();
    let mut modules: BTreeMap<String, ModuleTensors> = BTreeMap::new();
    for stored in file.tensors() {
        let (module, part) =
            split(stored.name()).map_err(|reason| of_module(&name, stored.name(), reason))?;
        let tensor = tensor(&name, &module, file, stored)?;
        if modules.entry(module.clone()).or_default().insert(part, tensor).is_some() {
            return Err(of_module(
                &name,
                &module,
                format!("two tensors have the same purpose; one is {}", stored.name()),
            ));
        }
    }
    if modules.is_empty() {
        return Err(about(&name, "the adapter has no tensors; save it again"));
    }
    let modules: Vec<AdapterModule> = modules
        .into_iter()
        .map(|(module, parts)| ModuleBuilder { file: &name, name: module, config }.build(parts))
        .filter_map(Result::transpose)
        .collect::<Result<_, _>>()?;
    Ok(modules)
}

fn tensor(
    name: &str,
    module: &str,
    file: &SafetensorsFile,
    stored: &SafetensorsTensor,
) -> Result<AdapterTensor, AdapterError> {
    let Some(block) = stored.dtype().block() else {
        let reason = format!(
            "tensor \"{}\": expected F32, F16 or BF16, found {}",
            stored.name(),
            stored.dtype().name()
        );
        return Err(of_module(name, module, reason));
    };
    let shape = match stored.shape() {
        [cols] => [1, *cols],
        [rows, cols] => [*rows, *cols],
        other => {
            let reason = format!(
                "tensor \"{}\": expected one or two dimensions, found shape {other:?}",
                stored.name()
            );
            return Err(of_module(name, module, reason));
        }
    };
    let [Ok(rows), Ok(cols)] = shape.map(usize::try_from) else {
        return Err(of_module(name, module, "its shape is too large for this machine"));
    };
    let bytes = WeightBytes::Mapped(file.data(stored)?);
    let made = AdapterTensor::new(stored.name(), bytes, block, WeightShape { count: 1, rows, cols });
    made.map_err(|error| of_module(name, module, error.to_string()))
}

/// Builds a module from its tensors.
struct ModuleBuilder<'a> {
    file: &'a str,
    name: String,
    config: &'a PeftConfig,
}

impl ModuleBuilder<'_> {
    fn error(&self, reason: impl Into<String>) -> AdapterError {
        of_module(self.file, &self.name, reason)
    }

    /// The module; `None` for a copy of the model's weight.
    fn build(self, mut tensors: ModuleTensors) -> Result<Option<AdapterModule>, AdapterError> {
        let copy = tensors.remove(&TensorPurpose::BaseWeight);
        let mut take = |part| tensors.remove(&part);
        let (a, b) = (take(TensorPurpose::A), take(TensorPurpose::B));
        let (table_a, table_b) = (take(TensorPurpose::TableA), take(TensorPurpose::TableB));
        let (magnitude, bias, weight) =
            (take(TensorPurpose::Magnitude), take(TensorPurpose::Bias), take(TensorPurpose::Weight));
        let (name, parameter) = self.parameter()?;
        let key = parameter.as_ref().map_or_else(|| name.clone(), |parameter| format!("{name}.{parameter}"));
        let pair = self.pair(a, b, &key)?;
        let table = self.pair(table_a, table_b, &key)?;
        if (self.config.dora == Dora::Present) != magnitude.is_some() && pair.is_some() {
            let what = if magnitude.is_some() { "has" } else { "lacks" };
            return Err(self.error(format!(
                "{} has use_dora = {}, but the module {what} a magnitude vector",
                self.config.file(),
                magnitude.is_none()
            )));
        }
        let change = match (weight, table, pair) {
            (Some(weight), None, None) if magnitude.is_none() => ModuleChange::Whole { weight, bias },
            (None, Some(_), None) if magnitude.is_some() => {
                return Err(self.error("DoRA of an embedding is not supported; merge the adapter with PEFT"));
            }
            (None, Some(pair), None) if bias.is_none() => {
                ModuleChange::Table(LowRankPair { a: pair.a.transposed(), ..pair })
            }
            (None, None, Some(pair)) if parameter.is_some() && magnitude.is_none() && bias.is_none() => {
                let pair = self.of_experts(pair, self.config.rank(&key)?)?;
                ModuleChange::Parameter { parameter: parameter.unwrap_or_default(), pair }
            }
            (None, None, pair) if pair.is_some() || bias.is_some() => {
                ModuleChange::Linear { pair, magnitude, bias }
            }
            (None, None, None) if copy.is_some() && magnitude.is_none() => return Ok(None),
            _ => {
                return Err(
                    self.error("this combination of tensors is not supported; merge the adapter with PEFT")
                );
            }
        };
        Ok(Some(AdapterModule { name, change }))
    }

    /// The two matrices, checked against each other and against the configuration.
    fn pair(
        &self,
        a: Option<AdapterTensor>,
        b: Option<AdapterTensor>,
        key: &str,
    ) -> Result<Option<LowRankPair>, AdapterError> {
        let (a, b) = match (a, b) {
            (None, None) => return Ok(None),
            (Some(a), Some(b)) => (a, b),
            _ => return Err(self.error("one of its two matrices (A, B) is missing; the file is incomplete")),
        };
        let (rows, cols) = (a.shape.rows, b.shape.cols);
        if rows != cols {
            return Err(self.error(format!(
                "rank mismatch: A is {} and B is {}; expected as many rows of A as columns of B",
                a.written_shape(),
                b.written_shape()
            )));
        }
        let rank = self.config.rank(key)?;
        let experts = !self.config.target_parameters.is_empty() && rows.is_multiple_of(rank);
        if rows != rank && !experts {
            return Err(self.error(format!(
                "rank mismatch: the matrices have rank {rows}, but {} says {rank} (r, rank_pattern)",
                self.config.file()
            )));
        }
        Ok(Some(LowRankPair { a, b, scaling: self.config.scaling(key)? }))
    }

    /// The matrices of all experts, in order. PEFT stores A as `[E * rank, in]`, and B as `[out, rank * E]` with the experts
    /// fastest.
    fn of_experts(&self, pair: LowRankPair, rank: usize) -> Result<LowRankPair, AdapterError> {
        let LowRankPair { a, b, scaling } = pair;
        let (count, cols, out) = (a.shape.rows / rank, a.shape.cols, b.shape.rows);
        let failed = |error: menagerie_model::ModelError| self.error(error.to_string());
        let a = a.reshaped(WeightShape { count, rows: rank, cols }).map_err(failed)?;
        // In the transposed B, an expert has every `count`-th row: these are collected, then each matrix is transposed back.
        let together: Vec<usize> =
            (0..count).flat_map(|expert| (0..rank).map(move |at| at * count + expert)).collect();
        let b = b
            .transposed()
            .rows(&together)
            .reshaped(WeightShape { count, rows: rank, cols: out })
            .map_err(failed)?;
        Ok(LowRankPair { a, b: b.transposed(), scaling })
    }

    /// The module, and its parameter if `target_parameters` names one.
    ///
    /// PEFT wraps a module once for each of its parameters, the last one outermost. Each wrapper adds a `base_layer` to the
    /// names inside.
    fn parameter(&self) -> Result<(String, Option<String>), AdapterError> {
        let base = self.name.replace(".base_layer", "");
        let inside = self.name.matches(".base_layer").count();
        let targets = self.config.target_parameters.iter().filter_map(|target| target.rsplit_once('.'));
        let mut own: Vec<&str> = targets
            .filter(|(module, _)| {
                base.strip_suffix(*module).is_some_and(|before| before.is_empty() || before.ends_with('.'))
            })
            .map(|(_, parameter)| parameter)
            .collect();
        // Innermost first: in the order in which the module registers them, independent of the configuration.
        own.sort_by_key(|parameter| ORDER.iter().position(|known| known == parameter));
        own.dedup();
        if own.len() > 1 && !own.iter().all(|parameter| ORDER.contains(parameter)) {
            return Err(self.error(format!(
                "the order of the parameters {} is unknown; merge the adapter with PEFT",
                own.join(", ")
            )));
        }
        if own.is_empty() {
            return match inside {
                0 => Ok((self.name.clone(), None)),
                _ => Err(self.error("its name has a base_layer that target_parameters does not explain")),
            };
        }
        let Some(parameter) = own.len().checked_sub(inside + 1).and_then(|at| own.get(at)) else {
            return Err(self.error("its name has more base_layer than target_parameters explains"));
        };
        Ok((base, Some((*parameter).to_owned())))
    }
}
