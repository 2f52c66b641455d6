#!/usr/bin/env python3
"""hub_folders.py [NAME ...]: `hf/` of fixtures whose class is on the hub only, so that no transformers gives their logits.

The folder is made from the fixture's GGUF by the names that the class's own code has; that it is the folder of that model is proved by llama.cpp's
converter, which must make the same GGUF of it again: every tensor bit for bit, every key of the fixture that it writes. Nothing here reads our specs.

Variables: as for make.py (LLAMA_CPP). Needs the packages of make.py."""
import json, os, shutil, sys, tempfile
import numpy as np
import fixlib, hf_tensors

ZOO = os.path.join(os.environ.get("FIXTURES", os.path.normpath(os.path.dirname(os.path.abspath(__file__)) + "/../fixtures")), "zoo")

LLAMA = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LAYER = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
USUAL = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=264, max_position_embeddings=1024,
             rms_norm_eps=1e-5, hidden_act="silu", torch_dtype="float32", bos_token_id=1, eos_token_id=2)
ROPE = dict(rope_theta=50000.0)


class Model:
    """A class: its config, the prefix of its blocks, its names, and which rows lie otherwise in the folder."""
    def __init__(self, cls, config, names=LLAMA, layer=LAYER, prefix="model.layers.{}.", turned=False, change=None):
        self.cls, self.config, self.names, self.layer, self.prefix, self.turned, self.change = cls, {"architectures": [cls], **config}, names, layer, prefix, turned, change

    def state(self, tensors):
        out = {}
        for name, a in tensors.items():
            base, end = name.rsplit(".", 1)
            if base.startswith("blk."):
                _, n, role = base.split(".", 2)
                if self.turned and role in ("attn_q", "attn_k"):
                    heads = self.config["num_attention_heads"] if role == "attn_q" else self.config.get("num_key_value_heads", self.config["num_attention_heads"])
                    a = halves(a, heads)
                if role.endswith("_exps"): out.update({self.prefix.format(n) + self.layer[role].format(e) + "." + end: a[e] for e in range(len(a))})
                else: out[self.prefix.format(n) + self.layer[role] + "." + end] = a
            else: out[self.names[base] + "." + end] = a
        if self.change: self.change(out)
        return out


def halves(a, heads):
    """Rows whose neighbors rotate together in the GGUF, half a head apart in the folder."""
    return np.ascontiguousarray(a.reshape(heads, -1, 2, *a.shape[1:]).swapaxes(1, 2).reshape(a.shape))


def joined_qkv(state):
    """InternLM2: per key head its queries, its key, its value."""
    for n in (0, 1):
        q, k, v = (state.pop(f"model.layers.{n}.attention.{x}.weight") for x in "qkv")
        k, v = k.reshape(2, 8, 32), v.reshape(2, 8, 32)
        state[f"model.layers.{n}.attention.wqkv.weight"] = np.concatenate([np.concatenate([q.reshape(2, 16, 32)[g], k[g], v[g]]) for g in (0, 1)])


