// The map: all nodes, and all Services on them.

import { columns, complete, severities } from "./cells.js";
import { h, icon, number, plural, rate, text } from "./dom.js";
import { Nodes, nodeLink } from "./nodes.js";
import { Problems, serviceLink } from "./problems.js";
import { History } from "./history.js";
import { fewNodes, fillNodeCells, pointed } from "./servicecells.js";
import { Table } from "./table.js";
import { request } from "./feed.js";

const keyOf = (s) => `${s.namespace}/${s.name}`;

export class ClusterMap {
  title = "Map";
  path = "api/overview";

  constructor() {
    this.filter = "all";
    this.rows = new Map(); // by Service: what is known of it on each node
    this.nodeList = [];
    this.table = new Table({
      id: "services", label: "Services on nodes", columns: this.columns(),
      sorted: { key: "rate", direction: -1 }, key: keyOf, link: serviceLink,
      empty: () => (this.all?.length ? "No Service is like that." : "No node has listed Services yet."),
      others: "search for others, or sort them",
    });
    this.table.node.addEventListener("pointermove", (e) => pointed(e, this.nodeList));
    this.search = h("input", {
      type: "search", id: "search", placeholder: "Name, namespace, address, port", autocomplete: "off", spellcheck: "false",
      "aria-label": "Search Services by name, namespace, address or port", "aria-controls": "services", "aria-keyshortcuts": "/",
      input: () => this.find(), keydown: (e) => this.searching(e),
    });
    this.count = h("p", { class: "count", role: "status" });
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Show only" });
    this.totals = new Totals();
    this.nodes = new Nodes();
    this.problems = new Problems();
    this.node = h(
      "div", { class: "overview" },
      h("h1", { class: "visually-hidden" }, "Nodes and Services"),
      this.totals.node, this.nodes.node, this.problems.node,
      h("div", { class: "bar" }, h("div", { class: "search" }, icon("search"), this.search, h("kbd", { "aria-hidden": "true" }, "/")), this.chips, this.count),
      this.table.place,
    );
    this.makeChips();
  }

  columns() {
    const all = columns((s) => stateWord(s, this.nodeList.length));
    const nodes = { key: "nodes", label: "New connections on each node", cell: (cell, s) => fillNodeCells(cell, this.rows.get(keyOf(s)), this.nodeList) };
    return [all.name, all.address, nodes, all.rate, all.active, all.endpoints, all.status];
  }

  makeChips() {
    const chip = (key, label) => {
      const count = h("span", { class: "n" });
      const node = h("button", { type: "button", class: "chip", "data-key": key, click: () => this.only(key) }, key === "all" ? null : icon(key), label, count);
      return { key, node, count };
    };
    this.chipList = [chip("all", "All"), ...severities.map((s) => chip(s.key, s.label))];
    this.chips.append(...this.chipList.map((c) => c.node));
    this.only("all");
  }

  only(filter) {
    this.filter = filter;
    for (const c of this.chipList) c.node.setAttribute("aria-pressed", c.key === filter);
    if (this.all) this.find();
  }

  // enter goes back to the Service that was looked at.
  enter() {
    this.timer = setInterval(() => this.askRows(), 2000);
    if (this.seeking) this.search.focus();
    else this.table.nodes.get(this.chosen)?.focus();
    this.seeking = false;
  }

  leave() {
    clearInterval(this.timer);
  }

  // select makes a Service the one to go back to.
  select(view) {
    if (view.namespace) this.chosen = keyOf(view);
  }

  clear() {
    this.search.value = "";
    this.only("all");
    this.search.blur();
  }

  press = (key) => !document.activeElement?.closest(".tiles") && this.table.move(key);

  searching(event) {
    if (event.key !== "ArrowDown" && event.key !== "Enter") return;
    event.preventDefault();
    const first = this.table.body.firstChild;
    if (event.key === "Enter" && this.table.rows.length === 1) first.click();
    else first?.focus();
  }

