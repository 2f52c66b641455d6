// Markdown, rendered by the server. What it sends is checked again before it is shown.

import { element } from "/page/element.js";
import { ask } from "/page/server.js";

const ELEMENTS = new Set(("A P BR HR EM STRONG DEL CODE PRE UL OL LI BLOCKQUOTE H3 H4 H5 H6 TABLE THEAD TBODY TR TH TD").split(" "));
const PAUSE = 150;
const MOST = 200_000;

function checked(node) {
  if (node.nodeType === Node.TEXT_NODE) return document.createTextNode(node.data);
  if (node.nodeType !== Node.ELEMENT_NODE) return "";
  const children = [...node.childNodes].map(checked);
  if (!ELEMENTS.has(node.tagName)) return element("span", {}, ...children);
  const attributes = {};
  if (node.tagName === "A" && /^(https?:\/\/|mailto:)/i.test(node.getAttribute("href") ?? "")) {
    Object.assign(attributes, { href: node.getAttribute("href"), rel: "noopener noreferrer", target: "_blank" });
  }
  if (node.tagName === "OL") attributes.start = node.getAttribute("start");
  const made = element(node.tagName.toLowerCase(), attributes, ...children);
  if (node.tagName === "TABLE") return element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Table" }, made);
  if (node.tagName !== "PRE") return made;
  made.tabIndex = 0;
  const language = node.querySelector("code")?.getAttribute("data-language");
  const copy = element("button", { type: "button", class: "quiet" }, "Copy");
  copy.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(node.textContent);
    copy.textContent = "Copied";
  });
  return element("div", { class: "code" }, element("div", { class: "code-head" }, language ?? "code", copy), made);
}

/** A text that grows, shown as Markdown. */
export class MarkdownView {
  constructor() {
    this.node = element("div", { class: "markdown" });
    this.text = "";
    this.shown = null;
    this.isRendering = false;
  }

  /** Shows a text, soon. */
  update(text) {
    this.text = text;
    if (this.shown === null) this.plain(text);
    if (!this.isRendering) this.render();
  }

  async render() {
    this.isRendering = true;
    this.node.setAttribute("aria-busy", "true");
    while (this.shown !== this.text) {
      const text = this.text;
      await this.show(text);
      this.shown = text;
      if (this.text !== text) await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
    this.isRendering = false;
    this.node.setAttribute("aria-busy", "false");
  }

  async show(text) {
    if (text.trim() === "" || text.length > MOST) return this.plain(text);
    try {
      const { html } = await ask("/page/markdown", { text });
      const parsed = new DOMParser().parseFromString(html, "text/html");
      this.node.classList.remove("plain");
      this.node.replaceChildren(...[...parsed.body.childNodes].map(checked));
    } catch {
      this.plain(text);
    }
  }

  plain(text) {
    this.node.classList.add("plain");
    this.node.textContent = text;
  }
}
