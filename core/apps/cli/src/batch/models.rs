//! [`BatchModels`]: what the lines of a batch ask of a model, opened: what continues texts, and what makes vectors.

use crate::arguments::hooks::HookArguments;
use crate::arguments::model::ModelArguments;
use crate::arguments::pooling::PoolingArgument;
use crate::arguments::stages::StageArguments;
use crate::arguments::template::TemplateArguments;
use crate::batch::input::{BatchInput, LineKind};
use crate::failure::Failure;
use menagerie::engine::{EmbeddingPipeline, TextPipeline};
use menagerie::model::Pooling;
use menagerie::open::LoadedModel;
use menagerie::registry::Environment;
use menagerie::spec::config::HeadKind;

/// What the lines of a batch ask of a model.
pub(crate) struct BatchModels {
    /// What continues texts, or why nothing does.
    pub(crate) text: Result<LoadedModel<TextPipeline>, String>,
    /// What makes vectors, or why nothing does.
    pub(crate) vectors: Result<LoadedModel<EmbeddingPipeline>, String>,
}

/// What acts in texts alone, and how rows become a vector.
pub(crate) struct Given<'a> {
    pub(crate) template: &'a TemplateArguments,
    pub(crate) hooks: &'a HookArguments,
    pub(crate) stages: &'a StageArguments,
    pub(crate) pooling: Option<PoolingArgument>,
    pub(crate) installed: &'a Environment,
}

impl BatchModels {
    /// Opens what is asked for; what the model cannot do is an error of the lines that ask for it, unless all do.
    ///
    /// # Errors
    /// The model cannot be opened.
    pub(crate) fn open(model: &ModelArguments, input: &BatchInput, given: &Given) -> Result<Self, Failure> {
        let installed = given.installed;
        if !input.asks_for(LineKind::Vectors) {
            let vectors = Err("no line asks for vectors".to_owned());
            return Ok(Self { text: Ok(given.text(model)?), vectors });
        }
        let with_text = input.asks_for(LineKind::Text);
        let opened = given.stands_in_the_way()?.map_or_else(|| model.open_for_vectors(installed), Err);
        let vectors = match opened {
            Ok(vectors) => vectors,
            Err(failure) if !with_text => return Err(failure),
            // What is wrong with the model is found again.
            Err(failure) => return Ok(Self { text: Ok(given.text(model)?), vectors: Err(failure.said()) }),
        };
        let text = match (no_text(&vectors), with_text) {
            (Some(reason), _) => Err(reason),
            (None, false) => Err("no line asks for text".to_owned()),
            (None, true) => Ok(model.open_beside(installed, &vectors, given.template)?),
        };
        let vectors = match no_vectors(&vectors, given.pooling) {
            Some(reason) => Err(reason),
            None => Ok(vectors),
        };
        Ok(Self { text, vectors })
    }
}

impl Given<'_> {
    /// What was asked for that is for texts only.
    fn stands_in_the_way(&self) -> Result<Option<Failure>, Failure> {
        let usage =
            |what: &str| Failure::Usage(format!("{what} models that make text, not of vectors of texts"));
        if self.hooks.are_given() {
            return Ok(Some(usage("control vectors and hooks are of")));
        }
        Ok(self.stages.options()?.map(|_| usage("stages are of")))
    }

    fn text(&self, model: &ModelArguments) -> Result<LoadedModel<TextPipeline>, Failure> {
        let mut pipeline = model.staged(self.stages)?.open_with_template(self.installed, self.template)?;
        self.hooks.install(&mut pipeline, self.installed)?;
        Ok(pipeline)
    }
}

/// Why a model does not continue texts.
fn no_text(pipeline: &LoadedModel<EmbeddingPipeline>) -> Option<String> {
    let output = &pipeline.resolved().config().output;
    if output.classifier.is_some() {
        return Some("the model is a reranker: its head gives scores and cannot continue a text".to_owned());
    }
    let reason = "the model is an encoder: it makes vectors (/v1/embeddings) and cannot continue a text";
    (output.head == HeadKind::None).then(|| reason.to_owned())
}

/// Why a model does not make vectors.
fn no_vectors(pipeline: &LoadedModel<EmbeddingPipeline>, asked: Option<PoolingArgument>) -> Option<String> {
    let model = &pipeline.engine().model;
    let pooling = asked.map_or(model.pooling, PoolingArgument::pooling);
    if asked.is_none() && model.classifier.is_some() {
        return Some(
            "the model is a reranker, which gives scores (`rerank`); --pooling asks for vectors".to_owned(),
        );
    }
    let reason =
        "the file does not say how the rows of a text become one vector; --pooling mean, cls or last does";
    (pooling == Pooling::None).then(|| reason.to_owned())
}
