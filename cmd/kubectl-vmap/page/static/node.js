// One node: its state, and the Services that its clients use.

import { nameCell, statusCell } from "./cells.js";
import { h, icon, number, plural, rate, spark, text } from "./dom.js";
import { stateOf } from "./nodes.js";
import { problemItem, serviceLink } from "./problems.js";
import { Rates, length } from "./rates.js";
import { Table, compareText } from "./table.js";

const severityKeys = { Problem: "problem", Notice: "notice", OK: "ok" };

export class NodeView {
  constructor({ name }) {
    Object.assign(this, { name, title: name, rates: new Rates() });
    this.path = `api/node?name=${encodeURIComponent(name)}`;
    this.heading = h("h1", { tabindex: "-1" }, h("span", { class: "of" }, "Node "), name);
    this.glance = h("div", { class: "glance" });
    this.about = h("p", { class: "about" });
    this.problems = h("ul", {});
    this.problemBox = h("section", { class: "problems", "aria-label": "Problems on this node", hidden: true }, this.problems);
    const by = (value) => (a, b) => (value(a) ?? -1) - (value(b) ?? -1);
    this.table = new Table({
      id: "node-services", label: "Services of this node's clients", height: { wide: 44, narrow: 66 }, sorted: { key: "rate", direction: -1 },
      key: (s) => `${s.namespace}/${s.name}`, link: serviceLink, open: (s) => (location.hash = serviceLink(s)), empty: () => "No Service has connections here.",
      columns: [
        { key: "name", label: "Service", compare: (a, b) => compareText(a.name, b.name), cell: nameCell },
        { key: "rate", label: "New/s", first: -1, compare: by((s) => s.rate), cell: (cell, s) => text(cell, rate(s.rate)) },
        { key: "active", label: "Active", first: -1, compare: by((s) => s.active), cell: (cell, s) => text(cell, number(s.active)) },
        { key: "connections", label: "So far", first: -1, compare: by((s) => s.connections), cell: (cell, s) => text(cell, number(s.connections)) },
        { key: "status", label: "Status", compare: (a, b) => compareText(a.state, b.state), cell: (cell, s) => statusCell(cell, s, s.state) },
      ],
    });
    this.node = h(
      "article", { class: "service", "aria-label": `Node ${name}` },
      h("a", { class: "back", href: "#/" }, icon("back"), "Map"), h("div", { class: "service-head" }, this.heading, this.glance), this.about,
      this.problemBox, h("div", { class: "port" }, h("h2", {}, "Services that its clients use"), this.table.place),
    );
  }

  is({ kind, name }) {
    return kind === "node" && this.name === name;
  }

  enter() {
    scrollTo(0, 0);
    this.table.attach();
    this.heading.focus({ preventScroll: true });
  }

  leave() {
    this.table.detach();
  }

  press(k) {
    if (!["j", "k", "ArrowDown", "ArrowUp"].includes(k)) return false;
    this.table.node.focus({ preventScroll: true });
    return this.table.move(k);
  }

  show(data) {
    const n = data.node;
    if (this.rates.take(Date.parse(data.time), new Map())) this.rates.note("", n.rate);
    const item = (value, words) => h("p", {}, h("strong", {}, value), ` ${words}`);
    this.glance.replaceChildren(spark(this.rates.history(""), length, 110, 26), item(rate(n.rate), "new/s"), item(number(n.active), "active"));
    const at = n.at ? `, last answer ${Math.max(0, Math.round((Date.parse(data.time) - Date.parse(n.at)) / 1000))} s ago` : "";
    text(this.about, `${stateOf(n).word}${n.text ? `: ${n.text}` : ""}${n.version ? `. kube-vmap ${n.version}` : ""}${at}. It has ${plural(n.services, "Service")}.`);
    this.problemBox.hidden = !data.problems.length;
    this.problems.replaceChildren(...data.problems.slice(0, 200).map((p) => problemItem(p, 1)));
    for (const s of data.services) s.key = severityKeys[s.severity] ?? "ok";
    this.table.show(data.services);
  }
}
