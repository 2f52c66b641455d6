//! Vectors and scores.

use crate::client::post;
use crate::running::Running;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use menagerie::engine::{EmbeddingOptions, EmbeddingPipeline, Normalization, Truncation};
use menagerie::open::{LoadedModel, ModelBuilder};
use menagerie_server::{ServedModel, VectorService};
use serde_json::{Value, json};
use std::path::Path;

pub fn opened(name: &str) -> LoadedModel<EmbeddingPipeline> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../../tests/fixtures/zoo/{name}/model-f16.gguf"));
    ModelBuilder::new(file).open_embedding().unwrap()
}

pub fn served(name: &str, no_vectors: Option<&str>) -> ServedModel {
    let options = EmbeddingOptions::default().with_normalization(Normalization::Euclidean);
    let service = VectorService::new(options).with_no_vectors(no_vectors.map(str::to_owned));
    let text = Err("it is an encoder".to_owned());
    ServedModel::new(name).with_text(text).with_vectors(Ok((opened(name), service)))
}

#[test]
fn vectors_are_those_of_the_pipeline_alone() {
    let server = Running::new(vec![served("bert", None)]);
    let (ids, pipeline): (Vec<Vec<u32>>, _) =
        ((1..40).map(|n| (5..5 + n).collect()).collect(), opened("bert"));
    let options = EmbeddingOptions::default().with_normalization(Normalization::Euclidean);
    let body = json!({ "model": "bert", "input": ids, "encoding_format": "float" });
    let answer = post(server.address, "/v1/embeddings", &body).good();
    assert_eq!(answer["usage"], json!({ "prompt_tokens": 780, "total_tokens": 780 }));
    for (index, ids) in ids.iter().enumerate() {
        let alone = pipeline.embed(&[ids], &options).remove(0).unwrap();
        let entry = &answer["data"][index];
        let found: Vec<f32> = serde_json::from_value(entry["embedding"].clone()).unwrap();
        assert_eq!((&entry["index"], found), (&json!(index), alone));
    }
    let body = json!({ "input": ids[3], "encoding_format": "base64" });
    let coded = post(server.address, "/v1/embeddings", &body).good();
    let bytes = STANDARD.decode(coded["data"][0]["embedding"].as_str().unwrap()).unwrap();
    let found: Vec<f32> =
        bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
    assert_eq!(found, pipeline.embed(&[&ids[3]], &options).remove(0).unwrap());
}

#[test]
fn what_is_wrong_is_refused() {
    let server = Running::new(vec![served("bert", None)]);
    let long: Vec<u32> = vec![5; opened("bert").engine().context + 1];
    for (more, param) in [
        (json!({ "input": [] }), json!("input")),
        (json!({ "input": "a", "encoding_format": "int8" }), json!("encoding_format")),
        (json!({ "input": "a", "dimensions": 8 }), json!("dimensions")),
        (json!({ "input": long }), Value::Null),
        (json!({ "input": [[999_999]] }), Value::Null),
    ] {
        let reply = post(server.address, "/v1/embeddings", &more);
        assert_eq!((reply.status, &reply.error()["param"]), (400, &param), "{more}: {reply:?}");
    }
    let cut = post(server.address, "/v1/embeddings", &json!({ "input": long, "truncate": true })).good();
    assert_eq!(cut["usage"]["truncated_tokens"], 1);
    let chat = json!({ "messages": [{ "role": "user", "content": "a" }] });
    let reply = post(server.address, "/v1/chat/completions", &chat);
    assert_eq!((reply.status, &reply.error()["code"]), (400, &json!("unsupported_by_model")));
}

#[test]
fn documents_are_scored_best_first() {
    let server = Running::new(vec![served("bert-rank", Some("it is a reranker"))]);
    let pipeline = opened("bert-rank");
    let documents = ["a a a", "b", "c c", "d d d d"];
    let scores = pipeline.rerank("a b", &documents, Truncation::Refuse).unwrap();
    let mut wanted: Vec<(usize, f32)> =
        scores.into_iter().enumerate().map(|(index, scores)| (index, scores.unwrap().scores[0])).collect();
    wanted.sort_by(|one, other| other.1.total_cmp(&one.1));
    let given = json!(["a a a", { "text": "b" }, "c c", "d d d d"]);
    let body = json!({ "query": "a b", "documents": given, "top_n": 3, "return_documents": true });
    let answer = post(server.address, "/v1/rerank", &body).good();
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 3);
    for (result, (index, score)) in results.iter().zip(wanted) {
        assert_eq!(
            (&result["index"], result["relevance_score"].as_f64()),
            (&json!(index), Some(f64::from(score)))
        );
        assert_eq!(result["document"]["text"], documents[index]);
    }
    assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() > 8);
    for (body, param) in [
        (json!({ "query": "", "documents": ["a"] }), "query"),
        (json!({ "query": "a", "documents": [] }), "documents"),
        (json!({ "query": "a", "documents": [1] }), "documents"),
        (json!({ "query": "a", "documents": ["a"], "top_n": 0 }), "top_n"),
        (json!({ "query": "a", "documents": ["a"], "rank_fields": [] }), "rank_fields"),
    ] {
        let reply = post(server.address, "/v1/rerank", &body);
        assert_eq!((reply.status, &reply.error()["param"]), (400, &json!(param)), "{body}");
    }
    let reply = post(server.address, "/v1/embeddings", &json!({ "input": "a" }));
    assert_eq!(reply.error()["code"], "unsupported_by_model");
}
