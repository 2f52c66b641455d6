//! [`ImportanceCollector`]: sums the squares of the inputs of each weight, like llama.cpp's `imatrix`.

use menagerie_model::{
    ExpertLinear, ExpertPlan, Linear, LinearInput, LinearSite, LinearWrapper, ModelError, Packing, Product,
    Rows, SiteForm, TransformContext, WeightShape,
};
use menagerie_quantize::{Importance, InputSquares};
use menagerie_spec::ArchSpec;
use std::sync::{Arc, Mutex, PoisonError};

/// The sums of a weight, shared by the linear that adds to them and the collector that reads them.
type Sums = Arc<Mutex<InputSquares>>;

/// Wraps the linears of a model and sums the squares of their inputs by column and, for stacks, by matrix.
pub struct ImportanceCollector {
    spec: Arc<ArchSpec>,
    sums: Mutex<Vec<(String, Sums)>>,
}

impl ImportanceCollector {
    /// A collector for a model with this spec.
    pub fn new(spec: Arc<ArchSpec>) -> Self {
        Self { spec, sums: Mutex::default() }
    }

    /// The sums so far; weights without inputs are left out.
    pub fn collected(&self) -> Importance {
        let sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |sums: &Sums| sums.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let entries = sums.iter().map(|(name, sums)| (name.clone(), read(sums)));
        let met = |(_, entry): &(String, InputSquares)| entry.counts.iter().any(|count| *count > 0);
        Importance { entries: entries.filter(met).collect(), ..Importance::default() }
    }

    /// The sums of a site. As in llama.cpp there are none for weights that are stored in another form than they are
    /// multiplied, for further rows of a weight that is multiplied in parts, and for embedding and head.
    fn place(&self, site: &LinearSite, matrices: usize, cols: usize) -> Option<Sums> {
        if site.layer.is_none() || site.rows.start > 0 || site.form != SiteForm::Stored {
            return None;
        }
        let name = format!("{}.weight", self.spec.role_to_gguf_name(&site.role, site.layer));
        let entry = InputSquares { sums: vec![0.0; matrices * cols], counts: vec![0; matrices] };
        let sums: Sums = Arc::new(Mutex::new(entry));
        let mut all = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        match all.iter().find(|(known, _)| *known == name) {
            Some((_, known)) => Some(Arc::clone(known)),
            None => {
                all.push((name, Arc::clone(&sums)));
                Some(sums)
            }
        }
    }
}

impl LinearWrapper for ImportanceCollector {
    fn linear(&self, site: &LinearSite, linear: Box<dyn Linear>) -> Box<dyn Linear> {
        match self.place(site, 1, linear.in_features()) {
            Some(sums) => Box::new(Measured { inner: linear, sums }),
            None => linear,
        }
    }

    fn experts(&self, site: &LinearSite, experts: Box<dyn ExpertLinear>) -> Box<dyn ExpertLinear> {
        let WeightShape { count, cols, .. } = experts.shape();
        match self.place(site, count, cols) {
            Some(sums) => Box::new(Measured { inner: experts, sums }),
            None => experts,
        }
    }
}

/// A linear, or a stack of them, whose inputs are summed.
struct Measured<L: ?Sized> {
    sums: Sums,
    inner: Box<L>,
}

impl<L: ?Sized> Measured<L> {
    /// Adds rows of `values` `[., cols]` to the sums of a matrix.
    fn add<'r>(&self, matrix: usize, rows: impl Iterator<Item = &'r [f32]>) -> Result<(), ModelError> {
        let mut guard = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = &mut *guard;
        let cols = entry.sums.len() / entry.counts.len().max(1);
        let outside = || ModelError::Layout(format!("matrix {matrix} of a stack that is measured"));
        let sums = entry.sums.get_mut(matrix * cols..(matrix + 1) * cols).ok_or_else(outside)?;
        let mut met = 0;
        for row in rows {
            met += 1;
            sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value * value);
        }
        entry.counts[matrix] += met;
        Ok(())
    }
}

impl Linear for Measured<dyn Linear> {
    fn in_features(&self) -> usize {
        self.inner.in_features()
    }

    fn out_features(&self) -> usize {
        self.inner.out_features()
    }

    fn forward(&self, x: &LinearInput, context: &TransformContext) -> Result<Rows, ModelError> {
        let values = context.compute.backend.read(x.rows())?;
        self.add(0, values.chunks_exact(self.in_features().max(1)))?;
        self.inner.forward(x, context)
    }
}

impl ExpertLinear for Measured<dyn ExpertLinear> {
    fn shape(&self) -> WeightShape {
        self.inner.shape()
    }

    fn forward(
        &self,
        x: &LinearInput,
        plan: &ExpertPlan,
        packing: Packing,
        context: &TransformContext,
    ) -> Result<Rows, ModelError> {
        let values = context.compute.backend.read(x.rows())?;
        let cols = self.shape().cols;
        let from = plan.input_rows(packing);
        let row = |at: &u32| values.get(*at as usize * cols..(*at as usize + 1) * cols).unwrap_or_default();
        for (expert, rows) in plan.groups() {
            let own = from.get(rows.clone()).unwrap_or_default();
            self.add(*expert, own.iter().map(row))?;
        }
        self.inner.forward(x, plan, packing, context)
    }

    fn plain(&self) -> Option<Product<'_>> {
        None
    }
}
