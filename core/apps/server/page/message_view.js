// A message of a conversation.

import { button, element } from "/page/element.js";
import { MarkdownView } from "/page/markdown.js";
import { answerTokens } from "/page/token_view.js";

const NAMES = { user: "You", assistant: "Answer", tool: "Result", system: "System" };

const ENDS = {
  length: "cut: no more tokens are allowed",
  stopped: "stopped",
  tool_calls: "calls tools",
};

/** A message with its buttons. `chat` does what they ask for. */
export class MessageView {
  constructor(message, chat) {
    this.message = message;
    this.chat = chat;
    this.markdown = message.role === "assistant" ? new MarkdownView() : null;
    this.head = element("div", { class: "message-head" });
    this.thought = element("details", { class: "reasoning" }, element("summary", {}, "Reasoning"), element("div", { class: "plain" }));
    this.body = element("div", { class: "message-body" });
    this.calls = element("div", { class: "calls" });
    this.foot = element("div", { class: "message-foot" });
    this.extra = element("div", {});
    const label = `${NAMES[message.role] ?? message.role}`;
    this.node = element("article", { class: `message ${message.role}`, "aria-label": label }, this.head, this.thought, this.body, this.calls, this.extra, this.foot);
    this.update();
  }

  /** Shows what the message has now. */
  update() {
    const { message } = this;
    this.isRunning = this.chat.isRunning(message);
    this.node.setAttribute("aria-busy", String(this.isRunning));
    this.thought.hidden = !message.reasoning;
    this.thought.lastChild.textContent = message.reasoning ?? "";
    this.thought.firstChild.textContent = this.isRunning && !message.content ? "Reasoning \u2026" : "Reasoning";
    if (this.markdown) {
      this.markdown.update(message.content);
      if (this.body.firstChild !== this.markdown.node) this.body.replaceChildren(this.markdown.node);
    } else {
      this.body.replaceChildren(element("div", { class: "plain" }, message.content));
    }
    this.body.classList.toggle("waiting", this.isRunning && !message.content);
    this.showHead();
    this.showCalls();
    this.showFoot();
  }

  showHead() {
    const { message, chat } = this;
    const title = element("strong", {}, NAMES[message.role] ?? message.role);
    const name = message.role === "assistant" ? message.request?.model : message.name;
    const branches = chat.conversation.branches(message.parent);
    const at = branches.indexOf(message);
    const go = (step) => () => chat.show(branches[at + step]);
    const is = chat.answer !== null;
    const switcher = branches.length < 2 ? null : element(
      "span", { class: "branches", role: "group", "aria-label": "Branches" },
      button("\u2039", go(-1), { class: "quiet", "aria-label": "Branch before", disabled: is || at === 0 }),
      element("span", {}, `${at + 1} of ${branches.length}`),
      button("\u203a", go(1), { class: "quiet", "aria-label": "Branch after", disabled: is || at + 1 === branches.length }),
    );
    this.head.replaceChildren(title, ...(name ? [element("span", { class: "soft" }, name)] : []), ...(switcher ? [switcher] : []));
  }

  showCalls() {
    const { message, chat } = this;
    const calls = (message.calls ?? []).map((call) => {
      let shown = call.arguments;
      try {
        shown = JSON.stringify(JSON.parse(call.arguments), null, 1);
      } catch {
        // It is not complete yet.
      }
      return element("div", { class: "call" }, element("div", {}, "Calls ", element("code", {}, call.name)), element("pre", { tabindex: "0" }, shown));
    });
    const isOpen = calls.length > 0 && chat.conversation.branches(message.id).length === 0 && !this.isRunning;
    if (isOpen && this.calls.querySelector("form")) return;
    this.calls.replaceChildren(...calls, ...(isOpen ? [this.resultForm()] : []));
  }

  /** Fields for the results of the calls. */
  resultForm() {
    const fields = this.message.calls.map((call) => element("textarea", { rows: "2", "aria-label": `Result of ${call.name}`, placeholder: `Result of ${call.name}` }));
    const submit = (event) => {
      event.preventDefault();
      this.chat.sendResults(this.message, fields.map((field) => field.value));
    };
    return element("form", { onsubmit: submit }, ...fields, element("button", { type: "submit", class: "main" }, "Send the result"));
  }

  showFoot() {
    const { message, chat } = this;
    if (this.isRunning) return this.foot.replaceChildren();
    const actions = [];
    if (message.role === "assistant") {
      actions.push(button("Retry", () => chat.retry(message)));
      actions.push(button("Edit", () => this.edit()));
      if (!message.calls?.length && message.content) actions.push(button("Continue", () => chat.continueFrom(message, message.content)));
      if (message.tokens?.length) actions.push(button("Tokens", (event) => this.toggleTokens(event.currentTarget), { "aria-expanded": String(this.body.hidden) }));
      if (message.request && message.finish && !message.error) actions.push(button("Again, bit for bit", () => chat.again(message, this)));
      actions.push(button("Prompt", () => chat.showPrompt(message)));
      if (message.content) actions.push(button("Layers", () => chat.showLayers(message)));
    } else if (message.role === "user") {
      actions.push(button("Edit", () => this.edit()));
    }
    if (message.content) actions.push(button("Copy", () => navigator.clipboard?.writeText(message.content)));
    for (const action of actions) {
      action.classList.add("quiet");
      action.disabled = chat.answer !== null;
    }
    this.foot.replaceChildren(element("span", { class: "actions" }, ...actions), element("span", { class: "soft" }, this.facts()));
    if (message.error) this.foot.prepend(element("p", { class: "failure", role: "alert" }, message.error));
  }

  facts() {
    const { usage, request, seconds, first, finish } = this.message;
    const facts = [];
    if (usage) {
      const made = usage.completion_tokens;
      const rate = made > 1 && seconds - first / 1000 > 0.05 ? (made - 1) / (seconds - first / 1000) : 0;
      facts.push(`${usage.prompt_tokens} + ${made} tokens`);
      if (rate) facts.push(`${rate.toFixed(1)} tokens/s`);
    }
    if (request) facts.push(`seed ${request.seed}`);
    if (ENDS[finish]) facts.push(ENDS[finish]);
    if (this.message.same) facts.push(this.message.same);
    return facts.join(" \u00b7 ");
  }

  /** Shows the tokens instead of the text, or the text again. */
  toggleTokens(toggle) {
    const isShown = this.body.hidden;
    toggle.setAttribute("aria-expanded", String(!isShown));
    this.body.hidden = !isShown;
    const choose = (prefix) => this.chat.continueFrom(this.message, prefix);
    this.extra.replaceChildren(...(isShown ? [] : [answerTokens(this.message, choose)]));
  }

  /** Edits the text; the edited message is a branch. */
  edit() {
    const { message, chat } = this;
    const field = element("textarea", { rows: "4", "aria-label": "Text of the message", value: message.content });
    const close = () => {
      this.body.hidden = false;
      this.extra.replaceChildren();
      this.foot.hidden = false;
    };
    const save = (event) => {
      event.preventDefault();
      close();
      chat.saveEdit(message, field.value);
    };
    const label = message.role === "user" ? "Send" : "Save";
    const form = element(
      "form", { class: "edit", onsubmit: save }, field,
      element("span", { class: "actions" }, element("button", { type: "submit", class: "main" }, label), button("Cancel", close)),
    );
    form.addEventListener("keydown", (event) => event.key === "Escape" && close());
    this.body.hidden = true;
    this.foot.hidden = true;
    this.extra.replaceChildren(form);
    field.focus();
  }
}