MODELS = {
    "minicpm": Model("MiniCPMForCausalLM", {**USUAL, **ROPE, "scale_emb": 3.0, "scale_depth": 0.6 * 2 ** 0.5, "dim_model_base": 64, "tie_word_embeddings": True}, turned=True),
    "orion": Model("OrionForCausalLM", {**USUAL, "max_sequence_length": 1024, "rope_theta": 10000.0, "tie_word_embeddings": False}),
    "xverse": Model("XverseForCausalLM", {**USUAL, "num_key_value_heads": 4, "tie_word_embeddings": False}, turned=True),
    "nanbeige": Model("NanbeigeForCausalLM", {**USUAL, **ROPE, "num_loops": 3, "skip_loop_final_norm": False, "tie_word_embeddings": False}, turned=True),
    "maincoder": Model("MaincoderForCausalLM", {**USUAL, **ROPE, "head_dim": 16, "tie_word_embeddings": True}, layer={**LAYER, "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}),
    "pangu-embedded": Model("PanguEmbeddedForCausalLM", {**USUAL, **ROPE, "bias": True, "tie_word_embeddings": True}),
    "plm": Model("PLMForCausalLM", {**USUAL, **ROPE, "num_key_value_heads": 4, "hidden_act": "relu2", "kv_lora_rank": 12, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6, "tie_word_embeddings": True},
                 layer={**LAYER, "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa", "attn_kv_a_norm": "self_attn.kv_a_layernorm", "attn_kv_b": "self_attn.kv_b_proj"}),
    "deepseek": Model("DeepseekForCausalLM", {**USUAL, **ROPE, "num_hidden_layers": 3, "first_k_dense_replace": 1, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12, "n_shared_experts": 2,
                      "moe_layer_freq": 1, "norm_topk_prob": False, "scoring_func": "softmax", "tie_word_embeddings": False}, turned=True,
                      layer={**LAYER, "ffn_gate_inp": "mlp.gate", "ffn_gate_shexp": "mlp.shared_experts.gate_proj", "ffn_up_shexp": "mlp.shared_experts.up_proj", "ffn_down_shexp": "mlp.shared_experts.down_proj",
                             "ffn_gate_exps": "mlp.experts.{}.gate_proj", "ffn_up_exps": "mlp.experts.{}.up_proj", "ffn_down_exps": "mlp.experts.{}.down_proj"}),
    "internlm2": Model("InternLM2ForCausalLM", {**USUAL, **ROPE, "bias": False, "tie_word_embeddings": False}, names={"token_embd": "model.tok_embeddings", "output_norm": "model.norm", "output": "output"},
                       layer={"attn_norm": "attention_norm", "ffn_norm": "ffn_norm", "attn_q": "attention.q", "attn_k": "attention.k", "attn_v": "attention.v", "attn_output": "attention.wo",
                              "ffn_gate": "feed_forward.w1", "ffn_up": "feed_forward.w3", "ffn_down": "feed_forward.w2"}, turned=True, change=joined_qkv),
}


def gguf_keys(path):
    r = fixlib.gguf_module().GGUFReader(path)
    return {k: f.contents() for k, f in r.fields.items() if not k.startswith(("tokenizer.", "GGUF.", "general."))}


def make(name, model):
    from safetensors.numpy import save_file
    folder = ZOO + "/" + name; source = folder + "/model-f16.gguf"; tensors = hf_tensors.read_gguf(source)
    with tempfile.TemporaryDirectory() as t:
        json.dump(model.config, open(t + "/config.json", "w"))
        save_file({n: hf_tensors.whole(a) for n, a in model.state(tensors).items()}, t + "/model.safetensors", metadata=dict(format="pt"))
        out = t + "/again.gguf"
        fixlib.convert(t, out, "gpt2", patch=None)
        again = hf_tensors.read_gguf(out)
        wrong = sorted(set(tensors) ^ set(again)) or [n for n in tensors if tensors[n].shape != again[n].shape or not np.array_equal(tensors[n], again[n])]
        ours, theirs = gguf_keys(source), gguf_keys(out)
        keys = {k: (v, theirs.get(k)) for k, v in ours.items() if k in theirs and theirs[k] != v}
        if wrong or keys: return f"tensors {wrong[:6]}, keys {keys}"
        shutil.rmtree(folder + "/hf", ignore_errors=True)
        hf_tensors.store(t, source, folder + "/hf", model.config)
        return "the same file again; not written by the converter: " + " ".join(sorted(set(ours) - set(theirs)))


if __name__ == "__main__":
    sys.path.insert(0, fixlib.VENDOR); sys.path.insert(0, fixlib.VENDOR + "/gguf-py")
    from conversion.base import TextModel
    def no_vocab(self, *a, **k): self.gguf_writer.add_tokenizer_model("none")
    from conversion import internlm, xverse
    for c in (TextModel, internlm.InternLM2Model, xverse.XverseModel):
        for n in ("_set_vocab_gpt2", "_set_vocab_sentencepiece", "_set_vocab_llama_hf", "set_vocab"): setattr(c, n, no_vocab)
    for name in sys.argv[1:] or MODELS:
        import traceback
        try: print(name, make(name, MODELS[name]), flush=True)
        except (SystemExit, Exception) as e: print(name, "FAILED", type(e).__name__, str(e)[:300], flush=True); traceback.print_exc(limit=-3)
