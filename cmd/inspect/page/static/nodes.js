// The nodes: cards if there are few of them, else a tile for each.

import { h, icon, number, plural, rate, text } from "./dom.js";
import { rateClass, legend, rateWords } from "./colours.js";
import { History } from "./history.js";

const fewCards = 12;
export const nodeLink = (name) => `#/node/${encodeURIComponent(name)}`;

// states of a node, with the icon and the word.
const states = {
  ok: { icon: "ok", word: "OK" },
  problem: { icon: "problem", word: "Problems" },
  silent: { icon: "reject", word: "No answer" },
  missing: { icon: "drop", word: "No kube-vmap" },
  waiting: { icon: "none", word: "Not asked yet" },
};
export const stateOf = (n) => (Object.hasOwn(states, n.state) ? states[n.state] : states.waiting);
const isBad = (n) => n.state === "silent" || n.state === "missing";

// describe returns a node in words.
const describe = (n) => {
  const what = isBad(n) || n.state === "waiting" ? stateOf(n).word.toLowerCase() : `${rateWords(n.rate)}, ${number(n.active)} active`;
  return n.problems && !isBad(n) ? `${n.name}: ${what}, ${plural(n.problems, "problem")}` : `${n.name}: ${what}`;
};

export class Nodes {
  constructor() {
    this.title = h("h2", { id: "nodes-title" }, "Nodes");
    this.pace = h("p", { class: "count", "aria-hidden": "true" });
    this.place = h("div", { role: "group", "aria-labelledby": "nodes-title", keydown: (e) => this.pressed(e), pointerover: (e) => this.name(e.target), focusin: (e) => this.name(e.target) });
    this.node = h("section", { class: "nodes", "aria-labelledby": "nodes-title" }, h("div", { class: "nodes-head" }, this.title, legend(), this.pace), this.place);
    this.active = null; // name of the node that Tab reaches
    this.histories = new Map(); // by name
  }

  show(data) {
    const { nodes } = data;
    this.nodes = nodes;
    const few = nodes.length <= fewCards;
    const answering = nodes.filter((n) => n.state === "ok" || n.state === "problem").length;
    text(this.title, answering === nodes.length ? plural(nodes.length, "node") : `${number(answering)} of ${plural(nodes.length, "node")} answer`);
    this.place.className = few ? "cards" : `tiles${nodes.length > 2500 ? " are-small" : ""}`;
    if (!nodes.some((n) => n.name === this.active)) this.active = nodes[0]?.name ?? null;
    const shape = `${few} ${data.generation}`;
    if (shape !== this.shape) {
      this.shape = shape;
      this.place.replaceChildren(...nodes.map((n) => h("a", { href: nodeLink(n.name), "data-name": n.name })));
    }
    nodes.forEach((n, i) => {
      const node = this.place.children[i];
      node.tabIndex = few || n.name === this.active ? 0 : -1;
      if (few) fillCard(node, n, this.history(n.name).note(data.time, n.rate));
      else fillTile(node, n);
    });
    text(this.pace, `each asked every ${data.every < 60 ? `${Math.round(data.every)} s` : `${Math.round(data.every / 6) / 10} min`}`);
    this.name(this.place.querySelector(".tile:hover, .tile:focus"));
  }

  history(name) {
    if (!this.histories.has(name)) this.histories.set(name, new History());
    return this.histories.get(name);
  }

  // name describes the tile under the pointer, or with the focus.
  name(element) {
    const n = this.nodes.find((x) => x.name === element?.closest(".tile")?.dataset.name);
    if (n) text(this.pace, describe(n));
  }

  // pressed moves among tiles: the arrows go to the neighbours in sight.
  pressed(event) {
    if (!this.place.classList.contains("tiles") || event.ctrlKey || event.altKey || event.metaKey) return;
    const all = [...this.place.children];
    const at = all.indexOf(document.activeElement);
    if (at < 0) return;
    const top = all[0].offsetTop;
    const columns = Math.max(1, all.findIndex((e) => e.offsetTop > top));
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const to = all[Math.min(Math.max(at + step, 0), all.length - 1)];
    all[at].tabIndex = -1;
    to.tabIndex = 0;
    this.active = to.dataset.name;
    to.focus();
  }
}

// fillCard shows a node of few.
function fillCard(node, n, history) {
  const { icon: kind, word } = stateOf(n);
  const note = isBad(n) ? `${word}: ${n.text}` : n.problems ? `${plural(n.problems, "problem")} here` : plural(n.services, "Service");
  node.className = "node-card";
  node.dataset.state = n.state;
  node.replaceChildren(
    h("span", { class: "node-name" }, h("span", { class: "node-state" }, icon(kind), h("span", { class: "visually-hidden" }, `${word}: `)), h("b", {}, n.name), h("span", { class: "node-version" }, n.version)),
    h("span", { class: "node-numbers" }, h("strong", {}, rate(n.rate)), " new/s", h("span", { class: "node-sep" }, " · "), h("span", {}, `${number(n.active)} active`)),
    h("span", { class: "node-line" }, !isBad(n) && history.draw(110, 24)), h("span", { class: "node-note" }, note),
  );
}

// fillTile shows a node of many.
function fillTile(node, n) {
  const name = `tile ${isBad(n) || n.state === "waiting" ? "" : rateClass(n.rate)} is-${n.state}`;
  if (node.className !== name) node.className = name;
  node.setAttribute("aria-label", describe(n));
}
