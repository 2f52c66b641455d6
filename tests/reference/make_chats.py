#!/usr/bin/env python3
"""tok/chats.json: the prompts that llama.cpp makes of two conversations by the name of a format, for the templates of
specs/tokenizers/chats.toml. LIBLLAMA names its shared library."""
import ctypes, json, os, tomllib
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("FIXTURES", HERE + "/../fixtures")
class Message(ctypes.Structure): _fields_ = [("role", ctypes.c_char_p), ("content", ctypes.c_char_p)]
apply = ctypes.CDLL(os.environ["LIBLLAMA"]).llama_chat_apply_template
apply.argtypes = [ctypes.c_char_p, ctypes.POINTER(Message), ctypes.c_size_t, ctypes.c_bool, ctypes.c_char_p, ctypes.c_int32]
TALKS = [[("system", "Be brief. "), ("user", " Hi!"), ("assistant", "Hello\n"), ("user", "What is 2+2?")], [("user", "one"), ("assistant", "two"), ("user", " three\n")]]
names = [t["name"] for t in tomllib.load(open(HERE + "/../../specs/tokenizers/chats.toml", "rb"))["chat_template"]]
out = dict(talks=[[dict(role=r, content=c) for r, c in talk] for talk in TALKS], prompts={})
for name in names:
    for talk in TALKS:
        buffer = ctypes.create_string_buffer(4096)
        n = apply(name.encode(), (Message * len(talk))(*[Message(r.encode(), c.encode()) for r, c in talk]), len(talk), True, buffer, 4096)
        assert 0 < n < 4096, name
        out["prompts"].setdefault(name, []).append(buffer.raw[:n].decode())
json.dump(out, open(ROOT + "/tok/chats.json", "w"), ensure_ascii=False)
print(len(names), "templates")
