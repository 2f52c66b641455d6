#!/usr/bin/env python3
"""make_perplexity.py OUT.json TEXT CONTEXT NAME=MODEL.gguf[:f32] ...: perplexity, KL divergence and importance matrices by llama.cpp.

The first model is the base that the others are compared with. Chunks, scored rows and statistics are those of llama.cpp's `llama-perplexity`
(tools/perplexity/perplexity.cpp; the prebuilt libraries have the engine but not that tool, so its loop is here): chunks of CONTEXT tokens, the first
one of each replaced by BOS where the model adds one, rows CONTEXT/2 .. CONTEXT-2 of each are scored. `:f32` runs with an f32 cache and without
flash attention: an engine that computes in f32 must agree with it.

`IMATRIX=FILE.gguf` also collects, for the first model, the sum of squares of every matrix product's input (tools/imatrix/imatrix.cpp).

Variables: CHUNKS = most chunks; LLAMA_CPP_LIB_PATH and `llama_cpp` as for greedy.py.
"""
import ctypes, json, math, os, sys
import llama_cpp as L
import numpy as np


@L.llama_log_callback
def silent(level, text, data):
    if level == 4: sys.stderr.write(text.decode(errors="replace"))


SUMS = {}
INTERNALS = ctypes.CDLL(os.path.join(os.environ["LLAMA_CPP_LIB_PATH"], "libggml-base.so"))


class Tensor(ctypes.Structure):
    pass


Tensor._fields_ = [("type", ctypes.c_int), ("buffer", ctypes.c_void_p), ("ne", ctypes.c_int64 * 4), ("nb", ctypes.c_size_t * 4), ("op", ctypes.c_int),
                   ("op_params", ctypes.c_int32 * 16), ("flags", ctypes.c_int32), ("src", ctypes.POINTER(Tensor) * 10), ("view_src", ctypes.c_void_p),
                   ("view_offs", ctypes.c_size_t), ("data", ctypes.c_void_p), ("name", ctypes.c_char * 64)]
INTERNALS.ggml_op_desc.restype = ctypes.c_char_p
INTERNALS.ggml_op_desc.argtypes = [ctypes.POINTER(Tensor)]


def collect(pointer, ask, _):
    t = ctypes.cast(pointer, ctypes.POINTER(Tensor)).contents
    op = INTERNALS.ggml_op_desc(t)
    if op not in (b"MUL_MAT", b"MUL_MAT_ID"): return not ask
    weight, x = t.src[0].contents, t.src[1].contents
    name = weight.name.decode()
    wanted = op == b"MUL_MAT_ID" or (x.ne[1] >= 16 and x.type == 0 and name.startswith("blk."))
    if ask or not wanted: return wanted or not ask
    def rows(t, dtype):
        shape = [t.ne[i] for i in (3, 2, 1, 0)]; strides = [t.nb[i] for i in (3, 2, 1, 0)]
        end = sum((n - 1) * s for n, s in zip(shape, strides)) + strides[3]
        buffer = np.frombuffer((ctypes.c_char * end).from_address(t.data), dtype=np.uint8)
        return np.lib.stride_tricks.as_strided(buffer.view(dtype), shape, strides)
    values = rows(x, np.float32)[0].astype(np.float64) ** 2
    if op == b"MUL_MAT":
        entry = SUMS.setdefault(name, [np.zeros((1, x.ne[0])), np.zeros(1)])
        entry[0][0] += values.sum((0, 1)); entry[1][0] += values.shape[0] * values.shape[1]
        return True
    ids = rows(t.src[2].contents, np.int32)[0, 0]
    entry = SUMS.setdefault(name, [np.zeros((weight.ne[2], x.ne[0])), np.zeros(weight.ne[2])])
    for token in range(ids.shape[0]):
        for slot, expert in enumerate(ids[token]):
            entry[0][expert] += values[token, slot % values.shape[1]]; entry[1][expert] += 1
    return True


COLLECT = L.ggml_backend_sched_eval_callback(collect) if hasattr(L, "ggml_backend_sched_eval_callback") else None


