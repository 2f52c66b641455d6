//! The types of a file's tensors are those that llama-quantize gives them: models of real shapes, every file type, with and
//! without an importance matrix (`tests/reference/make_mixtures.py`).
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use gguf_file::GgmlType;
use menagerie_quantize::{ModelFacts, Policy, PolicyTensor};
use serde_json::Value;

const RECORDED: &str = include_str!("../../../tests/fixtures/quantize/mixtures.json");

fn facts(model: &Value) -> ModelFacts {
    let fact = |at: usize| model["facts"][at].as_u64().unwrap() as usize;
    ModelFacts { blocks: fact(0), heads: fact(1), kv_heads: fact(2), experts: fact(3) }
}

fn tensors(model: &Value) -> Vec<PolicyTensor> {
    let tensor = |tensor: &Value| {
        let name = tensor[0].as_str().unwrap().to_owned();
        let dims: Vec<u64> = tensor[1].as_array().unwrap().iter().map(|dim| dim.as_u64().unwrap()).collect();
        let float = dims.len() == 1 || name.contains("inp");
        PolicyTensor { name, dims, kind: if float { GgmlType::F32 } else { GgmlType::F16 } }
    };
    model["tensors"].as_array().unwrap().iter().map(tensor).collect()
}

/// `Q6_K*3 Q4_K*2`, written out.
fn runs(text: &str) -> Vec<GgmlType> {
    let run = |run: &str| {
        let (name, count) = run.split_once('*').unwrap();
        vec![GgmlType::from_name(name).unwrap(); count.parse().unwrap()]
    };
    text.split(' ').flat_map(run).collect()
}

#[test]
fn every_tensor_gets_the_type_that_llama_quantize_gives_it() {
    let recorded: Value = serde_json::from_str(RECORDED).unwrap();
    let models = recorded["models"].as_object().unwrap();
    let (mut compared, mut wrong) = (0, Vec::new());
    for (name, model) in models {
        let (facts, tensors) = (facts(model), tensors(model));
        let types = model["types"].as_object().unwrap();
        for file in Policy::names() {
            for importance in [false, true] {
                let with = format!("{file} importance");
                let expected = types.get(&with).filter(|_| importance).unwrap_or(&types[file]);
                let mut policy = Policy::named(file).unwrap();
                policy.importance = importance;
                let made = policy.choose(&tensors, &facts).unwrap();
                for ((made, expected), tensor) in
                    made.iter().zip(runs(expected.as_str().unwrap())).zip(&tensors)
                {
                    compared += 1;
                    if made.kind != expected {
                        wrong.push(format!(
                            "{name} {with}={importance} {}: {} not {expected}",
                            tensor.name, made.kind
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
    assert!(models.len() == 10 && compared > 150_000, "{} models, {compared} compared", models.len());
}

fn small() -> Vec<PolicyTensor> {
    let tensor = |name: &str, dims: &[u64]| PolicyTensor {
        name: name.to_owned(),
        dims: dims.to_vec(),
        kind: GgmlType::F32,
    };
    vec![
        tensor("token_embd.weight", &[256, 320]),
        tensor("output.weight", &[256, 320]),
        tensor("blk.0.attn_v.weight", &[256, 64]),
        tensor("blk.0.ffn_down.weight", &[512, 256]),
        tensor("blk.1.ffn_down.weight", &[512, 256]),
    ]
}

#[test]
fn what_is_asked_for_goes_before_the_mixture() {
    let facts = ModelFacts { blocks: 2, heads: 4, kv_heads: 1, experts: 0 };
    let kinds = |policy: &Policy| -> Vec<&str> {
        policy.choose(&small(), &facts).unwrap().iter().map(|choice| choice.kind.name()).collect()
    };
    let plain = Policy::named("q4_k_m").unwrap();
    assert_eq!(kinds(&plain), ["Q4_K", "Q6_K", "Q6_K", "Q4_K", "Q6_K"]);
    let mut pure = plain.clone();
    pure.pure = true;
    assert_eq!(kinds(&pure), ["Q4_K"; 5]);
    let mut asked = plain;
    (asked.output, asked.embedding) = (Some(GgmlType::Q8_0), Some(GgmlType::Q5_0));
    asked.tensors =
        vec![("blk.1.ffn_down".to_owned(), GgmlType::Q2_K), ("ffn_down".to_owned(), GgmlType::Q3_K)];
    assert_eq!(kinds(&asked), ["Q5_0", "Q8_0", "Q6_K", "Q3_K", "Q2_K"]);
    assert_eq!(Policy::named("Q4_K").unwrap().file_type(), gguf_file::FileType::Q4_K_M);
    let error = Policy::named("q4").unwrap_err().to_string();
    assert!(error.contains("`q4`") && error.contains("Q4_K_M, Q5_K_S"), "{error}");
}

#[test]
fn what_needs_importance_is_said() {
    let facts = ModelFacts { blocks: 2, heads: 4, kv_heads: 4, experts: 0 };
    let needs = |file: &str| -> Vec<bool> {
        Policy::named(file)
            .unwrap()
            .choose(&small(), &facts)
            .unwrap()
            .iter()
            .map(|made| made.needs_importance)
            .collect()
    };
    assert_eq!(needs("IQ2_XXS"), [false, false, false, true, true]);
    assert_eq!(needs("Q2_K_S"), [false, false, true, true, true]);
    assert_eq!(needs("Q2_K"), [false; 5]);
}
