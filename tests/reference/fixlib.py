"""Common parts of the fixture builders: tokenizers, weight init, GGUF conversion, HF reference, llama.cpp comparison."""
import os, sys, json, hashlib, shutil, subprocess, tempfile, logging, math, warnings
sys.dont_write_bytecode = True
os.environ.setdefault("HF_HUB_OFFLINE", "1"); os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TQDM_DISABLE", "1")
import numpy as np, torch
torch.set_num_threads(int(os.environ.get("FIX_THREADS", "1")))
warnings.filterwarnings("ignore")
import corpus
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, AutoConfig
from safetensors.numpy import save_file, load_file
def quiet():
    transformers.logging.set_verbosity_error(); transformers.logging.disable_progress_bar()
    logging.getLogger("transformers").setLevel(logging.ERROR); logging.getLogger("transformers").propagate = False
quiet()

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("FIXTURES", os.path.normpath(HERE + "/../fixtures"))  # where the fixtures are written
VENDOR = os.environ["LLAMA_CPP"]  # llama.cpp source tree
BUILD = os.environ.get("LLAMA_CPP_BUILD")  # its build/bin; without it make.py compares nothing with llama.cpp
V = 384          # vocabulary of every tokenizer here
V_TINY = 264     # of tiny_bpe
N_PROMPT, N_GREEDY, N_LONG, LONG_ROWS = 48, 16, 300, 8

# ---------------------------------------------------------------- tokenizers
SPECIALS = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
GPT2_RE = None
LLAMA3_RE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2_RE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