  show(data) {
    if (data.generation !== this.generation) this.rows.clear();
    this.generation = data.generation;
    this.nodeList = data.nodes;
    this.header();
    this.all = data.services;
    const counts = new Map(severities.map((s) => [s.key, 0]));
    for (const s of this.all) {
      complete(s);
      counts.set(s.key, counts.get(s.key) + 1);
    }
    counts.set("all", this.all.length);
    this.totals.show(data);
    this.nodes.show(data);
    this.problems.show(data.problems, data.nodes.length);
    for (const c of this.chipList) text(c.count, number(counts.get(c.key)));
    this.find();
  }

  // header names the nodes above their numbers, if there are few.
  header() {
    const cell = this.table.node.querySelector(".head .c-nodes");
    const few = this.nodeList.length <= fewNodes;
    const shape = few ? this.nodeList.map((n) => n.name).join() : String(this.nodeList.length);
    if (cell.shape === shape) return;
    cell.shape = shape;
    cell.classList.toggle("is-few", few);
    this.table.node.classList.toggle("has-few", few);
    const [first, last] = [this.nodeList[0]?.name, this.nodeList.at(-1)?.name];
    cell.replaceChildren(...(few
      ? this.nodeList.map((n) => h("span", { class: "num" }, h("a", { href: nodeLink(n.name), tabindex: "-1" }, n.name)))
      : [h("span", { class: "ends" }, h("span", {}, `← ${first}`), h("span", {}, `new connections on ${number(this.nodeList.length)} nodes`), h("span", {}, `${last} →`))]));
  }

  // find shows the Services that are asked for: each word must be in one.
  find() {
    if (!this.all) return;
    const search = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = this.all.filter((s) => (this.filter === "all" || s.key === this.filter) && search.every((w) => s.words.includes(w)));
    this.table.show(rows);
    const part = rows.length !== this.all.length;
    text(this.count, part ? `${number(rows.length)} of ${plural(this.all.length, "Service")}` : plural(rows.length, "Service"));
    if (!this.rows.size) this.askRows();
  }

  // askRows asks what the nodes have of the Services in sight.
  async askRows() {
    const services = this.table.inSight().slice(0, 150);
    if (document.hidden || !this.nodeList.length || !services.length) return;
    try {
      const data = await request(`api/rows?${services.map((s) => `service=${encodeURIComponent(keyOf(s))}`).join("&")}`);
      if (data.generation !== this.generation) return;
      for (const row of data.rows) this.rows.set(keyOf(row), row);
      this.table.draw();
    } catch {
      // The feed shows that the server does not answer.
    }
  }
}

// stateWord returns the state of a Service, and on how many nodes if not on all.
const stateWord = (s, total) => (s.bad && total > 1 && s.bad < total ? `${s.state} on ${number(s.bad)}` : s.state);

// Totals are numbers of the whole cluster.
class Totals {
  node = h("dl", { class: "totals", "aria-label": "Totals" });
  history = new History();

  show(data) {
    const sum = (key) => ((known) => (known.length ? known.reduce((n, v) => n + v, 0) : null))(data.nodes.map((n) => n[key]).filter((v) => v !== null));
    const answering = data.nodes.filter((n) => n.state === "ok" || n.state === "problem").length;
    const bad = data.problems.filter((p) => p.severity === "Problem").length;
    const notices = data.problems.length - bad;
    const of = (words) => h("span", { class: "of" }, words);
    const card = (key, label, value, more) => h("div", { class: `card card-${key}` }, h("dt", {}, label), h("dd", {}, value), more);
    this.node.replaceChildren(
      card("rate", "New connections per second", rate(sum("rate")), h("div", { class: "line" }, this.history.note(data.time, sum("rate")).draw(150, 28))),
      card("active", "Active connections", number(sum("active"))), card("services", "Services", number(data.services.length)),
      card("nodes", "Nodes that answer", [number(answering), of(` / ${number(data.nodes.length)}`)]),
      card(`problems${bad ? " is-bad" : ""}`, "Problems", [number(bad), of(notices ? ` + ${plural(notices, "notice")}` : "")]),
    );
  }
}
