// The block of an architecture as a drawing: the stream runs down, branches leave it and are added again.

import { shape } from "/page/element.js";

const WIDTH = 360;
const STREAM = 26;
const LEFT = 62;
const LINE = 15;
const GAP = 20;
const MOST_CHARACTERS = 44;
const MOST_DETAILS = 6;

/** The color of a box: by what it computes. */
function colorOf(title) {
  if (title.includes(" norm ")) return "norm";
  if (/attention|mla/.test(title)) return "attention";
  if (/moe|experts/.test(title)) return "experts";
  if (/mamba|rwkv|conv|delta|gla|recurrent|ssm|lru/.test(title)) return "recurrent";
  if (/embedding|head/.test(title)) return "ends";
  return "dense";
}

function cut(text) {
  return text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS - 1)}\u2026` : text;
}

class Canvas {
  constructor() {
    this.shapes = [];
    this.y = 12;
  }

  line(path) {
    this.shapes.push(shape("path", { d: path, class: "wire" }));
  }

  text(x, y, content, kind) {
    this.shapes.push(shape("text", { x, y, class: kind }, cut(content)));
  }

  box(step) {
    const shown = step.details.slice(0, MOST_DETAILS);
    if (step.details.length > shown.length) shown.push(`${step.details.length - shown.length} more`);
    const height = LINE * (shown.length + 1) + 10;
    const title = shape("title", {}, [step.title, ...step.details].join("\n"));
    this.shapes.push(shape("rect", { x: LEFT, y: this.y, width: WIDTH - LEFT - 8, height, rx: 6, class: `box ${colorOf(step.title)}` }, title));
    this.text(LEFT + 10, this.y + LINE + 2, step.title, "box-title");
    shown.forEach((detail, at) => this.text(LEFT + 18, this.y + LINE * (at + 2) + 2, detail, "box-detail"));
    this.y += height + GAP;
    return this.y - GAP;
  }

  /** Boxes on the stream. */
  steps(steps) {
    for (const step of steps) {
      this.line(`M${STREAM} ${this.y + 12}H${LEFT}`);
      this.box(step);
    }
  }

  /** A branch: from the stream through its boxes, and added to the stream. `from` is where the block begins. */
  branch(branch, from) {
    if (branch.steps.length === 0) return;
    const start = branch.parallel ? from : this.y - GAP / 2;
    const turn = LEFT - 14;
    this.line(`M${STREAM} ${start}H${turn}V${this.y + 12}H${LEFT}`);
    const names = { mixer: "mixes tokens", feed_forward: "for each token" };
    this.text(WIDTH - 100, this.y - 5, branch.parallel ? "in parallel" : (names[branch.name] ?? ""), "box-note");
    let below = this.y;
    branch.steps.forEach((step, at) => {
      if (at > 0) this.line(`M${LEFT + 30} ${below}V${this.y}`);
      below = this.box(step);
    });
    const plus = below + GAP + 2;
    this.line(`M${LEFT + 30} ${below}V${plus}H${STREAM + 9}`);
    this.shapes.push(shape("circle", { cx: STREAM, cy: plus, r: 9, class: "plus" }), shape("path", { d: `M${STREAM - 5} ${plus}h10M${STREAM} ${plus - 5}v10`, class: "wire" }));
    if (branch.scale) this.text(LEFT + 40, plus + 4, `times ${branch.scale}`, "box-detail");
    this.y = plus + GAP + 4;
    this.steps(branch.after);
  }
}

/** The drawing of an outline. */
export function blockDrawing(id, outline) {
  const canvas = new Canvas();
  const top = canvas.y + 12;
  canvas.steps(outline.embedding);
  const block = canvas.y - GAP / 2;
  const frame = shape("rect", { x: 6, y: block - 2, width: WIDTH - 10, rx: 10, class: "block-frame" });
  canvas.y += 14;
  outline.branches.forEach((branch) => canvas.branch(branch, block + 8));
  frame.setAttribute("height", canvas.y - GAP / 2 - block);
  canvas.y += 6;
  canvas.steps(outline.output);
  const stream = shape("path", { d: `M${STREAM} ${top}V${canvas.y - GAP - 8}`, class: "stream" });
  const words = `Block of ${id}: ${outline.branches.flatMap((branch) => branch.steps.map((step) => step.title)).join(", then ")}`;
  return shape("svg", { viewBox: `0 0 ${WIDTH} ${canvas.y - GAP + 12}`, class: "block", role: "img", "aria-label": words }, frame, stream, ...canvas.shapes);
}
