// The service map: all Services of the node, with totals and what is wrong.

import { addressCell, addressOrder, endpointsCell, nameCell, statusCell, totals } from "./cells.js";
import { h, icon, number, plural, rate, spark, text } from "./dom.js";
import { Rates, length, readAt } from "./rates.js";
import { Table, compareText } from "./table.js";

// severities of a Service, worst first, with what the filter calls them.
const severities = [
  { key: "problem", name: "Problem", label: "Problems", count: (sum) => sum.problems },
  { key: "notice", name: "Notice", label: "Notices", count: (sum) => sum.notices },
  { key: "ok", name: "OK", label: "OK", count: (sum) => sum.services - sum.problems - sum.notices },
];
const rank = new Map(severities.map((s, i) => [s.key, i]));
const severityOf = (service) => severities.find((s) => s.name === service.severity).key;
const few = 4; // problems shown at first

export const key = (s) => `${s.namespace}/${s.name}`;
export const link = (s) => `#/${encodeURIComponent(s.namespace)}/${encodeURIComponent(s.name)}`;

export class Overview {
  title = "Services";
  path = "api/overview";

  constructor() {
    this.rates = new Rates();
    this.filter = "all";
    this.table = new Table({
      id: "services",
      label: "Services",
      columns: this.columns(),
      height: { wide: 44, narrow: 66 },
      sorted: { key: "name", direction: 1 },
      key,
      link,
      open: (s) => (location.hash = link(s)),
      empty: () => (this.all?.length ? "No Service is like that." : "There are no Services."),
    });
    this.search = h("input", {
      type: "search", id: "search", placeholder: "Name, namespace, address, port", autocomplete: "off", spellcheck: "false",
      "aria-label": "Search Services by name, namespace, address or port", "aria-controls": "services", "aria-keyshortcuts": "/",
      input: () => this.find(), keydown: (e) => this.searching(e),
    });
    this.count = h("p", { class: "count", role: "status" });
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Show only" });
    this.totals = new Totals();
    this.problems = new Problems();
    this.node = h(
      "div", { class: "overview" },
      h("h1", { class: "visually-hidden" }, "Services"),
      this.totals.node,
      this.problems.node,
      h("div", { class: "bar" }, h("div", { class: "search" }, icon("search"), this.search, h("kbd", { "aria-hidden": "true" }, "/")), this.chips, this.count),
      this.table.place,
    );
    this.makeChips();
  }

  columns() {
    const by = (value) => (a, b) => (value(a) ?? -1) - (value(b) ?? -1);
    const plain = (value) => (cell, s) => text(cell, value(s));
    return [
      { key: "name", label: "Service", compare: (a, b) => compareText(a.name, b.name), cell: nameCell },
      { key: "namespace", label: "Namespace", compare: (a, b) => compareText(a.namespace, b.namespace), cell: plain((s) => s.namespace) },
      { key: "address", label: "Address", compare: (a, b) => compareText(a.order, b.order), cell: (cell, s) => addressCell(cell, s, "none") },
      { key: "rate", label: "New/s", first: -1, compare: by((s) => s.rate), cell: plain((s) => rate(s.rate)) },
      { key: "active", label: "Active", first: -1, compare: by((s) => s.active), cell: plain((s) => number(s.active)) },
      { key: "connections", label: "So far", first: -1, compare: by((s) => s.connections), cell: plain((s) => number(s.connections)) },
      { key: "endpoints", label: "Endpoints", first: -1, compare: (a, b) => a.endpoints.used - b.endpoints.used || a.endpoints.all - b.endpoints.all, cell: endpointsCell },
      { key: "status", label: "Status", compare: (a, b) => rank.get(a.key) - rank.get(b.key) || compareText(a.state, b.state), cell: (cell, s) => statusCell(cell, s, s.state) },
    ];
  }

  makeChips() {
    const chip = (key, label, number) => {
      const count = h("span", { class: "n" });
      const node = h(
        "button", { type: "button", class: "chip", "data-key": key, click: () => this.only(key) },
        key === "all" ? null : icon(key), label, count,
      );
      return { key, node, count, number };
    };
    this.chipList = [chip("all", "All", (sum) => sum.services), ...severities.map((s) => chip(s.key, s.label, s.count))];
    this.chips.append(...this.chipList.map((c) => c.node));
    this.only("all");
  }

  only(filter) {
    this.filter = filter;
    for (const c of this.chipList) c.node.setAttribute("aria-pressed", c.key === filter);
    if (this.all) this.find();
  }

