// What is shown, and when: routes, keys, polling, theme.

import { clock, h, icon, text } from "./dom.js";
import { Feed } from "./feed.js";
import { Overview } from "./overview.js";
import { Service } from "./service.js";

const byId = (id) => document.getElementById(id);
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
  showFreshness();
}

function where(data) {
  byId("where").replaceChildren(...[data.node, data.version].filter(Boolean).map((t) => h("span", {}, t)));
}

// showFreshness shows how current the shown state is.
function showFreshness() {
  const state = feed.state();
  const since = feed.at ? clock(feed.at) : null;
  byId("live").dataset.state = state;
  text(byId("live-text"), { live: "Live", loading: "Loading", paused: "Paused", old: "Stale", gone: "No answer", failing: "No state" }[state]);
  const shown = since ? `What is shown is from ${since}.` : "There is nothing to show yet.";
  const outdated = {
    gone: `The server does not answer. ${shown} Trying again every 2 seconds.`,
    failing: `The server has no state to show: ${feed.error?.message}. ${shown}`,
    old: `The state does not change. It is from ${since && clock(new Date(feed.data.time))}, by the clock of the server.`,
  }[state];
  const early = feed.data && !feed.data.ready ? "The first state is not programmed yet: some of it may be incomplete." : null;
  const kernel = feed.data?.source === "kernel" ? "kube-vmap does not run: these are the tables in the kernel." : null;
  const words = outdated ?? kernel ?? early;
  byId("banner").hidden = !words;
  text(byId("banner"), words ?? "");
  byId("banner").dataset.state = outdated ? state : "note";
  document.body.classList.toggle("is-old", Boolean(outdated));
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

const themes = ["auto", "light", "dark"];
const themeWords = { auto: "As the system", light: "Light", dark: "Dark" };

function theme() {
  return document.documentElement.dataset.theme ?? "auto";
}

function showTheme() {
  const label = `Theme: ${themeWords[theme()].toLowerCase()}`;
  byId("theme").replaceChildren(icon(theme()));
  byId("theme").setAttribute("aria-label", label);
  byId("theme").setAttribute("title", `${label} (t)`);
}

function nextTheme() {
  const next = themes[(themes.indexOf(theme()) + 1) % themes.length];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    if (next === "auto") localStorage.removeItem("kube-vmap-theme");
    else localStorage.setItem("kube-vmap-theme", next);
  } catch {
    // Then it is forgotten with the page.
  }
  showTheme();
}

const commands = {
  "/": () => (view === overview ? overview.search.focus() : ((overview.seeking = true), back())),
  "?": () => byId("keys").showModal(),
  t: nextTheme,
  p: () => feed.pause(!feed.paused),
};

function pressed(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || byId("keys").open || event.defaultPrevented) return;
  if (event.key === "Escape") {
    back();
    return;
  }
  if (event.target.closest?.("input, select, textarea")) return;
  const command = commands[event.key];
  if (command) {
    event.preventDefault();
    command();
  } else if (!event.target.closest?.("[role='grid'], [role='tablist']") && view.press(event.key)) {
    event.preventDefault();
  }
}

byId("theme").addEventListener("click", nextTheme);
byId("help").addEventListener("click", commands["?"]);
addEventListener("keydown", pressed);
addEventListener("hashchange", turn);
setInterval(showFreshness, 1000);
showTheme();
turn();
