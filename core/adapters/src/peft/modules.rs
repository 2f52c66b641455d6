//! Tensors of a PEFT adapter to modules.

use super::config::{Dora, PeftConfig};
use super::keys::{Part, split};
use crate::error::{AdapterError, about, of_module};
use crate::module::{AdapterModule, LowRankPair, ModuleChange};
use crate::tensor::Tensor;
use menagerie_loaders::{SafetensorsFile, SafetensorsTensor};
use menagerie_model::{WeightBytes, WeightShape};
use std::collections::BTreeMap;

/// Parameters of experts in the order in which modules of transformers register them.
const ORDER: [&str; 2] = ["gate_up_proj", "down_proj"];

/// The tensors of one module, by what they are to it.
type Parts = BTreeMap<Part, Tensor>;

/// The modules of a file, in the order of their names.
pub(super) fn modules(
    file: &SafetensorsFile,
    config: &PeftConfig,
) -> Result<Vec<AdapterModule>, AdapterError> {
    let name = file.path().display().to_string();
    let mut modules: BTreeMap<String, Parts> = BTreeMap::new();
    for stored in file.tensors() {
        let (module, part) =
            split(stored.name()).map_err(|reason| of_module(&name, stored.name(), reason))?;
        let tensor = tensor(&name, &module, file, stored)?;
        if modules.entry(module.clone()).or_default().insert(part, tensor).is_some() {
            return Err(of_module(
                &name,
                &module,
                format!("two tensors are the same part; one is {}", stored.name()),
            ));
        }
    }
    if modules.is_empty() {
        return Err(about(&name, "no tensors: the adapter does nothing"));
    }
    let modules: Vec<AdapterModule> = modules
        .into_iter()
        .map(|(module, parts)| Module { file: &name, name: module, config }.made(parts))
        .filter_map(Result::transpose)
        .collect::<Result<_, _>>()?;
    Ok(modules)
}

fn tensor(
    name: &str,
    module: &str,
    file: &SafetensorsFile,
    stored: &SafetensorsTensor,
) -> Result<Tensor, AdapterError> {
    let Some(block) = stored.dtype().block() else {
        let reason =
            format!("tensor \"{}\" is {}; F32, F16 or BF16 is wanted", stored.name(), stored.dtype().name());
        return Err(of_module(name, module, reason));
    };
    let shape = match stored.shape() {
        [cols] => [1, *cols],
        [rows, cols] => [*rows, *cols],
        other => {
            let reason =
                format!("tensor \"{}\" has shape {other:?}; one or two dimensions are wanted", stored.name());
            return Err(of_module(name, module, reason));
        }
    };
    let [Ok(rows), Ok(cols)] = shape.map(usize::try_from) else {
        return Err(of_module(name, module, "its shape is past this machine's address space"));
    };
    let bytes = WeightBytes::Mapped(file.data(stored)?);
    let made = Tensor::new(stored.name(), bytes, block, WeightShape { count: 1, rows, cols });
    made.map_err(|error| of_module(name, module, error.to_string()))
}

/// A module that is being put together.
struct Module<'a> {
    file: &'a str,
    name: String,
    config: &'a PeftConfig,
}