def train_tokenizers():
    from tokenizers import Tokenizer, models, pre_tokenizers, decoders, trainers, normalizers, Regex, processors
    from transformers import PreTrainedTokenizerFast
    for name in ("gpt2", "llama3", "qwen2", "glm"):
        d = os.path.join(ROOT, "tok", name)
        if os.path.exists(d): continue
        tk = Tokenizer(models.BPE())
        if name in ("gpt2",):
            tk.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        else:
            if name == "qwen2": tk.normalizer = normalizers.NFC()
            tk.pre_tokenizer = pre_tokenizers.Sequence([
                pre_tokenizers.Split(Regex(LLAMA3_RE if name in ("llama3", "glm") else QWEN2_RE), "isolated", False),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        tk.decoder = decoders.ByteLevel()
        tr = trainers.BpeTrainer(vocab_size=V - 4, special_tokens=SPECIALS + (["<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|user|>", "<|observation|>"] if name == "glm" else []), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
        tk.train([corpus.file()], tr)
        kw = dict(unk_token="<unk>", eos_token="</s>")
        kw["bos_token"] = "<s>"
        if name == "llama3":
            tk.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
        PreTrainedTokenizerFast(tokenizer_object=tk, clean_up_tokenization_spaces=False, model_max_length=1024, **kw).save_pretrained(d)
        c = json.load(open(d + "/tokenizer_config.json"))
        c["tokenizer_class"] = "PreTrainedTokenizerFast"
        json.dump(c, open(d + "/tokenizer_config.json", "w"), indent=1)
    d = os.path.join(ROOT, "tok", "wordpiece")
    if not os.path.exists(d):
        from tokenizers import BertWordPieceTokenizer
        from transformers import BertTokenizer
        t = BertWordPieceTokenizer(lowercase=True); t.train([corpus.file()], vocab_size=V - 4, min_frequency=2, show_progress=False)
        os.makedirs(d); t.save_model(d)
        vocab = t.get_vocab(); BertTokenizer(vocab=vocab).save_pretrained(d)
    d = os.path.join(ROOT, "tok", "spm")
    if not os.path.exists(d):
        import sentencepiece as spm
        os.makedirs(d)
        spm.SentencePieceTrainer.train(input=corpus.file(), model_prefix=d + "/tokenizer", model_type="bpe", vocab_size=V - 4, byte_fallback=True,
            character_coverage=0.995, split_digits=True, allow_whitespace_only_pieces=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
            unk_id=0, bos_id=1, eos_id=2, pad_id=-1, num_threads=1, minloglevel=2)
        os.remove(d + "/tokenizer.vocab")
        json.dump({"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True, "add_eos_token": False, "legacy": False, "clean_up_tokenization_spaces": False, "model_max_length": 1024},
                  open(d + "/tokenizer_config.json", "w"), indent=1)
        try:
            t = AutoTokenizer.from_pretrained(d); t.save_pretrained(d + "/_x")
            shutil.copy(d + "/_x/tokenizer.json", d + "/tokenizer.json")
        except Exception as e: print("spm fast:", repr(e)[:300])
        shutil.rmtree(d + "/_x", ignore_errors=True)

def tiny_bpe(d):
    """Byte-level BPE of 264 tokens: the specials, the bytes, three merges. Made anew each time, kept nowhere."""
    from tokenizers import Tokenizer, models, pre_tokenizers, decoders, trainers
    from transformers import PreTrainedTokenizerFast
    tk = Tokenizer(models.BPE()); tk.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True); tk.decoder = decoders.ByteLevel()
    tk.train_from_iterator(["the zoo then the end"], trainers.BpeTrainer(vocab_size=V_TINY, special_tokens=SPECIALS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    assert tk.get_vocab_size() == V_TINY
    PreTrainedTokenizerFast(tokenizer_object=tk, clean_up_tokenization_spaces=False, model_max_length=1024, unk_token="<unk>", bos_token="<s>", eos_token="</s>").save_pretrained(d)
    c = json.load(open(d + "/tokenizer_config.json")); c["tokenizer_class"] = "PreTrainedTokenizerFast"
    json.dump(c, open(d + "/tokenizer_config.json", "w"), indent=1)

def tiny_wordpiece(d):
    """WordPiece of 96 tokens: the specials, printable ASCII without capitals, some word ends."""
    from transformers import BertTokenizer
    t = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [chr(x) for x in range(33, 127) if not chr(x).isupper()]
    t += ["##" + chr(x) for x in range(97, 123)]
    BertTokenizer(vocab={x: i for i, x in enumerate(t[:96])}).save_pretrained(d)

def tiny_spm(d):
    """SentencePiece (BPE) of 264 tokens: the specials, the bytes, five pieces."""
    from sentencepiece import sentencepiece_model_pb2 as pb
    m = pb.ModelProto(); m.trainer_spec.model_type = 2; m.trainer_spec.byte_fallback = True; m.trainer_spec.vocab_size = V_TINY
    m.trainer_spec.unk_id, m.trainer_spec.bos_id, m.trainer_spec.eos_id, m.trainer_spec.pad_id = 0, 1, 2, -1
    m.normalizer_spec.name = "identity"; m.normalizer_spec.add_dummy_prefix = True; m.normalizer_spec.remove_extra_whitespaces = False
    pieces = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3)] + [(f"<0x{b:02X}>", 0, 6) for b in range(256)] + [(t, -float(i), 1) for i, t in enumerate(["\u2581", "e", "t", "a", "\u2581t"])]
    for piece, score, kind in pieces:
        x = m.pieces.add(); x.piece, x.score, x.type = piece, score, kind
    assert len(pieces) == V_TINY
    open(d + "/tokenizer.model", "wb").write(m.SerializeToString())
    json.dump({"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True, "add_eos_token": False, "legacy": False, "clean_up_tokenization_spaces": False, "model_max_length": 1024},
              open(d + "/tokenizer_config.json", "w"), indent=1)

def put_tokenizer(kind, d):
    if kind.startswith("tiny"): return globals()[kind](d)
    for f in os.listdir(os.path.join(ROOT, "tok", kind)):
        shutil.copy(os.path.join(ROOT, "tok", kind, f), d)

# ---------------------------------------------------------------- weights
FINAL_NORMS = ("model.norm.weight", "transformer.ln_f.weight", "model.final_layernorm.weight", "model.embedding_norm.weight", "backbone.norm_f.weight", "gpt_neox.final_layer_norm.weight", "transformer.norm_f.weight")
def init_weights(model, seed, std=None, embed_std=None, head_std=0.3, final_norm=None, hook=None, dtype=torch.float32, half_matrices=False):
    g = torch.Generator().manual_seed(seed)
    tied = bool(getattr(model.config, "tie_word_embeddings", False))
    # tied models: a small embedding (else every greedy step repeats its input token) and a larger final norm (else the logits are flat)
    if embed_std is None: embed_std = 0.15 if tied else 0.5
    if final_norm is None: final_norm = 2.5 if tied else 1.0
    r = lambda p: torch.randn(p.shape, generator=g)
    seen = set()
    with torch.no_grad():
        for n, p in sorted(model.named_parameters()):
            if p.data_ptr() in seen: continue
            seen.add(p.data_ptr())
            low = n.lower()
            if hook is not None and hook(n, p, r): pass
            elif p.ndim >= 2:
                if any(k in low for k in ("embed_tokens", "wte", "wpe", "word_embeddings", "embed_in", "embeddings", "embed_positions")): s = embed_std
                elif any(k in low for k in ("lm_head", "embed_out")): s = head_std
                elif std is not None: s = std
                else:
                    fan = p.shape[-1]
                    s = 1.2 / math.sqrt(max(fan, 4))
                p.copy_(r(p) * s)
            elif low.endswith("bias") or ".bias" in low or "_bias" in low:
                p.add_(r(p) * 0.1)          # keeps a special default (dt_bias ...)
            elif n in FINAL_NORMS or n.endswith("language_model.norm.weight"):
                one = float(p.abs().max()) > 0.5
                p.add_(r(p) * 0.1)
                if one: p.mul_(final_norm)
                else: p.copy_((1 + p) * final_norm - 1)
            else:
                p.add_(r(p) * 0.1)          # norms near 1 (or near 0 for the gemma kind), sinks, D, A_log ...
        for n, b in sorted(model.named_buffers()):
            if "e_score_correction_bias" in n or "expert_bias" in n or n.endswith("moe_statics"): b.copy_(torch.randn(b.shape, generator=g) * 0.1)
        if dtype != torch.float32:
            for p in model.parameters(): p.copy_(p.to(dtype).float())
        if half_matrices:       # so that the GGUF can hold them as f16 and nothing changes
            for p in model.parameters():
                if p.ndim >= 2: p.copy_(p.half().float())
    if getattr(model.config, "tie_word_embeddings", False): model.tie_weights()

def tokens_for(seed, vocab=V, first=None, attempt=0):
    rng = np.random.default_rng(1000 + seed + 100000 * attempt)
    a = rng.integers(5, vocab - 4, N_PROMPT).astype(np.int64); b = rng.integers(5, vocab - 4, N_LONG).astype(np.int64)
    if first is not None: a[0] = b[0] = first
    return a, b

# ---------------------------------------------------------------- GGUF
_conv = None
_load_hparams = None
_prepare_metadata = None
def convert(hf_dir, out, pre, outtype="f32", extra=(), patch=None, after=None):
    """llama.cpp's own convert_hf_to_gguf.py, with get_vocab_base_pre answering `pre`; `after(model)` runs before the file is written."""
    global _conv, _prepare_metadata
    if _conv is None:
        import tomllib, converter_keys
        if converter_keys.digest(VENDOR) != tomllib.loads(converter_keys.TABLE.read_text())["digest"]:
            raise SystemExit("LLAMA_CPP has another converter than core/spec/tests/converter_keys.toml was read from: run converter_keys.py, and bring table and specs up to date first")
        sys.path.insert(0, VENDOR); sys.path.insert(0, VENDOR + "/gguf-py")
        import importlib; _conv = importlib.import_module("convert_hf_to_gguf")
        logging.getLogger().setLevel(logging.ERROR)
    from conversion.base import TextModel, ModelBase
    global _load_hparams
    if _load_hparams is None: _load_hparams = ModelBase.load_hparams
    def lh(dir_model, is_mistral_format=False):
        h = _load_hparams(dir_model, is_mistral_format)
        if patch: patch(h)          # keys the converter expects and transformers 5 no longer writes
        return h
    ModelBase.load_hparams = staticmethod(lh)
    # converter bug: StableLMModel.modify_tensors `return`s a generator from inside a generator, so q/k layernorms vanish; repaired here
    from conversion.stablelm import StableLMModel
    if not getattr(StableLMModel, "_fixed", False):
        def mt(self, data_torch, name, bid, _o=StableLMModel.modify_tensors):
            for kind, nh, attr in (("q_layernorm", self.hparams["num_attention_heads"], "_q_norms"), ("k_layernorm", self.hparams["num_key_value_heads"], "_k_norms")):
                if name.find(kind + ".norms") != -1:
                    if getattr(self, attr) is None: setattr(self, attr, [{} for _ in range(self.block_count)])
                    getattr(self, attr)[bid][name] = data_torch
                    if len(getattr(self, attr)[bid]) >= nh: yield from self._stack_qk_norm(bid, nh, getattr(self, attr)[bid], kind)
                    return
            yield from _o(self, data_torch, name, bid)
        StableLMModel.modify_tensors = mt; StableLMModel._fixed = True
        from conversion.hunyuan import HunYuanMoEModel      # its set_vocab wants a tiktoken tokenizer with mergeable_ranks
        HunYuanMoEModel.set_vocab = TextModel._set_vocab_gpt2
        from conversion.gemma import Gemma4Model            # its set_vocab wants a "gemma4" tokenizer
        Gemma4Model.set_vocab = TextModel._set_vocab_gpt2
    TextModel.get_vocab_base_pre = lambda self, tok: pre
    if _prepare_metadata is None: _prepare_metadata = TextModel.prepare_metadata
    def pm(self, *a, **k):
        _prepare_metadata(self, *a, **k)
        if after: after(self)
    TextModel.prepare_metadata = pm
    old = sys.argv; sys.argv = ["convert_hf_to_gguf.py", hf_dir, "--outtype", outtype, "--outfile", out, *extra]
    lv = logging.root.manager.disable; logging.disable(logging.WARNING)
    try: _conv.main()
    finally: sys.argv = old; logging.disable(lv); quiet()

def gguf_module():
    if VENDOR + "/gguf-py" not in sys.path: sys.path.insert(0, VENDOR + "/gguf-py")
    import gguf; return gguf

KEPT_F32 = ("norm", ".bias", "conv", "ffn_gate_inp", "position_embd", "token_types", "time_mix")    # as the converter keeps them in an f16 file
def half_gguf(src, dst, kept=KEPT_F32):
    """An f32 GGUF with its matrices as f16, where f16 holds them exactly: what the converter computed may stay f32."""
    gguf = gguf_module(); r = gguf.GGUFReader(src); w = gguf.GGUFWriter(dst, r.fields["general.architecture"].contents())
    for k, f in r.fields.items():
        if k.startswith("GGUF.") or k == "general.architecture": continue
        t = f.types[0]; v = 1 if k == "general.file_type" else f.contents()
        w.add_key_value(k, v, t, sub_type=f.types[-1] if t == gguf.GGUFValueType.ARRAY else None)
    exact = lambda x: np.array_equal(x.astype(np.float16).astype(np.float32), x)
    matrices = [t for t in r.tensors if len(t.shape) >= 2 and t.data.dtype == np.float32 and not any(k in t.name for k in kept)]
    half = {t.name for t in matrices if exact(t.data)}
    assert 2 * len(half) >= len(matrices), "weights were not rounded to f16 before logits were computed: " + ", ".join(t.name for t in matrices if t.name not in half)
    for t in r.tensors: w.add_tensor(t.name, t.data.astype(np.float16) if t.name in half else np.array(t.data))
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
    for a, b in zip(r.tensors, gguf.GGUFReader(dst).tensors): assert a.name == b.name and np.array_equal(a.data, b.data.astype(a.data.dtype))

def gguf_info(path):
    gguf = gguf_module()
    r = gguf.GGUFReader(path); kv = {}
    for k, f in r.fields.items():
        if k.startswith("GGUF.") or k.startswith("tokenizer.ggml.tokens") or "merges" in k or "scores" in k or "token_type" in k: continue
        v = f.contents(); kv[k] = v if not isinstance(v, (list,)) or len(v) < 40 else f"[{len(v)}]"
    return kv, {t.name: (list(map(int, t.shape)), t.tensor_type.name) for t in r.tensors}

# ---------------------------------------------------------------- llama.cpp
def lcpp(gguf_path, jobs, exact=True, env=None):
    """jobs: [(name, n_ctx, prefill, emb, last, tokens)] -> {name: array}"""
    with tempfile.TemporaryDirectory() as t:
        with open(t + "/jobs", "w") as f:
            for n, c, p, e, l, tk in jobs: f.write(f"{n} {c} {p} {e} {l} {len(tk)} " + " ".join(map(str, tk)) + "\n")
        en = dict(os.environ, LD_LIBRARY_PATH=(HERE + "/tools/exact/lib:" if exact else "") + BUILD, OMP_NUM_THREADS="1", **(env or {}))
        r = subprocess.run([HERE + "/tools/lcpp_eval", gguf_path, t + "/jobs", t + "/out"], env=en, capture_output=True, text=True)
        if r.returncode: raise RuntimeError(f"lcpp_eval rc={r.returncode}: {r.stderr[-1500:]}")
        raw = open(t + "/out", "rb").read(); o = 0; res = {}
        for j in jobs:
            k, w = np.frombuffer(raw, np.int32, 2, o); o += 8
            res[j[0]] = np.frombuffer(raw, np.float32, int(k) * int(w), o).reshape(int(k), int(w)).copy(); o += 4 * int(k) * int(w)
        res["_stderr"] = r.stderr
        return res

def agree(ref, got):
    ref = np.asarray(ref, np.float64); got = np.asarray(got, np.float64)
    ls = lambda x: x - x.max(-1, keepdims=True) - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True))
    p, q = ls(ref), ls(got)
    return dict(max_abs=float(np.abs(ref - got).max()), kl=float((np.exp(p) * (p - q)).sum(-1).mean()), argmax=float((ref.argmax(-1) == got.argmax(-1)).mean()))

# ---------------------------------------------------------------- HF
def hf_load(d, cls=None, **over):
    cfg = AutoConfig.from_pretrained(d)
    for k, v in over.items(): setattr(cfg, k, v)
    cls = cls or AutoModelForCausalLM
    m = cls.from_pretrained(d, config=cfg, dtype=torch.float32, attn_implementation="eager").eval()
    return m

@torch.inference_mode()
def hf_logits(m, toks, last=None):
    o = m(input_ids=torch.tensor(np.asarray(toks)[None], dtype=torch.long), use_cache=False).logits[0].float().numpy()
    return o[-last:].copy() if last else o.copy()

@torch.inference_mode()
def hf_greedy(m, toks, n=N_GREEDY):
    m.generation_config.eos_token_id = None; m.generation_config.pad_token_id = None
    g = m.generate(torch.tensor(np.asarray(toks)[None], dtype=torch.long), max_new_tokens=n, min_new_tokens=None, do_sample=False, use_cache=True,
                   output_logits=True, return_dict_in_generate=True, max_length=None)
    new = g.sequences[0, len(toks):].numpy().astype(np.int64)
    return new, torch.stack([x[0].float() for x in g.logits]).numpy()

def hub_config(j):
    """The same config the way transformers 4.x wrote it and the hub holds it (rope_theta / rope_scaling / torch_dtype at the top)."""
    j = json.loads(json.dumps(j)); j["torch_dtype"] = j.pop("dtype", "float32"); j["transformers_version"] = "4.48.0"
    rp = j.pop("rope_parameters", None)
    if rp:
        if "full_attention" in rp:
            f, sl = rp["full_attention"], rp.get("sliding_attention") or {}
            if f: j["rope_theta"] = f.get("rope_theta")
            if f and f.get("rope_type") not in (None, "default"): j["rope_scaling"] = {k: v for k, v in f.items() if k != "rope_theta"}
            if sl.get("rope_theta") is not None: j["rope_local_base_freq"] = sl["rope_theta"]
        else:
            if "rope_theta" in rp: j["rope_theta"] = rp["rope_theta"]
            if "partial_rotary_factor" in rp and rp["partial_rotary_factor"] != 1.0: j["partial_rotary_factor"] = rp["partial_rotary_factor"]
            if rp.get("rope_type", "default") == "default": j["rope_scaling"] = None
            else:
                r = {k: v for k, v in rp.items() if k not in ("rope_theta", "partial_rotary_factor")}
                r["type"] = r["rope_type"]; j["rope_scaling"] = r
    return j

def short(ref):
    """The reference of a zoo fixture: of what is decoded and of the long text's end as much as shows a fault."""
    first = dict(tokens_greedy=6, logits_greedy=6, tokens_long_greedy=4, logits_long_greedy=4)
    return {k: v[:first[k]] if k in first else v[-4:] if k in ("logits_long", "positions_long") else v for k, v in ref.items()}

def sha(p): return hashlib.sha256(open(p, "rb").read()).hexdigest()
def margin(l):
    s = np.sort(l, -1); return float((s[..., -1] - s[..., -2]).min())
