//! `/v1/rerank`: scores of documents for a query, in the form of Jina and Cohere.

use super::fields::{list_ignored, refuse_rest, take_flag, take_ignored};
use super::vectors::compute;
use crate::app::ServerApp;
use crate::blocking::blocking;
use crate::fault::ApiFault;
use crate::http::{ClientKey, json_answer, read_fields};
use axum::extract::{Request, State};
use axum::response::Response;
use menagerie::engine::{EmbeddingOptions, Normalization, Truncation};
use menagerie_openai::{LineFault, truncation_of};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The most documents of a request.
const MOST_DOCUMENTS: usize = 2048;

/// The body of a request.
struct RerankBody {
    query: String,
    documents: Vec<String>,
    top: usize,
    with_documents: bool,
    truncate: Option<Value>,
}

pub(super) async fn rerank(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    let ClientKey(tenant) = request.extensions().get::<ClientKey>().copied().unwrap_or_default();
    let mut fields = read_fields(&app, request).await?;
    let ignored = take_ignored(&mut fields)?;
    let model = app.model_of(&mut fields).await?;
    let mut body = RerankBody::read(fields)?;
    let admission = model.worker.admit(1)?;
    let (reader, truncate) = (Arc::clone(&model), body.truncate.take());
    let (query, documents) = (body.query.clone(), body.documents.clone());
    let read = move || -> Result<_, ApiFault> {
        let (pipeline, service) = reader.scores()?;
        let truncation: Truncation = truncation_of(truncate, service.truncation)?;
        let pair = |document: &String| pipeline.pair(&query, document, truncation);
        Ok(documents.iter().map(pair).collect::<Result<Vec<_>, _>>()?)
    };
    let pairs = blocking(read).await??;
    let tokens: usize = pairs.iter().map(|pair| pair.tokens.len()).sum();
    let options = EmbeddingOptions::default().with_normalization(Normalization::None);
    let scores = compute(&model, pairs, options, (tenant, admission)).await?;
    let usage = json!({ "prompt_tokens": tokens, "total_tokens": tokens });
    let results = body.results(&scores);
    let answer = json!({
        "id": app.id("rerank-"), "object": "list", "model": model.id, "results": results, "usage": usage,
    });
    let mut response = json_answer(&answer);
    list_ignored(&mut response, &ignored);
    Ok(response)
}

impl RerankBody {
    fn read(mut fields: Map<String, Value>) -> Result<Self, ApiFault> {
        let wrong = |name: &str, reason: &str| ApiFault::from(LineFault::of(name, reason));
        let query = match fields.remove("query") {
            Some(Value::String(query)) if !query.is_empty() => query,
            _ => return Err(wrong("query", "expected a string that is not empty")),
        };
        let text = |document: Value| match document {
            Value::String(text) => Some(text),
            Value::Object(mut document) if document.len() == 1 => match document.remove("text") {
                Some(Value::String(text)) => Some(text),
                _ => None,
            },
            _ => None,
        };
        let documents = match fields.remove("documents") {
            Some(Value::Array(documents)) => documents.into_iter().map(text).collect::<Option<Vec<String>>>(),
            _ => None,
        };
        let Some(documents) = documents.filter(|list| (1..=MOST_DOCUMENTS).contains(&list.len())) else {
            let reason =
                format!("expected a list of 1 to {MOST_DOCUMENTS} strings or objects with the field text");
            return Err(wrong("documents", &reason));
        };
        let top = match fields.remove("top_n") {
            None => documents.len(),
            Some(top) => {
                match top.as_u64().and_then(|top| usize::try_from(top).ok()).filter(|top| *top > 0) {
                    Some(top) => top,
                    None => return Err(wrong("top_n", "expected a whole number from 1")),
                }
            }
        };
        let with_documents = take_flag(&mut fields, "return_documents")?;
        let truncate = fields.remove("truncate");
        refuse_rest(&fields)?;
        Ok(Self { query, documents, top, with_documents, truncate })
    }

    /// The best documents, best first.
    fn results(&self, scores: &[Vec<f32>]) -> Vec<Value> {
        let mut order: Vec<(usize, f32)> =
            scores.iter().map(|scores| scores.first().copied().unwrap_or_default()).enumerate().collect();
        order.sort_by(|one, other| other.1.total_cmp(&one.1));
        let result = |(index, score): (usize, f32)| {
            let mut result = json!({ "index": index, "relevance_score": score });
            if let Some(text) = self.documents.get(index).filter(|_| self.with_documents) {
                result["document"] = json!({ "text": text });
            }
            result
        };
        order.into_iter().take(self.top).map(result).collect()
    }
}
