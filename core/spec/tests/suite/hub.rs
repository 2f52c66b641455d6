//! Names that configs on the hub have, class by class: each is read, ignored with a reason, or refused on purpose.

use crate::model::{built_in, spec};
use menagerie_spec::{HfConfig, HfKeys, KeySource, MetadataValue, NameUse};
use serde_json::{Value, json};

/// What every config of transformers 4 has, whatever its class.
fn usual() -> Value {
    json!({
        "_name_or_path": "somewhere/a-model", "bos_token_id": 1, "eos_token_id": [2, 3], "pad_token_id": null,
        "initializer_range": 0.02, "torch_dtype": "bfloat16", "transformers_version": "4.40.2", "use_cache": true,
        "auto_map": {"AutoConfig": "configuration_a.AConfig"}, "vocab_size": 64, "tie_word_embeddings": false
    })
}

/// What llama and those that grew from it have too.
fn llama_like() -> Value {
    json!({
        "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "hidden_act": "silu", "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "rope_scaling": null, "attention_dropout": 0.0
    })
}

/// A class with a spec, and what its published configs have beside the usual names.
fn configs() -> Vec<(&'static str, &'static str, Vec<Value>)> {
    let llama = llama_like;
    vec![
        (
            "llama",
            "LlamaForCausalLM",
            vec![
                llama(),
                json!({"attention_bias": false, "mlp_bias": false,
            "pretraining_tp": 1, "head_dim": null}),
            ],
        ),
        ("llama", "MistralForCausalLM", vec![llama(), json!({"sliding_window": null, "head_dim": 16})]),
        (
            "llama",
            "MixtralForCausalLM",
            vec![
                llama(),
                json!({"sliding_window": null, "num_local_experts": 4,
            "num_experts_per_tok": 2, "output_router_logits": false, "router_aux_loss_coef": 0.02,
            "router_jitter_noise": 0.0}),
            ],
        ),
        (
            "phi3",
            "Phi3ForCausalLM",
            vec![
                llama(),
                json!({"original_max_position_embeddings": 256, "embd_pdrop": 0.0,
            "resid_pdrop": 0.0, "sliding_window": 31, "attention_bias": false}),
            ],
        ),
        (
            "phi3",
            "Phi3ForCausalLM",
            vec![
                llama(),
                json!({"original_max_position_embeddings": 64, "embd_pdrop": 0.0,
            "resid_pdrop": 0.0, "sliding_window": 512, "rope_scaling": {"type": "longrope",
            "long_factor": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
            "short_factor": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]}}),
            ],
        ),
        (
            "phi3",
            "Phi3ForCausalLM",
            vec![
                llama(),
                json!({"original_max_position_embeddings": 64, "embd_pdrop": 0.0,
            "resid_pdrop": 0.0, "sliding_window": 512, "full_attn_mod": 1, "interpolate_factor": 1,
            "lm_head_bias": false, "mlp_bias": false, "partial_rotary_factor": 0.75}),
            ],
        ),
        (
            "phimoe",
            "PhiMoEForCausalLM",
            vec![
                llama(),
                json!({"original_max_position_embeddings": 64,
            "hidden_dropout": 0.0, "input_jitter_noise": 0.01, "router_jitter_noise": 0.01, "lm_head_bias": true,
            "attention_bias": true, "num_local_experts": 4, "num_experts_per_tok": 2, "output_router_logits": false,
            "router_aux_loss_coef": 0.0, "sliding_window": 512, "rope_scaling": {"type": "longrope",
            "long_factor": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], "long_mscale": 1.2,
            "original_max_position_embeddings": 64, "short_mscale": 1.2,
            "short_factor": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]}}),
            ],
        ),
        (
            "qwen2",
            "Qwen2ForCausalLM",
            vec![
                llama(),
                json!({"max_window_layers": 2, "sliding_window": 128,
            "use_sliding_window": false, "use_mrope": false}),
            ],
        ),
        (
            "qwen3",
            "Qwen3ForCausalLM",
            vec![
                llama(),
                json!({"attention_bias": false, "head_dim": 16,
            "max_window_layers": 2, "sliding_window": null, "use_sliding_window": false}),
            ],
        ),
        (
            "qwen3moe",
            "Qwen3MoeForCausalLM",
            vec![
                llama(),
                json!({"attention_bias": false, "head_dim": 16,
            "max_window_layers": 2, "sliding_window": null, "use_sliding_window": false, "decoder_sparse_step": 1,
            "mlp_only_layers": [], "moe_intermediate_size": 32, "norm_topk_prob": true, "num_experts": 4,
            "num_experts_per_tok": 2, "output_router_logits": false, "router_aux_loss_coef": 0.001}),
            ],
        ),
        (
            "gemma",
            "GemmaForCausalLM",
            vec![
                llama(),
                json!({"head_dim": 16, "hidden_act": "gelu",
            "hidden_activation": null, "attention_bias": false}),
            ],
        ),
        (
            "gemma2",
            "Gemma2ForCausalLM",
            vec![
                llama(),
                json!({"head_dim": 16, "hidden_act": "gelu_pytorch_tanh",
            "hidden_activation": "gelu_pytorch_tanh", "attention_bias": false, "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0, "cache_implementation": "hybrid", "query_pre_attn_scalar": 16,
            "sliding_window": 32, "sliding_window_size": 32}),
            ],
        ),
        (
            "gemma3",
            "Gemma3ForCausalLM",
            vec![
                llama(),
                json!({"head_dim": 16, "hidden_act": null,
            "hidden_activation": "gelu_pytorch_tanh", "attention_bias": false, "attn_logit_softcapping": null,
            "final_logit_softcapping": null, "cache_implementation": "hybrid", "query_pre_attn_scalar": 16,
            "rope_local_base_freq": 10000, "sliding_window": 32, "sliding_window_pattern": 6}),
            ],
        ),
        (
            "granite",
            "GraniteForCausalLM",
            vec![
                llama(),
                json!({"attention_bias": false, "mlp_bias": false,
            "attention_multiplier": 0.25, "embedding_multiplier": 12.0, "residual_multiplier": 0.22,
            "logits_scaling": 8.0}),
            ],
        ),
        ("olmo2", "Olmo2ForCausalLM", vec![llama(), json!({"attention_bias": false})]),
        (
            "command-r",
            "CohereForCausalLM",
            vec![
                llama(),
                json!({"rms_norm_eps": null, "layer_norm_eps": 1e-5,
            "logit_scale": 0.0625, "use_qk_norm": false, "attention_bias": false, "model_max_length": 256}),
            ],
        ),
        (
            "gpt-oss",
            "GptOssForCausalLM",
            vec![
                llama(),
                json!({"attention_bias": true, "head_dim": 16,
            "experts_per_token": 2, "num_experts_per_tok": 2, "num_local_experts": 4, "initial_context_length": 64,
            "layer_types": ["sliding_attention", "full_attention"], "output_router_logits": false,
            "router_aux_loss_coef": 0.9, "sliding_window": 32, "swiglu_limit": 7.0, "rope_scaling": {
            "beta_fast": 32.0, "beta_slow": 1.0, "factor": 4.0, "original_max_position_embeddings": 64,
            "rope_type": "yarn", "truncate": false}}),
            ],
        ),
        (
            "smollm3",
            "SmolLM3ForCausalLM",
            vec![
                llama(),
                json!({"attention_bias": false, "mlp_bias": false,
            "max_window_layers": 2, "no_rope_layers": [1, 0], "no_rope_layer_interval": 2,
            "layer_types": ["full_attention", "full_attention"], "pretraining_tp": 1, "sliding_window": null,
            "use_sliding_window": false}),
            ],
        ),
        (
            "starcoder2",
            "Starcoder2ForCausalLM",
            vec![
                llama(),
                json!({"rms_norm_eps": null, "norm_epsilon": 1e-5,
            "norm_type": "layer_norm", "mlp_type": "default", "use_bias": true, "residual_dropout": 0.1,
            "embedding_dropout": 0.1, "hidden_act": "gelu_pytorch_tanh", "sliding_window": 64,
            "activation_function": "gelu", "attention_softmax_in_fp32": true,
            "scale_attention_softmax_in_fp32": true, "scale_attn_weights": true, "layer_norm_epsilon": 1e-5,
            "n_inner": null}),
            ],
        ),
        (
            "stablelm",
            "StableLmForCausalLM",
            vec![
                llama(),
                json!({"rms_norm_eps": null, "layer_norm_eps": 1e-5,
            "partial_rotary_factor": 0.25, "use_qkv_bias": true, "use_parallel_residual": false,
            "qk_layernorm": false, "hidden_dropout": 0.0}),
            ],
        ),
        (
            "phi2",
            "PhiForCausalLM",
            vec![
                llama(),
                json!({"rms_norm_eps": null, "layer_norm_eps": 1e-5,
            "partial_rotary_factor": 0.5, "qk_layernorm": false, "hidden_act": "gelu_new", "embd_pdrop": 0.0,
            "resid_pdrop": 0.1}),
            ],
        ),
        (
            "nemotron",
            "NemotronForCausalLM",
            vec![
                llama(),
                json!({"rms_norm_eps": null, "norm_eps": 1e-5,
            "hidden_act": "relu2", "partial_rotary_factor": 0.5, "attention_bias": false, "mlp_bias": false,
            "head_dim": 16, "kv_channels": 16, "hidden_dropout": 0.0}),
            ],
        ),
        (
            "gpt2",
            "GPT2LMHeadModel",
            vec![json!({"activation_function": "gelu_new", "attn_pdrop": 0.1,
            "embd_pdrop": 0.1, "resid_pdrop": 0.1, "layer_norm_epsilon": 1e-5, "n_ctx": 64, "n_embd": 32, "n_head": 4,
            "n_inner": null, "n_layer": 2, "n_positions": 64, "summary_activation": null,
            "summary_first_dropout": 0.1, "summary_proj_to_labels": true, "summary_type": "cls_index",
            "summary_use_proj": true, "scale_attn_weights": true, "reorder_and_upcast_attn": false,
            "scale_attn_by_inverse_layer_idx": false, "task_specific_params": {"text-generation":
            {"do_sample": true, "max_length": 50}}})],
        ),
        (
            "gptneox",
            "GPTNeoXForCausalLM",
            vec![json!({"hidden_act": "gelu", "hidden_size": 32,
            "intermediate_size": 64, "layer_norm_eps": 1e-5, "max_position_embeddings": 64,
            "num_attention_heads": 4, "num_hidden_layers": 2, "rotary_emb_base": 10000, "rotary_pct": 0.25,
            "use_parallel_residual": true, "classifier_dropout": 0.1, "attention_dropout": 0.0,
            "hidden_dropout": 0.0, "attention_bias": true, "rope_scaling": null})],
        ),
        (
            "bloom",
            "BloomForCausalLM",
            vec![json!({"apply_residual_connection_post_layernorm": false,
            "attention_dropout": 0.0, "attention_softmax_in_fp32": true, "bias_dropout_fusion": true,
            "hidden_dropout": 0.0, "hidden_size": 32, "n_layer": 2, "n_head": 4, "layer_norm_epsilon": 1e-5,
            "masked_softmax_fusion": true, "n_inner": null, "offset_alibi": 100, "pretraining_tp": 1,
            "seq_length": 64, "skip_bias_add": true, "skip_bias_add_qkv": false, "slow_but_exact": false,
            "unk_token_id": 0})],
        ),
        (
            "falcon",
            "FalconForCausalLM",
            vec![json!({"alibi": false, "bias": false, "attention_dropout": 0.0,
            "apply_residual_connection_post_layernorm": false, "hidden_dropout": 0.0, "hidden_size": 32,
            "layer_norm_epsilon": 1e-5, "multi_query": true, "new_decoder_architecture": false,
            "num_attention_heads": 4, "num_hidden_layers": 2, "num_kv_heads": 4, "parallel_attn": true})],
        ),
        (
            "mamba",
            "MambaForCausalLM",
            vec![json!({"conv_kernel": 4, "d_inner": 64, "d_model": 32, "expand": 2,
            "fused_add_norm": true, "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 64,
            "layer_norm_epsilon": 1e-5, "n_layer": 2, "num_hidden_layers": 2, "pad_vocab_size_multiple": 8,
            "rescale_prenorm_residual": false, "residual_in_fp32": true, "rms_norm": true, "ssm_cfg": {},
            "state_size": 16, "time_step_floor": 1e-4, "time_step_init_scheme": "random", "time_step_max": 0.1,
            "time_step_min": 0.001, "time_step_rank": 2, "time_step_scale": 1.0, "use_bias": false,
            "use_conv_bias": true})],
        ),
        (
            "bert",
            "BertModel",
            vec![json!({"attention_probs_dropout_prob": 0.1, "classifier_dropout": null,
            "gradient_checkpointing": false, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 32,
            "intermediate_size": 64, "layer_norm_eps": 1e-12, "max_position_embeddings": 64,
            "num_attention_heads": 4, "num_hidden_layers": 2, "position_embedding_type": "absolute",
            "type_vocab_size": 2, "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0},
            "directionality": "bidi", "pooler_fc_size": 768, "pooler_num_attention_heads": 12,
            "pooler_num_fc_layers": 3, "pooler_size_per_head": 128, "pooler_type": "first_token_transform"})],
        ),
        (
            "bert",
            "RobertaModel",
            vec![json!({"attention_probs_dropout_prob": 0.1, "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1, "hidden_size": 32, "intermediate_size": 64, "layer_norm_eps": 1e-5,
            "max_position_embeddings": 66, "num_attention_heads": 4, "num_hidden_layers": 2,
            "position_embedding_type": "absolute", "type_vocab_size": 1, "pad_token_id": 1,
            "gradient_checkpointing": false})],
        ),
        (
            "bert",
            "XLMRobertaModel",
            vec![json!({"attention_probs_dropout_prob": 0.1, "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1, "hidden_size": 32, "intermediate_size": 64, "layer_norm_eps": 1e-5,
            "max_position_embeddings": 66, "num_attention_heads": 4, "num_hidden_layers": 2, "output_past": true,
            "position_embedding_type": "absolute", "type_vocab_size": 1, "pad_token_id": 1})],
        ),
    ]
}

