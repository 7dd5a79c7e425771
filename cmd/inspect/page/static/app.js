// What is shown, and when: routes and polling.

import { h, plural } from "./dom.js";
import { Feed, request } from "./feed.js";
import { byId, frame, showFreshness } from "./frame.js";
import { ClusterMap } from "./map.js";
import { NodeView } from "./node.js";
import { ServiceView } from "./service.js";
import { PathView } from "./path.js";

const content = byId("content");

// route is what the address asks for: #/ is the map, #/service/shop/web a Service,
// #/node/node-1 a node, #/path?from=...&to=... the path of a packet.
function route(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  try {
    const [kind, ...names] = path.split("/").map(decodeURIComponent);
    if (kind === "service" && names.length === 2) return { kind, namespace: names[0], name: names[1] };
    if (kind === "node" && names[0]) return { kind, name: names[0] };
    if (kind === "path") return { kind, ...Object.fromEntries(new URLSearchParams(query)) };
  } catch {
    // Not an address that this page made.
  }
  return { kind: "map" };
}

const map = new ClusterMap();
const path = new PathView();
let view = null;
let cluster = null; // the last answer about it
const feed = new Feed(show);

const viewOf = (to) => {
  if (to.kind === "service") return view?.is?.(to) ? view : new ServiceView(to);
  if (to.kind === "node") return view?.is?.(to) ? view : new NodeView(to);
  return to.kind === "path" ? path : map;
};

// turn shows what the address asks for.
function turn() {
  const to = route(location.hash);
  const next = viewOf(to);
  if (next !== view) {
    view?.leave?.();
    view = next;
    content.replaceChildren(view.node);
    view.enter();
  }
  view.choose?.(to);
  for (const a of document.querySelectorAll(".nav a")) {
    if (a.dataset.view === (to.kind === "path" ? "path" : "map")) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
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
    if (feed.path === "api/overview") where((cluster = feed.data));
  }
  freshness();
}

function where(data) {
  const [first] = data.nodes;
  const words = [data.context, first && plural(data.nodes.length, "node")];
  byId("where").replaceChildren(...words.filter(Boolean).map((t) => h("span", {}, t)));
}

function freshness() {
  const waiting = cluster?.nodes.filter((n) => n.state === "waiting").length;
  const unlisted = cluster?.error ? `The nodes cannot be listed: ${cluster.error}` : null;
  const early = waiting ? `${plural(waiting, "node")} of ${cluster.nodes.length} not asked yet.` : null;
  showFreshness(feed, view === map ? unlisted ?? early : unlisted);
}

// back goes to the map, or clears what keeps Services out of it.
function back() {
  if (view === map) {
    map.clear();
    return;
  }
  map.select(view);
  location.hash = "#/";
}

frame({
  feed,
  back,
  commands: {
    "/": () => (view === map ? map.search.focus() : ((map.seeking = true), (location.hash = "#/"))),
    f: () => (location.hash = view.packet ?? "#/path"),
  },
  press: (key) => view.press?.(key) ?? false,
});
addEventListener("hashchange", turn);
setInterval(freshness, 1000);
turn();
if (view.path !== "api/overview") request("api/overview").then((data) => where((cluster ??= data)), () => {}); // the feed shows errors
