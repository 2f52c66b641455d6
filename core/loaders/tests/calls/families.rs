//! Small chat templates of our own, one for each format of calls in specs/tokenizers/calls.toml: they write calls as
//! published templates of that format do.

/// The parts of a template that write calls.
struct Family {
    open: &'static str,
    /// One call: Jinja, with `NAME`, `CALLID` and `JSON` for expressions of the call.
    call: &'static str,
    between: &'static str,
    close: &'static str,
}

/// A template: the name of the format and its source.
pub(crate) struct FamilyTemplate {
    pub(crate) format: &'static str,
    pub(crate) source: String,
}

/// Arguments with a tag around each.
fn tags(before: &str, middle: &str, after: &str) -> String {
    format!(
        "{{% for k, v in c.function.arguments.items() %}}{{{{ '{before}' + k + '{middle}' + (v if v is string else \
         v|tojson) + '{after}' }}}}{{% endfor %}}"
    )
}

/// Arguments as pairs with a quotation mark of their own.
fn pairs(mark: &str) -> String {
    format!(
        "{{% for k, v in c.function.arguments.items() %}}{{{{ '' if loop.first else ',' }}}}{{{{ k + ':' }}}}\
         {{% if v is string %}}{{{{ '{mark}' + v + '{mark}' }}}}{{% elif v is mapping %}}{{{{ '{{' }}}}\
         {{% for a, b in v.items() %}}{{{{ a + ':' + b|tojson }}}}{{% endfor %}}{{{{ '}}' }}}}\
         {{% else %}}{{{{ v|tojson }}}}{{% endif %}}{{% endfor %}}"
    )
}

/// Arguments as Python writes them.
const KEYWORDS: &str = "{% for k, v in c.function.arguments.items() %}{{ '' if loop.first else ', ' }}{{ k + '=' + v|tojson }}{% endfor %}";

/// An object with a whole call.
fn object(name: &str, arguments: &str) -> String {
    format!("{{{{ '{{\"{name}\": \"' + NAME + '\", \"{arguments}\": ' + JSON + '}}' }}}}")
}

impl Family {
    fn source(&self, hint: &str) -> String {
        let call = self.call.replace("NAME", "c.function.name").replace("CALLID", "c.id");
        let call = call.replace("JSON", "c.function.arguments|tojson");
        let Self { open, between, close, .. } = self;
        format!(
            "{hint}{{% if tools %}}{{{{ '<|tools|>' + tools|tojson + '\\n' }}}}{{% endif %}}\
             {{% for m in messages %}}{{{{ '<|' + m.role + '|>' }}}}{{% if m.tool_calls %}}{{{{ '{open}' }}}}\
             {{% for c in m.tool_calls %}}{{{{ '' if loop.first else '{between}' }}}}{call}{{% endfor %}}\
             {{{{ '{close}' }}}}{{% else %}}{{{{ m.content }}}}{{% endif %}}{{{{ '<|eot|>\\n' }}}}{{% endfor %}}\
             {{% if add_generation_prompt %}}{{{{ '<|assistant|>' }}}}{{% endif %}}"
        )
    }
}

/// Formats whose call is an object: name, what is around it, the keys, and texts by which the template is known.
const OBJECTS: [(&str, [&str; 3], [&str; 2], &str); 10] = [
    (
        "minimax-m1",
        ["<tool_calls>\\n", "\\n", "\\n</tool_calls>"],
        ["name", "arguments"],
        "<beginning_of_sentence>",
    ),
    ("llama-3-json", ["", "", ""], ["name", "parameters"], "<|start_header_id|> \"parameters\": "),
    ("command-r7b", ["<|START_ACTION|>[\\n", ",\\n", "\\n]<|END_ACTION|>"], ["tool_name", "parameters"], ""),
    ("command-r", ["Action: ```json\\n[\\n", ",\\n", "\\n]```"], ["tool_name", "parameters"], ""),
    ("phi-4-mini", ["<|tool_call|>[", ", ", "]<|/tool_call|>"], ["name", "arguments"], ""),
    ("granite-3", ["<|tool_call|>[", ", ", "]"], ["name", "arguments"], ""),
    ("nemotron-nano-2", ["<TOOLCALL>[", ", ", "]</TOOLCALL>"], ["name", "arguments"], ""),
    ("apriel", ["<tool_calls>[", ", ", "]</tool_calls>"], ["name", "arguments"], ""),
    ("firefunction", [" functools[", ", ", "]"], ["name", "arguments"], ""),
    (
        "hermes",
        ["<tool_call>\\n", "\\n</tool_call>\\n<tool_call>\\n", "\\n</tool_call>"],
        ["name", "arguments"],
        "",
    ),
];

