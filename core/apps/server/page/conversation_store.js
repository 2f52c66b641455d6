// Conversations in the storage of the browser, and as files.

import { Conversation, newId } from "/page/conversation.js";

const PREFIX = "menagerie.conversation.";
const FORMAT = "menagerie-conversations";
const ROLES = ["system", "user", "assistant", "tool"];

/** All conversations, the last one first. */
export function allConversations() {
  const all = [];
  for (let at = 0; at < localStorage.length; at += 1) {
    const name = localStorage.key(at);
    if (!name.startsWith(PREFIX)) continue;
    try {
      all.push(new Conversation(checkedConversation(JSON.parse(localStorage.getItem(name)))));
    } catch {
      // Another version of the page may have written it: it stays where it is.
    }
  }
  return all.sort((a, b) => b.changed - a.changed);
}

/** Keeps a conversation. If there is no room, log probabilities are left out. */
export function keep(conversation) {
  const data = conversation.data();
  try {
    localStorage.setItem(PREFIX + conversation.id, JSON.stringify(data));
  } catch {
    const without = (name, value) => (name === "tokens" ? undefined : value);
    try {
      localStorage.setItem(PREFIX + conversation.id, JSON.stringify(data, without));
    } catch {
      throw new Error("The browser has no room for this conversation: export it, and delete others.");
    }
  }
}

export function forget(conversation) {
  localStorage.removeItem(PREFIX + conversation.id);
}

/** Conversations as the text of a file. */
export function exported(conversations) {
  return JSON.stringify({ format: FORMAT, version: 1, conversations: conversations.map((one) => one.data()) }, null, 1);
}

/** The conversations of a file. Those of this browser with the same id stay as they are. */
export function imported(text) {
  let file;
  try {
    file = JSON.parse(text);
  } catch (error) {
    throw new Error(`the file is not JSON: ${error.message}`);
  }
  if (file?.format !== FORMAT || file.version !== 1 || !Array.isArray(file.conversations)) {
    throw new Error(`the file is not an export of conversations: its format is not ${FORMAT}, version 1`);
  }
  const known = new Set(allConversations().map((one) => one.id));
  return file.conversations.map((content, at) => {
    try {
      const conversation = new Conversation(checkedConversation(content));
      if (known.has(conversation.id)) conversation.id = newId();
      return conversation;
    } catch (error) {
      throw new Error(`conversation ${at + 1} of the file: ${error.message}`);
    }
  });
}

/** Refuses what is not a conversation. */
function checkedConversation(content) {
  const wrong = (what) => new Error(`${what} is missing or wrong`);
  if (typeof content?.id !== "string" || typeof content.title !== "string") throw wrong("id or title");
  if (typeof content.messages !== "object" || content.messages === null) throw wrong("messages");
  if (typeof (content.settings ?? {}) !== "object") throw wrong("settings");
  for (const [id, message] of Object.entries(content.messages)) {
    if (message?.id !== id || typeof message.content !== "string") throw wrong(`the message ${id}`);
    if (!ROLES.includes(message.role)) throw wrong(`the role of the message ${id}`);
    if (message.parent !== null && !Object.hasOwn(content.messages, message.parent)) throw wrong(`the parent of the message ${id}`);
    let steps = 0;
    for (let at = message; at; at = content.messages[at.parent]) {
      steps += 1;
      if (steps > Object.keys(content.messages).length) throw new Error(`the message ${id} is its own parent`);
    }
  }
  return content;
}
