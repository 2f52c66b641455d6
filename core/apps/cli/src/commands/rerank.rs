//! `rerank MODEL QUERY DOCUMENT..`: scores documents for a query.

use crate::arguments::metrics::MetricsArgument;
use crate::arguments::model::ModelArguments;
use crate::arguments::truncation::{TruncationArgument, advised, note_cut};
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::{interrupt, output, prompt};
use clap::Args;
use menagerie::engine::DocumentScores;
use serde::{Serialize, Serializer};
use serde_json::json;
use std::path::PathBuf;

/// Score documents for a query with a reranker, best first
///
/// The score is the first output of the model's classifier, unchanged: larger is better. Scores of different models cannot
/// be compared.
#[derive(Args)]
pub(crate) struct RerankCommand {
    #[command(flatten)]
    model: ModelArguments,
    /// The query
    query: String,
    /// The documents
    #[arg(required_unless_present = "file")]
    document: Vec<String>,
    /// Read documents from a file, one per line
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "document")]
    file: Option<PathBuf>,
    #[command(flatten)]
    truncation: TruncationArgument,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    metrics: MetricsArgument,
}

/// One document's score.
#[derive(Serialize)]
struct DocumentScore<'d> {
    /// Its index in the input, from 0.
    index: usize,
    #[serde(serialize_with = "short")]
    score: f32,
    document: &'d str,
    /// All outputs, if the classifier has several.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short_list")]
    scores: Option<Vec<f32>>,
    /// Number of truncated tokens (--truncate).
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated_tokens: Option<usize>,
}

fn short<S: Serializer>(score: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(output::shortest(*score))
}

fn short_list<S: Serializer>(scores: &Option<Vec<f32>>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(scores.iter().flatten().map(|score| output::shortest(*score)))
}

impl Runnable for RerankCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        self.metrics.check()?;
        let documents = self.documents()?;
        let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
        self.refuse_empty(&documents)?;
        // Refused before anything is downloaded.
        self.model.refuse_lora()?;
        let mut pipeline = self.model.opening(installed)?.open_embedding()?;
        let metrics = self.metrics.watch(&mut pipeline)?;
        let _at_once = interrupt::at_once()?;
        let scores = pipeline.rerank(&self.query, &documents, self.truncation.truncation());
        metrics.write()?;
        let mut scored = Vec::with_capacity(documents.len());
        let mut cuts = vec![0; documents.len()];
        for (index, scores) in scores?.into_iter().enumerate() {
            let DocumentScores { scores, cut } =
                scores.map_err(|error| Failure::about(format!("document {}", index + 1), advised(error)))?;
            cuts[index] = cut;
            let score = scores.first().copied().unwrap_or_default();
            let scores = (scores.len() > 1).then_some(scores);
            let truncated_tokens = self.truncation.is_given().then_some(cut);
            scored.push(DocumentScore { index, score, document: documents[index], scores, truncated_tokens });
        }
        note_cut("document", cuts);
        scored.sort_by(|one, other| other.score.total_cmp(&one.score));
        if self.json {
            return output::json(&json!({ "documents": scored }));
        }
        let row = |one: &DocumentScore| {
            vec![format!("{:.6}", one.score), (one.index + 1).to_string(), one.document.to_owned()]
        };
        output::table(&["score", "number", "document"], &scored.iter().map(row).collect::<Vec<_>>())
    }
}

impl RerankCommand {
    fn refuse_empty(&self, documents: &[&str]) -> Result<(), Failure> {
        let empty = documents.iter().position(|document| document.is_empty());
        let which = match empty {
            _ if self.query.is_empty() => "the query".to_owned(),
            Some(at) => format!("document {}", at + 1),
            None => return Ok(()),
        };
        Err(Failure::Usage(format!("{which} is empty")).with_help("an empty text has no score; leave it out"))
    }

    fn documents(&self) -> Result<Vec<String>, Failure> {
        let Some(file) = &self.file else { return Ok(self.document.clone()) };
        let text = prompt::read_file(file)?;
        let lines =
            text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect::<Vec<_>>();
        if lines.is_empty() {
            return Err(Failure::about(file.display(), "the file has no documents; expected one per line"));
        }
        Ok(lines)
    }
}
