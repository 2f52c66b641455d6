//! The two ends of a model: embedding and head.

use super::dims::{free, of};
use super::{Assembler, TensorSite, linear_site};
use menagerie_model::components::{LinearHead, PerLayerEmbedding, TableEmbedding};
use menagerie_model::{
    Classifier, Linear, Norm, OutputHead, Param, Pooling, StoredTable, Table, TokenEmbedding,
};
use menagerie_registry::{BuildResult, NormTarget, TensorPart};
use menagerie_spec::config::{
    BiasRule, ClassifierConfig, EmbeddingConfig, HeadKind, NormSite, OutputConfig, PerLayerConfig,
    SuppressConfig,
};
use menagerie_spec::kind::Dim;

/// Adds per-layer embeddings to an embedding.
type WithPerLayer = Box<dyn FnOnce(Box<dyn TokenEmbedding>) -> PerLayerEmbedding>;

/// A tensor of the whole model.
fn whole(role: &str) -> TensorSite<'_> {
    TensorSite { role, layer: None }
}

impl Assembler<'_> {
    /// A norm over rows of the residual stream, if the spec has one there.
    pub(crate) fn site_norm(
        &mut self,
        site: Option<&NormSite>,
        layer: Option<usize>,
    ) -> BuildResult<Option<Box<dyn Norm>>> {
        let Some(NormSite { role, norm }) = site else { return Ok(None) };
        let width = self.width();
        self.norm(norm, layer, &NormTarget { role, width }).map(Some)
    }

    /// The token embedding with everything that is added to it.
    pub(crate) fn embedding(&mut self) -> BuildResult<Box<dyn TokenEmbedding>> {
        let EmbeddingConfig { scale, norm, positions, token_types, per_layer } = &self.config.embedding;
        let table = self.token_table().map(|table| self.wrapped_table(table));
        let positions = positions.as_ref().map(|role| self.table(whole(role), "context")).transpose();
        let token_types = token_types.as_ref().map(|role| self.table(whole(role), "types")).transpose();
        let norm = self.site_norm(norm.as_ref(), None);
        let table_scale = self.table_scale(whole("token_embd"))?;
        let per_layer = per_layer.as_ref().map(|config| self.per_layer(config)).transpose();
        let stream = Box::new(TableEmbedding {
            table: table?,
            scale: scale * table_scale.unwrap_or(1.0),
            positions: positions?,
            token_types: token_types?,
            norm: norm?,
        });
        match per_layer? {
            None => Ok(stream),
            Some(add) => Ok(Box::new(add(stream))),
        }
    }

    /// The parts of per-layer embeddings.
    fn per_layer(&mut self, config: &PerLayerConfig) -> BuildResult<WithPerLayer> {
        let PerLayerConfig { width, layers, token_scale, projection_scale, norm, scale } = config;
        let all = of("layers*per_layer", layers * width);
        let table = self.take(whole("per_layer_token_embd"), TensorPart::Main, &[all, free("V")]);
        let table = table.and_then(|table| self.param(None, &table));
        let site = whole("per_layer_model_proj");
        let projection = self.take(site, TensorPart::Main, &[of("D", self.width()), all]);
        let projection = projection.and_then(|weight| {
            let weight = self.param(None, &weight)?;
            self.linear(site, 0..weight.shape().rows, weight, None)
        });
        let norm = norm
            .as_ref()
            .map(|NormSite { role, norm }| self.norm(norm, None, &NormTarget { role, width: *width }))
            .transpose();
        let (table, projection, norm) = (table?, projection?, norm?);
        let (width, token_scale, projection_scale, scale) = (*width, *token_scale, *projection_scale, *scale);
        Ok(Box::new(move |stream| PerLayerEmbedding {
            stream,
            table,
            projection,
            norm,
            width,
            token_scale,
            projection_scale,
            scale,
        }))
    }

    /// A matrix `[rows, D]` of the backend.
    pub(crate) fn table(&mut self, site: TensorSite, rows: &'static str) -> BuildResult<Param> {
        let weight = self.take(site, TensorPart::Main, &[of("D", self.width()), free(rows)])?;
        self.param(None, &weight)
    }

    /// The table of the token embedding, loaded once even if the head shares it.
    fn token_table(&mut self) -> BuildResult<Param> {
        if let Some(known) = &self.token_table {
            return Ok(known.clone());
        }
        let table = self.table(whole("token_embd"), "V")?;
        self.token_table = Some(table.clone());
        Ok(table)
    }

    /// The table of the token embedding for look-ups, wrapped if the options say so.
    fn wrapped_table(&self, table: Param) -> Box<dyn Table> {
        let rows = 0..table.shape().rows;
        let table: Box<dyn Table> = Box::new(StoredTable(table));
        match self.wrapper {
            Some(wrapper) => wrapper.table(&linear_site(whole("token_embd"), rows), table),
            None => table,
        }
    }

    /// The head; a model without one is an encoder.
    pub(crate) fn head(&mut self) -> BuildResult<Box<dyn OutputHead>> {
        let config = self.config;
        let table = self.head_table();
        let norm = self.site_norm(config.output.norm.as_ref(), None);
        let (role, weight) = table?;
        self.head_over(norm, whole(role), weight)
    }

    /// The matrix of the head, with its role; loaded once even if a head for further tokens shares it.
    pub(crate) fn head_table(&mut self) -> BuildResult<(&'static str, Param)> {
        let own = self.has(whole("output"), TensorPart::Main);
        match (&self.config.output.head, own) {
            (HeadKind::Own, _) | (HeadKind::OwnOrTied, true) => {
                if self.output_table.is_none() {
                    self.output_table = Some(self.table(whole("output"), "V")?);
                }
                match &self.output_table {
                    Some(known) => Ok(("output", known.clone())),
                    None => Err(self.fault(None, "output: the matrix was not loaded")),
                }
            }
            (HeadKind::Tied, _) | (HeadKind::OwnOrTied, false) => Ok(("token_embd", self.token_table()?)),
            (HeadKind::None, _) => Err(self.fault(
                None,
                "output: the model has no head and makes no logits; open it as an encoder (`embed`)",
            )),
        }
    }

    /// A head with this norm over the matrix of a site; its bias, scale, cap and suppressed ids are those of the model.
    pub(crate) fn head_over(
        &mut self,
        norm: BuildResult<Option<Box<dyn Norm>>>,
        site: TensorSite,
        weight: Param,
    ) -> BuildResult<Box<dyn OutputHead>> {
        let OutputConfig {
            norm: _,
            head: _,
            bias,
            scale,
            softcap,
            suppress,
            pooling: _,
            classifier: _,
            dense: _,
        } = &self.config.output;
        let rows = 0..weight.shape().rows;
        let vocabulary = rows.end;
        let bias = self.bias(whole("output"), *bias, &[of("V", vocabulary)]);
        let product = self.linear(site, rows, weight, bias?)?;
        let suppress = suppress.map(|ids| self.suppressed(ids, vocabulary)).transpose()?;
        Ok(Box::new(LinearHead { norm: norm?, product, scale: *scale, softcap: *softcap, suppress }))
    }

    /// The values that are added to logits so that some ids are never generated, `[V]`.
    fn suppressed(&mut self, ids: SuppressConfig, vocabulary: usize) -> BuildResult<Param> {
        let SuppressConfig { first, count } = ids;
        let mut lowest = vec![0.0; vocabulary];
        let Some(hidden) = lowest.get_mut(first..).and_then(|rest| rest.get_mut(..count)) else {
            let text = format!(
                "output: ids {first} to {} are suppressed, but the vocabulary has {vocabulary} ids",
                first.saturating_add(count).saturating_sub(1)
            );
            return Err(self.fault(None, &text));
        };
        hidden.fill(f32::MIN);
        self.vector(whole("output"), lowest)
    }

    /// Norm, pooling and classifier of an embedding model.
    pub(crate) fn pooling(&mut self) -> BuildResult<EmbeddingEnd> {
        let OutputConfig {
            norm,
            head: _,
            bias: _,
            scale: _,
            softcap: _,
            suppress: _,
            pooling,
            classifier,
            dense,
        } = &self.config.output;
        let pooling = *pooling;
        let norm = self.site_norm(norm.as_ref(), None);
        let classifier = classifier.as_ref().map(|config| self.classifier(config)).transpose();
        let dense = self.dense(dense);
        Ok(EmbeddingEnd { norm: norm?, pooling, classifier: classifier?, dense: dense? })
    }

    /// The linears after the pooling, each over the output of the previous one.
    fn dense(&mut self, roles: &[String]) -> BuildResult<Vec<Box<dyn Linear>>> {
        let mut width = of("D", self.width());
        let mut linears = Vec::with_capacity(roles.len());
        for role in roles {
            let linear = self.linear_of(whole(role), &[width, free("vector")])?;
            width = of("rows of the previous linear", linear.out_features());
            linears.push(linear);
        }
        Ok(linears)
    }

    fn classifier(&mut self, config: &ClassifierConfig) -> BuildResult<Classifier> {
        let ClassifierConfig { activation, norm, scores } = config;
        let width = of("D", self.width());
        let dense = self.linear_if_present("cls", &[width, width]);
        let norm = self.site_norm(norm.as_ref(), None);
        let output = self.linear_if_present("cls.output", &[width, free("labels")]);
        let (dense, norm, output) = (dense?, norm?, output?);
        if dense.is_none() && output.is_none() {
            let text = "output.classifier: the file states a classifier, but has neither \"cls.weight\" nor \
                        \"cls.output.weight\"; convert the model again with them";
            return Err(self.fault(None, text));
        }
        let (activation, scores) = (*activation, *scores);
        Ok(Classifier { dense, activation, norm, output, scores })
    }

    /// A linear of the whole model, if the file has it.
    fn linear_if_present(&mut self, role: &str, dims: &[Dim]) -> BuildResult<Option<Box<dyn Linear>>> {
        let site = whole(role);
        if self.has(site, TensorPart::Main) { self.linear_of(site, dims).map(Some) } else { Ok(None) }
    }

    /// A linear of the whole model.
    fn linear_of(&mut self, site: TensorSite, dims: &[Dim]) -> BuildResult<Box<dyn Linear>> {
        let weight = self.take(site, TensorPart::Main, dims)?;
        let weight = self.param(None, &weight)?;
        let rows = weight.shape().rows;
        let bias = self.bias(site, BiasRule::IfPresent, &[of("labels", rows)])?;
        self.linear(site, 0..rows, weight, bias)
    }
}

/// The parts of an embedding model after its layers.
pub(crate) struct EmbeddingEnd {
    pub(crate) norm: Option<Box<dyn Norm>>,
    pub(crate) pooling: Pooling,
    pub(crate) classifier: Option<Classifier>,
    pub(crate) dense: Vec<Box<dyn Linear>>,
}
