// Small plots of numbers over time.

import { element, shape } from "/page/element.js";

const WIDTH = 240;
const HEIGHT = 56;

/** A plot of values, the last one on the right; `most` values fit. */
export function plot(title, unit, values, most) {
  const last = values.at(-1) ?? 0;
  const top = Math.max(...values, 1e-9);
  const x = (at) => WIDTH - ((values.length - 1 - at) / (most - 1)) * WIDTH;
  const y = (value) => HEIGHT - 3 - (value / top) * (HEIGHT - 8);
  const points = values.map((value, at) => `${x(at).toFixed(1)} ${y(value).toFixed(1)}`);
  const area = points.length > 1 ? `M${x(0).toFixed(1)} ${HEIGHT}L${points.join("L")}L${WIDTH} ${HEIGHT}Z` : "";
  const drawing = shape(
    "svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plot", preserveAspectRatio: "none", role: "img", "aria-label": `${title}: now ${readable(last)} ${unit}, at most ${readable(top)}` },
    shape("path", { d: area, class: "plot-area" }), shape("path", { d: points.length > 1 ? `M${points.join("L")}` : "", class: "plot-line" }),
  );
  return element("div", { class: "card" }, element("h3", {}, title), element("p", { class: "large-number" }, readable(last), element("small", {}, ` ${unit}`)), drawing, element("p", { class: "soft" }, `at most ${readable(top < 1e-6 ? 0 : top)}`));
}

/** A number for people. */
export function readable(value) {
  if (value >= 1e6) return `${(value / 1e6).toFixed(2)} M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  return value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(1);
}
