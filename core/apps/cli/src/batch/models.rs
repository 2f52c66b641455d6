//! [`BatchModels`]: the pipelines that a batch needs: one for text, one for embeddings.

use crate::arguments::hooks::HookArguments;
use crate::arguments::opening::ModelOpening;
use crate::arguments::pooling::PoolingArgument;
use crate::arguments::stages::StageArguments;
use crate::failure::Failure;
use menagerie::engine::{EmbeddingPipeline, TextPipeline};
use menagerie::model::Pooling;
use menagerie::open::LoadedModel;
use menagerie::registry::Environment;
use menagerie::spec::config::HeadKind;
use menagerie_openai::{BatchInput, LineKind};

/// The pipelines of a batch.
pub(crate) struct BatchModels {
    /// The pipeline for text, or the reason why there is none.
    pub(crate) text: Result<LoadedModel<TextPipeline>, String>,
    /// The pipeline for embeddings, or the reason why there is none.
    pub(crate) vectors: Result<LoadedModel<EmbeddingPipeline>, String>,
}

/// Options that apply to text only, and the pooling of embeddings.
pub(crate) struct BatchModelOptions<'a> {
    pub(crate) hooks: &'a HookArguments,
    pub(crate) stages: &'a StageArguments,
    pub(crate) pooling: Option<PoolingArgument>,
    pub(crate) installed: &'a Environment,
}

impl BatchModels {
    /// Opens the pipelines that the lines need. If the model does not support a kind of line, those lines get an error.
    ///
    /// # Errors
    /// The model cannot be opened, or supports none of the lines.
    pub(crate) fn open(
        model: &ModelOpening,
        input: &BatchInput,
        given: &BatchModelOptions,
    ) -> Result<Self, Failure> {
        if !input.asks_for(LineKind::Vectors) {
            let vectors = Err("no line requests embeddings".to_owned());
            return Ok(Self { text: Ok(given.text(model)?), vectors });
        }
        let with_text = input.asks_for(LineKind::Text);
        let opened = given.stands_in_the_way()?.map_or_else(|| model.open_embedding(), Err);
        let vectors = match opened {
            Ok(vectors) => vectors,
            Err(failure) if !with_text => return Err(failure),
            // An error of the model itself occurs again when it is opened for text.
            Err(failure) => return Ok(Self { text: Ok(given.text(model)?), vectors: Err(failure.said()) }),
        };
        let text = match (no_text(&vectors), with_text) {
            (Some(reason), _) => Err(reason),
            (None, false) => Err("no line requests text".to_owned()),
            (None, true) => Ok(model.clone().with_vectors(&vectors).open_text()?),
        };
        let vectors = match no_vectors(&vectors, given.pooling) {
            Some(reason) => Err(reason),
            None => Ok(vectors),
        };
        Ok(Self { text, vectors })
    }
}

impl BatchModelOptions<'_> {
    /// The error for options that are supported for text only.
    fn stands_in_the_way(&self) -> Result<Option<Failure>, Failure> {
        let usage = |what: &str| {
            Failure::Usage(format!("{what} are supported for text generation only, not for embeddings"))
        };
        if self.hooks.are_given() {
            return Ok(Some(usage("control vectors and hooks")));
        }
        Ok(self.stages.options(self.installed)?.map(|_| usage("stages")))
    }

    fn text(&self, model: &ModelOpening) -> Result<LoadedModel<TextPipeline>, Failure> {
        let mut pipeline = model.open_text()?;
        self.hooks.install(&mut pipeline, self.installed)?;
        Ok(pipeline)
    }
}

/// The reason why a model does not generate text.
pub(crate) fn no_text(pipeline: &LoadedModel<EmbeddingPipeline>) -> Option<String> {
    let output = &pipeline.resolved().config().output;
    if output.classifier.is_some() {
        return Some("the model is a reranker: its head outputs scores and cannot generate text".to_owned());
    }
    let reason = "the model is an encoder: it outputs embeddings (/v1/embeddings) and cannot generate text";
    (output.head == HeadKind::None).then(|| reason.to_owned())
}

/// The reason why a model does not output embeddings.
pub(crate) fn no_vectors(
    pipeline: &LoadedModel<EmbeddingPipeline>,
    asked: Option<PoolingArgument>,
) -> Option<String> {
    let model = &pipeline.engine().model;
    let pooling = asked.map_or(model.pooling, PoolingArgument::pooling);
    if asked.is_none() && model.classifier.is_some() {
        return Some(
            "the model is a reranker, which outputs scores (`rerank`); --pooling requests embeddings"
                .to_owned(),
        );
    }
    let reason =
        "the file does not state the pooling of token vectors; set it with --pooling mean, cls or last";
    (pooling == Pooling::None).then(|| reason.to_owned())
}
