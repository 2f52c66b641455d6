//! [`QuantizedTensors`]: quantizes a model while it is loaded, tensor by tensor, with the same result as `quantize`.

use crate::error::LoadError;
use crate::memory::size;
use crate::notice::Notice;
use crate::options::LoadQuantization;
use crate::request::{LoadProgress, LoadRequest};
use crate::resolved::ResolvedFile;
use gguf_file::GgmlType;
use menagerie_assembly::{ModelTensors, StoredNumbers, TensorEntry, TensorPiece, WeightSource};
use menagerie_kernels::Cpu;
use menagerie_model::{ModelError, Weight, WeightBytes, WeightShape};
use menagerie_quantize::{ModelFacts, PolicyTensor, QuantizeError, TensorSource, TypeChoice, is_rounded};
use menagerie_registry::TensorPart;
use menagerie_spec::RoleSource;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Tensors of a model, some of them in other types than the file has.
pub(crate) struct QuantizedTensors {
    inner: Arc<dyn ModelTensors>,
    entries: Vec<TensorEntry>,
    /// The name of each tensor in a GGUF file, and its new type if it changes.
    names: Vec<Option<String>>,
    kinds: Vec<Option<GgmlType>>,
    quantization: LoadQuantization,
    progress: Option<LoadProgress>,
    cpu: Cpu,
    /// Quantized tensors: a model that runs its blocks several times loads a tensor more than once.
    made: Mutex<HashMap<usize, Weight>>,
    done: AtomicUsize,
}

impl QuantizedTensors {
    /// Plans the tensors of a file.
    ///
    /// # Errors
    /// [`LoadError::Quantization`]: weights that are quantized already, types that need importance, rows that fit no type.
    fn new(
        resolved: &ResolvedFile,
        quantization: &LoadQuantization,
        request: &LoadRequest,
    ) -> Result<Self, LoadError> {
        let about = |source| LoadError::Quantization { file: resolved.file_name(), source };
        let inner = Arc::clone(&resolved.tensors);
        let names: Vec<Option<String>> =
            (0..inner.entries().len()).map(|at| inner.canonical_name(at)).collect();
        let tensors: Vec<PolicyTensor> =
            inner.entries().iter().zip(&names).filter_map(policy_tensor).collect();
        let keys = resolved.file.keys(&resolved.spec)?;
        let mut policy = quantization.policy.clone();
        policy.importance = quantization.importance.is_some();
        let facts = ModelFacts::of(|key| keys.get(key)?.first_count());
        let choices = policy.choose(&tensors, &facts).map_err(about)?;
        check_model(&tensors, quantization).map_err(about)?;
        for (tensor, choice) in tensors.iter().zip(&choices) {
            check(tensor, *choice, quantization).map_err(about)?;
        }
        let mut chosen = tensors
            .iter()
            .zip(&choices)
            .map(|(tensor, choice)| (choice.kind != tensor.kind).then_some(choice.kind));
        let kinds: Vec<Option<GgmlType>> =
            names.iter().map(|name| name.as_ref().and_then(|_| chosen.next().flatten())).collect();
        let entries = inner.entries().iter().zip(&kinds).map(|(entry, kind)| changed(entry, *kind)).collect();
        let cpu = Cpu::new(request.options.placement.threads).map_err(|error| about(error.into()))?;
        let quantization = LoadQuantization { policy, ..quantization.clone() };
        let (made, done) = (Mutex::default(), AtomicUsize::new(0));
        let progress = request.progress.clone();
        Ok(Self { inner, entries, names, kinds, quantization, progress, cpu, made, done })
    }

    /// Bytes of all tensors in their new types.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_of(&self.entries)
    }

    /// Bytes of the tensors that are used; parts of other tensors are not counted twice.
    fn bytes_of(&self, entries: &[TensorEntry]) -> u64 {
        let named = entries.iter().zip(&self.names).filter(|(_, name)| name.is_some());
        named.map(|(entry, _)| entry.bytes).sum()
    }

    /// Frees the quantized tensors, for a device that has its own copies.
    pub(crate) fn forget(&self) {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What the load reports.
    pub(crate) fn notice(&self) -> Notice {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for (entry, _) in self.entries.iter().zip(&self.kinds).filter(|(_, kind)| kind.is_some()) {
            *kinds.entry(&entry.kind).or_default() += 1;
        }
        let list: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} as {kind}")).collect();
        let before = self.bytes_of(self.inner.entries());
        Notice::Note(format!(
            "quantized while loading to {}: {} of {} tensors ({}), {} instead of {}",
            self.quantization.policy.file_type(),
            self.kinds.iter().flatten().count(),
            self.names.iter().flatten().count(),
            list.join(", "),
            size(self.bytes()),
            size(before)
        ))
    }

    fn make(&self, index: usize, kind: GgmlType) -> Result<Weight, ModelError> {
        let stored = self.inner.weight(index)?;
        let WeightShape { count, rows, cols } = stored.shape();
        let name = self.names.get(index).and_then(Option::as_deref).unwrap_or_default();
        let failed = |error: QuantizeError| ModelError::Weights(error.to_string());
        let importance = match &self.quantization.importance {
            Some((_, importance)) => importance.of(name, count, cols).map_err(failed)?,
            None => None,
        };
        let mut blocks = Vec::with_capacity(self.entries.get(index).map_or(0, |entry| entry.bytes as usize));
        for matrix in 0..count {
            let bytes = stored.matrix(matrix)?;
            let own = importance.as_ref().and_then(|all| all.get(matrix * cols..(matrix + 1) * cols));
            let source =
                TensorSource { name: stored.name(), kind: stored.block(), bytes, count: 1, rows, cols };
            let encoded = source.encode(&self.cpu, kind, own, &mut |part| {
                blocks.extend_from_slice(part);
                Ok::<(), QuantizeError>(())
            });
            encoded.map_err(failed)?;
        }
        let weight = Weight::new(stored.name(), WeightBytes::Owned(Arc::new(blocks)), kind, stored.shape())?;
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(LoadProgress(progress)) = &self.progress {
            progress(done, self.kinds.iter().flatten().count());
        }
        Ok(weight)
    }
}

