//! Chat templates: compiled, and rendered with conversations, tools and untrusted text.

use crate::Target;
use menagerie_loaders::{ChatTemplate, RenderOptions, TokenizerTables};
use serde_json::{Value, json};

pub(super) const TARGET: Target = Target {
    name: "template",
    run,
    seeds,
    words: &[
        "{{",
        "}}",
        "{%",
        "%}",
        "{#",
        "#}",
        "{%-",
        "messages",
        "message['content']",
        "for",
        "endfor",
        "if",
        "endif",
        "set",
        "macro",
        "endmacro",
        "range(",
        "namespace(",
        "loop.index",
        "raise_exception(",
        "strftime_now(",
        "tojson",
        "| join",
        "* 1000000",
        "~",
        "[::-1]",
        ".split(",
        ".replace(",
        "bos_token",
        "add_generation_prompt",
        "tools",
        "is defined",
        "recursive",
        "selectattr(",
        "| default(",
    ],
};

fn run(input: &[u8]) -> bool {
    let Ok(source) = std::str::from_utf8(input) else { return false };
    let Ok(template) = ChatTemplate::new("input", source, Some("<s>"), None) else { return false };
    let messages: Vec<Value> = vec![
        json!({"role": "system", "content": "Be brief."}),
        json!({"role": "user", "content": "Hello <s> \"you\"\n"}),
        json!({"role": "assistant", "content": "Hi", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1.5}}}]}),
        json!({"role": "user", "content": [{"type": "text", "text": "é"}]}),
    ];
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}});
    let now = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    let options = RenderOptions::default().with_tools(vec![tool]).with_now(now);
    let plain = template.render(&messages, &options);
    let segments = template.render_segments(&messages, &options, &["<s>", "</s>"]);
    if let (Ok(plain), Ok(segments)) = (&plain, segments) {
        let whole: String = segments.iter().map(|segment| segment.text.as_str()).collect();
        assert_eq!(*plain, whole, "segments make another text");
        let names =
            |segment: &&menagerie_loaders::Segment| segment.trusted && segment.text.contains("Hello <s>");
        assert!(segments.iter().find(names).is_none(), "a user's text is trusted");
    }
    drop(template.render(&messages[1..2], &RenderOptions::default().with_now(now)));
    true
}

fn seeds() -> Vec<Vec<u8>> {
    let own = [
        "{% for m in messages %}{{ '<|' + m.role + '|>' + m['content']|string }}{% endfor %}",
        "{% macro turn(m) %}{{ m.role }}: {{ m.content }}{% endmacro %}{% for m in messages %}{{ turn(m) }}{% if loop.last \
         and add_generation_prompt %}{{ bos_token }}{% endif %}{% endfor %}{{ tools | tojson(indent=2) }}",
        "{% set ns = namespace(n=0) %}{% for m in messages | selectattr('role', 'equalto', 'user') %}{% set ns.n = ns.n + 1 \
         %}{{ m.content[::-1] if m.content is string else '' }}{% endfor %}{{ ns.n * 3 }}{{ strftime_now('%Y-%m-%d') }}",
    ];
    let mut seeds: Vec<Vec<u8>> = own.iter().map(|source| source.as_bytes().to_vec()).collect();
    if let Ok(tables) = TokenizerTables::built_in() {
        let sources = tables.chat_templates().filter_map(|name| tables.chat_template(name));
        seeds.extend(sources.map(|source| source.as_bytes().to_vec()));
    }
    seeds
}
