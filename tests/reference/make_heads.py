"""Makes fixtures/heads: models of the zoo with a head that predicts further tokens (multi-token prediction), and the
logits of the head by the formulas below in float64. Needs numpy, gguf and safetensors.

    python make_heads.py [name ...]

The formulas of the blocks are checked first: with them, the logits of the zoo's models must be those of transformers
(zoo/<name>/reference.safetensors). The head is as vLLM computes it (deepseek_mtp.py, glm4_moe_mtp.py, qwen3_next_mtp.py,
qwen3_5_mtp.py, hy_v3_mtp.py), or llama.cpp (src/models/cohere2moe.cpp, step35.cpp):
x = eh_proj([enorm(embedding(t_s)); hnorm(h_(s-1))]), where h is the row of the model, after its final norm except in
step35; then a block like the model's, shared_head_norm, shared_head_head. The first token has no row before it: x is 0
there. vLLM has no such row; it masks the embedding of the first one that it has.

Of several heads (step35 has three), each reads the rows of the head before it in place of the model's, at all positions
(DeepSeek-AI, 2024, arXiv 2412.19437, section 2.2), and predicts one token more.

The head's weights are random, but for eh_proj, which is fitted so that x is near the row of the model before its final
norm, and for an embedding of its own, whose rows are the means of those: the head then guesses some tokens right.
Matrices are rounded to f16, as in the zoo.

`reference.safetensors` has `tokens` [48] (the zoo's prompt), `logits` [48, V] of the head at each token, and `chained`
[48, V]: its logits for the token after the likeliest one, with its own row instead of the model's, or those of the second
head; with three heads also `third` [48, V]: those of the third one for the token after that.
`hf` is the zoo's map of a folder with the tensors of the head (their names are those of the published folders)."""
import json, os, sys
import numpy as np
from gguf import GGUFReader, GGUFWriter, GGMLQuantizationType
from safetensors.numpy import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("FIXTURES", os.path.normpath(HERE + "/../fixtures"))
silu = lambda x: x / (1 + np.exp(-x))
sigmoid = lambda x: 1 / (1 + np.exp(-x))
softplus = lambda x: np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rms(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def centred(x, weight, eps):
    x = x - x.mean(-1, keepdims=True)
    return rms(x, weight, eps)


def limited(gate, up, limit):
    """silu(gate) * up, both limited after the activation; 0 is no limit."""
    if limit:
        return np.minimum(silu(gate), limit) * np.clip(up, -limit, limit)
    return silu(gate) * up


class Model:
    def __init__(self, path):
        reader = GGUFReader(path)
        self.reader = reader
        self.arch = reader.fields["general.architecture"].contents()
        self.keys = {k[len(self.arch) + 1:]: f.contents() for k, f in reader.fields.items() if k.startswith(self.arch + ".")}
        self.w = {t.name: np.array(t.data).astype(np.float64) for t in reader.tensors}
        self.rms = centred if "attention.layer_norm_epsilon" in self.keys else rms
        self.eps = self.keys.get("attention.layer_norm_epsilon", self.keys.get("attention.layer_norm_rms_epsilon"))
        self.blocks = self.keys["block_count"] - self.keys.get("nextn_predict_layers", 0)
        self.output = self.w.get("output.weight", self.w["token_embd.weight"]) * self.keys.get("logit_scale", 1)

    def of_layer(self, key, layer, default=None):
        """A key that may have a value for each block; the blocks of heads have those of the block they are like."""
        value = self.keys.get(key, default)
        return value[layer if layer < self.blocks else self.like] if isinstance(value, list) else value

    def local(self, layer):
        if self.arch == "cohere2moe" and layer >= self.blocks:
            return False
        return bool(self.of_layer("attention.sliding_window_pattern", layer, False))

    @property
    def like(self):
        """The block that those of the heads are like: the last one that attends, or in step35 the last one with a window."""
        return 2 if self.arch == "step35" else self.blocks - 1

    def get(self, layer, role):
        return self.w[f"blk.{layer}.{role}"]

    def has(self, layer, role):
        return f"blk.{layer}.{role}" in self.w

    def linear(self, x, layer, role):
        y = x @ self.get(layer, role + ".weight").T
        return y + self.get(layer, role + ".bias") if self.has(layer, role + ".bias") else y

    def norm(self, x, layer, role, eps=None):
        return self.rms(x, self.get(layer, role + ".weight"), eps or self.eps)

    # Positions.

    def frequencies(self, layer):
        dims, base = self.keys.get("rope.dimension_count", self.keys.get("attention.key_length")), self.keys["rope.freq_base"]
        if self.arch == "step35":
            dims, base = (dims, self.keys["rope.freq_base_swa"]) if self.local(layer) else (dims // 2, base)
        plain = base ** (-np.arange(0, dims, 2) / dims)
        if self.keys.get("rope.scaling.type") != "yarn":
            return plain
        factor, length = self.keys["rope.scaling.factor"], self.keys["rope.scaling.original_context_length"]
        at = lambda turns: dims * np.log(length / (turns * 2 * np.pi)) / (2 * np.log(base))
        low = max(np.floor(at(self.keys["rope.scaling.yarn_beta_fast"])), 0)
        high = min(np.ceil(at(self.keys["rope.scaling.yarn_beta_slow"])), dims - 1)
        ramp = np.clip((np.arange(dims // 2) - low) / max(high - low, 0.001), 0, 1)
        return plain / factor * ramp + plain * (1 - ramp)

    def rotate(self, x, adjacent, layer):
        """The first dims of each head, x [T, heads, dim]."""
        if self.arch == "cohere2moe" and not self.local(layer) and 0 < layer < self.blocks:
            return x
        freq = self.frequencies(layer)
        angle = np.arange(len(x))[:, None] * freq
        cos, sin, n = np.cos(angle)[:, None], np.sin(angle)[:, None], len(freq)
        out = x.copy()
        a, b = (x[..., 0:2 * n:2], x[..., 1:2 * n:2]) if adjacent else (x[..., :n], x[..., n:2 * n])
        first, second = a * cos - b * sin, a * sin + b * cos
        if adjacent:
            out[..., 0:2 * n:2], out[..., 1:2 * n:2] = first, second
        else:
            out[..., :n], out[..., n:2 * n] = first, second
        return out

    def attend(self, q, k, v, scale, window=0):
        """Causal; q [T, heads, d], k and v [T, kv heads, d]."""
        group = q.shape[1] // k.shape[1]
        k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
        scores = np.einsum("thd,shd->hts", q, k) * scale
        seen = np.tri(len(q), dtype=bool)
        if window:
            seen &= ~np.tri(len(q), k=-window, dtype=bool)
        scores = np.where(seen, scores, -np.inf)
        return np.einsum("hts,shd->thd", softmax(scores), v).reshape(len(q), -1)

    # Mixers.

    def grouped(self, x, layer):
        gated = self.arch in ("qwen3next", "qwen35")
        q, k, v = (self.linear(x, layer, role) for role in ("attn_q", "attn_k", "attn_v"))
        dim = self.keys["attention.key_length"]
        split = lambda y: y.reshape(len(y), -1, dim)
        gate = None
        if gated:
            q = q.reshape(len(q), self.keys["attention.head_count"], 2 * dim)
            q, gate = q[..., :dim], q[..., dim:].reshape(len(q), -1)
        else:
            q = split(q)
        k, v = split(k), split(v)
        if self.has(layer, "attn_q_norm.weight"):
            q, k = self.norm(q, layer, "attn_q_norm"), self.norm(k, layer, "attn_k_norm")
        adjacent = self.arch == "cohere2moe"
        q, k = self.rotate(q, adjacent, layer), self.rotate(k, adjacent, layer)
        window = self.keys["attention.sliding_window"] if self.local(layer) else 0
        mixed = self.attend(q, k, v, dim ** -0.5, window)
        if self.arch == "step35":
            each = sigmoid(self.linear(x, layer, "attn_gate"))
            mixed = (mixed.reshape(len(x), each.shape[1], -1) * each[..., None]).reshape(len(x), -1)
        if gated:
            mixed = mixed * sigmoid(gate)
        return self.linear(mixed, layer, "attn_output")

    def latent(self, x, layer):
        key, rotated = self.keys["attention.key_length_mla"], self.keys["rope.dimension_count"]
        rank, plain = self.keys["attention.kv_lora_rank"], key - rotated
        q = self.linear(self.norm(self.linear(x, layer, "attn_q_a"), layer, "attn_q_a_norm", 1e-6), layer, "attn_q_b")
        heads = self.keys["attention.head_count"]
        q = q.reshape(len(x), heads, key)
        both = self.linear(x, layer, "attn_kv_a_mqa")
        latent = self.norm(both[:, :rank], layer, "attn_kv_a_norm", 1e-6)
        k_turn = self.rotate(both[:, None, rank:], True, layer)
        k = np.einsum("hlp,tl->thp", self.get(layer, "attn_k_b.weight"), latent)
        v = np.einsum("hvl,tl->thv", self.get(layer, "attn_v_b.weight"), latent)
        q = np.concatenate([q[..., :plain], self.rotate(q[..., plain:], True, layer)], -1)
        k = np.concatenate([k, np.repeat(k_turn, heads, 1)], -1)
        mscale = 1 + self.keys["rope.scaling.yarn_log_multiplier"] * np.log(self.keys["rope.scaling.factor"])
        return self.linear(self.attend(q, k, v, mscale ** 2 * key ** -0.5), layer, "attn_output")

    def delta(self, x, layer):
        keys, values, dim = self.keys["ssm.group_count"], self.keys["ssm.time_step_rank"], self.keys["ssm.state_size"]
        taps = self.get(layer, "ssm_conv1d.weight")
        rows = self.linear(x, layer, "attn_qkv")
        padded = np.concatenate([np.zeros((taps.shape[1] - 1, rows.shape[1])), rows])
        rows = silu(sum(padded[j:j + len(x)] * taps[:, j] for j in range(taps.shape[1])))
        q, k, v = np.split(rows, [keys * dim, 2 * keys * dim], 1)
        unit = lambda y: y / np.sqrt((y * y).sum(-1, keepdims=True) + 1e-6)
        each = values // keys
        tiled = self.arch == "qwen35"
        spread = lambda y: np.tile(y, (1, each, 1)) if tiled else np.repeat(y, each, 1)
        q, k = (spread(unit(y.reshape(len(x), keys, dim))) for y in (q, k))
        q, v = q * dim ** -0.5, v.reshape(len(x), values, -1)
        if tiled:
            beta, a = sigmoid(self.linear(x, layer, "ssm_beta")), self.linear(x, layer, "ssm_alpha")
        else:
            ba = self.linear(x, layer, "ssm_ba").reshape(len(x), keys, 2 * each)
            beta, a = sigmoid(ba[..., :each].reshape(len(x), -1)), ba[..., each:].reshape(len(x), -1)
        decay = np.exp(self.get(layer, "ssm_a") * softplus(a + self.get(layer, "ssm_dt.bias")))
        state, out = np.zeros((values, dim, v.shape[2])), np.zeros_like(v)
        for t in range(len(x)):
            state = state * decay[t][:, None, None]
            seen = np.einsum("hkv,hk->hv", state, k[t])
            state = state + np.einsum("hk,hv->hkv", k[t], beta[t][:, None] * (v[t] - seen))
            out[t] = np.einsum("hkv,hk->hv", state, q[t])
        gate = self.linear(x, layer, "attn_gate").reshape(out.shape)
        out = rms(out, self.get(layer, "ssm_norm.weight"), self.eps) * silu(gate)
        return self.linear(out.reshape(len(x), -1), layer, "ssm_out")

    # Feed-forwards.

    def experts(self, x, layer):
        logits, used = self.linear(x, layer, "ffn_gate_inp"), self.keys["expert_used_count"]
        scores = softmax(logits) if self.arch == "qwen3next" else sigmoid(logits)
        bias = next((self.get(layer, name) for name in ("exp_probs_b.bias", "exp_probs_b") if self.has(layer, name)), 0)
        chosen = scores + bias
        groups, keep = self.keys.get("expert_group_count", 1), self.keys.get("expert_group_used_count", 1)
        if groups > 1:
            by_group = chosen.reshape(len(x), groups, -1)
            best = np.sort(by_group, -1)[..., -2:].sum(-1)
            kept = np.argsort(-best, -1)[:, :keep]
            mask = np.zeros((len(x), groups), bool)
            np.put_along_axis(mask, kept, True, 1)
            chosen = np.where(mask[..., None], by_group, -np.inf).reshape(len(x), -1)
        top = np.argsort(-chosen, -1, kind="stable")[:, :used]
        weights = np.take_along_axis(scores, top, 1)
        weights = weights / weights.sum(-1, keepdims=True) * self.keys.get("expert_weights_scale", 1.0)
        gate, up, down = (self.get(layer, f"ffn_{part}_exps.weight") for part in ("gate", "up", "down"))
        limit = self.of_layer("swiglu_clamp_exp", layer, 0)
        out = np.zeros_like(x)
        for t in range(len(x)):
            for expert, weight in zip(top[t], weights[t]):
                out[t] += weight * (down[expert] @ limited(gate[expert] @ x[t], up[expert] @ x[t], limit))
        shared = self.dense(x, layer, "_shexp")
        if self.has(layer, "ffn_gate_inp_shexp.weight"):
            shared = shared * sigmoid(self.linear(x, layer, "ffn_gate_inp_shexp").reshape(len(x), 1))
        return (out + shared) * (0.5 if self.arch == "cohere2moe" else 1)

    def dense(self, x, layer, end=""):
        gate, up = self.linear(x, layer, "ffn_gate" + end), self.linear(x, layer, "ffn_up" + end)
        limit = self.of_layer("swiglu_clamp_shexp", layer, 0) if end else 0
        return self.linear(limited(gate, up, limit), layer, "ffn_down" + end)

    # The model, and its head.

    def block(self, x, layer):
        normed = self.norm(x, layer, "attn_norm")
        mixer = self.latent if self.has(layer, "attn_kv_a_mqa.weight") else self.delta if self.has(layer, "ssm_out.weight") else self.grouped
        forward = self.experts if self.has(layer, "ffn_gate_inp.weight") else self.dense
        if self.arch == "cohere2moe":
            return x + mixer(normed, layer) + forward(normed, layer)
        x = x + mixer(normed, layer)
        place = "ffn_norm" if self.has(layer, "ffn_norm.weight") else "post_attention_norm"
        normed = self.norm(x, layer, place)
        return x + forward(normed, layer)

    def stream(self, tokens):
        x = self.w["token_embd.weight"][tokens]
        for layer in range(self.blocks):
            x = self.block(x, layer)
        return x

    def normed(self, x):
        return self.rms(x, self.w["output_norm.weight"], self.eps)

    def read(self, x):
        """The rows that the first head reads."""
        return x if self.arch == "step35" else self.normed(x)

    def joined(self, tokens, before, layer):
        table = self.w.get(f"blk.{layer}.nextn.embed_tokens.weight", self.w["token_embd.weight"])
        e, h = self.norm(table[tokens], layer, "nextn.enorm"), self.norm(before, layer, "nextn.hnorm")
        return np.concatenate([e, h], -1)

    def head(self, tokens, before, layer):
        """Its rows before and after its norm; before[0] does not count."""
        x = self.joined(tokens, before, layer) @ self.get(layer, "nextn.eh_proj.weight").T
        x[0] = 0
        x = self.block(x, layer)
        return x, self.norm(x, layer, "nextn.shared_head_norm")

    def head_logits(self, normed, layer):
        own = self.w.get(f"blk.{layer}.nextn.shared_head_head.weight")
        return normed @ (self.output if own is None else own * self.keys.get("logit_scale", 1)).T


def shifted(h):
    return np.concatenate([np.zeros((1, h.shape[1])), h[:-1]])


def rows_before(model, tokens, x, number):
    """What head `number` reads, for the stream `x` of the model."""
    rows = model.read(x)
    for earlier in range(number):
        rows = model.head(tokens, shifted(rows), model.blocks + earlier)[0]
    return shifted(rows)


def add_head(model, rng, own, number=0):
    """Random weights of a block like one that attends, small beside the stream, and those of the head."""
    layer, like = model.blocks + number, model.like
    added, f16 = {}, lambda x: x.astype(np.float16)
    for name, value in list(model.w.items()):
        role = name.removeprefix(f"blk.{like}.")
        if role == name:
            continue
        kind = next(t.tensor_type for t in model.reader.tensors if t.name == name)
        small = 0.1 if role.startswith(("attn_output", "ffn_down")) else 0.5
        made = value + rng.normal(size=value.shape) * 0.05 if value.ndim == 1 else rng.normal(size=value.shape) * value.std() * small
        added[f"blk.{layer}.{role}"] = f16(made) if kind == GGMLQuantizationType.F16 else made.astype(np.float32)
    width = model.keys["embedding_length"]
    for role in ("enorm", "hnorm", "shared_head_norm"):
        added[f"blk.{layer}.nextn.{role}.weight"] = (1 + rng.normal(size=width) * 0.1).astype(np.float32)
    texts = [rng.integers(5, len(model.w["token_embd.weight"]), 60) for _ in range(160 if own else 24)]
    streams = [model.stream(tokens) for tokens in texts]
    if own:
        table, count = model.w["token_embd.weight"] * 0.01, np.full((len(model.w["token_embd.weight"]), 1), 0.01)
        for tokens, x in zip(texts, streams):
            np.add.at(table, tokens, x), np.add.at(count, tokens, 1)
        added[f"blk.{layer}.nextn.embed_tokens.weight"] = f16(table / count)
        added[f"blk.{layer}.nextn.shared_head_head.weight"] = f16(model.w["output.weight"] * (1 + rng.normal(size=(1, width)) * 0.05))
    model.w.update({name: value.astype(np.float64) for name, value in added.items()})
    # Head k is fitted to the row that the model has k tokens later.
    before = [rows_before(model, tokens, x, number) for tokens, x in zip(texts, streams)]
    inputs = [model.joined(tokens, rows, layer)[1 + number:] for tokens, rows in zip(texts, before)]
    targets = [x[1 + number:] for x in streams]
    a, b = np.concatenate(inputs), np.concatenate(targets)
    fitted = np.linalg.solve(a.T @ a + 0.1 * np.eye(a.shape[1]), a.T @ b).T
    added[f"blk.{layer}.nextn.eh_proj.weight"] = f16(fitted)
    model.w[f"blk.{layer}.nextn.eh_proj.weight"] = added[f"blk.{layer}.nextn.eh_proj.weight"].astype(np.float64)
    return added


def write(model, added, path):
    writer = GGUFWriter(path, model.arch)
    heads = sum(name.endswith("nextn.eh_proj.weight") for name in added)
    counts = {"block_count": model.blocks + heads, "nextn_predict_layers": heads}
    for name, field in model.reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        key = name.removeprefix(model.arch + ".")
        value = field.contents()
        if key in counts:
            value = counts[key]
        if key == "attention.recurrent_layers":
            value = list(value) + [False]
        elif isinstance(value, list) and len(value) == model.blocks and model.arch == "step35":
            value = list(value) + [value[model.like]] * heads
        kind = field.types
        writer.add_key_value(name, value, kind[0], kind[1] if len(kind) > 1 else None)
    if f"{model.arch}.nextn_predict_layers" not in model.reader.fields:
        writer.add_uint32(f"{model.arch}.nextn_predict_layers", heads)
    for tensor in model.reader.tensors:
        writer.add_tensor(tensor.name, np.array(tensor.data))
    for name, value in added.items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(name, seed, own, repeats_normed, heads=1):
    zoo = f"{ROOT}/zoo/{name}"
    model, reference = Model(zoo + "/model-f16.gguf"), load_file(zoo + "/reference.safetensors")
    tokens = reference["tokens_prompt"].astype(int).reshape(-1)
    logits = model.normed(model.stream(tokens)) @ model.output.T
    expected = reference["logits_prompt"].astype(np.float64).reshape(logits.shape)
    error = np.abs(logits - expected).max()
    assert error < 2e-4, (name, error)
    added, rng = {}, np.random.default_rng(seed)
    for number in range(heads):
        added |= add_head(model, rng, own, number)
    folder, layer = f"{ROOT}/heads/{name}", model.blocks
    os.makedirs(folder, exist_ok=True)
    write(model, added, folder + "/model-f16.gguf")
    hidden = model.read(model.stream(tokens))
    rows, normed = model.head(tokens, shifted(hidden), layer)
    head = model.head_logits(normed, layer)
    chained = [np.zeros_like(head) for _ in range(max(heads - 1, 1))]
    for t in range(1, len(tokens)):
        text, guess = tokens[:t + 1], head[t].argmax()
        for number, logits_of in enumerate(chained, 1):
            text = np.append(text, guess)
            at = layer + (number if heads > 1 else 0)
            if heads > 1:
                before = later_rows(model, text, hidden[:t], number)
            else:
                before = np.concatenate([shifted(hidden)[:t + 1], (normed if repeats_normed else rows)[t:t + 1]])
            logits_of[t] = model.head_logits(model.head(text, before, at)[1], at)[-1]
            guess = logits_of[t].argmax()
    right = (head.argmax(-1)[1:] == logits.argmax(-1)[1:]).mean()
    print(f"{name}: {error:.1e} from transformers; {right:.0%} of the head's tokens are the model's")
    if os.path.exists(f"{zoo}/hf/tensors.json") and name in FOLDERS:
        folder_map(name, added)
    kept = {"tokens": tokens.astype(np.int64), "logits": head.astype(np.float32)}
    save_file(kept | {key: value.astype(np.float32) for key, value in zip(("chained", "third"), chained)}, folder + "/reference.safetensors")


def later_rows(model, text, hidden, number):
    """What head `number` reads at each token of a text, of which the model has computed the rows `hidden`: the last tokens
    are guesses, each of which a head has made from the rows of the head before it."""
    rows = shifted(np.concatenate([hidden, hidden[-1:]]))
    for earlier in range(number):
        made = model.head(text[:len(rows)], rows, model.blocks + earlier)[0]
        rows = shifted(np.concatenate([made, made[-1:]]))
    return rows


PLAIN = {"eh_proj": ".eh_proj", "enorm": ".enorm", "hnorm": ".hnorm"}
OF_LAYER = PLAIN | {"embed_tokens": ".embed_tokens", "shared_head_norm": ".shared_head.norm", "shared_head_head": ".shared_head.head"}
OF_MTP = {"eh_proj": "mtp.fc", "enorm": "mtp.pre_fc_norm_embedding", "hnorm": "mtp.pre_fc_norm_hidden", "shared_head_norm": "mtp.norm"}
# The prefix of the head's block in a published folder, its own tensors (from "." on behind that prefix), and the key with
# the number of heads.
FOLDERS = {
    "deepseek2-v3": ("model.layers.{layer}", OF_LAYER, "num_nextn_predict_layers"),
    "glm4moe": ("model.layers.{layer}", OF_LAYER, "num_nextn_predict_layers"),
    "hy_v3": ("model.layers.{layer}", PLAIN | {"shared_head_norm": ".final_layernorm"}, "num_nextn_predict_layers"),
    "qwen3next": ("mtp.layers.0", OF_MTP, None),
    "qwen35": ("mtp.layers.0", OF_MTP, "mtp_num_hidden_layers"),
}


def folder_map(name, added):
    """hf/config.json, hf/tensors.json and hf/extra.safetensors: those of the zoo, the block of the head like the last one,
    and its own tensors. The norms of qwen3next and qwen35 are stored less one, so they are extra."""
    zoo, out = f"{ROOT}/zoo/{name}/hf", f"{ROOT}/heads/{name}/hf"
    os.makedirs(out, exist_ok=True)
    config, tensors = json.load(open(zoo + "/config.json")), json.load(open(zoo + "/tensors.json"))
    extra = load_file(zoo + "/extra.safetensors") if os.path.exists(zoo + "/extra.safetensors") else {}
    layer = config["num_hidden_layers"]
    prefix, names, key = FOLDERS[name]
    if key:
        config[key] = 1
    here, there = f"model.layers.{layer - 1}.", prefix.format(layer=layer) + "."
    less = name.startswith("qwen")
    norms = {"input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm",
             "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
    for stored, how in list(tensors["tensors"].items()):
        if not stored.startswith(here):
            continue
        rest = stored[len(here):]
        tensors["tensors"][there + rest] = json.loads(json.dumps(how).replace(f"blk.{layer - 1}.", f"blk.{layer}."))
        if "extra" in how:
            value = added[f"blk.{layer}.{norms[rest.removesuffix('.weight')]}.weight"]
            extra[there + rest] = (value - 1).astype(np.float32)
    for role, stored in names.items():
        tensor = f"blk.{layer}.nextn.{role}.weight"
        if tensor not in added:
            continue
        stored = (there[:-1] + stored if stored.startswith(".") else stored) + ".weight"
        shape = list(added[tensor].shape)
        if less and added[tensor].ndim == 1:
            tensors["tensors"][stored] = {"shape": shape, "extra": True}
            extra[stored] = (added[tensor] - 1).astype(np.float32)
        else:
            tensors["tensors"][stored] = {"shape": shape, "from": tensor}
    if extra:
        save_file(extra, out + "/extra.safetensors")
    for file, value in (("config.json", config), ("tensors.json", tensors)):
        json.dump(value, open(f"{out}/{file}", "w"), separators=(",", ":"))


if __name__ == "__main__":
    for name, *how in (("deepseek2-v3", 1, False, False), ("glm4moe", 2, True, False), ("qwen3next", 3, False, True), ("qwen35", 4, False, True),
                       ("hy_v3", 5, False, True), ("cohere2moe", 6, False, True), ("step35", 7, True, False, 3)):
        if not sys.argv[1:] or name in sys.argv[1:]:
            make(name, *how)
