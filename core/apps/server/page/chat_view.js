// The chat: conversations, their messages, and the field for the next one.

import { Answer, messagesBefore, requestFields } from "/page/answer.js";
import { Conversation } from "/page/conversation.js";
import { allConversations, exported, forget, imported, keep } from "/page/conversation_store.js";
import { announce, button, element, failure } from "/page/element.js";
import { readConversation } from "/page/lens_view.js";
import { MessageView } from "/page/message_view.js";
import { ask } from "/page/server.js";
import { settingsPanel } from "/page/settings_view.js";
import { promptTokens } from "/page/token_view.js";

const PAUSE = 400;

export class ChatView {
  constructor() {
    this.answer = null;
    this.views = new Map();
    this.list = element("ul", { class: "conversations" });
    this.log = element("div", { class: "log", role: "log", "aria-label": "Messages", "aria-live": "off" });
    this.settings = element("aside", { class: "panel", id: "settings", "aria-label": "Settings" });
    this.counter = element("span", { class: "soft", id: "counter" });
    this.draft = element("textarea", { id: "draft", rows: "2", placeholder: "Message", "aria-label": "Message" });
    this.send = element("button", { type: "submit", class: "main", id: "send" }, "Send");
    this.stopButton = button("Stop", () => this.answer?.stop(), { id: "stop", hidden: true });
    this.note = element("div", { class: "note" });
    this.draft.addEventListener("input", () => this.count());
    this.draft.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing && matchMedia("(hover: hover)").matches) {
        event.preventDefault();
        this.form.requestSubmit();
      }
    });
  }

  async mount(main) {
    main.replaceChildren(element("p", { class: "empty" }, "Loading"));
    this.state = await ask("/page/state");
    if (!main.isConnected) return;
    this.conversations = this.conversations ?? allConversations();
    this.build(main);
    const last = this.conversation ?? this.conversations[0] ?? this.fresh();
    this.open(last);
  }

  build(main) {
    this.form = element(
      "form", { class: "composer", onsubmit: (event) => this.submit(event) }, this.note, this.draft,
      element("div", { class: "row" }, this.counter, element("span", { class: "actions" }, button("Prompt", () => this.showPrompt(null), { class: "quiet" }), this.stopButton, this.send)),
    );
    const file = element("input", { type: "file", accept: "application/json,.json", class: "hidden", tabindex: "-1", "aria-label": "File to import", id: "import-file" });
    file.addEventListener("change", () => this.import(file));
    const side = element(
      "aside", { class: "panel side", id: "side", "aria-label": "Conversations" },
      element(
        "div", { class: "actions" }, button("New", () => this.open(this.fresh()), { id: "new" }), button("Import", () => file.click()),
        button("Export", () => this.export()), file,
      ),
      this.list,
    );
    const toggles = element(
      "div", { class: "toggles" }, this.toggle("Conversations", "side"), this.toggle("Settings", "settings"),
    );
    main.replaceChildren(element("h1", { class: "hidden" }, "Chat"), element("div", { class: "chat" }, toggles, side, element("section", { class: "middle", "aria-label": "Conversation" }, this.log, this.form), this.settings));
    this.keys = (event) => event.key === "Escape" && this.answer && !document.querySelector("dialog[open]") && this.answer.stop();
    document.addEventListener("keydown", this.keys);
  }

  /** A button that shows a panel where there is no room for it. */
  toggle(label, id) {
    return button(label, (event) => {
      const panel = document.getElementById(id);
      const isOpen = panel.classList.toggle("open");
      event.currentTarget.setAttribute("aria-expanded", String(isOpen));
    }, { "aria-controls": id, "aria-expanded": "false" });
  }

  unmount() {
    document.removeEventListener("keydown", this.keys);
  }

  /** A new conversation, or the one that is still empty. */
  fresh() {
    const empty = this.conversations.find((one) => Object.keys(one.messages).length === 0);
    if (empty) return empty;
    const conversation = new Conversation();
    const like = this.conversation?.settings;
    if (like) conversation.settings = structuredClone(like);
    this.conversations.unshift(conversation);
    return conversation;
  }

  /** Shows a conversation. */
  open(conversation) {
    if (this.answer) return;
    this.conversation = conversation;
    document.getElementById("side")?.classList.remove("open");
    const models = this.state.models;
    const { settings } = conversation;
    if (!models.some((model) => model.id === settings.model && model.chat !== false)) settings.model = models.find((model) => model.chat !== false)?.id ?? "";
    this.settings.replaceChildren(element("h2", {}, "Settings"), settingsPanel(settings, models, () => this.save()));
    this.note.replaceChildren(...(settings.model ? [] : [failure("No model of this server has a chat template.")]));
    this.render();
  }

  save() {
    if (Object.keys(this.conversation.messages).length) this.keep(this.conversation);
    this.count();
  }

  keep(conversation) {
    try {
      keep(conversation);
    } catch (error) {
      this.note.replaceChildren(failure(error));
    }
  }

  renderList() {
    const entry = (one) => {
      const title = one.title || "New conversation";
      const remove = () => {
        if (this.answer || !confirm(`Delete "${title}"?`)) return;
        forget(one);
        this.conversations = this.conversations.filter((other) => other !== one);
        if (one === this.conversation) this.open(this.conversations[0] ?? this.fresh());
        else this.renderList();
      };
      return element(
        "li", {}, button(title, () => this.open(one), { class: "title", "aria-current": one === this.conversation ? "true" : null }),
        button("\u00d7", remove, { class: "quiet", "aria-label": `Delete ${title}` }),
      );
    };
    this.list.replaceChildren(...this.conversations.map(entry));
  }

  /** Shows all messages of the path. */
  render() {
    this.renderList();
    const before = this.views;
    this.views = new Map();
    const nodes = this.conversation.path().map((message) => {
      const known = before.get(message.id);
      const view = known?.message === message ? known : new MessageView(message, this);
      this.views.set(message.id, view);
      if (view === known) view.update();
      return view.node;
    });
    const empty = element("p", { class: "empty" }, "Ask something. What you write stays in this browser and on this server.");
    this.log.replaceChildren(...(nodes.length ? nodes : [empty]));
    this.log.scrollTop = this.log.scrollHeight;
    this.count();
  }

  isRunning(message) {
    return this.answer?.message === message;
  }

  show(message) {
    this.conversation.choose(message);
    this.save();
    this.render();
  }

  submit(event) {
    event.preventDefault();
    const text = this.draft.value;
    if (this.answer || text.trim() === "") return;
    const last = this.conversation.path().at(-1) ?? null;
    const asked = this.conversation.add(last?.id ?? null, { role: "user", content: text });
    this.draft.value = "";
    this.generate(asked.id, {});
  }

  /** Generates an answer behind a message. */
  async generate(parent, more) {
    const { conversation } = this;
    let request;
    try {
      request = more.request ?? requestFields(conversation.settings);
    } catch (error) {
      this.render();
      this.note.replaceChildren(failure(error));
      return;
    }
    this.note.replaceChildren();
    const message = conversation.add(parent, { role: "assistant", request, system: conversation.settings.system, ...more });
    this.answer = new Answer(conversation, message, () => this.streamed());
    this.setRunning(true);
    this.said = 0;
    this.render();
    announce("The answer begins.");
    await this.answer.run();
    this.answer = null;
    this.setRunning(false);
    this.say(message, true);
    conversation.changed = Date.now();
    this.keep(conversation);
    this.render();
    if (document.activeElement === document.body) this.draft.focus();
  }

  setRunning(isRunning) {
    this.stopButton.hidden = !isRunning;
    this.send.hidden = isRunning;
  }

  streamed() {
    const { message } = this.answer;
    const isAtEnd = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 80;
    if (!this.frame) {
      this.frame = requestAnimationFrame(() => {
        this.frame = null;
        this.views.get(message.id)?.update();
        if (isAtEnd) this.log.scrollTop = this.log.scrollHeight;
      });
    }
    this.say(message, false);
  }

  /** Reads the answer aloud to screen readers, sentence by sentence. */
  say(message, isComplete) {
    const rest = message.content.slice(this.said);
    const end = isComplete ? rest.length : Math.max(rest.lastIndexOf(". "), rest.lastIndexOf("\n")) + 1;
    if (end > 0 && rest.slice(0, end).trim()) announce(rest.slice(0, end));
    this.said += end;
    if (isComplete && message.error) announce(message.error);
  }

  retry(message) {
    this.generate(message.parent, message.prefix === undefined ? {} : { prefix: message.prefix, thought: message.thought });
  }

  /** Another answer that begins with a text. */
  continueFrom(message, prefix) {
    const more = { prefix };
    if (message.reasoning) more.thought = message.reasoning;
    this.generate(message.parent, more);
  }

  saveEdit(message, text) {
    if (message.role === "user") {
      const asked = this.conversation.add(message.parent, { role: "user", content: text });
      this.generate(asked.id, {});
      return;
    }
    const edited = { role: "assistant", content: text, reasoning: message.reasoning, calls: message.calls, finish: message.calls?.length ? "tool_calls" : "edited", system: message.system };
    this.conversation.add(message.parent, edited);
    this.save();
    this.render();
  }

  sendResults(message, results) {
    let parent = message.id;
    message.calls.forEach((call, at) => {
      parent = this.conversation.add(parent, { role: "tool", content: results[at], callId: call.id, name: call.name }).id;
    });
    this.generate(parent, {});
  }

  /** Sends the same request again and compares the answers. */
  async again(message, view) {
    const copy = { parent: message.parent, request: message.request, system: message.system };
    for (const name of ["prefix", "thought"]) if (message[name] !== undefined) copy[name] = message[name];
    message.same = "generating again \u2026";
    this.answer = new Answer(this.conversation, copy, () => {});
    this.setRunning(true);
    view.update();
    await this.answer.run();
    this.answer = null;
    this.setRunning(false);
    const shown = (one) => JSON.stringify([one.content, one.reasoning, one.calls?.map((call) => [call.name, call.arguments]), one.tokens?.map((token) => [token.text, token.logprob])]);
    if (copy.error) message.same = copy.error;
    else if (copy.finish === "stopped" || message.finish === "stopped") message.same = copy.content.startsWith(message.content) || message.content.startsWith(copy.content) ? "the same, as far as both go" : "different";
    else message.same = shown(copy) === shown(message) ? "again the same, bit for bit" : "different: please report it";
    announce(message.same);
    view.update();
    this.save();
  }

  /** Shows the prompt of an answer, or of the next one, as the model reads it. */
  async showPrompt(message) {
    const body = element("div", {}, element("p", {}, "Loading"));
    const close = button("Close", () => dialog.close(), { class: "main" });
    const dialog = element("dialog", { class: "large", "aria-label": "Prompt" }, element("h2", {}, "The prompt, as the model reads it"), body, element("p", { class: "actions" }, close));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
    try {
      const fields = message?.request ?? requestFields(this.conversation.settings);
      const asked = { model: fields.model, with_pieces: true, messages: this.promptMessages(message) };
      for (const name of ["tools", "chat_template_kwargs"]) if (fields[name]) asked[name] = fields[name];
      if (message?.prefix !== undefined) Object.assign(asked, { continue_final_message: true });
      const { tokens } = await ask("/apply-template", asked);
      body.replaceChildren(element("p", { class: "soft" }, `${tokens.length} tokens; outlined ones are control tokens, which no message can contain.`), promptTokens(tokens));
    } catch (error) {
      body.replaceChildren(failure(error));
    }
  }

  /** Shows what each layer would predict, up to the end of an answer. */
  showLayers(message) {
    const fields = message.request ?? requestFields(this.conversation.settings);
    const messages = messagesBefore(this.conversation, { role: "user", parent: message.id, content: "" });
    const asked = { model: fields.model, messages, continue_final_message: true, add_generation_prompt: false };
    for (const name of ["tools", "chat_template_kwargs"]) if (fields[name]) asked[name] = fields[name];
    readConversation(asked);
  }

  promptMessages(message) {
    if (message) return messagesBefore(this.conversation, message);
    const path = this.conversation.path();
    const next = { role: "user", parent: path.at(-1)?.id ?? null, content: this.draft.value };
    return [...messagesBefore(this.conversation, next), { role: "user", content: next.content }];
  }

  /** Counts the tokens of the conversation and of the draft. */
  count() {
    clearTimeout(this.counting);
    const model = this.state.models.find((one) => one.id === this.conversation.settings.model);
    const last = this.conversation.path().findLast((message) => message.usage);
    const before = last ? last.usage.total_tokens : 0;
    const show = (draft) => {
      const text = `${before + draft} of ${model?.context ?? "?"} tokens`;
      this.counter.textContent = draft ? `about ${text}` : text;
    };
    const content = this.draft.value;
    show(0);
    if (!content.trim() || !model) return;
    this.counting = setTimeout(async () => {
      const counted = await ask("/tokenize", { model: model.id, content }).catch(() => ({ tokens: [] }));
      if (this.draft.value === content) show(counted.tokens.length);
    }, PAUSE);
  }

  export() {
    const used = this.conversations.filter((one) => Object.keys(one.messages).length);
    const address = URL.createObjectURL(new Blob([exported(used)], { type: "application/json" }));
    element("a", { href: address, download: "conversations.json" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  async import(file) {
    try {
      const added = imported(await file.files[0].text());
      added.forEach(keep);
      this.conversations.unshift(...added);
      this.note.replaceChildren();
      if (added.length) this.open(added[0]);
      announce(`${added.length} conversations imported`);
    } catch (error) {
      this.note.replaceChildren(failure(error));
    }
    file.value = "";
  }
}
