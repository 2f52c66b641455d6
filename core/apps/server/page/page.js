// The page: shows the view that the address names.

import { ChatView } from "/page/chat_view.js";
import { EditorView } from "/page/editor_view.js";
import { element, failure } from "/page/element.js";
import { LensView } from "/page/lens_view.js";
import { StatusView } from "/page/status_view.js";
import { ZooView } from "/page/zoo_view.js";

const VIEWS = { chat: new ChatView(), zoo: new ZooView(), lens: new LensView(), editor: new EditorView(), status: new StatusView() };

const main = document.getElementById("main");
let shown = null;

async function show() {
  const [name, ...rest] = location.hash.slice(1).split("/").map(decodeURIComponent);
  const known = Object.hasOwn(VIEWS, name) ? name : "chat";
  for (const link of document.querySelectorAll("#views a")) {
    if (link.hash === `#${known}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${known[0].toUpperCase()}${known.slice(1)} \u00b7 Menagerie`;
  shown?.unmount?.();
  shown = VIEWS[known];
  // A view that is left before it is complete goes on in a place that is not shown.
  const place = element("div", { class: "place" });
  main.replaceChildren(place);
  try {
    await shown.mount(place, rest);
  } catch (error) {
    place.replaceChildren(failure(error));
  }
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", show);
show();