/// A config of a class: the usual names, and more laid over them.
fn keys(id: &str, class: &str, more: &[Value]) -> HfKeys {
    let mut config = usual();
    let table = config.as_object_mut().unwrap();
    table.insert("architectures".into(), json!([class]));
    for more in more {
        table.extend(more.as_object().unwrap().clone());
    }
    let config = HfConfig::parse("config.json", &config.to_string()).unwrap();
    spec(&built_in(), id).hf_keys(&config).unwrap_or_else(|faults| panic!("{class}: {faults}"))
}

/// Names that nothing reads or ignores, and what is wrong with the others.
fn wrong(keys: &HfKeys) -> Vec<String> {
    let unread = keys.names().unwrap().iter().filter(|name| matches!(name.is, NameUse::Unknown(_)));
    let unread = unread.map(|name| name.name.clone());
    unread.chain(keys.faults().iter().map(|(name, fault)| format!("{name}: {fault}"))).collect()
}

#[test]
fn names_of_published_configs_are_understood() {
    let faults: Vec<String> = configs()
        .iter()
        .flat_map(|(id, class, more)| {
            wrong(&keys(id, class, more)).into_iter().map(move |fault| format!("{class}: {fault}"))
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Phi-3 of a context of 4096 has the context before scaling beside a `rope_scaling` that is null; with a scaling the same name
/// is the context that the factors begin at.
#[test]
fn the_context_before_scaling_says_nothing_without_a_scaling() {
    let all = configs();
    let phi3: Vec<_> = all.iter().filter(|(_, class, _)| *class == "Phi3ForCausalLM").collect();
    let original = |at: usize| {
        let (id, class, more) = phi3[at];
        let keys = keys(id, class, more);
        let name = "original_max_position_embeddings";
        let ignored = keys.names().unwrap().iter().any(|named| named.name == name);
        (keys.get("rope.scaling.type"), keys.get("rope.scaling.attn_factor").is_some(), ignored)
    };
    assert_eq!(original(0), (None, false, true));
    assert_eq!(original(1), (Some(MetadataValue::Text("longrope".into())), true, false));
    let with = keys(phi3[1].0, phi3[1].1, &phi3[1].2);
    assert_eq!(with.get("rope.scaling.original_context_length"), Some(MetadataValue::Integer(64)));
}

/// Classes whose attention has keys and values for every head have no count of them: transformers does not look at it.
#[test]
fn a_count_of_key_heads_that_a_class_does_not_have_is_not_believed() {
    let stray = json!({"num_key_value_heads": 1});
    let mut tried = Vec::new();
    for (id, class, more) in configs() {
        if !["gpt2", "gptneox", "bloom", "falcon", "bert", "mamba"].contains(&id) {
            continue;
        }
        let (with, without) =
            (keys(id, class, &[&more[..], std::slice::from_ref(&stray)].concat()), keys(id, class, &more));
        assert_eq!(with.get("attention.head_count_kv"), without.get("attention.head_count_kv"), "{class}");
        let named = with.names().unwrap().iter().find(|name| name.name == "num_key_value_heads").unwrap();
        assert!(matches!(named.is, NameUse::Ignored(_)), "{class}: {:?}", named.is);
        tried.push(class);
    }
    assert!(tried.contains(&"GPTNeoXForCausalLM") && tried.len() >= 8, "{tried:?}");
    // Others have it, and nothing else has Falcon's name for it.
    let (id, class, more) = &configs()[0];
    assert_eq!(keys(id, class, more).get("attention.head_count_kv"), Some(MetadataValue::Integer(2)));
    let falcons = keys(id, class, &[&more[..], &[json!({"num_kv_heads": 1})]].concat());
    assert_eq!(wrong(&falcons), ["num_kv_heads"]);
}
