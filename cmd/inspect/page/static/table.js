// A table of Services: the first rows in order. Rows are links, among which the keyboard moves the
// focus; for assistive technology it is a grid.

import { h, icon, number, text } from "./dom.js";

const most = 100; // rows shown

export class Table {
  // columns have key, label, and cell(node, row); those that sort have compare(a, b),
  // and first, which is -1 if the highest comes first. key(row) identifies a row, link(row) is
  // where it leads, empty() why there are none, and others says how to see more than the first.
  constructor({ id, label, columns, key, link, empty, others, sorted }) {
    Object.assign(this, { columns, key, link, empty, others, sorted, nodes: new Map(), rows: [], given: [] });
    const sorting = columns.filter((c) => c.compare);
    this.head = h("div", { class: "row", role: "row" }, columns.map((c) => this.header(c)));
    this.body = h("div", { class: "rows", role: "rowgroup" });
    this.note = h("p", { class: "empty" });
    this.choice = h("select", { change: (e) => this.sortBy(e.target.value, true) }, sorting.map((c) => h("option", { value: c.key }, c.label)));
    this.node = h("div", { class: `table table-${id}`, id, role: "grid", "aria-label": label, "aria-readonly": "true" }, h("div", { class: "head", role: "rowgroup" }, this.head), this.body);
    // The choice is for narrow screens, where there is no place for headers.
    this.place = h("div", { class: "table-place" }, h("label", { class: "sorter" }, h("span", {}, "Sort by"), this.choice), this.node, this.note);
  }

  header({ key, label, compare }) {
    const sort = () => h("button", { type: "button", class: "sort", click: () => this.sortBy(key) }, h("span", {}, label), h("span", { class: "arrow" }));
    return h("div", { class: `cell c-${key}`, role: "columnheader" }, compare ? sort() : label);
  }

  sortBy(key, afresh = false) {
    const first = this.columns.find((c) => c.key === key).first ?? 1;
    const same = this.sorted.key === key && !afresh;
    this.sorted = { key, direction: same ? -this.sorted.direction : first };
    this.show(this.given);
  }

  // show shows other rows, or the same ones with other values. Whoever has the focus on a row
  // keeps it.
  show(rows) {
    this.given = rows;
    const { key, direction } = this.sorted;
    const { compare } = this.columns.find((c) => c.key === key);
    this.rows = rows.slice().sort((a, b) => direction * compare(a, b) || compareText(this.key(a), this.key(b)));
    const before = this.nodes;
    const shown = this.rows.slice(0, most);
    this.nodes = new Map(shown.map((r) => [this.key(r), before.get(this.key(r)) ?? this.row(r)]));
    const nodes = [...this.nodes.values()];
    if (nodes.length !== this.body.children.length || nodes.some((n, i) => n !== this.body.children[i])) {
      const focused = document.activeElement;
      this.body.replaceChildren(...nodes);
      if (this.body.contains(focused)) focused.focus({ preventScroll: true });
    }
    if (!nodes.some((n) => n.tabIndex === 0) && nodes.length) nodes[0].tabIndex = 0; // Tab reaches one row
    this.draw();
    this.mark();
    this.note.hidden = rows.length > 0 && rows.length <= most;
    text(this.note, rows.length ? `The first ${most} of ${number(rows.length)}: ${this.others}.` : this.empty());
  }

  row(row) {
    const cells = this.columns.map((c) => h("div", { class: `cell c-${c.key}`, role: "gridcell" }));
    return Object.assign(h("a", { class: "row", role: "row", tabindex: "-1", href: this.link(row) }, cells), { cells });
  }

  // draw fills the cells again, whose values may have changed.
  draw() {
    for (const r of this.rows.slice(0, most)) {
      const { cells } = this.nodes.get(this.key(r));
      this.columns.forEach((c, i) => c.cell(cells[i], r));
    }
  }

  // mark marks the sorted column.
  mark() {
    const { key, direction } = this.sorted;
    this.columns.forEach((c, i) => {
      const node = this.head.children[i];
      if (!c.compare) return;
      if (c.key === key) node.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      else node.removeAttribute("aria-sort");
      node.querySelector(".arrow").replaceChildren(...(c.key === key ? [icon(direction > 0 ? "up" : "down")] : []));
    });
    this.choice.value = key;
  }

  // inSight returns the rows near what is in sight.
  inSight() {
    const near = (node) => ((box) => box.bottom > -300 && box.top < innerHeight + 300)(node.getBoundingClientRect());
    return this.rows?.filter((r) => this.nodes.has(this.key(r)) && near(this.nodes.get(this.key(r)))) ?? [];
  }

  // move moves the focus among the rows for a key; it returns false for other keys.
  move(key) {
    const rows = [...this.body.children];
    const at = rows.indexOf(document.activeElement);
    const to = { j: at + 1, ArrowDown: at + 1, k: at - 1, ArrowUp: at - 1, ...(at < 0 ? {} : { Home: 0, End: rows.length - 1 }) }[key];
    if (to === undefined) return false;
    const next = rows[Math.min(Math.max(to, 0), rows.length - 1)];
    for (const r of rows) r.tabIndex = r === next ? 0 : -1;
    next?.focus();
    return true;
  }
}

// compareText orders texts by code units, which takes a tenth of what languages take.
export const compareText = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