/// Formats that write JSON arguments, or values without quotes: name, what is around the calls, and the call.
fn others() -> Vec<(&'static str, [&'static str; 3], String, &'static str)> {
    let function = tags("<parameter=", ">\\n", "\\n</parameter>\\n");
    let coder = format!(
        "{{{{ '<tool_call>\\n<function=' + NAME + '>\\n' }}}}{function}{{{{ '</function>\\n</tool_call>' }}}}"
    );
    let seed = tags("<parameter=", ">", "</parameter>\\n");
    let seed = format!(
        "{{{{ '<seed:tool_call>\\n<function=' + NAME + '>\\n' }}}}{seed}{{{{ '</function>\\n</seed:tool_call>' }}}}"
    );
    let glm = tags("<arg_key>", "</arg_key>\\n<arg_value>", "</arg_value>\\n");
    let glm = format!("{{{{ '<tool_call>' + NAME + '\\n' }}}}{glm}{{{{ '</tool_call>' }}}}");
    let minimax = tags("<parameter name=\"", "\">", "</parameter>\\n");
    let minimax = format!("{{{{ '<invoke name=\"' + NAME + '\">\\n' }}}}{minimax}{{{{ '</invoke>\\n' }}}}");
    let dsml = "{% for k, v in c.function.arguments.items() %}{{ '<｜DSML｜parameter name=\"' + k + '\" string=\"' + ('true' if v is string else 'false') + '\">' + (v if v is string else v|tojson) + '</｜DSML｜parameter>\\n' }}{% endfor %}";
    let dsml = format!(
        "{{{{ '<｜DSML｜invoke name=\"' + NAME + '\">\\n' }}}}{dsml}{{{{ '</｜DSML｜invoke>\\n' }}}}"
    );
    let minicpm = "{% for k, v in c.function.arguments.items() %}{{ '<param name=\"' + k + '\">' + ('<![CDATA[' + v + ']]>' if v is string else v|tojson) + '</param>' }}{% endfor %}";
    let minicpm = format!("{{{{ '<function name=\"' + NAME + '\">' }}}}{minicpm}{{{{ '</function>' }}}}");
    let keywords = format!("{{{{ NAME + '(' }}}}{KEYWORDS}{{{{ ')' }}}}");
    let gemma =
        format!("{{{{ '<|tool_call>call:' + NAME + '{{' }}}}{}{{{{ '}}<tool_call|>' }}}}", pairs("<|\"|>"));
    let small = format!(
        "{{{{ '<start_function_call>call:' + NAME + '{{' }}}}{}{{{{ '}}<end_function_call>' }}}}",
        pairs("<escape>")
    );
    let none = ["", "", ""];
    vec![
        ("qwen3-coder", ["", "\\n", ""], coder, ""),
        ("seed-oss", ["", "\\n", ""], seed, ""),
        ("glm-4.5", none, glm, ""),
        ("minimax-m2", ["<minimax:tool_call>\\n", "", "</minimax:tool_call>"], minimax, ""),
        ("deepseek-v3.2", ["<｜DSML｜function_calls>\\n", "", "</｜DSML｜function_calls>"], dsml.clone(), ""),
        ("deepseek-v4", ["<｜DSML｜tool_calls>\\n", "", "</｜DSML｜tool_calls>"], dsml, ""),
        ("minicpm-5", none, minicpm, "<function name=\" <param name=\""),
        ("llama-pythonic", ["[", ", ", "]"], keywords.clone(), "[func_name1(params"),
        ("lfm2", ["<|tool_call_start|>[", ", ", "]<|tool_call_end|>"], keywords, ""),
        ("gemma-4", none, gemma, ""),
        ("function-gemma", none, small, ""),
    ]
}

