//! [`CountingBackend`]: counts the operations of a step, and the bytes of rows that it copies.

use crate::operations::operations;
use menagerie_model::{
    Activation, Arithmetic, AttentionBiases, AttentionShape, AttentionStates, Backend, ExpertPlan, Gating,
    LinearAttentionInputs, LinearAttentionShape, LinearInput, Operation, Packing, Param, Product, Result,
    RopeTable, Rotation, RouterApply, Rows, SelectiveScanInputs, StateBacking, StateId, StateMemory,
    StatePlan, StateStep, Weight,
};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The number of operations by name, and of copied bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of calls of each operation.
    pub calls: BTreeMap<&'static str, usize>,
    /// Bytes of rows that were copied from existing values.
    pub copied: usize,
}

/// A backend that passes the required operations to another one and counts them.
pub struct CountingBackend {
    inner: Arc<dyn Backend>,
    counts: Mutex<Counts>,
}

impl CountingBackend {
    /// Counts the operations of `inner`.
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        Self { inner, counts: Mutex::default() }
    }

    /// The counts since the last call.
    pub fn take(&self) -> Counts {
        std::mem::take(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn count(&self, call: &'static str, copied: usize) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.calls.entry(call).or_default() += 1;
        counts.copied += copied;
    }
}

fn bytes(rows: usize, cols: usize) -> usize {
    rows * cols * size_of::<f32>()
}

/// Operations that do not copy rows unchanged.
macro_rules! counted {
    ($(fn $name:ident($($arg:ident: $kind:ty),*) -> $out:ty;)*) => {
        $(fn $name(&self, $($arg: $kind),*) -> Result<$out> {
            self.count(stringify!($name), 0);
            self.inner.$name($($arg),*)
        })*
    };
}

impl Backend for CountingBackend {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn free_memory(&self) -> Option<u64> {
        self.inner.free_memory()
    }

    fn upload(&self, values: Vec<f32>, cols: usize) -> Result<Rows> {
        self.count("upload", bytes(values.len(), 1));
        self.inner.upload(values, cols)
    }

    fn written(
        &self,
        rows: usize,
        cols: usize,
        write: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<Rows> {
        self.count("written", bytes(rows, cols));
        self.inner.written(rows, cols, write)
    }

    fn read<'a>(&self, rows: &'a Rows) -> Result<Cow<'a, [f32]>> {
        let read = self.inner.read(rows)?;
        let copied = if matches!(read, Cow::Owned(_)) { bytes(rows.rows(), rows.cols()) } else { 0 };
        self.count("read", copied);
        Ok(read)
    }

    fn reads_in_place(&self) -> bool {
        self.inner.reads_in_place()
    }

    fn has_one_answer(&self) -> bool {
        self.inner.has_one_answer()
    }

    fn copy(&self, rows: &Rows) -> Result<Rows> {
        self.count("copy", bytes(rows.rows(), rows.cols()));
        self.inner.copy(rows)
    }

    fn select(&self, x: &Rows, rows: &[u32]) -> Result<Rows> {
        self.count("select", bytes(rows.len(), x.cols()));
        self.inner.select(x, rows)
    }

    fn host_threads(&self) -> usize {
        self.inner.host_threads()
    }

    fn parallel(&self, tasks: usize, job: &(dyn Fn(usize) + Sync)) -> Result<()> {
        self.count("parallel", 0);
        self.inner.parallel(tasks, job)
    }

    counted! {
        fn vector(name: &str, values: Vec<f32>) -> Param;
    }

    operations!(counted);
}

impl StateMemory for CountingBackend {
    fn state_backing(&self, plan: &StatePlan) -> Result<Box<dyn StateBacking>> {
        self.inner.state_backing(plan)
    }
}
