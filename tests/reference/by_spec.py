"""How far the engine's logits of a zoo fixture move when one thing in its spec is said wrong; needs MENAGERIE, the built program."""
from fixlib import *
import tomllib

SPEC_DIR = os.path.normpath(HERE + "/../../specs")

def toml(table):
    def value(x):
        if isinstance(x, bool): return "true" if x else "false"
        if isinstance(x, list): return "[" + ", ".join(map(value, x)) + "]"
        if isinstance(x, dict): return "{ " + ", ".join(json.dumps(k) + " = " + value(y) for k, y in x.items()) + " }"
        return json.dumps(x) if isinstance(x, str) else repr(x)
    return "".join(f"{json.dumps(k)} = {value(x)}\n" for k, x in table.items())

def changed(spec, change):
    """change: path/of/an/option = its value; "__unset__" = paths to remove."""
    for path, new in change.items():
        for p in new if path == "__unset__" else [path]:
            *tables, last = p.split("/"); t = spec
            for k in tables: t = t.setdefault(k, {})
            if path == "__unset__": del t[last]
            else: t[last] = new
    return spec

def put_specs(into, spec_id, change):
    """The spec, changed, and what it extends."""
    spec = tomllib.load(open(f"{SPEC_DIR}/{spec_id}.toml", "rb"))
    if "extends" in spec: put_specs(into, spec["extends"], {})
    open(f"{into}/{spec_id}.toml", "w").write(toml(changed(spec, change)))

def by_spec(d, spec_id, changes):
    """changes: what -> change of the spec. Gives what -> largest difference at the prompt and at the end of the long text."""
    if "MENAGERIE" not in os.environ: raise SystemExit("set MENAGERIE to the built program: sensitivities of this fixture are measured with changed specs")
    ref = load_file(d + "/reference.safetensors"); found = {}
    for what, change in changes.items():
        with tempfile.TemporaryDirectory() as t:
            put_specs(t, spec_id, change)
            def logits(toks):
                r = subprocess.run([os.environ["MENAGERIE"], "logits", d + "/model-f16.gguf", "--spec-dir", t, "--allow-shadow", "--kv-type", "f32", "-t", "1", "--force", "--out", t + "/o.safetensors", "--tokens", ",".join(map(str, toks))], capture_output=True, text=True)
                if r.returncode: raise RuntimeError(f"{what}: {r.stderr[-800:]}")
                return load_file(t + "/o.safetensors")["logits"]
            far = lambda a, b: float(f"{np.abs(a - b).max():.1e}")
            found[what] = [far(logits(ref["tokens_prompt"]), ref["logits_prompt"]), far(logits(ref["tokens_long"])[ref["positions_long"]], ref["logits_long"])]
    return found
