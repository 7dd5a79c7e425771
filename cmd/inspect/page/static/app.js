// What is shown, and when: routes and polling.

import { h } from "./dom.js";
import { Feed } from "./feed.js";
import { byId, frame, showFreshness } from "./frame.js";
import { Overview } from "./overview.js";
import { Service } from "./service.js";

const content = byId("content");

// route is what the address asks for: #/ is the service map, #/shop/web one Service,
// and what follows a choice within it.
export function route(hash) {
  const parts = hash.replace(/^#\/?/, "").split("/");
  try {
    const [namespace, name, port, frontend] = parts.map(decodeURIComponent);
    return namespace && name ? { namespace, name, port, frontend } : {};
  } catch {
    return {}; // not an address that this page made
  }
}

const overview = new Overview();
let view = null;
const feed = new Feed(show);

// turn shows what the address asks for.
function turn() {
  const to = route(location.hash);
  const same = to.name !== undefined && view instanceof Service && view.is(to);
  if (!same) {
    view?.leave();
    view = to.name === undefined ? overview : new Service(to);
    content.replaceChildren(view.node);
    view.enter();
  }
  if (to.name !== undefined) view.choose(to);
  document.title = view.title + " · kube-vmap";
  feed.ask(view.path);
  show();
}

// show renders the last answer.
function show() {
  if (!view) return;
  if (feed.data && feed.data !== view.shown) {
    view.shown = feed.data;
    view.show(feed.data);
    where(feed.data);
  }
  freshness();
}

function where(data) {
  byId("where").replaceChildren(...[data.node, data.version].filter(Boolean).map((t) => h("span", {}, t)));
}

// freshness shows how current the shown state is.
function freshness() {
  const early = feed.data && !feed.data.ready ? "The first state is not programmed yet: some of it may be incomplete." : null;
  const kernel = feed.data?.source === "kernel" ? "kube-vmap does not run: these are the tables in the kernel." : null;
  showFreshness(feed, kernel ?? early);
}

// back goes to the service map, or clears what keeps Services out of it.
function back() {
  if (view === overview) {
    overview.clear();
    return;
  }
  overview.select(view.namespace, view.name);
  location.hash = "#/";
}

frame({
  feed,
  back,
  commands: { "/": () => (view === overview ? overview.search.focus() : ((overview.seeking = true), back())) },
  press: (key) => view.press(key),
});
addEventListener("hashchange", turn);
setInterval(freshness, 1000);
turn();
