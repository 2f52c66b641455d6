#!/usr/bin/env python3
"""make_packed.py: fixtures/packed, Hugging Face folders whose weights are 8-bit floats or MXFP4, as they are published.

`fp8-blocks`: factors for blocks (DeepSeek-V3, `weight_scale_inv`); `fp8-tensors`: one factor per tensor and one for
activations (Ministral 3); `mxfp4`: experts of gpt-oss (`_blocks`, `_scales`); `compressed-channels`, `compressed-tensor`, `compressed-blocks`:
8-bit floats of compressed-tensors, the last with factors that are powers of two. Logits are those of transformers in float32
on the weights that transformers' own functions give back, or compressed-tensors' (`dequantize`): `Fp8Dequantize`, `convert_moe_packed_tensors`.

make_packed.py [NAME ...] makes those alone.

Variables: FIXTURES as for make.py.
"""
import json, os, shutil, sys
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, GptOssConfig, LlamaConfig
from transformers.integrations.finegrained_fp8 import Fp8Dequantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(os.environ.get("FIXTURES", os.path.normpath(HERE + "/../fixtures")), "packed")
VOCAB, TOKENS = 160, 40


def model_of(config):
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    for name, p in model.named_parameters():
        if p.dim() > 1: torch.nn.init.normal_(p, std=1.2 / p.shape[-1] ** 0.5)
        elif "norm" in name: torch.nn.init.normal_(p, mean=1.0, std=0.1)
        else: torch.nn.init.normal_(p, std=0.1)
    return model


def write(name, model, state, quantization):
    folder = os.path.join(ROOT, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    config = json.loads(model.config.to_json_string())
    config["architectures"] = [type(model).__name__]
    config["quantization_config"] = quantization
    json.dump(config, open(folder + "/config.json", "w"), indent=2)
    save_file({k: v.contiguous() for k, v in state.items()}, folder + "/model.safetensors", metadata={"format": "pt"})
    tokens = torch.randint(0, VOCAB, (1, TOKENS), generator=torch.Generator().manual_seed(3))
    with torch.no_grad(): logits = model(tokens).logits[0]
    save_file({"tokens": tokens[0].clone(), "logits": logits.float().contiguous()}, folder + "/reference.safetensors")
    print(name, "logits std", float(logits.std()), "bytes", sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder)))


