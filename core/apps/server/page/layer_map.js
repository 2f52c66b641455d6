// The layers of a loaded model: a row for each, with its tensors as wide as their bytes.

import { element, readableBytes, shape } from "/page/element.js";

const WIDTH = 600;
const HEIGHT = 12;

/** The color of a type: types with the same beginning are alike. */
function typeClass(types, type) {
  return `type-${types.indexOf(type) % 8}`;
}

function bar(tensors, largest, types) {
  let x = 0;
  const shown = tensors.map((tensor) => {
    const width = (tensor.bytes / largest) * WIDTH;
    const about = `${tensor.name}\n${tensor.type} [${tensor.shape.join(", ")}]\n${readableBytes(tensor.bytes)}`;
    const rect = shape("rect", { x: x.toFixed(2), y: 0, width: Math.max(width - 0.6, 0.4).toFixed(2), height: HEIGHT, class: typeClass(types, tensor.type) }, shape("title", {}, about));
    x += width;
    return rect;
  });
  return shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", class: "layer-bar", "aria-hidden": "true" }, ...shown);
}

function tensorTable(tensors) {
  const row = (tensor) => element(
    "tr", {}, element("td", {}, element("code", {}, tensor.name)), element("td", { class: "number" }, `[${tensor.shape.join(", ")}]`),
    element("td", {}, tensor.type), element("td", { class: "number" }, readableBytes(tensor.bytes)),
  );
  const heads = ["Tensor", "Shape", "Type", "Bytes"].map((text) => element("th", { scope: "col" }, text));
  return element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Tensors" }, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...tensors.map(row))));
}

/** The map of a model: `{ layers, tensors }`. */
export function layerMap({ layers, tensors }) {
  const sum = (list) => list.reduce((bytes, tensor) => bytes + tensor.bytes, 0);
  const byType = new Map();
  for (const tensor of tensors) byType.set(tensor.type, (byType.get(tensor.type) ?? 0) + tensor.bytes);
  const types = [...byType.keys()].sort((a, b) => byType.get(b) - byType.get(a));
  const kinds = new Map(layers.map((layer) => [layer.index, [layer.mixer, layer.feed_forward].filter(Boolean).join(" + ")]));
  const indices = [...new Set(tensors.map((tensor) => tensor.layer))].sort((a, b) => (a ?? -1) - (b ?? -1));
  const rows = indices.map((index) => ({ index, own: tensors.filter((tensor) => tensor.layer === index) }));
  const blocks = rows.filter((row) => row.index !== null);
  const largest = Math.max(...blocks.map((row) => sum(row.own)), 1);
  const shown = rows.map(({ index, own }) => {
    const bytes = sum(own);
    const name = index === null ? "whole model" : `layer ${index}`;
    const scale = index === null ? bytes : largest;
    const head = element(
      "summary", { class: "layer" }, element("span", { class: "layer-name" }, name), element("span", { class: "layer-kind" }, index === null ? "embedding, head" : (kinds.get(index) ?? "")),
      bar(own, scale, types), element("span", { class: "number" }, readableBytes(bytes)),
    );
    return element("details", {}, head, tensorTable(own));
  });
  const legend = types.map((type) => element("span", { class: "key" }, shape("svg", { viewBox: "0 0 10 10", width: "12", height: "12", "aria-hidden": "true" }, shape("rect", { width: 10, height: 10, class: typeClass(types, type) })), ` ${type} ${readableBytes(byType.get(type))}`));
  return element("div", { class: "layers" }, element("p", { class: "legend" }, ...legend), ...shown);
}
