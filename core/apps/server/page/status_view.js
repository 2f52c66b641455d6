// The status: what the server does now, from its metrics.

import { element, failure } from "/page/element.js";
import { plot, readable } from "/page/plot.js";
import { askText } from "/page/server.js";

const PAUSE = 1000;
const MOST = 120;

/** The samples of a text of Prometheus: name, labels, value. */
function samples(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!match) continue;
    const labels = {};
    for (const [, name, value] of (match[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value;
    found.push({ name: match[1], labels, value: Number(match[3]) });
  }
  return found;
}

/** The numbers of one model. */
class ModelHistory {
  constructor() {
    this.times = [];
    this.read = {};
    this.series = { generated: [], prompt: [], running: [], waiting: [], cached: [] };
  }

  add(time, values) {
    const before = this.times.at(-1);
    const rate = (name) => (before === undefined ? 0 : Math.max(0, values[name] - this.read[name]) / (time - before));
    const add = (series, value) => {
      this.series[series].push(value);
      if (this.series[series].length > MOST) this.series[series].shift();
    };
    add("generated", rate("generated_tokens_total"));
    add("prompt", rate("prompt_tokens_total"));
    add("running", values.requests_running ?? 0);
    add("waiting", values.requests_waiting ?? 0);
    const pages = (values.pages_used ?? 0) + (values.pages_free ?? 0);
    add("cached", pages ? (100 * values.pages_used) / pages : 0);
    this.times.push(time);
    this.read = values;
  }
}

export class StatusView {
  constructor() {
    this.models = new Map();
  }

  async mount(main) {
    this.isShown = true;
    const place = element("div", {}, element("p", { class: "empty" }, "Loading"));
    main.replaceChildren(element("div", { class: "view" }, element("h1", {}, "Status"), place));
    this.loop(place);
  }

  unmount() {
    this.isShown = false;
    clearTimeout(this.timer);
  }

  async loop(place) {
    try {
      this.add(samples(await askText("/metrics")));
      if (this.isShown) place.replaceChildren(...this.shown());
    } catch (error) {
      place.replaceChildren(failure(error));
    }
    if (this.isShown) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.loop(place), PAUSE);
    }
  }

  add(all) {
    const byModel = new Map();
    for (const { name, labels, value } of all) {
      if (labels.model === undefined || !name.startsWith("menagerie_") || labels.le !== undefined) continue;
      const values = byModel.get(labels.model) ?? {};
      const short = name.slice("menagerie_".length);
      values[short] = (values[short] ?? 0) + value;
      byModel.set(labels.model, values);
    }
    const now = performance.now() / 1000;
    for (const [model, values] of byModel) {
      if (!this.models.has(model)) this.models.set(model, new ModelHistory());
      this.models.get(model).add(now, values);
    }
  }

  shown() {
    return [...this.models].flatMap(([model, { series, read }]) => {
      const share = read.prompt_tokens_total ? (100 * read.cached_tokens_total) / read.prompt_tokens_total : 0;
      const mean = (name) => (read[`${name}_count`] ? (1000 * read[`${name}_sum`]) / read[`${name}_count`] : 0);
      const facts = [
        ["Requests", readable(read.requests_total ?? 0)],
        ["Tokens generated", readable(read.generated_tokens_total ?? 0)],
        ["Tokens of prompts", `${readable(read.prompt_tokens_total ?? 0)}, ${share.toFixed(0)} % from the cache`],
        ["To the first token, mean", `${readable(mean("time_to_first_token_seconds"))} ms`],
        ["Between tokens, mean", `${readable(mean("time_between_tokens_seconds"))} ms`],
        ["Step, mean", `${readable(mean("step_seconds"))} ms`],
        ["Guesses that were right", `${readable(read.accepted_tokens_total ?? 0)} of ${readable(read.drafted_tokens_total ?? 0)}`],
        ["Preemptions", readable(read.preemptions_total ?? 0)],
      ];
      return [
        element("h2", {}, model),
        element(
          "div", { class: "cards plots" }, plot("Generation", "tokens/s", series.generated, MOST), plot("Prompts", "tokens/s", series.prompt, MOST),
          plot("Running", "requests", series.running, MOST), plot("Waiting", "requests", series.waiting, MOST), plot("Memory of states", "% of the pages", series.cached, MOST),
        ),
        element("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])),
      ];
    });
  }
}
