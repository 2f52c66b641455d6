// A conversation is a tree of messages: an edited message and another answer are branches beside the first one.

export function newId() {
  return [...crypto.getRandomValues(new Uint8Array(9))].map((byte) => byte.toString(36).padStart(2, "0")).join("");
}

/** The settings of a new conversation. */
export function newSettings() {
  return { model: "", system: "", tools: "", choice: "auto", variables: "", values: {}, seed: "", stop: "", alternatives: 5 };
}

export class Conversation {
  constructor(content = {}) {
    this.id = content.id ?? newId();
    this.title = content.title ?? "";
    this.changed = content.changed ?? Date.now();
    this.settings = { ...newSettings(), ...content.settings };
    /** Messages by id; each has the id of its parent, or null. */
    this.messages = content.messages ?? {};
    /** By the id of a parent ("" = none) the branch that is shown. */
    this.chosen = content.chosen ?? {};
  }

  /** The branches behind a message, in their order. */
  branches(parent) {
    return Object.values(this.messages).filter((message) => message.parent === parent);
  }

  /** The messages that are shown. */
  path() {
    const path = [];
    for (let parent = null; ; ) {
      const branches = this.branches(parent);
      if (branches.length === 0) return path;
      const chosen = branches.find((message) => message.id === this.chosen[parent ?? ""]);
      const message = chosen ?? branches[branches.length - 1];
      path.push(message);
      parent = message.id;
    }
  }

  /** The messages up to one. */
  pathTo(id) {
    const path = [];
    for (let message = this.messages[id]; message; message = this.messages[message.parent]) path.unshift(message);
    return path;
  }

  /** Adds a message behind another one, and shows it. */
  add(parent, message) {
    const added = { id: newId(), parent, content: "", ...message };
    this.messages[added.id] = added;
    this.choose(added);
    if (!this.title && added.role === "user") this.title = added.content.trim().split("\n")[0].slice(0, 60);
    return added;
  }

  /** Shows the branch of a message. */
  choose(message) {
    this.chosen[message.parent ?? ""] = message.id;
    this.changed = Date.now();
  }

  /** Removes a message and what follows it. */
  remove(message) {
    this.branches(message.id).forEach((branch) => this.remove(branch));
    delete this.messages[message.id];
    delete this.chosen[message.id];
    if (this.chosen[message.parent ?? ""] === message.id) delete this.chosen[message.parent ?? ""];
    this.changed = Date.now();
  }

  /** Its content as plain data. */
  data() {
    const { id, title, changed, settings, messages, chosen } = this;
    return { id, title, changed, settings, messages, chosen };
  }
}

/** Messages as a request has them. */
export function requestMessages(system, path) {
  const messages = path.map((message) => {
    const { role, content, reasoning, calls, callId, name } = message;
    const sent = { role, content };
    if (reasoning) sent.reasoning_content = reasoning;
    if (calls?.length) sent.tool_calls = calls.map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments || "{}" } }));
    if (callId) sent.tool_call_id = callId;
    if (name) sent.name = name;
    return sent;
  });
  return system.trim() ? [{ role: "system", content: system }, ...messages] : messages;
}
