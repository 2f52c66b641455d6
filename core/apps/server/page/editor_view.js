// The editor of specs: the server checks each change.

import { blockDrawing } from "/page/block_drawing.js";
import { button, element, failure, labeled } from "/page/element.js";
import { ask } from "/page/server.js";

const KEPT = "menagerie.spec";
const PAUSE = 250;

const EXAMPLE = `schema = 1
extends = "llama"

[architecture]
id = "mine"
summary = "A variation of llama"

[mixer]
kind = "attention"
`;

export class EditorView {
  async mount(main, [id]) {
    this.area = element("textarea", { id: "spec", class: "spec-text", spellcheck: "false", wrap: "off", autocapitalize: "off", "aria-label": "Spec in TOML", "aria-describedby": "verdict" });
    this.lines = element("div", { class: "line-numbers", "aria-hidden": "true" });
    this.verdict = element("p", { id: "verdict", role: "status" });
    this.faults = element("ol", { class: "faults", "aria-label": "Faults" });
    this.drawing = element("div", {});
    this.area.value = localStorage.getItem(KEPT) ?? EXAMPLE;
    const bases = element("select", {}, element("option", { value: "" }, "choose"));
    bases.addEventListener("change", () => bases.value && this.load(bases.value));
    this.area.addEventListener("input", () => this.changed());
    this.area.addEventListener("scroll", () => {
      this.lines.scrollTop = this.area.scrollTop;
    });
    main.replaceChildren(element(
      "div", { class: "view" }, element("h1", {}, "Editor"), element("p", {}, "A spec defines an architecture. It is checked as you type, as ", element("code", {}, "menagerie spec check"), " does."),
      element("div", { class: "columns editor" }, element("div", {}, labeled("Begin with the spec of", bases), element("div", { class: "editor-box" }, this.lines, this.area), element("p", { class: "actions" }, button("Save as a file", () => this.save()))), element("div", {}, this.verdict, this.faults, this.drawing)),
    ));
    if (id) await this.load(id);
    else this.check();
    const { architectures } = await ask("/page/architectures");
    bases.append(...architectures.map((one) => element("option", { value: one.id }, one.id)));
  }

  unmount() {
    clearTimeout(this.timer);
  }

  async load(id) {
    const { text } = await ask(`/page/architectures/${encodeURIComponent(id)}`);
    this.area.value = text;
    localStorage.setItem(KEPT, text);
    await this.check();
  }

  changed() {
    localStorage.setItem(KEPT, this.area.value);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check(), PAUSE);
  }

  async check() {
    const text = this.area.value;
    this.number([]);
    let result;
    try {
      result = await ask("/specs/check", { text });
    } catch (error) {
      this.faults.replaceChildren(element("li", {}, failure(error)));
      return;
    }
    if (text !== this.area.value) return;
    const { faults, notes } = result;
    this.verdict.textContent = result.good ? `${result.id}: no faults` : `${faults.length} ${faults.length === 1 ? "fault" : "faults"}`;
    this.verdict.className = result.good ? "good" : "bad";
    this.area.setAttribute("aria-invalid", String(!result.good));
    this.faults.replaceChildren(...faults.map((fault) => this.fault(fault)), ...notes.map((note) => element("li", { class: "soft" }, note)));
    this.number(faults.filter((fault) => fault.file === "spec.toml").map((fault) => fault.line));
    if (result.good) this.drawing.replaceChildren(blockDrawing(result.id, result.outline));
  }

  fault(fault) {
    const place = fault.line === null ? "" : `${fault.file === "spec.toml" ? "line" : `${fault.file}, line`} ${fault.line}, column ${fault.column}`;
    const go = () => this.go(fault.line, fault.column);
    const isHere = fault.line !== null && fault.file === "spec.toml";
    return element("li", {}, isHere ? button(place, go, { class: "quiet" }) : place, fault.subject ? element("code", {}, ` ${fault.subject}`) : null, element("div", { class: "plain" }, fault.message));
  }

  /** Puts the cursor at a place. */
  go(line, column) {
    const lines = this.area.value.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0) + column - 1;
    this.area.focus();
    this.area.setSelectionRange(start, start + Math.max(1, (lines[line - 1] ?? "").length - column + 1));
    this.area.scrollTop = Math.max(0, (line - 5) * (this.area.scrollHeight / lines.length));
  }

  /** Shows the numbers of lines, and marks those with faults. */
  number(faulty) {
    const count = this.area.value.split("\n").length;
    const numbers = Array.from({ length: count }, (_, at) => element("div", { class: faulty.includes(at + 1) ? "faulty" : null }, String(at + 1)));
    this.lines.replaceChildren(...numbers);
    this.lines.scrollTop = this.area.scrollTop;
  }

  save() {
    const id = /^\s*id\s*=\s*"([\w.-]+)"/m.exec(this.area.value)?.[1] ?? "spec";
    const address = URL.createObjectURL(new Blob([this.area.value], { type: "application/toml" }));
    element("a", { href: address, download: `${id}.toml` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }
}
