#!/usr/bin/env python3
"""Renders every template (*.jinja) of a folder with every conversation of conversations.json by Python's Jinja2, set up as
transformers sets it up (utils/chat_template_utils.py: _compile_jinja_template, _render_with_assistant_indices).

Usage: python3 make_expected.py           the templates of jinja/; writes expected.json here
       python3 make_expected.py FOLDER    the templates of FOLDER; writes FOLDER/expected.json
Needs Jinja2 only.
"""

import copy
import json
import pathlib
import sys
import traceback
from datetime import datetime, timezone

import jinja2
import jinja2.ext
import jinja2.sandbox

HERE = pathlib.Path(__file__).resolve().parent
NOW = datetime(2024, 2, 29, 12, 34, 56, tzinfo=timezone.utc)


class Generation(jinja2.ext.Extension):
    """{% generation %} renders its body, as transformers' AssistantTracker does."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    @staticmethod
    def _body(caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def compile_template(source):
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env.from_string(source)


def render(source, conversation):
    # A copy: Jinja2's `indent` appends a line feed to a list that it is given.
    conversation = copy.deepcopy(conversation)
    try:
        variables = {
            "messages": conversation["messages"],
            "tools": conversation.get("tools"),
            "documents": None,
            "add_generation_prompt": conversation.get("add_generation_prompt", True),
            "bos_token": "<s>",
            "eos_token": "</s>",
            **conversation.get("extra", {}),
        }
        return {"text": compile_template(source).render(variables)}
    except Exception as error:  # whatever Jinja2 or the template raises
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<template>"]
        return {"error": f"{type(error).__name__}: {error}", "line": lines[-1] if lines else None}


def main():
    templates, out = (pathlib.Path(sys.argv[1]),) * 2 if len(sys.argv) > 1 else (HERE / "jinja", HERE)
    conversations = json.loads((HERE / "conversations.json").read_text(encoding="utf8"))
    expected = {}
    for path in sorted(templates.glob("*.jinja")):
        # As from tokenizer_config.json: text with line feeds only.
        source = path.read_text(encoding="utf8")
        expected[path.stem] = {name: render(source, conversation) for name, conversation in conversations.items()}
    (out / "expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=0) + "\n", encoding="utf8")
    renders = [r for of in expected.values() for r in of.values()]
    print(len(expected), "templates,", len(renders), "renders,", sum("error" in r for r in renders), "of them raise")


if __name__ == "__main__":
    main()