impl WeightSource for QuantizedTensors {
    fn file(&self) -> String {
        self.inner.file()
    }

    fn entries(&self) -> &[TensorEntry] {
        &self.entries
    }

    fn canonical_name(&self, index: usize) -> Option<String> {
        self.inner.canonical_name(index)
    }

    fn file_tensors(&self) -> usize {
        self.inner.file_tensors()
    }

    fn pieces(&self, index: usize) -> &[TensorPiece] {
        self.inner.pieces(index)
    }

    fn stored_numbers(&self, index: usize) -> Result<Vec<StoredNumbers>, ModelError> {
        self.inner.stored_numbers(index)
    }

    fn converted_bytes(&self) -> u64 {
        self.bytes()
    }

    fn ignore_table(&self) -> &'static str {
        self.inner.ignore_table()
    }

    fn find(&self, role: &str, layer: Option<usize>, part: TensorPart) -> Option<usize> {
        self.inner.find(role, layer, part)
    }

    fn name_of(&self, role: &str, layer: Option<usize>, part: TensorPart) -> String {
        self.inner.name_of(role, layer, part)
    }

    fn weight(&self, index: usize) -> Result<Weight, ModelError> {
        let Some(kind) = self.kinds.get(index).copied().flatten() else { return self.inner.weight(index) };
        if let Some(known) = self.made.lock().unwrap_or_else(PoisonError::into_inner).get(&index) {
            return Ok(known.clone());
        }
        let weight = self.make(index, kind)?;
        self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(index, weight.clone());
        Ok(weight)
    }

    fn ignored(&self, index: usize, layers: usize) -> Option<String> {
        self.inner.ignored(index, layers)
    }
}

impl RoleSource for QuantizedTensors {
    fn has(&self, role: &str, layer: Option<usize>) -> bool {
        self.inner.has(role, layer)
    }
}

fn policy_tensor((entry, name): (&TensorEntry, &Option<String>)) -> Option<PolicyTensor> {
    // 8-bit floats, which GGUF has no type for, are widened when they are loaded.
    let kind = GgmlType::from_name(&entry.kind).unwrap_or(GgmlType::F32);
    Some(PolicyTensor { name: name.clone()?, dims: entry.dims.clone(), kind })
}

/// The entry of a tensor in its new type.
fn changed(entry: &TensorEntry, kind: Option<GgmlType>) -> TensorEntry {
    let Some(kind) = kind else { return entry.clone() };
    let rows = entry.dims.iter().skip(1).product::<u64>();
    let row = kind.row_bytes(entry.dims.first().copied().unwrap_or(0));
    let bytes = row.and_then(|row| row.checked_mul(rows)).unwrap_or(entry.bytes);
    TensorEntry { kind: kind.to_string(), bytes, ..entry.clone() }
}

/// The importance matrix must be that of this model.
fn check_model(tensors: &[PolicyTensor], quantization: &LoadQuantization) -> Result<(), QuantizeError> {
    let Some((file, importance)) = &quantization.importance else { return Ok(()) };
    match tensors.iter().any(|tensor| importance.entries.contains_key(&tensor.name)) {
        true => Ok(()),
        false => Err(importance.of_other_model(file)),
    }
}

fn check(
    tensor: &PolicyTensor,
    choice: TypeChoice,
    quantization: &LoadQuantization,
) -> Result<(), QuantizeError> {
    let file = quantization.policy.file_type();
    if choice.kind == tensor.kind {
        return Ok(());
    }
    if is_rounded(tensor.kind) && !quantization.requantize {
        return Err(QuantizeError::Requantized { tensor: tensor.name.clone(), from: tensor.kind, file });
    }
    let dim = |at: usize| tensor.dims.get(at).map_or(1, |size| usize::try_from(*size).unwrap_or(usize::MAX));
    let known = match &quantization.importance {
        Some((_, importance)) => importance.of(&tensor.name, dim(2), dim(0))?.is_some(),
        None => false,
    };
    if choice.needs_importance && !known {
        return Err(QuantizeError::missing_importance(&tensor.name, choice.kind));
    }
    Ok(())
}

/// Replaces the tensors of a file by quantized ones, if the options request it.
pub(crate) fn quantized(
    resolved: &mut ResolvedFile,
    request: &LoadRequest,
) -> Result<Option<Arc<QuantizedTensors>>, LoadError> {
    let Some(quantization) = &request.options.weights.quantization else { return Ok(None) };
    let tensors = Arc::new(QuantizedTensors::new(resolved, quantization, request)?);
    resolved.tensors = Arc::<QuantizedTensors>::clone(&tensors);
    Ok(Some(tensors))
}
