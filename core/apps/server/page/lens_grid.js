// The grid of a logit lens: a column for each token, a row for each layer. Arrow keys go from cell to cell.

import { element } from "/page/element.js";

/** The text of a token, in which white space can be seen. */
function visible({ id, text }) {
  if (text === "") return `#${id}`;
  return text.replaceAll(" ", "\u00b7").replaceAll("\n", "\u21b5").replaceAll("\t", "\u21e5");
}

function percent(share) {
  const value = share * 100;
  if (value >= 9.95) return `${Math.round(value)} %`;
  return value >= 0.1 ? `${value.toFixed(1)} %` : "< 0.1 %";
}

/** The steps of shading: 0 to 5. */
function shade(probability) {
  return Math.min(5, Math.floor(probability * 5 + 0.5));
}

/** What is known of a cell. */
function detail(row, cell) {
  const other = cell.rank === 1 ? "the layer predicts it, too" : `rank ${cell.rank} here, with ${percent(cell.probability)}`;
  const lines = [
    element("p", {}, element("strong", {}, `Layer ${cell.layer}`), " after ", element("code", {}, visible(row)), ` (position ${row.position})`),
    element("p", {}, "The model predicts ", element("code", {}, visible(row.predicted)), `: ${other}.`),
  ];
  if (row.next && row.next.id !== row.predicted.id) lines.push(element("p", {}, "In the text follows ", element("code", {}, visible(row.next)), "."));
  const tokens = cell.top.map((token) => {
    const bar = element("meter", { min: "0", max: "1", value: token.probability, "aria-hidden": "true" });
    return element("tr", {}, element("td", {}, element("code", {}, visible(token))), element("td", { class: "number" }, percent(token.probability)), element("td", {}, bar));
  });
  const heads = ["Token", "Probability", "Share"].map((text) => element("th", { scope: "col" }, text));
  return [...lines, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...tokens))];
}

function gridCell(row, cell) {
  if (!cell) return element("td", { role: "gridcell", tabindex: "-1" }, "\u2013");
  const [top] = cell.top;
  const same = cell.rank === 1 ? " same" : "";
  return element(
    "td", { role: "gridcell", tabindex: "-1", class: `lens-cell shade-${shade(top.probability)}${same}` },
    element("span", { class: "lens-token" }, visible(top)), element("small", {}, percent(top.probability)),
  );
}

/** Lets arrow keys move between the cells: one of them is in the order of the tab key. */
function movable(table, cells, choose) {
  const place = { layer: cells.length - 1, column: (cells[0]?.length ?? 1) - 1 };
  const current = () => cells[place.layer]?.[place.column];
  const go = (layer, column) => {
    if (!cells[layer]?.[column]) return;
    current().tabIndex = -1;
    Object.assign(place, { layer, column });
    current().tabIndex = 0;
    current().focus();
    choose(layer, column);
  };
  if (current()) current().tabIndex = 0;
  table.addEventListener("keydown", (event) => {
    const { layer, column } = place;
    const last = cells[layer].length - 1;
    const steps = {
      ArrowUp: [layer - 1, column], ArrowDown: [layer + 1, column], ArrowLeft: [layer, column - 1], ArrowRight: [layer, column + 1],
      Home: [layer, 0], End: [layer, last], PageUp: [0, column], PageDown: [cells.length - 1, column],
    };
    if (!Object.hasOwn(steps, event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    go(...steps[event.key]);
  });
  cells.forEach((line, layer) => line.forEach((cell, column) => cell.addEventListener("click", () => go(layer, column))));
}

/** The grid of rows as the server sends them; `prompt` is the number of tokens of the prompt. */
export function lensGrid(rows, prompt) {
  const layers = [...new Set(rows.flatMap((row) => row.layers.map((cell) => cell.layer)))].sort((a, b) => a - b);
  const of = (row, layer) => row.layers.find((cell) => cell.layer === layer);
  const cells = layers.map((layer) => rows.map((row) => gridCell(row, of(row, layer))));
  const head = (row) => element("th", { scope: "col", class: row.position < prompt ? "lens-head" : "lens-head given", title: `position ${row.position}, token ${row.id}` }, element("code", {}, visible(row)));
  const lines = layers.map((layer, at) => element("tr", {}, element("th", { scope: "row" }, String(layer)), ...cells[at]));
  const table = element(
    "table", { class: "lens", role: "grid", "aria-label": "Predictions of each layer after each token" },
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Layer"), ...rows.map(head))), element("tbody", {}, ...lines),
  );
  const about = element("div", { class: "alternatives lens-detail", id: "lens-detail", role: "region", tabindex: "0", "aria-label": "The chosen cell", "aria-live": "polite" }, "Choose a cell, or move with the arrow keys, to see what else the layer would predict.");
  movable(table, cells, (at, column) => {
    for (const other of table.querySelectorAll("[aria-selected]")) other.removeAttribute("aria-selected");
    cells[at][column].setAttribute("aria-selected", "true");
    const cell = of(rows[column], layers[at]);
    about.replaceChildren(...(cell ? detail(rows[column], cell) : ["The logits of this layer are not finite."]));
  });
  const legend = element(
    "p", { class: "soft" }, "A cell is the most likely next token: the stronger its color, the more probable. ", element("span", { class: "lens-key same" }, "Framed"),
    " cells agree with the model. Columns with a gray head belong to the answer.",
  );
  return element("div", { class: "lens-box" }, legend, element("div", { class: "wide lens-scroll" }, table), about);
}
