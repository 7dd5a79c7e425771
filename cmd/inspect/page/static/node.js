// One node: its state, and the Services that its clients use.

import { columns, complete } from "./cells.js";
import { glanceItem as item, h, icon, number, plural, rate, text } from "./dom.js";
import { stateOf } from "./nodes.js";
import { Problems, serviceLink } from "./problems.js";
import { History } from "./history.js";
import { Table } from "./table.js";

export class NodeView {
  constructor({ name }) {
    Object.assign(this, { name, title: name, history: new History() });
    this.path = `api/node?name=${encodeURIComponent(name)}`;
    this.heading = h("h1", { tabindex: "-1" }, h("span", { class: "of" }, "Node "), name);
    this.glance = h("div", { class: "glance" });
    this.about = h("p", { class: "about" });
    this.problems = new Problems();
    const all = columns((s) => s.state);
    this.table = new Table({
      id: "node-services", label: "Services of this node's clients", sorted: { key: "rate", direction: -1 },
      key: (s) => `${s.namespace}/${s.name}`, link: serviceLink, empty: () => "No Service has connections here.",
      others: "sort them to see others",
      columns: [all.name, all.rate, all.active, all.connections, all.status],
    });
    this.node = h(
      "article", { class: "service", "aria-label": `Node ${name}` },
      h("a", { class: "back", href: "#/" }, icon("back"), "Map"), h("div", { class: "service-head" }, this.heading, this.glance), this.about,
      this.problems.node, h("div", { class: "port" }, h("h2", {}, "Services that its clients use"), this.table.place),
    );
  }

  is({ kind, name }) {
    return kind === "node" && this.name === name;
  }

  enter() {
    scrollTo(0, 0);
    this.heading.focus({ preventScroll: true });
  }

  press = (key) => this.table.move(key);

  show(data) {
    const n = data.node;
    this.glance.replaceChildren(this.history.note(data.time, n.rate).draw(110, 26), item(rate(n.rate), "new/s"), item(number(n.active), "active"));
    const at = n.at ? `, last answer ${Math.max(0, Math.round((Date.parse(data.time) - Date.parse(n.at)) / 1000))} s ago` : "";
    text(this.about, `${stateOf(n).word}${n.text ? `: ${n.text}` : ""}${n.version ? `. kube-vmap ${n.version}` : ""}${at}. It has ${plural(n.services, "Service")}.`);
    this.problems.show(data.problems, 1);
    data.services.forEach(complete);
    this.table.show(data.services);
  }
}