/// Formats with JSON arguments: name, what is around the calls, the call, and texts by which the template is known.
const JSONS: [(&str, [&str; 3], &str, &str); 11] = [
    (
        "deepseek-v3",
        ["<｜tool▁calls▁begin｜>", "\\n", "<｜tool▁calls▁end｜>"],
        "{{ '<｜tool▁call▁begin｜>function<｜tool▁sep｜>' + NAME + '\\n```json\\n' + JSON + '\\n```<｜tool▁call▁end｜>' }}",
        "",
    ),
    (
        "deepseek-v3.1",
        ["<｜tool▁calls▁begin｜>", "", "<｜tool▁calls▁end｜>"],
        "{{ '<｜tool▁call▁begin｜>' + NAME + '<｜tool▁sep｜>' + JSON + '<｜tool▁call▁end｜>' }}",
        "",
    ),
    (
        "kimi-k2",
        ["<|tool_calls_section_begin|>", "", "<|tool_calls_section_end|>"],
        "{{ '<|tool_call_begin|>' + CALLID + '<|tool_call_argument_begin|>' + JSON + '<|tool_call_end|>' }}",
        "",
    ),
    (
        "mistral-v3",
        ["[TOOL_CALLS][", ", ", "]"],
        "{{ '{\"name\": \"' + NAME + '\", \"arguments\": ' + JSON + ', \"id\": \"' + CALLID + '\"}' }}",
        "",
    ),
    ("mistral-v11", ["", "", ""], "{{ '[TOOL_CALLS]' + NAME + '[CALL_ID]' + CALLID + '[ARGS]' + JSON }}", ""),
    ("mistral-v13", ["", "", ""], "{{ '[TOOL_CALLS]' + NAME + '[ARGS]' + JSON }}", ""),
    ("functionary-3.1", ["", "", ""], "{{ '<function=' + NAME + '>' + JSON + '</function>' }}", "python_tag"),
    ("functionary-3.2", ["", "", ""], "{{ '>>>' + NAME + '\\n' + JSON }}", ">>>all >>>${recipient}"),
    (
        "apertus",
        ["<|tools_prefix|>[", ", ", "]<|tools_suffix|>"],
        "{{ '{\"' + NAME + '\": ' + JSON + '}' }}",
        "",
    ),
    (
        "solar-open",
        ["<|tool_calls|>", "", ""],
        "{{ '<|tool_call:begin|>' + CALLID + '<|tool_call:name|>' + NAME + '<|tool_call:args|>' + JSON + '<|tool_call:end|>' }}",
        "",
    ),
    (
        "harmony",
        ["", "", ""],
        "{{ ' to=functions.' + NAME + '<|channel|>commentary json<|message|>' + JSON + '<|call|>' }}",
        "",
    ),
];

/// One template for each format.
pub(crate) fn all() -> Vec<FamilyTemplate> {
    let of = |format: &'static str, [open, between, close]: [&'static str; 3], call: &str, hint: &str| {
        let hint = if hint.is_empty() { String::new() } else { format!("{{# {hint} #}}") };
        let call: &'static str = call.to_owned().leak();
        FamilyTemplate { format, source: Family { open, call, between, close }.source(&hint) }
    };
    let mut all = Vec::new();
    for (format, around, [name, arguments], hint) in OBJECTS {
        all.push(of(format, around, &object(name, arguments), hint));
    }
    for (format, around, call, hint) in others() {
        all.push(of(format, around, &call, hint));
    }
    for (format, around, call, hint) in JSONS {
        all.push(of(format, around, call, hint));
    }
    all
}
