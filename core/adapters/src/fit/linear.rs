//! Linears and tables: the parts of a module at its sites.

use super::AdapterFit;
use super::site_rows::{RowsForm, SiteRows};
use crate::adapter_tensor::AdapterTensor;
use crate::error::AdapterError;
use crate::module::{AdapterModule, LowRankPair, ModuleChange};
use crate::module_place::ModulePlace;
use menagerie_model::{FullWeight, LinearPart, LowRank, Param, SitePart, SiteShape, TablePart, WeightShape};
use menagerie_registry::TensorPart;

impl AdapterFit<'_> {
    /// A module that is one or several linears.
    pub(super) fn linear(&mut self, module: &AdapterModule, place: &ModulePlace) -> Result<(), AdapterError> {
        let Some(out) = outputs(&module.change) else { return Ok(()) };
        if place.role == "token_embd" {
            return self.whole_table(module, place);
        }
        if self.is_untrained_bias(module, place)? {
            return Ok(());
        }
        let order = self.rows_of_layout(module, place, out)?;
        let site_rows = self.site_rows(module, place, order.as_ref().map_or(out, Vec::len))?;
        for slot in &site_rows {
            // From rows of the site over rows of the role to rows of the module.
            let rows: Vec<usize> = match &order {
                None => slot.rows.clone(),
                Some(order) => slot.rows.iter().map(|row| order[*row]).collect(),
            };
            let part = match (slot.form, &module.change) {
                (RowsForm::Rows, ModuleChange::Linear { pair, magnitude, bias }) => {
                    let change = LinearChange {
                        pair: pair.as_ref(),
                        magnitude: magnitude.as_ref(),
                        bias: bias.as_ref(),
                    };
                    SitePart::Linear(self.linear_part(module, slot.site, &rows, &change)?)
                }
                (RowsForm::Rows, ModuleChange::Whole { weight, bias }) => {
                    SitePart::Linear(self.whole(module, slot.site, &rows, (weight, bias.as_ref()))?)
                }
                (_, ModuleChange::Linear { pair: Some(pair), magnitude: None, bias: None }) => {
                    SitePart::Experts(self.of_heads(module, slot, &rows, pair)?)
                }
                _ => {
                    let reason = "this weight supports only plain LoRA, because latent attention computes with two forms \
                         of it; merge the adapter with PEFT";
                    return Err(self.error(module, reason));
                }
            };
            self.put(module, slot.site, part)?;
        }
        Ok(())
    }

    /// The part at a plain linear; `rows` are the rows of the module in the order of the site.
    fn linear_part(
        &self,
        module: &AdapterModule,
        site: usize,
        rows: &[usize],
        change: &LinearChange,
    ) -> Result<LinearPart, AdapterError> {
        let shape = self.target.sites[site].shape.sizes();
        let cut = |tensor: &AdapterTensor| in_order(tensor, rows);
        let mut low_rank =
            change.pair.map(|pair| self.low_rank(module, pair, cut(&pair.b), shape)).transpose()?;
        // Magnitudes and biases need the product separately.
        if let (Some(pair), None, None) = (change.pair, change.magnitude, change.bias) {
            let transposed = cut(&pair.b).transposed().weight();
            let up = transposed.and_then(|weight| self.target.compute.backend.low_rank_up(&weight));
            let up = up.map_err(self.failed(module))?;
            low_rank = low_rank.map(|made| made.with_up(up));
        }
        let bias = change.bias.map(|bias| self.bias_change(module, site, rows, bias)).transpose()?;
        let magnitude = match (change.magnitude, change.pair) {
            (Some(lengths), Some(pair)) => {
                let pair = LowRankPair { b: cut(&pair.b), ..pair.clone() };
                Some(self.magnitude(module, site, (lengths, rows), &pair)?)
            }
            _ => None,
        };
        Ok(LinearPart { low_rank, bias: bias.flatten(), magnitude, whole: None })
    }

    /// The matrices as parameters of the backend; they must fit the weight.
    pub(super) fn low_rank(
        &self,
        module: &AdapterModule,
        pair: &LowRankPair,
        b: AdapterTensor,
        around: WeightShape,
    ) -> Result<LowRank, AdapterError> {
        if pair.a.shape.cols != around.cols {
            let reason = format!(
                "it has {} inputs, expected {} as in the model; was the adapter trained on another model?",
                pair.a.shape.cols, around.cols
            );
            return Err(self.error(module, reason));
        }
        let (a, b) = (self.factor(module, &pair.a)?, self.factor(module, &b)?);
        LowRank::new(a, b, pair.scaling, around).map_err(self.failed(module))
    }

    /// A pair as a stack with one pair for each head.
    fn of_heads(
        &self,
        module: &AdapterModule,
        slot: &SiteRows,
        rows: &[usize],
        pair: &LowRankPair,
    ) -> Result<LowRank, AdapterError> {
        let shape = self.target.sites[slot.site].shape.sizes();
        let (heads, rank) = (shape.count, pair.a.shape.rows);
        let cut = pair.b.rows(rows);
        let of_heads = WeightShape { count: heads, rows: rows.len() / heads.max(1), cols: rank };
        let cut = cut.reshaped(of_heads).map_err(self.failed(module))?;
        // The transposed `B A` of a head is `A^T B^T`.
        let (a, b) = match slot.form {
            RowsForm::TransposedHeads => (cut.transposed(), pair.a.transposed().repeated(heads)),
            RowsForm::Rows | RowsForm::Heads => (pair.a.repeated(heads), cut),
        };
        let (a, b) = (self.factor(module, &a)?, self.factor(module, &b)?);
        LowRank::new(a, b, pair.scaling, shape).map_err(self.failed(module))
    }

    /// A weight that replaces that of the model.
    fn whole(
        &self,
        module: &AdapterModule,
        site: usize,
        rows: &[usize],
        (weight, bias): (&AdapterTensor, Option<&AdapterTensor>),
    ) -> Result<LinearPart, AdapterError> {
        let shape = self.target.sites[site].shape.sizes();
        let cut = in_order(weight, rows);
        if cut.shape != shape {
            let reason = format!(
                "its weight has {} inputs, expected {} as in the model; was the adapter trained on another model?",
                cut.shape.cols, shape.cols
            );
            return Err(self.error(module, reason));
        }
        let bias = match bias {
            None => self.base_bias(module, site)?,
            Some(bias) => Some(self.values(module, &bias.columns(rows))?),
        };
        let vector = |bias: Vec<f32>| self.target.compute.backend.vector(&weight.name, bias);
        let bias = bias.map(vector).transpose().map_err(self.failed(module))?;
        let whole = FullWeight { weight: self.param(module, &cut)?, bias };
        Ok(LinearPart { whole: Some(whole), ..LinearPart::default() })
    }

    /// The difference between the trained bias and that of the model; `None` if they are equal.
    fn bias_change(
        &self,
        module: &AdapterModule,
        site: usize,
        rows: &[usize],
        bias: &AdapterTensor,
    ) -> Result<Option<Param>, AdapterError> {
        let Some(base) = self.base_bias(module, site)? else {
            return Err(self.error(
                module,
                "it was trained with a bias, but the model has none there; was the adapter trained on \
                 another model?",
            ));
        };
        let trained = self.values(module, &bias.columns(rows))?;
        if trained.len() != base.len() {
            return Err(self.error(
                module,
                format!("its bias has {} values, expected {} as in the model", trained.len(), base.len()),
            ));
        }
        let change: Vec<f32> = trained.iter().zip(&base).map(|(trained, base)| trained - base).collect();
        if change.iter().all(|change| *change == 0.0) {
            return Ok(None);
        }
        self.target.compute.backend.vector(&bias.name, change).map(Some).map_err(self.failed(module))
    }

    /// The bias of the model at a site.
    pub(super) fn base_bias(
        &self,
        module: &AdapterModule,
        site: usize,
    ) -> Result<Option<Vec<f32>>, AdapterError> {
        let place = &self.target.sites[site].place;
        let weights = self.target.weights;
        let role = if place.layer.is_none() && place.role == "token_embd" { "output" } else { &place.role };
        let Some(index) = weights.find(role, place.layer, TensorPart::Bias) else {
            // The parts of a fused weight may have separate biases.
            let parts = ["attn_q", "attn_k", "attn_v"];
            let separate =
                parts.iter().any(|role| weights.find(role, place.layer, TensorPart::Bias).is_some());
            if role == "attn_qkv" && separate {
                return Err(self.error(
                    module,
                    "the model stores the biases of its parts separately, which is not supported; merge the adapter \
                     with PEFT",
                ));
            }
            return Ok(None);
        };
        let weight = weights.weight(index).map_err(self.failed(module))?;
        let values = self.weight_values(module, &weight)?;
        match values.get(place.rows.clone()) {
            Some(rows) => Ok(Some(rows.to_vec())),
            None => Err(self.error(
                module,
                "the bias of the model is shorter than its weight; the model file is damaged",
            )),
        }
    }

    /// Whether a module is an unchanged bias of a norm, which `bias = "all"` also saves.
    fn is_untrained_bias(&self, module: &AdapterModule, place: &ModulePlace) -> Result<bool, AdapterError> {
        let ModuleChange::Linear { pair: None, bias: Some(bias), .. } = &module.change else {
            return Ok(false);
        };
        let linears = self.target.sites.iter().filter(|site| matches!(site.shape, SiteShape::Linear(_)));
        if linears.clone().any(|site| site.place.role == place.role && site.place.layer == place.layer) {
            return Ok(false);
        }
        let weights = self.target.weights;
        let Some(index) = weights.find(&place.role, place.layer, TensorPart::Bias) else { return Ok(false) };
        let weight = weights.weight(index).map_err(self.failed(module))?;
        let (own, trained) = (self.weight_values(module, &weight)?, self.values(module, bias)?);
        if own == trained {
            return Ok(true);
        }
        let reason = format!(
            "a trained bias of {}, which is not a linear: only linears and the embedding support adapters; merge the \
             adapter with PEFT",
            place.role
        );
        Err(self.error(module, reason))
    }

    /// The table of tokens.
    pub(super) fn table(
        &mut self,
        module: &AdapterModule,
        place: &ModulePlace,
        pair: &LowRankPair,
    ) -> Result<(), AdapterError> {
        let site = self.table_site(module, place)?;
        let shape = self.target.sites[site].shape.sizes();
        let (a, b) = (pair.a.shape, pair.b.shape);
        if (a.rows, b.rows) != (shape.rows, shape.cols) {
            let reason = format!(
                "expected {} tokens of {} elements as in the model, found {} of {}; was the adapter trained on another \
                 model?",
                shape.rows, shape.cols, a.rows, b.rows
            );
            return Err(self.error(module, reason));
        }
        // Rows of A are looked up, without rounding.
        let (a, b) = (self.param(module, &pair.a)?, self.factor(module, &pair.b)?);
        let made = LowRank::of_table(a, b, pair.scaling, shape).map_err(self.failed(module))?;
        self.put(module, site, SitePart::Table(TablePart::LowRank(made)))
    }

    fn whole_table(&mut self, module: &AdapterModule, place: &ModulePlace) -> Result<(), AdapterError> {
        let ModuleChange::Whole { weight, bias: None } = &module.change else {
            return Err(self.error(
                module,
                "expected lora_embedding_A and lora_embedding_B, or a full weight, for an embedding; merge the adapter \
                 with PEFT",
            ));
        };
        let site = self.table_site(module, place)?;
        let shape = self.target.sites[site].shape.sizes();
        if weight.shape != shape {
            let reason = format!(
                "its table is {}, expected [{}, {}] as in the model; if the vocabulary grew during training, merge the \
                 adapter with PEFT into the model that it was saved with",
                weight.written_shape(),
                shape.rows,
                shape.cols
            );
            return Err(self.error(module, reason));
        }
        let table = self.param(module, weight)?;
        self.put(module, site, SitePart::Table(TablePart::Whole(table)))
    }

    /// The site of the table that a module changes.
    pub(super) fn table_site(
        &self,
        module: &AdapterModule,
        place: &ModulePlace,
    ) -> Result<usize, AdapterError> {
        let sites = &self.target.sites;
        let is = |site: &&menagerie_model::AdapterSite| {
            matches!(site.shape, SiteShape::Table(_)) && site.place.role == place.role
        };
        sites.iter().position(|site| is(&site)).ok_or_else(|| {
            self.error(
                module,
                format!("{} of the model is not a token embedding that supports adapters", place.role),
            )
        })
    }
}

/// The change of a linear.
struct LinearChange<'a> {
    pair: Option<&'a LowRankPair>,
    magnitude: Option<&'a AdapterTensor>,
    bias: Option<&'a AdapterTensor>,
}

/// The outputs of a linear module.
fn outputs(change: &ModuleChange) -> Option<usize> {
    match change {
        ModuleChange::Linear { pair: Some(pair), .. } => Some(pair.b.shape.rows),
        ModuleChange::Linear { bias, .. } => bias.as_ref().map(|bias| bias.shape.cols),
        ModuleChange::Whole { weight, .. } => Some(weight.shape.rows),
        ModuleChange::Table(_) | ModuleChange::Parameter { .. } => None,
    }
}

/// Rows of a tensor; without a copy if they are all of its rows in order.
fn in_order(tensor: &AdapterTensor, rows: &[usize]) -> AdapterTensor {
    let all = rows.len() == tensor.shape.rows && rows.iter().enumerate().all(|(at, row)| at == *row);
    if all { tensor.clone() } else { tensor.rows(rows) }
}
