// An answer of the model: its request, and the stream that becomes a message.

import { requestMessages } from "/page/conversation.js";
import { stream } from "/page/server.js";

const encoder = new TextEncoder();

/** A number below 2^32: every seed that the page chooses can be typed and read. */
function randomSeed() {
  return crypto.getRandomValues(new Uint32Array(1))[0];
}

function parsed(name, text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${name}: ${error.message}`);
  }
}

/** The fields of a request, without its messages. */
export function requestFields(settings) {
  const fields = { model: settings.model, ...settings.values };
  fields.seed = settings.seed === "" ? randomSeed() : Number(settings.seed);
  const stop = settings.stop.split("\n").filter((line) => line !== "");
  if (stop.length) fields.stop = stop;
  if (settings.tools.trim()) fields.tools = parsed("Tools", settings.tools);
  if (fields.tools && settings.choice !== "auto") fields.tool_choice = settings.choice;
  if (settings.variables.trim()) fields.chat_template_kwargs = parsed("Variables of the template", settings.variables);
  if (settings.alternatives > 0) Object.assign(fields, { logprobs: true, top_logprobs: settings.alternatives });
  return fields;
}

/** The messages of the request whose answer a message is. */
export function messagesBefore(conversation, message) {
  const path = message.parent === null ? [] : conversation.pathTo(message.parent);
  const messages = requestMessages(message.system ?? conversation.settings.system, path);
  if (message.prefix === undefined) return messages;
  const begun = { role: "assistant", content: message.prefix };
  if (message.thought) begun.reasoning_content = message.thought;
  return [...messages, begun];
}

/** The whole request whose answer a message is. */
export function requestOf(conversation, message) {
  const body = { ...message.request, messages: messagesBefore(conversation, message) };
  if (message.prefix !== undefined) Object.assign(body, { continue_final_message: true, add_generation_prompt: false });
  return body;
}

function tokenOf(token) {
  const made = { text: token.token, logprob: token.logprob };
  if (token.bytes === null) made.control = true;
  else if (token.token.includes("\ufffd")) made.bytes = token.bytes;
  return made;
}

/** The bytes that a token adds to the text. */
export function bytesOf(token) {
  if (token.control) return new Uint8Array();
  return token.bytes ? Uint8Array.from(token.bytes) : encoder.encode(token.text);
}

/** The text of tokens; a character that is not complete is left out. */
export function textOf(tokens) {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  return tokens.map((token) => decoder.decode(bytesOf(token), { stream: true })).join("");
}

/** Whether a call was not cut off. */
function isComplete(call) {
  try {
    return JSON.parse(call.arguments) !== null;
  } catch {
    return false;
  }
}

/** An answer that is being generated. */
export class Answer {
  /** `message` is empty, and its fields `request` and `parent` are set; `changed` is called after each change. */
  constructor(conversation, message, changed) {
    this.conversation = conversation;
    this.message = message;
    this.changed = changed;
    this.controller = new AbortController();
  }

  stop() {
    this.controller.abort();
  }

  /** Generates it; errors are in the message. */
  async run() {
    const { message } = this;
    Object.assign(message, { role: "assistant", content: message.prefix ?? "", reasoning: message.thought ?? "", calls: [], tokens: [] });
    const start = performance.now();
    try {
      for await (const chunk of stream("/v1/chat/completions", requestOf(this.conversation, message), this.controller.signal)) {
        message.first ??= performance.now() - start;
        this.add(chunk);
        this.changed();
      }
    } catch (error) {
      if (error.name === "AbortError") message.finish = "stopped";
      else message.error = error.message;
    }
    message.seconds = (performance.now() - start) / 1000;
    message.calls = message.calls.filter((call) => isComplete(call));
    this.changed();
  }

  add(chunk) {
    const { message } = this;
    if (chunk.usage) message.usage = chunk.usage;
    const choice = chunk.choices[0];
    if (!choice) return;
    message.content += choice.delta.content ?? "";
    message.reasoning += choice.delta.reasoning_content ?? "";
    for (const call of choice.delta.tool_calls ?? []) {
      const known = (message.calls[call.index] ??= { id: call.id, name: call.function.name, arguments: "" });
      known.arguments += call.function.arguments ?? "";
    }
    for (const token of choice.logprobs?.content ?? []) {
      message.tokens.push({ ...tokenOf(token), others: token.top_logprobs.map(tokenOf) });
    }
    if (choice.finish_reason) message.finish = choice.finish_reason;
  }
}
