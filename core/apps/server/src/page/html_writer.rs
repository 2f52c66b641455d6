//! [`HtmlWriter`]: the events of a Markdown parser as HTML.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Tag, TagEnd};

/// Elements inside of each other, of which deeper ones are left out: browsers are slow with deep documents.
const DEPTH: usize = 64;

/// The schemes that a link may have.
const SCHEMES: [&str; 3] = ["http://", "https://", "mailto:"];

/// Writes HTML of a few elements, whose attributes are only those of links, lists and code. HTML in the text is written as
/// text, and images as links, so that showing a text loads nothing.
#[derive(Default)]
pub(super) struct HtmlWriter {
    html: String,
    /// What ends the elements that are open, and nothing for those that are left out.
    ends: Vec<&'static str>,
    /// Whether cells are those of the head of a table.
    is_head: bool,
}

impl HtmlWriter {
    /// Writes an event.
    pub(super) fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Code(text) => {
                self.html.push_str("<code>");
                self.text(&text);
                self.html.push_str("</code>");
            }
            Event::SoftBreak => self.html.push('\n'),
            Event::HardBreak => self.html.push_str("<br>"),
            Event::Rule => self.html.push_str("<hr>"),
            Event::TaskListMarker(is_done) => {
                self.html.push_str(if is_done { "\u{2611} " } else { "\u{2610} " });
            }
            Event::Text(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => self.text(&text),
        }
    }

    /// The HTML.
    pub(super) fn finish(mut self) -> String {
        while let Some(end) = self.ends.pop() {
            self.html.push_str(end);
        }
        self.html
    }

    fn start(&mut self, tag: Tag<'_>) {
        let (start, end) = match &tag {
            // Headings of the page itself come first.
            Tag::Heading { level, .. } => match level {
                HeadingLevel::H1 => ("<h3>", "</h3>"),
                HeadingLevel::H2 => ("<h4>", "</h4>"),
                HeadingLevel::H3 => ("<h5>", "</h5>"),
                _ => ("<h6>", "</h6>"),
            },
            Tag::Paragraph => ("<p>", "</p>"),
            Tag::HtmlBlock => ("<p>", "</p>"),
            Tag::BlockQuote(_) => ("<blockquote>", "</blockquote>"),
            Tag::Item => ("<li>", "</li>"),
            Tag::List(None) => ("<ul>", "</ul>"),
            Tag::Emphasis => ("<em>", "</em>"),
            Tag::Strong => ("<strong>", "</strong>"),
            Tag::Strikethrough => ("<del>", "</del>"),
            Tag::Table(_) => ("<table>", "</table>"),
            Tag::TableHead => ("<thead><tr>", "</tr></thead><tbody>"),
            Tag::TableRow => ("<tr>", "</tr>"),
            Tag::TableCell if self.is_head => ("<th>", "</th>"),
            Tag::TableCell => ("<td>", "</td>"),
            Tag::List(Some(_)) => ("", "</ol>"),
            Tag::CodeBlock(_) => ("", "</code></pre>"),
            Tag::Link { .. } | Tag::Image { .. } => ("", "</a>"),
            _ => ("", ""),
        };
        if self.ends.len() >= DEPTH {
            self.ends.push("");
            return;
        }
        self.is_head = self.is_head || tag == Tag::TableHead;
        match &tag {
            Tag::List(Some(first)) => self.html.push_str(&format!("<ol start=\"{first}\">")),
            Tag::CodeBlock(kind) => self.code_block(kind),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                if !self.link(dest_url) {
                    self.ends.push("");
                    return;
                }
            }
            _ => self.html.push_str(start),
        }
        self.ends.push(end);
    }

    fn end(&mut self, tag: TagEnd) {
        if tag == TagEnd::TableHead {
            self.is_head = false;
        }
        let end = self.ends.pop().unwrap_or_default();
        if tag == TagEnd::Table && !end.is_empty() {
            self.html.push_str("</tbody>");
        }
        self.html.push_str(end);
    }

    fn code_block(&mut self, kind: &CodeBlockKind<'_>) {
        let language = match kind {
            CodeBlockKind::Fenced(info) => info.split([' ', ',', '\t']).next().unwrap_or_default(),
            CodeBlockKind::Indented => "",
        };
        if language.is_empty() {
            self.html.push_str("<pre><code>");
            return;
        }
        self.html.push_str("<pre><code data-language=\"");
        self.text(language);
        self.html.push_str("\">");
    }

    /// Begins a link, if it leads to the web or to mail.
    fn link(&mut self, target: &str) -> bool {
        let begins =
            |scheme: &str| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        // Browsers leave out control characters in an address.
        let is_safe = SCHEMES.into_iter().any(begins) && !target.chars().any(char::is_control);
        if is_safe {
            self.html.push_str("<a href=\"");
            self.text(target);
            self.html.push_str("\" rel=\"noopener noreferrer\" target=\"_blank\">");
        }
        is_safe
    }

    /// Text, also in an attribute.
    fn text(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '&' => self.html.push_str("&amp;"),
                '<' => self.html.push_str("&lt;"),
                '>' => self.html.push_str("&gt;"),
                '"' => self.html.push_str("&quot;"),
                '\'' => self.html.push_str("&#39;"),
                '\0' => self.html.push('\u{fffd}'),
                other => self.html.push(other),
            }
        }
    }
}
