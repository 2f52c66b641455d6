// The logit lens: what each layer of a model would predict after each token of a text.

import { announce, button, element, failure, labeled } from "/page/element.js";
import { lensGrid } from "/page/lens_grid.js";
import { ask } from "/page/server.js";

const KEPT = "menagerie.lens";
const EXAMPLE = "The capital of France is Paris. The capital of Italy is";

/** The most tokens of a prompt that are read at once. */
const LAST = 48;
const TOP = 5;
const MOST_ANSWER = 64;

/** The conversation of the chat whose layers are read. */
const handed = { body: null };

/** Reads the layers of a conversation: `{ model, messages, .. }`, fields of a chat completion. */
export function readConversation(body) {
  handed.body = body;
  location.hash = "#lens/conversation";
}

function kept() {
  try {
    return { text: EXAMPLE, form: "text", answer: 4, ...JSON.parse(localStorage.getItem(KEPT) ?? "{}") };
  } catch {
    return { text: EXAMPLE, form: "text", answer: 4 };
  }
}

export class LensView {
  async mount(main, [kind]) {
    this.given = kind === "conversation" ? handed.body : null;
    if (this.given) return this.conversation(main);
    const { models } = await ask("/page/state");
    // What a model that is not in memory can do is not known (null).
    const known = models.filter((model) => model.completions !== false);
    this.asked = kept();
    const choices = known.map((model) => element("option", { value: model.id, selected: model.id === this.asked.model }, model.id));
    this.model = element("select", { id: "lens-model" }, ...choices);
    this.text = element("textarea", { id: "lens-text", rows: "3", value: this.asked.text });
    const forms = [["text", "plain text"], ["message", "a message, with the chat template"]];
    this.form = element("select", {}, ...forms.map(([value, label]) => element("option", { value, selected: value === this.asked.form }, label)));
    this.answer = element("input", { type: "number", min: "0", max: String(MOST_ANSWER), value: this.asked.answer });
    this.read = button("Read the layers", () => this.begin(), { class: "main", id: "lens-read" });
    this.stop = button("Stop", () => this.request?.abort(), { hidden: true });
    this.result = element("div", { id: "lens-result" });
    main.replaceChildren(element(
      "div", { class: "view" }, element("h1", {}, "Lens"),
      element("p", {}, "A logit lens shows what each layer of a model would predict if it were the last one: the rows after the layer go through the model\u2019s own final norm and head. The last layer is the prediction of the model."),
      labeled("Text", this.text),
      element("div", { class: "lens-fields" }, labeled("Model", this.model), labeled("Form", this.form), labeled("Tokens of an answer", this.answer, `0 to ${MOST_ANSWER}, the most likely ones`)),
      element("p", { class: "actions" }, this.read, this.stop), this.result,
    ));
    if (!known.length) this.result.replaceChildren(failure("No model of this server generates text."));
  }

  /** The tokens of a conversation, the last of which are those of its last answer. */
  async conversation(main) {
    this.stop = button("Stop", () => this.request?.abort(), { hidden: true });
    this.read = button("Read again", () => this.begin(), { id: "lens-read" });
    this.result = element("div", { id: "lens-result" });
    main.replaceChildren(element(
      "div", { class: "view" }, element("h1", {}, "Lens"),
      element("p", {}, "What each layer of ", element("code", {}, this.given.model), " would predict in the conversation, up to the end of the answer. ", element("a", { href: "#lens" }, "Read another text")),
      element("p", { class: "actions" }, this.read, this.stop), this.result,
    ));
    await this.begin();
  }

  unmount() {
    this.request?.abort();
  }

  async begin() {
    if (!this.given) {
      this.asked = { model: this.model.value, text: this.text.value, form: this.form.value, answer: this.answerTokens() };
      localStorage.setItem(KEPT, JSON.stringify(this.asked));
    }
    this.result.replaceChildren(element("p", { class: "empty", role: "status" }, "Computing"));
    const table = await this.computed({ max_tokens: this.given ? 0 : this.asked.answer, last: LAST });
    if (!table) return;
    this.rows = table.rows;
    this.promptTokens = table.prompt_tokens;
    this.show();
    announce(`${this.rows.length} tokens read`);
  }

  answerTokens() {
    return Math.min(MOST_ANSWER, Math.max(0, Math.trunc(Number(this.answer.value)) || 0));
  }

  /** Reads the tokens before those that are shown. */
  async earlier() {
    const table = await this.computed({ before: this.rows[0].position, last: LAST });
    if (!table) return;
    this.rows = [...table.rows, ...this.rows];
    this.show();
  }

  async computed(more) {
    const prompt = this.given ?? this.prompt();
    this.request?.abort();
    const own = new AbortController();
    this.request = own;
    this.read.disabled = true;
    this.stop.hidden = false;
    try {
      return await ask("/lens", { ...prompt, top: TOP, ...more }, own.signal);
    } catch (error) {
      const shown = error.name === "AbortError" ? element("p", { class: "soft", role: "status" }, "Stopped.") : failure(error);
      this.result.replaceChildren(shown);
      return null;
    } finally {
      if (this.request === own) {
        this.read.disabled = false;
        this.stop.hidden = true;
      }
    }
  }

  prompt() {
    const { model, text, form } = this.asked;
    return form === "message" ? { model, messages: [{ role: "user", content: text }] } : { model, prompt: text };
  }

  show() {
    const first = this.rows[0]?.position ?? 0;
    const earlier = first > 0 ? button(`Read earlier tokens (${first} more)`, () => this.earlier()) : null;
    this.result.replaceChildren(element("p", { class: "actions" }, earlier), lensGrid(this.rows, this.promptTokens));
  }
}
