// Problems: what is not plainly balanced, merged over all nodes.

import { h, icon, number, plural, text } from "./dom.js";
import { nodeLink } from "./nodes.js";

const few = 5; // shown at first
const most = 200; // shown at all

export const serviceLink = (s) => `#/service/${encodeURIComponent(s.namespace)}/${encodeURIComponent(s.name)}`;

// Problems are a list of them, a few at first, with their numbers in the title.
export class Problems {
  constructor() {
    this.list = h("ul", {});
    this.title = h("h2", { id: "problems-title" });
    this.more = h("button", { type: "button", class: "plain", click: () => this.toggle() });
    this.node = h(
      "section", { class: "problems", "aria-labelledby": "problems-title", hidden: true },
      h("div", { class: "problems-head" }, icon("problem"), this.title, this.more), this.list,
    );
  }

  toggle() {
    this.open = !this.open;
    this.show(this.given, this.total);
  }

  show(problems, total) {
    Object.assign(this, { given: problems, total });
    this.node.hidden = problems.length === 0;
    const bad = problems.filter((p) => p.severity === "Problem").length;
    const notices = problems.length - bad;
    this.node.classList.toggle("is-calm", bad === 0);
    text(this.title, [bad && plural(bad, "problem"), notices && plural(notices, "notice")].filter(Boolean).join(", "));
    const shown = problems.slice(0, this.open ? most : few);
    this.more.hidden = problems.length <= few;
    text(this.more, this.open ? "Show fewer" : `Show ${problems.length > most ? `${most} of them` : "all"}`);
    this.more.setAttribute("aria-expanded", Boolean(this.open));
    const now = JSON.stringify([shown, total]);
    if (now === this.now) return; // whoever has the focus on one keeps it
    this.now = now;
    this.list.replaceChildren(...shown.map((p) => problemItem(p, total)));
  }
}

// problemItem is one problem in a list; total is the number of nodes.
function problemItem(p, total) {
  const object = p.name ? h("a", { href: serviceLink(p) }, p.object) : p.object.startsWith("Node ") && p.count === 1 ? h("a", { href: nodeLink(p.nodes[0]) }, p.object) : h("span", {}, p.object);
  const kind = p.severity === "Problem" ? "problem" : "notice";
  const on = onNodes(p, total);
  return h(
    "li", { class: `is-${kind}` },
    h("span", { class: "object" }, object),
    h("span", { class: "reason" }, h("span", { class: "visually-hidden" }, `${kind}: `), p.reason),
    h("span", { class: "words" }, p.text, " ", p.field && h("code", { class: "field" }, p.field)),
    on && h("span", { class: "on" }, on),
  );
}

// onNodes returns on which nodes a problem is.
function onNodes(p, total) {
  if (total <= 1 || (p.object.startsWith("Node ") && p.count === 1)) return null;
  if (p.count === total && total > 1) return `on all ${number(total)} nodes`;
  const names = p.nodes.slice(0, 3).join(", ");
  return p.count > 3 ? `on ${number(p.count)} nodes: ${names}, …` : `on ${names}`;
}

// disagreement lists what some nodes know otherwise.
export const disagreement = (differences) => h(
  "section", { class: "problems differs", "aria-label": "Nodes that know it otherwise", hidden: !differences.length },
  h("div", { class: "problems-head" }, icon("problem"), h("h2", {}, "Nodes do not agree")),
  h("ul", {}, differences.map((d) => h("li", {}, h("span", { class: "object" }, h("a", { href: nodeLink(d.node) }, d.node)), h("span", { class: "words is-wide" }, d.text)))),
);
