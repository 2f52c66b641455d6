// Elements of the document. Text is always set as text.

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** An element: `element("button", { class: "main", onclick: save }, "Save")`. */
export function element(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An element of a drawing. */
export function shape(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** A button. */
export function button(label, onclick, attributes) {
  return element("button", { type: "button", onclick, ...attributes }, label);
}

let fields = 0;

/** A label with its field. */
export function labeled(label, field, hint) {
  fields += 1;
  field.id ||= `field-${fields}`;
  const about = hint ? element("small", { id: `${field.id}-hint` }, hint) : null;
  if (about) field.setAttribute("aria-describedby", about.id);
  return element("div", { class: "field" }, element("label", { for: field.id }, label), field, about);
}

/** An error, which is read aloud. */
export function failure(error) {
  return element("p", { class: "failure", role: "alert" }, String(error?.message ?? error));
}

/** Says something to screen readers. */
export function announce(text) {
  const live = document.getElementById("live");
  live.append(element("p", {}, text));
  while (live.children.length > 12) live.firstChild.remove();
}

/** Bytes for people. */
export function readableBytes(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit + 1 < units.length) {
    bytes /= 1024;
    unit += 1;
  }
  return `${unit && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
}