def run(path, f32, text, context, imatrix=None):
    """The tokens, and log-probabilities [chunks, scored rows, vocabulary] of the scored rows."""
    p = L.llama_model_default_params(); p.n_gpu_layers = 0
    model = L.llama_model_load_from_file(path.encode(), p); assert model, path
    vocab = L.llama_model_get_vocab(model); size = L.llama_vocab_n_tokens(vocab)
    ids = (L.llama_token * (len(text) + 16))()
    n = L.llama_tokenize(vocab, text, len(text), ids, len(ids), True, False); ids = list(ids[:n])
    c = L.llama_context_default_params()
    c.n_ctx = c.n_batch = c.n_ubatch = context; c.n_threads = c.n_threads_batch = int(os.environ.get("THREADS", "1"))
    if f32: c.type_k = c.type_v = 0; c.flash_attn_type = 0
    if imatrix: c.cb_eval = ctypes.cast(COLLECT, type(c.cb_eval)) if COLLECT else type(c.cb_eval)(collect)
    ctx = L.llama_init_from_model(model, c); assert ctx
    first, chunks, out = context // 2, min(n // context, int(os.environ.get("CHUNKS", n))), []
    batch = L.llama_batch_init(context, 0, 1)
    for chunk in range(chunks):
        own = ids[chunk * context:(chunk + 1) * context]
        if L.llama_vocab_get_add_bos(vocab): own = [L.llama_vocab_bos(vocab)] + own[1:]
        L.llama_memory_clear(L.llama_get_memory(ctx), True)
        batch.n_tokens = context
        for i, token in enumerate(own):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = token, i, 1, 0
            batch.logits[i] = imatrix is not None or i >= first
        assert L.llama_decode(ctx, batch) == 0
        rows = np.stack([np.ctypeslib.as_array(L.llama_get_logits_ith(ctx, i), (size,)).copy() for i in range(first, context - 1)]).astype(np.float64)
        rows -= rows.max(1, keepdims=True); rows -= np.log(np.exp(rows).sum(1, keepdims=True)); out.append(rows)
    return ids[:chunks * context], np.stack(out)


def describe(ids, logp, context, base):
    first, chunks = context // 2, len(logp)
    targets = np.array(ids).reshape(chunks, context)[:, first + 1:]
    nll = -np.take_along_axis(logp, targets[:, :, None], 2)[:, :, 0].reshape(-1)
    per = nll.reshape(chunks, -1)
    running = [float(math.exp(per[:i + 1].mean())) for i in range(chunks)]
    mean = nll.mean(); error = math.sqrt(max((nll ** 2).mean() - mean ** 2, 0) / (len(nll) - 1))
    line = dict(perplexity=math.exp(mean), error=error * math.exp(mean), running=running)
    if base is not None:
        kl = (np.exp(base) * (base - logp)).sum(2).reshape(-1)
        p = lambda x: np.exp(np.take_along_axis(x, targets[:, :, None], 2)[:, :, 0].reshape(-1))
        line.update(kl_mean=float(kl.mean()), kl_median=float(np.median(kl)), kl_99=float(np.percentile(kl, 99)), kl_max=float(kl.max()),
                    same_top=float((base.argmax(2) == logp.argmax(2)).mean()), delta_p=float((p(logp) - p(base)).mean()))
    return line


def write_sums(path, chunks, context):
    import gguf
    w = gguf.GGUFWriter(path, "none"); w.kv_data[0].pop("general.architecture"); w.add_string("general.type", "imatrix")
    w.add_array("imatrix.datasets", ["by make_perplexity.py"]); w.add_uint32("imatrix.chunk_count", chunks); w.add_uint32("imatrix.chunk_size", context)
    for name in sorted(SUMS):
        for values, suffix in zip(SUMS[name], ("in_sum2", "counts")):
            values = values if values.ndim == 2 else values[:, None]
            w.add_tensor(f"{name}.{suffix}", values.astype(np.float32))
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()


def main():
    L.llama_log_set(silent, None)
    out, text, context = sys.argv[1], open(sys.argv[2], "rb").read(), int(sys.argv[3])
    if text.endswith(b"\n"): text = text[:-1]
    base, lines = None, {}
    for named in sys.argv[4:]:
        name, path = named.split("=", 1); f32 = path.endswith(":f32"); path = path.removesuffix(":f32")
        ids, logp = run(path, f32, text, context, os.environ.get("IMATRIX") if base is None else None)
        if base is None and os.environ.get("IMATRIX"): write_sums(os.environ["IMATRIX"], len(logp), context)
        lines[name] = dict(describe(ids, logp, context, base), chunks=len(logp), tokens=len(ids), file=os.path.basename(path))
        base = logp if base is None else base
        print(name, lines[name], flush=True)
    json.dump(dict(text=os.path.basename(sys.argv[2]), context=context, llama_cpp="0.5.0 (as vendored by llama-cpp-python 0.3.36)", models=lines), open(out, "w"), indent=1)


main()