  enter() {
    this.table.attach();
    if (this.seeking) this.search.focus();
    else if (this.table.active !== null) {
      this.table.node.focus({ preventScroll: true });
      const at = this.table.at();
      if (at >= 0) this.table.activate(at);
    }
    this.seeking = false;
  }

  leave() {
    this.table.detach();
  }

  // select makes a Service the active one.
  select(namespace, name) {
    this.table.active = key({ namespace, name });
  }

  clear() {
    this.search.value = "";
    this.only("all");
    this.table.node.focus({ preventScroll: true });
  }

  press(k) {
    if (!["j", "k", "ArrowDown", "ArrowUp"].includes(k)) return false;
    this.table.node.focus({ preventScroll: true });
    return this.table.move(k);
  }

  searching(event) {
    if (event.key !== "ArrowDown" && event.key !== "Enter") return;
    event.preventDefault();
    this.table.node.focus({ preventScroll: true });
    if (this.table.rows.length) this.table.activate(0);
    if (event.key === "Enter" && this.table.rows.length === 1) this.table.open(this.table.rows[0]);
  }

  show(data) {
    const fresh = this.rates.take(readAt(data), new Map(data.services.map((s) => [key(s), s.connections])));
    this.all = data.services;
    for (const s of this.all) {
      s.rate = data.counted ? this.rates.of(key(s)) : null;
      if (!data.counted) s.active = s.connections = null;
      s.key = severityOf(s);
      s.order = addressOrder(s.addresses[0]);
      s.words = `${s.namespace}/${s.name} ${s.addresses.join(" ")}`.toLowerCase();
    }
    this.totals.show(data, this.all, this.rates, fresh);
    this.problems.show(data.problems);
    for (const c of this.chipList) text(c.count, number(c.number(data.summary)));
    this.find();
  }

  // find shows the Services that are asked for: each word must be in one.
  find() {
    if (!this.all) return;
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = this.all.filter(
      (s) => (this.filter === "all" || s.key === this.filter) && words.every((w) => s.words.includes(w)),
    );
    this.table.show(rows);
    const part = rows.length !== this.all.length;
    text(this.count, part ? `${number(rows.length)} of ${plural(this.all.length, "Service")}` : plural(rows.length, "Service"));
  }
}

// Totals are numbers of the whole node.
class Totals {
  constructor() {
    Object.assign(this, totals("this node", "Endpoints in use"));
  }

  show(data, all, rates, fresh) {
    const sum = (value) => all.reduce((n, s) => n + value(s), 0);
    const known = data.counted && all.some((s) => s.rate !== null);
    const total = known ? sum((s) => s.rate ?? 0) : null;
    if (fresh) rates.note("", total);
    text(this.values.rate, rate(total));
    text(this.values.active, data.counted ? number(sum((s) => s.active)) : "–");
    text(this.values.services, number(all.length));
    this.values.endpoints.replaceChildren(number(sum((s) => s.endpoints.used)), h("span", { class: "of" }, ` / ${number(sum((s) => s.endpoints.all))}`));
    const { problems, others } = data.summary;
    this.values.problems.replaceChildren(number(problems), h("span", { class: "of" }, others ? ` + ${plural(others, "other")}` : ""));
    this.node.querySelector(".card-problems").classList.toggle("is-bad", data.problems.length > 0);
    this.line.replaceChildren(data.counted ? spark(rates.history(""), length, 150, 28) : h("span", { class: "hint" }, "not counted here"));
  }
}

// Problems are what is wrong, with the Service it is about.
class Problems {
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
    this.show(this.given);
  }

  show(problems) {
    this.given = problems;
    this.node.hidden = problems.length === 0;
    text(this.title, plural(problems.length, "problem"));
    const shown = problems.slice(0, this.open ? 200 : few);
    this.more.hidden = problems.length <= few;
    text(this.more, this.open ? "Show fewer" : `Show ${problems.length > 200 ? "200 of them" : "all"}`);
    this.more.setAttribute("aria-expanded", Boolean(this.open));
    const now = JSON.stringify(shown);
    if (now === this.now) return; // whoever has the focus on one keeps it
    this.now = now;
    this.list.replaceChildren(...shown.map(problemItem));
  }
}

// problemItem is one problem in a list.
export function problemItem(p) {
  const object = p.name ? h("a", { href: link(p) }, p.object) : h("span", {}, p.object);
  return h("li", {}, h("span", { class: "object" }, object), h("span", { class: "reason" }, p.reason), h("span", { class: "words" }, p.text));
}