impl Module<'_> {
    fn error(&self, reason: impl Into<String>) -> AdapterError {
        of_module(self.file, &self.name, reason)
    }

    /// The module, or none for a copy of the model's own weight.
    fn made(self, mut parts: Parts) -> Result<Option<AdapterModule>, AdapterError> {
        let copy = parts.remove(&Part::BaseWeight);
        let mut take = |part| parts.remove(&part);
        let (a, b) = (take(Part::A), take(Part::B));
        let (table_a, table_b) = (take(Part::TableA), take(Part::TableB));
        let (magnitude, bias, weight) = (take(Part::Magnitude), take(Part::Bias), take(Part::Weight));
        let (name, parameter) = self.parameter()?;
        let key = parameter.as_ref().map_or_else(|| name.clone(), |parameter| format!("{name}.{parameter}"));
        let pair = self.pair(a, b, &key)?;
        let table = self.pair(table_a, table_b, &key)?;
        if (self.config.dora == Dora::Present) != magnitude.is_some() && pair.is_some() {
            let what = if magnitude.is_some() { "has" } else { "lacks" };
            return Err(self.error(format!(
                "{} says use_dora = {}, and the module {what} a magnitude vector",
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
                ModuleChange::Table(LowRankPair { a: pair.a.turned(), ..pair })
            }
            (None, None, Some(pair)) if parameter.is_some() && magnitude.is_none() && bias.is_none() => {
                let pair = self.of_experts(pair, self.config.rank(&key)?)?;
                ModuleChange::Parameter { parameter: parameter.unwrap_or_default(), pair }
            }
            (None, None, pair) if pair.is_some() || bias.is_some() => {
                ModuleChange::Linear { pair, magnitude, bias }
            }
            (None, None, None) if copy.is_some() && magnitude.is_none() => return Ok(None),
            _ => return Err(self.error("its tensors do not belong together")),
        };
        Ok(Some(AdapterModule { name, change }))
    }

    /// The two matrices, checked against each other and against the configuration.
    fn pair(
        &self,
        a: Option<Tensor>,
        b: Option<Tensor>,
        key: &str,
    ) -> Result<Option<LowRankPair>, AdapterError> {
        let (a, b) = match (a, b) {
            (None, None) => return Ok(None),
            (Some(a), Some(b)) => (a, b),
            _ => return Err(self.error("one of its two matrices (A, B) is missing; the file is cut")),
        };
        let (rows, cols) = (a.shape.rows, b.shape.cols);
        if rows != cols {
            return Err(self.error(format!(
                "rank mismatch: A is {} and B is {}; A has as many rows as B has columns",
                a.written_shape(),
                b.written_shape()
            )));
        }
        let rank = self.config.rank(key)?;
        let experts = !self.config.target_parameters.is_empty() && rows.is_multiple_of(rank);
        if rows != rank && !experts {
            return Err(self.error(format!(
                "rank mismatch: the matrices have rank {rows}, and {} says {rank} (r, rank_pattern)",
                self.config.file()
            )));
        }
        Ok(Some(LowRankPair { a, b, scaling: self.config.scaling(key)? }))
    }

    /// The matrices of all experts, expert after expert. PEFT holds A as `[E * rank, in]`, and B as `[out, rank * E]` with
    /// the experts fastest.
    fn of_experts(&self, pair: LowRankPair, rank: usize) -> Result<LowRankPair, AdapterError> {
        let LowRankPair { a, b, scaling } = pair;
        let (count, cols, out) = (a.shape.rows / rank, a.shape.cols, b.shape.rows);
        let failed = |error: menagerie_model::ModelError| self.error(error.to_string());
        let a = a.reshaped(WeightShape { count, rows: rank, cols }).map_err(failed)?;
        // Turned, the experts are every `count`-th row: brought together, then each matrix turned back.
        let together: Vec<usize> =
            (0..count).flat_map(|expert| (0..rank).map(move |at| at * count + expert)).collect();
        let b = b
            .turned()
            .rows(&together)
            .reshaped(WeightShape { count, rows: rank, cols: out })
            .map_err(failed)?;
        Ok(LowRankPair { a, b: b.turned(), scaling })
    }

    /// The module and the parameter of it, where `target_parameters` names one.
    ///
    /// PEFT wraps a module once for each of its parameters, the last one outermost: each wrapper around it puts a
    /// `base_layer` into the names of those inside.
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
        // Innermost first: in the order in which the module registers them, whatever order the configuration has.
        own.sort_by_key(|parameter| ORDER.iter().position(|known| known == parameter));
        own.dedup();
        if own.len() > 1 && !own.iter().all(|parameter| ORDER.contains(parameter)) {
            return Err(
                self.error(format!("which of the parameters {} comes first is not known", own.join(", ")))
            );
        }
        if own.is_empty() {
            return match inside {
                0 => Ok((self.name.clone(), None)),
                _ => Err(self.error("layers inside layers that target_parameters does not name")),
            };
        }
        let Some(parameter) = own.len().checked_sub(inside + 1).and_then(|at| own.get(at)) else {
            return Err(self.error("more layers inside layers than target_parameters names"));
        };
        Ok((base, Some((*parameter).to_owned())))
    }
}
