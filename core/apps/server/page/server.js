// Requests to the server of this page.

const KEY = "menagerie.key";

/** An error that the server answered. */
export class ServerFault extends Error {
  constructor(status, error) {
    super(error?.message ?? `the server answered with status ${status}`);
    this.status = status;
    this.code = error?.code ?? null;
  }
}

let asking = null;

/** Asks for the key, once for all requests that wait for it. */
function askForKey(wasWrong) {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("key-dialog");
    const input = document.getElementById("key");
    if (wasWrong) document.getElementById("key-reason").textContent = "The server does not know this key.";
    const submit = (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, input.value.trim());
      input.value = "";
      asking = null;
      dialog.close();
      resolve();
    };
    document.getElementById("key-form").addEventListener("submit", submit, { once: true });
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.showModal();
  });
  return asking;
}

async function send(path, body, signal) {
  for (;;) {
    const key = sessionStorage.getItem(KEY);
    const headers = {};
    if (body !== undefined) headers["content-type"] = "application/json";
    if (key) headers.authorization = `Bearer ${key}`;
    const text = body === undefined ? undefined : JSON.stringify(body);
    let response;
    try {
      response = await fetch(path, { method: text === undefined ? "GET" : "POST", headers, body: text, signal });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Error("the server does not answer; is it still running?");
    }
    if (response.ok) return response;
    const error = await response.json().then((body) => body.error, () => null);
    if (response.status !== 401) throw new ServerFault(response.status, error);
    await askForKey(key !== null);
  }
}

/** The JSON of a route: GET without a body, else POST. */
export async function ask(path, body, signal) {
  return (await send(path, body, signal)).json();
}

/** The text of a route. */
export async function askText(path, signal) {
  return (await send(path, undefined, signal)).text();
}

/** The events of a stream, until it is done. */
export async function* stream(path, body, signal) {
  const response = await send(path, { ...body, stream: true, stream_options: { include_usage: true } }, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new Error("the connection ended before the answer was complete");
      const events = (rest + value).split("\n\n");
      rest = events.pop();
      for (const event of events) {
        if (!event.startsWith("data: ")) continue;
        const data = event.slice(6);
        if (data === "[DONE]") return;
        const chunk = JSON.parse(data);
        if (chunk.error) throw new ServerFault(200, chunk.error);
        yield chunk;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
