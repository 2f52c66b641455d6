//! Encoders, each from its dropped spec, against HF transformers in float32: hidden states and pooled vectors.

use super::zoo::{ENCODERS, Entry, TOLERANCE, drop_spec, entries, model_file};
use crate::{Reference, distance};
use menagerie::engine::{EmbeddingOptions, EmbeddingPipeline, Normalization, Truncation};
use menagerie::model::Pooling;
use menagerie::open::{LoadOptions, LoadedModel, ModelBuilder};
use std::path::Path;

/// An encoder of the zoo, opened, and its reference.
pub struct Opened {
    pipeline: LoadedModel<EmbeddingPipeline>,
    reference: Reference,
}

impl Opened {
    /// Opens a fixture with `options` and its spec changed by `change`.
    ///
    /// # Errors
    /// What opening reports.
    pub fn new(name: &str, change: &dyn Fn(&str) -> String, options: LoadOptions) -> Result<Self, String> {
        let entry =
            entries().into_iter().find(|entry| entry.name == name).expect("a fixture of the manifest");
        Self::at(&entry, &model_file(&entry.folder()), change, options)
    }

    /// The same of the model at `path`, which is the fixture's in whatever format.
    ///
    /// # Errors
    /// What opening reports.
    pub fn at(
        entry: &Entry,
        path: &Path,
        change: &dyn Fn(&str) -> String,
        options: LoadOptions,
    ) -> Result<Self, String> {
        let specs = tempfile::tempdir().expect("a folder");
        drop_spec(&entry.spec, specs.path(), change);
        let load = options.with_spec_dirs(vec![specs.path().to_owned()]).with_allow_shadow(true);
        let pipeline = ModelBuilder::new(path).with_options(&load).open_embedding();
        let pipeline = pipeline.map_err(|error| error.to_string())?;
        Ok(Self { pipeline, reference: Reference::open(&entry.folder().join("reference.safetensors")) })
    }

    /// The pooled vectors of prompts, each alone or all in one step; not divided by their length.
    fn pooled(&self, texts: &[&[u32]], pooling: Option<Pooling>, together: bool) -> Vec<Vec<f32>> {
        let options =
            EmbeddingOptions::default().with_pooling(pooling).with_normalization(Normalization::None);
        let vectors = match together {
            true => self.pipeline.embed(texts, &options),
            false => texts.iter().flat_map(|text| self.pipeline.embed(&[*text], &options)).collect(),
        };
        vectors.into_iter().map(|vector| vector.unwrap_or_else(|error| panic!("{error}"))).collect()
    }

    /// The distances of hidden states, pooled vectors and scores from the reference, with their names.
    pub fn distances(&self) -> Vec<(String, f32)> {
        let texts = ["prompt", "long"].map(|text| self.reference.ids(&format!("tokens_{text}")));
        let texts = [texts[0].as_slice(), texts[1].as_slice()];
        let mut found = Vec::new();
        for (name, pooling) in [
            ("hidden", Some(Pooling::None)),
            ("mean", Some(Pooling::Mean)),
            ("first", Some(Pooling::Cls)),
            ("last", Some(Pooling::Last)),
            (self.own_pooling(), None),
        ] {
            // The first fixture has no last rows.
            if !self.reference.has(&format!("{name}_prompt")) {
                continue;
            }
            for together in [false, true] {
                for (text, vector) in ["prompt", "long"].iter().zip(self.pooled(&texts, pooling, together)) {
                    let wanted = self.reference.values(&format!("{name}_{text}"));
                    // For the long text the reference has the last rows only.
                    let rows = vector[vector.len() - wanted.len()..].to_vec();
                    found.push((
                        format!("{name} of {text}, together: {together}"),
                        distance(&[rows], &wanted),
                    ));
                }
            }
        }
        found
    }

    /// The default output of the model, under the name of the reference.
    fn own_pooling(&self) -> &'static str {
        let model = &self.pipeline.engine().model;
        if !model.dense.is_empty() {
            return "dense";
        }
        match (&model.classifier, model.pooling) {
            (Some(_), _) => "scores",
            (None, Pooling::None) => "hidden",
            (None, Pooling::Mean) => "mean",
            (None, Pooling::Cls) => "first",
            (None, Pooling::Last) => "last",
        }
    }

    /// The distance of the scores of pairs of texts from the reference; absent if it has none.
    fn pairs(&self, pairs: &[[String; 2]]) -> Option<f32> {
        let score = |[query, document]: &[String; 2]| {
            let scores = self.pipeline.rerank(query, &[document.as_str()], Truncation::Refuse);
            let scores = scores.unwrap_or_else(|error| panic!("{error}")).remove(0);
            scores.unwrap_or_else(|error| panic!("{error}")).scores
        };
        let found: Vec<Vec<f32>> = pairs.iter().map(score).collect();
        (!found.is_empty()).then(|| distance(&found, &self.reference.values("pair_scores")))
    }

    /// The mean of the prompt, of length 1, against the reference's.
    fn normalized(&self) -> f32 {
        let options = EmbeddingOptions::default().with_pooling(Pooling::Mean);
        let found = self.pipeline.embed(&[&self.reference.ids("tokens_prompt")], &options);
        let found = found
            .into_iter()
            .map(|vector| vector.unwrap_or_else(|error| panic!("{error}")))
            .collect::<Vec<_>>();
        let mean = self.reference.values("mean_prompt");
        let length = mean.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        distance(&found, &mean.iter().map(|x| (f64::from(*x) / length) as f32).collect::<Vec<_>>())
    }
}

/// Every encoder is within [`TOLERANCE`] of its reference, in everything that it has.
pub fn every_encoder_agrees(options: &LoadOptions) {
    let mut faults = Vec::new();
    for entry in entries().iter().filter(|entry| ENCODERS.contains(&entry.name.as_str())) {
        let name = &entry.name;
        let opened = match Opened::new(name, &str::to_owned, options.clone()) {
            Ok(opened) => opened,
            Err(error) => {
                faults.push(format!("{name}: {error}"));
                continue;
            }
        };
        let mut distances = opened.distances();
        assert!(distances.len() >= 16, "{name} compares too little");
        distances.push(("mean of length 1".to_owned(), opened.normalized()));
        distances.extend(opened.pairs(&entry.pairs).map(|found| ("pairs".to_owned(), found)));
        let worst = distances.iter().map(|(_, found)| *found).fold(0.0, f32::max);
        println!("{name}: {worst:e} at most in {} comparisons", distances.len());
        let far = distances.iter().filter(|(_, found)| found.is_nan() || *found > TOLERANCE);
        faults.extend(far.map(|(what, found)| format!("{name}, {what}: differs by {found:e}")));
    }
    assert!(faults.is_empty(), "at most {TOLERANCE:e} is allowed:\n{}", faults.join("\n"));
}
