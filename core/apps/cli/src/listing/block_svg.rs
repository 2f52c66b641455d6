//! A diagram of one block as SVG: the stream runs down on the left, branches on the right are added to it.

use menagerie::spec::{Outline, OutlineBranch, OutlineStep};
use std::fmt::Write;

const WIDTH: usize = 640;
/// The x position of the stream, and of the boxes.
const STREAM: usize = 40;
const LEFT: usize = 110;
const BOX: usize = WIDTH - LEFT - 20;
const LINE: usize = 16;
const GAP: usize = 18;
/// Maximum number of characters of a line in a box.
const SHOWN: usize = 72;

const HEAD: &str = "\
<style>\
text{font:12px ui-monospace,monospace;fill:#222}.t{font-weight:bold}.b{fill:#f4f6fa;stroke:#456;rx:6}\
.n{fill:#fdf6e3;stroke:#a80;rx:6}.s{stroke:#456;stroke-width:2;fill:none}.a{fill:#fff;stroke:#456;stroke-width:2}\
</style>";

/// The whole diagram.
pub(crate) fn svg(title: &str, outline: &Outline) -> String {
    let mut drawing = SvgCanvas { body: String::new(), y: 30 };
    drawing.text(STREAM - 20, title, "t");
    drawing.y += GAP;
    let top = drawing.y;
    drawing.boxes(&outline.embedding, LEFT);
    let first = drawing.y;
    for branch in &outline.branches {
        drawing.branch(branch, first);
    }
    drawing.text(STREAM - 20, "(the next block)", "");
    drawing.y += GAP;
    drawing.boxes(&outline.output, LEFT);
    let height = drawing.y + 10;
    let stream = format!("<path class=\"s\" d=\"M{STREAM} {top}V{}\"/>", height - 20);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">\n\
         {HEAD}\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{stream}\n{}</svg>\n",
        drawing.body
    )
}

struct SvgCanvas {
    body: String,
    /// The y position of the next element.
    y: usize,
}

impl SvgCanvas {
    fn text(&mut self, x: usize, text: &str, class: &str) {
        let shown: String = text.chars().take(SHOWN).collect();
        let dots = if shown.len() < text.len() { "..." } else { "" };
        let y = self.y;
        let _ = writeln!(
            self.body,
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}{dots}</text>",
            escaped(&shown)
        );
    }

    fn boxes(&mut self, steps: &[OutlineStep], left: usize) {
        for step in steps {
            let height = LINE * (step.details.len() + 1) + 12;
            let class = if step.title.contains(" norm ") { "n" } else { "b" };
            let top = self.y;
            let _ = writeln!(
                self.body,
                "<rect class=\"{class}\" x=\"{left}\" y=\"{top}\" width=\"{BOX}\" height=\"{height}\"/>"
            );
            self.y += LINE + 2;
            self.text(left + 10, &step.title, "t");
            for detail in &step.details {
                self.y += LINE;
                self.text(left + 20, detail, "");
            }
            self.y = top + height + GAP;
        }
    }

    /// Draws a branch: from the stream through the boxes and back; `first` is the start of the block.
    fn branch(&mut self, branch: &OutlineBranch, first: usize) {
        let from = if branch.parallel { first } else { self.y };
        let start = self.y;
        let _ = writeln!(
            self.body,
            "<path class=\"s\" d=\"M{STREAM} {from}H{}V{}H{LEFT}\"/>",
            LEFT - 30,
            start + 14
        );
        self.boxes(&branch.steps, LEFT);
        let back = self.y;
        let _ = writeln!(
            self.body,
            "<path class=\"s\" d=\"M{} {}V{back}H{STREAM}\"/>\n<circle class=\"a\" cx=\"{STREAM}\" cy=\"{back}\" r=\"9\"/>",
            LEFT + 20,
            back - GAP
        );
        self.y = back + 4;
        self.text(STREAM - 4, "+", "t");
        if let Some(scale) = &branch.scale {
            self.text(LEFT + 30, &format!("times {scale}"), "");
        }
        self.y = back + GAP + 6;
        self.boxes(&branch.after, LEFT);
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
