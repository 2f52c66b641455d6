// The settings of a conversation: model, system prompt, sampling, tools.

import { element, labeled } from "/page/element.js";

/** The fields of sampling, with what they do. */
const VALUES = [
  ["temperature", "Temperature", "0 = greedy", 0.05],
  ["top_k", "Top k", "0 = off", 1],
  ["top_p", "Top p", "1 = off", 0.01],
  ["min_p", "Min p", "0 = off", 0.01],
  ["typical_p", "Typical p", "1 = off", 0.01],
  ["repeat_penalty", "Repeat penalty", "1 = off", 0.01],
  ["presence_penalty", "Presence penalty", "0 = off", 0.05],
  ["frequency_penalty", "Frequency penalty", "0 = off", 0.05],
  ["max_tokens", "Most tokens", "of an answer", 1],
];

const SIGNED = new Set(["presence_penalty", "frequency_penalty"]);

const EXAMPLE = `[{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]`;

function defaultText(value) {
  if (value === null || value === undefined) return "none";
  return String(Math.round(value * 1e6) / 1e6);
}

function isList(text) {
  try {
    return text.trim() === "" || Array.isArray(JSON.parse(text));
  } catch {
    return false;
  }
}

function isObject(text) {
  try {
    const value = text.trim() === "" ? {} : JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

/** A field of text, with a check of what is typed. */
function textField(settings, name, rows, changed, check) {
  const field = element("textarea", { rows: String(rows), value: settings[name], spellcheck: name === "system" ? null : "false" });
  field.addEventListener("input", () => {
    settings[name] = field.value;
    const fault = check?.(field.value) ?? "";
    field.setCustomValidity(fault);
    field.setAttribute("aria-invalid", String(fault !== ""));
    changed();
  });
  return field;
}

/** The panel with the settings; `changed` keeps them. */
export function settingsPanel(settings, models, changed) {
  // What a model that is not in memory can do is not known (null).
  const chatModels = models.filter((model) => model.chat !== false);
  const choices = chatModels.map((model) => element("option", { value: model.id, selected: model.id === settings.model }, model.id));
  const model = element("select", {}, ...choices);
  const values = element("div", { class: "grid" });
  const showValues = () => {
    const defaults = models.find((one) => one.id === settings.model)?.defaults ?? {};
    values.replaceChildren(...VALUES.map((value) => valueField(value, settings, defaults, changed)), seedField(settings, changed));
  };
  model.addEventListener("change", () => {
    settings.model = model.value;
    showValues();
    changed();
  });
  showValues();
  const alternatives = element("input", { type: "number", min: "0", max: "20", value: settings.alternatives });
  alternatives.addEventListener("input", () => {
    settings.alternatives = Math.min(20, Math.max(0, Number(alternatives.value) || 0));
    changed();
  });
  const tools = textField(settings, "tools", 5, changed, (text) => (isList(text) ? "" : "not a list in JSON"));
  tools.placeholder = EXAMPLE;
  const choice = element("select", {}, ...["auto", "required", "none"].map((value) => element("option", { value, selected: value === settings.choice }, value)));
  choice.addEventListener("change", () => {
    settings.choice = choice.value;
    changed();
  });
  const variables = textField(settings, "variables", 2, changed, (text) => (isObject(text) ? "" : "not an object in JSON"));
  variables.placeholder = `{"enable_thinking": false}`;
  return element(
    "div", { class: "settings" },
    labeled("Model", model),
    labeled("System prompt", textField(settings, "system", 3, changed)),
    element("details", { open: true }, element("summary", {}, "Sampling"), values),
    element(
      "details", { open: settings.tools !== "" }, element("summary", {}, "Tools"),
      labeled("Tools in JSON", tools, "A list as in a request. You type the results of the calls."),
      labeled("Calls", choice, "auto = the model decides."),
    ),
    element(
      "details", {}, element("summary", {}, "More"),
      labeled("Stop strings", textField(settings, "stop", 2, changed), "One per line."),
      labeled("Variables of the template", variables, "An object in JSON."),
      labeled("Alternatives of each token", alternatives, "0 = none; up to 20."),
    ),
  );
}

function valueField([name, label, hint, step], settings, defaults, changed) {
  const field = element("input", { type: "number", step: "any", value: settings.values[name] ?? "", placeholder: defaultText(defaults[name]), min: SIGNED.has(name) ? null : "0" });
  if (step === 1) field.step = "1";
  field.addEventListener("input", () => {
    if (field.value === "") delete settings.values[name];
    else settings.values[name] = Number(field.value);
    changed();
  });
  return labeled(label, field, hint);
}

function seedField(settings, changed) {
  const field = element("input", { inputmode: "numeric", pattern: "[0-9]*", value: settings.seed, placeholder: "new for each answer" });
  field.addEventListener("input", () => {
    const isWhole = /^[0-9]*$/.test(field.value) && Number(field.value) <= Number.MAX_SAFE_INTEGER;
    field.setAttribute("aria-invalid", String(!isWhole));
    if (isWhole) settings.seed = field.value;
    changed();
  });
  return labeled("Seed", field, "same seed, same answer");
}