def llama(name, block):
    """Linears of the blocks in e4m3; the sizes are no multiples of the block."""
    model = model_of(LlamaConfig(hidden_size=64, intermediate_size=88, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                 vocab_size=VOCAB, max_position_embeddings=256, tie_word_embeddings=True, rope_theta=10000.0))
    back, state = Fp8Dequantize(None), {}
    for key, p in model.state_dict().items():
        if key == "lm_head.weight": continue
        if not key.endswith("_proj.weight"):
            state[key] = p.to(torch.bfloat16)
            p.copy_(state[key].float())
            continue
        rows, cols = p.shape
        high, wide = block or (rows, cols)
        down, across = -(-rows // high), -(-cols // wide)
        scale = torch.empty(down, across)
        for i in range(down):
            for j in range(across):
                scale[i, j] = p[i * high:(i + 1) * high, j * wide:(j + 1) * wide].abs().max() / 448
        if not block: scale = scale.to(torch.bfloat16).float()
        full = scale.repeat_interleave(high, 0)[:rows].repeat_interleave(wide, 1)[:, :cols]
        w = (p / full).clamp(-448, 448).to(torch.float8_e4m3fn)
        state[key] = w
        if block:
            state[key + "_scale_inv"] = scale
        else:
            state[key + "_scale_inv"] = scale.reshape(()).to(torch.bfloat16)
            state[key.replace(".weight", ".activation_scale")] = torch.tensor(0.25, dtype=torch.bfloat16)
        given = w.to(torch.float32) * full
        if block and rows % high == 0 and cols % wide == 0:
            theirs = back._dequantize_one(w, scale, torch.float32)
            assert torch.equal(theirs, given), key
        p.copy_(given)
    quantization = {"quant_method": "fp8", "activation_scheme": "dynamic" if block else "static", "weight_block_size": list(block) if block else None}
    if block: quantization["fmt"] = "e4m3"
    write(name, model, state, quantization)


def gpt_oss():
    model = model_of(GptOssConfig(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                                  vocab_size=VOCAB, num_local_experts=4, num_experts_per_tok=2, sliding_window=16, max_position_embeddings=256,
                                  rope_parameters={"rope_type": "yarn", "rope_theta": 150000.0, "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0,
                                                   "truncate": False, "original_max_position_embeddings": 32}))
    random, state = torch.Generator().manual_seed(5), {}
    for key, p in model.state_dict().items():
        if key.endswith("experts.gate_up_proj") or key.endswith("experts.down_proj"):
            experts, inner, outer = p.shape
            blocks = torch.randint(0, 256, (experts, outer, inner // 32, 16), dtype=torch.uint8, generator=random)
            scales = torch.randint(122, 126, (experts, outer, inner // 32), dtype=torch.uint8, generator=random)
            state[key + "_blocks"], state[key + "_scales"] = blocks, scales
            given = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
            p.copy_(given)
        else:
            state[key] = p.to(torch.bfloat16)
            p.copy_(state[key].float())
    write("mxfp4", model, state, {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]})


def compressed(name, strategy):
    """Linears as llm-compressor leaves them: `weight` in e4m3, `weight_scale`, and for static activations `input_scale`."""
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.lifecycle.forward import dequantize
    model = model_of(LlamaConfig(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                 vocab_size=VOCAB, max_position_embeddings=256, tie_word_embeddings=True, rope_theta=10000.0))
    high, wide = 16, 32
    args = QuantizationArgs(num_bits=8, type="float", strategy=strategy, symmetric=True, dynamic=False, block_structure=[high, wide] if strategy == "block" else None)
    state = {}
    for key, p in model.state_dict().items():
        if key == "lm_head.weight": continue
        if not key.endswith("_proj.weight"):
            state[key] = p.to(torch.bfloat16)
            p.copy_(state[key].float())
            continue
        rows, cols = p.shape
        if strategy == "tensor": scale = (p.abs().max() / 448).reshape(1).to(torch.bfloat16)
        elif strategy == "channel": scale = (p.abs().amax(1, keepdim=True) / 448).to(torch.bfloat16)
        else: scale = torch.exp2(torch.ceil(torch.log2(p.reshape(rows // high, high, cols // wide, wide).abs().amax((1, 3)) / 448)))
        full = scale.float() if strategy != "block" else scale.repeat_interleave(high, 0).repeat_interleave(wide, 1)
        w = (p / full).clamp(-448, 448).to(torch.float8_e4m3fn)
        state[key], state[key + "_scale"] = w, scale
        if strategy == "tensor": state[key.replace(".weight", ".input_scale")] = torch.tensor([0.25], dtype=torch.bfloat16)
        p.copy_(dequantize(w, scale.float(), args=args, dtype=torch.float32))
    activations = dict(num_bits=8, type="float", strategy="tensor" if strategy == "tensor" else "token", symmetric=True, dynamic=strategy != "tensor")
    group = dict(targets=["Linear"], weights=json.loads(args.model_dump_json()), input_activations=activations, output_activations=None)
    write(name, model, state, dict(quant_method="compressed-tensors", format="float-quantized", quantization_status="compressed", ignore=["lm_head"],
                                   kv_cache_scheme=None, global_compression_ratio=1.5, config_groups=dict(group_0=group)))


MAKERS = {
    "fp8-blocks": lambda: llama("fp8-blocks", (16, 32)),
    "fp8-tensors": lambda: llama("fp8-tensors", None),
    "mxfp4": gpt_oss,
    "compressed-channels": lambda: compressed("compressed-channels", "channel"),
    "compressed-tensor": lambda: compressed("compressed-tensor", "tensor"),
    "compressed-blocks": lambda: compressed("compressed-blocks", "block"),
}

if __name__ == "__main__":
    with torch.no_grad():
        for name in sys.argv[1:] or MAKERS: MAKERS[name]()
