//! `POST /page/markdown`: the text of an answer as HTML that is safe to show.

use super::html_writer::HtmlWriter;
use super::spec_check::take_text;
use crate::app::ServerApp;
use crate::blocking::blocking;
use crate::fault::ApiFault;
use crate::http::{json_answer, read_fields};
use axum::extract::{Request, State};
use axum::response::Response;
use pulldown_cmark::{Options, Parser};
use serde_json::json;
use std::sync::Arc;

/// The most bytes of a text.
const MOST_BYTES: usize = 256 << 10;

pub(super) async fn markdown(
    State(app): State<Arc<ServerApp>>,
    request: Request,
) -> Result<Response, ApiFault> {
    let mut fields = read_fields(&app, request).await?;
    let text = take_text(&mut fields, MOST_BYTES)?;
    Ok(json_answer(&json!({ "html": blocking(move || html_of(&text)).await? })))
}

/// A text in Markdown as HTML. HTML in it stays text.
fn html_of(text: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = HtmlWriter::default();
    Parser::new_ext(text, options).for_each(|event| writer.event(event));
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_html() {
        for (text, html) in [
            ("a *b* **c** `d<e`", "<p>a <em>b</em> <strong>c</strong> <code>d&lt;e</code></p>"),
            ("# T\n\n- [x] a\n- b", "<h3>T</h3><ul><li>\u{2611} a</li><li>b</li></ul>"),
            ("2. a\n3. b", "<ol start=\"2\"><li>a</li><li>b</li></ol>"),
            ("```rust\nfn <T>\n```", "<pre><code data-language=\"rust\">fn &lt;T&gt;\n</code></pre>"),
            ("> q\n\n---\n~~s~~  \nt", "<blockquote><p>q</p></blockquote><hr><p><del>s</del><br>t</p>"),
            (
                "|a|b|\n|-|:-:|\n|1|2|",
                "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table>",
            ),
            (
                "[a](https://b.example/?c=1&d=\"x\")",
                "<p><a href=\"https://b.example/?c=1&amp;d=&quot;x&quot;\" rel=\"noopener noreferrer\" target=\"_blank\">a</a></p>",
            ),
            (
                "![a *b*](https://b.example/c.png)",
                "<p><a href=\"https://b.example/c.png\" rel=\"noopener noreferrer\" target=\"_blank\">a <em>b</em></a></p>",
            ),
            (
                "[a](mailto:b@c.example)",
                "<p><a href=\"mailto:b@c.example\" rel=\"noopener noreferrer\" target=\"_blank\">a</a></p>",
            ),
        ] {
            assert_eq!(html_of(text).replace("</li>\n", "</li>"), html, "{text}");
        }
    }

    /// Nothing in a text runs, loads, or is a link to anything but the web and mail.
    #[test]
    fn hostile_text_stays_text() {
        for text in [
            "<script>alert(1)</script>",
            "a <img src=x onerror=alert(1)> b",
            "<svg/onload=alert(1)>",
            "<iframe srcdoc='<script>1</script>'></iframe>",
            "[a](javascript:alert(1))",
            "[a](JaVaScRiPt:alert(1))",
            "[a]( javascript:alert(1))",
            "[a](java\tscript:alert(1))",
            "[a](&#106;avascript:alert(1))",
            "[a](data:text/html,<script>1</script>)",
            "![a](data:image/svg+xml,<svg onload=alert(1)>)",
            "![a](javascript:alert(1))",
            "[a](vbscript:1) [b](file:///etc/passwd) [c](//evil.example) [d](/metrics) [e](#x)",
            "<javascript:alert(1)>",
            "[a]: javascript:alert(1)\n\n[a]",
            "<a href=\"javascript:alert(1)\">x</a>",
            "```\"><script>alert(1)</script>\nx\n```",
            "<!-- --><script>1</script><!-- -->",
            "[\"onmouseover=alert(1)](https://a.example/\"onmouseover=alert(1))",
            "&lt;script&gt;alert(1)&lt;/script&gt;",
        ] {
            let html = html_of(text);
            let tags = html.split('<').skip(1).map(|tag| tag.split('>').next().unwrap());
            for tag in tags {
                let name = tag.trim_start_matches('/').split(' ').next().unwrap();
                assert!(["p", "a", "pre", "code", "br", "em"].contains(&name), "{text}: {html}");
                if name == "a" && !tag.starts_with('/') {
                    assert!(tag.starts_with("a href=\"https://a.example/"), "{text}: {html}");
                    assert_eq!(tag.matches('"').count(), 6, "{text}: {html}");
                }
            }
        }
        assert!(html_of("<b>a</b>").contains("&lt;b&gt;a&lt;/b&gt;"));
    }

    #[test]
    fn deep_and_large_texts_are_bounded() {
        for text in [
            ">".repeat(50_000),
            "- ".repeat(20_000),
            "[".repeat(100_000),
            "*a".repeat(50_000),
            "`".repeat(99_999),
        ] {
            let html = html_of(&text);
            let open = html.matches("<blockquote>").count() + html.matches("<ul>").count();
            assert!(open <= 64, "{open}");
            assert!(html.len() < 2_000_000);
        }
    }
}
