#!/usr/bin/env python3
"""tok/vocabularies.json and tok/<kind>/vocab.gguf: small vocabularies of the kinds that no base fixture has, and the ids of texts by the
reference (the tokenizers crate, sentencepiece, a longest match in Python) and by llama.cpp (tools/lcpp_tok, without special tokens parsed
into the text). Variables: LLAMA_CPP_BUILD, FIXTURES as in README.md. Needs pip packages gguf, sentencepiece, tokenizers."""
import io, json, os, random, subprocess, sys, tempfile
import gguf, sentencepiece, tokenizers
import corpus

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("FIXTURES", HERE + "/../fixtures")
BUILD = os.environ["LLAMA_CPP_BUILD"]
TOK = os.environ.get("LCPP_TOK", HERE + "/tools/lcpp_tok")
TEXTS = json.load(open(ROOT + "/tok/cases.json"))["texts"] + [
    "ＦＵＬＬ　ｗｉｄｔｈ", "Ça va? ÇA VA!", "x" * 101 + " y", "x" * 100, "a\u00a0b", "a\u0007b", "İstanbul ẞ straße", "unaffable unknown",
    "½ cup", "the The THE", "permission permissions permissive", "\ufeffmark", "copyright (c) 2004, all rights reserved.", "\u0e01\u0e33 ไทย",
    "😀😀", "한국어", "  two   three    ", "copy copy copy copy",
]
NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE = 1, 2, 3, 5, 6


def write(kind, model, tokens, types, scores=None, **more):
    os.makedirs(f"{ROOT}/tok/{kind}", exist_ok=True)
    path = f"{ROOT}/tok/{kind}/vocab.gguf"
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model(model)
    w.add_token_list(tokens)
    w.add_token_types(types)
    if scores is not None:
        w.add_token_scores(scores)
    for key, value in more.items():
        key = "tokenizer.ggml." + key
        if isinstance(value, bool): w.add_bool(key, value)
        elif isinstance(value, int): w.add_uint32(key, value)
        else: w.add_array(key, value)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
    return path


def llamacpp(path):
    texts = [t for t in TEXTS if t]
    with tempfile.NamedTemporaryFile("wb", delete=False) as f:
        f.write(b"\0".join(t.encode() for t in texts) + b"\0")
    run = subprocess.run([TOK, path, f.name, "0"], capture_output=True, text=True, env=dict(os.environ, LD_LIBRARY_PATH=BUILD))
    lines = iter([[int(x) for x in line.split()] for line in run.stdout.split("\n")[:len(texts)]])
    return [next(lines) if t else [] for t in TEXTS]


def wordpiece():
    t = tokenizers.Tokenizer.from_file(ROOT + "/tok/wordpiece/tokenizer.json")
    by_id = sorted((i, s) for s, i in t.get_vocab().items())
    special = {a.content for a in t.get_added_tokens_decoder().values()}
    spell = lambda s: s if s in special else s[2:] if s.startswith("##") else "\u2581" + s
    tokens = [spell(s) for _, s in by_id]
    types = [CONTROL if s in special else NORMAL for _, s in by_id]
    ids = {name: t.token_to_id(s) for name, s in dict(unknown="[UNK]", seperator="[SEP]", padding="[PAD]", cls="[CLS]", mask="[MASK]").items()}
    keys = {f"{n}_token_id": i for n, i in ids.items() if i is not None}
    path = write("wordpiece", "bert", tokens, types, **keys, bos_token_id=ids["cls"])
    framed = [t.encode(x).ids for x in TEXTS]
    return path, [t.encode(x, add_special_tokens=False).ids for x in TEXTS], dict(reference="tokenizers", framed=framed)


RULES = {"ﬁ": "fi", "Ⅷ": "VIII", "\u200b": " ", "\t": " ", "\n": " ", "\r": " ", "\u00a0": " ", "½": "1⁄2", "e\u0301": "é", "　": " ", "ゝ\u3099": "ゞ"}
RULES.update({chr(0xFF01 + i): chr(0x21 + i) for i in range(94)})


