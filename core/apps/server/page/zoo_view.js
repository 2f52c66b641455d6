// The zoo: the architectures that are installed, and the layers of the models that are loaded.

import { blockDrawing } from "/page/block_drawing.js";
import { element, failure, labeled } from "/page/element.js";
import { layerMap } from "/page/layer_map.js";
import { ask } from "/page/server.js";

const STATES = { hf: "compared with transformers", "llama.cpp": "compared with llama.cpp", paper: "after a paper" };

function link(text, ...parts) {
  return element("a", { href: `#${parts.map(encodeURIComponent).join("/")}` }, text);
}

function pills(words) {
  return element("span", { class: "pills" }, ...words.map((word) => element("span", { class: "pill" }, word)));
}

export class ZooView {
  async mount(main, [kind, ...rest]) {
    main.replaceChildren(element("p", { class: "empty" }, "Loading"));
    if (kind === "architecture") return this.architecture(main, rest[0]);
    if (kind === "differences") return this.differences(main, rest[0], rest[1]);
    if (kind === "model") return this.model(main, rest.join("/"));
    return this.cards(main);
  }

  async list() {
    this.all ??= (await ask("/page/architectures")).architectures;
    return this.all;
  }

  async cards(main) {
    const [all, state] = await Promise.all([this.list(), ask("/page/state")]);
    const search = element("input", { type: "search", value: this.search ?? "", placeholder: "name, family, part" });
    const count = element("p", { class: "soft", role: "status" });
    const grid = element("ul", { class: "cards" });
    const show = () => {
      this.search = search.value;
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const text = (one) => [one.id, one.family, one.summary, ...(one.names ?? []), ...(one.classes ?? []), ...(one.parts ?? [])].join(" ").toLowerCase();
      const found = all.filter((one) => words.every((word) => text(one).includes(word)));
      count.textContent = `${found.length} of ${all.length} architectures`;
      grid.replaceChildren(...found.map((one) => this.card(one)));
    };
    search.addEventListener("input", show);
    show();
    const models = state.models.filter((model) => model.architecture).map((model) => element("li", { class: "card" }, element("h3", {}, link(model.id, "zoo", "model", model.id)), element("p", {}, `a loaded model of ${model.architecture}: its layers and tensors`)));
    main.replaceChildren(element(
      "div", { class: "view" }, element("h1", {}, "Zoo"),
      ...(models.length ? [element("h2", {}, "Models"), element("ul", { class: "cards" }, ...models)] : []),
      element("h2", {}, "Architectures"), element("div", { class: "search" }, labeled("Search", search)), count, grid,
    ));
  }

  card(one) {
    const head = element("h3", {}, link(one.id, "zoo", "architecture", one.id));
    if (one.error) return element("li", { class: "card faulty" }, head, element("p", {}, "This spec has faults."), element("pre", {}, one.error));
    const state = STATES[one.reference] ?? one.origin;
    const family = one.family === one.id ? null : element("p", { class: "soft" }, `family ${one.family}`);
    return element("li", { class: "card" }, head, element("p", {}, one.summary), family, pills(one.parts.slice(0, 10)), element("p", { class: "soft" }, state));
  }

  async architecture(main, id) {
    const [one, all] = await Promise.all([ask(`/page/architectures/${encodeURIComponent(id)}`), this.list()]);
    const other = element("select", {}, element("option", { value: "" }, "choose"), ...all.filter((known) => known.id !== id && !known.error).map((known) => element("option", { value: known.id }, known.id)));
    other.addEventListener("change", () => {
      if (other.value) location.hash = `#zoo/differences/${encodeURIComponent(id)}/${encodeURIComponent(other.value)}`;
    });
    const facts = [["Names in GGUF files", one.names.join(", ")], ["Classes of config.json", one.classes.join(", ")], ["Extends", one.extends.join(", ")], ["Origin", one.origin]];
    if (one.provenance) facts.push(["Reference", `${one.provenance.source} (${one.provenance.reference})`], ["Compared", one.provenance.covers], ["Notes", one.provenance.notes.join(" ")]);
    const list = facts.filter(([, value]) => value).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
    const option = (stated) => element("tr", {}, element("td", {}, element("code", {}, stated.path)), element("td", {}, element("code", {}, stated.value)), element("td", {}, stated.meaning));
    const heads = ["Option", "Value", "Meaning"].map((text) => element("th", { scope: "col" }, text));
    main.replaceChildren(element(
      "div", { class: "view" }, element("p", {}, link("All architectures", "zoo")), element("h1", {}, one.id), element("p", {}, one.summary), pills(one.parts),
      element("div", { class: "columns" }, element("div", {}, blockDrawing(one.id, one.outline)), element("div", {}, element("dl", {}, ...list), labeled("Compare with", other), element("p", {}, link("Open its spec in the editor", "editor", id)))),
      element("details", {}, element("summary", {}, "Options that the spec states"), element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Options" }, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...one.options.map(option))))),
      element("details", { open: true }, element("summary", {}, "The whole spec, with the file and line of each inherited value"), element("pre", { class: "spec", tabindex: "0", "aria-label": "Spec" }, one.merged)),
    ));
  }

  async differences(main, first, second) {
    const { differences } = await ask(`/page/differences/${encodeURIComponent(first)}/${encodeURIComponent(second)}`);
    const value = (stated) => (stated ? [element("code", {}, stated.value), element("br", {}), element("small", {}, `${stated.file}:${stated.line}`)] : [element("span", { class: "soft" }, "not stated")]);
    const row = (one) => element("tr", {}, element("th", { scope: "row" }, element("code", {}, one.path)), element("td", { class: one.first ? "removed" : "" }, ...value(one.first)), element("td", { class: one.second ? "added" : "" }, ...value(one.second)));
    const table = element("table", { class: "differences" }, element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Value"), element("th", { scope: "col" }, first), element("th", { scope: "col" }, second))), element("tbody", {}, ...differences.map(row)));
    main.replaceChildren(element(
      "div", { class: "view" }, element("p", {}, link(first, "zoo", "architecture", first), " \u00b7 ", link(second, "zoo", "architecture", second)), element("h1", {}, `${first} and ${second}`),
      element("p", { class: "soft" }, differences.length ? `${differences.length} values differ` : "They do not differ."), element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Differences" }, table),
    ));
  }

  async model(main, id) {
    const one = await ask(`/page/tensors/${encodeURIComponent(id)}`);
    main.replaceChildren(element(
      "div", { class: "view" }, element("p", {}, link("Zoo", "zoo")), element("h1", {}, id),
      element("p", {}, "Architecture ", link(one.architecture, "zoo", "architecture", one.architecture), `, width ${one.width}. A bar shows the tensors of a layer: as wide as their bytes, with the color of their type. Open a layer to list them.`),
      one.tensors.length ? layerMap(one) : failure("The file has no tensors."),
    ));
  }
}
