// Tokens: of a prompt, and of an answer with their alternatives.

import { bytesOf, textOf } from "/page/answer.js";
import { button, element } from "/page/element.js";

const utf8 = new TextDecoder("utf-8");

/** The text of a token, in which white space can be seen. */
function visible(text) {
  return text.replaceAll("\n", "\u21b5\n").replaceAll("\t", "\u21e5\t");
}

function percent(logprob) {
  const share = Math.exp(logprob) * 100;
  return share >= 0.1 ? `${share.toFixed(1)} %` : `${share.toExponential(0)} %`;
}

/** How likely a token was, in five steps: a step has a color. */
function step(logprob) {
  return [0.9, 0.6, 0.3, 0.1].findIndex((bound) => Math.exp(logprob) >= bound) + 1 || 5;
}

/** The tokens of a prompt: `{ id, piece, control }`. */
export function promptTokens(tokens) {
  const shown = tokens.map(({ id, piece, control }, at) => {
    const text = typeof piece === "string" ? piece : utf8.decode(Uint8Array.from(piece));
    const kind = control ? "token control" : `token turn-${at % 2}`;
    return element("span", { class: kind, title: `token ${id}${control ? ", a control token" : ""}` }, visible(text));
  });
  return element("div", { class: "tokens", role: "group", "aria-label": "Tokens of the prompt" }, ...shown);
}

/** The tokens of an answer. `choose(prefix)` continues the answer from a text. */
export function answerTokens(message, choose) {
  const detail = element("div", { class: "alternatives", "aria-live": "polite" }, "Choose a token to see what else was likely.");
  const buttons = message.tokens.map((token, at) => {
    const show = (event) => {
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === event.currentTarget));
      detail.replaceChildren(...alternatives(message, at, choose));
    };
    const label = `${token.text}, ${percent(token.logprob)}`;
    const attributes = { class: `token likely-${step(token.logprob)}`, "aria-label": label, "aria-pressed": "false", title: percent(token.logprob) };
    return button(visible(token.text), show, attributes);
  });
  const given = message.prefix ? element("span", { class: "token given", title: "given" }, visible(message.prefix)) : null;
  const tokens = element("div", { class: "tokens", role: "group", "aria-label": "Tokens of the answer" }, given, ...buttons);
  return element("div", { class: "token-view" }, tokens, detail);
}

function alternatives(message, at, choose) {
  const token = message.tokens[at];
  const before = message.tokens.slice(0, at);
  const rows = token.others.map((other) => {
    const isTaken = other.text === token.text && String(bytesOf(other)) === String(bytesOf(token));
    const bar = element("meter", { min: "0", max: "1", value: Math.exp(other.logprob), "aria-hidden": "true" });
    const take = () => choose((message.prefix ?? "") + textOf([...before, other]));
    let action = isTaken ? "taken" : button("Continue from this one", take, { class: "quiet" });
    if (other.control) action = "would end the text";
    return element("tr", {}, element("td", {}, element("code", {}, visible(other.text))), element("td", { class: "number" }, percent(other.logprob)), element("td", {}, bar), element("td", {}, action));
  });
  const heads = ["Token", "Probability", "", ""].map((text) => element("th", { scope: "col" }, text));
  const caption = element("caption", {}, `Token ${at + 1}: what else was likely before sampling`);
  return [element("table", {}, caption, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows))];
}