def unigram(kind, merged, prefix):
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/rules.tsv", "w") as f:
            for a, b in sorted(RULES.items()):
                f.write(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n")
        sentencepiece.SentencePieceTrainer.train(
            input=corpus.file(), model_prefix=d + "/m", vocab_size=260, model_type="unigram", normalization_rule_tsv=d + "/rules.tsv",
            remove_extra_whitespaces=merged, add_dummy_prefix=prefix, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, num_threads=1, minloglevel=2)
        model = open(d + "/m.model", "rb").read()
    sp = sentencepiece.SentencePieceProcessor(model_proto=model)
    from sentencepiece import sentencepiece_model_pb2 as pb
    proto = pb.ModelProto(); proto.ParseFromString(model)
    tokens = [p.piece for p in proto.pieces]; scores = [p.score for p in proto.pieces]; types = [p.type for p in proto.pieces]
    path = write(kind, "t5", tokens, types, scores, unknown_token_id=2, eos_token_id=1, padding_token_id=0, add_space_prefix=prefix,
                 remove_extra_whitespaces=merged, precompiled_charsmap=proto.normalizer_spec.precompiled_charsmap)
    return path, [sp.encode(x) for x in TEXTS], dict(reference="sentencepiece")


def escape(b):
    s = ""
    try:
        text = b.decode()
        for c in text:
            s += {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"}.get(c, c if c >= " " and c != "\x7f" else "\\x%02x" % ord(c))
        return s
    except UnicodeDecodeError:
        return "".join("\\x%02x" % x for x in b)


def words(count):
    text = corpus.text()[:20000]
    r = random.Random(7)
    found = set()
    while len(found) < count:
        at, n = r.randrange(len(text) - 12), r.choice([2, 2, 3, 3, 4, 5, 6, 9])
        found.add(text[at:at + n])
    return sorted(found)


def longest():
    pieces = [bytes([i]) for i in range(256)] + [w.encode() for w in words(300)]
    pieces += [" 日".encode(), "日本".encode(), "本".encode()[:2], "é".encode(), "🦙".encode()[:3], b"aaaa", b"\\n", b"\n\n", b"  ", b"    "]
    pieces = list(dict.fromkeys(pieces))
    tokens, types = ["<s>"] + [escape(p) for p in pieces], [CONTROL] + [NORMAL] * len(pieces)
    path = write("longest", "rwkv", tokens, types)
    table = {p: i + 1 for i, p in enumerate(pieces)}

    def encode(text):
        b, ids = text.encode(), []
        while b:
            n = max(k for k in range(1, min(len(b), 32) + 1) if b[:k] in table)
            ids.append(table[b[:n]]); b = b[n:]
        return ids
    return path, [encode(x) for x in TEXTS], dict(reference="a longest match in Python")


def cheapest():
    r = random.Random(11)
    own = [w for w in words(300) if "\0" not in w] + list("abcdefghijklmnopqrstuvwxyz ABCDEFT.,'") + ["日", "日本", "本語", "🚀", "aa", "aaa", "aaaa"]
    own = list(dict.fromkeys(own))
    tokens = ["<|plamo:unk|>", "<|plamo:bos|>", "<|plamo:eos|>", "<|plamo:pad|>"] + [f"<0x{i:02X}>" for i in range(256)] + own
    types = [UNKNOWN] + [CONTROL] * 3 + [BYTE] * 256 + [NORMAL] * len(own)
    # Multiples of 0.5, so that ways often cost the same; two of the tokens are never used.
    scores = [0.0] * 260 + [-0.5 * r.randrange(4, 40) for _ in own]
    scores[260 + 5] = scores[260 + 17] = -3000.0
    path = write("cheapest", "plamo2", tokens, types, scores, bos_token_id=1, eos_token_id=2, unknown_token_id=0, padding_token_id=3)
    return path, None, dict(reference="llama.cpp")


out = dict(texts=TEXTS, kinds={})
for kind, made in dict(wordpiece=wordpiece(), unigram=unigram("unigram", True, True), unigram_kept=unigram("unigram_kept", False, True), longest=longest(), cheapest=cheapest()).items():
    path, ids, more = made
    theirs = llamacpp(path)
    ids = theirs if ids is None else ids
    differs = [i for i in range(len(TEXTS)) if ids[i] != theirs[i]]
    print(kind, os.path.getsize(path), "bytes; llama.cpp differs:", [(TEXTS[i][:16], ids[i][:8], theirs[i][:8]) for i in differs])
    out["kinds"][kind] = dict(more, ids=ids, llamacpp_differs=differs)
json.dump(out, open(ROOT + "/tok/vocabularies.json", "w"), ensure_ascii=False)
